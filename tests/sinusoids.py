"""Independent evaluation of the sinusoids of libraries, in 90 digits.

Each formula is written as in its library, without the service's terms.
"""

from collections.abc import Mapping
from math import inf
from typing import Any

import mpmath

from tests.exact import UNIT

WIDTHS: Mapping[str, tuple[int, ...]] = {
    "vaswani": (1, 2, 3, 4, 5, 6, 7, 8, 9),
    "positional-encodings": (1, 2, 3, 4, 5, 6, 7, 8, 9),
    "tensor2tensor": (1, 2, 3, 4, 5, 6, 7, 8, 9),
    "tf-models": (0, 0, 0, 4, 4, 6, 6, 8, 8),
    "fairseq": (1, 0, 0, 4, 5, 6, 7, 8, 9),
    "m2m100": (1, 0, 0, 4, 5, 6, 7, 8, 9),
    "xglm": (1, 0, 0, 4, 5, 6, 7, 8, 9),
    "ddpm": (1, 0, 0, 4, 5, 6, 7, 8, 9),
    "whisper": (0, 0, 0, 4, 0, 6, 0, 8, 0),
    "marian": (1, 2, 3, 4, 5, 6, 7, 8, 9),
    "mae": (0, 2, 0, 4, 0, 6, 0, 8, 0),
    "diffusers": (0, 2, 0, 4, 0, 6, 0, 8, 0),
    "x-transformers": (0, 2, 0, 4, 0, 6, 0, 8, 0),
    "transformer-xl": (2, 2, 4, 4, 6, 6, 8, 8, 10),
    "mlx": (0, 2, 0, 4, 0, 6, 0, 8, 0),
    "perceiver": (0, 0, 3, 0, 5, 0, 7, 0, 9),
}
"""Channels of each library for d_model = 1 … 9, as run; 0 where it raises or has none or NaN, and
for perceiver where no number of bands has so many channels."""

NEEDED: Mapping[str, Mapping[str, Any]] = {"perceiver": {"max_resolution": 224}}
"""Required parameters of conventions."""

_ENDS = ("tensor2tensor", "tf-models", "fairseq", "m2m100", "xglm", "ddpm", "whisper")
_PADDED = ("tensor2tensor", "fairseq", "m2m100", "xglm", "ddpm")
_FIRST_ROW: Mapping[str, int | None] = {"fairseq": 0, "m2m100": None, "xglm": 2}
_SCALED = {"mlx": 2, "x-transformers": 1}


def tables(name: str) -> list[int]:
    """List the d_model up to 9 for which a convention has tables."""
    return [d_model for d_model, width in enumerate(WIDTHS[name], start=1) if width]


def rates(name: str, d_model: int, given: Mapping[str, Any]) -> list[Any]:
    """Evaluate the frequencies, in radians per position."""
    real = {key: mpmath.mpf(value) for key, value in given.items() if key != "layout"}
    if name == "perceiver":
        count = d_model - given.get("concat_pos", True)
        count //= 1 if given.get("sine_only", False) else 2
        step = (real["max_resolution"] / 2 - 1) / max(count - 1, 1)
        return [mpmath.pi * (1 + step * band) for band in range(count)]
    pairs, steps = d_model // 2, mpmath.mpf(max(d_model // 2 - 1, 1))
    if name == "mlx":
        low = mpmath.log(real.get("min_freq", mpmath.mpf(1e-4)))
        high = mpmath.log(real.get("max_freq", 1))
        turn = 2 * mpmath.pi if given.get("full_turns", False) else 1
        return [mpmath.exp(high + (low - high) * pair / steps) * turn for pair in range(pairs)]
    longest = real.get("max_timescale", real.get("base", mpmath.mpf(10000)))
    first = real.get("min_timescale", mpmath.mpf(1))
    if name not in _ENDS:
        pairs, steps = (d_model + 1) // 2, mpmath.mpf(d_model) / 2
        steps = mpmath.mpf(pairs) if name == "positional-encodings" else steps
    return [
        first * mpmath.exp(-pair * mpmath.log(longest / first) / steps) for pair in range(pairs)
    ]


def scale(name: str, d_model: int, given: Mapping[str, Any]) -> Any:
    """Evaluate the factor of sines and cosines."""
    if "scale" in given:
        return mpmath.mpf(given["scale"])
    return mpmath.sqrt(mpmath.mpf(_SCALED[name]) / d_model) if name in _SCALED else mpmath.mpf(1)


def row(name: str, d_model: int, position: Any, given: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Evaluate a row: angle and value of each channel, with angle None for constants."""
    if name in _FIRST_ROW:
        padding, first = given.get("padding_idx", 1), _FIRST_ROW[name]
        position = position + given.get("offset", padding + 1 if first is None else first)
        if position == padding:
            return [(None, mpmath.mpf(0))] * d_model
    angles = [mpmath.mpf(position) * rate for rate in rates(name, d_model, given)]
    factor = scale(name, d_model, given)
    sines = [(angle, factor * mpmath.sin(angle)) for angle in angles]
    cosines = [(angle, factor * mpmath.cos(angle)) for angle in angles]
    if name == "perceiver":
        place = [(None, mpmath.mpf(position))] if given.get("concat_pos", True) else []
        return [*place, *sines, *([] if given.get("sine_only", False) else cosines)]
    if given.get("cos_first", False) or given.get("flip_sin_to_cos", False):
        sines, cosines = cosines, sines
    default = "interleaved" if name in {"vaswani", "positional-encodings"} else "concatenated"
    if given.get("layout", default) == "interleaved":
        return [each for pair in zip(sines, cosines, strict=True) for each in pair][:d_model]
    if name in {"vaswani", "marian"}:
        return [*sines, *cosines[: d_model // 2]]
    return [*sines, *cosines, *[(None, mpmath.mpf(0))] * (d_model % 2 * (name in _PADDED))]


def check(found: list[float], name: str, d_model: int, position: Any, **given: Any) -> None:
    """Check a float64 row: absolute error, and relative error where no angle is reduced.

    The bounds are 5·2^-53, and relatively 6·2^-53; with a scale 6·2^-53 of it, and 8·2^-53.
    """
    expected = row(name, d_model, position, given)
    is_scaled = name in _SCALED
    assert len(found) == len(expected), (name, d_model)
    bound = (6 if is_scaled else 5) * UNIT * scale(name, d_model, given)
    for channel, (number, (angle, exact)) in enumerate(zip(found, expected, strict=True)):
        size = abs(angle) if angle is not None else inf
        error = abs(number - exact)
        where = (name, d_model, position, channel, given)
        assert error <= bound, where
        assert size >= 1 or error <= (8 if is_scaled else 6) * UNIT * abs(exact), where
        assert angle is not None or error <= UNIT * abs(exact), where
