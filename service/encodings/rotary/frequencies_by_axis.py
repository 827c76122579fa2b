"""``/rope/axial/frequencies``, and the parameters of axial frequencies."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np

from service.encodings.family import (
    Integers,
    Parameters,
    Reals,
    TableFamily,
    about,
    impossible,
    optional,
    refuse_excluded,
)
from service.encodings.meaning import Meaning
from service.encodings.rotary.axial_conventions import (
    CONVENTIONS,
    PARAMETERS_OF_SERIES,
    AxialConvention,
    ConventionName,
)
from service.encodings.rotary.rope import check_frequencies
from service.encodings.rotary.rules import DynamicAlpha, GivenFrequencies
from service.grammar import Boolean, Integer, Real
from service.numerics.dtypes import INT64
from service.numerics.limits import MAX_AXES_CHANNELS, MAX_FACTOR, MAX_SCALED_BASE, MIN_FACTOR
from service.numerics.phase import (
    ConstantFrequencies,
    FrequencyRule,
    Geometric,
    PeriodFrequencies,
    Picked,
    PixelBands,
    frequency_seconds,
    wavelengths,
)
from service.numerics.positions import Positions
from service.numerics.tables import DecimalTable, Document, ParameterValue, StoredTable, Table

MAX_AXES = 4
_CANONICAL = (
    *("axes_dim", "grid_indexing", "rope_theta", "inv_freq"),
    *("ntk_scale", "min_period", "max_period", "max_freq", "linear_bands"),
)
# Parameters of conventions whose axes do not share one series.
OF_BLOCKS = ("axes_dim", "inv_freq", "ntk_scale")


def _factor(description: str, example: float) -> Any:
    return optional(description, example, ge=MIN_FACTOR, le=MAX_FACTOR)


class AxialSeries(Parameters):
    """The frequencies of each axis, by the conventions of libraries and models."""

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
        max_length=MAX_AXES,
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
    ntk_scale: Reals | None = optional(
        "NTK scaling of each axis, in the order of the channels, or one number for all: the base "
        "is multiplied by ntk_scale^(w/(w - 2)) on an axis with w channels.",
        "2,1,1",
        max_length=MAX_AXES,
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

    @property
    def recipe(self) -> AxialConvention:
        """The entry of CONVENTIONS for the parameter ``convention``."""
        return CONVENTIONS[self.convention]

    @property
    def head_channels(self) -> int:
        """The number of rotary channels of all axes together; raises InvalidParameters."""
        if self.head_dim is not None:
            return self.head_dim
        if self.axes_dim is None:
            raise impossible("head_dim", None, "head_dim is required, unless axes_dim is given")
        return sum(self.axes_dim)

    def canonical_values(
        self, names: Sequence[str], defaults: Mapping[str, ParameterValue]
    ) -> dict[str, ParameterValue]:
        """Return the parameters of these names that are given or have a default, in order."""
        if self.inv_freq is None and self.min_period is None:
            of_series = PARAMETERS_OF_SERIES[self.recipe.series]
            own = {name: value for name, value in vars(self.recipe).items() if name in of_series}
            defaults = {**own, **defaults}
        canonical: dict[str, ParameterValue] = {
            "convention": self.convention,
            "head_dim": self.head_channels,
        }
        for name in names:
            value: Any = getattr(self, name)
            value = defaults.get(name) if value is None else value
            # The defaults of grid_indexing and normalize_coords are not canonical.
            if value not in {None, "ij", "separate"}:
                canonical[name] = str(value) if isinstance(value, Positions) else value
        return canonical

    def order_of_axes(self, axes: int) -> list[int]:
        """Return the number of each grid axis, from 0, in the order of the axes in the channels."""
        order = list(range(axes))
        if self.recipe.is_reversed != (self.grid_indexing == "xy"):
            # Like meshgrid with indexing="xy": the first two axes are swapped, a third one stays.
            order = [*order[1::-1], *order[2:]]
        return order

    def columns(self, rules: Sequence[FrequencyRule]) -> list[tuple[int, ...]]:
        """Return the columns of the angle table that each axis has.

        They are contiguous for each axis, or alternate between the axes; the first ones are those
        of ``padding``.
        """
        columns, start = [], self.padding(rules)
        first = start
        for index, rule in enumerate(rules, start):
            own = range(first, first + rule.count)
            if self.recipe.placing == "alternating":
                own = range(index, index + rule.count * len(rules), len(rules))
            columns.append(tuple(own))
            first += rule.count
        return columns

    def padding(self, rules: Sequence[FrequencyRule]) -> int:
        """Return the number of columns of pairs that do not rotate, which come first."""
        count = sum(rule.count for rule in rules)
        return self.head_channels // 2 - count if self.recipe.is_padded else 0

    def frequency_rules(self, axes: int) -> Sequence[FrequencyRule]:
        """Return the frequency rule of each axis, in the order of the axes in the channels."""
        head_dim = self.head_channels
        theta = self.rope_theta or self.recipe.rope_theta
        if self.recipe.placing == "strided":
            refuse_excluded(self, dict.fromkeys(OF_BLOCKS, f"convention={self.convention}"))
            if head_dim < 2 * axes:
                rule = f"head_dim must be at least {2 * axes}, a pair for each axis"
                raise impossible("head_dim", head_dim, rule)
            # Axis a has the frequencies a, a + axes, a + 2·axes, … of one series over the head.
            count = head_dim // 2
            series = Geometric(theta, head_dim, count)
            return [Picked(series, tuple(range(axis, count, axes))) for axis in range(axes)]
        widths = self._widths(axes)
        if self.ntk_scale is None:
            return [self._series(theta, width) for width in widths]
        return [
            self._series(theta, width)
            if scale == 1
            else DynamicAlpha.from_keys(width, theta, {"alpha": scale})
            for width, scale in zip(widths, self._ntk_scales(self.ntk_scale, axes), strict=True)
        ]

    def _ntk_scales(self, scales: tuple[float, ...], axes: int) -> tuple[float, ...]:
        is_known = len(scales) in {1, axes}
        if not is_known or not all(MIN_FACTOR <= scale <= MAX_FACTOR for scale in scales):
            rule = f"ntk_scale must be one number, or {axes}, from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
            raise impossible("ntk_scale", scales, rule)
        return scales * (axes // len(scales))

    def excluded_of_series(self) -> dict[str, str]:
        """Return the parameters of frequencies that are refused, and what excludes each."""
        own = PARAMETERS_OF_SERIES[self.recipe.series]
        others = (name for names in PARAMETERS_OF_SERIES.values() for name in names)
        excluded = {name: f"convention={self.convention}" for name in others if name not in own}
        if self.inv_freq is not None:
            excluded |= dict.fromkeys(own, "inv_freq")
        return excluded

    def _widths(self, axes: int) -> tuple[int, ...]:
        head_dim, widths = self.head_channels, self.axes_dim
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
        if self.recipe.series in {"pixels", "rising"}:
            return self._bands(theta, count)
        shortest, longest = self.min_period, self.max_period
        if shortest is None and longest is None:
            return PeriodFrequencies(1.0, theta, count, count)
        rule = "min_period and max_period go together, in place of rope_theta"
        if shortest is None or longest is None:
            raise impossible("min_period" if shortest is None else "max_period", None, rule)
        if self.rope_theta is not None:
            raise impossible("rope_theta", self.rope_theta, rule)
        return PeriodFrequencies(shortest, longest, count - 1, count)

    def _bands(self, theta: float, count: int) -> FrequencyRule:
        if self.recipe.series == "pixels":
            is_linear = self.linear_bands
            is_linear = self.recipe.linear_bands if is_linear is None else is_linear
            return PixelBands(self.max_freq or self.recipe.max_freq, count, is_linear)
        if theta > MAX_FACTOR:
            rule = f"rope_theta must be at most {MAX_FACTOR:g} with convention={self.convention}"
            raise impossible("rope_theta", theta, rule)
        return PixelBands(2 * theta, count, is_linear=False)


class AxialFrequencies(TableFamily, AxialSeries, path="/rope/axial/frequencies"):
    """The frequency of each pair of axial rotary channels, and the axis whose coordinate it turns.

    Formula: ``inv_freq`` (r/2,) in radians per coordinate, by the convention; ``wavelength`` 2π/ω
        (r/2,) in coordinates; ``axis`` (r/2,) the number of the grid axis, from 0; all in the order
        of ``/rope/axial`` with pack=compact. With pack=half pair k has channels k and k + r/2, with
        pack=interleaved 2k and 2k + 1.
    Source: the library version in the description of each convention.
    Bound: each frequency and wavelength is the nearest to the formula.
    Trap: a scaled coordinate (reference_grid, interpolation_scale, DINOv3's centres) is no part of
        the frequency here, though libraries may multiply it in.
    """

    operation: ClassVar[str] = "RopeAxialFrequencies"
    summary: ClassVar[str] = "The frequency and the axis of each pair of axial rotary channels"
    example: ClassVar[str] = "convention=qwen2_vl&head_dim=8"
    axes: ClassVar[tuple[str, ...]] = ("pair",)

    num_axes: Integer | None = optional(
        "Number of axes; the number of axes_dim, or that of the convention, unless given.",
        2,
        ge=1,
        le=MAX_AXES,
    )
    part: Literal["inv_freq", "wavelength", "axis"] | None = optional(
        "Return only one of the arrays.", "inv_freq"
    )

    def meaning(self) -> Meaning:
        return Meaning(turns_by="coordinate")

    def document(self) -> Document:
        axes = self.num_axes or len(self.axes_dim or ()) or self.recipe.axes[0]
        if axes not in self.recipe.axes:
            raise impossible("num_axes", axes, self.recipe.refused_axes(self.convention, axes))
        refuse_excluded(self, self.excluded_of_series())
        rules = self.frequency_rules(axes)
        columns, order = self.columns(rules), self.order_of_axes(axes)
        if padding := self.padding(rules):
            rules = [GivenFrequencies((0.0,) * padding), *rules]
            columns, order = [tuple(range(padding)), *columns], [0, *order]
        axis = np.empty(sum(rule.count for rule in rules), dtype=np.int64)
        for own, number in zip(columns, order, strict=True):
            axis[list(own)] = number

        def ordered() -> Sequence[Decimal]:
            exact = zip(chain(*columns), chain(*(rule.exact() for rule in rules)), strict=True)
            return [frequency for _, frequency in sorted(exact)]

        shape, seconds = (len(axis),), max(map(frequency_seconds, rules))
        arrays: dict[str, Table] = {
            "inv_freq": DecimalTable(shape, ordered, seconds),
            "wavelength": DecimalTable(shape, lambda: wavelengths(ordered()), seconds),
            "axis": StoredTable(axis, INT64),
        }
        parameters = self.canonical_values(_CANONICAL, {}) | {"num_axes": axes}
        return self.describe(arrays, parameters, has_parts=True)
