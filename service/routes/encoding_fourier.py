"""``/encoding/fourier`` and ``/encoding/boxes``: Fourier features of numbers that are sent."""

from collections.abc import Mapping

import numpy as np
from pydantic import Field

from service.delivery.composition import Composition, InputArray
from service.delivery.parameters import Parameters
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real, spelled
from service.routes.parameters import RealDType, dtype_field
from service.tables import boxes, random_fourier
from service.tables.angle import Float64s
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES, widened
from service.tables.limits import MAX_CHANNELS, MAX_FACTOR
from service.tables.random_fourier import MAX_NUMBER, MAX_NUMBERS
from service.tables.real_positions import MIN_REAL_POSITION, out_of_range
from service.tables.table import StoredTable


class FourierParameters(Parameters):
    """Parameters of random Fourier features."""

    log: Boolean = Field(
        default=True, description="Multiply the logarithm of each number.", examples=[True]
    )
    flip_sin_to_cos: Boolean = Field(
        default=False, description="Put the cosines first.", examples=[False]
    )
    dtype: RealDType = dtype_field()


class BoxesParameters(Parameters):
    """Parameters of the features of boxes."""

    embed_dim: Integer = Field(
        ge=1,
        le=MAX_CHANNELS // 8,
        description="Frequencies of a coordinate; a box has eight times as many channels.",
        examples=[8],
    )
    temperature: Real = Field(
        default=100.0,
        ge=1,
        le=MAX_FACTOR,
        description="Base of the frequencies temperature^(k/embed_dim).",
        examples=[100],
    )
    dtype: RealDType = dtype_field()


def _fourier(parameters: FourierParameters, arrays: Mapping[str, StoredTable]) -> Document:
    weight, x = _exact(arrays, "weight"), _numbers(arrays, log=parameters.log)
    if len(weight) > MAX_CHANNELS // 2:
        rule = f"weight has {len(weight)} elements, and at most {MAX_CHANNELS // 2} are possible"
        raise InvalidBody(rule, "/weight")
    return random_fourier.gaussian(
        weight=weight,
        x=x,
        log=parameters.log,
        flip_sin_to_cos=parameters.flip_sin_to_cos,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _numbers(arrays: Mapping[str, StoredTable], *, log: bool) -> Float64s:
    """Give the numbers; raises InvalidBody unless each, or its logarithm, has exact products."""
    x = widened(arrays["x"].elements, arrays["x"].dtype) if log else _exact(arrays, "x")
    if log:
        wrong = ~((x > 0) & (x < np.inf))
        rule = "must be positive and finite where log=true"
    else:
        wrong, rule = np.abs(x) > MAX_NUMBER, f"must be at most {MAX_NUMBER:g} in size"
    if wrong.any():
        value = float(x[wrong.argmax()])
        raise InvalidBody(f"elements of x {rule}, and {value:g} is not", "/x", spelled(value))
    distinct = len(np.unique(x))
    if distinct > MAX_NUMBERS:
        rule = f"x has {distinct} different elements, and at most {MAX_NUMBERS} are possible"
        raise InvalidBody(f"{rule}: send it in parts", "/x")
    return x


def _exact(arrays: Mapping[str, StoredTable], name: str) -> Float64s:
    """Give the float64 values of an array; raises InvalidBody for one without exact angles."""
    values = widened(arrays[name].elements, arrays[name].dtype)
    out = out_of_range(values.reshape(-1))
    if out is not None:
        rule = f"must lie within ±2^62, and be 0 or {MIN_REAL_POSITION:g} at least in size"
        detail = f"elements of {name} {rule}, and {out:g} is not"
        raise InvalidBody(detail, f"/{name}", spelled(out))
    return values


def _boxes(parameters: BoxesParameters, arrays: Mapping[str, StoredTable]) -> Document:
    coordinates = _exact(arrays, "boxes")
    if coordinates.shape[-1] != 4:
        rule = f"boxes has {coordinates.shape[-1]} coordinates each, and must have 4"
        raise InvalidBody(rule, "/boxes")
    return boxes.embedded(
        boxes=coordinates,
        embed_dim=parameters.embed_dim,
        temperature=parameters.temperature,
        dtype=REAL_DTYPES[parameters.dtype],
    )


FOURIER = Composition(
    path="/encoding/fourier",
    operation="EncodingFourier",
    summary="Random Fourier features of numbers: sines and cosines of 2π·weight·ln x",
    parameters=FourierParameters,
    inputs=(
        InputArray("x", "numbers, noise levels for instance", ranks=(1,), example=[0.5, 1.0, 80.0]),
        InputArray(
            "weight",
            "random weights, already multiplied by their scale",
            ranks=(1,),
            example=[0.25, -1.5],
        ),
    ),
    document=_fourier,
    example="log=true",
)
BOXES = Composition(
    path="/encoding/boxes",
    operation="EncodingBoxes",
    summary="Fourier features of boxes",
    parameters=BoxesParameters,
    inputs=(
        InputArray(
            "boxes",
            "boxes of four coordinates each, the last axis, by box and batch where there are "
            "such axes",
            ranks=(1, 2, 3),
            example=[[0.125, 0.25, 0.5, 0.75]],
        ),
    ),
    document=_boxes,
    example="embed_dim=2",
)
