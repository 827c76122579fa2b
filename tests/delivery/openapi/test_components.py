"""The schemas of parameters and reports; the documentation of headers and problems."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import jsonschema
import pytest
from pydantic import Field

from service import errors
from service.delivery import problems
from service.delivery.endpoints import ABSENT, Count, FiniteOrNull, Number, Report
from service.delivery.openapi.components import (
    NOT_MODIFIED_HEADERS,
    PAGE_HEADERS,
    POST_HEADERS,
    RANGE_HEADERS,
    TABLE_HEADERS,
    Components,
    object_schema,
    problem_headers,
)
from service.delivery.problems import MethodNotAllowed
from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from tests.client import Client
from tests.openapi import inlined, report_schema


def test_a_list_is_text_in_a_query_and_of_any_type_in_a_body() -> None:
    components = Components()

    components.parameters(SinusoidalEncoding, "Encoding", {})
    body = components.body(SinusoidalEncoding, "Encoding", {})

    in_query = components.sections["parameters"]["Positions"]["schema"]
    in_body = inlined(body, {"components": components.sections})["properties"]["positions"]
    assert in_query["type"] == "string"
    assert "pattern" in in_query
    assert set(in_body) == {"description"}


def test_components_of_one_document_are_not_those_of_the_next() -> None:
    for section in ("schemas", "headers"):
        Components().ref(section, {}, "New")
        assert "New" not in Components().sections[section]


def test_only_parameters_of_the_example_have_an_example() -> None:
    components = Components()

    components.parameters(SinusoidalEncoding, "Encoding", {"seq_len": 4})

    documented = components.sections["parameters"].values()
    assert [p["name"] for p in documented if "example" in p] == ["seq_len"]
    assert [p["name"] for p in documented if p.get("required")] == ["d_model"]


def test_equal_components_share_a_name_and_others_have_their_own() -> None:
    components = Components()

    stored = [components.ref("schemas", {"type": kind}, "Width", "GridWidth") for kind in "aba"]

    names = [each["$ref"].removeprefix("#/components/schemas/") for each in stored]
    assert names == ["Width", "GridWidth", "Width"]
    assert components.sections["schemas"]["GridWidth"] == {"type": "b"}


def test_no_parameter_may_be_null() -> None:
    assert "null" not in str(object_schema(SinusoidalEncoding))


URL = "/encoding.npy?seq_len=2&d_model=2"
PROMISED = {
    "accept-ranges",
    "cache-control",
    "content-disposition",
    "content-location",
    "content-range",
    "etag",
    "link",
    "repr-digest",
    "retry-after",
    "table-revision",
    "vary",
    "www-authenticate",
    "x-request-id",
}


def component(reference: Mapping[str, str]) -> Any:
    name = reference["$ref"].removeprefix("#/components/headers/")
    return Components().sections["headers"][name]


def faults(documented: Mapping[str, Any], headers: Mapping[str, str]) -> Iterable[str]:
    """Yield the names of headers that are missing, not documented, or unlike their schema."""
    known = {name.lower(): component(reference) for name, reference in documented.items()}
    yield from (n for n, header in known.items() if header["required"] and n not in headers)
    yield from (n for n in PROMISED & set(headers) if n not in known)
    for name in known.keys() & headers.keys():
        schema = known[name]["schema"]
        read = {"integer": int, "number": float}.get(schema["type"], str)
        if not jsonschema.Draft202012Validator(schema).is_valid(read(headers[name])):
            yield name


@pytest.mark.parametrize(
    "target",
    [
        URL,
        "/encoding?seq_len=2&d_model=2",
        "/encoding.csv?seq_len=2&d_model=2&revision=1",
        "/encoding.png?seq_len=2&d_model=2",
        "/encoding.npy.sha256?seq_len=2&d_model=2",
        "/rope?head_dim=4&seq_len=2&pack=half",
        "/rope?inv_freq=0.5&positions=100&angle=float32",
        "/encoding/frequencies?d_model=4",
    ],
)
def test_headers_of_tables_match_their_documentation(client: Client, target: str) -> None:
    answer = client.get(target)

    assert answer.status_code == 200
    assert not list(faults(TABLE_HEADERS, answer.headers))


def test_headers_of_206_and_304_match_their_documentation(client: Client) -> None:
    part = client.get(URL, Range="bytes=0-9")
    known = client.get(URL, If_None_Match=part.headers["ETag"])

    assert (part.status_code, known.status_code) == (206, 304)
    assert not list(faults(RANGE_HEADERS, part.headers))
    assert not list(faults(NOT_MODIFIED_HEADERS, known.headers))


@pytest.mark.parametrize("target", ["/", "/livez", "/metrics"])
def test_request_identifier_of_pages_is_documented(client: Client, target: str) -> None:
    answer = client.get(target)

    assert answer.status_code == 200
    assert set(PAGE_HEADERS) == {"X-Request-Id"}
    assert "x-request-id" not in faults(PAGE_HEADERS, answer.headers)


def test_headers_of_posts_match_their_documentation(client: Client) -> None:
    answer = client.post("/encoding", json={"seq_len": 2, "d_model": 2})

    assert answer.status_code == 200
    assert not list(faults(POST_HEADERS, answer.headers))


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [("/encoding", {}, 422), (URL, {"Range": "bytes=900-"}, 416), ("/none", {}, 404)],
)
def test_headers_of_problems_match_their_documentation(
    client: Client, target: str, headers: dict[str, str], status: int
) -> None:
    answer = client.get(target, **headers)

    assert answer.status_code == status
    assert not list(faults(problem_headers(str(status)), answer.headers))


def test_check_of_headers_can_fail(client: Client) -> None:
    headers = dict(client.get(URL).headers)

    assert list(faults(RANGE_HEADERS, headers)) == ["content-range"]
    assert list(faults(TABLE_HEADERS, {**headers, "table-revision": "0"})) == ["table-revision"]
    assert list(faults(POST_HEADERS, {**headers, "cache-control": "no-store"}))


def problem_responses(listed: Iterable[type[errors.PosrefError]]) -> Any:
    components = Components()
    return inlined(components.problems(listed), {"components": components.sections})


def test_problems_of_one_status_share_a_response() -> None:
    responses = problem_responses([errors.InvalidBody, errors.InvalidParameters])

    assert responses["422"]["description"] == "Invalid body; invalid parameters"
    examples = responses["422"]["content"]["application/problem+json"]["examples"]
    assert set(examples) == {"invalid-body", "invalid-parameters"}


def test_responses_are_in_order_of_status() -> None:
    types = {error: each for error, each in problems.TYPES.items() if error is not MethodNotAllowed}

    statuses = sorted({str(problem.status) for problem in types.values()})
    assert list(problem_responses(types)) == statuses


def test_problems_of_any_request_are_those_of_every_operation() -> None:
    assert set(problem_responses(())) == {"400", "401", "408", "414", "431", "503", "505"}
    assert problem_responses(())["503"]["description"] == "Overloaded; not ready"


class Part(Report):
    """A part."""

    error: FiniteOrNull
    place: Number | None


class Whole(Report):
    """A whole."""

    kind: Literal["a", "b"]
    worst: Part | None = Field(description="The worst part.")
    parts: list[Part]
    count: Count = ABSENT


WHOLE = Whole(kind="a", worst=None, parts=[Part(error=float("nan"), place=3)])


def test_absent_fields_are_left_out_and_null_fields_are_sent() -> None:
    assert json.loads(WHOLE.json_bytes()) == {
        "kind": "a",
        "worst": None,
        "parts": [{"error": None, "place": 3}],
    }


def test_parts_and_choices_of_a_report_are_components_and_numbers_have_formats() -> None:
    components = Components()

    components.add_reports([Whole])

    schemas = components.sections["schemas"]
    properties, part = schemas["Whole"]["properties"], schemas["Part"]["properties"]
    assert schemas["Whole"]["required"] == ["kind", "worst", "parts"]
    assert properties["kind"] == {"$ref": "#/components/schemas/WholeKind"}
    assert schemas["WholeKind"]["enum"] == ["a", "b"]
    assert properties["parts"]["items"] == {"$ref": "#/components/schemas/Part"}
    assert properties["count"] == {"type": "integer", "format": "int64", "minimum": 0}
    assert part["place"]["anyOf"] == [{"type": "number", "format": "double"}, {"type": "null"}]


@pytest.mark.parametrize("broken", [{"kind": "c"}, {"more": 1}, {"parts": [{}]}, {"count": -1}])
def test_schema_accepts_the_report_and_nothing_else(broken: dict[str, object]) -> None:
    schema, content = report_schema(Whole), WHOLE.content()

    jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content | broken, schema)
