"""The documentation of endpoints."""

from typing import Any
from urllib.parse import urlencode

import jsonschema
import pytest

from service import TABLE_REVISION
from service.delivery.composition import Composition
from service.delivery.problems import PROBLEM_TYPES
from service.delivery.resource import Resource, Transform
from service.routes import COMPOSITIONS, EXAMINATIONS, RESOURCES, TRANSFORMS
from tests.client import Client


@pytest.fixture(scope="module")
def operations(client: Client) -> dict[str, dict[str, Any]]:
    paths = client.get("/openapi.json").json()["paths"]
    listed = [operation for path in paths.values() for operation in path.values()]
    assert len({operation["operationId"] for operation in listed}) == len(listed)
    return {operation["operationId"]: operation for operation in listed}


def test_everything_is_documented_under_a_name_of_our_own(
    operations: dict[str, Any],
) -> None:
    for resource in RESOURCES:
        for verb in ("get", "post"):
            assert {f"{verb}{resource.operation}", f"{verb}{resource.operation}As"} <= set(
                operations
            )
    posted = [each.operation for each in TRANSFORMS] + [each.operation for each in COMPOSITIONS]
    for name in posted:
        assert {f"post{name}", f"post{name}As"} <= set(operations)
    assert {f"post{each.operation}" for each in EXAMINATIONS} <= set(operations)


def test_every_parameter_has_description_type_and_example(operations: dict[str, Any]) -> None:
    for operation in operations.values():
        for parameter in operation.get("parameters", ()):
            assert parameter["description"]
            if parameter["in"] != "header":
                assert "example" in parameter or parameter["schema"]["examples"]
            assert {"type", "enum", "const"} & set(parameter["schema"]), parameter


def test_bounds_are_said_in_the_words_of_json_schema(operations: dict[str, Any]) -> None:
    by_name = {
        parameter["name"]: parameter["schema"] for parameter in operations["getRope"]["parameters"]
    }

    assert (by_name["seq_len"]["minimum"], by_name["rotary_dim"]["multipleOf"]) == (1, 2)
    assert by_name["partial_rotary_factor"]["exclusiveMinimum"] == 0
    for operation in operations.values():
        for parameter in operation.get("parameters", ()):
            assert not {"ge", "gt", "le", "multiple_of", "max_length"} & set(parameter["schema"])


def test_examples_keep_to_their_schemas(operations: dict[str, Any]) -> None:
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


def test_what_a_page_fills_in_is_answered(client: Client) -> None:
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


def test_parameters_documented_are_those_taken(operations: dict[str, Any]) -> None:
    for resource in RESOURCES:
        documented = operations[f"get{resource.operation}"]["parameters"]
        assert [parameter["name"] for parameter in documented] == [
            *resource.parameters.model_fields,
            "Range",
        ]


def test_the_current_revision_is_the_largest(operations: dict[str, Any]) -> None:
    for resource in RESOURCES:
        got, posted = (
            operations[f"get{resource.operation}"],
            operations[f"post{resource.operation}"],
        )
        by_name = {parameter["name"]: parameter["schema"] for parameter in got["parameters"]}
        kind = got["responses"]["200"]["content"]["application/json"]["example"]["kind"]
        body = posted["requestBody"]["content"]["application/json"]["schema"]

        assert by_name["revision"]["maximum"] == TABLE_REVISION[kind]
        assert body["properties"]["revision"]["maximum"] == TABLE_REVISION[kind]


def test_an_extension_may_be_that_of_a_digest_which_is_text(operations: dict[str, Any]) -> None:
    for name in ("getEncoding", "postEncoding", "postRopeApply"):
        plain, chosen = (operations[name + end]["responses"]["200"] for end in ("", "As"))

        assert "text/plain" not in plain["content"]
        assert "sha256sum" in chosen["content"]["text/plain"]["schema"]["description"]


def test_every_operation_may_meet_what_any_request_may(operations: dict[str, Any]) -> None:
    for operation in operations.values():
        assert {"400", "401", "408", "414", "431", "503"} <= set(operation["responses"])


def test_the_examples_of_parameters_are_valid_together(client: Client) -> None:
    for resource in RESOURCES:
        answer = client.get(f"{resource.path}?{resource.example}")
        assert answer.status_code == 200


def test_the_example_of_an_answer_is_the_answer(client: Client, operations: dict[str, Any]) -> None:
    for resource in RESOURCES:
        content = operations[f"get{resource.operation}"]["responses"]["200"]["content"]
        answer = client.get(f"{resource.path}.json?{resource.example}")
        assert content["application/json"]["example"] == answer.json()


def test_every_error_has_an_example(client: Client, operations: dict[str, Any]) -> None:
    shared = client.get("/openapi.json").json()["components"]["responses"]
    seen: set[str] = set()
    for operation in operations.values():
        for status, said in operation["responses"].items():
            if int(status) < 400:
                continue
            response = shared[said["$ref"].rpartition("/")[2]] if "$ref" in said else said
            examples = response["content"]["application/problem+json"]["examples"]
            for name, example in examples.items():
                assert example["value"]["status"] == int(status)
                seen.add(name)

    assert seen == {problem.name for problem in PROBLEM_TYPES} - {"method-not-allowed"}


def test_posted_examples_are_answered_as_documented(
    client: Client, operations: dict[str, Any]
) -> None:
    everything: list[Resource | Transform | Composition] = [
        *RESOURCES,
        *TRANSFORMS,
        *COMPOSITIONS,
    ]
    for described in everything:
        operation = operations[f"post{described.operation}"]
        body = operation["requestBody"]["content"]["application/json"]["example"]
        query = "" if isinstance(described, Resource) else f"?{described.example}"
        answer = client.post(described.path + query, json=body)
        assert answer.status_code == 200, answer.text
        expected = operation["responses"]["200"]["content"]["application/json"]["example"]
        assert answer.json() == expected
