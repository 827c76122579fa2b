"""The documentation of endpoints that arrays are sent to."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import jsonschema
import numpy as np
import pytest
from pydantic import Field

from service.delivery.composition import Choice, Composition, InputArray
from service.delivery.openapi_arrays import posted_operation
from service.delivery.parameters import Parameters
from service.delivery.resource import Transform
from service.formats import FORMATS
from service.grammar import Integer
from service.tables.document import Document
from service.tables.table import StoredTable

READABLE = {FORMATS[name].media_type for name in ("json", "npy", "safetensors")}


class FactorParameters(Parameters):
    """Parameters of a product."""

    factor: Integer = Field(description="A factor.", examples=[2])
    shift: Integer = Field(default=0, description="A shift.", examples=[1])


def applied(parameters: FactorParameters, x: StoredTable) -> tuple[StoredTable, Mapping[str, Any]]:
    return StoredTable(x.elements * parameters.factor, x.dtype), {"factor": parameters.factor}


class KindParameters(FactorParameters):
    """Parameters that say what an array is."""

    kind: Literal["real", "truth"] | None = Field(
        default=None, description="What it is.", examples=["real"]
    )


def document(parameters: FactorParameters, arrays: Mapping[str, StoredTable]) -> Document:
    product, described = applied(parameters, arrays["weight"])
    return Document("relative-t5-bias", described, {"bias": product})


WEIGHT = InputArray("weight", "the learned table, (buckets, heads)", (2,), [[0.5, 1.5]])
MASK = InputArray("mask", "1 where there is padding", (1,), [1], is_integer=True, is_required=False)
COMPOSITION = Composition(
    path="/relative/none",
    operation="None",
    summary="Products",
    parameters=FactorParameters,
    inputs=(WEIGHT, MASK),
    document=document,
    example="factor=3",
)
TRANSFORM = Transform(
    path="/relative/none",
    operation="None",
    summary="Products",
    parameters=FactorParameters,
    kind="rope-apply",
    apply=applied,
    example="factor=3",
)


def content(operation: Mapping[str, Any]) -> Any:
    return operation["requestBody"]["content"]["application/json"]


@pytest.mark.parametrize("posted", [COMPOSITION, TRANSFORM], ids=["composition", "transform"])
@pytest.mark.parametrize("suffix", ["", ".{extension}"])
def test_every_way_to_send_and_to_be_answered_is_documented(
    posted: Transform | Composition, suffix: str
) -> None:
    operation = posted_operation(posted, suffix)
    extra = operation["openapi_extra"]

    assert operation["operation_id"] == f"postNone{'As' if suffix else ''}"
    assert set(extra["requestBody"]["content"]) == READABLE
    assert extra["requestBody"]["required"] is True
    assert [parameter["name"] for parameter in extra["parameters"]] == [
        "factor",
        "shift",
        *(["extension"] if suffix else []),
    ]
    assert {"200", "413", "415", "422"} <= set(extra["responses"])
    assert ("404" in extra["responses"]) == bool(suffix)


def test_arrays_stand_beside_the_parameters_and_optional_ones_are_not_required() -> None:
    described = content(posted_operation(COMPOSITION, "")["openapi_extra"])

    schema = described["schema"]
    assert list(schema["properties"]) == ["weight", "mask", "factor", "shift"]
    assert schema["properties"]["weight"]["description"] == "the learned table, (buckets, heads)"
    assert schema["required"] == ["weight"]
    assert described["example"] == {"weight": [[0.5, 1.5]]}
    jsonschema.validate(described["example"], schema)


@pytest.mark.parametrize("posted", [COMPOSITION, TRANSFORM], ids=["composition", "transform"])
def test_the_example_has_its_parameters_in_the_query_where_every_format_has_them(
    posted: Transform | Composition,
) -> None:
    parameters = posted_operation(posted, "")["openapi_extra"]["parameters"]

    by_name = {parameter["name"]: parameter for parameter in parameters}
    assert (by_name["factor"]["example"], by_name["factor"]["required"]) == ("3", True)
    assert "example" not in by_name["shift"]


def test_an_array_is_lists_in_lists_as_deep_as_it_has_axes() -> None:
    schema = content(posted_operation(COMPOSITION, "")["openapi_extra"])["schema"]["properties"]
    weight, mask = map(jsonschema.Draft202012Validator, (schema["weight"], schema["mask"]))

    assert weight.is_valid([[0.5, 1], [2, 3]])
    assert not any(map(weight.is_valid, ([0.5], [[[0.5]]], [], [[]], [["0.5"]], [[True]])))
    assert mask.is_valid([1, 0])
    assert mask.is_valid([True, False])
    assert not any(map(mask.is_valid, ([1, True], [0.5], [[1]])))


def test_vectors_are_lists_in_lists_at_least() -> None:
    schema = content(posted_operation(TRANSFORM, "")["openapi_extra"])["schema"]["properties"]
    x = jsonschema.Draft202012Validator(schema["x"])

    assert all(map(x.is_valid, ([[1, 2]], [[[1, 2]], [[3, 4]]])))
    assert not any(map(x.is_valid, ([], [[]], [1, 2], [["1"]], [[[]]])))


def test_a_transform_takes_x() -> None:
    described = content(posted_operation(TRANSFORM, "")["openapi_extra"])

    assert described["schema"]["required"] == ["x"]
    assert np.array(described["example"]["x"]).ndim == 2
    jsonschema.validate(described["example"], described["schema"])


def test_the_example_of_an_answer_is_what_is_made_of_the_example() -> None:
    responses = posted_operation(COMPOSITION, "")["openapi_extra"]["responses"]

    answer = responses["200"]["content"]["application/json"]["example"]
    assert (answer["kind"], answer["data"]) == ("relative-t5-bias", [[1.5, 4.5]])


def test_where_no_array_is_required_the_first_is_the_example() -> None:
    optional = replace(COMPOSITION, inputs=(replace(WEIGHT, is_required=False), MASK))

    described = content(posted_operation(optional, "")["openapi_extra"])

    assert described["example"] == {"weight": [[0.5, 1.5]]}
    assert described["schema"]["required"] == []


def held(posted: Transform | Composition) -> dict[str, str]:
    """Give what binary files are said to hold, by format."""
    content = posted_operation(posted, "")["openapi_extra"]["requestBody"]["content"]
    binary = {name: FORMATS[name].media_type for name in ("npy", "safetensors")}
    return {
        name: content[media_type]["schema"]["description"]
        for name, media_type in binary.items()
        if media_type in content
    }


REALS = "(float16, float32 or float64, in safetensors bfloat16, too)"
TRUTHS = "(integers of any type, booleans, or real numbers that are integers)"


def test_what_a_file_holds_is_documented() -> None:
    weight = f"weight: the learned table, (buckets, heads) {REALS}"
    mask = f"mask: 1 where there is padding {TRUTHS}"

    assert held(COMPOSITION) == {
        "npy": f"One array. {weight}.",
        "safetensors": f"Tensors by name. {weight}; {mask}.",
    }
    assert held(replace(COMPOSITION, inputs=(WEIGHT,))) == {
        "npy": f"One array. {weight}.",
        "safetensors": f"A tensor, under any name. {weight}.",
    }
    assert "each of which is answered under its name" in held(TRANSFORM)["safetensors"]


def test_npy_is_only_documented_where_it_is_known_which_array_it_holds() -> None:
    several = replace(COMPOSITION, inputs=(WEIGHT, replace(MASK, is_required=True)))
    optional = replace(COMPOSITION, inputs=(replace(WEIGHT, is_required=False), MASK))
    choice = Choice("kind", {"real": "weight", "truth": "mask"})
    chosen = replace(optional, parameters=KindParameters, choice=choice)

    assert list(held(several)) == list(held(optional)) == ["safetensors"]
    assert held(chosen)["npy"].startswith("One array, of which kind says what it is. weight: ")
