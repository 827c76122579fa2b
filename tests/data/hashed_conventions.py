"""Encodings by convention that are hashed: tables, frequencies, sums, tokens and curves."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from service.encodings.absolute.conventions import CONVENTIONS
from service.encodings.absolute.sinusoidal import (
    SinusoidalEncoding,
    SinusoidalFrequencies,
    SinusoidCurves,
    SinusoidSum,
)
from service.encodings.absolute.tokens import TokenEncoding
from service.numerics.dtypes import INT64, REAL_DTYPES
from service.numerics.positions import Positions, Run
from service.numerics.real_positions import AnyPositions
from service.numerics.tables import StoredTable, Table, size
from tests.data.hashed_samples import (
    fractional,
    named,
    of_document,
    position_parameter,
    pseudo_random,
    special,
)

_AROUND_0 = Positions.contiguous(-40, 110)
_FAR = Positions.of_runs([Run(2**61, 1, 70), Run(-(10**15), -999, 9), Run(5, 0, 2)])
_COUNTED = Positions.contiguous(0, 90)

_BANDS: Mapping[str, Any] = {"max_resolution": 224}

_CHOSEN: Mapping[str, tuple[str, int, Mapping[str, Any]]] = {
    "vaswani concatenated": ("vaswani", 17, {"layout": "concatenated", "base": 37.5}),
    "tensor2tensor timescales": (
        "tensor2tensor",
        17,
        {"min_timescale": 0.3, "max_timescale": 777.0},
    ),
    "tf-models timescales": ("tf-models", 16, {"min_timescale": 3.0, "max_timescale": 1e5}),
    "fairseq offset": ("fairseq", 17, {"offset": 7, "padding_idx": 9}),
    "m2m100 far offset": ("m2m100", 16, {"offset": -(2**61), "padding_idx": 3 - 2**61}),
    "whisper timescale": ("whisper", 16, {"max_timescale": 500.0}),
    "diffusers flipped": ("diffusers", 16, {"flip_sin_to_cos": True}),
    "x-transformers scale": ("x-transformers", 16, {"scale": 0.7}),
    "mlx frequencies": ("mlx", 16, {"min_freq": 0.01, "max_freq": 7.5, "cos_first": True}),
    "mlx full turns": ("mlx", 30, {"full_turns": True, "scale": 3.0}),
    "mlx of one pair": ("mlx", 2, {}),
    "perceiver bare": ("perceiver", 16, {**_BANDS, "concat_pos": False}),
    "perceiver sines": ("perceiver", 16, {**_BANDS, "sine_only": True}),
}


def tables() -> Iterator[tuple[str, Table]]:
    """Give every convention at integers and fractions, its frequencies, sums, tokens, curves."""
    for name, given in _conventions():
        yield from _rows(name, given)
        known = {key: given[key] for key in given if key in SinusoidalFrequencies.model_fields}
        yield from of_document(name, SinusoidalFrequencies.model_validate(known).document())
    yield from _of_dtypes()
    yield from _sums()
    yield from _tokens()
    yield from _curves()


def _conventions() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, convention in CONVENTIONS.items():
        bands = _BANDS if convention.spacing == "bands" else {}
        for d_model in (16, 17):
            if _has(name, d_model):
                yield f"{name} {d_model}", {"convention": name, "d_model": d_model, **bands}
    for label, (name, d_model, given) in _CHOSEN.items():
        yield label, {"convention": name, "d_model": d_model, **given}


def _has(name: str, d_model: int) -> bool:
    convention = CONVENTIONS[name]
    if convention.spacing == "bands":
        return d_model % 2 == 1
    return convention.odd != "refused" or d_model % 2 == 0


def _rows(name: str, given: Mapping[str, Any]) -> Iterator[tuple[str, Table]]:
    every: dict[str, AnyPositions] = {"around 0": _AROUND_0, "far": _FAR}
    if "max_resolution" in given:
        every = {"counted": _COUNTED, "one": Positions.contiguous(0, 1)}
    elif CONVENTIONS[given["convention"]].padding_idx is None:
        every["fractional"] = fractional()
    for place, positions in every.items():
        yield from _encoding(f"{name}, {place}", positions, **given, dtype="float64")


def _encoding(name: str, positions: AnyPositions, **given: Any) -> Iterator[tuple[str, Table]]:
    rows = {"positions": position_parameter(positions)}
    if "max_resolution" in given:
        rows = {"seq_len": positions.count}
    encoding = SinusoidalEncoding.model_validate({**given, **rows, "batch": True})
    yield from of_document(name, encoding.document())


def _of_dtypes() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES:
        for name, d_model in (("m2m100", 130), ("mlx", 130), ("perceiver", 131)):
            given = {"convention": name, "d_model": d_model, "dtype": dtype}
            bands = _BANDS if name == "perceiver" else {}
            yield from _encoding(f"{name} {d_model}", _COUNTED, **given, **bands)
        given = {"convention": "x-transformers", "d_model": 64, "dtype": dtype}
        yield from _encoding("x-transformers 64, fractional", fractional(), **given)


def _sums() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES.values():
        x, odd = pseudo_random((2, 20, 16), dtype), special((20, 16), dtype)
        for name in ("mlx", "m2m100", "tf-models"):
            addition = SinusoidSum(convention=name, start=-9, scale_embeddings=True)
            for part, sent in (("x", x), ("special values", odd)):
                total, _ = addition.apply(sent)
                yield from named("encoding-apply", f"{name} {part}", {"x": total})


def _tokens() -> Iterator[tuple[str, Table]]:
    ids = np.array([[1, 5, 9, 1, 7, 7, 1], [3, 3, 3, 3, 3, 1, 1]])
    positions = np.array([[1, 0, -5, 2**62, -(2**62), 10**9]])
    every: dict[str, tuple[Any, Mapping[str, Any]]] = {
        "input_ids": (ids, {}),
        "far input_ids": (ids, {"past": 2**61 - 3}),
        "position_ids": (positions, {"offset": 0}),
    }
    for place, (elements, given) in every.items():
        for name, dtype in (("fairseq", "float64"), ("m2m100", "float32"), ("m2m100", "float64")):
            encoding = TokenEncoding.model_validate(
                {"convention": name, "d_model": 17, "dtype": dtype, **given}
            )
            arrays = {place.removeprefix("far "): StoredTable(elements, INT64)}
            yield from of_document(f"{name}, {place}, {dtype}", encoding.document(arrays))


def _curves() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES.values():
        given = {"d_model": 20, "dtype": dtype.name}
        # At most 64 positions are shown as curves.
        parts = [
            SinusoidCurves.model_validate({**given, "positions": part}).table()
            for part in ("-40:15", "15:70")
        ]
        rows = np.concatenate([part.read(0, size(part)) for part in parts]).reshape(110, 20)
        yield from named("encoding-curves", "of positions", {"curves": StoredTable(rows, dtype)})
        columns = {"start": -40, "seq_len": 110, "dimensions": "4:8,19,16,13"}
        chosen = SinusoidCurves.model_validate({**given, **columns})
        yield from of_document("of dimensions", chosen.document())
