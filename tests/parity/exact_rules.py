"""Independent evaluation of rotary frequencies in 90 digits."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import mpmath

from tests.exact import frequency

Keys: TypeAlias = Mapping[str, Any]
Exacts: TypeAlias = list[Any]

mpf = mpmath.mpf


def rotary_dim(query: Keys) -> int:
    """Return the number of rotary channels."""
    if "inv_freq" in query:
        return 2 * len(query["inv_freq"])
    if "rotary_dim" in query:
        return int(query["rotary_dim"])
    if query.get("rope_type") == "proportional":
        return int(query["head_dim"])
    return int(query["head_dim"] * query.get("partial_rotary_factor", 1.0))


def frequencies(query: Keys) -> Exacts:
    """Evaluate the frequencies of a request."""
    if "inv_freq" in query:
        return [mpf(float(value)) for value in query["inv_freq"]]
    dim, theta = rotary_dim(query), mpf(query.get("rope_theta", 10000.0))
    found = _RULES[query.get("rope_type", "default")](dim, theta, query)
    factors = query.get("freq_factors") or [1.0] * len(found)
    return [value / mpf(factor) for value, factor in zip(found, factors, strict=True)]


def attention_factor(query: Keys) -> Any:
    """Evaluate the factor of cosines and sines."""
    if query.get("attention_factor"):
        return mpf(query["attention_factor"])
    if query.get("rope_type") == "yarn":
        above, below = query.get("mscale"), query.get("mscale_all_dim")
        factor = _stretch(query)
        return _grown(factor, above) / _grown(factor, below) if above and below else _grown(factor)
    if query.get("rope_type") == "longrope":
        factor = _stretch(query)
        original = query["original_max_position_embeddings"]
        return mpmath.sqrt(1 + mpmath.log(factor) / mpmath.log(original)) if factor > 1 else mpf(1)
    return mpf(1)


def _grown(factor: Any, mscale: float = 1.0) -> Any:
    return 1 + mpf("0.1") * mpf(mscale) * mpmath.log(factor) if factor > 1 else mpf(1)


def _stretch(query: Keys) -> Any:
    if query.get("factor"):
        return mpf(query["factor"])
    return mpf(query["max_position_embeddings"] / query["original_max_position_embeddings"])


def _default(dim: int, theta: Any, _: Keys) -> Exacts:
    return [frequency(theta, dim, k) for k in range(dim // 2)]


def _linear(dim: int, theta: Any, keys: Keys) -> Exacts:
    return [value / mpf(keys["factor"]) for value in _default(dim, theta, keys)]


def _dynamic(dim: int, theta: Any, keys: Keys) -> Exacts:
    growth = mpf(keys.get("alpha") or 1)
    if not keys.get("alpha"):
        trained = keys.get("original_max_position_embeddings") or keys["max_position_embeddings"]
        length = max(keys.get("context_length") or trained, trained)
        growth = mpf(keys["factor"]) * length / trained - (mpf(keys["factor"]) - 1)
    return _default(dim, theta * growth ** (mpf(dim) / (dim - 2)), keys)


def _ntk(dim: int, theta: Any, keys: Keys) -> Exacts:
    factor, mixed = mpf(keys["factor"]), keys.get("mixed_b")
    if mixed is None:
        divisor = factor ** (mpf(2) / dim)
        return [value / divisor for value in _default(dim, theta * factor, keys)]
    a = mpmath.log(factor) / mpf(dim // 2) ** mpf(mixed)
    unscaled = _default(dim, theta, keys)
    return [w / mpmath.exp(a * mpf(k) ** mpf(mixed)) for k, w in enumerate(unscaled, start=1)]


def _yarn(dim: int, theta: Any, keys: Keys) -> Exacts:
    factor, length = _stretch(keys), keys["original_max_position_embeddings"]

    def pair_of(turns: float) -> Any:
        wavelengths = mpmath.log(length / (2 * mpmath.pi * mpf(turns)))
        return dim * wavelengths / (2 * mpmath.log(theta))

    low, high = pair_of(keys.get("beta_fast") or 32), pair_of(keys.get("beta_slow") or 1)
    if keys.get("truncate", True):
        low, high = mpmath.floor(low), mpmath.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    width = high - low if high != low else mpf("0.001")
    found = []
    for k, value in enumerate(_default(dim, theta, keys)):
        interpolated = min(max((k - low) / width, 0), 1)
        found.append(value * (1 - interpolated) + value / factor * interpolated)
    return found


def _longrope(dim: int, theta: Any, keys: Keys) -> Exacts:
    original = keys["original_max_position_embeddings"]
    is_long = (keys.get("context_length") or original) > original
    factors = keys["long_factor" if is_long else "short_factor"]
    unscaled = _default(dim, theta, keys)
    return [value / mpf(each) for value, each in zip(unscaled, factors, strict=True)]


def _llama3(dim: int, theta: Any, keys: Keys) -> Exacts:
    factor, length = mpf(keys["factor"]), keys["original_max_position_embeddings"]
    low, high = mpf(keys["low_freq_factor"]), mpf(keys["high_freq_factor"])
    found = []
    for value in _default(dim, theta, keys):
        turns = length * value / (2 * mpmath.pi)
        if turns >= high:
            found.append(value)
        elif turns <= low:
            found.append(value / factor)
        else:
            smooth = (turns - low) / (high - low)
            found.append((1 - smooth) * value / factor + smooth * value)
    return found


def _proportional(dim: int, theta: Any, keys: Keys) -> Exacts:
    turning = int(keys.get("partial_rotary_factor", 1.0) * dim // 2)
    factor = mpf(keys.get("factor") or 1)
    moving = [frequency(theta, dim, k) / factor for k in range(turning)]
    return moving + [mpf(0)] * (dim // 2 - turning)


_RULES: Mapping[str, Callable[[int, Any, Keys], Exacts]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "ntk": _ntk,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}
