"""The documentation of pages and of reports."""

from service.delivery.openapi_pages import page_operation, report_operation
from service.routes.rope_config import CONFIG


def test_a_report_is_documented_with_an_object_and_what_is_said_about_it() -> None:
    documented = report_operation(CONFIG)["openapi_extra"]

    sent = documented["requestBody"]["content"]["application/json"]["example"]
    said = documented["responses"]["200"]["content"]["application/json"]["example"]
    assert sent == CONFIG.example
    assert said == CONFIG.report(CONFIG.parameters(), CONFIG.example)
    assert [parameter["name"] for parameter in documented["parameters"]] == ["context_length"]


def test_a_page_is_documented_with_its_problems() -> None:
    documented = page_operation("getX", "X", "text/plain", {"type": "string"})

    assert documented["operation_id"] == "getX"
    assert {"200", "422", "500"} <= documented["openapi_extra"]["responses"].keys()
