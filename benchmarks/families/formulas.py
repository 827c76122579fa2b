"""What a user writes with NumPy for the tables of each family, in float64."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from benchmarks.families.requests import Arrays, Request

Array: TypeAlias = NDArray[Any]
Formula: TypeAlias = "Callable[[Any, Arrays], Sequence[Array | Waves]]"
"""Computes the tables of parameters and arrays, in the order of the answer."""

_BASE = 10000.0

TYPES: Mapping[str, Any] = {
    **{name: np.dtype(name) for name in ("float64", "float32", "float16", "int32", "int64")},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}


def _frequencies(width: int, base: float = _BASE) -> Array:
    return base ** (-np.arange(0, width, 2) / width)


def _angles(positions: Array, width: int) -> Array:
    return np.outer(positions, _frequencies(width))


@dataclass(frozen=True)
class Waves:
    """The sines and cosines of angles (…, n), each written once into rows (…, 2n) of a type."""

    angles: Array
    is_interleaved: bool
    is_cosine_first: bool = False

    def astype(self, dtype: Any) -> Array:
        count = self.angles.shape[-1]
        rows = np.empty((*self.angles.shape[:-1], 2 * count), dtype)
        columns = [slice(0, count), slice(count, None)]
        if self.is_interleaved:
            columns = [slice(0, None, 2), slice(1, None, 2)]
        sines, cosines = reversed(columns) if self.is_cosine_first else columns
        rows[..., sines] = np.sin(self.angles)
        rows[..., cosines] = np.cos(self.angles)
        return rows.reshape(*self.angles.shape, 2) if self.is_cosine_first else rows


def _interleaved(angles: Array) -> Waves:
    return Waves(angles, is_interleaved=True)


def _concatenated(angles: Array) -> Waves:
    return Waves(angles, is_interleaved=False)


def _pairs(angles: Array) -> Waves:
    """Return (…, n, 2), cosine and sine."""
    return Waves(angles, is_interleaved=True, is_cosine_first=True)


def _rows(p: Any) -> Array:
    """Return the positions of rows."""
    if p.positions is not None:
        return np.asarray(p.positions.at(0, p.positions.count))
    return (p.start or 0) + np.arange(p.seq_len)


def _encoding(p: Any, _: Arrays) -> list[Waves]:
    return [_interleaved(_angles(_rows(p), p.d_model))]


def _curves(p: Any, _: Arrays) -> list[Array]:
    dimensions = p.dimensions.at(0, p.dimensions.count)
    angles = np.outer(_rows(p), _frequencies(p.d_model)[dimensions // 2])
    return [np.sin(angles + dimensions % 2 * np.pi / 2)]


def _temperature(p: Any, _: Arrays) -> list[Array]:
    return [1 + 0.1 * np.log1p(np.floor((_rows(p) + 1) / 8192))]


def _apply(p: Any, arrays: Arrays) -> list[Array]:
    x = arrays["x"]
    rows = _interleaved(_angles(p.start + np.arange(len(x)), x.shape[1]))
    return [x + rows.astype(x.dtype)]


def _boxes(p: Any, arrays: Arrays) -> list[Array]:
    boxes = arrays["boxes"]
    factors = 100.0 ** (np.arange(p.embed_dim) / p.embed_dim)
    angles = factors[:, None] * boxes[..., None, :]
    return [np.stack([np.sin(angles), np.cos(angles)], axis=-2).reshape(len(boxes), -1)]


def _fourier(_p: Any, arrays: Arrays) -> list[Waves]:
    return [_concatenated(2 * np.pi * np.outer(np.log(arrays["x"]), arrays["weight"]))]


def _wavelengths(frequencies: Array) -> list[Array]:
    return [frequencies, 2 * np.pi / frequencies]


def _grid(p: Any, _: Arrays) -> list[Array]:
    y, x = np.meshgrid(np.arange(p.height), np.arange(p.width), indexing="ij")
    half = p.d_model // 2
    axes = [_concatenated(_angles(axis.reshape(-1), half)).astype(float) for axis in (x, y)]
    return [np.concatenate(axes, axis=1)]


def _mask(p: Any, arrays: Arrays) -> list[Array]:
    valid = arrays["padding_mask"] == 0
    half = p.d_model // 2
    parts = []
    for axis in (1, 2):
        counts = np.cumsum(valid, axis=axis, dtype=np.float64)
        last = np.take(counts, [-1], axis=axis)
        angles = (counts / (last + 1e-6) * 2 * np.pi)[..., None] * _frequencies(half)
        parts.append(_interleaved(angles).astype(float))
    return [np.concatenate(parts, axis=-1).transpose(0, 3, 1, 2)]


def _timesteps(p: Any, _: Arrays) -> list[Waves]:
    return [_concatenated(_angles(np.array(p.timesteps), p.d_model))]


def _tokens(p: Any, arrays: Arrays) -> list[Array]:
    ids, half = arrays["input_ids"], p.d_model // 2
    is_token = ids != 1
    rows = np.cumsum(is_token, axis=1) * is_token + 1
    frequencies = _BASE ** (-np.arange(half) / (half - 1))
    table = _concatenated(np.outer(np.arange(rows.max() + 1), frequencies))
    return [table.astype(float)[rows], rows]


def _positions(_p: Any, arrays: Arrays) -> list[Array]:
    ids = arrays["input_ids"]
    counted = np.broadcast_to(np.arange(ids.shape[1]), (3, *ids.shape)).copy()
    return [counted, np.zeros((len(ids), 1), dtype=np.int64), np.ones_like(ids)]


def _operator(p: Any, _: Arrays) -> list[Array]:
    offsets = p.offsets.at(0, p.offsets.count)
    angles = _angles(offsets, p.d_model)
    sin, cos = np.sin(angles), np.cos(angles)
    even = np.arange(0, p.d_model, 2)
    result = np.zeros((len(offsets), p.d_model, p.d_model))
    result[:, even, even] = result[:, even + 1, even + 1] = cos
    result[:, even, even + 1], result[:, even + 1, even] = sin, -sin
    return [result]


def _distances(queries: int, keys: int) -> Array:
    """Return key − query."""
    return np.arange(keys) - np.arange(queries)[:, None]


def _alibi(p: Any, _: Arrays) -> list[Array]:
    slopes = 2.0 ** (-8 * np.arange(1, p.num_heads + 1) / p.num_heads)
    slopes = slopes if p.head is None else slopes[p.head]
    keys = p.key_len or p.query_len
    return [np.multiply.outer(slopes, _distances(p.query_len, keys))]


def _alibi_of_mask(p: Any, arrays: Arrays) -> list[Array]:
    mask = arrays["attention_mask"]
    slope = 2.0 ** (-8 * (p.head + 1) / p.num_heads)
    return [(slope * ((np.cumsum(mask, axis=-1) - 1) * mask))[:, None, :]]


def _slopes(p: Any, _: Arrays) -> list[Array]:
    return [2.0 ** (-8 * np.arange(1, p.num_heads + 1) / p.num_heads)]


def _conformer(p: Any, _: Arrays) -> list[Waves]:
    return [_interleaved(_angles(np.arange(p.seq_len - 1, -p.seq_len, -1), p.d_model))]


def _deberta(p: Any, _: Arrays) -> list[Array]:
    distance, mid = -_distances(p.query_len, p.key_len), p.bucket_size // 2
    size = np.where(np.abs(distance) <= mid, mid - 1, np.abs(distance))
    log = np.ceil(np.log(size / mid) / np.log((p.max_position - 1) / mid) * (mid - 1)) + mid
    near = np.abs(distance) <= mid
    return [np.where(near, distance, np.sign(distance) * log).astype(np.int64)]


def _dynamic(p: Any, _: Arrays) -> list[Array]:
    distance = np.arange(1.0 - p.seq_len, p.seq_len)
    return [(np.sign(distance) * np.log1p(np.abs(distance)))[:, None]]


def _fire(p: Any, _: Arrays) -> list[Array]:
    distance = np.abs(_distances(p.query_len, p.query_len))
    longest = np.maximum(p.threshold, np.arange(p.query_len))[:, None]
    return [np.log1p(p.c * distance) / (np.log1p(p.c * longest) + p.eps)]


def _kerple(p: Any, _: Arrays) -> list[Array]:
    distance = np.maximum(-_distances(p.query_len, p.query_len), 0)
    return [-p.p[0] * np.log1p(p.a[0] * distance)]


def _nemo(p: Any, arrays: Arrays) -> list[Array]:
    a = arrays["a"]
    slopes = 2.0 ** (-8 * np.arange(1, len(a) + 1) / len(a))
    distance = np.maximum(-_distances(p.query_len, p.key_len), 0)
    return [-slopes[p.head] * np.log1p(a[p.head] * distance)]


def _sandwich(p: Any, _: Arrays) -> list[Array]:
    half = p.head_dim // 2
    frequencies = _BASE ** (-2 * np.arange(1, half + 1) / p.head_dim)
    distance = np.maximum(-_distances(p.query_len, p.query_len), 0)
    sums = np.cos(np.outer(np.arange(p.query_len), frequencies)).sum(axis=1) - half
    heads = 8 * np.arange(1, p.num_heads + 1) / p.num_heads
    return [sums[distance] / heads[:, None, None]]


def _shaw(p: Any, _: Arrays) -> list[Array]:
    most = p.max_relative_position
    return [np.clip(_distances(p.query_len, p.key_len), -most, most) + most]


def _shaw_embeddings(p: Any, arrays: Arrays) -> list[Array]:
    weight = arrays["weight"]
    most = len(weight) // 2
    return [weight[np.clip(_distances(p.query_len, p.key_len), -most, most) + most]]


def _similarity(p: Any, _: Arrays) -> list[Array]:
    offsets = p.offsets.at(0, p.offsets.count)
    return [np.cos(_angles(offsets, p.d_model)).sum(axis=1)]


def _window_index(height: int, width: int) -> Array:
    y, x = np.divmod(np.arange(height * width), width)
    down = y[:, None] - y[None, :] + height - 1
    right = x[:, None] - x[None, :] + width - 1
    return np.asarray(down * (2 * width - 1) + right)


def _swin(p: Any, _: Arrays) -> list[Array]:
    return [_window_index(*p.window_size)]


def _swin_bias(p: Any, arrays: Arrays) -> list[Array]:
    return [arrays["weight"][:, p.head][_window_index(*p.window_size)]]


def _swin_v2(p: Any, _: Arrays) -> list[Array]:
    sides = []
    for side in p.window_size:
        distance = 8 * np.arange(1.0 - side, side) / (side - 1)
        sides.append(np.sign(distance) * np.log2(1 + np.abs(distance)) / np.log2(8))
    return [np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1)]


def _t5_buckets(p: Any) -> Array:
    count = p.num_buckets // 2 if p.bidirectional else p.num_buckets
    exact, distance = count // 2, _distances(p.query_len, p.key_len)
    size = np.abs(distance) if p.bidirectional else np.maximum(-distance, 0)
    log = np.log(np.maximum(size, 1) / exact) / np.log(p.max_distance / exact)
    far = np.minimum(exact + (log * (count - exact)).astype(np.int64), count - 1)
    bucket = np.where(size < exact, size, far)
    return np.asarray(bucket + count * (distance > 0) if p.bidirectional else bucket)


def _t5(p: Any, _: Arrays) -> list[Array]:
    return [_t5_buckets(p)]


def _t5_bias(p: Any, arrays: Arrays) -> list[Array]:
    weight = arrays["weight"]
    of_weight = p.model_copy(update={"num_buckets": len(weight)})
    return [weight[:, p.head][_t5_buckets(of_weight)]]


def _transformer_xl(p: Any, _: Arrays) -> list[Waves]:
    return [_concatenated(_angles(np.arange(p.key_len - 1, -1, -1), p.d_model))]


def _shift(_p: Any, arrays: Arrays) -> list[Array]:
    x = arrays["x"]
    queries, columns = x.shape
    padded = np.concatenate([np.zeros((queries, 1)), x], axis=1)
    return [padded.reshape(columns + 1, queries)[1:].reshape(queries, columns)]


def _xlnet(p: Any, _: Arrays) -> list[Waves]:
    return [_concatenated(_angles(np.arange(p.key_len, -p.query_len, -1), p.d_model))]


def _taps(old: int, new: int) -> tuple[Array, Array]:
    places = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    low = np.floor(places).astype(np.int64)
    taps, weight = np.stack([low, low + 1], axis=1), places - low
    return np.clip(taps, 0, old - 1), np.stack([1 - weight, weight], axis=1)


def _resize(p: Any, _: Arrays) -> list[Array]:
    return [_taps(p.old_size[0], p.size[0])[1]]


def _resized(p: Any, arrays: Arrays) -> list[Array]:
    x = arrays["x"]
    taps, weights = _taps(len(x), p.size[0])
    return [x[taps[:, 0]] * weights[:, :1] + x[taps[:, 1]] * weights[:, 1:]]


def _rope(p: Any, _: Arrays) -> list[Waves]:
    return [_pairs(_angles(_rows(p), p.head_dim))]


def _rotated(x: Array, angles: Array) -> Array:
    """Rotate pairs of adjacent channels."""
    cos, sin = np.cos(angles), np.sin(angles)
    even, odd = x[:, 0::2], x[:, 1::2]
    return np.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1).reshape(x.shape)


def _rope_apply(p: Any, arrays: Arrays) -> list[Array]:
    x = arrays["x"]
    return [_rotated(x, _angles(p.start + np.arange(len(x)), x.shape[1]))]


def _qwen2_vl_angles(grid: tuple[int, int], width: int) -> Array:
    """Return the angles of patches, first those of rows, then those of columns."""
    axes = np.meshgrid(*map(np.arange, grid), indexing="ij")
    return np.concatenate([_angles(axis.reshape(-1), width // 2) for axis in axes], axis=1)


def _axial(p: Any, _: Arrays) -> list[Waves]:
    return [_pairs(_qwen2_vl_angles(p.grid, p.head_dim))]


def _axial_apply(p: Any, arrays: Arrays) -> list[Array]:
    x = arrays["x"]
    angles = _qwen2_vl_angles(p.grid, x.shape[1])
    cos, sin = (np.tile(half, 2) for half in (np.cos(angles), np.sin(angles)))
    first, second = np.split(x, 2, axis=1)
    return [x * cos + np.concatenate([-second, first], axis=1) * sin]


def _axial_frequencies(p: Any, _: Arrays) -> list[Array]:
    frequencies = np.tile(_frequencies(p.head_dim // 2), 2)
    return [*_wavelengths(frequencies), np.repeat([0, 1], len(frequencies) // 2)]


def _permutation(p: Any, _: Arrays) -> list[Array]:
    heads = np.arange(p.num_attention_heads * p.head_dim).reshape(-1, p.head_dim // 2, 2)
    return [heads.transpose(0, 2, 1).reshape(-1)]


FORMULAS: Mapping[str, Formula] = {
    "/attention/temperature": _temperature,
    "/encoding": _encoding,
    "/encoding/apply": _apply,
    "/encoding/boxes": _boxes,
    "/encoding/curves": _curves,
    "/encoding/fourier": _fourier,
    "/encoding/frequencies": lambda p, _: _wavelengths(_frequencies(p.d_model)),
    "/encoding/grid": _grid,
    "/encoding/mask": _mask,
    "/encoding/timesteps": _timesteps,
    "/encoding/tokens": _tokens,
    "/positions": _positions,
    "/relative": _operator,
    "/relative/alibi": _alibi,
    "/relative/alibi/bias": _alibi_of_mask,
    "/relative/alibi/slopes": _slopes,
    "/relative/conformer": _conformer,
    "/relative/deberta": _deberta,
    "/relative/dynamic": _dynamic,
    "/relative/fire": _fire,
    "/relative/kerple": _kerple,
    "/relative/kerple/bias": _nemo,
    "/relative/sandwich": _sandwich,
    "/relative/shaw": _shaw,
    "/relative/shaw/embeddings": _shaw_embeddings,
    "/relative/similarity": _similarity,
    "/relative/swin": _swin,
    "/relative/swin-v2": _swin_v2,
    "/relative/swin/bias": _swin_bias,
    "/relative/t5": _t5,
    "/relative/t5/bias": _t5_bias,
    "/relative/transformer-xl": _transformer_xl,
    "/relative/transformer-xl/shift": _shift,
    "/relative/xlnet": _xlnet,
    "/resize": _resize,
    "/resize/apply": _resized,
    "/rope": _rope,
    "/rope/apply": _rope_apply,
    "/rope/axial": _axial,
    "/rope/axial/apply": _axial_apply,
    "/rope/axial/frequencies": _axial_frequencies,
    "/rope/frequencies": lambda p, _: [*_wavelengths(_frequencies(p.head_dim)), np.array(1.0)],
    "/rope/permutation": _permutation,
}
"""The formula of the tables of ``request_of``, by the path of the family."""


def evaluate(request: Request, dtype: str) -> list[Array]:
    """Compute the tables of a request in float64, and convert real ones to an element type."""
    parameters = request.parameters()
    results = FORMULAS[request.path](parameters, request.arrays)
    return [_converted(result, dtype) for result in results]


def _converted(result: "Array | Waves", dtype: str) -> Array:
    if isinstance(result, Waves):
        return result.astype(TYPES[dtype])
    is_index = result.dtype.kind == "i"
    if not dtype or is_index != dtype.startswith("int"):
        return result
    return result.astype(TYPES[dtype])
