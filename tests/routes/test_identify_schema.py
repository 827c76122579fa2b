"""What ``/identify`` answers, as its schema says it."""

from typing import Any

import jsonschema
import pytest

from service.routes.identify_schema import IDENTIFY_SCHEMA
from tests.client import Client

VALIDATOR = jsonschema.Draft202012Validator(IDENTIFY_SCHEMA)


@pytest.mark.parametrize(
    "body",
    [
        {"x": [[0, 1, 0, 1], [0.84147096, 0.5403023, 0.009999833, 0.99995]]},
        {"x": [[0.1, 0.9, 0.3], [0.7, 0.2, 0.5]]},
        {"x": [[0, 0], [0, 0]]},
        {"x": [[0, 1, 0, 1], [0.84147096, 0.5403023, 0.5, 0.99995]]},
        {"cos": [[1, 1], [0.5403023, 0.99995]], "sin": [[0, 0], [0.84147096, 0.009999833]]},
    ],
)
def test_every_answer_is_what_the_schema_says(client: Client, body: Any) -> None:
    answer = client.post("/identify", json=body)

    assert answer.status_code == 200
    VALIDATOR.validate(answer.json())


def test_the_schema_allows_nothing_else(client: Client) -> None:
    answer = client.post("/identify", json={"x": [[0, 0], [0, 0]]}).json()

    assert VALIDATOR.is_valid(answer)
    assert not VALIDATOR.is_valid({**answer, "verdict": "perhaps"})
    assert not VALIDATOR.is_valid({**answer, "more": 1})
