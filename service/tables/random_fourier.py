"""Random Fourier features: sines and cosines of 2π·W·x or 2π·W·ln x for weights W.

"Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains" (Tancik
et al. 2020); diffusers 0.42.1 ``GaussianFourierProjection``, for noise levels and their logarithms.

The products are exact however many turns they make: numbers go into frequencies of 128 bits, and
weights are integers of a few units. A sine or cosine is within 0.9·2^-53, and a sine within
3.5·2^-53 of its own size where the angle is below an eighth of a turn, before it is rounded once to
its element type.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np

from service.tables.angle import (
    TWO_PI,
    FixedPointFrequencies,
    Float64s,
    Int64s,
    exact_context,
    fixed_point,
    sin_cos,
)
from service.tables.document import Document
from service.tables.dtypes import DType, Elements, round_into
from service.tables.real_positions import counted, most_units
from service.tables.scaling import Decimals
from service.tables.table import FREQUENCY_WORK, RowTable, steps

MAX_NUMBERS = 4096
"""Distinct numbers: the logarithm of one takes as long as a dozen frequencies."""

MAX_NUMBER = 1e17
"""How large numbers may be, so that 2π times as much is in the range of phases."""

_LOGARITHM_WORK = 2**12

# Arrays of a row's width that one step goes through.
_ARRAYS = 6


def gaussian(
    *, weight: Float64s, x: Float64s, log: bool, flip_sin_to_cos: bool, dtype: DType
) -> Document:
    """Describe the features of numbers x (rows,) under weights (E,): a table (rows, 2E).

    Args:
        weight: already multiplied by the scale that the library has for them; none out of range.
        x: at most MAX_NUMBERS different ones, none out of range or beyond MAX_NUMBER; of their
            logarithms, any that are finite and positive.
        log: whether the logarithm of x is multiplied.
        flip_sin_to_cos: whether the cosines come first.
        dtype: a real element type.
    """
    numbers, row = np.unique(x, return_inverse=True)
    table = GaussianTable(numbers, log, row, weight, flip_sin_to_cos, dtype)
    parameters = {"log": log, "flip_sin_to_cos": flip_sin_to_cos}
    return Document(
        "encoding-fourier",
        parameters,
        {"fourier": table},
        axes=("row", "channel"),
        states_axes=True,
    )


@dataclass(frozen=True, eq=False)
class _Weights:
    """Weights of one unit: integers in places, and the frequency of that unit for each number."""

    places: Int64s
    integers: Int64s
    frequencies: FixedPointFrequencies


@dataclass(frozen=True, eq=False)
class GaussianTable(RowTable):
    """Sines and cosines of whole and broken turns, number times weight of them.

    Attributes:
        numbers: the different ones.
        is_log: whether their logarithms are multiplied.
        row: which of them each row is of.
        weight: one for each pair of channels.
        is_flipped: whether the cosines come first.
        dtype: a real element type.
    """

    numbers: Float64s
    is_log: bool
    row: Int64s
    weight: Float64s
    is_flipped: bool
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows by channels."""
        return len(self.row), 2 * len(self.weight)

    @property
    def work_per_element(self) -> int:
        """As much as two sines: nothing is shared between rows."""
        return 2

    @property
    def setup_work(self) -> int:
        """A frequency for each number and unit, and the logarithm of each number."""
        frequencies = FREQUENCY_WORK * most_units(len(self.weight))
        return len(self.numbers) * (frequencies + (_LOGARITHM_WORK if self.is_log else 0))

    @property
    def row_width(self) -> int:
        """Channels in a row."""
        return 2 * len(self.weight)

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        count = len(self.weight)
        for part in steps(len(rows), _ARRAYS * count):
            number = self.row[first + part.start : first + part.stop]
            sine, cosine = np.empty((len(number), count)), np.empty((len(number), count))
            for weights in self._units:
                found = sin_cos(weights.frequencies.part(number), weights.integers)
                sine[:, weights.places], cosine[:, weights.places] = found[0].T, found[1].T
            # Frequencies are those of magnitudes: a negative angle keeps its last bits, too.
            sine *= self._signs[number, np.newaxis]
            halves = (cosine, sine + 0.0) if self.is_flipped else (sine + 0.0, cosine)
            round_into(np.concatenate(halves, axis=1), rows[part], self.dtype)

    @cached_property
    def _signs(self) -> Float64s:
        return np.array([-1.0 if number.is_signed() else 1.0 for number in self._exact])

    @cached_property
    def _exact(self) -> Decimals:
        """Give the numbers, or their logarithms; each for itself, so that other threads go on."""
        context = exact_context()
        exact = [Decimal(number) for number in self.numbers.tolist()]
        return [context.ln(number) for number in exact] if self.is_log else exact

    @cached_property
    def _units(self) -> Sequence[_Weights]:
        integers, exponents = counted(self.weight)
        units = []
        for exponent in np.unique(exponents).tolist():
            (places,) = np.nonzero(exponents == exponent)
            unit = _radians(self._exact, exponent)
            units.append(_Weights(places, integers[places], fixed_point(unit)))
        return units


def _radians(numbers: Sequence[Decimal], exponent: int) -> Decimals:
    """Give 2π·2^exponent times the size of each number."""
    context = exact_context()
    unit = Fraction(2) ** exponent
    per_number = context.divide(context.multiply(TWO_PI, unit.numerator), unit.denominator)
    return [context.multiply(number.copy_abs(), per_number) for number in numbers]
