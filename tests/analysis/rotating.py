"""An engine that rotates queries and keys, with every known mistake as an option."""

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

TYPES: dict[str, Any] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


@dataclass(frozen=True)
class Engine:
    """The choices of an engine that rotates (..., S, head_dim); the defaults are right."""

    width: int
    base: float = 10000.0
    layout: str = "half"
    written: str | None = None
    start: int = 0
    factor: float = 1.0
    sine_factor: float | None = None
    linear: float = 1.0
    llama3: bool = False
    powers: str = "power"
    angle_factor: float = 1.0
    signs: tuple[int, int] = (-1, 1)
    is_own: bool = False
    is_swapped: bool = False
    is_written_reversed: bool = False
    is_tiled_otherwise: bool = False
    is_rest_zero: bool = False
    offset: int = 0
    series: int | None = None
    positions: str = "right"
    position_dtype: str = "float64"
    frequency_dtype: str = "float64"
    table_dtype: str = "float64"
    beyond: tuple[int, str] | None = None
    axis: int = -2

    def with_changes(self, **changes: Any) -> "Engine":
        return replace(self, **changes)

    def frequencies(self, dtype: Any = np.float64) -> Array:
        exponents = np.arange(self.width // 2, dtype=dtype) * dtype(2)
        exponents /= dtype(self.series or self.width)
        power = dtype(self.base) ** exponents
        if self.powers == "logarithm":
            power = np.exp(np.log(dtype(self.base)) * exponents)
        if self.powers == "products":
            power = 1 / np.cumprod(np.append(1, 1 / power[1:2].repeat(len(power) - 1)), dtype=dtype)
        omega = (dtype(1) / power) / dtype(self.linear)
        if self.llama3:
            wavelength = 2 * np.pi / omega
            smooth = np.clip((64 / wavelength - 1) / 3, 0, 1)
            omega = ((1 - smooth) * omega / 8 + smooth * omega).astype(dtype)
        narrow: Array = omega.astype(TYPES[self.frequency_dtype]).astype(dtype)
        return narrow

    def row_positions(self, rows: int) -> Array:
        positions = np.arange(rows, dtype=np.float64)
        if self.positions == "reversed":
            positions = positions[::-1]
        if self.positions == "stuck":
            positions = np.full(rows, 5.0)
        if self.beyond and self.beyond[1] == "clamped":
            positions = np.minimum(positions, self.beyond[0] - 1)
        if self.beyond and self.beyond[1] == "wrapped":
            positions = positions % self.beyond[0]
        return (positions + self.start).astype(TYPES[self.position_dtype]).astype(np.float64)

    def angles(self, rows: int, dtype: Any = np.float64) -> Array:
        positions = self.row_positions(rows).astype(dtype)
        angles: Array = np.outer(positions, self.frequencies(dtype)) * dtype(self.angle_factor)
        return angles

    def tables(self, rows: int, dtype: Any = np.float64) -> tuple[Array, Array]:
        angles = self.angles(rows, dtype)
        cosine, sine = np.cos(angles), np.sin(angles)
        if self.is_swapped:
            cosine, sine = sine, cosine
        cosine = cosine * dtype(self.factor)
        sine = sine * dtype(self.factor if self.sine_factor is None else self.sine_factor)
        narrow = TYPES[self.table_dtype]
        return cosine.astype(narrow).astype(dtype), sine.astype(narrow).astype(dtype)

    def rotate(self, x: Array) -> Array:
        """Rotate in the type of x, with angles of float32 at least."""
        if self.axis != -2:
            swapped = self.with_changes(axis=-2).rotate(np.swapaxes(x, self.axis, -2))
            return np.swapaxes(swapped, self.axis, -2)
        rows, count = x.shape[-2], self.width // 2
        dtype = np.float64 if x.dtype == np.float64 else np.float32
        cosine, sine = (table.astype(x.dtype) for table in self.tables(rows, dtype))
        part = x[..., self.offset : self.offset + self.width]
        first, second = pairs(part, self.layout)
        f = np.arange(count)
        f0, f1 = f, f
        if self.is_tiled_otherwise:
            f0, f1 = f // 2, (f + count) // 2
            if self.layout == "interleaved":
                f0, f1 = 2 * f % count, (2 * f + 1) % count
        others = (first, second) if self.is_own else (second, first)
        one = first * cosine[:, f0] + self.signs[0] * others[0] * sine[:, f0]
        two = second * cosine[:, f1] + self.signs[1] * others[1] * sine[:, f1]
        if self.is_written_reversed:
            one, two = two, one
        y = np.zeros_like(x) if self.is_rest_zero else x.copy()
        written = self.written or self.layout
        y[..., self.offset : self.offset + self.width] = joined(one, two, written)
        if self.beyond and self.beyond[1] == "unrotated":
            y[..., self.beyond[0] :, :] = x[..., self.beyond[0] :, :]
        if self.beyond and self.beyond[1] == "zero":
            y[..., self.beyond[0] :, :] = 0
        return y


def pairs(part: Array, layout: str) -> tuple[Array, Array]:
    half = part.shape[-1] // 2
    if layout == "half":
        return part[..., :half], part[..., half:]
    return part[..., 0::2], part[..., 1::2]


def joined(one: Array, two: Array, layout: str) -> Array:
    if layout == "half":
        return np.concatenate([one, two], axis=-1)
    return np.stack([one, two], axis=-1).reshape(*one.shape[:-1], -1)
