"""Independent evaluation of the indices, biases and coordinates of relative positions."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from tests.exact import UNIT
from tests.parity.backend import Query
from tests.parity.golden import Array, Arrays
from tests.parity.truth import Truth, truths


def _positions(query: Query, axis: str, default_len: int | None = None) -> list[int]:
    listed = query.get(f"{axis}_positions")
    if listed is not None:
        return [int(position) for position in listed]
    start = query.get(f"{axis}_start") or 0
    return list(range(start, start + (query.get(f"{axis}_len") or default_len or 0)))


def _of_pairs(query: Query, number: Callable[[int], int]) -> Array:
    """Evaluate a function of the distance key − query as (queries, keys)."""
    queries = _positions(query, "query")
    keys = _positions(query, "key", len(queries))
    values = [Truth(number(key - position), 0) for position in queries for key in keys]
    return truths(values, len(queries), len(keys))


def _t5_number(query: Query, num_buckets: int) -> Callable[[int], int]:
    is_bidirectional, most = query.get("bidirectional", True), query.get("max_distance", 128)
    of_direction = num_buckets // 2 if is_bidirectional else num_buckets
    near = of_direction // 2
    shared = of_direction - near

    def number(distance: int) -> int:
        far = abs(distance) if is_bidirectional else max(-distance, 0)
        after = of_direction if is_bidirectional and distance > 0 else 0
        if far < near:
            return after + far
        # The number of powers (most/near)^j, from j = 0, that are at most (far/near)^shared.
        powers = range(shared)
        bucket = bisect_right(powers, far**shared, key=lambda j: most**j * near ** (shared - j))
        return after + near + bucket - 1

    return number


def t5(query: Query) -> Arrays:
    return {"bucket": _of_pairs(query, _t5_number(query, query.get("num_buckets", 32)))}


def t5_bias(query: Query, arrays: Arrays) -> Arrays:
    weight = arrays["weight"]
    numbers = _of_pairs(query, _t5_number(query, len(weight)))
    return {"bias": _heads(weight, numbers)}


def deberta(query: Query) -> Arrays:
    size: int = query.get("bucket_size", 256)
    most: int = query.get("max_position", 512)

    def number(distance: int) -> int:
        far, mid = abs(distance), size // 2
        sign = -1 if distance > 0 else 1
        if size < 0 or most < 0 or far <= mid:
            return sign * far
        # The first j whose power ((most − 1)/mid)^j is no less than (far/mid)^(mid − 1).
        wanted, growth = Fraction(far, mid) ** (mid - 1), Fraction(most - 1, mid)
        end = 1
        while growth**end < wanted:
            end *= 2
        start = bisect_left(range(end + 1), wanted, key=lambda j: growth**j)
        return sign * (mid + start)

    return {"bucket": _of_pairs(query, number)}


def _clipped(query: Query, most: int) -> Array:
    return _of_pairs(query, lambda distance: min(max(distance, -most), most) + most)


def shaw(query: Query) -> Arrays:
    before: int = query["max_relative_position"]
    after: int = query.get("max_after", before)

    def row(distance: int) -> int:
        clipped = min(max(distance, -before), after)
        return after - clipped if query.get("descending") else clipped + before

    return {"index": _of_pairs(query, row)}


def shaw_embeddings(query: Query, arrays: Arrays) -> Arrays:
    weight = arrays["weight"]
    numbers = _clipped(query, len(weight) // 2)
    values = [Truth(value, 0) for number in numbers.flat for value in weight[number.value].tolist()]
    return {"embeddings": truths(values, *numbers.shape, weight.shape[1])}


def _swin_numbers(height: int, width: int, *, has_class: bool) -> Array:
    places: list[Any] = [None] if has_class else []
    places += [(row, column) for row in range(height) for column in range(width)]
    kinds = [(dy, dx) for dy in range(1 - height, height) for dx in range(1 - width, width)]
    number = {kind: place for place, kind in enumerate(kinds)}

    def of(query: Any, key: Any) -> int:
        if query is None:
            return len(kinds) + (2 if key is None else 0)
        if key is None:
            return len(kinds) + 1
        return number[query[0] - key[0], query[1] - key[1]]

    values = [Truth(of(query, key), 0) for query in places for key in places]
    return truths(values, len(places), len(places))


def swin(query: Query) -> Arrays:
    height, width = query["window_size"]
    has_class = query.get("class_token", False)
    return {"index": _swin_numbers(height, width, has_class=has_class)}


def swin_bias(query: Query, arrays: Arrays) -> Arrays:
    weight, (height, width) = arrays["weight"], query["window_size"]
    has_class = len(weight) > (2 * height - 1) * (2 * width - 1)
    return {"bias": _heads(weight, _swin_numbers(height, width, has_class=has_class))}


def _heads(weight: Array, numbers: Array) -> Array:
    values = [
        Truth(weight[number.value, head].item(), 0)
        for head in range(weight.shape[1])
        for number in numbers.flat
    ]
    return truths(values, weight.shape[1], *np.shape(numbers))


mpf = mpmath.mpf

_ONCE = 1.2 * UNIT
"""The relative error of an answer that is rounded once."""


def _of_size(value: Any, relative: float = _ONCE) -> Truth:
    return Truth(value, float(abs(value)) * relative)


def _blocks(
    query: Query, heads: Sequence[int], value: Callable[[int, int], Truth], name: str = "bias"
) -> Arrays:
    """Evaluate a function of head and distance key − query as (heads, queries, keys)."""
    queries = _positions(query, "query")
    keys = _positions(query, "key", len(queries))
    values = [value(head, j - i) for head in heads for i in queries for j in keys]
    return {name: truths(values, len(heads), len(queries), len(keys))}


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
    given = arrays.get("slopes")
    slopes = _slopes(query) if given is None else [mpf(float(slope)) for slope in given]
    if "attention_mask" not in arrays:
        return _alibi(query, slopes)
    mask = arrays["attention_mask"].tolist()
    biases = [_of_size(slope * key) for row in mask for slope in slopes for key in _kept(row)]
    return {"bias": truths(biases, len(mask), len(slopes), 1, len(mask[0]))}


def _kept(mask: list[int]) -> list[int]:
    """Number the keys that are not masked; the others are at 0."""
    return [sum(mask[: place + 1]) - 1 if is_kept else 0 for place, is_kept in enumerate(mask)]


def _alibi(query: Query, slope_of: list[Any]) -> Arrays:
    name = query.get("convention", "original")
    slope_of = slope_of + [mpf(0)] * ((query.get("total_heads") or 0) - len(slope_of))
    heads = range(len(slope_of))
    if name in {"bloom", "mpt"}:
        own = 0 if name == "bloom" else _positions(query, "key")[-1]
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
    eps, queries = mpf(query.get("eps", 1e-6)), _positions(query, "query")
    keys = _positions(query, "key", len(queries))
    biases = [
        mpmath.log1p(c * abs(i - j)) / (mpmath.log1p(c * max(least, i)) + eps)
        for i in queries
        for j in keys
    ]
    values = [_of_size(bias, 4.2 * UNIT) for bias in biases]
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
    values = [coordinate(d, sides[k]) for y in height for x in width for k, d in enumerate((y, x))]
    return {"coordinates": truths(values, len(height), len(width), 2)}


def dynamic(query: Query) -> Arrays:
    far = query["seq_len"] - 1
    values = [mpf(distance) for distance in range(-far, far + 1)]
    if query.get("log_distance"):
        values = [mpmath.sign(distance) * mpmath.log1p(abs(distance)) for distance in values]
    return {"distance": truths([_of_size(value) for value in values], len(values), 1)}
