"""Impossible parameters are refused by name."""

import pytest
from httpx import Response

from service.encodings.registry import COMPOSITIONS, FAMILIES, TRANSFORMS
from tests.client import Client
from tests.contract.refusals import REFUSALS

_BODIES = {transform.path: {"x": [[0.5] * 8] * 4} for transform in TRANSFORMS} | {
    composition.path: {
        known.name: known.example
        for known in [one for one in composition.inputs if one.is_required]
        or composition.inputs[:1]
    }
    for composition in COMPOSITIONS
}


def _response(client: Client, path: str, query: str) -> Response:
    if path in _BODIES:
        return client.post(f"{path}?{query}", json=_BODIES[path])
    return client.get(f"{path}?{query}")


@pytest.mark.parametrize(("path", "query", "parameter"), REFUSALS)
def test_an_impossible_parameter_is_named(
    client: Client, path: str, query: str, parameter: str
) -> None:
    response = _response(client, path, query)

    assert response.status_code == 422, response.text
    problem = response.json()
    assert problem["type"] == "urn:posref:problem:invalid-parameters"
    assert [error["parameter"] for error in problem["errors"]] == [parameter]


def test_every_family_has_a_refusal() -> None:
    assert {family.path for family in FAMILIES} <= {path for path, _, _ in REFUSALS}
