"""Biases and coordinates of distances that are hashed."""

from collections.abc import Iterator

import numpy as np

from service.encodings.relative import alibi, fire, kerple
from service.encodings.relative import windows as log_coordinates
from service.encodings.relative.alibi import GivenSlopes, SlopeRule, Slopes, slopes
from service.encodings.relative.distance import QueryKey
from service.encodings.relative.fire import Interpolation
from service.encodings.relative.sandwich import Sandwich
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, DType
from service.numerics.phase import Float64s
from service.numerics.positions import Positions
from service.numerics.tables import Table
from tests.data.hashed_samples import PAIRS, of_document, pair_parameters

_SLOPES: dict[str, Slopes] = {
    "original": SlopeRule("original", 12, 8.0),
    "paper": SlopeRule("paper", 12, 7.3),
    "given": GivenSlopes(np.array([0.1, -3.0, 0.0, 1e-100, 1e9])),
}

_LONG = QueryKey(Positions.contiguous(800, 2), Positions.contiguous(0, 1000))
_LAST = QueryKey(Positions.contiguous(2**61, 1), Positions.contiguous(2**61 - 40, 41))


def tables() -> Iterator[tuple[str, Table]]:
    """Give biases of every form, of near and far distances, every head in turn."""
    for place, pairs in PAIRS.items():
        yield from _alibi(place, pairs, FLOAT64)
        yield from _kerple(place, pairs, FLOAT64)
        yield from _sandwich(place, pairs, FLOAT64)
        yield from _fire(place, pairs, FLOAT64)
    for dtype in REAL_DTYPES.values():
        yield from _alibi("long", _LONG, dtype)
        yield from _kerple("long", _LONG, dtype)
        yield from _sandwich("long", _LONG, dtype)
        yield from _fire("long", _LONG, dtype)
        yield from _of_keys(dtype)
        yield from _alibi("the last query", _LAST, dtype)
        yield from _coordinates(dtype)


def _alibi(place: str, pairs: QueryKey, dtype: DType) -> Iterator[tuple[str, Table]]:
    for name, of in _SLOPES.items():
        for is_symmetric in (False, True):
            for is_masked in (False, True):
                document = alibi.bias(
                    kind="relative-alibi-bias" if name == "given" else "relative-alibi",
                    parameters={},
                    linear=alibi.Linear(of, is_symmetric, is_masked),
                    pairs=pairs,
                    total_heads=of.count + 1,
                    head=None,
                    dtype=dtype,
                )
                form = f"symmetric {is_symmetric}, masked {is_masked}"
                yield from of_document(f"{place}, {name}, {form}", document)


def _of_keys(dtype: DType) -> Iterator[tuple[str, Table]]:
    mask = np.array([[0, 0, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1, 1]])
    for name, of in _SLOPES.items():
        if isinstance(of, SlopeRule):
            yield from of_document(name, slopes(rule=of, dtype=dtype))
        document = alibi.mask_aware(parameters={}, slopes=of, mask=mask, head=None, dtype=dtype)
        yield from of_document(f"{name}, keys of a mask", document)


def _kerple(place: str, pairs: QueryKey, dtype: DType) -> Iterator[tuple[str, Table]]:
    a, p = np.array([1.0, 0.3, 1e-9, 0.01, 1e9]), np.array([2.0, 0.01, 1.0, 0.5, 1.3])
    every: dict[str, tuple[str, dict[str, Float64s]]] = {
        "log": ("relative-kerple", {"a": a, "p": p}),
        "power": ("relative-kerple", {"a": a, "p": p}),
        "nemo": ("relative-kerple", {"a": a, "p": p * 3}),
        "nemo of b": ("relative-kerple-bias", {"a": a, "p": p, "b": a[::-1].copy()}),
        "nemo of b below 0": ("relative-kerple", {"a": a, "p": p, "b": -a[::-1]}),
    }
    for name, (kind, numbers) in every.items():
        for is_causal in (False, True):
            kernel = kerple.kernel(name.partition(" ")[0], numbers, is_causal=is_causal)
            document = kerple.bias(
                kind=kind, parameters={}, kernel=kernel, pairs=pairs, head=None, dtype=dtype
            )
            yield from of_document(f"{place}, {name}, causal {is_causal}", document)


def _sandwich(place: str, pairs: QueryKey, dtype: DType) -> Iterator[tuple[str, Table]]:
    for head_dim, base, is_causal in ((64, 10000.0, True), (46, 500.0, False), (6, 1e100, False)):
        parameters = {"num_heads": 3, "head_dim": head_dim, "base": base, "causal": is_causal}
        family = Sandwich(**parameters, **pair_parameters(pairs), dtype=dtype.name)
        document = family.document()
        yield from of_document(f"{place}, {head_dim} channels, causal {is_causal}", document)


def _fire(place: str, pairs: QueryKey, dtype: DType) -> Iterator[tuple[str, Table]]:
    for c, threshold, eps in ((0.1, 512.0, 1e-6), (3.7, 17.25, 0.0), (1e-9, 0.0, 1e-6)):
        interpolation = Interpolation(c, threshold, eps)
        document = fire.coordinates(interpolation=interpolation, pairs=pairs, dtype=dtype)
        yield from of_document(f"{place}, c {c}", document)


def _coordinates(dtype: DType) -> Iterator[tuple[str, Table]]:
    for window, normalized_by in (((8, 8), (8, 8)), ((7, 5), (12, 9)), ((7, 5), None)):
        document = log_coordinates.windows(
            window=window, normalized_by=normalized_by, axis=None, dtype=dtype
        )
        yield from of_document(f"{window} by {normalized_by}", document)
    for is_log in (False, True):
        document = log_coordinates.distances(seq_len=3000, is_log=is_log, dtype=dtype)
        yield from of_document(f"3000 keys, logarithms {is_log}", document)
