"""The documentation of endpoints, reports and pages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlencode

import jsonschema
import pytest
from pydantic import Field

from service.delivery.endpoints import Endpoint, EveryArray, NamedArrays, ReportedArrays
from service.delivery.openapi.operations import page_operation, post_operation, with_extension
from service.delivery.problems import TYPES
from service.encodings.family import Choice, InputArray, Parameters
from service.encodings.registry import TABLE_REVISIONS
from service.formats import FORMATS
from service.grammar import Integer
from service.numerics.tables import Document, StoredTable
from service.routes import COMPOSITIONS, REPORTS, RESOURCES, TRANSFORMS
from service.routes.rope_config import CONFIG
from tests.client import Client


@pytest.fixture(scope="module")
def operations(client: Client) -> dict[str, dict[str, Any]]:
    paths = client.get("/openapi.json").json()["paths"]
    listed = [operation for path in paths.values() for operation in path.values()]
    assert len({operation["operationId"] for operation in listed}) == len(listed)
    return {operation["operationId"]: operation for operation in listed}


@pytest.mark.full
def test_every_endpoint_has_operation_ids(operations: dict[str, Any]) -> None:
    documents = [f"get{each.operation}" for each in RESOURCES]
    documents += [f"post{each.operation}" for each in (*RESOURCES, *TRANSFORMS, *COMPOSITIONS)]
    reports = [f"post{each.operation}" for each in REPORTS]

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
            for example in parameter["schema"].get("examples", ()):
                jsonschema.validate(example, parameter["schema"])


def filled_in(path: str, parameters: list[dict[str, Any]]) -> str:
    """Fill in the examples, or else the defaults, of all parameters, as a page does."""
    query = {}
    for parameter in parameters:
        example = parameter.get("example", parameter["schema"].get("default"))
        text = str(example).lower() if isinstance(example, bool) else str(example)
        if parameter["in"] == "path":
            path = path.replace("{extension}", text)
        elif example is not None:
            query[parameter["name"]] = text
    return f"{path}?{urlencode(query)}"


@pytest.mark.full
def test_examples_of_every_operation_are_answered_together(client: Client) -> None:
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            url = filled_in(path, operation.get("parameters", []))
            body = operation.get("requestBody", {"content": {}})["content"]
            example = body.get("application/json", {}).get("example")
            if method == "post":
                assert not set(example) & {
                    field.split("=")[0] for field in url.split("?")[1].split("&")
                }
            assert client.request(method, url, json=example).status_code == 200, url


def test_documented_parameters_are_those_of_the_model(operations: dict[str, Any]) -> None:
    for resource in RESOURCES:
        documented = operations[f"get{resource.operation}"]["parameters"]
        names = [parameter["name"] for parameter in documented]
        assert sorted(names) == sorted([*resource.parameters.model_fields, "Range"])
        assert names[-2:] == ["revision", "Range"]


def test_current_revision_is_the_maximum(operations: dict[str, Any]) -> None:
    for resource in RESOURCES:
        got, posted = (operations[f"{verb}{resource.operation}"] for verb in ("get", "post"))
        by_name = {parameter["name"]: parameter["schema"] for parameter in got["parameters"]}
        kind = got["responses"]["200"]["content"]["application/json"]["example"]["kind"]
        body = posted["requestBody"]["content"]["application/json"]["schema"]

        assert by_name["revision"]["maximum"] == TABLE_REVISIONS[kind]
        assert body["properties"]["revision"]["maximum"] == TABLE_REVISIONS[kind]


def test_operations_with_an_extension_document_the_checksum(operations: dict[str, Any]) -> None:
    for name in ("getEncoding", "postEncoding", "postRopeApply"):
        plain, chosen = (operations[name + end]["responses"]["200"] for end in ("", "As"))

        assert "text/plain" not in plain["content"]
        assert "sha256sum" in chosen["content"]["text/plain"]["schema"]["description"]


def test_every_operation_documents_the_shared_problems(operations: dict[str, Any]) -> None:
    for operation in operations.values():
        assert {"400", "401", "408", "414", "431", "503"} <= set(operation["responses"])


def test_example_of_an_answer_equals_the_answer(client: Client, operations: dict[str, Any]) -> None:
    for resource in RESOURCES:
        content = operations[f"get{resource.operation}"]["responses"]["200"]["content"]
        answer = client.get(f"{resource.path}.json?{resource.example}")
        assert content["application/json"]["example"] == answer.json()


def test_every_error_has_an_example(client: Client, operations: dict[str, Any]) -> None:
    shared = client.get("/openapi.json").json()["components"]["responses"]
    seen: set[str] = set()
    for operation in operations.values():
        for status, described in operation["responses"].items():
            if int(status) < 400:
                continue
            response = described
            if "$ref" in described:
                response = shared[described["$ref"].rpartition("/")[2]]
            examples = response["content"]["application/problem+json"]["examples"]
            for name, example in examples.items():
                assert example["value"]["status"] == int(status)
                seen.add(name)

    assert seen == {problem.name for problem in TYPES.values()} - {"method-not-allowed"}


def test_example_bodies_are_answered_as_documented(
    client: Client, operations: dict[str, Any]
) -> None:
    for endpoint in (*RESOURCES, *TRANSFORMS, *COMPOSITIONS):
        operation = operations[f"post{endpoint.operation}"]
        body = operation["requestBody"]["content"]["application/json"]["example"]
        query = "" if endpoint.has_get else f"?{endpoint.example}"
        answer = client.post(endpoint.path + query, json=body)
        assert answer.status_code == 200, answer.text
        expected = operation["responses"]["200"]["content"]["application/json"]["example"]
        assert answer.json() == expected


READABLE = {FORMATS[name].media_type for name in ("json", "npy", "safetensors")}


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


def content(operation: Mapping[str, Any]) -> Any:
    return operation["requestBody"]["content"]["application/json"]


@pytest.mark.parametrize("posted", [NAMED, EVERY_ARRAY], ids=["composition", "transform"])
@pytest.mark.parametrize("suffix", ["", ".{extension}"])
def test_every_format_of_a_post_is_documented(posted: Endpoint, suffix: str) -> None:
    operation = post_operation(posted)
    operation = with_extension(posted, operation) if suffix else operation
    extra = operation["openapi_extra"]

    assert operation["operation_id"] == f"postNone{'As' if suffix else ''}"
    assert set(extra["requestBody"]["content"]) == READABLE
    assert extra["requestBody"]["required"] is True
    assert [parameter["name"] for parameter in extra["parameters"]] == [
        "factor",
        "shift",
        *(["extension"] if suffix else []),
    ]
    assert {"200", "413", "415", "422"} <= set(extra["responses"])
    assert ("404" in extra["responses"]) == bool(suffix)


def test_schema_of_a_body_has_arrays_and_parameters() -> None:
    described = content(post_operation(NAMED)["openapi_extra"])

    schema = described["schema"]
    assert list(schema["properties"]) == ["weight", "mask", "factor", "shift"]
    assert schema["properties"]["weight"]["description"] == "the learned table, (buckets, heads)"
    assert schema["required"] == ["weight"]
    assert described["example"] == {"weight": [[0.5, 1.5]]}
    jsonschema.validate(described["example"], schema)


def test_schema_of_an_array_is_nested_lists() -> None:
    schema = content(post_operation(NAMED)["openapi_extra"])["schema"]["properties"]
    weight, mask = map(jsonschema.Draft202012Validator, (schema["weight"], schema["mask"]))

    assert weight.is_valid([[0.5, 1], [2, 3]])
    assert not any(map(weight.is_valid, ([0.5], [[[0.5]]], [], [[]], [["0.5"]], [[True]])))
    assert mask.is_valid([1, 0])
    assert mask.is_valid([True, False])
    assert not any(map(mask.is_valid, ([1, True], [0.5], [[1]])))


def test_schema_of_vectors_has_at_least_two_axes() -> None:
    schema = content(post_operation(EVERY_ARRAY)["openapi_extra"])["schema"]
    x = jsonschema.Draft202012Validator(schema["properties"]["x"])

    assert schema["required"] == ["x"]
    assert all(map(x.is_valid, ([[1, 2]], [[[1, 2]], [[3, 4]]])))
    assert not any(map(x.is_valid, ([], [[]], [1, 2], [["1"]], [[[]]])))


def file_descriptions(posted: Endpoint) -> dict[str, str]:
    """Return the descriptions of binary files, by format."""
    content = post_operation(posted)["openapi_extra"]["requestBody"]["content"]
    binary = {name: FORMATS[name].media_type for name in ("npy", "safetensors")}
    return {
        name: content[media_type]["schema"]["description"]
        for name, media_type in binary.items()
        if media_type in content
    }


REALS = "(float16, float32 or float64, in safetensors bfloat16, too)"
TRUTHS = "(integers of any type, booleans, or real numbers that are integers)"


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


EVERY_REPORT = pytest.mark.parametrize("report", REPORTS, ids=lambda known: known.path)


def documented(client: Client, report: Endpoint) -> Any:
    return client.get("/openapi.json").json()["paths"][report.path]["post"]


@pytest.mark.parametrize("report", REPORTS[1:], ids=lambda known: known.path)
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
    components = client.get("/openapi.json").json()["components"]
    sent = operation["requestBody"]["content"]["application/json"]
    jsonschema.validate(sent["example"], sent["schema"])

    answer = client.post(f"{report.path}?{report.example}", json=sent["example"])

    assert response["examples"]["report"]["$ref"] == f"#/components/examples/{report.operation}"
    assert response["schema"]["$ref"] == f"#/components/schemas/{report.operation}"
    assert answer.json() == components["examples"][report.operation]["value"]
    jsonschema.validate(answer.json(), components["schemas"][report.operation])


def test_problems_of_json_bodies_do_not_mention_other_formats(client: Client) -> None:
    responses = documented(client, CONFIG)["responses"]
    details = [
        example["value"]["detail"]
        for status in ("413", "415")
        for example in responses[status]["content"]["application/problem+json"]["examples"].values()
    ]

    assert details[0].endswith("(POSREF_MAX_JSON_BODY_BYTES)")
    assert details[-1] == "Content-Type is text/plain: send application/json"


def test_page_is_documented_with_its_problems() -> None:
    documented = page_operation("getX", "X", "text/plain", {"type": "string"})

    assert documented["operation_id"] == "getX"
    assert {"200", "422", "500"} <= documented["openapi_extra"]["responses"].keys()
