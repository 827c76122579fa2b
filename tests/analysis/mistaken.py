"""Tables with mistakes, computed with NumPy alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.array import Sample
from service.analysis.diagnosis.explanation import ExpectedTable
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT64, DType
from service.numerics.phase import Float64s
from tests.analysis.samples import float_sample


@dataclass(frozen=True)
class WaveTable:
    """A table of sines and cosines; the defaults have no mistake."""

    rows: int
    channels: int
    form: str
    base: float = 10000.0
    start: int = 0
    angle_factor: float = 1.0
    sine_factor: float = 1.0
    factor: float = 1.0
    kept_rows: int | None = None
    kept_pairs: int | None = None
    position_dtype: DType | None = None
    frequency_dtype: DType | None = None
    has_tutorial_slip: bool = False
    is_reversed: bool = False
    is_transposed: bool = False
    has_swapped_halves: bool = False
    has_other_layout: bool = False

    def table(self) -> Mapping[str, Float64s]:
        pairs = np.arange(self.channels // 2, dtype=np.float64)
        omega: Float64s = np.asarray(self.base ** (-2 * pairs / self.channels))
        slipped: Float64s = omega * self.base ** (-1 / self.channels)
        if self.kept_pairs:
            omega[self.kept_pairs :] = slipped[self.kept_pairs :] = 0
        if self.frequency_dtype:
            omega, slipped = (rounded(each, self.frequency_dtype) for each in (omega, slipped))
        positions: Float64s = np.arange(self.rows, dtype=np.float64) + self.start
        if self.position_dtype:
            positions = rounded(positions, self.position_dtype)
        sine_angles = self.angle_factor * np.outer(positions, omega)
        cosine_omega = slipped if self.has_tutorial_slip else omega
        cosine_angles = self.angle_factor * np.outer(positions, cosine_omega)
        cosines = np.cos(cosine_angles) * self.factor
        sines = np.sin(sine_angles) * self.sine_factor * self.factor
        return {name: self._ordered(part) for name, part in self._arrays(cosines, sines).items()}

    def _arrays(self, cosines: Float64s, sines: Float64s) -> dict[str, Float64s]:
        first, second = (cosines, sines) if self.form == "concat" else (sines, cosines)
        if self.has_swapped_halves:
            first, second, cosines, sines = second, first, sines, cosines
        if self.form == "half":
            return {"cos": self._doubled(cosines), "sin": self._doubled(sines)}
        if (self.form == "interleaved") != self.has_other_layout:
            return {"table": np.stack([first, second], axis=-1).reshape(len(first), -1)}
        return {"table": np.hstack([first, second])}

    def _doubled(self, part: Float64s) -> Float64s:
        return np.repeat(part, 2, axis=1) if self.has_other_layout else np.hstack([part, part])

    def _ordered(self, part: Float64s) -> Float64s:
        part = part[: self.kept_rows]
        part = part[::-1] if self.is_reversed else part
        return part.T if self.is_transposed else part


MISTAKES: Mapping[str, Mapping[str, object]] = {
    "layout-swapped": {"has_other_layout": True},
    "halves-swapped": {"has_swapped_halves": True},
    "sine-sign": {"sine_factor": -1.0},
    "rotated-twice": {"angle_factor": 2.0},
    "missing-factor": {"factor": 0.5},
    "extra-factor": {"factor": 1.1386294361119891},
    "wrong-base": {"base": 500000.0},
    "linear-factor": {"angle_factor": 0.25},
    "position-offset": {"start": 1},
    "narrow-positions": {"position_dtype": BFLOAT16},
    "narrow-frequencies": {"frequency_dtype": BFLOAT16},
    "tutorial-slip": {"has_tutorial_slip": True},
    "partial-width": {"kept_pairs": -1},
    "truncated": {"kept_rows": -1},
    "positions-reversed": {"is_reversed": True},
    "transposed": {"is_transposed": True},
}
FORMS = ("interleaved", "concatenated", "concat", "half")


def with_mistakes(right: WaveTable, names: Sequence[str]) -> WaveTable:
    """Return the table with mistakes; half of the rows or channels are left where some are cut."""
    for name in names:
        change = dict(MISTAKES[name])
        if name == "partial-width":
            change = {"kept_pairs": right.channels // 4}
        elif name == "truncated":
            change = {"kept_rows": right.rows // 2}
        right = replace(right, **change)  # type: ignore[arg-type]
    return right


def expected_table(right: WaveTable, dtype: DType, *, is_exact: bool = True) -> ExpectedTable:
    stored_in = FLOAT64 if is_exact else dtype
    return ExpectedTable(
        {name: float_sample(part, stored_in) for name, part in right.table().items()}, dtype
    )


def sent_arrays(made: WaveTable, dtype: DType) -> dict[str, Sample]:
    return {name: float_sample(part, dtype) for name, part in made.table().items()}
