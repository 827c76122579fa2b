"""Tables with mistakes, made with NumPy alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.array import Sample
from service.analysis.diagnosis.explanation import ExpectedTable
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT64, DType, round_into
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable


def stored(values: Float64s, dtype: DType) -> Sample:
    elements = np.empty(values.shape, dtype=dtype.storage)
    round_into(values, elements, dtype)
    return Sample.of(StoredTable(elements, dtype))


@dataclass(frozen=True)
class Made:
    """The parameters of a table; the defaults are right."""

    rows: int
    channels: int
    form: str
    base: float = 10000.0
    start: int = 0
    turns: float = 1.0
    sine: float = 1.0
    factor: float = 1.0
    kept_rows: int | None = None
    kept_pairs: int | None = None
    position_dtype: DType | None = None
    frequency_dtype: DType | None = None
    is_slipped: bool = False
    is_reversed: bool = False
    is_transposed: bool = False
    is_exchanged: bool = False
    is_other_layout: bool = False

    def table(self) -> Mapping[str, Float64s]:
        pairs = self.channels // 2
        places = np.arange(pairs, dtype=np.float64)
        omega: Float64s = np.asarray(self.base ** (-2 * places / self.channels))
        late: Float64s = omega * self.base ** (-1 / self.channels)
        if self.kept_pairs:
            omega[self.kept_pairs :] = late[self.kept_pairs :] = 0
        if self.frequency_dtype:
            omega = rounded(omega, self.frequency_dtype)
            late = rounded(late, self.frequency_dtype)
        positions: Float64s = np.arange(self.rows, dtype=np.float64) + self.start
        if self.position_dtype:
            positions = rounded(positions, self.position_dtype)
        angles = self.turns * np.outer(positions, omega)
        others = self.turns * np.outer(positions, late)
        cosines = np.cos(others if self.is_slipped else angles) * self.factor
        sines = np.sin(angles) * self.sine * self.factor
        return {name: self._ordered(part) for name, part in self._laid(cosines, sines).items()}

    def _laid(self, cosines: Float64s, sines: Float64s) -> dict[str, Float64s]:
        first, second = (cosines, sines) if self.form == "concat" else (sines, cosines)
        if self.is_exchanged:
            first, second, cosines, sines = second, first, sines, cosines
        if self.form == "half":
            return {"cos": self._doubled(cosines), "sin": self._doubled(sines)}
        if (self.form == "interleaved") != self.is_other_layout:
            return {"table": np.stack([first, second], axis=-1).reshape(len(first), -1)}
        return {"table": np.hstack([first, second])}

    def _doubled(self, part: Float64s) -> Float64s:
        return np.repeat(part, 2, axis=1) if self.is_other_layout else np.hstack([part, part])

    def _ordered(self, part: Float64s) -> Float64s:
        part = part[: self.kept_rows]
        part = part[::-1] if self.is_reversed else part
        return part.T if self.is_transposed else part


MISTAKES: Mapping[str, Mapping[str, object]] = {
    "layout-swapped": {"is_other_layout": True},
    "halves-swapped": {"is_exchanged": True},
    "sine-sign": {"sine": -1.0},
    "rotated-twice": {"turns": 2.0},
    "missing-factor": {"factor": 0.5},
    "extra-factor": {"factor": 1.1386294361119891},
    "wrong-base": {"base": 500000.0},
    "linear-factor": {"turns": 0.25},
    "position-offset": {"start": 1},
    "narrow-positions": {"position_dtype": BFLOAT16},
    "narrow-frequencies": {"frequency_dtype": BFLOAT16},
    "tutorial-slip": {"is_slipped": True},
    "partial-width": {"kept_pairs": -1},
    "truncated": {"kept_rows": -1},
    "positions-reversed": {"is_reversed": True},
    "transposed": {"is_transposed": True},
}
FORMS = ("interleaved", "concatenated", "concat", "half")


def mistaken(right: Made, names: Sequence[str]) -> Made:
    """Make mistakes; a cut leaves half of the rows or channels."""
    for name in names:
        change = dict(MISTAKES[name])
        if name == "partial-width":
            change = {"kept_pairs": right.channels // 4}
        elif name == "truncated":
            change = {"kept_rows": right.rows // 2}
        right = replace(right, **change)  # type: ignore[arg-type]
    return right


def wanted(right: Made, dtype: DType, *, is_exact: bool = True) -> ExpectedTable:
    held = FLOAT64 if is_exact else dtype
    return ExpectedTable({name: stored(part, held) for name, part in right.table().items()}, dtype)


def had(made: Made, dtype: DType) -> dict[str, Sample]:
    return {name: stored(part, dtype) for name, part in made.table().items()}
