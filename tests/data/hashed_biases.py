"""Biases and coordinates of distances that are hashed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from service.encodings.relative.alibi import Alibi, AlibiBias, AlibiSlopes
from service.encodings.relative.distance import QueryKey
from service.encodings.relative.fire import Fire
from service.encodings.relative.kerple import Kerple, KerpleBias
from service.encodings.relative.sandwich import Sandwich
from service.encodings.relative.windows import DynamicDistances, SwinV2
from service.numerics.dtypes import FLOAT64, INT64, REAL_DTYPES
from service.numerics.positions import Positions
from service.numerics.tables import StoredTable, Table
from tests.data.hashed_samples import PAIRS, named, of_document, of_family, pair_parameters

_RULES: dict[str, dict[str, Any]] = {
    "original": {"num_heads": 12},
    "paper": {"convention": "paper", "num_heads": 12, "alibi_bias_max": 7.3},
}
_GIVEN = StoredTable(np.array([0.1, -3.0, 0.0, 1e-100, 1e9]), FLOAT64)

_LONG = QueryKey(Positions.contiguous(800, 2), Positions.contiguous(0, 1000))
_LAST = QueryKey(Positions.contiguous(2**61, 1), Positions.contiguous(2**61 - 40, 41))


def tables() -> Iterator[tuple[str, Table]]:
    """Give biases of every form, of near and far distances, every head in turn."""
    for place, pairs in PAIRS.items():
        yield from _of_pairs(place, pairs, "float64")
    for dtype in REAL_DTYPES:
        yield from _of_pairs("long", _LONG, dtype)
        yield from _of_keys(dtype)
        yield from _alibi("the last query", {**pair_parameters(_LAST), "dtype": dtype})
        yield from _coordinates(dtype)


def _of_pairs(place: str, pairs: QueryKey, dtype: str) -> Iterator[tuple[str, Table]]:
    common = {**pair_parameters(pairs), "dtype": dtype}
    yield from _alibi(place, common)
    yield from _kerple(place, common)
    yield from _sandwich(place, common)
    yield from _fire(place, common)


def _alibi(place: str, common: dict[str, Any]) -> Iterator[tuple[str, Table]]:
    for is_symmetric in (False, True):
        for is_masked in (False, True):
            shape = {"form": "symmetric" if is_symmetric else "linear", "masked": is_masked}
            form = f"symmetric {is_symmetric}, masked {is_masked}"
            for name, rule in _RULES.items():
                values = {**rule, **shape, **common, "total_heads": 13}
                yield from of_family(f"{place}, {name}, {form}", Alibi.model_validate(values))
            given = AlibiBias.model_validate({**shape, **common, "total_heads": 6})
            yield from of_document(f"{place}, given, {form}", given.document({"slopes": _GIVEN}))


def _of_keys(dtype: str) -> Iterator[tuple[str, Table]]:
    mask = np.array([[0, 0, 1, 1, 1, 0, 1], [1, 1, 1, 1, 1, 1, 1]])
    arrays = {"attention_mask": StoredTable(mask, INT64)}
    for name, rule in _RULES.items():
        yield from of_family(name, AlibiSlopes.model_validate({**rule, "dtype": dtype}))
        masked = AlibiBias.model_validate({**rule, "dtype": dtype})
        yield from of_document(f"{name}, keys of a mask", masked.document(arrays))
    given = AlibiBias.model_validate({"dtype": dtype})
    yield from of_document("given, keys of a mask", given.document({**arrays, "slopes": _GIVEN}))


def _kerple(place: str, common: dict[str, Any]) -> Iterator[tuple[str, Table]]:
    a, p = np.array([1.0, 0.3, 1e-9, 0.01, 1e9]), np.array([2.0, 0.01, 1.0, 0.5, 1.3])
    every = {
        "log": {"a": a, "p": p},
        "power": {"a": a, "p": p},
        "nemo": {"a": a, "p": p * 3},
        "nemo of b below 0": {"a": a, "p": p, "b": -a[::-1]},
    }
    for is_causal in (False, True):
        for name, numbers in every.items():
            values = {**common, "convention": name.partition(" ")[0], "causal": is_causal}
            family = Kerple.model_validate(
                values | {key: tuple(each.tolist()) for key, each in numbers.items()}
            )
            yield from of_family(f"{place}, {name}, causal {is_causal}", family)
        numbers = {"a": a, "p": p, "b": a[::-1].copy()}
        arrays = {name: StoredTable(values, FLOAT64) for name, values in numbers.items()}
        learned = KerpleBias.model_validate({**common, "convention": "nemo", "causal": is_causal})
        document = learned.document(arrays)
        yield from of_document(f"{place}, nemo of b, causal {is_causal}", document)


def _sandwich(place: str, common: dict[str, Any]) -> Iterator[tuple[str, Table]]:
    for head_dim, base, is_causal in ((64, 10000.0, True), (46, 500.0, False), (6, 1e100, False)):
        parameters = {"num_heads": 3, "head_dim": head_dim, "base": base, "causal": is_causal}
        family = Sandwich.model_validate({**parameters, **common})
        yield from of_family(f"{place}, {head_dim} channels, causal {is_causal}", family)


def _fire(place: str, common: dict[str, Any]) -> Iterator[tuple[str, Table]]:
    for c, threshold, eps in ((0.1, 512.0, 1e-6), (3.7, 17.25, 0.0), (1e-9, 0.0, 1e-6)):
        values = {"c": c, "threshold": threshold, "eps": eps, **common}
        yield from of_family(f"{place}, c {c}", Fire.model_validate(values))


def _coordinates(dtype: str) -> Iterator[tuple[str, Table]]:
    for window, normalized_by in (((8, 8), (8, 8)), ((7, 5), (12, 9)), ((7, 5), None)):
        family = SwinV2(
            window_size=window,
            pretrained_window_size=normalized_by,
            mode="cr" if normalized_by is None else "swin",
        )
        table = SwinV2.like(family, dtype=dtype).table()
        yield from named(family.kind(), f"{window} by {normalized_by}", {family.array: table})
    for is_log in (False, True):
        values = {"seq_len": 3000, "log_distance": is_log, "dtype": dtype}
        yield from of_family(
            f"3000 keys, logarithms {is_log}", DynamicDistances.model_validate(values)
        )
