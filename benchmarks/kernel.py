"""Tables computed by posref's kernel and by the plain NumPy formulas."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log
from typing import TypeAlias

import mpmath
import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import BASE
from benchmarks.figures import Measured, in_turns
from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from service.numerics.tables import size

Rows: TypeAlias = NDArray[np.float32]

ROWS, WIDTH = 8192, 512
FAR_STARTS = (0, 10**6, 10**9, 10**12)
"""First positions of the tables whose errors are measured."""
CHECKED_ROWS = (4097, ROWS - 1)


def posref(start: int, rows: int, width: int, base: float) -> Rows:
    table = SinusoidalEncoding(d_model=width, base=base, start=start, seq_len=rows).table()
    return table.read(0, size(table)).reshape(rows, width)


def numpy_float64(start: int, rows: int, width: int, base: float) -> Rows:
    angles = np.outer(
        np.arange(start, start + rows), float(base) ** (-np.arange(0, width, 2) / width)
    )
    return _interleaved(angles)


def numpy_float32(start: int, rows: int, width: int, base: float) -> Rows:
    positions = np.arange(start, start + rows).astype(np.float32)
    exponents = np.arange(0, width, 2, dtype=np.float32)
    return _interleaved(np.outer(positions, np.exp(exponents * np.float32(-log(base) / width))))


def _interleaved(angles: NDArray[np.floating]) -> Rows:
    rows = np.empty((len(angles), 2 * angles.shape[1]), dtype=np.float32)
    rows[:, 0::2] = np.sin(angles)
    rows[:, 1::2] = np.cos(angles)
    return rows


@dataclass(frozen=True)
class Contender:
    name: str
    table: Callable[[int, int, int, float], Rows]
    new_frequencies: bool = False


BASELINE = Contender("NumPy formula in float64", numpy_float64)
CONTENDERS = (
    Contender("posref", posref),
    Contender("posref, frequencies not cached", posref, new_frequencies=True),
    BASELINE,
    Contender("NumPy formula in float32", numpy_float32),
)


@dataclass(frozen=True)
class Result:
    """The times of one contender and of the baseline by turn, and the errors by first position."""

    name: str
    seconds: Measured
    errors: Sequence[float]


def measure(repeats: int) -> list[Result]:
    times = in_turns([partial(_seconds, contender) for contender in CONTENDERS], repeats)
    baseline = times[CONTENDERS.index(BASELINE)]
    return [
        Result(
            contender.name,
            Measured(taken, baseline),
            [_error(contender, start) for start in FAR_STARTS],
        )
        for contender, taken in zip(CONTENDERS, times, strict=True)
    ]


def _seconds(contender: Contender, number: int) -> float:
    # The first of two turns is not measured: it sets heap and CPU caches to the state that this
    # contender leaves, not the one before.
    bases = [BASE + 2 * number + turn if contender.new_frequencies else BASE for turn in (1, 2)]
    contender.table(0, ROWS, WIDTH, bases[0])
    before = time.perf_counter()
    contender.table(0, ROWS, WIDTH, bases[1])
    return time.perf_counter() - before


def _error(contender: Contender, start: int) -> float:
    rows = contender.table(start, ROWS, WIDTH, BASE)
    return max(
        float(abs(float(value) - exact))
        for row in CHECKED_ROWS
        for value, exact in zip(rows[row], _exact_row(start + row), strict=True)
    )


def _exact_row(position: int) -> list[mpmath.mpf]:
    with mpmath.workdps(50):
        angles = [
            position * mpmath.mpf(BASE) ** (-mpmath.mpf(channel) / WIDTH)
            for channel in range(0, WIDTH, 2)
        ]
        return [value for angle in angles for value in (mpmath.sin(angle), mpmath.cos(angle))]
