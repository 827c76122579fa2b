"""Expectations of biases, coordinates and temperatures: errors of slopes, powers and logarithms.

An implementation in float32 rounds each step once; a logarithm, a power and an exponential are
within two units, and their arguments count by their condition. ln(1 + z) moves by z/(1 + z) times
the relative error of z, and by the rounding of the sum, 1: of a small z that is much.
"""

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any, TypeAlias

import numpy as np

from service.conformance.expectations.sinusoids import RoundedRates
from service.conformance.questions import Numbers, Question, numbers_of
from service.conformance.tolerance import UNIT, Expectation, Expected, rounded_up
from service.numerics.phase import Float64s, Geometric

_Keys: TypeAlias = Mapping[str, Any]


def _found(question: Question) -> tuple[str, Numbers]:
    """Return the name and the numbers of the only array; raises PosrefError."""
    name, table = question.single_table
    return name, numbers_of(table)


def _positions(keys: _Keys, axis: str, default: int = 0) -> Float64s:
    """Return the positions of the queries or the keys, as a request gives them."""
    if f"{axis}_positions" in keys:
        return np.array(keys[f"{axis}_positions"], dtype=np.float64)
    start = keys.get(f"{axis}_start", 0)
    return np.arange(start, start + keys.get(f"{axis}_len", default), dtype=np.float64)


def _lengths(keys: _Keys, *, is_causal: bool) -> Float64s:
    """Return |key − query|, (queries, keys); 0 for keys after the query if causal."""
    queries = _positions(keys, "query")
    distances = _positions(keys, "key", len(queries)) - queries[:, np.newaxis]
    return np.maximum(-distances, 0) if is_causal else np.abs(distances)


def _slope_roundings(keys: _Keys) -> Float64s:
    """Return the roundings of the slope of each head: of an exponent, or of a repeated product.

    2^(−8h/n) has the exponent's quotient, product and logarithm, as any power; the power h of
    2^(−8/n), which is rounded, has h of them and the power's two. A reciprocal is the last.
    """
    heads, most = keys["num_heads"], float(keys.get("alibi_bias_max", 8.0))
    full = heads
    if keys.get("convention") != "paper":
        full = 2 ** int(log2(heads))
    power = np.arange(1, heads + 1, dtype=np.float64)
    power[full:] = 2 * np.arange(heads - full) + 1
    steps = np.where(np.arange(heads) < full, full, 2 * full)
    exponent = most * power / steps * np.log(2)
    roundings: Float64s = np.maximum(3 * exponent, power) + 3
    return roundings


def _slopes(question: Question) -> Expectation:
    name, slopes = _found(question)
    return Expectation(
        {name: slopes}, rounded_up(slopes * _slope_roundings(question.parameters) * UNIT)
    )


def _alibi(question: Question) -> Expectation:
    """Return slopes times distances, which are integers: one rounding more."""
    name, biases = _found(question)
    keys = question.parameters
    given = len(keys["slopes"]) if "slopes" in keys else 0
    counted = np.full(given, 1.0) if given else _slope_roundings(keys) + 1
    total = np.zeros(biases.shape[1 if "attention_mask" in keys else 0])
    total[: len(counted)] = counted
    errors = np.abs(biases) * total[:, np.newaxis, np.newaxis] * UNIT
    return Expectation({name: biases}, rounded_up(errors))


def _kerple(question: Question) -> Expectation:
    """Return kernels of the distance, with a product of the factor of each head at the end."""
    name, biases = _found(question)
    keys = question.parameters
    far = _lengths(keys, is_causal=keys.get("causal", True))[np.newaxis]
    a, p, b = (_of_heads(keys, each, len(biases)) for each in ("a", "p", "b"))
    size = np.abs(biases)
    power = np.where(far > 0, np.abs(p * np.log(np.maximum(far, 1))), 0.0)
    if keys["convention"] == "power":
        errors = size * (3 * power + 5)
    elif keys["convention"] == "log":
        errors = 3 * size + p * _of_logarithm(a * far, np.full(far.shape, 2.0))
    else:
        own = 0.0 if "b" in keys else _slope_roundings({"num_heads": len(biases)})[:, None, None]
        argument = a * far**p
        errors = size * (3 + own) + np.abs(b) * _of_logarithm(argument, 3 * power + 4)
    return Expectation({name: biases}, rounded_up(errors * UNIT))


# KERPLE raises learned numbers to this before it uses them, where they are clamped.
_LEAST_LEARNED = 0.01


def _of_heads(keys: _Keys, name: str, heads: int) -> Float64s:
    """Return a number for each head, (heads, 1, 1); without any, 1, which no slope exceeds."""
    given: Sequence[float] = keys.get(name) or [1.0]
    each = np.maximum(given, _LEAST_LEARNED if keys.get("clamp") else 0.0)
    return np.repeat(each, heads // len(each))[:, np.newaxis, np.newaxis]


def _of_logarithm(argument: Float64s, roundings: Float64s) -> Float64s:
    """Return the error of ln(1 + z) in units, but for its own: that of z, and of the sum."""
    errors: Float64s = np.where(argument > 0, argument / (1 + argument) * roundings + 1, 0.0)
    return errors


def _fire(question: Question) -> Expectation:
    """Return a quotient of two logarithms, of c times a distance and of c times a position."""
    name, biases = _found(question)
    keys = question.parameters
    c, eps = keys.get("c", 0.1), keys.get("eps", 1e-6)
    least = keys.get("threshold", 512.0)
    queries = _positions(keys, "query")[:, np.newaxis]
    above, below = (
        c * _lengths(keys, is_causal=False),
        c * np.maximum(least, queries),
    )
    divisor = np.log1p(below) + eps
    parts = [_of_logarithm(each, np.full(each.shape, 2.0)) for each in (above, below)]
    size = np.abs(biases)
    errors = parts[0] / divisor + size * (parts[1] / divisor + 6)
    return Expectation({name: biases}, rounded_up(errors * UNIT))


def _sandwich(question: Question) -> Expectation:
    """Return sums of n cosines less n: each cosine is rounded, and each sum, of at most n."""
    name, biases = _found(question)
    keys = question.parameters
    heads, width = keys["num_heads"], keys["head_dim"]
    half = width // 2
    rule = Geometric(keys.get("base", 10000.0), width, half + 1)
    far = _lengths(keys, is_causal=keys.get("causal", True))
    angles = RoundedRates.of(rule).errors(far.reshape(-1))[:, 1:].sum(axis=-1).reshape(far.shape)
    sums = np.where(far > 0, angles + (2 * half + (half - 1) * half) * UNIT, 0.0)
    factors = heads / (8 * np.arange(1, heads + 1))[:, np.newaxis, np.newaxis]
    return Expectation({name: biases}, rounded_up(factors * sums + 2 * UNIT * np.abs(biases)))


def _swin_v2(question: Question) -> Expectation:
    """Return logarithms of distances: ln(1 + |d|), or log2(1 + 8|d|/(W − 1))/3."""
    name, numbers = _found(question)
    size = np.abs(numbers)
    if question.parameters.get("mode") == "cr":
        return Expectation({name: numbers}, rounded_up(2 * size * UNIT))
    # A product and a quotient move the argument; a logarithm to base 2 has a quotient more.
    argument = 8.0**size - 1
    sums = _of_logarithm(argument, np.full(size.shape, 2.0)) / np.log(8)
    return Expectation({name: numbers}, rounded_up((sums + 5 * size) * UNIT))


def _dynamic(question: Question) -> Expectation:
    """Return distances, which are exact, or their logarithms."""
    name, numbers = _found(question)
    is_log = question.parameters.get("log_distance", False)
    size = np.abs(numbers.astype(np.float64))
    return Expectation({name: numbers}, rounded_up((2 * UNIT if is_log else 0.0) * size))


def _temperature(question: Question) -> Expectation:
    """Return 1 + s·ln(1 + n) of a whole n, or beam's power: three steps of the part beyond 1."""
    name, numbers = _found(question)
    beyond: Float64s = 5 * (numbers.astype(np.float64) - 1) + 1
    if question.parameters.get("convention") == "beam":
        beyond = (3 * np.log(numbers) + 3) * numbers
    return Expectation({name: numbers}, rounded_up(beyond * UNIT))


EXPECTED: Mapping[str, Expected] = {
    "/relative/alibi": _alibi,
    "/relative/alibi/slopes": _slopes,
    "/relative/alibi/bias": _alibi,
    "/relative/kerple": _kerple,
    "/relative/kerple/bias": _kerple,
    "/relative/fire": _fire,
    "/relative/sandwich": _sandwich,
    "/relative/swin-v2": _swin_v2,
    "/relative/dynamic": _dynamic,
    "/attention/temperature": _temperature,
}
