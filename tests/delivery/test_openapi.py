"""The documentation of endpoints."""

from typing import Any

import pytest

from service.delivery.problems import PROBLEM_TYPES
from service.delivery.resource import Resource, Transform
from service.routes import RESOURCES, TRANSFORMS
from tests.client import Client


@pytest.fixture(scope="module")
def operations(client: Client) -> dict[str, dict[str, Any]]:
    paths = client.get("/openapi.json").json()["paths"]
    listed = [operation for path in paths.values() for operation in path.values()]
    assert len({operation["operationId"] for operation in listed}) == len(listed)
    return {operation["operationId"]: operation for operation in listed}


def test_every_resource_and_transform_is_documented_under_a_name_of_our_own(
    operations: dict[str, Any],
) -> None:
    for resource in RESOURCES:
        for verb in ("get", "post"):
            assert {f"{verb}{resource.operation}", f"{verb}{resource.operation}As"} <= set(
                operations
            )
    for transform in TRANSFORMS:
        assert {f"post{transform.operation}", f"post{transform.operation}As"} <= set(operations)


def test_every_parameter_has_description_type_and_example(operations: dict[str, Any]) -> None:
    for operation in operations.values():
        for parameter in operation.get("parameters", ()):
            assert parameter["description"]
            assert parameter["example"] is not None
            assert {"type", "enum", "const"} & set(parameter["schema"]), parameter


def test_parameters_documented_are_those_taken(operations: dict[str, Any]) -> None:
    for resource in RESOURCES:
        documented = operations[f"get{resource.operation}"]["parameters"]
        assert [parameter["name"] for parameter in documented] == list(
            resource.parameters.model_fields
        )


def test_the_examples_of_parameters_are_valid_together(client: Client) -> None:
    for resource in RESOURCES:
        answer = client.get(f"{resource.path}?{resource.example}")
        assert answer.status_code == 200


def test_the_example_of_an_answer_is_the_answer(client: Client, operations: dict[str, Any]) -> None:
    for resource in RESOURCES:
        content = operations[f"get{resource.operation}"]["responses"]["200"]["content"]
        answer = client.get(f"{resource.path}.json?{resource.example}")
        assert content["application/json"]["example"] == answer.json()


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

    assert seen == {problem.name for problem in PROBLEM_TYPES} - {"method-not-allowed"}


def test_posted_examples_are_answered_as_documented(
    client: Client, operations: dict[str, Any]
) -> None:
    everything: list[Resource | Transform] = [*RESOURCES, *TRANSFORMS]
    for described in everything:
        operation = operations[f"post{described.operation}"]
        body = operation["requestBody"]["content"]["application/json"]["example"]
        answer = client.post(described.path, json=body)
        assert answer.status_code == 200, answer.text
        expected = operation["responses"]["200"]["content"]["application/json"]["example"]
        assert answer.json() == expected
