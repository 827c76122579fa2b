"""Claims that an array was made in some arithmetic: what each says about rows, and how exactly."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from service.analysis.identifying.arithmetic import (
    EMULATION_LOSS,
    EXACT,
    FLOAT32,
    FLOAT32_FREQUENCY_LOSS,
    FLOAT32_LOSS,
    FLOAT64,
    Arithmetic,
)
from service.analysis.identifying.emulation import Emulation
from service.analysis.identifying.emulation_candidates import (
    NARROW,
    exact_emulation,
    float32_emulations,
    loosest_float32,
    narrow_emulations,
)
from service.analysis.identifying.verification_rows import TableRows
from service.analysis.question import Turning
from service.tables.angle import Float64s
from service.tables.dtypes import DType, rounding_bound

# Of the largest number, where each is a sum, or has a sine that is not told apart.
SUMMED_ROUNDINGS = 16

_LEAST_SHARE = 0.5

Predicted = tuple[Float64s, Float64s]


class Claim(Protocol):
    """What an arithmetic says an array holds."""

    @property
    def arithmetic(self) -> Arithmetic:
        """The arithmetic that is claimed."""

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:
        """Give what rows of the array of a name hold, and how far each number may be from it.

        Args:
            name: which array.
            rows: which of its rows, (S,).
            exact: what these rows of the table hold, (S, C).
        """


@dataclass(frozen=True)
class Exactly:
    """The claim that every number is that of the table."""

    arithmetic: Arithmetic = EXACT

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:  # noqa: ARG002
        """Give the table itself, and no room beside it."""
        return exact, np.zeros_like(exact)


@dataclass(eq=False)
class Turned:
    """The claim that an emulation gives every number, once it is rounded to the array's type.

    Attributes:
        emulation: what gives it.
        dtype: the type of the array's elements.
    """

    emulation: Emulation
    dtype: DType
    _last: tuple[np.ndarray, Mapping[str, Predicted]] | None = None

    @property
    def arithmetic(self) -> Arithmetic:
        """That of the emulation."""
        return self.emulation.arithmetic

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:
        """Emulate rows; those that are zeros in the table, as that of padding, stay zeros."""
        # Cosines and sines of the same rows are asked for one after the other.
        if self._last is None or self._last[0] is not rows:
            self._last = (rows, self.emulation.predict(rows))
        values, allowed = self._last[1][name]
        blank = ~exact.any(axis=1, keepdims=True)
        room = allowed + half_spacing(np.abs(values) + allowed, self.dtype)
        return np.where(blank, 0.0, values), np.where(blank, 0.0, room)


@dataclass(frozen=True, eq=False)
class Computed:
    """The claim that numbers without angles are within a few roundings of the exact ones.

    Attributes:
        arithmetic: what it was computed in.
        wide: the table in float64, by the name of the array.
        loss: how far numbers may be off, as a share of them.
        peak_loss: the same as a share of the largest, by the name of the array.
        dtype: the type of the array's elements.
    """

    arithmetic: Arithmetic
    wide: Mapping[str, TableRows]
    loss: float
    peak_loss: Mapping[str, float]
    dtype: DType

    def predict(self, name: str, rows: np.ndarray, exact: Float64s) -> Predicted:  # noqa: ARG002
        """Give the rows of the table in float64, and the room that roundings need."""
        values = self.wide[name].read(rows)
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
        room = self.loss * sizes + self.peak_loss[name]
        room += half_spacing(sizes + room, self.dtype)
        return values, np.where(np.isfinite(values), room, 0.0)


def half_spacing(values: Float64s, dtype: DType) -> Float64s:
    """Bound by how much rounding to a type moves values: by half of a step, taken as a share."""
    return np.abs(values) * rounding_bound(dtype, 1.0) + rounding_bound(dtype, 0.0)


def turned_claims(
    turning: Turning, rows: np.ndarray, have: Mapping[str, Float64s], dtype: DType
) -> Iterator[Turned]:
    """List what an array of angles may have been computed in, the most exact first.

    Args:
        turning: the angles.
        rows: the rows to measure the frequencies in, (S,).
        have: what they hold, (S, C) by name.
        dtype: the type of the array's elements.
    """
    yield Turned(exact_emulation(turning), dtype)
    loosest = Turned(loosest_float32(turning), dtype)
    # A few wrong numbers among right ones are to be told from right ones, not from nothing.
    shares = [agrees(loosest, name, rows, held, held).mean() for name, held in have.items()]
    if min(shares) >= _LEAST_SHARE:
        for emulation in float32_emulations(turning, rows, have, dtype):
            yield Turned(emulation, dtype)
    for narrow in (dtype,) if dtype in NARROW else NARROW:
        for emulation in narrow_emulations(turning, rows, have, dtype, narrow):
            yield Turned(emulation, dtype)


def computed_claims(
    wide: Mapping[str, TableRows], peaks: Mapping[str, float], dtype: DType, roundings: int
) -> Iterator[Computed]:
    """List what an array without angles may have been computed in, the most exact first.

    Args:
        wide: the table in float64, by the name of the array.
        peaks: the largest number of each array, by name.
        dtype: the type of the array's elements.
        roundings: by how many roundings of the largest number each may be off: none where each
            is a power or a product of its own.
    """
    share = roundings / SUMMED_ROUNDINGS
    double = {name: EMULATION_LOSS * share * peak for name, peak in peaks.items()}
    yield Computed(FLOAT64, wide, EMULATION_LOSS, double, dtype)
    single = {name: FLOAT32_LOSS * share * peak for name, peak in peaks.items()}
    loss = FLOAT32_FREQUENCY_LOSS if roundings < SUMMED_ROUNDINGS else 0.0
    yield Computed(FLOAT32, wide, loss, single, dtype)


def agrees(
    claim: Claim, name: str, rows: np.ndarray, have: Float64s, exact: Float64s
) -> np.ndarray:
    """Tell for each number of rows whether it is what a claim allows it to be, (S, C)."""
    predicted, allowed = claim.predict(name, rows, exact)
    with np.errstate(invalid="ignore"):
        near = np.abs(have - predicted) <= allowed
    good: np.ndarray = near | (have == predicted)
    return good
