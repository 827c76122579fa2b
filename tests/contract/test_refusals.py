"""Impossible parameters are refused by name."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from service.encodings.family import ComposedFamily, Family
from service.encodings.registry import FAMILIES
from service.encodings.transforms import TransformFamily
from tests.client import Client

REFUSALS = tomllib.loads(Path(__file__).with_name("refusals.toml").read_text("utf-8"))
FAMILY_OF = {family.path: family for family in FAMILIES.values()}


def body_of(family: type[Family] | None) -> dict[str, Any] | None:
    """Return the arrays that are needed, as JSON; None where nothing is sent."""
    if family is not None and issubclass(family, TransformFamily):
        return {"x": [[0.5] * 8] * 4}
    if family is None or not issubclass(family, ComposedFamily):
        return None
    if not family.needs_arrays:
        return {}
    required = [known for known in family.inputs if known.is_required]
    return {known.name: known.example for known in required or family.inputs[:1]}


@pytest.mark.parametrize(
    ("path", "query", "parameter"),
    [
        (path, query, parameter)
        for path, refused in REFUSALS.items()
        for query, parameter in refused.items()
    ],
)
def test_impossible_parameter_is_named_in_the_problem(
    client: Client, path: str, query: str, parameter: str
) -> None:
    url, body = f"{path}?{query}", body_of(FAMILY_OF.get(path))

    response = client.get(url) if body is None else client.post(url, json=body)

    assert response.status_code == 422, response.text
    problem = response.json()
    assert problem["type"] == "urn:posref:problem:invalid-parameters"
    assert [error["parameter"] for error in problem["errors"]] == [parameter]


@pytest.mark.parametrize(
    ("path", "query", "hint"),
    [
        ("/rope/apply", "pack=half", "did you mean layout?"),
        ("/rope/apply", "seq_len=4", "leave it out: the rows of the array are the positions"),
        ("/rope/apply", "x_dtype=float32", "a body of application/octet-stream has dtype"),
        ("/encoding/apply", "dtype=float32", "the body is JSON: leave it out"),
        ("/rope", "seq_len=4&head_dim=8&layout=half", "did you mean pack?"),
        ("/rope", "seq_len=4&head_dim=8&pack=hf", "did you mean pack=half? pack must be 'pair'"),
        ("/rope", "seq_len=4&head_dim=8&dtype=%3Cf4", "did you mean dtype=float32? dtype must be"),
    ],
)
def test_a_problem_says_what_is_likely_meant(
    client: Client, path: str, query: str, hint: str
) -> None:
    url, body = f"{path}?{query}", body_of(FAMILY_OF.get(path))

    response = client.get(url) if body is None else client.post(url, json=body)

    assert response.status_code == 422
    assert hint in response.json()["detail"]


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        ("seq_len=", "seq_len must be an integer: digits, such as 4 or -4"),
        (
            "positions=",
            "positions must be a list of integers and ranges start:stop[:step], not empty",
        ),
        ("positions=1,,2", ", and an item is empty"),
    ],
)
def test_a_problem_says_which_rule_an_empty_value_breaks(
    client: Client, query: str, rule: str
) -> None:
    response = client.get(f"/rope?head_dim=8&{query}")

    assert response.status_code == 422
    assert response.json()["detail"].endswith(rule)


def test_every_family_has_a_refusal() -> None:
    missing = FAMILY_OF.keys() - REFUSALS.keys()

    assert not missing, "add a refusal to tests/contract/refusals.toml"
