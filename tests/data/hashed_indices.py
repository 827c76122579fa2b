"""Numbers of relative positions that are hashed, and rows that are looked up by them."""

from collections.abc import Iterator

from service.encodings.relative import windows
from service.encodings.relative.buckets import (
    BucketRule,
    Clipped,
    DebertaBuckets,
    T5Buckets,
    Unbucketed,
    buckets,
    looked_up,
)
from service.encodings.relative.distance import QueryKey
from service.encodings.relative.windows import Window, WindowTable
from service.numerics import tables as gathered
from service.numerics.dtypes import INDEX_DTYPES, INT64, REAL_DTYPES, DType
from service.numerics.tables import Table
from tests.data.hashed_samples import NEAR, PAIRS, named, of_document, pseudo_random, special

_WINDOWS = {"7 by 7": Window(7, 7, class_token=False), "3 by 5": Window(3, 5, class_token=True)}


def tables() -> Iterator[tuple[str, Table]]:
    """Give the numbers of near and far distances and of windows, and what they select."""
    for place, pairs in PAIRS.items():
        for dtype in INDEX_DTYPES.values():
            yield from _small(place, pairs, dtype)
        yield from _large(place, pairs)
    for name, window in _WINDOWS.items():
        for dtype in INDEX_DTYPES.values():
            yield from of_document(name, windows.index(window, dtype))
    for dtype in REAL_DTYPES.values():
        yield from _selected(dtype)


def _small(place: str, pairs: QueryKey, dtype: DType) -> Iterator[tuple[str, Table]]:
    for bidirectional in (False, True):
        for count, most in ((32, 128), (33, 100), (200, 2**40)):
            rule = T5Buckets(count, most, bidirectional)
            name = f"{place}, {count} to {most}, bidirectional {bidirectional}"
            yield from of_document(name, buckets("relative-t5", "bucket", rule, pairs, dtype))
    for size, most in ((256, 512), (4, 12)):
        deberta = DebertaBuckets(size, most, pairs.farthest)
        document = buckets("relative-deberta", "bucket", deberta, pairs, dtype)
        yield from of_document(f"{place}, {size} to {most}", document)
    document = buckets("relative-shaw", "index", Clipped(16), pairs, dtype)
    yield from of_document(f"{place}, 16", document)


def _large(place: str, pairs: QueryKey) -> Iterator[tuple[str, Table]]:
    """Give numbers that are too large for int32."""
    rules: dict[str, BucketRule] = {"deberta": Unbucketed(), "shaw": Clipped(2**61)}
    for family, rule in rules.items():
        document = buckets(f"relative-{family}", "index", rule, pairs, INT64)
        yield from of_document(f"{place}, large", document)


def _selected(dtype: DType) -> Iterator[tuple[str, Table]]:
    weight, odd = pseudo_random((32, 3), dtype), special((32, 3), dtype)
    index = looked_up(T5Buckets(32, 128, bidirectional=True), NEAR)
    biases = {
        "bias": gathered.gather_biases(weight, index, None),
        "bias of special values": gathered.gather_biases(odd, index, None),
        "bias of head 2": gathered.gather_biases(weight, index, 2),
    }
    yield from named("relative-t5-bias", "near", biases)
    rows = gathered.gather_rows(pseudo_random((33, 5), dtype), looked_up(Clipped(16), NEAR))
    yield from named("relative-shaw-embeddings", "near", {"embeddings": rows})
    for name, window in _WINDOWS.items():
        weight, numbers = pseudo_random((window.count, 3), dtype), WindowTable(window, INT64)
        biases = {"bias": gathered.gather_biases(weight, numbers, None)}
        yield from named("relative-swin-bias", name, biases)
