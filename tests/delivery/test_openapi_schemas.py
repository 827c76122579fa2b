"""The schemas of parameters."""

from service.delivery.openapi_schemas import object_schema, query_parameters
from service.routes.encoding import EncodingParameters


def test_a_list_is_text_in_a_query_and_text_or_one_or_a_list_in_a_body() -> None:
    in_query = {
        parameter["name"]: parameter["schema"]
        for parameter in query_parameters(EncodingParameters, {})
    }
    in_body = object_schema(EncodingParameters)["properties"]

    assert in_query["positions"]["type"] == "string"
    assert in_body["positions"]["type"] == ["string", "number", "array"]
    assert "items" not in in_query["positions"]


def test_only_parameters_of_the_example_have_one_to_fill_in() -> None:
    documented = query_parameters(EncodingParameters, {"seq_len": "4"})

    assert [p["name"] for p in documented if "example" in p] == ["seq_len"]
    assert [p["name"] for p in documented if p["required"]] == ["d_model"]


def test_nothing_may_be_null() -> None:
    assert "null" not in str(object_schema(EncodingParameters))
