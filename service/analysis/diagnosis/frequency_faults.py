"""Mistakes of frequencies: which known one makes measured frequencies of those that are wanted.

What somebody may have made in place of waves: measured, and named by known mistakes.

Tables that one gets instead where a setting is not read, is another one, or goes elsewhere.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from service.analysis.array import TableRequest
from service.analysis.diagnosis.mistakes import MOST_MISTAKES, Mistake
from service.analysis.diagnosis.waves import (
    LEAST_FACTOR,
    NARROWINGS,
    AngleFault,
    Waves,
    factor_mistake,
    offset_of,
    slips,
)
from service.analysis.measure import EARLY_ROWS, Complexes, fit_geometric, measure, round_bases
from service.analysis.round_numbers import round_numbers
from service.numerics.document import ParameterValue
from service.numerics.phase import Float64s

Frequencies = tuple[tuple[Mistake, ...], Float64s]
"""Mistakes, and the frequencies that they lead to."""

_SIGN = Mistake("sine-sign")
_TWICE = Mistake("rotated-twice")
_FEWEST = 4


def frequency_mistakes(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Give known mistakes and the frequencies that they lead to, as far as measured ones fit.

    Args:
        waves: what is wanted.
        omega: what was measured, (K,), radians per position.
        error: how far each may be from what is meant, (K,).
    """
    wanted = waves.omega
    yield (), wanted
    yield (_SIGN,), -wanted
    yield (_TWICE,), 2 * wanted
    yield (_SIGN, _TWICE), -2 * wanted
    yield (Mistake("not-rotated"),), np.zeros_like(wanted)
    sign = -1.0 if float(omega.sum()) * float(wanted.sum()) < 0 else 1.0
    signed = () if sign > 0 else (_SIGN,)
    for mistakes, speeds in _unsigned(waves, np.abs(omega), error):
        yield (*signed, *mistakes), sign * np.copysign(speeds, wanted)


def _unsigned(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    wanted = np.abs(waves.omega)
    yield from _stretched(wanted, omega, error)
    yield from _narrower(waves, omega, error)
    if waves.base is None:
        return
    series = fit_geometric(omega, error)
    base, span = waves.base
    places = np.arange(len(omega))
    if series is None or len(omega) < 2:
        return
    for other in round_bases(series, span)[:2]:
        if other != base and other > 1:
            said = Mistake("wrong-base", {"have": other, "want": base})
            for mistakes, first in _firsts(series.first, series.first_error):
                yield (said, *mistakes), first * float(other) ** (-2 * places / span)


def _firsts(first: float, error: float) -> Iterator[tuple[tuple[Mistake, ...], float]]:
    if abs(first - 1) <= max(error, 2.0**-7):
        yield (), 1.0
    elif abs(first - 2) <= max(2 * error, 2.0**-6):
        yield (_TWICE,), 2.0
    else:
        for mistake, ratio in _ratios(first, error):
            yield (mistake,), ratio


def _stretched(wanted: Float64s, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Find one factor between all frequencies, by those that are known best."""
    known = (wanted > 0) & (omega > 2 * error) & (omega < 1)
    if not known.any():
        return
    share = error[known] / omega[known]
    ratios = omega[known] / wanted[known]
    ratio = float(np.average(ratios, weights=1 / share**2))
    spread = float(share.min()) + 2.0**-24
    if (np.abs(ratios / ratio - 1) > 4 * share + 4 * spread).any():
        return
    for mistake, exact in _ratios(ratio, 4 * spread):
        if exact != 1:
            yield (_TWICE if exact == 2 else mistake,), exact * wanted


def _ratios(ratio: float, error: float) -> Iterator[tuple[Mistake, float]]:
    if ratio < 1:
        for factor in round_numbers(1 / ratio, error, 1):
            values = {"ratio": 1 / factor, "factor": factor, "how": "divided"}
            yield Mistake("linear-factor", values), 1 / factor
    else:
        for factor in round_numbers(ratio, error, 1):
            values = {"ratio": factor, "factor": factor, "how": "multiplied"}
            yield Mistake("linear-factor", values), factor


def _narrower(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Find frequencies of fewer channels, those after them standing still."""
    wanted = np.abs(waves.omega)
    still = np.abs(omega) <= np.maximum(4 * error, 2.0**-30)
    count = len(omega) - int(np.argmin(still[::-1])) if not still.all() else 0
    if 0 < count < len(omega):
        said = Mistake("partial-width", {"have": 2 * count, "want": 2 * len(omega)})
        places = np.arange(len(omega))
        yield (said,), np.where(places < count, wanted, 0.0)
        first = slice(0, count)
        for mistakes, speeds in _stretched(wanted[first], omega[first], error[first]):
            yield (said, *mistakes), np.pad(speeds, (0, len(omega) - count))
        if waves.base:
            fewer = waves.base[0] ** (-2 * places / (2 * count))
            yield (said,), np.where(places < count, fewer, 0.0)
            yield from _narrower_base(waves, omega, error, count)
    if waves.base and len(omega) >= _FEWEST:
        yield from _other_width(waves, omega, error)


def _narrower_base(
    waves: Waves, omega: Float64s, error: Float64s, count: int
) -> Iterator[Frequencies]:
    assert waves.base is not None
    series = fit_geometric(omega[:count], error[:count]) if count > 1 else None
    if series is None:
        return
    places = np.arange(len(omega))
    said = Mistake("partial-width", {"have": 2 * count, "want": 2 * len(omega)})
    for other in round_bases(series, 2 * count)[:1]:
        base = Mistake("wrong-base", {"have": other, "want": waves.base[0]})
        speeds = np.where(places < count, float(other) ** (-places / count), 0.0)
        yield (said, base), speeds


def _other_width(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Find frequencies of the same base over another even number of channels."""
    assert waves.base is not None
    base, span = waves.base
    series = fit_geometric(omega, error)
    if series is None or not 0 < series.ratio < 1:
        return
    other = -2 * np.log(base) / np.log(series.ratio)
    width = int(2 * round(other / 2))
    if width != span and abs(width - other) <= 2.0**-6 and 2 <= width <= 8 * span:
        places = np.arange(len(omega))
        said = Mistake("partial-width", {"have": width, "want": span})
        yield (said,), base ** (-2 * places / width)


def turned(waves: Waves, rows: Float64s, epsilon: float) -> Iterator[AngleFault]:
    """Give what known mistakes make of waves, as far as rows speak for it.

    Args:
        waves: what is wanted.
        rows: what somebody has, in the order that is wanted: the first of them, at most
            EARLY_ROWS.
        epsilon: by how much a number of size 1 may be off by rounding.
    """
    turns = waves.turns(rows)
    norms = np.abs(turns)
    size = float(np.median(norms))
    if size < LEAST_FACTOR:
        return
    scaled = _scaled(waves, size, epsilon)
    yield from slips(waves, rows)
    if float(np.median(np.abs(norms / size - 1))) > 8 * epsilon:
        return
    plain = list(_speeds(waves, turns, epsilon))
    for named, speeds, shift in plain:
        for factor_named, factor in scaled:
            mistakes = (*named, *factor_named)
            found = AngleFault(mistakes, speeds, speeds, shift, None, factor)
            if len(mistakes) <= MOST_MISTAKES:
                yield found
            for narrowing in NARROWINGS:
                every = (*mistakes, *narrowing.mistakes)
                if len(every) <= MOST_MISTAKES:
                    yield replace(found, mistakes=every, narrowing=narrowing)


def _scaled(waves: Waves, size: float, epsilon: float) -> list[tuple[tuple[Mistake, ...], float]]:
    """Name what numbers are multiplied by, beside what they should be."""
    ratio = size / waves.scale
    if abs(ratio - 1) <= 4 * epsilon:
        return [((), 1.0)]
    if abs(size - 1) <= 4 * epsilon:
        values = {"ratio": 1 / waves.scale, "factor": waves.scale}
        return [((Mistake("missing-factor", values),), 1 / waves.scale)]
    return [((factor_mistake(ratio),), ratio)]


def _speeds(
    waves: Waves, turns: Complexes, epsilon: float
) -> Iterator[tuple[tuple[Mistake, ...], Float64s, float]]:
    """Give frequencies and shifts that what was measured allows."""
    early = turns[:EARLY_ROWS]
    positions = waves.positions[: len(early)]
    if len(early) < 2:
        for named, speeds in frequency_mistakes(waves, waves.omega, waves.omega * 0.0):
            yield from _shifts(named, speeds, np.angle(early[0]) - positions[0] * speeds)
        return
    measured = measure(early, positions)
    error = measured.omega_error + epsilon * np.abs(measured.omega)
    # What was held in bfloat16 is off by 2^-9 of it at most.
    loose = np.maximum(error, 2.0**-8 * np.abs(measured.omega))
    tried: set[bytes] = set()
    for errors in (error, loose):
        for named, speeds in frequency_mistakes(waves, measured.omega, errors):
            if speeds.tobytes() in tried:
                continue
            tried.add(speeds.tobytes())
            centre = positions.mean()
            moved = measured.phase + centre * (measured.omega - speeds)
            yield from _shifts(named, speeds, moved, measured.phase)


def _shifts(
    named: tuple[Mistake, ...], speeds: Float64s, *phases: Float64s
) -> Iterator[tuple[tuple[Mistake, ...], Float64s, float]]:
    yield named, speeds, 0.0
    for shift in {offset_of(phase, speeds, 0.2) for phase in phases}:
        if shift:
            yield (*named, Mistake("position-offset", {"rows": int(shift)})), speeds, shift


Variant = tuple[Mistake, TableRequest]

_BASES = (10000.0, 500000.0, 1000000.0)

# What a rule of frequencies takes, beside its name.
_RULE_KEYS = (
    "factor",
    "alpha",
    "mixed_b",
    "beta_fast",
    "beta_slow",
    "truncate",
    "mscale",
    "mscale_all_dim",
    "attention_factor",
    "short_factor",
    "long_factor",
    "low_freq_factor",
    "high_freq_factor",
    "freq_factors",
    "original_max_position_embeddings",
    "context_length",
)

# What a table has to have, or what a mistake of its own is named after.
_NEEDED = (
    *("d_model", "head_dim", "seq_len", "start", "positions", "dtype", "pack", "part", "batch"),
    *("rope_theta", "base", "rope_type", "inv_freq", "factor", "grid", "num_heads", "layout"),
    *("attention_factor", "mscale", "mscale_all_dim", "max_position_embeddings", "convention"),
    *("original_max_position_embeddings", "short_factor", "long_factor", "revision", "scale"),
    *("depth", "height", "width"),
    *("partial_rotary_factor", "rotary_dim", "offset", "context_length"),
)


def variants(call: TableRequest) -> Iterator[Variant]:
    """Give the tables that a mistake of settings makes of one; some of them there may not be."""
    if call.resource.startswith("rope"):
        yield from _rules(call)
        yield from _widths(call)
    yield from _exchanged(call)
    for key in call.parameters:
        if key not in _NEEDED and not key.startswith("positions_"):
            said = {"keys": key, "rule": str(call.parameters.get("rope_type", call.resource))}
            yield Mistake("config-key-ignored", said), _without(call, key)


def _rules(call: TableRequest) -> Iterator[Variant]:
    rule = str(call.parameters.get("rope_type", "default"))
    keys = [key for key in _RULE_KEYS if key in call.parameters]
    if rule == "longrope":
        yield from _lengths(call)
    if rule != "default":
        said = {"keys": ", ".join(["rope_type", *keys]), "rule": rule}
        yield Mistake("config-key-ignored", said), _without(call, "rope_type", *keys)
        if rule != "linear" and "factor" in keys:
            plain = _without(call, *keys).with_parameters(
                rope_type="linear", factor=call.parameters["factor"]
            )
            yield Mistake("wrong-rule", {"have": "linear", "want": rule}), plain
        wanted = float(str(call.parameters.get("rope_theta", 10000)))
        for base in _BASES:
            if base != wanted:
                values = {"have": base, "want": wanted}
                yield Mistake("wrong-base", values), call.with_parameters(rope_theta=base)


def _lengths(call: TableRequest) -> Iterator[Variant]:
    """Run a model at a length that has the other list of factors."""
    original = call.parameters.get("original_max_position_embeddings")
    if original is None:
        return
    length, trained = int(str(call.parameters.get("context_length", original))), int(str(original))
    short, long = {"have": "short_factor", "want": "long_factor"}, trained + 1
    if length > trained:
        yield Mistake("short-for-long-factors", short), call.with_parameters(context_length=trained)
    else:
        other = {"have": "long_factor", "want": "short_factor"}
        yield Mistake("short-for-long-factors", other), call.with_parameters(context_length=long)


def _widths(call: TableRequest) -> Iterator[Variant]:
    given = [key for key in ("partial_rotary_factor", "rotary_dim") if key in call.parameters]
    head_dim = call.parameters.get("head_dim")
    if not given or head_dim is None:
        return
    share = float(str(call.parameters.get("partial_rotary_factor", 1)))
    turning = int(str(call.parameters.get("rotary_dim", int(share * int(str(head_dim))))))
    values = {"have": int(str(head_dim)), "want": turning}
    yield Mistake("partial-width", values), _without(call, *given)


def _exchanged(call: TableRequest) -> Iterator[Variant]:
    """Exchange height and width."""
    swapped = Mistake("axes-swapped", {"first": "h", "second": "w"})
    grid = call.parameters.get("grid")
    if grid is not None:
        sides = str(grid).split(",") if isinstance(grid, str) else list(map(str, _listed(grid)))
        if len(sides) > 1 and sides[-1] != sides[-2]:
            yield swapped, call.with_parameters(grid=",".join([*sides[:-2], sides[-1], sides[-2]]))
    for first, second in (("positions_h", "positions_w"), ("height", "width")):
        if {first, second} <= set(call.parameters):
            height, width = (call.parameters[name] for name in (first, second))
            if height != width:
                yield swapped, call.with_parameters(**{first: width, second: height})


def _listed(value: ParameterValue) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else ()


def _without(call: TableRequest, *keys: str) -> TableRequest:
    kept = {name: value for name, value in call.parameters.items() if name not in keys}
    return TableRequest(call.resource, kept)
