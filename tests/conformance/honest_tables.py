"""Honest implementations of tables that are not rotary: NumPy in float32, each formula once.

A way is a choice between formulas that are the same but for rounding.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.conformance.questions import Question

Array: TypeAlias = NDArray[Any]
Keys: TypeAlias = Mapping[str, Any]
Rates: TypeAlias = Callable[[float, Array], Array]

F = np.float32


def _power(base: float, exponents: Array) -> Array:
    return np.asarray(F(1) / F(base) ** exponents)


def _exponential(base: float, exponents: Array) -> Array:
    return np.asarray(np.exp(exponents * -np.log(F(base))))


def _exponential_of_two(base: float, exponents: Array) -> Array:
    exponent: Array = -exponents * np.log2(F(base))
    return np.asarray(np.exp2(exponent))


def _rounded_step(base: float, exponents: Array) -> Array:
    """As fairseq does: the logarithm of a step, times the number of steps."""
    count = len(exponents)
    step = exponents[1] if count > 1 else F(0)
    return np.asarray(np.exp(np.arange(count, dtype=F) * -(np.log(F(base)) * step)))


RATES: Mapping[str, Rates] = {
    "power": _power,
    "exp": _exponential,
    "exp2": _exponential_of_two,
    "step": _rounded_step,
}
WAYS = tuple(RATES)

_SPREAD = {"tensor2tensor", "fairseq", "m2m100", "ddpm", "whisper"}


def _sinusoids(keys: Keys, rates: Rates, positions: Array) -> Array | None:
    name, width = keys["convention"], keys["d_model"]
    if name not in {*_SPREAD, "vaswani", "marian", "diffusers", "x-transformers"}:
        return None
    base = keys.get("base", keys.get("max_timescale", 10000.0))
    pairs = width // 2 if name in _SPREAD else -(-width // 2)
    steps = F(pairs - 1) if name in _SPREAD else F(width) / F(2)
    exponents = np.arange(pairs, dtype=F) / steps
    first = F(keys.get("min_timescale", 1.0))
    omega = first * rates(float(F(base) / first), exponents)
    padding = keys.get("padding_idx", 1)
    rows = positions.astype(F) + F(padding + 1 if name == "m2m100" else 0)
    angles = rows[:, np.newaxis] * omega
    sine, cosine = np.sin(angles), np.cos(angles)
    if keys.get("layout", "interleaved" if name == "vaswani" else "") == "interleaved":
        table = np.stack([sine, cosine], axis=-1).reshape(len(rows), -1)[:, :width]
    else:
        halves = (cosine, sine) if keys.get("flip_sin_to_cos") else (sine, cosine)
        table = np.concatenate(halves, axis=1)[:, :width]
        table = np.pad(table, ((0, 0), (0, width - table.shape[1])))
    if name in {"fairseq", "m2m100"}:
        table[rows == padding] = 0
    return table / np.sqrt(F(width)) if name == "x-transformers" else table


def _timesteps(keys: Keys, rates: Rates, _: Array) -> Array:
    count = keys["d_model"] // 2
    shift = F(keys.get("downscale_freq_shift", 1.0))
    exponents = np.arange(count, dtype=F) / (F(count) - shift)
    omega = rates(keys.get("max_period", 10000.0), exponents)
    angles = F(keys.get("scale", 1.0)) * (np.array(keys["timesteps"], F)[:, np.newaxis] * omega)
    halves = (np.sin(angles), np.cos(angles))
    table = np.concatenate(halves[::-1] if keys.get("flip_sin_to_cos") else halves, axis=1)
    return np.pad(table, ((0, 0), (0, keys["d_model"] % 2)))


def _grid(keys: Keys, rates: Rates, _: Array) -> Array | None:
    """MAE's table, and those with its channels."""
    name = keys["convention"]
    if name not in {"mae", "transformers", "moco-v3", "simple-vit", "diffusers"} or "depth" in keys:
        return None
    height, width, count = keys["height"], keys["width"], keys["d_model"] // 4
    exponents = np.arange(count, dtype=F) / F(count - (name == "simple-vit"))
    omega = rates(keys.get("base", 10000.0), exponents)
    y, x = np.meshgrid(np.arange(height, dtype=F), np.arange(width, dtype=F), indexing="ij")
    if name == "moco-v3":
        y, x = y.T, x.T
    if name == "diffusers":
        base, scale = F(keys.get("base_size", 16)), F(keys.get("interpolation_scale", 1.0))
        y, x = y / (F(height) / base) / scale, x / (F(width) / base) / scale
    waves = [each.reshape(-1, 1) * omega for each in (x, y)]
    blocks = [part(each) for each in waves for part in (np.sin, np.cos)]
    table = np.concatenate(blocks[2:] + blocks[:2] if name == "transformers" else blocks, axis=1)
    zeros = keys.get("extra_tokens", int(keys.get("cls_token", False)))
    return np.pad(table, ((zeros, 0), (0, 0)))


def _slopes(heads: int, way: str, most: float = 8.0) -> Array:
    """The published code: a ratio to the powers 1, 2, …, or exponents that are divided."""
    if heads & (heads - 1) == 0:
        if way == "power":
            return np.asarray(F(2.0 ** (-most / heads)) ** np.arange(1, heads + 1, dtype=F))
        exponents: Array = np.arange(1, heads + 1, dtype=F) * F(most) / F(heads)
        return np.exp2(-exponents)
    lower = 2 ** (heads.bit_length() - 1)
    more = _slopes(2 * lower, way, most)[::2][: heads - lower]
    return np.concatenate([_slopes(lower, way, most), more])


def _slopes_of(keys: Keys, way: str) -> Array:
    return _slopes(keys["num_heads"], way, keys.get("alibi_bias_max", 8.0))


def _ranged(keys: Keys, axis: str, count: int = 0) -> Array:
    if f"{axis}_positions" in keys:
        return np.array(keys[f"{axis}_positions"])
    start = keys.get(f"{axis}_start", 0)
    return np.arange(start, start + keys.get(f"{axis}_len", count))


def _distances(keys: Keys) -> Array:
    queries = _ranged(keys, "query")
    return np.asarray(_ranged(keys, "key", len(queries)) - queries[:, np.newaxis])


def _lengths(keys: Keys) -> Array:
    distances = _distances(keys)
    is_causal = keys.get("causal", True)
    return np.asarray(np.maximum(-distances, 0) if is_causal else np.abs(distances)).astype(F)


def _alibi(keys: Keys, way: str) -> Array:
    name = keys.get("convention", "original")
    if name in {"bloom", "mpt"}:
        places = np.arange(keys["key_len"], dtype=F)
        distances = (places - (places[-1] if name == "mpt" else F(0)))[np.newaxis]
    else:
        distances = _distances(keys).astype(F)
        distances = -np.abs(distances) if name == "x-transformers" else distances
    return np.asarray(_slopes_of(keys, way)[:, np.newaxis, np.newaxis] * distances)


def _kerple(keys: Keys, way: str) -> Array:
    far, heads = _lengths(keys), keys["num_heads"]
    a, p = (np.array(keys.get(name, [1.0] * heads), F)[:, None, None] for name in ("a", "p"))
    if keys["convention"] == "log":
        inside = np.log1p(a * far) if way == "power" else np.log(F(1) + a * far)
        return np.asarray(-p * inside)
    if keys["convention"] == "power":
        with np.errstate(divide="ignore"):
            power = far**p if way == "power" else np.exp(p * np.log(far))
        return np.asarray(-a * power)
    b = np.array(keys["b"], F) if "b" in keys else _slopes(heads, way)
    return np.asarray(-b[:, None, None] * np.log(F(1) + a * far**p))


def _fire(keys: Keys, way: str) -> Array:
    c, eps = F(keys.get("c", 0.1)), F(keys.get("eps", 1e-6))
    queries = _ranged(keys, "query").astype(F)[:, np.newaxis]
    far = np.abs(_distances(keys)).astype(F)
    least = np.maximum(F(keys.get("threshold", 512.0)), queries)
    if way == "power":
        return np.asarray(np.log1p(c * far) / (np.log1p(c * least) + eps))
    return np.asarray(np.log(F(1) + c * far) / (np.log(F(1) + c * least) + eps))


def _sandwich(keys: Keys, rates: Rates) -> Array:
    half = keys["head_dim"] // 2
    exponents = np.arange(half + 1, dtype=F) / F(half)
    omega = rates(keys.get("base", 10000.0), exponents)[1:]
    sums = np.cos(_lengths(keys)[..., np.newaxis] * omega).sum(axis=-1, dtype=F) - F(half)
    factors = F(keys["num_heads"]) / (F(8) * np.arange(1, keys["num_heads"] + 1, dtype=F))
    return np.asarray(factors[:, np.newaxis, np.newaxis] * sums)


def _t5(keys: Keys) -> Array:
    """transformers' bucket, with its logarithm in float32."""
    buckets, most = keys.get("num_buckets", 32), keys.get("max_distance", 128)
    distances, found = _distances(keys), np.zeros_like(_distances(keys))
    if keys.get("bidirectional", True):
        buckets //= 2
        found = found + (distances > 0) * buckets
        distances = np.abs(distances)
    else:
        distances = np.maximum(-distances, 0)
    near = buckets // 2
    far = np.log(np.maximum(distances, 1).astype(F) / F(near)) / F(np.log(most / near))
    large = near + (far * F(buckets - near)).astype(np.int64)
    return np.asarray(found + np.where(distances < near, distances, np.minimum(large, buckets - 1)))


def _deberta(keys: Keys) -> Array:
    distances = -_distances(keys)
    size, most = keys["bucket_size"], keys["max_position"]
    if size < 0:
        return distances
    mid = size // 2
    is_near = (distances < mid) & (distances > -mid)
    far = np.where(is_near, mid - 1, np.abs(distances)).astype(F)
    steps = np.log(far / F(mid)) / F(np.log((most - 1) / mid)) * F(mid - 1)
    large = np.ceil(steps) + mid
    return np.where(far <= mid, distances, large * np.sign(distances)).astype(np.int64)


def _rates_of(keys: Keys, rates: Rates) -> Array:
    width = keys["d_model"]
    exponents = np.arange(0, width, 2, dtype=F) / F(width)
    return rates(keys.get("base", 10000.0), exponents)


def _waves(keys: Keys, rates: Rates, rows: Array) -> Array:
    """All sines, then all cosines."""
    angles = rows.astype(F)[:, np.newaxis] * _rates_of(keys, rates)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def _farthest_first(keys: Keys, rates: Rates, _: Array) -> Array:
    rows = np.arange(keys["key_len"] - 1, -1, -1)
    return _waves(keys, rates, np.minimum(rows, keys.get("clamp_len", len(rows))))


def _from_key_len(keys: Keys, rates: Rates, _: Array) -> Array:
    rows = np.arange(keys["key_len"], -keys.get("query_len", 1), -1)
    most = keys.get("clamp_len", len(rows))
    rows = np.clip(rows, -most, most)
    both = _waves(keys, rates, rows), _waves(keys, rates, -rows)
    return np.stack(both, axis=1) if keys.get("bi_data") else both[0]


def _both_sides(keys: Keys, rates: Rates, _: Array) -> Array:
    waves = _waves(keys, rates, np.arange(keys["seq_len"] - 1, -keys["seq_len"], -1))
    halves = np.split(waves, 2, axis=1)
    return np.stack(halves, axis=-1).reshape(waves.shape)


def _similarity(keys: Keys, rates: Rates, _: Array) -> Array:
    angles = np.array(keys["offsets"], F)[:, np.newaxis] * _rates_of(keys, rates)
    return np.asarray(np.cos(angles).sum(axis=1, dtype=F))


def _masked(keys: Keys, rates: Rates, _: Array) -> Array:
    """DETR's code: cumulative sums, divided by the last one, times 2π."""
    valid = 1 - np.array(keys["padding_mask"]) if "padding_mask" in keys else keys["valid_mask"]
    images = np.array(valid, dtype=F)
    images = images.reshape(-1, *images.shape[-2:])
    y, x = images.cumsum(1, dtype=F), images.cumsum(2, dtype=F)
    if keys.get("normalize"):
        turn = F(keys.get("scale", 2 * np.pi))
        y, x = y / (y[:, -1:] + F(1e-6)) * turn, x / (x[:, :, -1:] + F(1e-6)) * turn
    half = keys["d_model"] // 2
    rising = F(1) / rates(keys.get("base", 10000.0), np.arange(half // 2, dtype=F) * F(2) / F(half))
    parts = []
    for each in (y, x):
        angles = each[..., np.newaxis] / rising
        both = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
        parts.append(both.reshape(*each.shape, -1))
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)


def _boxes(keys: Keys, rates: Rates, _: Array) -> Array:
    count, boxes = keys["embed_dim"], np.array(keys["boxes"], F)
    rising = F(1) / rates(keys.get("temperature", 100.0), np.arange(count, dtype=F) / F(count))
    angles = rising[:, np.newaxis] * boxes[:, np.newaxis]
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(boxes), -1)


def _fourier(keys: Keys, _: str) -> Array:
    numbers = np.array(keys["x"], F)
    numbers = np.log(numbers) if keys.get("log", True) else numbers
    angles = numbers[:, np.newaxis] * np.array(keys["weight"], F) * F(2) * F(np.pi)
    halves = np.sin(angles), np.cos(angles)
    return np.concatenate(halves[::-1] if keys.get("flip_sin_to_cos") else halves, axis=1)


def _swin_v2(keys: Keys, _: str) -> Array:
    window = keys["window_size"]
    trained = keys.get("pretrained_window_size", window)
    sides = [np.arange(1 - side, side, dtype=F) for side in window]
    table = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1)
    if keys.get("mode") == "cr":
        return np.asarray(np.sign(table) * np.log(F(1) + np.abs(table)))
    table = table / (np.array(trained, F) - F(1)) * F(8)
    return np.asarray(np.sign(table) * np.log2(F(1) + np.abs(table)) / np.log2(F(8)))


def _temperature(keys: Keys, _: str) -> Array:
    positions = np.array(keys["positions"], F)
    match keys.get("convention", "llama4"):
        case "beam":
            return np.asarray((F(1) + (positions + F(1)) / F(2048)) ** F(0.1))
        case "ministral3":
            steps = np.floor(positions / F(keys["original_max_position_embeddings"]))
            factor = F(keys.get("llama_4_scaling_beta", 0.1))
        case _:
            steps = np.floor((positions + F(1)) / F(keys.get("floor_scale", 8192)))
            factor = F(keys.get("attn_scale", 0.1))
    return np.asarray(F(1) + factor * np.log(F(1) + steps))


def _kernel(x: Array, *, is_cubic: bool, sharpness: float) -> Array:
    x, a = np.abs(x), F(sharpness)
    if not is_cubic:
        return np.maximum(F(1) - x, F(0))
    near = ((a + F(2)) * x - (a + F(3))) * x * x + F(1)
    far = ((a * x - F(5) * a) * x + F(8) * a) * x - F(4) * a
    return np.where(x < 1, near, np.where(x < 2, far, F(0)))


def _matrix(old: int, new: int, keys: Keys) -> Array:
    """The weight of each old place in every new one."""
    is_cubic, places = keys.get("mode", "bicubic") == "bicubic", np.arange(new, dtype=F)
    if keys.get("align_corners"):
        x = places * (F(old - 1) / F(new - 1))
    else:
        x = (places + F(0.5)) * (F(old) / F(new)) - F(0.5)
    if keys.get("antialias"):
        stretch = max(F(old) / F(new), F(1))
        apart = (np.arange(old, dtype=F) - x[:, np.newaxis]) / stretch
        weights = _kernel(apart, is_cubic=is_cubic, sharpness=-0.5)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True, dtype=F))
    found, first = np.zeros((new, old), dtype=F), np.floor(x)
    for tap in range(-1, 3):
        weights = _kernel(x - first - F(tap), is_cubic=is_cubic, sharpness=-0.75)
        inside = np.clip(first.astype(np.int64) + tap, 0, old - 1)
        np.add.at(found, (np.arange(new), inside), weights)
    return found


def _resized(keys: Keys, table: Array) -> Array:
    prefix = keys.get("num_prefix_tokens", 0)
    kept, rows = table[:prefix].astype(F), table[prefix:].astype(F)
    side = round(len(rows) ** 0.5)
    grid = rows.reshape(side, side, -1) if prefix else rows
    down, across = (
        _matrix(old, new, keys) for old, new in zip(grid.shape[:2], keys["size"], strict=True)
    )
    resized = np.einsum("ya,xb,abc->yxc", down, across, grid)
    return np.concatenate([kept, resized.reshape(-1, grid.shape[-1])]) if prefix else resized


_WITH_RATES: Mapping[str, Callable[[Keys, Rates, Array], Array | None]] = {
    "/encoding": _sinusoids,
    "/encoding/timesteps": _timesteps,
    "/encoding/grid": _grid,
    "/encoding/mask": _masked,
    "/encoding/boxes": _boxes,
    "/relative/sandwich": lambda keys, rates, _: _sandwich(keys, rates),
    "/relative/similarity": _similarity,
    "/relative/transformer-xl": _farthest_first,
    "/relative/xlnet": _from_key_len,
    "/relative/conformer": _both_sides,
    "/resize/apply": lambda keys, _, x: _resized(keys, x),
}
_BY_WAY: Mapping[str, Callable[[Keys, str], Array]] = {
    "/relative/alibi/slopes": _slopes_of,
    "/relative/alibi": _alibi,
    "/relative/kerple": _kerple,
    "/relative/fire": _fire,
    "/relative/swin-v2": _swin_v2,
    "/encoding/fourier": _fourier,
    "/attention/temperature": _temperature,
    "/resize": lambda keys, _: _matrix(keys["old_size"][0], keys["size"][0], keys),
    "/relative/t5": lambda keys, _: _t5(keys),
    "/relative/deberta": lambda keys, _: _deberta(keys),
}


def answer(question: Question, way: str) -> Array | None:
    """Return the numbers in float32, or integers; None of what is not implemented here."""
    keys, path = question.parameters, question.resource
    if path in _WITH_RATES:
        given = question.positions if question.x is None else question.x
        return _WITH_RATES[path](keys, RATES[way], np.array(given or (), dtype=np.float64))
    return _BY_WAY[path](keys, way) if path in _BY_WAY else None
