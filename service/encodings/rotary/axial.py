"""Axial rotary tables for the tokens of an image or a video; each axis has its own channels.

Each frequency is multiplied by the coordinate along one axis. ``axial_conventions`` defines the
channels, frequencies and coordinates of each axis for each library and model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from service.encodings.family import Integers, Reals, about, impossible, optional, refuse_excluded
from service.encodings.grid.grids import (
    Coordinates,
    GridAxis,
    centred,
    counted,
    pixels,
    spread,
)
from service.encodings.rotary.angles import AXES, AxesAngles, PackedTable, RotaryAngles
from service.encodings.rotary.axial_conventions import (
    CONVENTIONS,
    PARAMETERS_OF_PLACES,
    PARAMETERS_OF_SERIES,
    AxialConvention,
    ConventionName,
    Placing,
)
from service.encodings.rotary.rope import (
    AxisParameters,
    check_frequencies,
    check_grid,
    check_rounding,
)
from service.encodings.rotary.rules import GivenFrequencies
from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics.axes import AngleRounding, Axis
from service.numerics.limits import (
    MAX_AXES_CHANNELS,
    MAX_FACTOR,
    MAX_SCALED_BASE,
    MIN_FACTOR,
    MIN_SCALE,
    MIN_UNIT,
)
from service.numerics.phase import (
    ConstantFrequencies,
    FrequencyRule,
    Geometric,
    Int64s,
    PeriodFrequencies,
    Picked,
    PixelBands,
    ScaledFrequencies,
)
from service.numerics.positions import RowPositions
from service.numerics.tables import ParameterValue

_MAX_AXES = 4
_POSITIONS = tuple(f"positions_{axis}" for axis in AXES)
_CANONICAL = (
    *("axes_dim", "grid", *_POSITIONS, "spatial_merge_size", "grid_indexing"),
    *("rope_theta", "inv_freq", "min_period", "max_period", "max_freq", "linear_bands"),
    *("grid_offset", "reference_grid", "grid_start", "grid_stop", "interpolation_scale"),
    *("normalize_coords", "class_token"),
)


def arranged_axes(
    rules: Sequence[FrequencyRule], positions: Sequence[RowPositions], placing: Placing
) -> tuple[Axis, ...]:
    """Return each axis with its frequencies, positions and columns of the angle table.

    Columns alternate between the axes, or are contiguous for each axis, as ``placing`` says.
    """
    axes, first = [], 0
    for index, (rule, along) in enumerate(zip(rules, positions, strict=True)):
        columns = range(first, first + rule.count)
        if placing == "alternating":
            columns = range(index, index + rule.count * len(rules), len(rules))
        axes.append(Axis(rule, along, tuple(columns)))
        first += rule.count
    return tuple(axes)


@dataclass(frozen=True)
class WithClassToken:
    """The positions of tokens and an added class token, which has the position 0.

    Attributes:
        positions: the positions of the other tokens.
        rows: the number of the other tokens.
        is_first: whether the class token is the first row; otherwise it is the last row.
    """

    positions: RowPositions
    rows: int
    is_first: bool

    @property
    def farthest(self) -> int:
        return self.positions.farthest

    def at(self, start: int, stop: int) -> Int64s:
        """Return the positions of rows start to stop, stop excluded, shape (stop - start,)."""
        shift = int(self.is_first)
        first, last = max(start - shift, 0), min(stop - shift, self.rows)
        positions = np.zeros(stop - start, dtype=np.int64)
        if first < last:
            offset = first + shift - start
            positions[offset : offset + last - first] = self.positions.at(first, last)
        return positions


AxisPositions: TypeAlias = tuple[RowPositions, Fraction]
"""The integer positions of tokens along an axis, and the coordinate of position 1."""


def _per_axis(description: str, example: str) -> Any:
    text = f"{description} One number for every axis, or one for all."
    return optional(text, example, max_length=_MAX_AXES)


def _factor(description: str, example: float) -> Any:
    return optional(description, example, ge=MIN_FACTOR, le=MAX_FACTOR)


class Axial(PackedTable, AxisParameters, path="/rope/axial"):
    """Axial rotary tables, by the conventions of libraries and models.

    The channels are divided among the axes of a grid, height and width, or time, height and width;
    in the formulas of conventions w is the number of channels of an axis. Tokens are numbered row
    by row, or with spatial_merge_size=2 in the blocks of 2 by 2 that Qwen-VL merges. grid_offset is
    added to coordinates, and grid_indexing=xy swaps the first two axes in the channels. inv_freq
    replaces the frequencies of every axis (DINOv3 weights contain rounded periods). positions_t,
    positions_h and positions_w replace grid for conventions whose coordinates are integer
    positions. pack and part have the meaning that they have for ``/rope``. angle=float32 requires
    integer coordinates; fractional coordinates are exact.

    Formula: cos(c·ω) and sin(c·ω) for the coordinate c of a token on the axis of each frequency.
    Source: the library version in the description of each convention.
    Bound: every cosine and sine is within 4·2^-53 of the formula, rounded once to its element type.
    Trap: libraries differ in the order of axes, in coordinates and in frequencies: choose the
        convention of the library that runs the model.
    """

    operation: ClassVar[str] = "RopeAxial"
    summary: ClassVar[str] = (
        "The rotary table of an image or a video, by the convention of a library or a model"
    )
    example: ClassVar[str] = "convention=qwen2_vl&head_dim=8&grid=2,3"

    convention: ConventionName = about(
        "The library or model whose table is returned: "
        + "; ".join(f"{name} ({convention.source})" for name, convention in CONVENTIONS.items()),
        "qwen2_vl",
    )
    head_dim: Integer | None = optional(
        "Number of rotary channels of all axes together; the sum of axes_dim unless given.",
        64,
        ge=2,
        le=MAX_AXES_CHANNELS,
        multiple_of=2,
    )
    axes_dim: Integers | None = optional(
        "Number of channels of each axis, in the order of the channels; the convention determines "
        "them unless given.",
        "16,56,56",
        max_length=_MAX_AXES,
    )
    grid: Integers | None = optional(
        "Number of tokens along each axis, as height,width or time,height,width; tokens are "
        "numbered along the last axis first. Required unless positions are given.",
        "4,6",
        max_length=_MAX_AXES,
    )
    spatial_merge_size: Integer | None = optional(
        "Number of rows and columns of the blocks in which tokens are numbered, as in vision "
        "models that merge patches (Qwen-VL: 2); row by row unless given.",
        2,
        ge=1,
        le=64,
    )
    grid_indexing: Literal["ij", "xy"] | None = optional(
        "Order of the axes in the channels: ij, the order of the grid, or xy, with the first two "
        "axes swapped; ij unless given.",
        "xy",
    )
    rope_theta: Real | None = optional(
        "Base of the frequencies or of the periods; the default depends on the convention.",
        10000,
        gt=1,
        le=MAX_SCALED_BASE,
    )
    inv_freq: Reals | None = optional(
        "The frequencies of every axis, in radians per coordinate, in place of the formula; for "
        "example the rounded frequencies that a model's weights contain.",
        "1,0.1",
        max_length=MAX_AXES_CHANNELS // 2,
    )
    grid_offset: Reals | None = _per_axis("The number added to coordinates.", "0.5")
    reference_grid: Reals | None = _per_axis("The grid that coordinates are scaled to.", "16,16")
    grid_start: Reals | None = _per_axis("The first coordinate; 0 unless given.", "0,0")
    grid_stop: Reals | None = _per_axis(
        "The exclusive end of coordinates; the number of tokens unless given.", "30,45"
    )
    interpolation_scale: Reals | None = _per_axis("Divisor of coordinates.", "1,2,2")
    normalize_coords: Literal["separate", "max", "min"] | None = optional(
        "Which side of the grid has the coordinates -1 to 1: each side (separate), the longer side "
        "(max) or the shorter side (min); separate unless given.",
        "max",
    )
    min_period: Real | None = _factor(
        "The shortest period, with max_period in place of rope_theta.", 0.5
    )
    max_period: Real | None = _factor("The longest period.", 20)
    max_freq: Real | None = _factor(
        "Twice the highest band (max_res in timm); the default depends on the convention.", 256
    )
    linear_bands: Boolean | None = optional(
        "Whether bands are evenly spaced instead of geometric; the default depends on the "
        "convention.",
        example=True,
    )
    class_token: Literal["first", "last"] | None = optional(
        "Adds a token at position 0 of every axis, before (first) or after (last) the others.",
        "last",
    )
    angle: AngleRounding = about(
        "exact: exact angles; float32: frequencies and angles rounded to float32, as engines do.",
        "float32",
        default="exact",
    )

    @property
    def recipe(self) -> AxialConvention:
        """The entry of CONVENTIONS for the parameter ``convention``."""
        return CONVENTIONS[self.convention]

    @property
    def channels(self) -> int:
        """The number of rotary channels of all axes together; raises InvalidParameters."""
        if self.head_dim is not None:
            return self.head_dim
        if self.axes_dim is None:
            raise impossible("head_dim", None, "head_dim is required, unless axes_dim is given")
        return sum(self.axes_dim)

    def canonical(self) -> dict[str, ParameterValue]:
        """Return the parameters that determine the angles, with the convention's defaults."""
        defaults: dict[str, ParameterValue] = {}
        if self.inv_freq is None and self.min_period is None:
            names = PARAMETERS_OF_SERIES[self.recipe.series]
            defaults = {name: value for name, value in vars(self.recipe).items() if name in names}
        if self.recipe.offset and self.grid is not None:
            defaults["grid_offset"] = (float(self.recipe.offset),)
        canonical: dict[str, ParameterValue] = {
            "convention": self.convention,
            "head_dim": self.channels,
        }
        for name in _CANONICAL:
            value: Any = getattr(self, name)
            value = defaults.get(name) if value is None else value
            # The defaults of grid_indexing and normalize_coords are not canonical.
            if value not in {None, "ij", "separate"}:
                canonical[name] = str(value) if name in _POSITIONS else value
        return canonical

    def frequency_rules(self, axes: int) -> Sequence[FrequencyRule]:
        """Return the frequency rule of each axis, in the order of the axes in the channels."""
        head_dim = self.channels
        theta = self.rope_theta or self.recipe.rope_theta
        if self.recipe.placing == "strided":
            excluded = ("axes_dim", "inv_freq")
            refuse_excluded(self, dict.fromkeys(excluded, f"convention={self.convention}"))
            if head_dim < 2 * axes:
                rule = f"head_dim must be at least {2 * axes}, a pair for each axis"
                raise impossible("head_dim", head_dim, rule)
            # Axis a has the frequencies a, a + axes, a + 2·axes, … of one series over the head.
            count = head_dim // 2
            series = Geometric(theta, head_dim, count)
            return [Picked(series, tuple(range(axis, count, axes))) for axis in range(axes)]
        return [self._series(theta, width) for width in self._widths(axes)]

    def _widths(self, axes: int) -> tuple[int, ...]:
        head_dim, widths = self.channels, self.axes_dim
        if widths is None:
            widths = self.recipe.widths(head_dim, axes)
            is_whole = self.recipe.share == "thirds" or sum(widths) == head_dim
            if not is_whole or any(width < 2 or width % 2 for width in widths):
                rule = f"head_dim {head_dim} does not divide into channels of {axes} axes in pairs"
                raise impossible("head_dim", head_dim, f"{rule} as {self.convention} has them")
            return widths
        is_even = all(width >= 2 and width % 2 == 0 for width in widths)
        if len(widths) != axes or not is_even or sum(widths) != head_dim:
            rule = f"axes_dim must be {axes} even numbers from 2 on with a sum of head_dim"
            raise impossible("axes_dim", widths, f"{rule}, {head_dim}")
        if self.recipe.placing == "alternating" and len(set(widths)) > 1:
            rule = f"the axes of convention={self.convention} alternate and need equal widths"
            raise impossible("axes_dim", widths, rule)
        return widths

    def _series(self, theta: float, width: int) -> FrequencyRule:
        """Return the frequencies of an axis with width channels, in radians per coordinate."""
        count = width // 2
        if self.inv_freq is not None:
            if len(self.inv_freq) != count:
                rule = f"inv_freq must have {count} numbers, one for each pair of an axis"
                given = len(self.inv_freq)
                raise impossible("inv_freq", given, f"{rule}, and has {given}")
            check_frequencies(self.inv_freq)
            return GivenFrequencies(self.inv_freq)
        if self.recipe.series == "geometric":
            return Geometric(theta, width, count)
        if self.recipe.series == "ones":
            return ConstantFrequencies(count)
        if self.recipe.series == "pixels":
            is_linear = self.linear_bands
            is_linear = self.recipe.linear_bands if is_linear is None else is_linear
            return PixelBands(self.max_freq or self.recipe.max_freq, count, is_linear)
        shortest, longest = self.min_period, self.max_period
        if shortest is None and longest is None:
            return PeriodFrequencies(1.0, theta, count, count)
        rule = "min_period and max_period go together, in place of rope_theta"
        if shortest is None or longest is None:
            raise impossible("min_period" if shortest is None else "max_period", None, rule)
        if self.rope_theta is not None:
            raise impossible("rope_theta", self.rope_theta, rule)
        return PeriodFrequencies(shortest, longest, count - 1, count)

    def rotary_angles(self) -> RotaryAngles:
        check_rounding(self.angle, self.channels)
        self._refuse_others()
        along, rows = self._from_grid() if self.grid else self._from_lists()
        if len(along) not in self.recipe.axes:
            counts = " or ".join(map(str, sorted(self.recipe.axes)))
            rule = f"convention={self.convention} has {counts} axes, not {len(along)}"
            name = "grid" if self.grid else "positions_w"
            raise impossible(name, getattr(self, name), rule)
        if self.angle == "float32" and any(unit != 1 for _, unit in along):
            rule = (
                "angle=float32 requires integer coordinates: engines round fractional ones to "
                "float32 first"
            )
            raise impossible("angle", self.angle, rule)
        if self.class_token is not None:
            is_first = self.class_token == "first"  # noqa: S105
            along = [(WithClassToken(each, rows, is_first), unit) for each, unit in along]
            rows += 1
        if self.recipe.is_reversed != (self.grid_indexing == "xy"):
            # Like meshgrid with indexing="xy": the first two axes are swapped, a third one stays.
            along = [*along[1::-1], *along[2:]]
        positions, units = zip(*along, strict=True)
        rules = map(ScaledFrequencies, self.frequency_rules(len(along)), units)
        axes = arranged_axes([*rules], positions, self.recipe.placing)
        return AxesAngles(axes, rows, self.canonical(), self.angle)

    def _refuse_others(self) -> None:
        """Raise InvalidParameters for parameters that convention, grid or inv_freq exclude."""
        lists = (*PARAMETERS_OF_PLACES.values(), *PARAMETERS_OF_SERIES.values())
        others = (name for names in lists for name in names if name not in self.recipe.takes)
        excluded = dict.fromkeys(others, f"convention={self.convention}")
        if self.inv_freq is not None:
            excluded |= dict.fromkeys(PARAMETERS_OF_SERIES[self.recipe.series], "inv_freq")
        if self.grid is not None:
            excluded |= dict.fromkeys(_POSITIONS, "grid")
        else:
            of_places = PARAMETERS_OF_PLACES[self.recipe.places]
            names = (*of_places, "grid_indexing", "spatial_merge_size")
            excluded |= dict.fromkeys(names, "positions")
        refuse_excluded(self, excluded)

    def _from_lists(self) -> tuple[list[AxisPositions], int]:
        """Return the listed positions and the unit of each axis, and the number of tokens."""
        given = self.positions_by_axis(every=False)
        if not given:
            raise impossible("grid", None, "grid is required, unless positions are given")
        if self.recipe.places != "counted":
            rule = f"positions do not go with convention={self.convention}: give a grid"
            raise impossible("positions_w", given["w"], rule)
        scales = self._each_axis("interpolation_scale", len(given), [1.0] * len(given))
        units = (1 / scale for scale in scales)
        return list(zip(given.values(), units, strict=True)), given["w"].count

    def _from_grid(self) -> tuple[list[AxisPositions], int]:
        """Return the tokens' positions and the unit of each axis of a grid, and the token count."""
        grid = self.grid or ()
        check_grid(grid)
        scales = self._each_axis("interpolation_scale", len(grid), [1.0] * len(grid))
        along = []
        for axis, coordinates in enumerate(self._coordinates(grid)):
            unit = coordinates.unit
            if not coordinates.is_countable or unit < MIN_UNIT:
                raise self._too_many_digits()
            first, step = int(coordinates.first / unit), int(coordinates.step / unit)
            positions = GridAxis(first, step, grid[axis], prod(grid[axis + 1 :]))
            along.append((self._in_blocks(positions, axis, grid), unit / scales[axis]))
        if self.recipe.repeats_frames and len(grid) == 3:
            along = along[1:]
        return along, prod(grid)

    def _in_blocks(self, positions: GridAxis, axis: int, grid: Sequence[int]) -> RowPositions:
        """Return the positions along an axis in token order: row by row, or in merged blocks."""
        size, columns = self.spatial_merge_size, len(grid) - 1
        if size is None or axis < columns - 1:
            return positions
        if columns == 0 or positions.length % size:
            rule = f"spatial_merge_size must divide the last two of grid, {to_query(grid)}"
            raise impossible("spatial_merge_size", size, rule)
        return positions.in_blocks(size, grid[-1], is_column=axis == columns)

    def _too_many_digits(self) -> InvalidParameters:
        """Return the error for coordinates without a common unit that is large enough."""
        names = PARAMETERS_OF_PLACES[self.recipe.places]
        given = [name for name in names if getattr(self, name) is not None] or ["grid"]
        rule = "leads to coordinates with too many digits: give shorter numbers"
        return InvalidParameters(
            *(Fault(name, to_query(getattr(self, name)), f"{name} {rule}") for name in given)
        )

    def _coordinates(self, grid: Sequence[int]) -> list[Coordinates]:
        axes = len(grid)
        if self.recipe.places == "spread":
            starts = self._each_axis("grid_start", axes, [0.0] * axes)
            stops = self._each_axis("grid_stop", axes, grid)
            return [spread(*each) for each in zip(grid, starts, stops, strict=True)]
        offsets = self._each_axis("grid_offset", axes, [self.recipe.offset] * axes)
        if self.recipe.places == "pixels":
            return [pixels(*each) for each in zip(grid, offsets, strict=True)]
        if self.recipe.places == "centred":
            sides = {"max": [max(grid)] * axes, "min": [min(grid)] * axes}
            chosen = sides.get(self.normalize_coords or "separate", grid)
            return [centred(*each) for each in zip(grid, offsets, chosen, strict=True)]
        if self.reference_grid is None:
            return [counted(*each) for each in zip(grid, offsets, strict=True)]
        references = self._each_axis("reference_grid", axes, ())
        return [counted(*each) for each in zip(grid, offsets, references, strict=True)]

    def _each_axis(self, name: str, axes: int, default: Sequence[float]) -> list[Fraction]:
        """Return the value of parameter ``name`` for each axis, in the order of the grid."""
        numbers = getattr(self, name)
        if numbers is not None and len(numbers) not in {1, axes}:
            rule = f"{name} must be one number, or {axes}, one for each axis"
            raise impossible(name, numbers, rule)
        if numbers is None:
            return list(map(Fraction, default))
        is_scale = name in {"interpolation_scale", "reference_grid"}
        if is_scale and not all(MIN_SCALE <= number <= MAX_FACTOR for number in numbers):
            rule = f"{name} must be numbers from {MIN_SCALE:g} to {MAX_FACTOR:g}"
            raise impossible(name, numbers, rule)
        return [Fraction(number) for number in numbers * (axes // len(numbers))]
