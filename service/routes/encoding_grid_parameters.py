"""Parameters of sin-cos tables of grids, under the names of the libraries that make them."""

from typing import Any, Literal

from pydantic import Field

from service.delivery.resource import ArrayParameters
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import Integers, RealDType, dtype_field
from service.tables.grid_conventions import AXES, CONVENTIONS
from service.tables.limits import (
    MAX_AXES_CHANNELS,
    MAX_FACTOR,
    MAX_LENGTH,
    MAX_SCALED_BASE,
    MIN_FACTOR,
    MIN_SCALE,
)

MIN_TIMESCALE, MAX_TIMESCALE = 1e-6, 1e6
"""Of a nearest and a farthest: their frequencies stay in the range of phases."""


def _length(axis: str) -> Any:
    return Field(
        default=None, ge=1, le=MAX_LENGTH, description=f"Tokens along {axis}.", examples=[4]
    )


def _switch(description: str) -> Any:
    return Field(default=None, description=description, examples=[True])


def _scale(description: str) -> Any:
    return Field(default=None, ge=MIN_SCALE, le=MAX_FACTOR, description=description, examples=[2])


def _timescale(description: str, example: float) -> Any:
    return Field(
        default=None,
        ge=MIN_TIMESCALE,
        le=MAX_TIMESCALE,
        description=description,
        examples=[example],
    )


class GridParameters(ArrayParameters):
    """Parameters of a sin-cos table of a grid."""

    convention: Literal[
        "mae",
        "transformers",
        "moco-v3",
        "simple-vit",
        "timm",
        "timm-fourier",
        "detr",
        "diffusers",
        "positional-encodings",
        "tensor2tensor",
        "perceiver",
    ] = Field(
        description="Whose table it is: "
        + "; ".join(
            f"{name} ({', '.join(each.source for each in known)})"
            for name, known in CONVENTIONS.items()
        ),
        examples=["mae"],
    )
    depth: Integer | None = _length("a third axis, of time or of depth, the slowest")
    height: Integer | None = _length("the second axis, from row to row")
    width: Integer = Field(
        ge=1, le=MAX_LENGTH, description="Tokens along the last axis, in a row.", examples=[6]
    )
    d_model: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_AXES_CHANNELS,
        description="Channels of all axes together; of perceiver and timm-fourier they follow from "
        "the bands.",
        examples=[16],
    )
    base: Real | None = Field(
        default=None,
        ge=1,
        le=MAX_SCALED_BASE,
        description="Base of the frequencies; 10000 unless given.",
        examples=[10000],
    )
    cls_token: Boolean | None = _switch("mae and its kin: one row of zeros comes first.")
    extra_tokens: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_AXES_CHANNELS,
        description="diffusers: so many rows of zeros come first, beside cls_token=true.",
        examples=[2],
    )
    interpolation_scale: Real | None = _scale("diffusers: what coordinates are divided by.")
    base_size: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="diffusers: the length that both axes are stretched to; 16 unless given.",
        examples=[16],
    )
    spatial_interpolation_scale: Real | None = _scale(
        "diffusers with a depth: what coordinates of rows and columns are divided by."
    )
    temporal_interpolation_scale: Real | None = _scale(
        "diffusers with a depth: what coordinates of time are divided by."
    )
    reverse_coord: Boolean | None = _switch(
        "timm: the columns come first, in the channels and in the order of the tokens."
    )
    interleave_sin_cos: Boolean | None = _switch(
        "timm: sines and cosines of one axis, then those of the other."
    )
    normalize: Boolean | None = _switch(
        "detr: positions are divided by the last one + 10^-6, times scale."
    )
    scale: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
        description="detr: what normalized positions are multiplied by; 2π unless given.",
        examples=[1],
    )
    min_timescale: Real | None = _timescale("tensor2tensor: the fastest frequency; 1.", 1)
    max_timescale: Real | None = _timescale(
        "tensor2tensor: the slowest frequency is min_timescale squared over this; 10000.", 10000
    )
    num_bands: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_AXES_CHANNELS,
        description="perceiver, timm-fourier: frequencies of each axis.",
        examples=[4],
    )
    max_resolution: Integers | None = Field(
        default=None,
        max_length=len(AXES),
        description="perceiver, timm-fourier: twice the highest band of each axis, in the order of "
        "the axes; one number for every axis, or one for all.",
        examples=["5,7"],
    )
    concat_pos: Boolean | None = _switch(
        "perceiver, timm-fourier: the coordinates themselves come first; true unless given."
    )
    sine_only: Boolean | None = _switch("perceiver: no cosines.")
    channels_first: Boolean | None = _switch(
        "Channels before tokens; of detr true unless given, else false."
    )
    dtype: RealDType = dtype_field()
