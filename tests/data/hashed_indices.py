"""Numbers of relative positions that are hashed, and rows that are looked up by them."""

from collections.abc import Iterator

from service.encodings.relative.buckets import T5, Deberta, Shaw, ShawEmbeddings, T5Bias
from service.encodings.relative.distance import QueryKey
from service.encodings.relative.windows import Swin, SwinBias
from service.numerics.dtypes import INDEX_DTYPES, REAL_DTYPES, DType
from service.numerics.tables import Table
from tests.data.hashed_samples import (
    NEAR,
    PAIRS,
    named,
    of_document,
    of_family,
    pair_parameters,
    pseudo_random,
    special,
)

_WINDOWS = {
    "7 by 7": Swin(window_size=(7, 7)),
    "3 by 5": Swin(window_size=(3, 5), class_token=True),
}


def tables() -> Iterator[tuple[str, Table]]:
    """Give the numbers of near and far distances and of windows, and what they select."""
    for place, pairs in PAIRS.items():
        for dtype in INDEX_DTYPES:
            yield from _small(place, pairs, dtype)
        yield from _large(place, pairs)
    for name, window in _WINDOWS.items():
        for dtype in INDEX_DTYPES:
            yield from of_family(name, Swin.like(window, dtype=dtype))
    for real_dtype in REAL_DTYPES.values():
        yield from _selected(real_dtype)


def _small(place: str, pairs: QueryKey, dtype: str) -> Iterator[tuple[str, Table]]:
    common = {**pair_parameters(pairs), "dtype": dtype}
    for both in (False, True):
        for count, most in ((32, 128), (33, 100), (200, 2**40)):
            sizes = {"num_buckets": count, "max_distance": most, "bidirectional": both}
            name = f"{place}, {count} to {most}, bidirectional {both}"
            yield from of_family(name, T5.model_validate({**sizes, **common}))
    for size, most in ((256, 512), (4, 12)):
        sizes = {"bucket_size": size, "max_position": most}
        yield from of_family(f"{place}, {size} to {most}", Deberta.model_validate(sizes | common))
    shaw = Shaw.model_validate({"max_relative_position": 16, **common})
    yield from of_family(f"{place}, 16", shaw)


def _large(place: str, pairs: QueryKey) -> Iterator[tuple[str, Table]]:
    """Give numbers that are too large for int32."""
    common = {**pair_parameters(pairs), "dtype": "int64"}
    deberta = Deberta.model_validate({"bucket_size": -1, **common})
    shaw = Shaw.model_validate({"max_relative_position": 2**61, **common})
    for family in (deberta, shaw):
        yield from named(family.kind(), f"{place}, large", {"index": family.table()})


def _selected(dtype: DType) -> Iterator[tuple[str, Table]]:
    weight, odd = pseudo_random((32, 3), dtype), special((32, 3), dtype)
    near = pair_parameters(NEAR)
    biases = {
        "bias": T5Bias.model_validate(near).document({"weight": weight}),
        "bias of special values": T5Bias.model_validate(near).document({"weight": odd}),
        "bias of head 2": T5Bias.model_validate({**near, "head": 2}).document({"weight": weight}),
    }
    arrays = {name: document.arrays["bias"] for name, document in biases.items()}
    yield from named("relative-t5-bias", "near", arrays)
    rows = {"weight": pseudo_random((33, 5), dtype)}
    yield from of_document("near", ShawEmbeddings.model_validate(near).document(rows))
    for name, window in _WINDOWS.items():
        family = SwinBias(window_size=window.window_size)
        document = family.document({"weight": pseudo_random((window.count, 3), dtype)})
        yield from of_document(name, document)
