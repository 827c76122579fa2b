"""The sin-cos table of an image or a video, by the convention of a library."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from service.encodings.family import (
    ChannelTable,
    Factor,
    Integers,
    RealDType,
    about,
    exclusion_faults,
    impossible,
    optional,
    refuse,
)
from service.encodings.grid.grid_conventions import (
    AXES,
    CONVENTIONS,
    Grid,
    GridConvention,
    convention_for,
)
from service.encodings.grid.sincos import (
    ChannelBlock,
    ChannelsFirstTable,
    GridTable,
    Layout,
    copied_by_axis,
    lanes,
)
from service.encodings.meaning import ChannelColumns, Meaning, NamedVariant
from service.errors import Fault
from service.grammar import Boolean, Integer, Real
from service.numerics.limits import (
    MAX_AXES_CHANNELS,
    MAX_FACTOR,
    MAX_LENGTH,
    MAX_SCALED_BASE,
    MIN_SCALE,
)
from service.numerics.tables import ParameterValue, Table

# A type checker does not accept a computed Literal; pydantic does, for the enum and for refusals.
if TYPE_CHECKING:
    GridName: TypeAlias = str
else:
    GridName = Literal[tuple(CONVENTIONS)]

_PARAMETERS = sorted(
    {name for known in CONVENTIONS.values() for each in known for name in each.takes}
)

MIN_TIMESCALE, MAX_TIMESCALE = 1e-6, 1e6
"""The bounds of timescales, whose frequencies are then in the range of phases."""

_Length = Annotated[Integer, Field(ge=1, le=MAX_LENGTH)]
_Count = Annotated[Integer, Field(ge=1, le=MAX_AXES_CHANNELS)]
_Base = Annotated[Real, Field(ge=1, le=MAX_SCALED_BASE)]
_Scale = Annotated[Real, Field(ge=MIN_SCALE, le=MAX_FACTOR)]
_Timescale = Annotated[Real, Field(ge=MIN_TIMESCALE, le=MAX_TIMESCALE)]


class GridEncoding(ChannelTable, path="/encoding/grid"):
    """The sin-cos table of an image or a video, by the convention of a library.

    A grid has one to three axes: a 3-D grid depth (time), height and width, a 2-D grid height and
    width, a 1-D grid width. Height and width may differ also where a library makes only square
    grids. Tokens are numbered row by row unless the convention says otherwise. In the formulas w
    and h are the column and the row of a token, and ‖ separates blocks of channels. A convention
    refuses parameters that are not its own. Libraries call base temperature; base_size may be a
    fraction.

    The names of the axes state their order: ``token(height*width)`` has tokens row by row;
    ``channel(sin width + cos width + …)`` has one block of channels after the other, with ``|``
    between the alternating channels of a block.

    Formula: sin(x·ω_k) and cos(x·ω_k) of the coordinate x along each axis; the frequencies, the
        coordinates and the order of channels are those of the convention.
    Source: each convention has its own.
    Bound: 3.9·2^-53 before the single rounding to the element type; a coordinate is rounded to the
        nearest float64, and zeros are exact.
    Trap: libraries disagree whether rows or columns come first, both in the order of channels and
        in the numbering of tokens.
    """

    example: ClassVar[str] = "convention=mae&height=2&width=3&d_model=8"
    array: ClassVar[str] = "encoding"

    convention: GridName = about(
        "The library or model whose table is returned: "
        + "; ".join(
            f"{name} ({', '.join(each.source for each in known)})"
            for name, known in CONVENTIONS.items()
        ),
        "mae",
    )
    depth: _Length | None = optional("Number of frames or slices, for a 3-D grid.", 4)
    height: _Length | None = optional("Number of rows of tokens, for a 2-D or 3-D grid.", 4)
    width: _Length = about("Number of tokens in a row.", 6)
    d_model: _Count | None = optional(
        "Number of channels of all axes together; required, but num_bands determines it for "
        "perceiver and timm-fourier.",
        16,
    )
    base: _Base | None = optional("Base of the frequencies; 10000 unless given.", 10000)
    cls_token: Boolean | None = optional(
        "Whether the first row is zeros, for a class token (mae and others).", True
    )
    extra_tokens: _Count | None = optional(
        "Number of rows of zeros that come first with cls_token=true (diffusers).", 2
    )
    interpolation_scale: _Scale | None = optional("Divisor of coordinates (diffusers).", 2)
    base_size: Factor | None = optional(
        "Length to which each axis is stretched; 16 unless given (diffusers).", 16
    )
    spatial_interpolation_scale: _Scale | None = optional(
        "Divisor of the coordinates of rows and columns (diffusers with depth).", 2
    )
    temporal_interpolation_scale: _Scale | None = optional(
        "Divisor of the coordinates of time (diffusers with depth).", 2
    )
    reverse_coord: Boolean | None = optional(
        "Whether columns come before rows, in the channels and in the numbering of tokens (timm).",
        True,
    )
    interleave_sin_cos: Boolean | None = optional(
        "Whether all sines and cosines of rows come before those of columns, instead of all sines "
        "before all cosines (timm).",
        True,
    )
    normalize: Boolean | None = optional(
        "Whether positions are divided by the last one + 10^-6 and multiplied by scale (detr).",
        True,
    )
    scale: Factor | None = optional("Factor of normalized positions; 2π unless given (detr).", 1)
    min_timescale: _Timescale | None = optional(
        "The highest frequency; 1 unless given (tensor2tensor).", 1
    )
    max_timescale: _Timescale | None = optional(
        "max_timescale in ω_k = min_timescale·(max_timescale/min_timescale)^(-k/(n - 1)); 10000 "
        "unless given (tensor2tensor).",
        10000,
    )
    num_bands: _Count | None = optional(
        "Number of frequencies of each axis (perceiver, timm-fourier).", 4
    )
    max_resolution: Integers | None = optional(
        "Twice the highest band of each axis, in the order depth, height, width; or one number for "
        "all axes (perceiver, timm-fourier).",
        "5,7",
        max_length=len(AXES),
    )
    concat_pos: Boolean | None = optional(
        "Whether the first channels are the coordinates; true unless given (perceiver, "
        "timm-fourier).",
        True,
    )
    sine_only: Boolean | None = optional("Whether to leave out the cosines (perceiver).", True)
    channels_first: Boolean | None = optional(
        "Whether the channel axis comes first; unless given, true for detr and false otherwise.",
        True,
    )
    dtype: RealDType = "float32"

    @classmethod
    def variants(cls) -> Iterator[NamedVariant]:
        for name, several in CONVENTIONS.items():
            takes = {parameter for each in several for parameter in each.takes}
            takes |= {"depth"} if any(3 in each.axes for each in several) else set()
            source = "; ".join(each.source for each in several)
            own = several[0]
            yield NamedVariant.of(name, own.example, takes, models=own.models, source=source)

    @cached_property
    def grid(self) -> Grid:
        """The grid; raises InvalidParameters if the convention has no such table."""
        lengths, known = self._lengths, self._known
        self._check_taken()
        values = self._values()
        d_model = self._channels(Grid(lengths, 0, values))
        if d_model % known.multiple_of:
            rule = f"d_model must be a multiple of {known.multiple_of} here"
            raise impossible("d_model", d_model, rule)
        if known.is_spread and d_model // (2 * len(lengths)) == 1:
            rule = (
                f"d_model={d_model} gives n = 1 frequency for each axis, and the exponent "
                "k/(n - 1) divides by zero"
            )
            raise impossible("d_model", d_model, rule)
        return Grid(lengths, d_model, values)

    @cached_property
    def layout(self) -> Layout:
        return self._known.layout(self.grid)

    @property
    def has_channels_first(self) -> bool:
        return self._known.channels_first if self.channels_first is None else self.channels_first

    @property
    def axes(self) -> tuple[str, ...]:
        layout, names = self.layout, list(self.layout.along)
        tokens, flat = names[: layout.leading], names[layout.leading :]
        if flat:
            zeros = "0 + " if layout.zero_rows else ""
            tokens.append(f"token({zeros}{'*'.join(flat)})")
        channels = f"channel({_description(layout.blocks, self.grid.d_model)})"
        return (channels, *tokens) if self.has_channels_first else (*tokens, channels)

    def canonical(self) -> dict[str, ParameterValue]:
        grid = self.grid
        channels = {} if self._known.gives_channels else {"d_model": grid.d_model}
        return {
            "convention": self.convention,
            **grid.lengths,
            **channels,
            **grid.values,
            "channels_first": self.has_channels_first,
        }

    @property
    def row_axes(self) -> int:
        return self.layout.leading + (self.layout.leading < len(self.layout.along))

    def as_matrix(self) -> Mapping[str, ParameterValue]:
        return {"channels_first": False} if self.has_channels_first else {}

    def meaning(self) -> Meaning:
        layout, columns = self.layout, []
        for lane in lanes(layout.blocks, self.grid.d_model):
            part = None if lane.content == "coordinate" else lane.content
            start, step, count = lane.channels.start, lane.channels.step, len(lane.channels)
            if count:
                columns.append(ChannelColumns(part, start, step, count, 0, 1, lane.axis))
        lengths = (
            () if layout.zero_rows else tuple(self.grid.lengths[axis] for axis in layout.along)
        )
        return Meaning(
            tuple(columns),
            (-1, 1),
            turns_by="coordinate",
            grid=lengths,
            is_by_columns=bool(lengths) and [*layout.along][-1] == "height",
        )

    def table(self) -> Table:
        layout, width = self.layout, self.grid.d_model
        lengths = [along.tokens.length for along in layout.along.values()]
        tokens, flat = lengths[: layout.leading], lengths[layout.leading :]
        if flat:
            tokens.append(layout.zero_rows + prod(flat))
        table = copied_by_axis(GridTable(layout, width, self.element_type, (*tokens, width)))
        if not self.has_channels_first:
            return table
        return ChannelsFirstTable(table, prod(tokens))

    @cached_property
    def _lengths(self) -> dict[str, int]:
        given = {axis: getattr(self, axis) for axis in AXES}
        if self.depth is not None and self.height is None:
            raise impossible("height", None, "height is required with depth")
        lengths = {axis: length for axis, length in given.items() if length is not None}
        if prod(lengths.values()) > MAX_LENGTH:
            rule = "the product of height, width and depth must be at most 2^62"
            raise impossible("height", self.height, rule)
        return lengths

    @cached_property
    def _known(self) -> GridConvention:
        axes = len(self._lengths)
        known = convention_for(self.convention, axes)
        if known is None:
            counts = sorted(n for each in CONVENTIONS[self.convention] for n in each.axes)
            rule = (
                f"convention={self.convention} has {' or '.join(map(str, counts))} axes, not "
                f"{axes}: width is the first, height the second, depth the third"
            )
            name = "height" if axes < counts[0] else AXES[-axes]
            raise impossible(name, getattr(self, name), rule)
        return known

    def _check_taken(self) -> None:
        """Refuse parameters that the convention does not have; require those it needs."""
        known, others = self._known, CONVENTIONS[self.convention]
        excluding = {
            name: f"convention={self.convention}"
            + (f" of {len(self._lengths)} axes" if any(name in o.takes for o in others) else "")
            for name in _PARAMETERS
            if name not in known.takes
        }
        missing = [
            Fault(name, None, f"{name} is required by convention={self.convention}")
            for name in known.required
            if getattr(self, name) is None
        ]
        refuse([*exclusion_faults(self, excluding), *missing])
        if self.scale is not None and not self.normalize:
            raise impossible("scale", self.scale, "scale goes with normalize=true")
        if "extra_tokens" in self._known.takes:
            self._check_extra_tokens()

    def _check_extra_tokens(self) -> None:
        """Refuse cls_token without extra_tokens and the reverse.

        diffusers adds rows of zeros only for both.
        """
        if bool(self.cls_token) != (self.extra_tokens is not None):
            rule = "adds rows of zeros only for cls_token=true together with extra_tokens"
            name = "cls_token" if self.cls_token else "extra_tokens"
            raise impossible(name, getattr(self, name), f"convention={self.convention} {rule}")

    def _values(self) -> dict[str, Any]:
        """Return the convention's own parameters, those with defaults first."""
        values: dict[str, Any] = dict(self._known.defaults)
        given = {name: getattr(self, name) for name in sorted(self._known.takes)}
        values |= {name: value for name, value in given.items() if value is not None}
        if "max_resolution" in values:
            values["max_resolution"] = self._resolutions(values["max_resolution"])
        # A whole number of patches is an integer among canonical parameters.
        if "base_size" in values and values["base_size"] == int(values["base_size"]):
            values["base_size"] = int(values["base_size"])
        return values

    def _resolutions(self, given: tuple[int, ...]) -> tuple[int, ...]:
        axes = len(self._lengths)
        if len(given) not in {1, axes} or not all(1 <= each <= MAX_FACTOR for each in given):
            rule = (
                f"max_resolution must be one number, or {axes}, one for each axis, from 1 to 10^9"
            )
            raise impossible("max_resolution", given, rule)
        return given * (axes // len(given))

    def _channels(self, grid: Grid) -> int:
        """Return d_model, or the number of channels that num_bands gives."""
        if not self._known.gives_channels:
            if self.d_model is None:
                raise impossible("d_model", None, "d_model is required")
            return self.d_model
        channels = sum(block.width for block in self._known.layout(grid).blocks)
        if channels > MAX_AXES_CHANNELS:
            rule = f"num_bands gives {channels} channels; at most {MAX_AXES_CHANNELS} are possible"
            raise impossible("num_bands", self.num_bands, rule)
        if self.d_model not in {None, channels}:
            rule = f"num_bands fixes d_model at {channels}: leave d_model out"
            raise impossible("d_model", self.d_model, rule)
        return channels


def _description(blocks: tuple[ChannelBlock, ...], width: int) -> str:
    """Return a description of the channels of a row that is cut to width channels."""
    starts = accumulate((block.width for block in blocks), initial=0)
    return " + ".join(
        str(block) for block, start in zip(blocks, starts, strict=False) if start < width
    )
