"""``GET /catalogue``: each entry's example, parameters and defaults are what its path takes."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from service.delivery.parameters import parse_query, read_parameters
from service.encodings.grid.grid_conventions import CONVENTIONS, convention_for
from service.encodings.registry import FAMILIES
from service.errors import InvalidParameters
from service.grammar import to_query
from service.numerics.tables import Document, size
from service.routes import RESOURCES
from service.routes.description import DescribeParameters, describe
from service.routes.table_catalogue import CatalogueParameters, report_catalogue
from service.settings import default_settings
from tests.client import Client

MODELS = orjson.loads((Path(__file__).parents[1] / "data/rope_models.json").read_bytes())["models"]
CATALOGUE = orjson.loads(report_catalogue(CatalogueParameters(), default_settings()).json_bytes())
ENTRIES = {entry["id"]: entry for entry in CATALOGUE["entries"]}
GET = pytest.mark.parametrize(
    "name", [key for key, each in ENTRIES.items() if each["method"] == "GET"]
)


@cache
def fields(path: str) -> frozenset[str]:
    return frozenset(FAMILIES[path].model_fields) - {"revision"}


def table(path: str, query: dict[str, Any]) -> Document:
    family: Any = FAMILIES[path]
    document: Document = read_parameters(family, query).resolve()
    return document


def query_of(entry: dict[str, Any]) -> dict[str, str]:
    return parse_query(entry["example"].partition("?")[2].encode())


@pytest.mark.parametrize("name", ENTRIES)
def test_example_can_be_requested_and_is_described(name: str, client: Client) -> None:
    entry = ENTRIES[name]
    if entry["method"] == "POST":
        answer = client.post(entry["example"], json=entry["body"])
        assert answer.status_code == 200, answer.text
        return

    assert client.head(entry["example"]).status_code == 200
    known = describe(DescribeParameters(url=entry["example"]), default_settings()).content()

    assert known["entry"] == name
    assert known["value_range"] == entry["value_range"]
    assert [axis.partition("(")[0] for axis in known["axes"]] == (entry["axes"] or known["axes"])


def test_every_family_is_there_and_every_convention_of_a_table() -> None:
    paths = {entry["path"] for entry in ENTRIES.values()}
    assert paths == set(FAMILIES)
    assert {"rope:llama3", "encoding:whisper", "relative:t5", "relative:alibi:bloom"} < set(ENTRIES)
    groups = {group["id"] for group in CATALOGUE["groups"]}
    assert {entry["group"] for entry in ENTRIES.values()} == groups
    for entry in ENTRIES.values():
        assert {entry["method"] == "GET"} == {entry["path"] in RESOURCES}


@GET
def test_other_parameters_are_refused_unless_they_say_the_same(name: str) -> None:
    entry = ENTRIES[name]
    query = query_of(entry)
    own = {CATALOGUE["parameters"][key]["name"] for key in entry["parameters"]}
    for other in fields(entry["path"]) - own - entry["fixed"].keys():
        field = FAMILIES[entry["path"]].model_fields[other]
        given = {**query, other: to_query((field.examples or ["1"])[0])}
        try:
            document = table(entry["path"], given)
        except InvalidParameters:
            continue
        assert dict(document.parameters) == dict(table(entry["path"], query).parameters), other


@GET
def test_no_parameter_is_refused_by_its_rule_or_convention(name: str) -> None:
    entry = ENTRIES[name]
    for key in entry["parameters"]:
        known = CATALOGUE["parameters"][key]
        query = {**query_of(entry), known["name"]: to_query(known["example"])}
        try:
            table(entry["path"], query)
        except InvalidParameters as error:
            reasons = [fault.detail for fault in error.faults if fault.where == known["name"]]
            chosen = [f"{fixed}={value}" for fixed, value in entry["fixed"].items()]
            refusals = [f"does not go with {each}" for each in chosen]
            found = [each for each in reasons if each.endswith(tuple(refusals))]
            if found:
                pytest.fail(found[0])


def test_grids_have_a_depth_if_their_convention_has_three_axes() -> None:
    takes = {name for name, entry in ENTRIES.items() if "depth" in entry["parameters"]}

    grids = {f"encoding:grid:{name}" for name in CONVENTIONS if convention_for(name, 3)}
    assert takes == grids


@GET
def test_defaults_change_nothing(name: str) -> None:
    entry = ENTRIES[name]
    query, unread = query_of(entry), []
    document = table(entry["path"], query)
    for key in entry["parameters"]:
        known = CATALOGUE["parameters"][key]
        if "default" not in known or known["name"] in query:
            continue
        given = {**query, known["name"]: to_query(known["default"])}
        try:
            other = table(entry["path"], given)
        except InvalidParameters:
            # It goes with, or in place of, a parameter that the example does not have.
            unread.append(known["name"])
            continue
        for part, expected in document.arrays.items():
            stop = min(size(expected), 4096)
            elements = np.asarray(other.arrays[part].read(0, stop))
            assert elements.tobytes() == np.asarray(expected.read(0, stop)).tobytes(), known["name"]
    assert not entry["fixed"] or len(unread) < 7, unread


@GET
def test_required_parameters_are_those_without_which_there_is_no_table(name: str) -> None:
    entry = ENTRIES[name]
    query = query_of(entry)
    for parameter in query:
        rest = {each: value for each, value in query.items() if each != parameter}
        if parameter in entry["required"]:
            with pytest.raises(InvalidParameters):
                table(entry["path"], rest)
        elif parameter not in entry["fixed"]:
            table(entry["path"], rest)


def test_one_entry_has_its_documentation(client: Client) -> None:
    answer = client.get("/catalogue?entry=rope:llama3").json()

    (entry,) = answer["entries"]
    assert set(entry["docs"]) == {"formula", "source", "bound", "trap"}
    assert {**entry, "docs": None} == {**ENTRIES["rope:llama3"], "docs": None}
    assert set(answer["parameters"]) == set(entry["parameters"])
    (fault,) = client.get("/catalogue?entry=rope:lama3").json()["errors"]
    assert fault["suggestion"] == "rope:llama3"


def test_titles_name_the_family_and_examples_have_the_sizes_of_a_published_model() -> None:
    assert ENTRIES["relative:alibi:original"]["title"] == "ALiBi, original"
    assert ENTRIES["rope:default"]["title"] == "RoPE, default"
    assert ENTRIES["rope:apply"]["title"] == "RoPE Apply"
    assert len({entry["title"] for entry in ENTRIES.values()}) == len(ENTRIES)
    assert ENTRIES["encoding:whisper"]["example"].endswith("&seq_len=1500&d_model=384")
    assert CATALOGUE["parameters"]["rope_type"]["default"] == "default"


PUBLISHED = {
    "pythia": {"model_type": "gpt_neox"},
    "flan-t5": {"model_type": "t5"},
    "sdxl": {"_class_name": "UNet2DConditionModel"},
}
"""What the configs of models say whose type has another name."""


@pytest.mark.parametrize(
    ("entry", "name"),
    [(key, name) for key, each in ENTRIES.items() for name in each.get("models", "").split()],
)
def test_a_model_has_the_table_under_which_it_is_found(
    entry: str, name: str, client: Client
) -> None:
    classes = (f"{name.replace('-', '')}Transformer{count}DModel" for count in "23")
    configs: list[dict[str, Any]] = [
        PUBLISHED.get(name, {"model_type": name}),
        *({"_class_name": each, "use_rotary_positional_embeddings": True} for each in classes),
    ]
    if ENTRIES[entry]["path"] == "/rope":
        # The default of a class has another rule than its published configs, or none.
        published = [each["hf_config"] for each in MODELS if each["model_type"] == name]
        query = table("/rope", query_of(ENTRIES[entry])).parameters
        rule = {key: query[key] for key in query.keys() - {"head_dim", "context_length"}}
        heads = dict.fromkeys(("head_dim", "qk_rope_head_dim"), query["rotary_dim"])
        configs = published or [{**configs[0], **heads, "rope_scaling": rule}]
    answers = [client.post("/model", json=each) for each in configs]
    encodings = [each for own in answers for each in own.json().get("encodings", [])]

    links = [link for own in encodings for link in (own.get("links") or {}).values()]
    links += [own["resized"] for own in encodings if "resized" in own]
    found = {
        describe(DescribeParameters(url=link), default_settings()).entry
        for link in links
        if "/apply" not in link
    }
    assert entry in found


def test_the_catalogue_is_small_on_the_wire(client: Client) -> None:
    answer = client.request("GET", "/catalogue", headers={"Accept-Encoding": "gzip"})

    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < 24 * 1024
    assert answer.json() == CATALOGUE


def test_most_examples_have_over_a_thousand_rows() -> None:
    """Others are vectors, lists of frequencies, or examples of positions that a model lists."""
    few = []
    for name, entry in ENTRIES.items():
        if entry["method"] == "GET":
            known = describe(DescribeParameters(url=entry["example"]), default_settings())
            few += [name] * (int(known.view.rows.count) <= 1000)
    assert len(few) < 40, few


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("rope:axial:dinov3", {"rope_theta": 100.0}),
        ("rope:axial:timm_pixels", {"max_freq": 224.0, "linear_bands": False}),
        ("relative:alibi:mpt", {"form": "last-key"}),
        ("resize:qwen3_vl", {"spatial_merge_size": 2}),
    ],
)
def test_one_entry_has_the_defaults_of_its_convention(
    client: Client, name: str, defaults: dict[str, Any]
) -> None:
    (entry,) = client.get(f"/catalogue?entry={name}").json()["entries"]
    query = query_of(entry)
    given = {key: to_query(value) for key, value in defaults.items()}

    assert entry["defaults"] == defaults
    assert "defaults" not in ENTRIES[name]
    assert table(entry["path"], {**query, **given}).parameters == (
        table(entry["path"], query).parameters
    )


def test_an_entry_of_all_conventions_has_no_default_of_one(client: Client) -> None:
    (entry,) = client.get("/catalogue?entry=rope:axial:frequencies").json()["entries"]

    assert "defaults" not in entry


JSON_TYPES = {"integer": int, "number": (int, float), "boolean": bool}


@pytest.mark.parametrize("key", CATALOGUE["parameters"])
def test_examples_and_defaults_have_the_type_of_their_parameter(key: str) -> None:
    known = CATALOGUE["parameters"][key]
    kind: Any = JSON_TYPES.get(known["type"], str)

    for value in (known["example"], known.get("default", known["example"])):
        assert isinstance(value, kind)
        assert isinstance(value, bool) == (known["type"] == "boolean")


@pytest.mark.parametrize(
    ("key", "kind"),
    [("grid_step", "numbers"), ("axes_dim", "integers"), ("old_size", "integers")],
)
def test_lists_of_few_items_are_lists(key: str, kind: str) -> None:
    assert CATALOGUE["parameters"][key]["type"] == kind


def test_summaries_are_no_sentences() -> None:
    assert not [name for name, entry in ENTRIES.items() if entry["summary"].endswith(".")]
