"""Independent evaluation of sinusoids along one axis, and of features of numbers and boxes."""

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

import mpmath
import numpy as np

from tests.exact import UNIT
from tests.parity.backend import Query
from tests.parity.golden import Array, Arrays
from tests.parity.truth import Truth, truths

_ROW_BOUND = 6 * UNIT
_ENDS = {"tensor2tensor", "fairseq", "m2m100", "xglm", "whisper"}
_INTERLEAVED = {"keras", "xlm", "positional-encodings"}


def encoding(query: Query) -> Arrays:
    """Evaluate ``GET /encoding`` for the mapped conventions."""
    rows = [_sinusoid_row(query, position) for position in _positions(query)]
    flat = [number for row in rows for number in row]
    return {"encoding": truths(flat, len(rows), len(rows[0]))}


def tokens(query: Query, arrays: Arrays) -> Arrays:
    """Evaluate ``POST /encoding/tokens``."""
    rows = _rows_used(query, arrays)
    flat = [number for row in rows.reshape(-1).tolist() for number in _sinusoid_row(query, row)]
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


def _sinusoid_row(query: Query, position: Any) -> list[Truth]:
    name, width = query["convention"], query["d_model"]
    if position == query.get("padding_idx"):
        return [Truth(0, 0)] * width
    angles = [position * rate for rate in _sinusoid_rates(query)]
    sines = [Truth(mpmath.sin(angle), _ROW_BOUND) for angle in angles]
    cosines = [Truth(mpmath.cos(angle), _ROW_BOUND) for angle in angles]
    if name in _INTERLEAVED:
        return [each for pair in zip(sines, cosines, strict=True) for each in pair][:width]
    halves = (cosines, sines) if query.get("flip_sin_to_cos") else (sines, cosines)
    row = [*halves[0], *halves[1]]
    if name == "marian":
        return row[:width]
    return [*row, *[Truth(0, 0)] * (width - len(row))]


def _sinusoid_rates(query: Query) -> Iterator[Any]:
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


_BOUND = 4 * UNIT

mpf = mpmath.mpf


def transformer_xl(query: Query) -> Arrays:
    distances = range(query["key_len"] - 1, -1, -1)
    rows = [_halves(_clamped(d, query), _rates(query)) for d in distances]
    return {"transformer_xl": _table(rows)}


def xlnet(query: Query) -> Arrays:
    last = -query["query_len"] if query["attn_type"] == "bi" else -1
    positions = [_clamped(p, query) for p in range(query["key_len"], last, -1)]
    if not query["bi_data"]:
        return {"xlnet": _table([_halves(p, _rates(query)) for p in positions])}
    both = [[_halves(sign * p, _rates(query)) for sign in (1, -1)] for p in positions]
    flat = [value for pair in both for row in pair for value in row]
    return {"xlnet": truths(flat, len(both), 2, len(both[0][0]))}


def conformer(query: Query) -> Arrays:
    positions = range(query["seq_len"] - 1, -query["seq_len"], -1)
    return {"conformer": _table([_sines_and_cosines(p, _rates(query)) for p in positions])}


def _rates(query: Query) -> list[Any]:
    d_model, base = query["d_model"], mpf(query.get("base", 10000))
    return [base ** (mpf(-channel) / d_model) for channel in range(0, d_model, 2)]


def _clamped(position: int, query: Query) -> int:
    limit = query.get("clamp_len", -1)
    return max(-limit, min(position, limit)) if limit > 0 else position


def _halves(position: Any, rates: Iterable[Any], *, is_flipped: bool = False) -> list[Truth]:
    pairs = _sines_and_cosines(position, rates)
    return pairs[1::2] + pairs[::2] if is_flipped else pairs[::2] + pairs[1::2]


def _sines_and_cosines(position: Any, rates: Iterable[Any]) -> list[Truth]:
    return [
        Truth(component(position * rate), _BOUND)
        for rate in rates
        for component in (mpmath.sin, mpmath.cos)
    ]


def _table(rows: Sequence[Sequence[Truth]]) -> Any:
    return truths([value for row in rows for value in row], len(rows), len(rows[0]))


def timesteps(query: Query) -> Arrays:
    d_model, shift = query["d_model"], mpf(query["downscale_freq_shift"])
    count, period = d_model // 2, mpf(query["max_period"])
    rates = [mpmath.exp(-mpmath.log(period) * k / (count - shift)) for k in range(count)]
    flipped, scale = query["flip_sin_to_cos"], mpf(query["scale"])
    last = [Truth(mpf(0), 0.0)] * (d_model % 2)
    rows = [_halves(scale * mpf(t), rates, is_flipped=flipped) + last for t in query["timesteps"]]
    return {"timesteps": _table(rows)}


def fourier(query: Query, arrays: Arrays) -> Arrays:
    numbers = [mpf(float(number)) for number in arrays["x"]]
    if query["log"]:
        numbers = [mpmath.log(number) for number in numbers]
    rates = [2 * mpmath.pi * mpf(float(weight)) for weight in arrays["weight"]]
    rows = [_halves(x, rates, is_flipped=query["flip_sin_to_cos"]) for x in numbers]
    return {"fourier": _table(rows)}


def boxes(query: Query, arrays: Arrays) -> Arrays:
    """Return for each frequency the sines of x0, y0, x1, y1, then their cosines."""
    count, sent = query["embed_dim"], arrays["boxes"]
    base = mpf(query.get("temperature", 100))
    values = [
        Truth(component(base ** (mpf(k) / count) * mpf(float(coordinate))), _BOUND)
        for box in sent.reshape(-1, 4)
        for k in range(count)
        for component in (mpmath.sin, mpmath.cos)
        for coordinate in box
    ]
    return {"boxes": truths(values, *sent.shape[:-1], 8 * count)}


def shift(query: Query, arrays: Arrays) -> Arrays:
    """Evaluate the relative shift by the index of each element in the padded or plain array."""
    x = arrays["x"]
    queries, columns = x.shape[:2]
    is_padded = query.get("convention", "transformer-xl") == "transformer-xl"
    kept = columns if is_padded else query.get("key_len", columns - 1)
    width = columns + 1 if is_padded else columns
    values: list[Any] = []
    for i, j in np.ndindex(queries, kept):
        row, column = divmod(i * (width - 1) + j + queries, width)
        is_hidden = query.get("zero_triu", False) and j > i + columns - queries
        if is_hidden or (is_padded and column == 0):
            values += [0.0] * prod(x.shape[2:])
        else:
            values += x[row, column - is_padded].reshape(-1).tolist()
    return {"shift": truths([Truth(v, 0.0) for v in values], queries, kept, *x.shape[2:])}
