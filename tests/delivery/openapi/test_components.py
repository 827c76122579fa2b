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
    HEADER_COMPONENTS,
    NOT_MODIFIED_HEADERS,
    PAGE_HEADERS,
    POST_HEADERS,
    RANGE_HEADERS,
    TABLE_HEADERS,
    object_schema,
    problem_headers,
    problem_responses,
    query_parameters,
    report_schema,
    shared_references,
    shared_responses,
)
from service.delivery.problems import MethodNotAllowed
from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from tests.client import Client


def test_list_parameter_is_text_in_a_query_and_any_form_in_a_body() -> None:
    in_query = {
        parameter["name"]: parameter["schema"]
        for parameter in query_parameters(SinusoidalEncoding, {})
    }
    in_body = object_schema(SinusoidalEncoding)["properties"]

    assert in_query["positions"]["type"] == "string"
    assert in_body["positions"]["type"] == ["string", "number", "array"]
    assert "items" not in in_query["positions"]


def test_only_parameters_of_the_example_have_an_example() -> None:
    documented = query_parameters(SinusoidalEncoding, {"seq_len": "4"})

    assert [p["name"] for p in documented if "example" in p] == ["seq_len"]
    assert [p["name"] for p in documented if p["required"]] == ["d_model"]


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
    return HEADER_COMPONENTS[reference["$ref"].removeprefix("#/components/headers/")]


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


def test_problems_of_one_status_share_a_response() -> None:
    responses = problem_responses([errors.InvalidBody, errors.InvalidParameters])

    assert list(responses) == ["422"]
    assert responses["422"]["description"] == "Invalid body; invalid parameters"
    examples = responses["422"]["content"]["application/problem+json"]["examples"]
    assert set(examples) == {"invalid-body", "invalid-parameters"}


def test_responses_are_in_order_of_status() -> None:
    types = {error: each for error, each in problems.TYPES.items() if error is not MethodNotAllowed}

    statuses = sorted({str(problem.status) for problem in types.values()})
    assert list(problem_responses(types)) == statuses


def test_shared_problems_are_components() -> None:
    shared, references = shared_responses(), shared_references()

    assert set(references) == {"400", "401", "408", "414", "431", "503"}
    for status, reference in references.items():
        response = shared[reference["$ref"].removeprefix("#/components/responses/")]
        for example in response["content"]["application/problem+json"]["examples"].values():
            assert str(example["value"]["status"]) == status
    assert shared["Overloaded"]["description"] == "Overloaded; not ready"


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


def test_schema_has_types_in_place_of_choices_and_no_references() -> None:
    schema = report_schema(Whole)
    part = schema["properties"]["parts"]["items"]

    assert schema["required"] == ["kind", "worst", "parts"]
    assert part["properties"]["error"]["type"] == part["properties"]["place"]["type"]
    assert part["properties"]["place"]["type"] == ["number", "null"]
    worst = {**part, "type": ["object", "null"], "description": "The worst part."}
    assert schema["properties"]["worst"] == worst
    assert schema["properties"]["count"] == {"type": "integer", "minimum": 0}


@pytest.mark.parametrize("broken", [{"kind": "c"}, {"more": 1}, {"parts": [{}]}, {"count": -1}])
def test_schema_accepts_the_report_and_nothing_else(broken: dict[str, object]) -> None:
    schema, content = report_schema(Whole), WHOLE.content()

    jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content | broken, schema)
