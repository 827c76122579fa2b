"""The cosines and sines that an application used, told by how they differ from those wanted."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.analysis.waves import measure
from service.tables.angle import Float64s
from service.tables.dtypes import DType, round_into, widened

Complexes = NDArray[np.complex128]
Indices = NDArray[np.intp]

# Angles of rows that one step apart are measured to: less than this is a straight line.
_STRAIGHT = 1e-9


@dataclass(frozen=True, eq=False)
class Target:
    """The cosines and sines that should have been used.

    Attributes:
        unit: e^(i·angle), (S, K).
        size: what it is multiplied by, (S, K).
        positions: of the rows, (S,).
        omega: radians per position, (K,); None where angles are not positions times frequencies.
        omega_error: how far each may be from what is meant, (K,).
    """

    unit: Complexes
    size: Float64s
    positions: Float64s
    omega: Float64s | None
    omega_error: Float64s

    @classmethod
    def of(
        cls,
        cosine: Float64s,
        sine: Float64s,
        positions: Float64s | None = None,
        omega: Float64s | None = None,
    ) -> "Target":
        """Read cosines and sines (S, K); positions and frequencies are measured unless known."""
        turns = cosine + 1j * sine
        size = np.abs(turns)
        unit = np.divide(turns, size, out=np.ones_like(turns), where=size > 0)
        where = np.arange(len(unit), dtype=np.float64) if positions is None else positions
        if omega is not None:
            return cls(unit, size, where, omega, np.zeros(len(omega)))
        if len(unit) < 2 or not (np.diff(where) > 0).all():
            return cls(unit, size, where, None, np.zeros(unit.shape[1]))
        waves = measure(unit, where)
        error = (waves.crookedness + 2.0**-52) / max(1.0, float(where[-1] - where[0]))
        is_straight = bool((waves.crookedness < _STRAIGHT * max(1.0, len(unit) / 64)).all())
        start = 0.0
        if is_straight and positions is None:
            start = ahead_of(np.exp(1j * waves.phase), np.ones(unit.shape[1]), waves.omega) or 0.0
        return cls(unit, size, where + start, waves.omega if is_straight else None, error)

    @property
    def rows(self) -> int:
        """Rows that there are."""
        return len(self.unit)

    def position(self, row: int) -> float | None:
        """Give the position of a row, where it is known."""
        return None if self.omega is None else float(self.positions[row])


def ahead_of(turns: Complexes, weights: Float64s, omega: Float64s) -> float | None:
    """Find the whole number k whose turns e^(ikω) these are, from the slowest to the fastest.

    Each frequency makes k as exact as its own angle is; None where there is no such number, as far
    as the slowest, which must not have turned by more than half, can say.
    """
    usable = (omega != 0) & (weights > 0)
    if not usable.any():
        return None
    steps = 0.0
    for k in sorted(np.flatnonzero(usable), key=lambda k: abs(float(omega[k]))):
        steps += float(np.angle(turns[k] * np.exp(-1j * steps * omega[k]))) / float(omega[k])
    return float(np.round(steps))


@dataclass(frozen=True, eq=False)
class Spin:
    """Say how the cosines and sines that were used differ from those wanted; by nothing unless set.

    Attributes:
        rows: the row of the wanted that each row used.
        ahead: positions that are added to those of the wanted, for all rows or for each.
        omega: the frequencies that were used.
        times: how often the angle was turned by.
        is_inverse: whether it was the other way.
        is_exchanged: whether cosines stood for sines and sines for cosines.
        powers: how often cosines, and sines, were multiplied by the size of the wanted.
        factor: what else they were multiplied by.
        dtype: the type that they were rounded to.
        beyond: the first row that was not treated like those before, and whether it and those
            after it are ``unrotated`` or ``zero``.
    """

    rows: Indices | None = None
    ahead: float | Float64s = 0.0
    omega: Float64s | None = None
    times: int = 1
    is_inverse: bool = False
    is_exchanged: bool = False
    powers: tuple[int, int] = (1, 1)
    factor: float = 1.0
    dtype: DType | None = None
    beyond: tuple[int, str] | None = None

    def positions(self, target: Target, rows: Indices) -> Float64s:
        """Give the positions that rows were taken to be at."""
        source = rows if self.rows is None else self.rows[rows]
        ahead = self.ahead if isinstance(self.ahead, float) else self.ahead[rows]
        places: Float64s = target.positions[source] + ahead
        return places

    def frequencies(self, target: Target) -> Float64s | None:
        """Give the frequencies that were used, as far as angles are made of any."""
        return target.omega if self.omega is None else self.omega

    def unit(self, target: Target, rows: Indices) -> Complexes:
        """Give e^(i·angle) of rows, once, in the right direction."""
        source = rows if self.rows is None else self.rows[rows]
        if self.omega is not None:
            turned: Complexes = np.exp(1j * np.outer(self.positions(target, rows), self.omega))
            return turned
        turns = target.unit[source]
        if target.omega is None or (isinstance(self.ahead, float) and self.ahead == 0):
            return turns
        ahead = self.ahead if isinstance(self.ahead, float) else self.ahead[rows]
        moved = np.outer(np.broadcast_to(ahead, len(rows)), target.omega)
        return turns * np.exp(1j * moved)

    def cosines_and_sines(self, target: Target, rows: Indices) -> tuple[Float64s, Float64s]:
        """Give what was multiplied with, (rows, K)."""
        turns = self.unit(target, rows) ** self.times
        if self.is_inverse:
            turns = turns.conj()
        if self.is_exchanged:
            turns = 1j * turns.conj()
        size = self._size(target, rows, turns.shape[1])
        cosine = turns.real * self.factor * size ** self.powers[0]
        sine = turns.imag * self.factor * size ** self.powers[1]
        if self.dtype is not None:
            cosine, sine = rounded(cosine, self.dtype), rounded(sine, self.dtype)
        return cosine, sine

    def undone(self, turns: Complexes, target: Target, rows: Indices) -> Complexes:
        """Give the turns that this made others of, but for their multiple."""
        size = self._size(target, rows, turns.shape[1])
        cosine, sine = (
            part / size**power
            for part, power in zip((turns.real, turns.imag), self.powers, strict=True)
        )
        turns = cosine + 1j * sine
        if self.is_exchanged:
            turns = 1j * turns.conj()
        return turns.conj() if self.is_inverse else turns

    def _size(self, target: Target, rows: Indices, count: int) -> Float64s:
        source = rows if self.rows is None else self.rows[rows]
        size = target.size[source]
        return size if size.shape[1] == count else size[:, :1]


def rounded(values: Float64s, dtype: DType) -> Float64s:
    """Round numbers to a real type; what is too large for it becomes infinite."""
    elements = np.empty(values.shape, dtype=dtype.storage)
    with np.errstate(over="ignore"):
        round_into(values, elements, dtype)
    return widened(elements, dtype)
