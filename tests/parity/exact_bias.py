"""Independent evaluation of real biases and coordinates."""

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np

from tests.exact import UNIT
from tests.parity.backend import Query
from tests.parity.golden import Array, Arrays
from tests.parity.truth import Truth, truths

mpf = mpmath.mpf

_ONCE = 1.2 * UNIT
"""The relative error of an answer that is rounded once."""


def _of_size(value: Any, relative: float = _ONCE) -> Truth:
    return Truth(value, float(abs(value)) * relative)


def _places(query: Query, axis: str, default_len: int = 0) -> list[int]:
    listed = query.get(f"{axis}_positions")
    if listed is not None:
        return [int(place) for place in listed]
    start = query.get(f"{axis}_start") or 0
    return [start + index for index in range(query.get(f"{axis}_len") or default_len)]


def _blocks(
    query: Query, heads: Sequence[int], value: Callable[[int, int], Truth], name: str = "bias"
) -> Arrays:
    """Evaluate a function of head and distance key − query as (heads, queries, keys)."""
    queries = _places(query, "query")
    keys = _places(query, "key", len(queries))
    found = [value(head, j - i) for head in heads for i in queries for j in keys]
    return {name: truths(found, len(heads), len(queries), len(keys))}


def _slopes(query: Query) -> list[Any]:
    heads, last = query["num_heads"], mpf(query.get("alibi_bias_max", 8))
    if query.get("convention") == "paper" or heads & (heads - 1) == 0:
        return [mpf(2) ** (-last * (h + 1) / heads) for h in range(heads)]
    lower = 2 ** (len(bin(heads)) - 3)
    own = [mpf(2) ** (-last * (h + 1) / lower) for h in range(lower)]
    between = [mpf(2) ** (-last * (2 * h + 1) / (2 * lower)) for h in range(heads - lower)]
    return own + between


def slopes(query: Query) -> Arrays:
    values = [_of_size(slope) for slope in _slopes(query)]
    return {"slopes": truths(values, len(values))}


def alibi(query: Query) -> Arrays:
    return _alibi(query, _slopes(query))


def alibi_bias(query: Query, arrays: Arrays) -> Arrays:
    sent = arrays.get("slopes")
    values = _slopes(query) if sent is None else [mpf(float(slope)) for slope in sent]
    if "attention_mask" not in arrays:
        return _alibi(query, values)
    mask = arrays["attention_mask"].tolist()
    found = [_of_size(slope * place) for row in mask for slope in values for place in _kept(row)]
    return {"bias": truths(found, len(mask), len(values), 1, len(mask[0]))}


def _kept(mask: list[int]) -> list[int]:
    """Number the keys that are not masked; the others are at 0."""
    return [sum(mask[: place + 1]) - 1 if is_kept else 0 for place, is_kept in enumerate(mask)]


def _alibi(query: Query, slope_of: list[Any]) -> Arrays:
    name = query.get("convention", "original")
    slope_of = slope_of + [mpf(0)] * ((query.get("total_heads") or 0) - len(slope_of))
    heads = range(len(slope_of))
    if name in {"bloom", "mpt"}:
        own = 0 if name == "bloom" else _places(query, "key")[-1]
        rows = query | {"query_positions": [own]}
        return _blocks(rows, heads, lambda head, d: _of_size(slope_of[head] * d))
    sign = -1 if name == "x-transformers" else 1
    return _blocks(
        query, heads, lambda head, d: _of_size(slope_of[head] * (-abs(d) if sign < 0 else d))
    )


def kerple(query: Query) -> Arrays:
    heads = query["num_heads"]
    numbers = {name: [mpf(v) for v in query.get(name) or [1]] for name in ("a", "p", "b")}
    every = {name: values * (heads // len(values)) for name, values in numbers.items()}
    if query.get("b") is None:
        every["b"] = _slopes({"num_heads": heads})
    return _kerple(query, every)


def kerple_bias(query: Query, arrays: Arrays) -> Arrays:
    return _kerple(query, {name: [mpf(float(v)) for v in sent] for name, sent in arrays.items()})


def _kerple(query: Query, numbers: dict[str, list[Any]]) -> Arrays:
    if query.get("clamp"):
        least = mpf(0.01)
        numbers = {name: [max(v, least) for v in values] for name, values in numbers.items()}
    is_causal, kernel = query.get("causal", True), query["convention"]

    def value(head: int, distance: int) -> Truth:
        far = max(-distance, 0) if is_causal else abs(distance)
        a, p = numbers["a"][head], numbers["p"][head]
        if kernel == "log":
            return _of_size(-p * mpmath.log1p(a * far))
        if kernel == "power":
            return _of_size(-a * mpf(far) ** min(p, mpf(2)))
        return _of_size(-numbers["b"][head] * mpmath.log1p(a * mpf(far) ** p))

    return _blocks(query, range(len(numbers["a"])), value)


def sandwich(query: Query) -> Arrays:
    heads, head_dim, base = query["num_heads"], query["head_dim"], mpf(query.get("base", 10000))
    is_causal, half = query.get("causal", True), query["head_dim"] // 2
    rates = [base ** (mpf(-2 * k) / head_dim) for k in range(1, half + 1)]
    rounding = half * (11 + 2 * (half - 1).bit_length()) * UNIT

    def value(head: int, distance: int) -> Truth:
        far = max(-distance, 0) if is_causal else abs(distance)
        total = mpmath.fsum(mpmath.cos(far * rate) - 1 for rate in rates)
        return Truth(total * heads / (8 * (head + 1)), rounding * heads / (4 * (head + 1)))

    return _blocks(query, range(heads), value)


def fire(query: Query) -> Arrays:
    c, least = mpf(query.get("c", 0.1)), mpf(query.get("threshold", 512.0))
    eps, queries = mpf(query.get("eps", 1e-6)), _places(query, "query")
    keys = _places(query, "key", len(queries))
    found = [
        mpmath.log1p(c * abs(i - j)) / (mpmath.log1p(c * max(least, i)) + eps)
        for i in queries
        for j in keys
    ]
    values = [_of_size(value, 4.2 * UNIT) for value in found]
    return {"fire": truths(values, len(queries), len(keys))}


def swin_v2(query: Query) -> Arrays:
    window = query["window_size"]
    sides = query.get("pretrained_window_size") or window

    def coordinate(distance: int, side: int) -> Truth:
        if query.get("mode") == "cr":
            return _of_size(mpmath.sign(distance) * mpmath.log1p(abs(distance)))
        scaled = mpf(8 * abs(distance)) / (side - 1)
        return _of_size(mpmath.sign(distance) * mpmath.log(1 + scaled, 2) / 3)

    height, width = (range(1 - side, side) for side in window)
    found = [coordinate(d, sides[k]) for y in height for x in width for k, d in enumerate((y, x))]
    return {"coordinates": truths(found, len(height), len(width), 2)}


def dynamic(query: Query) -> Arrays:
    far = query["seq_len"] - 1
    found = [mpf(distance) for distance in range(-far, far + 1)]
    if query.get("log_distance"):
        found = [mpmath.sign(distance) * mpmath.log1p(abs(distance)) for distance in found]
    values: Array = truths([_of_size(value) for value in found], len(found), 1)
    assert np.ndim(values) == 2
    return {"distance": values}
