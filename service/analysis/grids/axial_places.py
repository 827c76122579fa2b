"""Which parameters of an axial convention give the turns that were measured along each axis."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import log
from typing import TypeAlias

import numpy as np

from service.analysis.grids.axial_pixels import of_pixels, periods
from service.analysis.grids.axial_shares import NEAR_ONE, Made, Shares, Values, bases
from service.analysis.grids.grid_series import Series, first_place, geometric
from service.analysis.grids.grid_ways import written
from service.tables.angle import Float64s
from service.tables.coordinates import Coordinates, counted, spread
from service.tables.limits import MIN_UNIT

# Whose tables come with coordinates that are scaled, or that do not begin at 0; what others would
# make of the same parameters, these make as well.
_SCALED = frozenset(("timm", "lumina"))
_MOVED = frozenset(("timm", "lumina", "llama4", "rotary_embedding_torch"))


def fits(shares: Shares) -> Iterator[Made]:
    """Give parameters that the measured turns follow from, the plainest first."""
    if shares.convention.series == "pixels":
        yield from of_pixels(shares)
        return
    series = [geometric(turns) if turns.length > 1 else None for turns in shares.turns]
    if any(
        each is None and turns.length > 1 for each, turns in zip(series, shares.turns, strict=True)
    ):
        return
    if shares.convention.series == "ones":
        if all(each is None or abs(each.decay) <= each.decay_error for each in series):
            omega = tuple(np.ones(len(turns.rates)) for turns in shares.turns)
            yield from _placed(shares, {}, series, omega, [1.0] * len(series))
        return
    if shares.convention.series == "periods":
        yield from periods(shares, series)
        return
    spans = [width / 2 for width in shares.widths]
    starts = [0] * len(spans)
    if shares.convention.placing == "dealt":
        spans = [sum(shares.widths) / 2 / len(spans)] * len(spans)
        starts = list(range(len(spans)))
    for theta in bases(series, spans):
        values: Values = {} if theta == shares.convention.rope_theta else {"rope_theta": theta}
        omega = tuple(
            _geometric(theta, len(turns.rates), start / len(spans), span)
            for turns, span, start in zip(shares.turns, spans, starts, strict=True)
        )
        yield from _placed(shares, values, series, omega, [float(each[0]) for each in omega])


def _geometric(theta: float, count: int, start: float, span: float) -> Float64s:
    series: Float64s = np.exp(-log(theta) * (np.arange(count, dtype=np.float64) + start) / span)
    return series


def _placed(
    shares: Shares,
    values: Values,
    series: Sequence[Series | None],
    omega: tuple[Float64s, ...],
    fastest: Sequence[float],
) -> Iterator[Made]:
    """Find where on each axis tokens are, in the ways that a convention has to say it."""
    steps, errors, firsts = [], [], []
    for turns, each, rates, top in zip(shares.turns, series, omega, fastest, strict=True):
        step = 1.0 if each is None else each.first / top
        place = first_place(turns.phases, rates, turns.noise)
        if place is None:
            return
        steps.append(step)
        errors.append(0.0 if each is None else each.first_error)
        firsts.append((place.first, place.error))
    for own, starts, each_step in _PLACES[shares.convention.places](shares, steps, errors, firsts):
        yield Made({**values, **own}, tuple(starts), tuple(each_step), omega)


_Place: TypeAlias = tuple[Values, Sequence[float], Sequence[float]]
_Placer: TypeAlias = Callable[
    [Shares, Sequence[float], Sequence[float], Sequence[tuple[float, float]]], Iterator[_Place]
]


def _counted(
    shares: Shares,
    steps: Sequence[float],
    errors: Sequence[float],
    firsts: Sequence[tuple[float, float]],
) -> Iterator[_Place]:
    """Place tokens at i + offset, or at that times a step that a grid or a scale gives."""
    is_unit = all(
        abs(step - 1) <= max(2 * error, NEAR_ONE) for step, error in zip(steps, errors, strict=True)
    )
    if is_unit:
        for offset, starts in _offsets(shares, [1.0] * len(steps), firsts):
            yield offset, starts, [1.0] * len(steps)
        return
    if shares.name not in _SCALED:
        return
    scaled = list(zip(shares.lengths, steps, errors, strict=True))
    if shares.name == "timm":
        for grid in _each([written(n * step, n * step * error) for n, step, error in scaled]):
            exact = [size / n for size, n in zip(grid, shares.lengths, strict=True)]
            for offset, starts in _offsets(shares, exact, firsts):
                placed = [
                    counted(n, Fraction(start / step), Fraction(size))
                    for n, start, step, size in zip(
                        shares.lengths, starts, exact, grid, strict=True
                    )
                ]
                if not _are_countable(placed):
                    continue
                yield {"reference_grid": shares.listed(grid), **offset}, starts, exact
    for scales in _each([written(1 / step, error / step) for _, step, error in scaled]):
        exact = [1 / scale for scale in scales]
        for offset, starts in _offsets(shares, exact, firsts):
            yield {"interpolation_scale": shares.listed(scales), **offset}, starts, exact


def _each(choices: Sequence[list[float]]) -> Iterator[tuple[float, ...]]:
    """Combine the choices of axes: all the first, and what else there is, up to a few."""
    for count, chosen in enumerate(product(*choices)):
        if count == 4:
            return
        if all(each > 0 for each in chosen):
            yield chosen


def _offsets(
    shares: Shares, steps: Sequence[float], firsts: Sequence[tuple[float, float]]
) -> Iterator[tuple[Values, Sequence[float]]]:
    offsets = [
        written(first / step, error / step + 1e-9, 1)
        for (first, error), step in zip(firsts, steps, strict=True)
    ]
    for chosen in _each_any(offsets):
        starts = [offset * step for offset, step in zip(chosen, steps, strict=True)]
        is_usual = all(offset == shares.convention.offset for offset in chosen)
        if not is_usual and shares.name not in _MOVED:
            continue
        yield ({} if is_usual else {"grid_offset": shares.listed(chosen)}), starts


def _each_any(choices: Sequence[list[float]]) -> Iterator[tuple[float, ...]]:
    yield from (chosen for chosen, _ in zip(product(*choices), range(2), strict=False))


def _spread(
    shares: Shares,
    steps: Sequence[float],
    errors: Sequence[float],
    firsts: Sequence[tuple[float, float]],
) -> Iterator[_Place]:
    """Place tokens evenly from a start to a stop that is left out."""
    begins = [written(first, error + 1e-9, 1) for first, error in firsts]
    if not all(begins):
        return
    starts = [begin[0] for begin in begins]
    stops = []
    for start, step, error, length in zip(starts, steps, errors, shares.lengths, strict=True):
        last = (start + step * (length - 1)) * length / max(length - 1, 1)
        stops.append([float(length)] if length == 1 else written(last, abs(last) * error + 1e-9, 2))
    for stop in _each_any(stops):
        ends = zip(shares.lengths, map(Fraction, starts), map(Fraction, stop), strict=True)
        if not _are_countable([spread(*end) for end in ends]):
            continue
        exact = [
            (end * (n - 1) / n - start) / max(n - 1, 1)
            for end, n, start in zip(stop, shares.lengths, starts, strict=True)
        ]
        values: Values = {}
        if any(starts):
            values["grid_start"] = shares.listed(starts)
        if any(end != n for end, n in zip(stop, shares.lengths, strict=True)):
            values["grid_stop"] = shares.listed(stop)
        yield values, starts, exact


def _are_countable(axes: Sequence[Coordinates]) -> bool:
    """Tell whether coordinates are whole numbers of a unit that is served."""
    return all(each.is_countable and each.unit >= MIN_UNIT for each in axes)


_PLACES: Mapping[str, _Placer] = {"counted": _counted, "spread": _spread}
