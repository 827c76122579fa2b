"""Independent evaluation of rotary tables and rotations, in 45 digits."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import mpmath
import numpy as np

from tests.exact import UNIT
from tests.parity.backend import Query
from tests.parity.exact_axial import axial_angles
from tests.parity.exact_rules import attention_factor, frequencies, rotary_dim
from tests.parity.golden import Array, Arrays
from tests.parity.truth import Truth

_DIGITS = 45
_COS_SIN = 6 * UNIT
_XPOS = 10 * UNIT
_ANGLE = 8 * UNIT
_ROTATED = 7 * UNIT
_ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}


Rows: TypeAlias = list[list[Any]]
"""A number for each token and frequency: an angle, or the factor of its cosine."""


class ExactRotary:
    """Evaluate requests for rotary tables and rotations as arrays of Truth."""

    def tables(self, path: str, query: Query) -> Arrays:
        with mpmath.workdps(_DIGITS):
            if path == "/rope/frequencies":
                return _frequencies(query)
            angles = axial_angles(query) if path == "/rope/axial" else _angles(query)
            if query.get("pack") == "angle":
                exact = [[Truth(a, _ANGLE * abs(a)) for a in row] for row in angles]
                return {"rope": _array(exact)}
            multiplier = _multipliers(query, len(angles), len(angles[0]))
            cos, sin = _cos_sin(angles, multiplier, query)
            return _PACKS[query.get("pack", "pair")](cos, sin)

    def rotated(self, x: Array, query: Query) -> Array:
        with mpmath.workdps(_DIGITS):
            *_, count, head_dim = x.shape
            start = query.get("start", 0)
            along = {"positions": range(start, start + count), "head_dim": head_dim}
            keys = along | query
            angles = _angles(keys)
            multiplier = _multipliers(keys, len(angles), len(angles[0]))
            return _rotated(x, angles, multiplier, query)


def _array(rows: Sequence[Any]) -> Array:
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    array[:] = rows
    return array


def _frequencies(query: Query) -> Arrays:
    rates, factor = frequencies(query), attention_factor(query)
    wavelengths = [2 * mpmath.pi / rate if rate else mpmath.inf for rate in rates]
    one = np.empty((), dtype=object)
    one[()] = Truth(factor, UNIT * float(factor))
    return {
        "inv_freq": _rounded(rates),
        "wavelength": _rounded(wavelengths),
        "attention_factor": one,
    }


def _rounded(numbers: Sequence[Any]) -> Array:
    return np.array([Truth(number, UNIT * float(number)) for number in numbers], dtype=object)


def _positions(query: Query) -> list[int]:
    if "positions" in query:
        return [int(position) for position in query["positions"]]
    start = query.get("start", 0)
    return list(range(start, start + query["seq_len"]))


def _angles(query: Query) -> Rows:
    rates = frequencies(query)
    if "mrope_section" not in query:
        return [[position * rate for rate in rates] for position in _positions(query)]
    axes = _mrope_axes(query["mrope_section"], query.get("mrope_interleaved", False))
    along = zip(*(query[f"positions_{axis}"] for axis in "thw"), strict=True)
    return [
        [int(token[axis]) * rate for axis, rate in zip(axes, rates, strict=True)] for token in along
    ]


def _mrope_axes(section: Sequence[int], is_interleaved: bool) -> list[int]:
    if not is_interleaved:
        return [axis for axis, width in enumerate(section) for _ in range(width)]
    axes = [0] * sum(section)
    for axis in (1, 2):
        axes[axis : 3 * section[axis] : 3] = [axis] * len(axes[axis : 3 * section[axis] : 3])
    return axes


def _multipliers(query: Query, rows: int, count: int) -> Rows:
    """Return the factors of cosines and sines."""
    xpos, factor = query.get("xpos"), attention_factor(query)
    if xpos is None:
        return [[factor] * count] * rows
    centre = query.get("xpos_centre")
    centre = rows // 2 if centre is None else centre
    base = mpmath.mpf(query.get("xpos_scale_base") or 512)
    sign, dim = (-1 if xpos == "key" else 1), rotary_dim(query)
    zetas = [(2 * k + mpmath.mpf(2) * dim / 5) / (mpmath.mpf(7) * dim / 5) for k in range(count)]
    powers = (sign * (position - centre) / base for position in _positions(query))
    return [[factor * zeta**power for zeta in zetas] for power in powers]


def _cos_sin(angles: Rows, multiplier: Rows, query: Query) -> tuple[Array, Array]:
    bound = (_XPOS if query.get("xpos") else _COS_SIN) + _ROUNDING.get(query.get("dtype", ""), 0)

    def of(function: Callable[[Any], Any]) -> Array:
        rows = zip(angles, multiplier, strict=True)
        return _array(
            [
                [Truth(function(a) * g, bound * float(g)) for a, g in zip(*row, strict=True)]
                for row in rows
            ]
        )

    return of(cache(mpmath.cos)), of(cache(mpmath.sin))


def _complex(cos: Array, sin: Array) -> Array:
    both = zip(cos.flat, sin.flat, strict=True)
    exact = [Truth(mpmath.mpc(c.value, s.value), max(c.bound, s.bound)) for c, s in both]
    return np.array(exact, dtype=object).reshape(cos.shape)


def _twice(cos: Array, sin: Array) -> Arrays:
    return {"cos": np.tile(cos, 2), "sin": np.tile(sin, 2)}


def _repeated(cos: Array, sin: Array) -> Arrays:
    return {"cos": np.repeat(cos, 2, axis=1), "sin": np.repeat(sin, 2, axis=1)}


def _joined(twice: Callable[[Array, Array], Arrays], *names: str) -> Callable[..., Arrays]:
    def pack(cos: Array, sin: Array) -> Arrays:
        both = twice(cos, sin)
        return {"rope": np.concatenate([both[name] for name in names], axis=1)}

    return pack


def _compact(cos: Array, sin: Array) -> Arrays:
    return {"cos": cos, "sin": sin}


_PACKS: Mapping[str, Callable[[Array, Array], Arrays]] = {
    "pair": lambda cos, sin: {"rope": np.stack([cos, sin], axis=-1)},
    "torchtune": lambda cos, sin: {"rope": np.stack([cos, sin], axis=-1)},
    "complex": lambda cos, sin: {"rope": _complex(cos, sin)},
    "vllm": _joined(_compact, "cos", "sin"),
    "compact": _compact,
    "flash_attn": _compact,
    "transformers": _twice,
    "stable_audio": _twice,
    "allegro": _twice,
    "dinov3": _twice,
    "half": _twice,
    "cohere": _repeated,
    "diffusers": _repeated,
    "interleaved": _repeated,
    "torchtune_phi3": _joined(_twice, "cos", "sin"),
    "torchtune_qwen2": _joined(_twice, "cos", "sin"),
    "timm_dinov3": _joined(_twice, "sin", "cos"),
    "timm_cat": _joined(_repeated, "sin", "cos"),
}


def _rotated(x: Array, angles: Rows, multiplier: Rows, query: Query) -> Array:
    count, offset = len(angles[0]), query.get("rotary_offset", 0)
    read = _pairs(query.get("layout", "interleaved"), count)
    write = _pairs(query.get("output_layout") or query.get("layout", "interleaved"), count)
    sign = -1 if query.get("inverse") else 1
    result = np.empty(x.shape, dtype=object)
    for index in np.ndindex(x.shape):
        result[index] = Truth(mpmath.mpf(float(x[index])), 0.0)
    for *batch, row in np.ndindex(x.shape[:-1]):
        source, target = x[(*batch, row)], result[(*batch, row)]
        for k in range(count):
            first, second = (float(source[offset + channel]) for channel in read(k))
            rotated_pair = partial(_pair, first, second, multiplier[row][k])
            both = rotated_pair(mpmath.cos(angles[row][k]), sign * mpmath.sin(angles[row][k]))
            for channel, exact in zip(write(k), both, strict=True):
                target[offset + channel] = exact
    return result


def _pairs(layout: str, count: int) -> Callable[[int], tuple[int, int]]:
    if layout == "half":
        return lambda k: (k, k + count)
    return lambda k: (2 * k, 2 * k + 1)


def _pair(first: float, second: float, multiplier: Any, cos: Any, sin: Any) -> tuple[Truth, Truth]:
    bound = (_ROTATED + _XPOS - _COS_SIN) * (abs(first) + abs(second)) * float(multiplier)
    x, y = first * cos - second * sin, first * sin + second * cos
    return Truth(x * multiplier, bound), Truth(y * multiplier, bound)
