"""The schema of comparisons."""

import jsonschema

from service.routes.compare_schema import COMPARE_SCHEMA


def test_the_schema_is_one_and_closed() -> None:
    jsonschema.Draft202012Validator.check_schema(COMPARE_SCHEMA)

    assert COMPARE_SCHEMA["additionalProperties"] is False
