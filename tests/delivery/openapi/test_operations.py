"""The documentation of endpoints, reports and pages."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlencode

import jsonschema
import pytest
from httpx import Response
from pydantic import Field

from service.delivery.endpoints import (
    Endpoint,
    EveryArray,
    NamedArrays,
    RawArray,
    ReportedArrays,
)
from service.delivery.openapi.operations import Page, openapi_document
from service.delivery.parameters import read_parameters
from service.delivery.problems import TYPES
from service.encodings.family import Choice, InputArray, Parameters
from service.encodings.registry import table_revisions
from service.errors import InvalidParameters
from service.formats import FORMATS
from service.grammar import Integer, to_query
from service.numerics.tables import Document, StoredTable
from service.routes import COMPOSITIONS, ENDPOINTS, REPORTS, RESOURCES, TRANSFORMS
from service.routes.rope_config import CONFIG
from tests.client import Client
from tests.openapi import inlined


@pytest.fixture(scope="module")
def operations(client: Client) -> dict[str, dict[str, Any]]:
    document = client.get("/openapi.json").json()
    paths = inlined(document["paths"], document)
    listed = [operation for path in paths.values() for operation in path.values()]
    assert len({operation["operationId"] for operation in listed}) == len(listed)
    return {operation["operationId"]: operation for operation in listed}


@pytest.fixture(scope="module")
def paths(client: Client) -> dict[str, str]:
    """Return the path of each operation."""
    document = client.get("/openapi.json").json()
    return {
        operation["operationId"]: path
        for path, methods in document["paths"].items()
        for operation in methods.values()
    }


@pytest.mark.full
def test_every_endpoint_has_operation_ids(operations: dict[str, Any]) -> None:
    documents = [f"get{each.operation}" for each in RESOURCES.values()]
    documents += [
        f"post{each.operation}"
        for each in (*RESOURCES.values(), *TRANSFORMS.values(), *COMPOSITIONS.values())
    ]
    reports = [f"post{each.operation}" for each in REPORTS.values()]

    assert {*documents, *(f"{each}As" for each in documents), *reports} <= set(operations)


def test_every_parameter_has_description_type_and_example(operations: dict[str, Any]) -> None:
    for operation in operations.values():
        for parameter in operation.get("parameters", ()):
            assert parameter["description"]
            if parameter["in"] != "header":
                assert "example" in parameter or parameter["schema"]["examples"]
            assert {"type", "enum", "const"} & set(parameter["schema"]), parameter


def test_bounds_have_names_of_json_schema(operations: dict[str, Any]) -> None:
    by_name = {
        parameter["name"]: parameter["schema"] for parameter in operations["getRope"]["parameters"]
    }

    assert (by_name["seq_len"]["minimum"], by_name["rotary_dim"]["multipleOf"]) == (1, 2)
    assert by_name["partial_rotary_factor"]["exclusiveMinimum"] == 0
    for operation in operations.values():
        for parameter in operation.get("parameters", ()):
            assert not {"ge", "gt", "le", "multiple_of", "max_length"} & set(parameter["schema"])


def test_examples_match_their_schemas(operations: dict[str, Any]) -> None:
    for operation in operations.values():
        body = operation.get("requestBody", {"content": {}})["content"].get("application/json")
        if body is not None:
            jsonschema.validate(body["example"], body["schema"])
        for parameter in operation.get("parameters", ()):
            schema = parameter["schema"]
            shown = [parameter["example"]] if "example" in parameter else []
            for example in (*shown, *schema.get("examples", ())):
                jsonschema.validate(example, schema)
        for status, answer in operation["responses"].items():
            for shown in answer.get("content", {}).values():
                for example in shown.get("examples", {}).values():
                    jsonschema.validate(example["value"], shown["schema"])
                    assert status != "304"


def test_bodies_have_the_names_of_processors(operations: dict[str, Any]) -> None:
    schema = operations["postPositions"]["requestBody"]["content"]["application/json"]["schema"]
    grids = {"image_grid_thw": [[1, 2, 2]], "video_second_per_grid": [1.0]}
    body = {"convention": "qwen2_vl", "input_ids": [[1, 2]], "mm_token_type_ids": [[0, 1]]}

    jsonschema.validate({**body, **grids}, schema)


def test_files_of_positions_have_the_parameters_of_the_table(operations: dict[str, Any]) -> None:
    for suffix in ("", "As"):
        parameters = operations[f"postRope{suffix}"]["parameters"]

        assert {"head_dim", "pack"} < {each["name"] for each in parameters}
        assert not any(each.get("required") for each in parameters if each["in"] == "query")


@dataclass(frozen=True)
class Sent:
    """An operation with its examples: the method, the path, the query and the body."""

    method: str
    path: str
    query: Mapping[str, str]
    defaults: Mapping[str, str]
    body: Any

    def answer(self, client: Client, *, with_defaults: bool = False) -> Response:
        query = {**(self.defaults if with_defaults else {}), **self.query}
        return client.request(self.method, f"{self.path}?{urlencode(query)}", json=self.body)


def examples_in(operations: Mapping[str, Any], paths: Mapping[str, str]) -> Iterator[Sent]:
    """Yield each operation as a page fills it in."""
    for name, operation in operations.items():
        path, query, defaults = paths[name], {}, {}
        for parameter in operation.get("parameters", ()):
            key, default = parameter["name"], parameter["schema"].get("default")
            if parameter["in"] == "path":
                path = path.replace("{extension}", parameter["example"])
            elif "example" in parameter:
                query[key] = to_query(parameter["example"])
            if default is not None:
                defaults[key] = to_query(default)
        content = operation.get("requestBody", {"content": {}})["content"]
        body = content.get("application/json", {}).get("example")
        yield Sent("GET" if body is None else "POST", path, query, defaults, body)


def test_examples_of_every_operation_are_answered_together(
    client: Client, operations: dict[str, Any], paths: dict[str, str]
) -> None:
    for sent in examples_in(operations, paths):
        answer = sent.answer(client)
        assert answer.status_code == 200, (sent, answer.text)


def test_a_body_has_the_parameters_that_clients_do_not_send_by_themselves(
    operations: dict[str, Any],
) -> None:
    for operation in operations.values():
        if "requestBody" in operation:
            for parameter in operation["parameters"]:
                if "example" in parameter:
                    assert parameter.get("required") or "default" in parameter["schema"]


def test_a_stated_default_is_answered_as_one_that_is_left_out(
    client: Client, operations: dict[str, Any], paths: dict[str, str]
) -> None:
    """Clients made by openapi-generator send it."""
    examples = [sent for sent in examples_in(operations, paths) if sent.defaults]
    pairs = {"query_len": "2"}
    tokens = {"convention": "fairseq", "d_model": "4", "part": "position_ids"}
    masked = {"attention_mask": [[0, 1]], "slopes": [1.0]}
    by_path = {sent.path: sent for sent in examples}
    deberta, ids = by_path["/relative/deberta"], by_path["/encoding/tokens"]
    examples += [replace(deberta, query=pairs | {name: "-1"}) for name in BUCKETS]
    examples += [replace(ids, query=tokens)]
    examples += [replace(by_path["/relative/alibi/bias"], query={}, body=masked)]
    for sent in examples:
        left_out, given = (sent.answer(client, with_defaults=each) for each in (False, True))
        assert (given.status_code, given.content) == (200, left_out.content), (sent, given.text)


BUCKETS = ("bucket_size", "max_position")


def test_documented_parameters_are_those_of_the_model(operations: dict[str, Any]) -> None:
    for resource in RESOURCES.values():
        documented = operations[f"get{resource.operation}"]["parameters"]
        names = [parameter["name"] for parameter in documented]
        assert sorted(names) == sorted(resource.parameters.model_fields)
        assert names[-1] == "revision"
        chosen = operations[f"get{resource.operation}As"]["parameters"]
        assert [each["name"] for each in chosen] == [*names, "Range", "extension"]


def in_queries(operations: Mapping[str, Any]) -> Iterator[tuple[Endpoint, str, Any]]:
    """Yield each endpoint with the name and the schema of each parameter of its query."""
    for endpoint in ENDPOINTS.values():
        verb = "get" if endpoint.has_get else "post"
        for parameter in operations[f"{verb}{endpoint.operation}"]["parameters"]:
            yield endpoint, parameter["name"], parameter["schema"]


def is_taken(endpoint: Endpoint, name: str, text: str) -> bool:
    """Return whether a parameter of an endpoint may have this value, whatever the others have."""
    model = RawArray if name == "shape" else endpoint.parameters
    try:
        read_parameters(model, {name: text})
    except InvalidParameters as error:
        return all(fault.where != name for fault in error.faults)
    return True


def test_bounds_of_a_number_are_those_of_the_server(operations: dict[str, Any]) -> None:
    for endpoint, name, schema in in_queries(operations):
        # A later revision is no bad value, but one that the server does not have yet.
        if schema.get("type") == "integer" and name != "revision":
            least, most, step = schema["minimum"], schema["maximum"], schema.get("multipleOf", 1)
            assert is_taken(endpoint, name, str(least)), (endpoint.path, name)
            assert is_taken(endpoint, name, str(most)), (endpoint.path, name)
            assert not is_taken(endpoint, name, str(least - step))
            assert not is_taken(endpoint, name, str(most + step))


def test_length_of_a_list_is_that_of_the_server(operations: dict[str, Any]) -> None:
    bounded = 0
    for endpoint, name, schema in in_queries(operations):
        pattern = schema.get("pattern", "")
        bounded += pattern.endswith("}$")
        for length in range(1, 20) if pattern else ():
            text = ",".join(["2"] * length)
            matches = bool(re.search(pattern, text))
            assert matches == is_taken(endpoint, name, text), (endpoint.path, name, text)

    assert bounded > 15


@pytest.mark.parametrize(
    "url",
    [
        "/encoding.npy?convention=perceiver&seq_len=2&d_model=5&max_resolution=1000000000",
        "/relative/alibi?num_heads=65536&query_len=1&head=65535",
        "/relative/t5?query_len=2&num_buckets=2&bidirectional=false&max_distance=2",
        "/rope?seq_len=2&head_dim=2",
        "/rope/permutation.npy?head_dim=65536&rotary_dim=2&rotary_offset=65534",
    ],
)
def test_numbers_at_bounds_that_depend_on_others_are_possible(client: Client, url: str) -> None:
    assert client.get(url).status_code == 200


def test_current_revision_is_the_maximum(operations: dict[str, Any]) -> None:
    for resource in RESOURCES.values():
        got, posted = (operations[f"{verb}{resource.operation}"] for verb in ("get", "post"))
        by_name = {parameter["name"]: parameter["schema"] for parameter in got["parameters"]}
        content = got["responses"]["200"]["content"]["application/json"]
        kind = content["examples"]["answer"]["value"]["kind"]
        body = posted["requestBody"]["content"]["application/json"]["schema"]

        assert by_name["revision"]["maximum"] == table_revisions()[kind]
        assert body["properties"]["revision"]["maximum"] == table_revisions()[kind]


def test_operations_with_an_extension_document_the_checksum(operations: dict[str, Any]) -> None:
    for name in ("getEncoding", "postEncoding", "postRopeApply"):
        plain, chosen = (operations[name + end]["responses"]["200"] for end in ("", "As"))

        assert "text/plain" not in plain["content"]
        assert chosen["content"]["text/plain"]["schema"]["format"] == "binary"


def test_every_operation_documents_the_shared_problems(operations: dict[str, Any]) -> None:
    for operation in operations.values():
        assert {"400", "401", "408", "414", "431", "503"} <= set(operation["responses"])


def test_example_of_an_answer_equals_the_answer(client: Client, operations: dict[str, Any]) -> None:
    for resource in RESOURCES.values():
        content = operations[f"get{resource.operation}"]["responses"]["200"]["content"]
        answer = client.get(f"{resource.path}.json?{resource.example}")
        assert content["application/json"]["examples"]["answer"]["value"] == answer.json()


def test_every_error_has_an_example(operations: dict[str, Any]) -> None:
    seen: set[str] = set()
    for operation in operations.values():
        for status, response in operation["responses"].items():
            if int(status) < 400:
                continue
            examples = response["content"]["application/problem+json"]["examples"]
            for name, example in examples.items():
                assert example["value"]["status"] == int(status)
                seen.add(name)

    assert seen == {problem.name for problem in TYPES.values()} - {"method-not-allowed"}


def test_example_bodies_are_answered_as_documented(
    client: Client, operations: dict[str, Any]
) -> None:
    for endpoint in (*RESOURCES.values(), *TRANSFORMS.values(), *COMPOSITIONS.values()):
        operation = operations[f"post{endpoint.operation}"]
        body = operation["requestBody"]["content"]["application/json"]["example"]
        shown = {
            each["name"]: to_query(each["example"])
            for each in operation["parameters"]
            if "example" in each
        }
        answer = client.post(f"{endpoint.path}?{urlencode(shown)}", json=body)
        assert answer.status_code == 200, answer.text
        got = operations.get(f"get{endpoint.operation}", operation)
        content = got["responses"]["200"]["content"]["application/json"]
        assert answer.json() == content["examples"]["answer"]["value"]


READABLE = {FORMATS[name].media_type for name in ("json", "npy", "safetensors", "bin")}


class FactorParameters(Parameters):
    """Parameters of a product."""

    factor: Integer = Field(description="A factor.", examples=[2])
    shift: Integer = Field(default=0, description="A shift.", examples=[1])


class KindParameters(FactorParameters):
    """Parameters that say what an array is."""

    kind: Literal["real", "truth"] | None = Field(
        default=None, description="What it is.", examples=["real"]
    )


def product(parameters: FactorParameters, arrays: Mapping[str, StoredTable]) -> Document:
    (x, *_) = arrays.values()
    scaled = StoredTable(x.elements * parameters.factor, x.dtype)
    return Document("relative-t5-bias", {"factor": parameters.factor}, {"bias": scaled})


WEIGHT = InputArray("weight", "the learned table, (buckets, heads)", (2,), [[0.5, 1.5]])
MASK = InputArray("mask", "1 where there is padding", (1,), [1], is_integer=True, is_required=False)
NAMED = Endpoint(
    path="/relative/none",
    operation="None",
    summary="Products",
    parameters=FactorParameters,
    inputs=NamedArrays((WEIGHT, MASK)),
    answer=product,
    example="factor=3",
)
EVERY_ARRAY = replace(NAMED, inputs=EveryArray())


def with_inputs(*inputs: InputArray, choice: Choice | None = None) -> Endpoint:
    return replace(NAMED, inputs=NamedArrays(inputs, choice))


def operation_of(posted: Endpoint, suffix: str = "") -> Any:
    document = openapi_document({}, [posted], ())
    return inlined(document["paths"][posted.path + suffix]["post"], document)


def content(operation: Mapping[str, Any]) -> Any:
    return operation["requestBody"]["content"]["application/json"]


@pytest.mark.parametrize("posted", [NAMED, EVERY_ARRAY], ids=["composition", "transform"])
@pytest.mark.parametrize("suffix", ["", ".{extension}"])
def test_every_format_of_a_post_is_documented(posted: Endpoint, suffix: str) -> None:
    operation = operation_of(posted, suffix)

    assert operation["operationId"] == f"postNone{'As' if suffix else ''}"
    assert set(operation["requestBody"]["content"]) == READABLE
    assert operation["requestBody"]["required"] is True
    assert [parameter["name"] for parameter in operation["parameters"]] == [
        "factor",
        "shift",
        "shape",
        "dtype",
        *(["extension"] if suffix else []),
    ]
    assert {"200", "413", "415", "422"} <= set(operation["responses"])
    assert ("404" in operation["responses"]) == bool(suffix)


def test_schema_of_a_body_has_arrays_and_parameters() -> None:
    described = content(operation_of(NAMED))

    schema = described["schema"]
    arrays = ["x", "weight", "mask", "shape"]
    assert list(schema["properties"]) == [*arrays, "factor", "shift"]
    assert schema["properties"]["weight"] == {
        "type": "array",
        "items": {},
        "description": "Lists: the learned table, (buckets, heads)",
    }
    assert schema["required"] == []
    assert described["example"] == {"weight": [[0.5, 1.5]]}
    jsonschema.validate(described["example"], schema)


def file_descriptions(posted: Endpoint) -> dict[str, str]:
    """Return the descriptions of binary files, by format."""
    content = operation_of(posted)["requestBody"]["content"]
    binary = {name: FORMATS[name].media_type for name in ("npy", "safetensors")}
    return {
        name: content[media_type]["schema"]["description"]
        for name, media_type in binary.items()
        if media_type in content
    }


REALS = "(float16, float32 or float64, in safetensors bfloat16, too)"
TRUTHS = "(integers of any type, booleans, or real numbers that are integers)"


def test_a_default_is_in_the_query_or_in_the_body(client: Client) -> None:
    document = client.get("/openapi.json").json()
    schemas = document["components"]["schemas"]

    names = [f"{each.operation}Request" for each in (*TRANSFORMS.values(), *COMPOSITIONS.values())]

    assert names
    for name in names:
        assert not [each for each in schemas[name]["properties"].values() if "default" in each]


def test_content_of_files_is_documented() -> None:
    weight = f"weight: the learned table, (buckets, heads) {REALS}"
    mask = f"mask: 1 where there is padding {TRUTHS}"

    assert file_descriptions(NAMED) == {
        "npy": f"One array. {weight}.",
        "safetensors": f"Tensors by name. {weight}; {mask}.",
    }
    assert file_descriptions(with_inputs(WEIGHT)) == {
        "npy": f"One array. {weight}.",
        "safetensors": f"A tensor, under any name. {weight}.",
    }
    assert "each is answered under its name" in file_descriptions(EVERY_ARRAY)["safetensors"]


def test_npy_is_documented_only_where_its_array_is_known() -> None:
    several = with_inputs(WEIGHT, replace(MASK, is_required=True))
    optional = with_inputs(replace(WEIGHT, is_required=False), MASK)
    choice = Choice("kind", {"real": "weight", "truth": "mask"})
    chosen = replace(
        with_inputs(replace(WEIGHT, is_required=False), MASK, choice=choice),
        parameters=KindParameters,
    )

    assert list(file_descriptions(several)) == list(file_descriptions(optional)) == ["safetensors"]
    assert file_descriptions(chosen)["npy"].startswith("One array; kind says which. weight: ")


EVERY_REPORT = pytest.mark.parametrize("report", REPORTS.values(), ids=lambda known: known.path)


def documented(client: Client, report: Endpoint) -> Any:
    document = client.get("/openapi.json").json()
    return inlined(document["paths"][report.path]["post"], document)


@pytest.mark.parametrize("report", [*REPORTS.values()][3:], ids=lambda known: known.path)
def test_every_format_of_arrays_is_documented(client: Client, report: Endpoint) -> None:
    content = documented(client, report)["requestBody"]["content"]

    assert set(content) == READABLE
    assert isinstance(report.inputs, ReportedArrays)
    for name in report.inputs.names:
        assert name in content["application/json"]["schema"]["properties"]
        assert name in content["application/vnd.safetensors"]["schema"]["description"]


@EVERY_REPORT
def test_example_of_a_report_is_answered_as_documented(client: Client, report: Endpoint) -> None:
    operation = documented(client, report)
    response = operation["responses"]["200"]["content"]["application/json"]
    sent = operation["requestBody"]["content"]["application/json"]
    jsonschema.validate(sent["example"], sent["schema"])

    query = "" if "to" in sent["example"] else report.example
    answer = client.post(f"{report.path}?{query}", json=sent["example"])

    assert answer.json() == response["examples"]["report"]["value"]
    jsonschema.validate(answer.json(), response["schema"])


def test_problems_of_json_bodies_do_not_mention_other_formats(client: Client) -> None:
    responses = documented(client, CONFIG)["responses"]
    details = [
        example["value"]["detail"]
        for status in ("413", "415")
        for example in responses[status]["content"]["application/problem+json"]["examples"].values()
    ]

    assert details[0].endswith("(POSREF_MAX_JSON_BODY_BYTES): send a shorter one")
    assert details[-1].endswith("send the header Content-Type: application/json")


def test_page_is_documented_with_its_problems() -> None:
    page = Page("/x", "getX", "X", "text/plain")

    documented = openapi_document({}, (), [page])["paths"]["/x"]["get"]

    assert documented["operationId"] == "getX"
    assert {"200", "422", "500"} <= documented["responses"].keys()


def test_a_file_of_positions_has_the_other_parameters_in_the_query(
    operations: dict[str, Any],
) -> None:
    operation = operations["postRopeAs"]
    listed = {each["name"]: each for each in operation["parameters"] if each["in"] == "query"}
    content = operation["requestBody"]["content"]

    assert {"head_dim", "mrope_section", "cu_seqlens", "dtype", "pack", "shape"} <= listed.keys()
    assert not {"positions", "positions_t", "start", "seq_len"} & listed.keys()
    # Clients send defaults, and what is in the body, too, is refused.
    assert not any("default" in each["schema"] or "example" in each for each in listed.values())
    assert not any(each.get("required") for each in listed.values())
    assert content.keys() == READABLE
    assert {"positions", "position_ids"} <= content["application/json"]["schema"][
        "properties"
    ].keys()
    assert (
        "application/x-npy"
        in operation["responses"]["415"]["content"]["application/problem+json"]["examples"][
            "unsupported-media-type"
        ]["value"]["detail"]
    )
