"""The sin-cos table of an image or a video, by the convention of a library."""

from functools import cached_property
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from service.encodings.family import (
    Factor,
    Integers,
    RealDType,
    TableFamily,
    about,
    impossible,
    misplaced,
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
from service.encodings.grid.sincos import ChannelBlock, ChannelsFirstTable, GridTable, Layout
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

# A type checker reads no computed Literal; pydantic does, for the enum and for refusals.
if TYPE_CHECKING:
    GridName: TypeAlias = str
else:
    GridName = Literal[tuple(CONVENTIONS)]

_PARAMETERS = sorted(
    {name for known in CONVENTIONS.values() for each in known for name in each.takes}
)

MIN_TIMESCALE, MAX_TIMESCALE = 1e-6, 1e6
"""Bounds of timescales: their frequencies stay in the range of phases."""

_Length = Annotated[Integer, Field(ge=1, le=MAX_LENGTH)]
_Count = Annotated[Integer, Field(ge=1, le=MAX_AXES_CHANNELS)]
_Base = Annotated[Real, Field(ge=1, le=MAX_SCALED_BASE)]
_Scale = Annotated[Real, Field(ge=MIN_SCALE, le=MAX_FACTOR)]
_Timescale = Annotated[Real, Field(ge=MIN_TIMESCALE, le=MAX_TIMESCALE)]


class GridEncoding(TableFamily, path="/encoding/grid"):
    """The sin-cos table of an image or a video, by the convention of a library.

    A grid has one to three axes: width tokens along the last axis, height along the one before,
    depth (time) along the slowest; it need not be square where a library makes squares only. Tokens
    come row by row unless the convention says otherwise. In the formulas w and h are the column and
    the row of a token, and ‖ separates blocks of channels. A convention refuses parameters that are
    not its own. base is what libraries call temperature; base_size may be a fraction.

    The names of the axes state their order: in ``token(height*width)`` the columns run fastest;
    ``channel(sin width + cos width + …)`` has one block of channels after the other, and ``|``
    between what alternates within a block.

    Formula: sin(x·ω_k) and cos(x·ω_k) of the coordinate x along each axis; the frequencies, the
        coordinates and the order of channels are those of the convention.
    Source: that of each convention.
    Bound: 3.9·2^-53 before the one rounding to the element type; a coordinate is the float64
        nearest to it, and zeros are exact.
    Trap: libraries disagree whether rows or columns come first, in the channels and in the tokens.
    """

    example: ClassVar[str] = "convention=mae&height=2&width=3&d_model=8"
    array: ClassVar[str] = "encoding"

    convention: GridName = about(
        "Library or model: "
        + "; ".join(
            f"{name} ({', '.join(each.source for each in known)})"
            for name, known in CONVENTIONS.items()
        ),
        "mae",
    )
    depth: _Length | None = optional("Frames or slices: the slowest axis.", 4)
    height: _Length | None = optional("Rows of tokens.", 4)
    width: _Length = about("Tokens in a row.", 6)
    d_model: _Count | None = optional(
        "Channels of all axes together; for perceiver and timm-fourier they follow from the bands.",
        16,
    )
    base: _Base | None = optional("Base of the frequencies; 10000 unless given.", 10000)
    cls_token: Boolean | None = optional("Put one row of zeros first (mae and others).", True)
    extra_tokens: _Count | None = optional(
        "Number of rows of zeros that come first with cls_token=true (diffusers).", 2
    )
    interpolation_scale: _Scale | None = optional("Divisor of coordinates (diffusers).", 2)
    base_size: Factor | None = optional(
        "Length to which both axes are stretched; 16 unless given (diffusers).", 16
    )
    spatial_interpolation_scale: _Scale | None = optional(
        "Divisor of the coordinates of rows and columns (diffusers with a depth).", 2
    )
    temporal_interpolation_scale: _Scale | None = optional(
        "Divisor of the coordinates of time (diffusers with a depth).", 2
    )
    reverse_coord: Boolean | None = optional(
        "Put the columns first, in the channels and in the order of the tokens (timm).", True
    )
    interleave_sin_cos: Boolean | None = optional(
        "Put sines and cosines of one axis before those of the other (timm).", True
    )
    normalize: Boolean | None = optional(
        "Divide positions by the last one + 10^-6, and multiply them by scale (detr).", True
    )
    scale: Factor | None = optional("Factor of normalized positions; 2π unless given (detr).", 1)
    min_timescale: _Timescale | None = optional(
        "The fastest frequency; 1 unless given (tensor2tensor).", 1
    )
    max_timescale: _Timescale | None = optional(
        "min_timescale squared over the slowest frequency; 10000 unless given (tensor2tensor).",
        10000,
    )
    num_bands: _Count | None = optional("Frequencies of each axis (perceiver, timm-fourier).", 4)
    max_resolution: Integers | None = optional(
        "Twice the highest band: one number for each axis in their order, or one for all "
        "(perceiver, timm-fourier).",
        "5,7",
        max_length=len(AXES),
    )
    concat_pos: Boolean | None = optional(
        "Put the coordinates first; true unless given (perceiver, timm-fourier).", True
    )
    sine_only: Boolean | None = optional("Leave the cosines out (perceiver).", True)
    channels_first: Boolean | None = optional(
        "Put channels before tokens; for detr true unless given, else false.", True
    )
    dtype: RealDType = "float32"

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
                f"d_model {d_model} leaves one frequency for each axis, where the library divides "
                "by zero: exponents are k/(n - 1)"
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

    def table(self) -> Table:
        layout, width = self.layout, self.grid.d_model
        lengths = [along.tokens.length for along in layout.along.values()]
        tokens, flat = lengths[: layout.leading], lengths[layout.leading :]
        if flat:
            tokens.append(layout.zero_rows + prod(flat))
        table = GridTable(layout, width, self.element_type, (*tokens, width))
        if not self.has_channels_first:
            return table
        return ChannelsFirstTable(table, prod(tokens))

    @cached_property
    def _lengths(self) -> dict[str, int]:
        given = {axis: getattr(self, axis) for axis in AXES}
        if self.depth is not None and self.height is None:
            raise impossible("height", None, "height is required beside depth")
        lengths = {axis: length for axis, length in given.items() if length is not None}
        if prod(lengths.values()) > MAX_LENGTH:
            rule = "height, width and depth must make at most 2^62 tokens"
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
        refuse([*misplaced(self, excluding), *missing])
        if self.scale is not None and not self.normalize:
            raise impossible("scale", self.scale, "scale goes with normalize=true")
        if "extra_tokens" in self._known.takes:
            self._check_extra_tokens()

    def _check_extra_tokens(self) -> None:
        """Refuse half of what diffusers adds rows for, since it then adds none."""
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
        """Return d_model, or the channels that the bands make."""
        if not self._known.gives_channels:
            if self.d_model is None:
                raise impossible("d_model", None, "d_model is required")
            return self.d_model
        channels = sum(block.width for block in self._known.layout(grid).blocks)
        if channels > MAX_AXES_CHANNELS:
            rule = f"num_bands makes {channels} channels, and there may be {MAX_AXES_CHANNELS}"
            raise impossible("num_bands", self.num_bands, rule)
        if self.d_model not in {None, channels}:
            rule = f"d_model is {channels} here, as num_bands makes it: leave it out"
            raise impossible("d_model", self.d_model, rule)
        return channels


def _description(blocks: tuple[ChannelBlock, ...], width: int) -> str:
    """Describe the channels of a row that is cut to a width."""
    starts = accumulate((block.width for block in blocks), initial=0)
    return " + ".join(
        str(block) for block, start in zip(blocks, starts, strict=False) if start < width
    )
