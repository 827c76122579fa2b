"""The documentation of pages and of reports."""

from typing import Any

import jsonschema

from service.delivery.openapi_pages import page_operation, report_operation, report_schemas
from service.routes.rope_config import CONFIG
from tests.client import Client


def documented() -> Any:
    return report_operation(CONFIG)["openapi_extra"]


def test_a_report_is_documented_with_an_object_and_what_is_said_about_it() -> None:
    sent = documented()["requestBody"]["content"]["application/json"]["example"]
    said = documented()["responses"]["200"]["content"]["application/json"]["example"]
    entry = said["rope"]["default"]

    assert (sent["model_type"], sent["rope_scaling"]["rope_type"]) == ("llama", "llama3")
    assert (said["model_type"], said["layout"], said["warnings"]) == ("llama", "half", [])
    assert (entry["head_dim"], entry["rope_theta"], entry["factor"]) == (128, 500000.0, 8.0)
    assert entry["origin"]["factor"] == "/rope_scaling/factor"
    assert entry["file"].startswith("/rope.npy?head_dim=128&rope_theta=500000&rope_type=llama3&")
    assert [parameter["name"] for parameter in documented()["parameters"]] == ["context_length"]


def test_a_report_s_answer_is_a_component_that_its_example_keeps_to(client: Client) -> None:
    said = documented()["responses"]["200"]
    content = said["content"]["application/json"]
    schemas = client.get("/openapi.json").json()["components"]["schemas"]

    assert said["description"] == "The rotary settings of the model"
    assert content["schema"] == {"$ref": "#/components/schemas/RopeConfig"}
    assert schemas["RopeConfig"]["required"][:2] == ["model_type", "layout"]
    assert {"Problem", "Document"} <= schemas.keys()
    jsonschema.validate(content["example"], schemas["RopeConfig"])
    assert report_schemas([CONFIG]) == {"RopeConfig": schemas["RopeConfig"]}


def test_problems_of_a_report_speak_of_json_alone() -> None:
    responses = documented()["responses"]
    details = [
        example["value"]["detail"]
        for status in ("413", "415")
        for example in responses[status]["content"]["application/problem+json"]["examples"].values()
    ]

    assert details[0].endswith("(POSREF_MAX_JSON_BODY_BYTES)")
    assert details[1] == "the body is said to be text/plain: send application/json"


def test_a_page_is_documented_with_its_problems() -> None:
    documented = page_operation("getX", "X", "text/plain", {"type": "string"})

    assert documented["operation_id"] == "getX"
    assert {"200", "422", "500"} <= documented["openapi_extra"]["responses"].keys()
