"""Independent evaluation of bucket and index numbers, in integers."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

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
    found = [Truth(number(key - place), 0) for place in queries for key in keys]
    return truths(found, len(queries), len(keys))


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
        found = bisect_right(powers, far**shared, key=lambda j: most**j * near ** (shared - j))
        return after + near + found - 1

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
    return {"index": _clipped(query, query["max_relative_position"])}


def shaw_embeddings(query: Query, arrays: Arrays) -> Arrays:
    weight = arrays["weight"]
    numbers = _clipped(query, len(weight) // 2)
    found = [Truth(value, 0) for number in numbers.flat for value in weight[number.value].tolist()]
    return {"embeddings": truths(found, *numbers.shape, weight.shape[1])}


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

    found = [Truth(of(query, key), 0) for query in places for key in places]
    return truths(found, len(places), len(places))


def swin(query: Query) -> Arrays:
    height, width = query["window_size"]
    has_class = query.get("class_token", False)
    return {"index": _swin_numbers(height, width, has_class=has_class)}


def swin_bias(query: Query, arrays: Arrays) -> Arrays:
    weight, (height, width) = arrays["weight"], query["window_size"]
    has_class = len(weight) > (2 * height - 1) * (2 * width - 1)
    return {"bias": _heads(weight, _swin_numbers(height, width, has_class=has_class))}


def _heads(weight: Array, numbers: Array) -> Array:
    found = [
        Truth(weight[number.value, head].item(), 0)
        for head in range(weight.shape[1])
        for number in numbers.flat
    ]
    return truths(found, weight.shape[1], *np.shape(numbers))
