"""Axial tables whose tokens lie within ±1: with periods, as DINOv3, or with bands, as of pixels."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp, log, pi

import numpy as np

from service.analysis.grids.axial_shares import MAX_LOGARITHM, NEAR_ONE, Made, Shares, Values, bases
from service.analysis.grids.grid_bands import pixel_bands
from service.analysis.grids.grid_fits import common
from service.analysis.grids.grid_series import Series, first_place
from service.analysis.grids.grid_ways import written
from service.tables.axial import Convention


def periods(shares: Shares, series: Sequence[Series | None]) -> Iterator[Made]:
    """Place the centres of patches within ±1, with periods from a shortest to a longest."""
    sides = {"separate": list(shares.lengths)}
    if len(set(shares.lengths)) > 1:
        sides |= {name: [pick(shares.lengths)] * len(series) for name, pick in _SIDES.items()}
    for name, side in sides.items():
        shortest = common(
            [
                (4 * pi / n / each.first, each.first_error)
                for n, each in zip(side, series, strict=True)
                if each is not None
            ]
        )
        if shortest is not None:
            chosen: Values = {} if name == "separate" else {"normalize_coords": name}
            yield from _with_periods(shares, chosen, series, side, shortest)


_SIDES: Mapping[str, Callable[[Sequence[int]], int]] = {"max": max, "min": min}


def _with_periods(
    shares: Shares,
    chosen: Values,
    series: Sequence[Series | None],
    side: Sequence[int],
    shortest: tuple[float, float],
) -> Iterator[Made]:
    count = shares.widths[0] // 2
    steps = [2 / n for n in side]
    is_one = abs(shortest[0] - 1) <= max(2 * shortest[1], NEAR_ONE)
    options: list[tuple[Values, float, float, float]] = []
    if is_one:
        thetas = bases(series, [count] * len(series))
        usual = shares.convention.rope_theta
        options += [
            ({} if theta == usual else {"rope_theta": theta}, 1.0, theta, count) for theta in thetas
        ]
    elif count > 1:
        for low in written(shortest[0], shortest[0] * shortest[1], 2):
            for times, error in _ratios(series, count - 1):
                high = written(low * times, low * times * (error + shortest[1]), 2)
                options += [
                    ({"min_period": low, "max_period": each}, low, each, count - 1) for each in high
                ]
    for values, shortest_period, longest, span in options:
        if min(shortest_period, longest) <= 0:
            continue
        ratio = longest / shortest_period
        rates = 2 * pi / shortest_period * np.exp(-log(ratio) / span * np.arange(count))
        offsets = []
        for turns, step in zip(shares.turns, steps, strict=True):
            place = first_place(turns.phases, rates, turns.noise)
            if place is None:
                return
            offset = (place.first + 1) / step - 0.5
            offsets += written(offset, place.error / step + 1e-9)[:1]
        if len(offsets) < len(side):
            continue
        firsts = [step * (0.5 + offset) - 1 for step, offset in zip(steps, offsets, strict=True)]
        moved: Values = {"grid_offset": shares.listed(offsets)} if any(offsets) else {}
        yield Made({**chosen, **values, **moved}, tuple(firsts), tuple(steps), (rates,) * len(side))


def _ratios(series: Sequence[Series | None], span: float) -> list[tuple[float, float]]:
    known = [
        (exp(each.decay * span), each.decay_error * span)
        for each in series
        if each is not None and each.decay * span < MAX_LOGARITHM
    ]
    found = common(known)
    return [] if found is None else [found]


def of_pixels(shares: Shares) -> Iterator[Made]:
    """Place tokens from −1 to 1, with bands from 1 to half of a number."""
    convention = shares.convention
    scales = []
    for turns in shares.turns:
        usual = 2 * pi / max(turns.length - 1, 1)
        measured = usual / float(turns.rates[0]) if turns.length > 1 and turns.rates[0] > 0 else 1.0
        error = float(turns.errors[0]) / usual * 4
        is_one = turns.length == 1 or abs(measured - 1) <= max(error, NEAR_ONE)
        scales += [1.0] if is_one else written(measured, error)[:1]
    if len(scales) < len(shares.turns) or min(scales) <= 0:
        return
    # An axis of one token says nothing of its scale: that of the others.
    other = next((s for s, n in zip(scales, shares.lengths, strict=True) if n > 1), 1.0)
    scales = [other if n == 1 else s for s, n in zip(scales, shares.lengths, strict=True)]
    found = [
        set(pixel_bands(turns, 1 / scale))
        for turns, scale in zip(shares.turns, scales, strict=True)
    ]
    both = sorted(set.intersection(*found), key=lambda each: each != _usual_bands(convention))
    count = len(shares.turns[0].rates)
    for highest, is_linear in both[:4]:
        values: Values = {} if highest == convention.max_freq else {"max_freq": float(highest)}
        if is_linear != convention.linear_bands:
            values["linear_bands"] = is_linear
        if any(scale != 1 for scale in scales):
            values["interpolation_scale"] = shares.listed(scales)
        share = np.arange(count) / max(count - 1, 1)
        half = highest / 2
        bands = pi * (1 + share * (half - 1) if is_linear else half**share)
        firsts = tuple(-1 / scale for scale in scales)
        steps = tuple(
            2 / max(n - 1, 1) / scale for n, scale in zip(shares.lengths, scales, strict=True)
        )
        yield Made(values, firsts, steps, (bands,) * len(scales))


def _usual_bands(convention: Convention) -> tuple[int, bool]:
    return int(convention.max_freq), convention.linear_bands
