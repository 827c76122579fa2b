"""Expectations of rotary tables and rotations: the tolerance of each angle, by its roundings.

The roundings of an angle are those of the module ``tolerance``, with e = 2k/r and b the base in
effect. A scaling rule adds its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import TypeAlias

import numpy as np

from service.conformance.questions import Numbers, Question, arrays_of
from service.conformance.tolerance import (
    MOST_ANGLE,
    MOST_COUNTED,
    POWER,
    UNIT,
    Expectation,
    Expected,
    Keys,
    rounded_up,
)
from service.encodings.rotary.rules import ROPE_TYPES
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

Pairs: TypeAlias = tuple[Indices, Indices]
"""The first channels of all pairs, and the second ones."""

# A ramp of no width is computed as one of this width.
_LEAST_RAMP = 0.001


def table_expectation(question: Question) -> Expectation:
    """Return cosines and sines of a rotary table, (…, S, r/2) each; raises PosrefError."""
    question = question.as_table
    found = arrays_of(question.request)
    frequencies = frequencies_of(question)
    factor = float(frequencies["attention_factor"])
    angles = np.abs(angles_of(question))
    counted = _roundings(question.parameters, frequencies)
    is_far = angles > frequencies["inv_freq"] * (MOST_COUNTED + 0.5)
    allowed = UNIT * angles * (counted + is_far)
    scale: Float64s | float = factor
    if "xpos" in question.parameters:
        scale, more = _grown(found, frequencies["inv_freq"])
        allowed = allowed + more
    return Expectation(
        {"cos": found["cos"], "sin": found["sin"]},
        rounded_up(np.minimum(scale * allowed, MOST_ANGLE)),
        scale,
        factor,
        {"inv_freq": frequencies["inv_freq"], "attention_factor": factor},
    )


def frequencies_of(question: Question) -> Mapping[str, Numbers]:
    """Return the frequencies of a rotary table, and intermediate numbers; raises PosrefError."""
    return arrays_of(question.of("/rope/frequencies").request)


def angles_of(question: Question) -> Float64s:
    """Return the angles of a rotary table, (…, S, r/2); raises PosrefError."""
    plain = question.changed("xpos", "xpos_centre", "xpos_scale_base", pack="angle")
    asked = replace(plain, kind="array", resource="/rope")
    return arrays_of(asked.request)["rope"].astype(np.float64)


def _roundings(keys: Keys, frequencies: Mapping[str, Numbers]) -> Float64s:
    """Return c of each frequency, (r/2,)."""
    omega = frequencies["inv_freq"]
    if "inv_freq" in keys:
        # A given frequency is rounded to float32, and so is the product.
        counted = np.full(len(omega), 2.0)
    else:
        base = float(frequencies.get("effective_base", np.array(keys.get("rope_theta", 1e4))))
        exponent = 3 * np.log(base) * np.arange(len(omega)) / len(omega)
        counted = _COUNTS[str(keys.get("rope_type", "default"))](exponent, frequencies, keys)
        counted = counted + ("freq_factors" in keys)
    return np.where((omega == 0) | (omega == 1), 0.0, counted)


_Counts: TypeAlias = Callable[[Float64s, Mapping[str, Numbers], Keys], Float64s]


def _adding(more: float) -> _Counts:
    """Return the roundings of a rule that adds some to those of a power."""
    return lambda exponent, _, __: exponent + POWER + more


def _ntk(exponent: Float64s, _: Mapping[str, Numbers], keys: Keys) -> Float64s:
    """With mixed_b, a·(k + 1)^mixed_b has 7 roundings: a logarithm, 2 powers, their quotients."""
    if "mixed_b" not in keys:
        return exponent + POWER + 4
    count = len(exponent)
    shares = (np.arange(1, count + 1) / count) ** keys["mixed_b"]
    counted: Float64s = exponent + POWER + 3 + 7 * np.log(keys["factor"]) * shares
    return counted


def _dynamic(exponent: Float64s, frequencies: Mapping[str, Numbers], keys: Keys) -> Float64s:
    """The base b·α^(r/(r − 2)) has an error, of which a frequency has the share e."""
    count = len(exponent)
    power = count / (count - 1)
    growth = (float(frequencies["effective_base"]) / keys.get("rope_theta", 1e4)) ** (1 / power)
    # α = f·L/O − (f − 1) is a difference: the error of each part is relative to the part.
    factor = keys.get("factor", 0.0)
    parts = (2 * (growth + factor - 1) + abs(factor - 1)) / growth + 1 if "factor" in keys else 0.0
    of_base = 3 + power * (np.log(growth) + parts)
    counted: Float64s = exponent + POWER + of_base * np.arange(count) / count
    return counted


def _llama3(exponent: Float64s, frequencies: Mapping[str, Numbers], keys: Keys) -> Float64s:
    """Inside the band the blend follows the frequency; its share is that of the rule."""
    share = frequencies["smooth_factor"]
    low, factor = keys["low_freq_factor"], keys["factor"]
    # Without a band nothing is inside of it.
    width = keys["high_freq_factor"] - low or 1.0
    slope = (low + share * width) / width * (1 - 1 / factor) / ((1 - share) / factor + share)
    inside = (1 + slope) * (exponent + 7) + 5
    return np.where((share > 0) & (share < 1), inside, exponent + POWER + 3)


def factor_of(keys: Keys) -> float:
    """Return the factor of a rule, or the quotient of lengths that it follows from."""
    lengths = ("max_position_embeddings", "original_max_position_embeddings")
    return float(keys["factor"] if "factor" in keys else keys[lengths[0]] / keys[lengths[1]])


def _yarn(exponent: Float64s, frequencies: Mapping[str, Numbers], keys: Keys) -> Float64s:
    """Inside the ramp the blend depends on its ends, which are computed as well."""
    ramp = frequencies["ramp"]
    low, high = frequencies["range_used"]
    factor = factor_of(keys)
    moved = 3 * ramp + (low + ramp * high) / max(high - low, _LEAST_RAMP)
    inside = exponent + 9 + (1 - 1 / factor) / ((1 - ramp) + ramp / factor) * moved
    return np.where((ramp > 0) & (ramp < 1), inside, exponent + 5)


_COUNTS: Mapping[str, _Counts] = {
    **dict.fromkeys(ROPE_TYPES, _adding(1)),
    "default": _adding(0),
    "dynamic": _dynamic,
    "ntk": _ntk,
    "llama3": _llama3,
    "yarn": _yarn,
}


def _grown(found: Mapping[str, Numbers], omega: Numbers) -> tuple[Float64s, Float64s]:
    """Return the multipliers ζ^x of xPos, and the relative error of each, both (…, S, r/2).

    With x = (p − centre)/scale_base, ζ = (2k + 0.4·r)/(1.4·r) costs 4 roundings, x·ln ζ costs 3,
    the power and its product with the cosine 2 each.
    """
    size: Float64s = np.hypot(found["cos"], found["sin"])
    count = len(omega)
    zeta = np.log((np.arange(count) + 0.4 * count) / (1.4 * count))
    logarithm = np.abs(np.log(size))
    return rounded_up(size), UNIT * (4 * logarithm / np.abs(zeta) + 3 * logarithm + 4)


def rotation_expectation(question: Question) -> Expectation:
    """Return x, rotated, of the shape of x; raises PosrefError."""
    table = table_expectation(table_of(question))
    layout = str(question.parameters.get("layout", "interleaved"))
    output = str(question.parameters.get("output_layout", layout))
    width = 2 * table.shape[-1]
    return rotated(question, table, pairs(layout, width), pairs(output, width))


def table_of(question: Question) -> Question:
    """Return the question for the table that a rotation multiplies by."""
    table = replace(question.changed("axes").of("/rope", "table"), positions=question.positions)
    rows = {"positions_h", "cu_seqlens", "grid"} & table.parameters.keys()
    if question.positions is None and not rows:
        return table.changed(seq_len=np.shape(question.x)[-2])
    return table


def rotated(question: Question, table: Expectation, read: Pairs, written: Pairs) -> Expectation:
    """Return x, rotated, with its tolerance; raises PosrefError.

    A rotation adds to the error of its table the roundings of cosine, sine, products and sum.

    Args:
        question: the question, with x.
        table: the expectation of its cosines and sines.
        read: the channels of the pairs of x, from the first rotary channel.
        written: those of the result.
    """
    (result,) = arrays_of(question.request).values()
    assert table.angle is not None
    offset = question.parameters.get("rotary_offset", 0)
    axes = question.parameters.get("axes", ())
    row_axis = axes.index("seq") - len(axes) if "seq" in axes else -2
    x = np.moveaxis(np.asarray(question.x, dtype=np.float64), row_axis, -2)
    rows = (-1, *table.shape[-2:])
    flat = np.abs(x).reshape(prod(x.shape[:-2]), *x.shape[-2:])
    both = flat[..., offset + read[0]] + flat[..., offset + read[1]]
    scale = np.broadcast_to(table.scale, table.shape).reshape(rows)
    size, turned = np.zeros(flat.shape), np.zeros(flat.shape)
    for channels in written:
        size[..., offset + channels] = scale * both
        turned[..., offset + channels] = both * table.angle.reshape(rows)
    allowed = rounded_up(np.minimum(turned + 4 * UNIT * size, np.maximum(size, 1) * MOST_ANGLE))
    angle, size = (np.moveaxis(each.reshape(x.shape), -2, row_axis) for each in (allowed, size))
    return Expectation({"rotated": result}, angle, size, table.factor, is_rotation=True)


def pairs(layout: str, width: int) -> Pairs:
    """Return the channels of all pairs of a layout."""
    channels = np.arange(width)
    if layout == "half":
        return channels[: width // 2], channels[width // 2 :]
    return channels[::2], channels[1::2]


EXPECTED: Mapping[str, Expected] = {
    "/rope": table_expectation,
    "/rope/config": table_expectation,
    "/rope/apply": rotation_expectation,
}
