"""Errors of numbers that are no sines: biases, coordinates, temperatures, weights and resizes.

An implementation in float32 rounds each step once; a logarithm, a power and an exponential are
within two units, and their arguments count by their condition. ln(1 + z) moves by z/(1 + z) times
the relative error of z, and by the rounding of the sum, 1: of a small z that is much.
"""

from collections.abc import Mapping, Sequence
from math import log2

import numpy as np

from service.conformance.expectations.sinusoids import RoundedRates
from service.conformance.questions import Question, arrays_of
from service.conformance.tolerance import UNIT, Errors, Expectation, Expected, Keys, rounded_up
from service.numerics.phase import Float64s, Geometric

# KERPLE raises learned numbers to this before it uses them, where they are clamped.
_LEAST_LEARNED = 0.01
# Resizes: the place of a new row is a sum, a quotient, a product and a difference, relative to the
# side. The kernel is a polynomial of degree 3 in Horner's form, and its slope is at most 1.5; a new
# number is a sum of products, along both axes.
_PLACE = 4.0
_KERNEL, _SLOPE, _SUMS = 8.0, 1.5, 12.0


def _positions(keys: Keys, axis: str, default: int = 0) -> Float64s:
    """Return the positions of the queries or the keys, as a request gives them."""
    if f"{axis}_positions" in keys:
        return np.array(keys[f"{axis}_positions"], dtype=np.float64)
    start = keys.get(f"{axis}_start", 0)
    return np.arange(start, start + keys.get(f"{axis}_len", default), dtype=np.float64)


def _lengths(keys: Keys, *, is_causal: bool) -> Float64s:
    """Return |key − query|, (queries, keys); 0 for keys after the query if causal."""
    queries = _positions(keys, "query")
    distances = _positions(keys, "key", len(queries)) - queries[:, np.newaxis]
    return np.maximum(-distances, 0) if is_causal else np.abs(distances)


def _slope_roundings(keys: Keys) -> Float64s:
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
    return np.asarray(np.maximum(3 * exponent, power) + 3)


def _slopes(keys: Keys, size: Float64s) -> Float64s:
    return size * _slope_roundings(keys)


def _alibi(keys: Keys, size: Float64s) -> Float64s:
    """Slopes times distances, which are integers: one rounding more."""
    given = len(keys.get("slopes", ()))
    counted = np.full(given, 1.0) if given else _slope_roundings(keys) + 1
    total = np.zeros(size.shape[1 if "attention_mask" in keys else 0])
    total[: len(counted)] = counted
    return size * total[:, np.newaxis, np.newaxis]


def _kerple(keys: Keys, size: Float64s) -> Float64s:
    """Kernels of the distance, with a product of the factor of each head at the end."""
    far = _lengths(keys, is_causal=keys.get("causal", True))[np.newaxis]
    a, p, b = (_of_heads(keys, each, len(size)) for each in ("a", "p", "b"))
    power = np.where(far > 0, np.abs(p * np.log(np.maximum(far, 1))), 0.0)
    if keys["convention"] == "power":
        return np.asarray(size * (3 * power + 5))
    if keys["convention"] == "log":
        return 3 * size + p * _of_logarithm(a * far)
    own = 0.0 if "b" in keys else _slope_roundings({"num_heads": len(size)})[:, None, None]
    return size * (3 + own) + np.abs(b) * _of_logarithm(a * far**p, 3 * power + 4)


def _of_heads(keys: Keys, name: str, heads: int) -> Float64s:
    """Return a number for each head, (heads, 1, 1); without any, 1, which no slope exceeds."""
    given: Sequence[float] = keys.get(name) or [1.0]
    each = np.maximum(given, _LEAST_LEARNED if keys.get("clamp") else 0.0)
    return np.repeat(each, heads // len(each))[:, np.newaxis, np.newaxis]


def _of_logarithm(argument: Float64s, roundings: Float64s | float = 2.0) -> Float64s:
    """Return the error of ln(1 + z), but for its own: that of z, and of the sum."""
    return np.where(argument > 0, argument / (1 + argument) * roundings + 1, 0.0)


def _fire(keys: Keys, size: Float64s) -> Float64s:
    """A quotient of two logarithms, of c times a distance and of c times a position."""
    c, eps = keys.get("c", 0.1), keys.get("eps", 1e-6)
    queries = _positions(keys, "query")[:, np.newaxis]
    above = c * _lengths(keys, is_causal=False)
    below = c * np.maximum(keys.get("threshold", 512.0), queries)
    divisor = np.log1p(below) + eps
    return np.asarray(_of_logarithm(above) / divisor + size * (_of_logarithm(below) / divisor + 6))


def _sandwich(keys: Keys, size: Float64s) -> Float64s:
    """Sums of n cosines less n: each cosine is rounded, and each sum, of at most n."""
    heads, width = keys["num_heads"], keys["head_dim"]
    half = width // 2
    rates = RoundedRates.of(Geometric(keys.get("base", 10000.0), width, half + 1))
    far = _lengths(keys, is_causal=keys.get("causal", True))
    angles = rates.errors(far.reshape(-1))[:, 1:].sum(axis=-1).reshape(far.shape)
    sums = np.where(far > 0, angles + (2 * half + (half - 1) * half), 0.0)
    factors = heads / (8 * np.arange(1, heads + 1))[:, np.newaxis, np.newaxis]
    return np.asarray(factors * sums + 2 * size)


def _swin_v2(keys: Keys, size: Float64s) -> Float64s:
    """Logarithms of distances: ln(1 + |d|), or log2(1 + 8|d|/(W − 1))/3."""
    if keys.get("mode") == "cr":
        return 2 * size
    # A product and a quotient move the argument; a logarithm to base 2 has a quotient more.
    return np.asarray(_of_logarithm(8.0**size - 1) / np.log(8) + 5 * size)


def _dynamic(keys: Keys, size: Float64s) -> Float64s:
    """Distances, which are exact, or their logarithms."""
    return (2.0 if keys.get("log_distance", False) else 0.0) * size


def _temperature(keys: Keys, size: Float64s) -> Float64s:
    """1 + s·ln(1 + n) of a whole n, or beam's power: three steps of the part beyond 1."""
    if keys.get("convention") == "beam":
        return (3 * np.log(size) + 3) * size
    return 5 * (size - 1) + 1


def _weights(keys: Keys, size: Float64s) -> Float64s:
    """The weights of one axis: a place, which is relative to the side, and the kernel."""
    return np.full(size.shape, _of_kernel(*keys["old_size"], *keys["size"]))


def _of_kernel(*sides: int) -> float:
    return _SLOPE * _PLACE * max(sides) + _KERNEL


def _resized(question: Question) -> Expectation:
    """Return a learned table, resized: each weight is wrong by that of its place.

    Rows of class tokens are copied.
    """
    ((name, numbers),) = arrays_of(question.request).items()
    keys, x = question.parameters, np.asarray(question.x, dtype=np.float64)
    largest = np.abs(x).max()
    taps = 2 if keys.get("mode") in {"linear", "bilinear"} else 4
    kernel = _of_kernel(*keys["size"], *x.shape[:-1], *keys.get("old_size", ()))
    errors = np.full(numbers.shape, (2 * taps * kernel + _SUMS) * largest * UNIT)
    errors[: keys.get("num_prefix_tokens", 0)] = 0
    scale = np.full(numbers.shape, 2 * largest)
    return Expectation({name: numbers}, rounded_up(errors), scale, is_rotation=True)


EXPECTED: Mapping[str, Expected] = {"/resize/apply": _resized}
ERRORS: Mapping[str, Errors] = {
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
    "/resize": _weights,
}
