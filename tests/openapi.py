"""The OpenAPI document with references replaced by what they refer to."""

from collections.abc import Mapping
from typing import Any

from service.delivery.endpoints import Report
from service.delivery.openapi.components import report_schemas


def referred(reference: str, document: Mapping[str, Any]) -> Any:
    """Return what a reference refers to."""
    found: Any = document
    for key in reference.removeprefix("#/").split("/"):
        found = found[key]
    return found


def inlined(node: Any, document: Mapping[str, Any]) -> Any:
    """Return a part of a document without references; members beside one are added."""
    if isinstance(node, list):
        return [inlined(each, document) for each in node]
    if not isinstance(node, dict):
        return node
    whole = {key: inlined(value, document) for key, value in node.items() if key != "$ref"}
    if "$ref" in node:
        return {**inlined(referred(node["$ref"], document), document), **whole}
    return whole


def report_schema(model: type[Report]) -> dict[str, Any]:
    """Return the JSON schema of a report, without references."""
    document = {"components": {"schemas": report_schemas(model)}}
    schema: dict[str, Any] = inlined(document["components"]["schemas"][model.__name__], document)
    return schema
