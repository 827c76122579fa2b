"""The documentation of endpoints beside the tables: pages, and reports about an object."""

from collections.abc import Iterable, Mapping
from typing import Any

from service.delivery import problems
from service.delivery.examinations import Examination
from service.delivery.openapi import operation, tag_of
from service.delivery.openapi_headers import NEVER_KEPT, OF_PAGE
from service.delivery.openapi_schemas import Json, query_parameters
from service.delivery.problem_responses import OF_JSON_BODIES, problem_responses
from service.delivery.reports import Report
from service.formats.json_text import JSON

_REPORT_PROBLEMS = (
    problems.INVALID_PARAMETERS,
    problems.INVALID_BODY,
    problems.BODY_TOO_LARGE,
    problems.UNSUPPORTED_MEDIA_TYPE,
    problems.INTERNAL_ERROR,
)
_PAGE_PROBLEMS = (problems.INVALID_PARAMETERS, problems.INTERNAL_ERROR)


def page_operation(name: str, summary: str, media_type: str, schema: Mapping[str, Any]) -> Json:
    """Document a page that takes no parameters."""
    content = {media_type: {"schema": dict(schema)}}
    shown = {"description": "Successful", "headers": OF_PAGE, "content": content}
    extra: Json = {
        "tags": ["pages"],
        "responses": {"200": shown} | problem_responses(_PAGE_PROBLEMS),
    }
    return operation(name, summary, "", extra)


def report_operation(report: Report) -> Json:
    """Document a POST of an object that something is said about."""
    example = report.report(report.parameters(), report.example)
    schema = {"$ref": f"#/components/schemas/{report.operation}"}
    said = {"schema": schema, "example": example}
    return operation(
        f"post{report.operation}",
        report.summary,
        "",
        {
            "tags": [tag_of(report.path)],
            "parameters": query_parameters(report.parameters, {}),
            "requestBody": {
                "required": True,
                "content": {
                    JSON.media_type: {"schema": {"type": "object"}, "example": report.example}
                },
            },
            "responses": {
                "200": {
                    "description": report.says,
                    "headers": NEVER_KEPT,
                    "content": {JSON.media_type: said},
                }
            }
            | problem_responses(_REPORT_PROBLEMS, OF_JSON_BODIES),
        },
    )


def report_schemas(reports: Iterable[Report | Examination]) -> Json:
    """Give the schemas that the documentation of reports and examinations refers to, by name."""
    return {report.operation: dict(report.schema) for report in reports}
