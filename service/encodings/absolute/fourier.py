"""Random Fourier features: sines and cosines of 2π·W·x or 2π·W·ln x for weights W.

"Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional Domains" (Tancik
et al. 2020); diffusers 0.42.1 ``GaussianFourierProjection``, for noise levels and their logarithms.

The products are exact however many turns they make: numbers go into frequencies of 128 bits, and
weights are integers of a few units. A sine or cosine is within 0.9·2^-53, and a sine within
3.5·2^-53 of its own size where the angle is below an eighth of a turn, before it is rounded once to
its element type.

Fourier features of boxes: sines and cosines of each coordinate times growing frequencies.

"GLIGEN" (Li et al. 2023); diffusers 0.42.1 ``get_fourier_embeds_from_boundingbox``. Every value is
within 5·2^-53 of the formula before it is rounded once to its element type.

``/encoding/fourier`` and ``/encoding/boxes``: Fourier features of numbers that are sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np
from pydantic import Field

from service.delivery.resources import Composition
from service.encodings.family import InputArray
from service.encodings.fields import Parameters, RealDType, dtype_field
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics import frequencies as scaling
from service.numerics.document import Document
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, DType, Elements, round_into, to_float64
from service.numerics.frequencies import Decimals
from service.numerics.limits import MAX_CHANNELS, MAX_FACTOR
from service.numerics.phase import (
    TWO_PI,
    FixedPointFrequencies,
    Float64s,
    Int64s,
    exact_context,
    fixed_point,
    sin_cos,
)
from service.numerics.phasors import Channels
from service.numerics.real_positions import (
    MIN_REAL_POSITION,
    RealPhasorTable,
    first_out_of_range,
    max_units,
    split_units,
)
from service.numerics.tables import FREQUENCY_WORK, RowTable, StoredTable, row_steps

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
        frequencies = FREQUENCY_WORK * max_units(len(self.weight))
        return len(self.numbers) * (frequencies + (_LOGARITHM_WORK if self.is_log else 0))

    @property
    def row_width(self) -> int:
        """Channels in a row."""
        return 2 * len(self.weight)

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        count = len(self.weight)
        for part in row_steps(len(rows), _ARRAYS * count):
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
        integers, exponents = split_units(self.weight)
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


# Arrays of a row's width that one step goes through.


@dataclass(frozen=True)
class BoxFrequencies:
    """The frequencies temperature^(k/count) for k = 0 … count − 1."""

    temperature: float
    count: int

    def exact(self) -> Decimals:
        """Evaluate them, in radians per unit of a coordinate."""
        context = exact_context()
        logarithm = context.ln(Decimal(self.temperature))
        ratio = context.exp(context.divide(logarithm, Decimal(self.count)))
        return scaling.powers(ratio, self.count)


_AXES = ("batch", "box", "channel")


def embedded(*, boxes: Float64s, embed_dim: int, temperature: float, dtype: DType) -> Document:
    """Describe the features of boxes (…, 4): a table (…, 8·embed_dim).

    Args:
        boxes: coordinates, none out of range, with up to two axes before the four of them.
        embed_dim: frequencies of each coordinate.
        temperature: the frequency that would come after the last.
        dtype: a real element type.
    """
    table = BoxTable(BoxFrequencies(temperature, embed_dim), boxes, dtype)
    parameters = {"embed_dim": embed_dim, "temperature": temperature}
    axes = _AXES[-boxes.ndim :]
    return Document("encoding-boxes", parameters, {"boxes": table}, axes=axes, states_axes=True)


@dataclass(frozen=True, eq=False)
class _Coordinates:
    values: Float64s

    def at(self, start: int, stop: int) -> Float64s:
        return self.values[start:stop]


@dataclass(frozen=True, eq=False)
class BoxTable(RowTable):
    """For each frequency in turn the sines of the four coordinates, then their cosines.

    Attributes:
        rule: the frequencies.
        boxes: coordinates, shape (…, 4).
        dtype: a real element type.
    """

    rule: BoxFrequencies
    boxes: Float64s
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the boxes, with channels in place of coordinates."""
        return *self.boxes.shape[:-1], self.row_width

    @property
    def work_per_element(self) -> int:
        """As much as that of real positions, and putting them in order."""
        return 4

    @property
    def setup_work(self) -> int:
        """That of real positions."""
        return self._pairs.setup_work

    @property
    def row_width(self) -> int:
        """Channels of a box."""
        return 8 * self.rule.count

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        for part in row_steps(len(rows), _ARRAYS * self.row_width):
            start, stop = first + part.start, first + part.stop
            by_coordinate = self._pairs.read(start * self.row_width, stop * self.row_width)
            exact = by_coordinate.reshape(stop - start, 4, -1).swapaxes(1, 2)
            round_into(exact.reshape(stop - start, -1), rows[part], self.dtype)

    @cached_property
    def _pairs(self) -> RealPhasorTable:
        """Sines and cosines in turn, a row for each coordinate."""
        width, values = 2 * self.rule.count, _Coordinates(self.boxes.reshape(-1))
        channels = Channels(("sin", "cos"), interleaved=True, width=width)
        shape = len(values.values), width
        return RealPhasorTable(self.rule, channels, values, FLOAT64, shape)


class FourierParameters(Parameters):
    """Parameters of random Fourier features."""

    log: Boolean = Field(
        default=True, description="Multiply the logarithm of each number.", examples=[True]
    )
    flip_sin_to_cos: Boolean = Field(
        default=False, description="Put the cosines first.", examples=[False]
    )
    dtype: RealDType = dtype_field()


class BoxesParameters(Parameters):
    """Parameters of the features of boxes."""

    embed_dim: Integer = Field(
        ge=1,
        le=MAX_CHANNELS // 8,
        description="Frequencies of a coordinate; a box has eight times as many channels.",
        examples=[8],
    )
    temperature: Real = Field(
        default=100.0,
        ge=1,
        le=MAX_FACTOR,
        description="Base of the frequencies temperature^(k/embed_dim).",
        examples=[100],
    )
    dtype: RealDType = dtype_field()


def _fourier(parameters: FourierParameters, arrays: Mapping[str, StoredTable]) -> Document:
    weight, x = _exact(arrays, "weight"), _numbers(arrays, log=parameters.log)
    if len(weight) > MAX_CHANNELS // 2:
        rule = f"weight has {len(weight)} elements, and at most {MAX_CHANNELS // 2} are possible"
        raise InvalidBody(rule, "/weight")
    return gaussian(
        weight=weight,
        x=x,
        log=parameters.log,
        flip_sin_to_cos=parameters.flip_sin_to_cos,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _numbers(arrays: Mapping[str, StoredTable], *, log: bool) -> Float64s:
    """Give the numbers; raises InvalidBody unless each, or its logarithm, has exact products."""
    x = to_float64(arrays["x"].elements, arrays["x"].dtype) if log else _exact(arrays, "x")
    if log:
        wrong = ~((x > 0) & (x < np.inf))
        rule = "must be positive and finite where log=true"
    else:
        wrong, rule = np.abs(x) > MAX_NUMBER, f"must be at most {MAX_NUMBER:g} in size"
    if wrong.any():
        value = float(x[wrong.argmax()])
        raise InvalidBody(f"elements of x {rule}, and {value:g} is not", "/x", to_query(value))
    distinct = len(np.unique(x))
    if distinct > MAX_NUMBERS:
        rule = f"x has {distinct} different elements, and at most {MAX_NUMBERS} are possible"
        raise InvalidBody(f"{rule}: send it in parts", "/x")
    return x


def _exact(arrays: Mapping[str, StoredTable], name: str) -> Float64s:
    """Give the float64 values of an array; raises InvalidBody for one without exact angles."""
    values = to_float64(arrays[name].elements, arrays[name].dtype)
    out = first_out_of_range(values.reshape(-1))
    if out is not None:
        rule = f"must lie within ±2^62, and be 0 or {MIN_REAL_POSITION:g} at least in size"
        detail = f"elements of {name} {rule}, and {out:g} is not"
        raise InvalidBody(detail, f"/{name}", to_query(out))
    return values


def _boxes(parameters: BoxesParameters, arrays: Mapping[str, StoredTable]) -> Document:
    coordinates = _exact(arrays, "boxes")
    if coordinates.shape[-1] != 4:
        rule = f"boxes has {coordinates.shape[-1]} coordinates each, and must have 4"
        raise InvalidBody(rule, "/boxes")
    return embedded(
        boxes=coordinates,
        embed_dim=parameters.embed_dim,
        temperature=parameters.temperature,
        dtype=REAL_DTYPES[parameters.dtype],
    )


FOURIER = Composition(
    path="/encoding/fourier",
    operation="EncodingFourier",
    summary="Random Fourier features of numbers: sines and cosines of 2π·weight·ln x",
    parameters=FourierParameters,
    inputs=(
        InputArray("x", "numbers, noise levels for instance", ranks=(1,), example=[0.5, 1.0, 80.0]),
        InputArray(
            "weight",
            "random weights, already multiplied by their scale",
            ranks=(1,),
            example=[0.25, -1.5],
        ),
    ),
    document=_fourier,
    example="log=true",
)
BOXES = Composition(
    path="/encoding/boxes",
    operation="EncodingBoxes",
    summary="Fourier features of boxes",
    parameters=BoxesParameters,
    inputs=(
        InputArray(
            "boxes",
            "boxes of four coordinates each, the last axis, by box and batch where there are "
            "such axes",
            ranks=(1, 2, 3),
            example=[[0.125, 0.25, 0.5, 0.75]],
        ),
    ),
    document=_boxes,
    example="embed_dim=2",
)
