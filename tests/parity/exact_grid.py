"""Independent evaluation of sin-cos tables of grids."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import mpmath
import numpy as np

from tests.exact import UNIT, frequency
from tests.parity.backend import Query
from tests.parity.golden import Array, Arrays
from tests.parity.truth import Truth, truths

mpf = mpmath.mpf

# The values of a token's channels from its index along each axis.
Row: TypeAlias = Callable[[Sequence[int]], list[Truth]]

_SINE = 4 * UNIT
_BASE = 10000.0


def grid(query: Query) -> Arrays:
    """Evaluate ``/encoding/grid``."""
    lengths = [query[axis] for axis in ("depth", "height", "width") if axis in query]
    name = query["convention"]
    rows = [_ROWS[name](query, lengths, token) for token in np.ndindex(*lengths)]
    zeros = query.get("extra_tokens", 1 if query.get("cls_token") else 0)
    rows = [[Truth(mpf(0), 0.0)] * len(rows[0])] * zeros + rows
    if query.get("reverse_coord"):
        height, width = lengths
        rows = [rows[h * width + w] for w, h in product(range(width), range(height))]
    whole = {"detr": 2, "deformable-detr": 2, "positional-encodings": 3, "tensor2tensor": 3}
    leading = whole.get(name, 0)
    leading = 1 if name == "diffusers" and len(lengths) == 3 else leading
    rest = [] if lengths[leading:] == [] else [-1]
    flat = [truth for row in rows for truth in row]
    table = truths(flat, *lengths[:leading], *rest, len(rows[0]))
    if query.get("channels_first", name in {"detr", "deformable-detr"}):
        table = np.moveaxis(table, -1, 0)
    return {"encoding": table}


def mask(query: Query, arrays: Arrays) -> Arrays:
    """Evaluate ``/encoding/mask``."""
    ((name, sent),) = arrays.items()
    masks = sent.astype(np.int64).reshape(-1, *sent.shape[-2:])
    valid = 1 - masks if name == "padding_mask" else masks
    return {"encoding": np.stack([_of_mask(query, one) for one in valid])}


def _of_mask(query: Query, valid: Array) -> Array:
    planes: list[Any] = []
    for down in (True, False):
        lines = valid.T if down else valid
        counted = [[sum(line[: i + 1]) for i in range(len(line))] for line in lines.tolist()]
        rows = [[_detr_halves(query, place, line[-1]) for place in line] for line in counted]
        plane = truths([t for row in rows for cell in row for t in cell], *lines.shape, -1)
        planes.append(np.moveaxis(plane.swapaxes(0, 1) if down else plane, -1, 0))
    return np.concatenate(planes)


def _detr_halves(query: Query, position: float, last: int) -> list[Truth]:
    half = query["d_model"] // 2
    place = mpf(float(position))
    if query.get("normalize"):
        scale = query.get("scale")
        turn = 2 * mpmath.pi if scale is None else mpf(scale)
        place = place / (int(last) + mpf(10) ** -6) * turn
    angles = [place * frequency(query.get("base", _BASE), half, i // 2) for i in range(half)]
    return [_of(mpmath.cos if i % 2 else mpmath.sin, angle) for i, angle in enumerate(angles)]


def _of(function: Callable[[Any], Any], angle: Any) -> Truth:
    return Truth(function(angle), _SINE)


def _apart(angles: Sequence[Any]) -> list[Truth]:
    """Return the sines, then the cosines."""
    return [_of(function, angle) for function in (mpmath.sin, mpmath.cos) for angle in angles]


def _series(query: Query, count: int) -> list[Any]:
    return [frequency(query.get("base", _BASE), 2 * count, k) for k in range(count)]


def _times(place: Any, rates: Sequence[Any]) -> list[Any]:
    return [place * rate for rate in rates]


def _mae(query: Query, lengths: Sequence[int], token: Sequence[int]) -> list[Truth]:  # noqa: ARG001
    rates = _series(query, query["d_model"] // 4)
    height, width = token
    return _apart(_times(width, rates)) + _apart(_times(height, rates))


def _timm(query: Query, lengths: Sequence[int], token: Sequence[int]) -> list[Truth]:  # noqa: ARG001
    rates = _series(query, query["d_model"] // 4)
    order = token[::-1] if query.get("reverse_coord") else token
    blocks = [_times(place, rates) for place in order]
    if query.get("interleave_sin_cos"):
        return _apart(blocks[0]) + _apart(blocks[1])
    return _apart([*blocks[0], *blocks[1]])


def _detr(query: Query, lengths: Sequence[int], token: Sequence[int]) -> list[Truth]:
    halves = [_detr_halves(query, i + 1, n) for i, n in zip(token, lengths, strict=True)]
    return halves[0] + halves[1]


def _deformable_detr(query: Query, lengths: Sequence[int], token: Sequence[int]) -> list[Truth]:
    pairs = zip(token, lengths, strict=True)
    halves = [_detr_halves({**query, "normalize": True}, i + 0.5, n) for i, n in pairs]
    return halves[0] + halves[1]


def _diffusers(query: Query, lengths: Sequence[int], token: Sequence[int]) -> list[Truth]:
    if len(token) == 3:
        return _video(query, token)
    rates = _series(query, query["d_model"] // 4)
    scale, size = mpf(query.get("interpolation_scale", 1)), mpf(query.get("base_size", 16))
    height, width = (i / (n / size) / scale for i, n in zip(token, lengths, strict=True))
    return _apart(_times(width, rates)) + _apart(_times(height, rates))


def _video(query: Query, token: Sequence[int]) -> list[Truth]:
    spatial = _series(query, 3 * query["d_model"] // 16)
    space, time = (
        mpf(query.get(f"{name}_interpolation_scale", 1)) for name in ("spatial", "temporal")
    )
    depth, height, width = token
    return (
        _apart(_times(depth / time, _series(query, query["d_model"] // 8)))
        + _apart(_times(width / space, spatial))
        + _apart(_times(height / space, spatial))
    )


def _positional_encodings(
    query: Query,
    lengths: Sequence[int],  # noqa: ARG001
    token: Sequence[int],
) -> list[Truth]:
    each = 2 * -(-query["d_model"] // (2 * len(token)))
    row = []
    for place in token:
        for angle in _times(place, _series(query, each // 2)):
            row += [_of(mpmath.sin, angle), _of(mpmath.cos, angle)]
    return row[: query["d_model"]]


def _tensor2tensor(
    query: Query,
    lengths: Sequence[int],  # noqa: ARG001
    token: Sequence[int],
) -> list[Truth]:
    count = query["d_model"] // (2 * len(token))
    low, high = mpf(query.get("min_timescale", 1)), mpf(query.get("max_timescale", 10000))
    rates = [low * (high / low) ** (mpf(-k) / (count - 1)) for k in range(count)]
    row = [truth for place in token for truth in _apart(_times(place, rates))]
    return row + [Truth(mpf(0), 0.0)] * (query["d_model"] - len(row))


def _perceiver(query: Query, lengths: Sequence[int], token: Sequence[int]) -> list[Truth]:
    places = [
        mpf(-1) if n == 1 else mpf(2 * i) / (n - 1) - 1 for i, n in zip(token, lengths, strict=True)
    ]
    bands, tops = query["num_bands"], query["max_resolution"]
    angles = [
        mpmath.pi * place * (1 + k * (mpf(top) / 2 - 1) / max(bands - 1, 1))
        for place, top in zip(places, tops, strict=True)
        for k in range(bands)
    ]
    turned = _apart(angles)[: len(angles) if query.get("sine_only") else None]
    if not query.get("concat_pos", True):
        return turned
    return [Truth(place, UNIT * abs(float(place))) for place in places] + turned


_ROWS: Mapping[str, Callable[[Query, Sequence[int], Sequence[int]], list[Truth]]] = {
    "mae": _mae,
    "timm": _timm,
    "detr": _detr,
    "deformable-detr": _deformable_detr,
    "diffusers": _diffusers,
    "positional-encodings": _positional_encodings,
    "tensor2tensor": _tensor2tensor,
    "perceiver": _perceiver,
}
