"""Independent evaluation of sinusoids along one axis."""

from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np

from tests.exact import UNIT
from tests.parity.backend import Query
from tests.parity.golden import Array, Arrays
from tests.parity.truth import Truth, truths

_BOUND = 6 * UNIT
_ENDS = {"tensor2tensor", "fairseq", "m2m100", "xglm", "whisper"}
_INTERLEAVED = {"keras", "xlm", "positional-encodings"}


def encoding(query: Query) -> Arrays:
    """Evaluate ``GET /encoding`` for the mapped conventions."""
    rows = [_row(query, position) for position in _positions(query)]
    flat = [number for row in rows for number in row]
    return {"encoding": truths(flat, len(rows), len(rows[0]))}


def tokens(query: Query, arrays: Arrays) -> Arrays:
    """Evaluate ``POST /encoding/tokens``."""
    rows = _rows_used(query, arrays)
    flat = [number for row in rows.reshape(-1).tolist() for number in _row(query, row)]
    whole = [Truth(row, 0) for row in rows.reshape(-1).tolist()]
    return {
        "encoding": truths(flat, *rows.shape, query["d_model"]),
        "position_ids": truths(whole, *rows.shape),
    }


def _rows_used(query: Query, arrays: Arrays) -> Array:
    if "position_ids" in arrays:
        return arrays["position_ids"] + 2
    ids, pad = arrays["input_ids"], query["padding_idx"]
    rows = np.full(ids.shape, pad)
    for row, line in zip(rows, ids.tolist(), strict=True):
        count = query["past"]
        for index, token in enumerate(line):
            if token != pad:
                count += 1
                row[index] = pad + count
    return rows


def _positions(query: Query) -> list[Any]:
    if "positions" in query:
        return [mpmath.mpf(position) for position in query["positions"]]
    start = query.get("start", 0)
    return list(range(start, start + query["seq_len"]))


def _row(query: Query, position: Any) -> list[Truth]:
    name, width = query["convention"], query["d_model"]
    if position == query.get("padding_idx"):
        return [Truth(0, 0)] * width
    angles = [position * rate for rate in _rates(query)]
    sines = [Truth(mpmath.sin(angle), _BOUND) for angle in angles]
    cosines = [Truth(mpmath.cos(angle), _BOUND) for angle in angles]
    if name in _INTERLEAVED:
        return [each for pair in zip(sines, cosines, strict=True) for each in pair][:width]
    halves = (cosines, sines) if query.get("flip_sin_to_cos") else (sines, cosines)
    row = [*halves[0], *halves[1]]
    if name == "marian":
        return row[:width]
    return [*row, *[Truth(0, 0)] * (width - len(row))]


def _rates(query: Query) -> Iterator[Any]:
    name, width = query["convention"], query["d_model"]
    first = mpmath.mpf(query.get("min_timescale", 1))
    longest = mpmath.mpf(query.get("max_timescale", query.get("base", 10000)))
    pairs, steps = -(-width // 2), mpmath.mpf(width) / 2
    if name in _ENDS:
        pairs = width // 2
        steps = mpmath.mpf(max(pairs - 1, 1))
    if name == "positional-encodings":
        steps = mpmath.mpf(pairs)
    for pair in range(pairs):
        yield first * (longest / first) ** (-pair / steps)
