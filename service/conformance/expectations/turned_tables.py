"""Expectations of rotary tables and rotations: the tolerance of each angle, by its roundings.

An implementation in float32 turns by an angle a′ with |a′ − p·ω| ≤ |p|·ω·c·u, where c counts the
roundings of the frequency and of the product; cosine and sine move by no more than the angle does.
With e = 2k/r and b the base in effect, the exponent costs 3·e·ln b (logarithm, quotient, product),
the power 2, its reciprocal 1, the product with the position 1. A rule adds its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, TypeAlias

import numpy as np

from service.conformance.questions import Numbers, Question, Request, arrays_of
from service.conformance.tolerance import MOST_ANGLE, UNIT, Expectation, Expected, rounded_up
from service.numerics.phase import Float64s

# Keys of a request for a table that one for frequencies does not take.
_OF_ROWS = ("start", "seq_len", "angle", "layout", "inverse", "output_layout", "axes")
_MOST_COUNTED = 2.0**24
_POWER = 4.0


def table_expectation(question: Question) -> Expectation:
    """Return cosines and sines of a rotary table, (S, r/2) each; raises PosrefError."""
    found = arrays_of(question.request)
    frequencies = arrays_of(_frequencies(question))
    turned = np.abs(arrays_of(_angles(question))["rope"])
    factor = float(frequencies["attention_factor"])
    allowed = factor * turned * UNIT * _roundings(question, frequencies)
    return Expectation(
        {"cos": found["cos"], "sin": found["sin"]},
        rounded_up(np.minimum(allowed, MOST_ANGLE)),
        factor,
        factor,
        {"inv_freq": frequencies["inv_freq"], "attention_factor": factor},
    )


def _frequencies(question: Question) -> Request:
    """Return the request for the frequencies of a table or a rotation."""
    names = [name for name in question.parameters if name.startswith("positions")]
    plain = replace(question.changed(*_OF_ROWS, *names), positions=None)
    return replace(plain, kind="array", resource="/rope/frequencies").request


def _angles(question: Question) -> Request:
    """Return the request for the angles of a table or a rotation."""
    plain = question.changed("layout", "inverse", "output_layout", "axes", pack="angle")
    return replace(plain, kind="array", resource="/rope", x=None).request


def _roundings(question: Question, frequencies: Mapping[str, Numbers]) -> Float64s:
    """Return c of each number of a table, (S, r/2) or (1, r/2)."""
    omega = frequencies["inv_freq"]
    keys = question.parameters
    base = float(frequencies.get("effective_base", np.array(keys.get("rope_theta", 1e4))))
    exponent = 3 * np.log(base) * np.arange(len(omega)) / len(omega)
    count = _COUNTS[str(keys.get("rope_type", "default"))]
    counted = np.full(len(omega), 2.0) if "inv_freq" in keys else count(exponent, frequencies, keys)
    counted = np.where((omega == 0) | (omega == 1), 0.0, counted)
    positions = np.array(question.positions or (0,), dtype=np.float64)
    rows: Float64s = counted + (np.abs(positions) > _MOST_COUNTED)[:, None]
    return rows


def _once(exponent: Float64s, more: float) -> Float64s:
    return exponent + _POWER + more


def _llama3(
    exponent: Float64s, frequencies: Mapping[str, Numbers], keys: Mapping[str, Any]
) -> Float64s:
    """Inside the band the blend follows the frequency; its share is that of the rule."""
    share = frequencies["smooth_factor"]
    low, high, factor = keys["low_freq_factor"], keys["high_freq_factor"], keys["factor"]
    turns = low + share * (high - low)
    slope = turns / (high - low) * (1 - 1 / factor) / ((1 - share) / factor + share)
    inside = (1 + slope) * (exponent + 7) + 5
    return np.where((share > 0) & (share < 1), inside, _once(exponent, 3))


def _yarn(
    exponent: Float64s, frequencies: Mapping[str, Numbers], keys: Mapping[str, Any]
) -> Float64s:
    """Inside the ramp the blend depends on its ends, which are computed as well."""
    kept = 1 - frequencies["ramp"]
    low, high = frequencies["range_used"]
    factor = keys["factor"]
    moved = 3 * kept + (low + kept * high) / max(high - low, 0.001)
    inside = exponent + 9 + (1 - 1 / factor) / ((1 - kept) / factor + kept) * moved
    return np.where((kept > 0) & (kept < 1), inside, exponent + 5)


_Counts: TypeAlias = Callable[[Float64s, Mapping[str, Numbers], Mapping[str, Any]], Float64s]
_COUNTS: Mapping[str, _Counts] = {
    "default": lambda exponent, _, keys: _once(exponent, float("freq_factors" in keys)),
    "linear": lambda exponent, _, __: _once(exponent, 1),
    "longrope": lambda exponent, _, __: _once(exponent, 1),
    "proportional": lambda exponent, _, __: _once(exponent, 1),
    "dynamic": lambda exponent, _, __: _once(exponent, 4),
    "ntk": lambda exponent, _, __: _once(exponent, 4),
    "llama3": _llama3,
    "yarn": _yarn,
}


def rotation_expectation(question: Question) -> Expectation:
    """Return x, rotated, of the shape of x; raises PosrefError."""
    (rotated,) = arrays_of(question.request).values()
    table = table_expectation(
        replace(
            question.changed("layout", "inverse", "output_layout", "axes"),
            kind="table",
            resource="/rope",
            x=None,
        )
    )
    assert table.angle is not None
    x = np.asarray(question.x, dtype=np.float64)
    width = 2 * table.angle.shape[-1]
    first, second = pairs(str(question.parameters.get("layout", "interleaved")), width)
    size = np.zeros(x.shape)
    turned = np.zeros(x.shape)
    rows = (-1, *table.angle.shape)
    flat, angle = x.reshape(prod(x.shape[:-2]), *x.shape[-2:]), table.angle.reshape(rows)
    both = np.abs(flat[..., first]) + np.abs(flat[..., second])
    for channels in (first, second):
        size.reshape(flat.shape)[..., channels] = table.factor * both
        turned.reshape(flat.shape)[..., channels] = both * angle
    allowed = rounded_up(np.minimum(turned + 4 * UNIT * size, np.maximum(size, 1) * MOST_ANGLE))
    return Expectation({"rotated": rotated}, allowed, size, table.factor, is_rotation=True)


def pairs(layout: str, width: int) -> tuple[list[int], list[int]]:
    """Return the first and the second channels of all pairs of a layout."""
    if layout == "half":
        return list(range(width // 2)), list(range(width // 2, width))
    return list(range(0, width, 2)), list(range(1, width, 2))


EXPECTED: Mapping[str, Expected] = {
    "/rope": table_expectation,
    "/rope/apply": rotation_expectation,
}
