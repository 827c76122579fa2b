"""What a convention of grids must have been given, by the series that were measured."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import exp, pi
from typing import TypeAlias

from service.analysis.grids.grid_bands import pixel_bands
from service.analysis.grids.grid_series import AxisTurns, Series
from service.analysis.grids.grid_ways import written
from service.analysis.plain import plain_numbers
from service.tables.document import ParameterValue
from service.tables.frequencies import Geometric, Spaced
from service.tables.grid_layouts import EPSILON, Layout

Values: TypeAlias = dict[str, ParameterValue]

_BASE = 10000.0
_BASE_SIZE = 16
# What float64 loses in the logarithms and powers of a fit, with room to spare.
_LEAST_ERROR = 2.0**-40

# What the resolution of all axes may have been meant to be: an image's usual side, powers of 2.
USUAL_RESOLUTIONS = (224, *(1 << power for power in range(1, 12)))
_MOST_RESOLUTIONS = 4


@dataclass(frozen=True, eq=False)
class Measures:
    """What was measured along the axes of a grid.

    Attributes:
        layout: what a convention would make of the grid, whatever its numbers.
        lengths: tokens along each axis by its name.
        turns: of each axis.
        series: the rates of each axis that has more than one token.
    """

    layout: Layout
    lengths: Mapping[str, int]
    turns: Mapping[str, AxisTurns]
    series: Mapping[str, Series]

    def firsts(self, *names: str) -> tuple[float, float] | None:
        """Give the first rate of axes, and its relative error; none where they differ."""
        found = [self.series[name] for name in names or self.series if name in self.series]
        return common([(each.first, each.first_error) for each in found])

    def bases(self) -> list[float | None]:
        """Give the bases that may be meant, the plainest first; None where the data has none."""
        known = [
            (exp(series.decay * span), series.decay_error * span)
            for name, series in self.series.items()
            if series.count > 1 and (span := _span(self.layout, name)) and series.decay * span < 600
        ]
        if not known:
            return [None] if not self.series or self._has_single() else []
        base = common(known)
        return [] if base is None else list(plain_numbers(*base, 2))

    def _has_single(self) -> bool:
        return all(series.count == 1 for series in self.series.values())


def _span(layout: Layout, name: str) -> float:
    rule = layout.along[name].rule
    if isinstance(rule, Geometric | Spaced):
        return rule.dim / 2
    return 0.0


def common(measured: list[tuple[float, float]]) -> tuple[float, float] | None:
    """Give what several measurements with relative errors have in common; none where nothing."""
    if not measured:
        return None
    best, error = min(measured, key=lambda each: each[1])
    for value, its_error in measured:
        if abs(value / best - 1) > 2 * (its_error + error) + _LEAST_ERROR:
            return None
    return best, max(error, _LEAST_ERROR)


def unit_steps(measures: Measures) -> Iterator[Values]:
    """Give the base of series that begin with one radian per token."""
    firsts = measures.firsts()
    if measures.series and (firsts is None or not _is(1.0, *firsts)):
        return
    for base in measures.bases():
        yield _with_base({}, base)


def _is(meant: float, measured: float, error: float) -> bool:
    return abs(measured - meant) <= 2 * error * abs(meant) + 2.0**-20


def _with_base(values: Values, base: float | None) -> Values:
    return values if base in {None, _BASE} else {**values, "base": base}


def detr(measures: Measures) -> Iterator[Values]:
    """Give the base, and the scale where positions are normalized."""
    yield from unit_steps(measures)
    scales = common(
        [
            (series.first * float(measures.lengths[name] + EPSILON), series.first_error)
            for name, series in measures.series.items()
        ]
    )
    if scales is None:
        return
    chosen: list[Values] = [{"normalize": True}] if _is(2 * pi, *scales) else []
    chosen += [
        {"normalize": True, "scale": scale}
        for scale in written(scales[0], scales[0] * scales[1], 2)
    ]
    for base in measures.bases()[:1]:
        yield from (_with_base(values, base) for values in chosen)


def diffusers(measures: Measures) -> Iterator[Values]:
    """Give what a grid was stretched to: base_size over interpolation_scale."""
    if set(measures.lengths) == {"depth", "height", "width"}:
        yield from _diffusers_video(measures)
        return
    sizes = common(
        [
            (series.first * measures.lengths[name], series.first_error)
            for name, series in measures.series.items()
        ]
    )
    if sizes is None:
        return
    size, error = sizes
    bases = measures.bases()
    for base_size in dict.fromkeys((_BASE_SIZE, *measures.lengths.values())):
        for scale in written(base_size / size, error * base_size / size):
            values: Values = {} if scale == 1 else {"interpolation_scale": scale}
            values |= {} if base_size == _BASE_SIZE else {"base_size": base_size}
            yield from (_with_base(values, base) for base in bases[:1])
    for stretched in written(size, error * size, 1):
        yield from (_with_base({"base_size": stretched}, base) for base in bases[:1])


def _diffusers_video(measures: Measures) -> Iterator[Values]:
    temporal = _scales(measures, "temporal", "depth")
    spatial = _scales(measures, "spatial", "height", "width")
    for base in measures.bases()[:2]:
        for one, other in product(temporal, spatial):
            yield _with_base({**one, **other}, base)


def _scales(measures: Measures, kind: str, *names: str) -> list[Values]:
    """Give what coordinates of axes may have been divided by; nothing where axes differ."""
    firsts = measures.firsts(*names)
    if firsts is None:
        return [] if any(name in measures.series for name in names) else [{}]
    if _is(1.0, *firsts):
        return [{}]
    scale, error = 1 / firsts[0], firsts[1]
    name = f"{kind}_interpolation_scale"
    return [{name: each} for each in written(scale, error * scale)]


def tensor2tensor(measures: Measures) -> Iterator[Values]:
    """Give the two timescales."""
    firsts = measures.firsts()
    if firsts is None:
        return
    shortest = next(plain_numbers(*firsts), 1.0)
    # Bases are ratios here: of the slowest timescale to the fastest.
    for ratio in measures.bases():
        if ratio is None:
            continue
        values: Values = {} if shortest == 1 else {"min_timescale": shortest}
        longest = shortest * ratio
        yield values if longest == _BASE else {**values, "max_timescale": longest}


def bands(measures: Measures) -> Iterator[Values]:
    """Give twice the highest band of each axis, where bands are evenly spaced.

    Several numbers give the same table where bands make whole turns more from token to token: the
    length of each axis or else the lowest, and the usual ones that all axes have in common.
    """
    found = [
        [number for number, is_linear in pixel_bands(measures.turns[name]) if is_linear]
        for name in measures.lengths
    ]
    if not all(found):
        return
    lengths = list(measures.lengths.values())
    own = tuple(
        length if length in each else each[0] for length, each in zip(lengths, found, strict=True)
    )
    usual = [number for number in USUAL_RESOLUTIONS if all(number in each for each in found)]
    alike = ((number,) * len(found) for number in usual[:_MOST_RESOLUTIONS])
    for each in dict.fromkeys((own, *alike)):
        yield {"max_resolution": each}


def band_count(channels: int, axes: int, *, concat_pos: bool, sine_only: bool) -> int | None:
    """Say how many bands make so many channels; none where no number does."""
    rest = channels - axes * concat_pos
    each = axes * (1 if sine_only else 2)
    return rest // each if rest > 0 and rest % each == 0 else None


Fit: TypeAlias = Callable[[Measures], Iterator[Values]]

FITS: Mapping[str, Fit] = {
    **dict.fromkeys(
        ("mae", "transformers", "moco-v3", "simple-vit", "timm", "positional-encodings"),
        unit_steps,
    ),
    "detr": detr,
    "diffusers": diffusers,
    "tensor2tensor": tensor2tensor,
    "perceiver": bands,
    "timm-fourier": bands,
}
"""How each convention's parameters follow from what was measured."""
