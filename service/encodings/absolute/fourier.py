"""Fourier features: of numbers under random weights, and of the corners of boxes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from service.encodings.family import (
    ComposedFamily,
    InputArray,
    RealDType,
    about,
)
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics.dtypes import FLOAT64, DType, Elements, round_into, to_float64
from service.numerics.limits import MAX_CHANNELS, MAX_FACTOR
from service.numerics.phase import (
    TWO_PI,
    Decimals,
    FixedPointFrequencies,
    Float64s,
    Geometric,
    Int64s,
    exact_arithmetic,
    exact_context,
    fixed_point,
    sin_cos,
)
from service.numerics.phasors import Channels, RealPhasorTable
from service.numerics.positions import MIN_REAL_POSITION, first_out_of_range, max_units, split_units
from service.numerics.tables import (
    FREQUENCY_WORK,
    Document,
    FormulaTable,
    StoredTable,
    Table,
    read_blocks,
    row_steps,
)

MAX_NUMBERS = 4096
"""Distinct numbers: each logarithm takes as long as a dozen frequencies."""

MAX_NUMBER = 1e17
"""The largest number: 2π times it is still in the range of phases."""

_LOGARITHM_WORK = 2**12

# Arrays of a row's width in one step.
_ARRAYS = 6


class RandomFourierFeatures(ComposedFamily, path="/encoding/fourier"):
    """Sines and cosines of numbers under random weights, (rows, 2·weights).

    x has at most 4096 different elements: positive and finite, or with log=false up to 1e17 in
    size, and 0 or at least 1e-30. Weights are within ±2^62, and 0 or at least 1e-30 in size.

    Formula: sin(2π·w·ln x) and then cos(2π·w·ln x), or of 2π·w·x where log=false; the cosines
        first where flipped. Products are exact however many turns they make: numbers go into
        frequencies of 128 bits, and weights are integers of a few units.
    Source: "Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional
        Domains" (Tancik et al. 2020); diffusers 0.42.1 ``GaussianFourierProjection``, for noise
        levels and their logarithms.
    Bound: 0.9u, u = 2^-53, before the one rounding to the element type; a sine is within 3.5u of
        its own size where the angle is below an eighth of a turn.
    Trap: the logarithm is on by default. The weights of a checkpoint are already multiplied by the
        model's scale (16 in score models): multiplied again, or drawn anew, they give features of
        the right shape that no layer was trained for.
    """

    example: ClassVar[str] = "log=true"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray("x", "numbers, noise levels for instance", ranks=(1,), example=[0.5, 1.0, 80.0]),
        InputArray(
            "weight",
            "random weights, already multiplied by their scale",
            ranks=(1,),
            example=[0.25, -1.5],
        ),
    )

    log: Boolean = about("Multiply the logarithm of each number.", True, default=True)
    flip_sin_to_cos: Boolean = about("Put the cosines first.", False, default=False)
    dtype: RealDType = "float32"

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        weight, x = _exact(arrays, "weight"), self._numbers(arrays)
        if len(weight) > MAX_CHANNELS // 2:
            rule = (
                f"weight has {len(weight)} elements, and at most {MAX_CHANNELS // 2} are possible"
            )
            raise InvalidBody(rule, "/weight")
        numbers, row = np.unique(x, return_inverse=True)
        table = GaussianTable(
            numbers, self.log, row, weight, self.flip_sin_to_cos, self.element_type
        )
        axes = ("row", "channel")
        return self.describe({"fourier": table}, self.canonical(), axes=axes, states_axes=True)

    def _numbers(self, arrays: Mapping[str, StoredTable]) -> Float64s:
        """Return the numbers; raises InvalidBody unless each has exact products."""
        if self.log:
            x = to_float64(arrays["x"].elements, arrays["x"].dtype)
            is_wrong = ~((x > 0) & (x < np.inf))
            rule = "must be positive and finite where log=true"
        else:
            x = _exact(arrays, "x")
            is_wrong, rule = np.abs(x) > MAX_NUMBER, f"must be at most {MAX_NUMBER:g} in size"
        if is_wrong.any():
            value = float(x[is_wrong.argmax()])
            raise InvalidBody(f"elements of x {rule}, and {value:g} is not", "/x", to_query(value))
        distinct = len(np.unique(x))
        if distinct > MAX_NUMBERS:
            rule = f"x has {distinct} different elements, and at most {MAX_NUMBERS} are possible"
            raise InvalidBody(f"{rule}: send it in parts", "/x")
        return x


class BoxFourierFeatures(ComposedFamily, path="/encoding/boxes"):
    """Sines and cosines of the coordinates of boxes (…, 4), of shape (…, 8·embed_dim).

    Coordinates are within ±2^62, and 0 or at least 1e-30 in size.

    Formula: for k = 0 … embed_dim − 1, sin(c·ω_k) of the four coordinates c, then cos(c·ω_k), ω_k =
        temperature^(k/embed_dim), without 2π.
    Source: "GLIGEN" (Li et al. 2023); diffusers 0.42.1 ``get_fourier_embeds_from_boundingbox``.
    Bound: 5·2^-53 before the one rounding to the element type.
    Trap: the frequency is the slowest axis of the channels, and the coordinate the fastest; [sines
        ‖ cosines] of one coordinate after the other has the same numbers in other places.
    """

    example: ClassVar[str] = "embed_dim=2"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "boxes",
            "boxes of four coordinates each, the last axis, by box and batch where there are "
            "such axes",
            ranks=(1, 2, 3),
            example=[[0.125, 0.25, 0.5, 0.75]],
        ),
    )

    embed_dim: Integer = about(
        "Frequencies of a coordinate; a box has eight times as many channels.",
        8,
        ge=1,
        le=MAX_CHANNELS // 8,
    )
    temperature: Real = about(
        "Base of the frequencies temperature^(k/embed_dim).",
        100,
        default=100.0,
        ge=1,
        le=MAX_FACTOR,
    )
    dtype: RealDType = "float32"

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        boxes = _exact(arrays, "boxes")
        if boxes.shape[-1] != 4:
            rule = f"boxes has {boxes.shape[-1]} coordinates each, and must have 4"
            raise InvalidBody(rule, "/boxes")
        # b^(−2k/dim), where dim is −2·embed_dim, is b^(k/embed_dim).
        frequencies = Geometric(self.temperature, -2 * self.embed_dim, self.embed_dim)
        table = _box_table(frequencies, boxes, self.element_type)
        axes = ("batch", "box", "channel")[-boxes.ndim :]
        return self.describe({"boxes": table}, self.canonical(), axes=axes, states_axes=True)


def _exact(arrays: Mapping[str, StoredTable], name: str) -> Float64s:
    """Return the float64 values of an array; raises InvalidBody for one without exact angles."""
    values = to_float64(arrays[name].elements, arrays[name].dtype)
    out = first_out_of_range(values.reshape(-1))
    if out is not None:
        rule = f"must lie within ±2^62, and be 0 or {MIN_REAL_POSITION:g} at least in size"
        detail = f"elements of {name} {rule}, and {out:g} is not"
        raise InvalidBody(detail, f"/{name}", to_query(out))
    return values


@dataclass(frozen=True, eq=False)
class _Weights:
    """The weights of one unit: their places, integers, and the unit's frequency of each number."""

    places: Int64s
    integers: Int64s
    frequencies: FixedPointFrequencies


@dataclass(frozen=True, eq=False)
class GaussianTable:
    """Sines and cosines of 2π·number·weight.

    Attributes:
        numbers: distinct ones.
        is_log: whether their logarithms are multiplied.
        row: the index into numbers of each row.
        weight: one for each pair of channels.
        is_flipped: whether the cosines come first.
    """

    numbers: Float64s
    is_log: bool
    row: Int64s
    weight: Float64s
    is_flipped: bool
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.row), 2 * len(self.weight)

    work_per_element = 2

    @property
    def setup_work(self) -> int:
        frequencies = FREQUENCY_WORK * max_units(len(self.weight))
        return len(self.numbers) * (frequencies + (_LOGARITHM_WORK if self.is_log else 0))

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, 2 * len(self.weight), self.dtype, self._fill)

    def _fill(self, rows: range, columns: range, block: Elements) -> None:
        count = len(self.weight)
        for part in row_steps(len(rows), _ARRAYS * count):
            number = self.row[rows.start + part.start : rows.start + part.stop]
            sine, cosine = np.empty((len(number), count)), np.empty((len(number), count))
            for weights in self._units:
                both = sin_cos(weights.frequencies.part(number), weights.integers)
                sine[:, weights.places], cosine[:, weights.places] = both[0].T, both[1].T
            # Frequencies are those of magnitudes: a negative angle keeps its last bits, too.
            sine *= self._signs[number, np.newaxis]
            halves = (cosine, sine + 0.0) if self.is_flipped else (sine + 0.0, cosine)
            exact = np.concatenate(halves, axis=1)[:, columns.start : columns.stop]
            round_into(exact, block[part], self.dtype)

    @cached_property
    def _signs(self) -> Float64s:
        return np.array([-1.0 if number.is_signed() else 1.0 for number in self._exact])

    @cached_property
    def _exact(self) -> Decimals:
        """The numbers or their logarithms, one at a time, so that other threads run between."""
        context = exact_context()
        exact = [Decimal(number) for number in self.numbers.tolist()]
        return [context.ln(number) for number in exact] if self.is_log else exact

    @cached_property
    def _units(self) -> Sequence[_Weights]:
        integers, exponents = split_units(self.weight)
        units = []
        for exponent in np.unique(exponents).tolist():
            (places,) = np.nonzero(exponents == exponent)
            unit = _radians(self._exact, exponent)
            units.append(_Weights(places, integers[places], fixed_point(unit)))
        return units


@exact_arithmetic
def _radians(numbers: Sequence[Decimal], exponent: int) -> Decimals:
    """Return 2π·2^exponent times the size of each number."""
    unit = Fraction(2) ** exponent
    per_number = TWO_PI * unit.numerator / unit.denominator
    return [number.copy_abs() * per_number for number in numbers]


def _box_table(rule: Geometric, boxes: Float64s, dtype: DType) -> Table:
    """Return for boxes (…, 4), frequency by frequency, the four sines and the four cosines."""
    values, row_width = boxes.reshape(-1), 8 * rule.count
    channels = Channels(("sin", "cos"), interleaved=True, width=2 * rule.count)
    pairs = RealPhasorTable(rule, channels, values, FLOAT64, (len(values), 2 * rule.count))

    def evaluate(rows: range, columns: range) -> Float64s:
        by_coordinate = pairs.read(rows.start * row_width, rows.stop * row_width)
        exact = by_coordinate.reshape(len(rows), 4, -1).swapaxes(1, 2).reshape(len(rows), -1)
        return np.asarray(exact[:, columns.start : columns.stop])

    # Two sines an element, and as much again to put them in order.
    shape = *boxes.shape[:-1], row_width
    return FormulaTable(
        shape, dtype, row_width, evaluate, work_per_element=4, setup_work=pairs.setup_work
    )
