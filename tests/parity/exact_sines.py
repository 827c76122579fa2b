"""Independent evaluation of relative sinusoids, timesteps, Fourier features and boxes."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import mpmath
import numpy as np

from tests.exact import UNIT
from tests.parity.backend import Query
from tests.parity.golden import Arrays
from tests.parity.truth import Truth, truths

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
    return {"conformer": _table([_turns(p, _rates(query)) for p in positions])}


def _rates(query: Query) -> list[Any]:
    d_model, base = query["d_model"], mpf(query.get("base", 10000))
    return [base ** (mpf(-channel) / d_model) for channel in range(0, d_model, 2)]


def _clamped(position: int, query: Query) -> int:
    limit = query.get("clamp_len", -1)
    return max(-limit, min(position, limit)) if limit > 0 else position


def _halves(position: Any, rates: Iterable[Any], *, is_flipped: bool = False) -> list[Truth]:
    turns = _turns(position, rates)
    return turns[1::2] + turns[::2] if is_flipped else turns[::2] + turns[1::2]


def _turns(position: Any, rates: Iterable[Any]) -> list[Truth]:
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
    found = [
        Truth(component(base ** (mpf(k) / count) * mpf(float(coordinate))), _BOUND)
        for box in sent.reshape(-1, 4)
        for k in range(count)
        for component in (mpmath.sin, mpmath.cos)
        for coordinate in box
    ]
    return {"boxes": truths(found, *sent.shape[:-1], 8 * count)}


def shift(query: Query, arrays: Arrays) -> Arrays:
    """Evaluate the relative shift by the index of each element in the padded or plain array."""
    x = arrays["x"]
    queries, columns = x.shape[:2]
    is_padded = query.get("convention", "transformer-xl") == "transformer-xl"
    kept = columns if is_padded else query.get("key_len", columns - 1)
    width = columns + 1 if is_padded else columns
    found: list[Any] = []
    for i, j in np.ndindex(queries, kept):
        row, column = divmod(i * (width - 1) + j + queries, width)
        is_hidden = query.get("zero_triu", False) and j > i + columns - queries
        if is_hidden or (is_padded and column == 0):
            found += [0.0] * prod(x.shape[2:])
        else:
            found += x[row, column - is_padded].reshape(-1).tolist()
    return {"shift": truths([Truth(v, 0.0) for v in found], queries, kept, *x.shape[2:])}
