"""Encodings by convention that are hashed, and what is asked for about them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from service.encodings.absolute import sinusoidal
from service.encodings.absolute.conventions import CONVENTIONS, Recipe, recipe
from service.encodings.absolute.sinusoidal import curves
from service.encodings.absolute.tokens import rows_of_tokens, tokens
from service.numerics.dtypes import FLOAT32, FLOAT64, REAL_DTYPES, DType
from service.numerics.positions import Positions, Run
from service.numerics.real_positions import AnyPositions
from service.numerics.tables import StoredTable, Table
from tests.data.hashed_samples import fractional, named, of_document, pseudo_random, special

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
    for name, made in _recipes():
        yield from _rows(name, made)
        yield from of_document(name, sinusoidal.frequencies(recipe=made))
    yield from _of_dtypes()
    yield from _sums()
    yield from _tokens()
    yield from _curves()


def _recipes() -> Iterator[tuple[str, Recipe]]:
    for name, convention in CONVENTIONS.items():
        given = _BANDS if convention.spacing == "bands" else {}
        for d_model in (16, 17):
            if _has(name, d_model):
                yield f"{name} {d_model}", recipe(name, d_model, given)
    for label, (name, d_model, given) in _CHOSEN.items():
        yield label, recipe(name, d_model, given)


def _has(name: str, d_model: int) -> bool:
    convention = CONVENTIONS[name]
    if convention.spacing == "bands":
        return d_model % 2 == 1
    return convention.odd != "refused" or d_model % 2 == 0


def _rows(name: str, made: Recipe) -> Iterator[tuple[str, Table]]:
    every: dict[str, AnyPositions] = {"around 0": _AROUND_0, "far": _FAR}
    if "max_resolution" in made.of_frequencies:
        every = {"counted": _COUNTED, "one": Positions.contiguous(0, 1)}
    elif made.padding_idx is None:
        every["fractional"] = fractional()
    for place, positions in every.items():
        yield from _encoding(f"{name}, {place}", made, positions, FLOAT64)


def _encoding(
    name: str, made: Recipe, positions: AnyPositions, dtype: DType
) -> Iterator[tuple[str, Table]]:
    document = sinusoidal.encoding(recipe=made, positions=positions, batch=True, dtype=dtype)
    yield from of_document(name, document)


def _of_dtypes() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES.values():
        for name, d_model in (("m2m100", 130), ("mlx", 130), ("perceiver", 131)):
            given = _BANDS if name == "perceiver" else {}
            made = recipe(name, d_model, given)
            yield from _encoding(f"{name} {d_model}", made, _COUNTED, dtype)
        made = recipe("x-transformers", 64, {})
        yield from _encoding("x-transformers 64, fractional", made, fractional(), dtype)


def _sums() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES.values():
        x, odd = pseudo_random((2, 20, 16), dtype), special((20, 16), dtype)
        for name in ("mlx", "m2m100", "tf-models"):
            addition = sinusoidal.Sum(recipe(name, 16, {}), Positions.contiguous(-9, 20), True)
            for part, sent in (("x", x), ("special values", odd)):
                yield from _sum(f"{name} {part}", addition, sent)


def _sum(name: str, addition: sinusoidal.Sum, x: StoredTable) -> Iterator[tuple[str, Table]]:
    yield from named("encoding-apply", name, {"x": addition.of(x)})


def _tokens() -> Iterator[tuple[str, Table]]:
    ids = np.array([[1, 5, 9, 1, 7, 7, 1], [3, 3, 3, 3, 3, 1, 1]])
    every = {
        "input_ids": rows_of_tokens(ids, 1, 0),
        "far input_ids": rows_of_tokens(ids, 1, 2**61 - 3),
        "position_ids": np.array([[1, 0, -5, 2**62, -(2**62), 10**9]]),
    }
    for place, rows in every.items():
        for name, dtype in (("fairseq", FLOAT64), ("m2m100", FLOAT32), ("m2m100", FLOAT64)):
            made = recipe(name, 17, {})
            document = tokens(recipe=made, spelled={}, rows=rows, dtype=dtype)
            yield from of_document(f"{name}, {place}, {dtype.name}", document)


def _curves() -> Iterator[tuple[str, Table]]:
    for dtype in REAL_DTYPES.values():
        document = sinusoidal.encoding(
            recipe=recipe("vaswani", 20, {}), positions=_AROUND_0, batch=False, dtype=dtype
        )
        yield from of_document("of positions", curves(document, None))
        columns = Positions.of_runs([Run(4, 1, 4), Run(19, -3, 3)])
        yield from of_document("of dimensions", curves(document, columns))
