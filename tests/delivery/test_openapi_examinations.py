"""The documentation of examinations."""

from typing import Any

import jsonschema
import pytest

from service.delivery.examinations import Examination
from service.routes import EXAMINATIONS
from tests.client import Client

EVERY = pytest.mark.parametrize("examination", EXAMINATIONS, ids=lambda known: known.path)


def documented(client: Client, examination: Examination) -> Any:
    return client.get("/openapi.json").json()["paths"][examination.path]["post"]


@EVERY
def test_every_format_of_arrays_is_documented(client: Client, examination: Examination) -> None:
    content = documented(client, examination)["requestBody"]["content"]

    assert set(content) == {
        "application/json",
        "application/vnd.safetensors",
        "application/x-npy",
    }
    for name in examination.names:
        assert name in content["application/json"]["schema"]["properties"]
        assert name in content["application/vnd.safetensors"]["schema"]["description"]


@EVERY
def test_the_example_is_answered_as_documented(client: Client, examination: Examination) -> None:
    said = documented(client, examination)["responses"]["200"]["content"]["application/json"]
    named = said["examples"]["report"]["$ref"].rpartition("/")[2]
    examples = client.get("/openapi.json").json()["components"]["examples"]

    answer = client.post(examination.path, json=dict(examination.example))

    assert answer.json() == examples[named]["value"]


@EVERY
def test_the_answer_is_what_the_schema_says(client: Client, examination: Examination) -> None:
    answer = client.post(examination.path, json=dict(examination.example))

    name = examination.operation
    assert client.get("/openapi.json").json()["components"]["schemas"][name] == examination.schema
    jsonschema.validate(answer.json(), dict(examination.schema))


@EVERY
def test_the_example_of_the_body_holds_arrays_only(
    client: Client, examination: Examination
) -> None:
    operation = documented(client, examination)
    body = operation["requestBody"]["content"]["application/json"]

    jsonschema.validate(body["example"], body["schema"])
    assert set(body["example"]) <= set(examination.names)
