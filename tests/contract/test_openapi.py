"""What generators of clients need of the OpenAPI document."""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest

from service.delivery.openapi.components import BINARY
from tests.client import Client
from tests.openapi import referred

MOST_BYTES = 600_000
MOST_BYTES_CODED = 70_000
IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*")
EXAMPLES = {"example", "examples"}
PROPERTIES = {"properties", "mapping"}


@pytest.fixture(scope="module")
def served(client: Client) -> bytes:
    return client.get("/openapi.json").content


@pytest.fixture(scope="module")
def document(served: bytes) -> Any:
    return json.loads(served)


def schemas_within(node: Any, path: str = "", *, is_schema: bool = False) -> Iterator[Any]:
    """Yield the schemas of a part of a document with their paths; examples are none."""
    if isinstance(node, list):
        for index, each in enumerate(node):
            yield from schemas_within(each, f"{path}/{index}", is_schema=is_schema)
        return
    if not isinstance(node, dict):
        return
    if is_schema:
        yield path, node
    for key, value in node.items():
        below = f"{path}/{key}"
        if key in {"schemas", "properties"}:
            for name, each in value.items():
                yield from schemas_within(each, f"{below}/{name}", is_schema=True)
        elif key not in {*EXAMPLES, "mapping", "required", "enum"}:
            inner = key in {"schema", "items", "additionalProperties", "oneOf", "anyOf"}
            yield from schemas_within(value, below, is_schema=inner)


def references_in(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for each in node:
            yield from references_in(each)
    elif isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for key, value in node.items():
            if key not in EXAMPLES or path_of_examples(value):
                yield from references_in(value)


def path_of_examples(value: Any) -> bool:
    """Return whether examples are references, not values."""
    return isinstance(value, dict) and all(
        isinstance(each, dict) and "$ref" in each for each in value.values()
    )


def operations_in(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def test_the_document_is_small(served: bytes) -> None:
    assert served == orjson.dumps(orjson.loads(served))
    assert len(served) < MOST_BYTES
    assert len(gzip.compress(served)) < MOST_BYTES_CODED


def test_every_number_has_a_format(document: Any) -> None:
    formats = {"integer": "int64", "number": "double"}
    numbers = 0
    for path, schema in schemas_within(document):
        if schema.get("type") in formats:
            numbers += 1
            assert schema.get("format") == formats[schema["type"]], path

    assert numbers > 300


def test_a_bound_in_a_body_is_an_integer_of_64_bits_or_small(document: Any) -> None:
    """Clients in C# write it without an exponent, and do not compile otherwise."""
    schemas = document["components"]["schemas"]
    bodies = [schema for name, schema in schemas.items() if name.endswith("Request")]
    bounds = [
        bound
        for body in bodies
        for each in body["properties"].values()
        for name in ("minimum", "maximum", "exclusiveMinimum")
        if (bound := each.get(name)) is not None
    ]

    assert len(bounds) > 100
    assert all(abs(bound) <= 2**63 for bound in bounds)


def test_no_schema_has_a_choice_of_types_but_null(document: Any) -> None:
    for path, schema in schemas_within(document):
        assert not isinstance(schema.get("type"), list), path
        assert not {"const", "allOf", "not"} & schema.keys(), path
        if "anyOf" in schema:
            assert len(schema["anyOf"]) == 2, path
            assert schema["anyOf"][1] == {"type": "null"}, path
    choices = [path for path, schema in schemas_within(document) if "oneOf" in schema]
    assert choices == ["/components/schemas/Document"]


def test_enumerations_are_components(document: Any) -> None:
    named = [path for path, schema in schemas_within(document) if "enum" in schema]

    assert len(named) > 10
    assert all(re.fullmatch("/components/schemas/[A-Za-z0-9]+", path) for path in named)


def test_names_of_components_are_identifiers_that_differ_in_more_than_case(document: Any) -> None:
    for section, known in document["components"].items():
        if section not in {"headers", "securitySchemes"}:
            assert all(map(IDENTIFIER.fullmatch, known))
        assert len({name.lower() for name in known}) == len(known)


def test_every_component_is_used_and_every_reference_is_known(document: Any) -> None:
    used = {*references_in(document)}
    sections = {key: known for key, known in document["components"].items() if key[0] != "s"}
    sections["schemas"] = document["components"]["schemas"]

    assert all(referred(reference, document) for reference in used)
    defined = {f"#/components/{key}/{name}" for key, known in sections.items() for name in known}
    assert defined == used


def test_operations_have_different_identifiers_and_consist_of_references(document: Any) -> None:
    identifiers = []
    for _, operation in operations_in(document):
        identifiers.append(operation["operationId"])
        parts = [*operation.get("parameters", ()), *operation["responses"].values()]
        parts += [operation["requestBody"]] if "requestBody" in operation else []
        assert all(list(part) == ["$ref"] for part in parts)

    assert len(identifiers) > 100
    assert len({*identifiers}) == len(identifiers)


def test_a_path_with_an_extension_answers_bytes(document: Any) -> None:
    chosen = [op for path, op in operations_in(document) if path.endswith(".{extension}")]

    assert len(chosen) > 50
    for operation in chosen:
        answer = referred(operation["responses"]["200"]["$ref"], document)
        first, *_ = answer["content"]
        assert first == "application/octet-stream"
        for media_type, media in answer["content"].items():
            # Its schema would be that of bytes, and validators read JSON.
            schema = media["schema"] if media_type != "application/json" else {"$ref": BINARY}
            assert referred(schema["$ref"], document)["format"] == "binary"


def test_a_document_is_a_table_or_tables_by_its_type(document: Any) -> None:
    schemas = document["components"]["schemas"]

    described = schemas["Document"]["discriminator"]
    assert described["propertyName"] == "type"
    for kind, reference in described["mapping"].items():
        schema = referred(reference, document)
        assert re.fullmatch(schema["properties"]["type"]["pattern"], kind)
        assert "type" in schema["required"]
    assert {*described["mapping"].values()} == {
        each["$ref"] for each in schemas["Document"]["oneOf"]
    }
