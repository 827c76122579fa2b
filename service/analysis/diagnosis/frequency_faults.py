"""Mistakes of frequencies: those that turn the expected frequencies into the measured ones.

``angle_faults`` measures a table that was sent, and yields the angle faults of known mistakes that
agree with the measurement. ``variants`` yields the requests of tables in which a setting is
ignored or wrong, or two axes are swapped: such tables cannot be measured, only computed and
compared.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

import numpy as np

from service.analysis.array import TableRequest
from service.analysis.diagnosis.mistakes import MOST_MISTAKES, Mistake
from service.analysis.diagnosis.waves import (
    COMMON_BASES,
    LEAST_FACTOR,
    NARROWINGS,
    AngleFault,
    Waves,
    factor_mistake,
    linear_mistake,
    offset_of,
    tutorial_slips,
)
from service.analysis.measure import (
    EARLY_ROWS,
    Complexes,
    fit_geometric,
    measure,
    round_bases,
    wrap_angles,
)
from service.analysis.round_numbers import round_numbers
from service.encodings.rotary.rules import RULE_KEYS
from service.numerics.phase import Float64s

Frequencies: TypeAlias = tuple[tuple[Mistake, ...], Float64s]
"""Mistakes, and the frequencies that they lead to."""

_SIGN = Mistake("sine-sign")
_TWICE = Mistake("rotated-twice")
# Fewer frequencies agree with a series over many widths.
_FEWEST = 4


def frequency_mistakes(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Yield mistakes, each with the frequencies that it leads to.

    Mistakes without parameters are always yielded, others only if the measured frequencies match.

    Args:
        waves: the expected table.
        omega: the measured frequencies in radians per position, (K,).
        error: a bound of the error of each frequency, (K,).
    """
    expected = waves.omega
    yield (), expected
    yield (_SIGN,), -expected
    yield (_TWICE,), 2 * expected
    yield (_SIGN, _TWICE), -2 * expected
    yield (Mistake("not-rotated"),), np.zeros_like(expected)
    sign = -1.0 if float(omega.sum()) * float(expected.sum()) < 0 else 1.0
    sign_mistakes = () if sign > 0 else (_SIGN,)
    for mistakes, frequencies in _positive(waves, np.abs(omega), error):
        yield (*sign_mistakes, *mistakes), sign * np.copysign(frequencies, expected)


def _positive(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Yield mistakes, with positive frequencies that they lead to."""
    yield from _scaled(np.abs(waves.omega), omega, error)
    others = list(_other_bases(waves, omega, error))
    # Of another width, a common base has the frequencies of a base that is not.
    yield from (found for base, found in others if base in COMMON_BASES)
    yield from _of_other_width(waves, omega, error)
    yield from (found for base, found in others if base not in COMMON_BASES)


def _other_bases(
    waves: Waves, omega: Float64s, error: Float64s
) -> Iterator[tuple[float, Frequencies]]:
    """Yield a wrong base, and its mistakes with the frequencies that they lead to."""
    series = fit_geometric(omega, error)
    if waves.base is None or series is None or len(omega) < 2:
        return
    base, span = waves.base
    places = np.arange(len(omega))
    for other in round_bases(series, span)[:2]:
        if other != base and other > 1:
            mistake = Mistake("wrong-base", {"have": other, "want": base})
            for mistakes, first in _first_frequencies(series.first, series.first_error):
                omega = first * float(other) ** (-2 * places / span)
                yield other, ((mistake, *mistakes), omega)


def _first_frequencies(first: float, error: float) -> Iterator[tuple[tuple[Mistake, ...], float]]:
    if abs(first - 1) <= max(error, 2.0**-7):
        yield (), 1.0
    elif abs(first - 2) <= max(2 * error, 2.0**-6):
        yield (_TWICE,), 2.0
    else:
        for mistake, ratio in _round_ratios(first, error):
            yield (mistake,), ratio


def _scaled(expected: Float64s, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Find one ratio of all frequencies, each weighted by 1 over its squared error."""
    known = (expected > 0) & (omega > 2 * error) & (omega < 1)
    if not known.any():
        return
    errors = error[known] / omega[known]
    ratios = omega[known] / expected[known]
    ratio = float(np.average(ratios, weights=1 / errors**2))
    least_error = float(errors.min()) + 2.0**-24
    if (np.abs(ratios / ratio - 1) > 4 * errors + 4 * least_error).any():
        return
    for mistake, exact in _round_ratios(ratio, 4 * least_error):
        if exact != 1:
            yield (mistake,), exact * expected


def _round_ratios(ratio: float, error: float) -> Iterator[tuple[Mistake, float]]:
    """Yield round numbers near a ratio, or 1 over them where it is below 1."""
    for factor in round_numbers(max(ratio, 1 / ratio), error, 1):
        exact = 1 / factor if ratio < 1 else factor
        yield linear_mistake(exact, factor), exact


def _of_other_width(waves: Waves, omega: Float64s, error: Float64s) -> Iterator[Frequencies]:
    """Find frequencies of fewer channels, the last ones 0, or that fall over another width."""
    expected = np.abs(waves.omega)
    nonzero = np.flatnonzero(np.abs(omega) > np.maximum(4 * error, 2.0**-30))
    count = int(nonzero[-1]) + 1 if len(nonzero) else 0
    if 0 < count < len(omega):
        mistake = Mistake("partial-width", {"have": 2 * count, "want": 2 * len(omega)})

        def padded(frequencies: Float64s) -> Float64s:
            return np.pad(frequencies, (0, len(omega) - count))

        yield (mistake,), padded(expected[:count])
        for mistakes, frequencies in _scaled(expected[:count], omega[:count], error[:count]):
            yield (mistake, *mistakes), padded(frequencies)
        if waves.base:
            base, places = waves.base[0], np.arange(count)
            yield (mistake,), padded(base ** (-places / count))
            series = fit_geometric(omega[:count], error[:count]) if count > 1 else None
            for other in round_bases(series, 2 * count)[:1] if series else ():
                wrong_base = Mistake("wrong-base", {"have": other, "want": base})
                yield (mistake, wrong_base), padded(float(other) ** (-places / count))
    if not waves.base or len(omega) < _FEWEST:
        return
    base, span = waves.base
    series = fit_geometric(omega, error)
    if series is None or not 0 < series.ratio < 1:
        return
    measured = -2 * np.log(base) / np.log(series.ratio)
    width = int(2 * round(measured / 2))
    if width != span and abs(width - measured) <= 2.0**-6 and 2 <= width <= 8 * span:
        mistake = Mistake("partial-width", {"have": width, "want": span})
        yield (mistake,), base ** (-2 * np.arange(len(omega)) / width)


def angle_faults(waves: Waves, rows: Float64s, epsilon: float) -> Iterator[AngleFault]:
    """Yield the angle faults of known mistakes that agree with the first rows that were sent.

    Args:
        waves: the expected table.
        rows: the first rows that were sent, in the expected order, at most EARLY_ROWS.
        epsilon: the rounding error of a number of size 1.
    """
    phasors = waves.phasors(rows)
    norms = np.abs(phasors)
    size = float(np.median(norms))
    if size < LEAST_FACTOR:
        return
    scale_mistakes, factor = _scale_fault(waves, size, epsilon)
    yield from tutorial_slips(waves, rows)
    if float(np.median(np.abs(norms / size - 1))) > 8 * epsilon:
        return
    found = [
        AngleFault((*mistakes, *scale_mistakes), omega, omega, shift, None, factor)
        for mistakes, omega, shift in _shifted_frequencies(waves, phasors, epsilon)
    ]
    # In few rows, a sign or rounded positions may have the numbers of an offset: an offset by one
    # is the more common mistake, a larger one the less common.
    yield from _allowed(fault for fault in found if abs(fault.shift) <= 1)
    yield from _allowed(
        fault.with_mistakes(*narrowing.mistakes, narrowing=narrowing)
        for fault in found
        for narrowing in NARROWINGS
    )
    yield from _allowed(fault for fault in found if abs(fault.shift) > 1)


def _allowed(faults: Iterable[AngleFault]) -> Iterator[AngleFault]:
    return (fault for fault in faults if len(fault.mistakes) <= MOST_MISTAKES)


def _scale_fault(waves: Waves, size: float, epsilon: float) -> tuple[tuple[Mistake, ...], float]:
    """Return the factor of all numbers, relative to the scale of the waves, and its mistake."""
    ratio = size / waves.scale
    if abs(ratio - 1) <= 4 * epsilon:
        return (), 1.0
    if abs(size - 1) <= 4 * epsilon:
        values = {"ratio": 1 / waves.scale, "factor": waves.scale}
        return (Mistake("missing-factor", values),), 1 / waves.scale
    return (factor_mistake(ratio),), ratio


def _shifted_frequencies(
    waves: Waves, phasors: Complexes, epsilon: float
) -> Iterator[tuple[tuple[Mistake, ...], Float64s, float]]:
    """Yield mistakes with the frequencies and the shift of positions that they lead to."""
    # Frequencies are measured at rising positions.
    positions, order = np.unique(waves.positions[: len(phasors[:EARLY_ROWS])], return_index=True)
    early = phasors[order]
    if len(early) < 2:
        exact = np.full_like(waves.omega, 2.0**-52)
        for mistakes, omega in chain(
            frequency_mistakes(waves, waves.omega, exact), _common_bases(waves)
        ):
            phase = np.angle(early[0]) - positions[0] * omega
            yield from _shifts(mistakes, omega, -positions[0], phase)
        return
    measured = measure(early, positions)
    error = measured.omega_error + epsilon * np.abs(measured.omega)
    # Storing frequencies in bfloat16 changes them by 2^-9 of themselves at most.
    loose = np.maximum(error, 2.0**-8 * np.abs(measured.omega))
    tried: set[bytes] = set()
    for errors in (error, loose):
        for mistakes, omega in frequency_mistakes(waves, measured.omega, errors):
            if omega.tobytes() not in tried:
                tried.add(omega.tobytes())
                phase = measured.phase + positions.mean() * (measured.omega - omega)
                yield from _shifts(mistakes, omega, -positions[0], phase, measured.phase)
    if (np.diff(positions) != 1).any():
        yield from ((*found, 0.0) for found in _common_bases(waves))


def _common_bases(waves: Waves) -> Iterator[Frequencies]:
    """Yield the common bases as wrong ones, for rows in which no frequency can be measured."""
    base, span = waves.base or (0.0, 1)
    for other in COMMON_BASES if waves.base else ():
        if other != base:
            mistake = Mistake("wrong-base", {"have": other, "want": base})
            yield (mistake,), other ** (-2 * np.arange(len(waves.omega)) / span)


def _shifts(
    mistakes: tuple[Mistake, ...], omega: Float64s, to_start: float, *phases: Float64s
) -> Iterator[tuple[tuple[Mistake, ...], Float64s, float]]:
    """Yield the mistakes without a shift, and with each that gives one of the phases.

    ``to_start`` is the shift of rows that are counted from 0. From far away it is not found by its
    phase: the slowest angle has passed 2π.
    """
    yield mistakes, omega, 0.0
    found = {offset_of(phase, omega, 0.2) for phase in phases}
    if any(np.abs(wrap_angles(phase - to_start * omega)).max() < 0.2 for phase in phases):
        found.add(to_start)
    for shift in found:
        if shift:
            yield (*mistakes, Mistake("position-offset", {"rows": int(shift)})), omega, shift


Variant: TypeAlias = tuple[Mistake, TableRequest]

# The keys of the scaling rules other than rope_type; a table needs max_position_embeddings.
_RULE_KEYS = tuple(name for name in RULE_KEYS if name != "max_position_embeddings")

# Parameters that a table needs, or that have a mistake of their own.
_NEEDED = (
    *("d_model", "head_dim", "seq_len", "start", "positions", "dtype", "pack", "part", "batch"),
    *("rope_theta", "base", "rope_type", "inv_freq", "factor", "grid", "num_heads", "layout"),
    *("attention_factor", "mscale", "mscale_all_dim", "max_position_embeddings", "convention"),
    *("original_max_position_embeddings", "short_factor", "long_factor", "revision", "scale"),
    *("depth", "height", "width"),
    *("partial_rotary_factor", "rotary_dim", "offset", "context_length"),
)


def variants(request: TableRequest) -> Iterator[Variant]:
    """Yield the requests with a mistaken setting; not all of them have a table.

    Args:
        request: the expected table, its parameters as written in a URL.
    """
    if request.resource.startswith("rope"):
        yield from _rule_variants(request)
        yield from _width_variants(request)
    yield from _axis_variants(request)
    for key in request.parameters:
        if key not in _NEEDED and not key.startswith("positions_"):
            rule = str(request.parameters.get("rope_type", request.resource))
            mistake = Mistake("config-key-ignored", {"keys": key, "rule": rule})
            yield mistake, request.without(key)


def _rule_variants(request: TableRequest) -> Iterator[Variant]:
    parameters = request.parameters
    rule = str(parameters.get("rope_type", "default"))
    if rule == "default":
        return
    keys = [key for key in _RULE_KEYS if key in parameters]
    if rule == "longrope":
        yield from _length_variants(request)
    values = {"keys": ", ".join(["rope_type", *keys]), "rule": rule}
    yield Mistake("config-key-ignored", values), request.without("rope_type", *keys)
    bounds = ("low_freq_factor", "high_freq_factor")
    if rule == "llama3" and set(bounds) <= set(keys):
        given = [str(parameters[name]) for name in bounds]
        for cut in (*given, f"{sum(map(float, given)) / 2:g}"):
            have = f"{rule} with {bounds[0]}={bounds[1]}={cut} (no smooth transition)"
            mistake = Mistake("wrong-rule", {"have": have, "want": rule})
            yield mistake, request.with_parameters(**dict.fromkeys(bounds, cut))
    if rule != "linear" and "factor" in keys:
        factor = parameters["factor"]
        linear = request.without(*keys).with_parameters(rope_type="linear", factor=factor)
        yield Mistake("wrong-rule", {"have": "linear", "want": rule}), linear
    expected = float(str(parameters.get("rope_theta", 10000)))
    for base in COMMON_BASES:
        if base != expected:
            mistake = Mistake("wrong-base", {"have": base, "want": expected})
            yield mistake, request.with_parameters(rope_theta=base)


def _length_variants(request: TableRequest) -> Iterator[Variant]:
    """Change the context length to one that has the other list of factors."""
    original = request.parameters.get("original_max_position_embeddings")
    if original is None:
        return
    trained = int(str(original))
    if int(str(request.parameters.get("context_length", original))) > trained:
        have, want, length = "short_factor", "long_factor", trained
    else:
        have, want, length = "long_factor", "short_factor", trained + 1
    mistake = Mistake("short-for-long-factors", {"have": have, "want": want})
    yield mistake, request.with_parameters(context_length=length)


def _width_variants(request: TableRequest) -> Iterator[Variant]:
    """Let all channels of a head rotate."""
    parameters = request.parameters
    given = [key for key in ("partial_rotary_factor", "rotary_dim") if key in parameters]
    if not given or "head_dim" not in parameters:
        return
    width = int(str(parameters["head_dim"]))
    factor = float(str(parameters.get("partial_rotary_factor", 1)))
    rotary_dim = int(str(parameters.get("rotary_dim", int(factor * width))))
    mistake = Mistake("partial-width", {"have": width, "want": rotary_dim})
    yield mistake, request.without(*given)


def _axis_variants(request: TableRequest) -> Iterator[Variant]:
    """Swap height and width."""
    swapped = Mistake("axes-swapped", {"first": "h", "second": "w"})
    lengths = str(request.parameters.get("grid", "")).split(",")
    if len(lengths) > 1 and lengths[-1] != lengths[-2]:
        grid = ",".join([*lengths[:-2], lengths[-1], lengths[-2]])
        yield swapped, request.with_parameters(grid=grid)
    for first, second in (("positions_h", "positions_w"), ("height", "width")):
        if {first, second} <= set(request.parameters):
            height, width = (request.parameters[name] for name in (first, second))
            if height != width:
                yield swapped, request.with_parameters(**{first: width, second: height})
