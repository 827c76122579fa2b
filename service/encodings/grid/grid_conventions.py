"""Whose sin-cos table of a grid there is to ask for, and what each convention takes.

Parameters of sin-cos tables of grids, under the names of the libraries that make them.

``/encoding/grid``: sin-cos tables of images and videos, by the conventions of who makes them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from service.delivery.resources import Resource
from service.encodings.fields import ArrayParameters, Integers, RealDType, dtype_field, impossible
from service.encodings.grid import sincos as features
from service.encodings.grid import sincos as layouts
from service.encodings.grid.sincos import ChannelBlock, ChannelsFirstTable, Grid, GridTable, Layout
from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics.document import Document, ParameterValue
from service.numerics.dtypes import REAL_DTYPES, DType
from service.numerics.limits import (
    MAX_AXES_CHANNELS,
    MAX_FACTOR,
    MAX_LENGTH,
    MAX_SCALED_BASE,
    MIN_FACTOR,
    MIN_SCALE,
)
from service.numerics.tables import Table

AXES = ("depth", "height", "width")
"""The axes of a grid, of which one of fewer has the last."""


@dataclass(frozen=True)
class GridConvention:
    """How a library makes the table of a grid.

    Attributes:
        source: library and version.
        axes: how many axes a grid may have.
        layout: lays the table out.
        defaults: the parameters of its own that it takes, and what they are unless given.
        optional: others that it takes, which are nothing unless given.
        required: others that it cannot do without.
        multiple_of: what d_model must be a multiple of.
        is_spread: whether the exponents are k/(n − 1), so that one frequency for an axis divides
            by zero.
        gives_channels: whether d_model follows from the other parameters.
        channels_first: whether the channels come before the tokens unless asked otherwise.
    """

    source: str
    axes: tuple[int, ...]
    layout: Callable[[Grid], Layout]
    defaults: Mapping[str, ParameterValue]
    optional: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    multiple_of: int = 1
    is_spread: bool = False
    gives_channels: bool = False
    channels_first: bool = False

    @property
    def takes(self) -> frozenset[str]:
        """Name the parameters of its own."""
        return frozenset((*self.defaults, *self.optional, *self.required))


_BASE: Mapping[str, ParameterValue] = {"base": 10000.0}
_ONE_CLASS_TOKEN: Mapping[str, ParameterValue] = {**_BASE, "cls_token": False}
_FEATURES: Mapping[str, ParameterValue] = {"concat_pos": True}

CONVENTIONS: Mapping[str, tuple[GridConvention, ...]] = MappingProxyType(
    {
        "mae": (
            GridConvention(
                "facebookresearch/mae efb2a80", (2,), layouts.mae, _ONE_CLASS_TOKEN, multiple_of=4
            ),
        ),
        "transformers": (
            GridConvention(
                "transformers 5.23.0 ViT-MAE, AIMv2, RT-DETR",
                (2,),
                layouts.transformers,
                _ONE_CLASS_TOKEN,
                multiple_of=4,
            ),
        ),
        "moco-v3": (
            GridConvention(
                "facebookresearch/moco-v3", (2,), layouts.moco, _ONE_CLASS_TOKEN, multiple_of=4
            ),
        ),
        "simple-vit": (
            GridConvention(
                "big_vision, vit-pytorch SimpleViT",
                (2,),
                layouts.simple_vit,
                _BASE,
                multiple_of=4,
                is_spread=True,
            ),
        ),
        "timm": (
            GridConvention(
                "timm 1.0.31 build_sincos2d_pos_embed",
                (2,),
                layouts.timm,
                {**_BASE, "reverse_coord": False, "interleave_sin_cos": False},
                multiple_of=4,
            ),
        ),
        "timm-fourier": (
            GridConvention(
                "timm 1.0.31 FourierEmbed",
                (2,),
                features.timm_fourier,
                {"num_bands": 64, "max_resolution": (224, 224), **_FEATURES},
                gives_channels=True,
            ),
        ),
        "detr": (
            GridConvention(
                "facebookresearch/detr 29901c5, transformers 5.23.0 DETR",
                (2,),
                layouts.detr,
                {**_BASE, "normalize": False},
                optional=("scale",),
                multiple_of=4,
                channels_first=True,
            ),
        ),
        "diffusers": (
            GridConvention(
                "diffusers 0.42.1 get_2d_sincos_pos_embed",
                (2,),
                layouts.diffusers,
                {**_ONE_CLASS_TOKEN, "interpolation_scale": 1.0, "base_size": 16},
                optional=("extra_tokens",),
                multiple_of=4,
            ),
            GridConvention(
                "get_3d_sincos_pos_embed",
                (3,),
                layouts.diffusers_video,
                {
                    **_BASE,
                    "spatial_interpolation_scale": 1.0,
                    "temporal_interpolation_scale": 1.0,
                },
                multiple_of=16,
            ),
        ),
        "positional-encodings": (
            GridConvention(
                "positional-encodings 6.0.3", (1, 2, 3), layouts.positional_encodings, _BASE
            ),
        ),
        "tensor2tensor": (
            GridConvention(
                "tensor2tensor 1.15.7 add_timing_signal_nd",
                (1, 2, 3),
                layouts.tensor2tensor,
                {"min_timescale": 1.0, "max_timescale": 10000.0},
                is_spread=True,
            ),
        ),
        "perceiver": (
            GridConvention(
                "transformers 5.23.0 Perceiver generate_fourier_features",
                (1, 2, 3),
                features.perceiver,
                {**_FEATURES, "sine_only": False},
                required=("num_bands", "max_resolution"),
                gives_channels=True,
            ),
        ),
    }
)


def convention_for(name: str, axes: int) -> GridConvention | None:
    """Find what a convention makes of so many axes, if anything."""
    return next((known for known in CONVENTIONS[name] if axes in known.axes), None)


def sincos_grid(
    grid: Grid, convention: GridConvention, *, name: str, channels_first: bool, dtype: DType
) -> Document:
    """Describe the table of a grid.

    The axes of the answer say in words what comes after what: ``token(height*width)`` has the
    columns run fastest, ``channel(sin width + cos width + …)`` one block of channels after the
    other, and what takes turns within a block has a stroke between.

    Args:
        grid: what the table is of.
        convention: what is made of it.
        name: of the convention.
        channels_first: whether the channels come before the tokens.
        dtype: a real element type.
    """
    layout = convention.layout(grid)
    channels = {} if convention.gives_channels else {"d_model": grid.d_model}
    parameters: dict[str, ParameterValue] = {
        "convention": name,
        **{axis: grid.lengths[axis] for axis in AXES if axis in grid.lengths},
        **channels,
        **grid.values,
        "channels_first": channels_first,
    }
    tokens, token_axes = _tokens(layout)
    shape = *tokens, grid.d_model
    table = GridTable(layout.along, layout.blocks, grid.d_model, layout.zero_rows, dtype, shape)
    channel_axis = f"channel({_said(layout.blocks, grid.d_model)})"
    arrays: dict[str, Table] = {"encoding": table}
    axes = (*token_axes, channel_axis)
    if channels_first:
        axes, shape = (channel_axis, *token_axes), (grid.d_model, *tokens)
        arrays = {"encoding": ChannelsFirstTable(table, prod(tokens), shape)}
    return Document("encoding-grid", parameters, arrays, axes=axes, states_axes=True)


def channels_of(grid: Grid, convention: GridConvention) -> int:
    """Count the channels that a convention makes of a grid."""
    return sum(block.width for block in convention.layout(grid).blocks)


def _tokens(layout: Layout) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Give shape and names of the axes of tokens."""
    names = list(layout.along)
    lengths = [along.tokens.length for along in layout.along.values()]
    kept, flat = names[: layout.leading], names[layout.leading :]
    if not flat:
        return tuple(lengths), tuple(names)
    rows = layout.zero_rows + prod(lengths[layout.leading :])
    said = "*".join(flat)
    said = f"0 + {said}" if layout.zero_rows else said
    return (*lengths[: layout.leading], rows), (*kept, f"token({said})")


def _said(blocks: tuple[ChannelBlock, ...], width: int) -> str:
    """Say what the channels hold, up to where they are cut off."""
    said, first = [], 0
    for block in blocks:
        if first < width:
            said.append(str(block))
        first += block.width
    return " + ".join(said)


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


_OWN = frozenset(
    name for known in CONVENTIONS.values() for convention in known for name in convention.takes
)


def _grid(parameters: GridParameters) -> Document:
    lengths = _lengths(parameters)
    convention = _convention(parameters, len(lengths))
    _check_taken(parameters, convention)
    values = _values(parameters, convention, len(lengths))
    grid = Grid(lengths, _channels(parameters, convention, Grid(lengths, 0, values)), values)
    _check_channels(grid, convention)
    channels_first = parameters.channels_first
    return sincos_grid(
        grid,
        convention,
        name=parameters.convention,
        channels_first=convention.channels_first if channels_first is None else channels_first,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _lengths(parameters: GridParameters) -> dict[str, int]:
    given = {axis: getattr(parameters, axis) for axis in AXES}
    if parameters.depth is not None and parameters.height is None:
        raise impossible("height", None, "height is required beside depth")
    lengths = {axis: length for axis, length in given.items() if length is not None}
    if prod(lengths.values()) > MAX_LENGTH:
        rule = "height, width and depth must make at most 2^62 tokens"
        raise impossible("height", parameters.height, rule)
    return lengths


def _convention(parameters: GridParameters, axes: int) -> GridConvention:
    convention = convention_for(parameters.convention, axes)
    if convention is None:
        counts = sorted(n for known in CONVENTIONS[parameters.convention] for n in known.axes)
        rule = (
            f"convention={parameters.convention} has {' or '.join(map(str, counts))} axes, not "
            f"{axes}: width is the first, height the second, depth the third"
        )
        name = "height" if axes < counts[0] else AXES[-axes]
        raise impossible(name, getattr(parameters, name), rule)
    return convention


def _check_taken(parameters: GridParameters, convention: GridConvention) -> None:
    """Refuse what means nothing in a convention, and ask for what it cannot do without."""
    faults = [
        *_unused(parameters, convention),
        *(
            Fault(name, None, f"{name} is required by convention={parameters.convention}")
            for name in convention.required
            if getattr(parameters, name) is None
        ),
    ]
    if faults:
        raise InvalidParameters(*faults)
    if parameters.scale is not None and not parameters.normalize:
        raise impossible("scale", parameters.scale, "scale goes with normalize=true")
    if "extra_tokens" in convention.takes:
        _check_extra_tokens(parameters)


def _unused(parameters: GridParameters, convention: GridConvention) -> Iterator[Fault]:
    axes = sum(getattr(parameters, axis) is not None for axis in AXES)
    for name in sorted(_OWN - convention.takes):
        value: Any = getattr(parameters, name)
        if value is not None:
            rule = f"{name} does not go with convention={parameters.convention}"
            of_others = any(name in known.takes for known in CONVENTIONS[parameters.convention])
            yield Fault(name, to_query(value), f"{rule} of {axes} axes" if of_others else rule)


def _check_extra_tokens(parameters: GridParameters) -> None:
    """Refuse half of what diffusers adds rows for, since it then adds none."""
    if bool(parameters.cls_token) != (parameters.extra_tokens is not None):
        rule = "adds rows of zeros only for cls_token=true together with extra_tokens"
        name = "cls_token" if parameters.cls_token else "extra_tokens"
        value = getattr(parameters, name)
        raise impossible(name, value, f"convention={parameters.convention} {rule}")


def _values(parameters: GridParameters, convention: GridConvention, axes: int) -> dict[str, Any]:
    """Give the parameters of a convention's own, with what they are unless given."""
    values: dict[str, Any] = dict(convention.defaults)
    for name in sorted(convention.takes):
        given = getattr(parameters, name)
        if given is not None:
            values[name] = given
    if "max_resolution" in values:
        values["max_resolution"] = _resolutions(values["max_resolution"], axes)
    if "base_size" in values:
        values["base_size"] = _size(values["base_size"])
    return values


def _resolutions(given: tuple[int, ...], axes: int) -> tuple[int, ...]:
    if len(given) not in {1, axes} or not all(1 <= each <= MAX_FACTOR for each in given):
        rule = f"max_resolution must be one number, or {axes}, one for each axis, from 1 to 10^9"
        raise impossible("max_resolution", given, rule)
    return given * (axes // len(given))


def _size(given: float) -> float:
    """Give a length that is a whole number of patches as an integer, which is how it is said."""
    return int(given) if given == int(given) else given


def _channels(parameters: GridParameters, convention: GridConvention, grid: Grid) -> int:
    given = parameters.d_model
    if not convention.gives_channels:
        if given is None:
            raise impossible("d_model", None, "d_model is required")
        return given
    channels = channels_of(grid, convention)
    if channels > MAX_AXES_CHANNELS:
        rule = f"num_bands makes {channels} channels, and there may be {MAX_AXES_CHANNELS}"
        raise impossible("num_bands", parameters.num_bands, rule)
    if given not in {None, channels}:
        rule = f"d_model is {channels} here, as num_bands makes it: leave it out"
        raise impossible("d_model", given, rule)
    return channels


def _check_channels(grid: Grid, convention: GridConvention) -> None:
    if grid.d_model % convention.multiple_of:
        rule = f"d_model must be a multiple of {convention.multiple_of} here"
        raise impossible("d_model", grid.d_model, rule)
    if convention.is_spread and grid.d_model // (2 * grid.axes) == 1:
        rule = (
            f"d_model {grid.d_model} leaves one frequency for each axis, where the library divides "
            "by zero: exponents are k/(n - 1)"
        )
        raise impossible("d_model", grid.d_model, rule)


GRID = Resource(
    path="/encoding/grid",
    operation="EncodingGrid",
    summary="The sin-cos table of an image or a video, by the convention of a library",
    parameters=GridParameters,
    document=_grid,
    example="convention=mae&height=2&width=3&d_model=8",
)
