"""Fourier features: sines and cosines of numbers times random weights, and of box coordinates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from service.encodings.family import (
    ComposedFamily,
    InputArray,
    RealDType,
    about,
)
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics.dtypes import FLOAT64, DType, Elements, round_into, to_float64
from service.numerics.evaluation import sin_cos
from service.numerics.limits import MAX_CHANNELS, MAX_FACTOR
from service.numerics.phase import (
    FREQUENCY_SECONDS,
    TWO_PI,
    FixedPointFrequencies,
    Float64s,
    Geometric,
    Int64s,
    exact_context,
    exact_series,
    fixed_point,
)
from service.numerics.phasors import Channels, RealPhasorTable
from service.numerics.positions import (
    MIN_REAL_POSITION,
    are_out_of_range,
    first_out_of_range,
    split_units,
)
from service.numerics.setups import OwnSetup, Setup, Setups, Steps, convert_decimals
from service.numerics.tables import (
    ELEMENT_SECONDS,
    Document,
    FormulaTable,
    StoredTable,
    Table,
    read_blocks,
    row_steps,
    size,
)

MAX_NUMBERS = 4096
"""The most distinct numbers: a logarithm takes as long as 20 frequencies."""

MAX_NUMBER = 1e17
"""The largest number: 2π times it is still in the range of phases."""

_LOGARITHM_SECONDS = 6e-5

# The processor seconds of finding an element among the distinct ones, and of checking one.
_SORTED_SECONDS = 2e-8
_CHECKED_SECONDS = 2e-9

_FIRST_BOXES = 4096

# The number of arrays as wide as a row that one step needs.
_ARRAYS = 6


class RandomFourierFeatures(ComposedFamily, path="/encoding/fourier"):
    """Sines and cosines of numbers times random weights: (rows, 2·weights).

    x has at most 4096 different elements, positive and finite; with log=false they are 0 or 1e-30
    to 1e17 in size. Weights are 0 or 1e-30 to 2^62 in size.

    Formula: sin(2π·w·ln x) for all weights w, then cos(2π·w·ln x); with log=false the angle is
        2π·w·x; with flip_sin_to_cos=true the cosines come first. Angles of any size are exact:
        numbers become frequencies of 128 bits, and weights are integer multiples of a few powers of
        two.
    Source: "Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional
        Domains" (Tancik et al. 2020); diffusers 0.42.1 ``GaussianFourierProjection``, for noise
        levels and their logarithms.
    Bound: 0.9u, u = 2^-53, before the single rounding to the element type; a sine is within 3.5u
        relative if the angle is below π/4.
    Trap: log is true by default. The weights of a checkpoint are already multiplied by the model's
        scale (16 in score models): weights that are multiplied again, or drawn anew, give features
        of the right shape, but not those that the model was trained with.
    """

    example: ClassVar[str] = "log=true"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "x", "numbers, for instance noise levels, (rows,)", ranks=(1,), example=[0.5, 1.0, 80.0]
        ),
        InputArray(
            "weight",
            "random weights, already multiplied by their scale, (weights,)",
            ranks=(1,),
            example=[0.25, -1.5],
        ),
    )

    log: Boolean = about("Whether the weights multiply ln x instead of x.", True, default=True)
    flip_sin_to_cos: Boolean = about("Whether the cosines come first.", False, default=False)
    dtype: RealDType = "float32"

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        weights = size(arrays["weight"])
        if weights > MAX_CHANNELS // 2:
            rule = f"weight has {weights} elements, but at most {MAX_CHANNELS // 2} are possible"
            raise InvalidBody(rule, "/weight")
        _check_range("weight", weight := _float64_part(arrays["weight"], slice(weights)))
        x = arrays["x"]
        numbers = OwnSetup.checked(partial(self._numbers, x), _SORTED_SECONDS * size(x))
        table = GaussianTable(numbers, self.log, x, weight, self.flip_sin_to_cos, self.element_type)
        axes = ("row", "channel")
        return self.describe({"fourier": table}, self.canonical(), axes=axes, states_axes=True)

    def _numbers(self, x: StoredTable) -> Steps[Float64s]:
        """Return the distinct elements of x, sorted, float64; raises InvalidBody."""
        numbers = np.empty(0)
        for step in row_steps(size(x), 1):
            # Integers are sorted in two thirds of the time.
            bits = x.read(step.start, step.stop).view(f"<u{x.dtype.itemsize_bytes}")
            some = to_float64(np.unique(bits).view(x.dtype.storage), x.dtype)
            if self._are_wrong(some).any():
                self._refuse(_float64_part(x, step))
            numbers = np.union1d(numbers, some)
            if len(numbers) > MAX_NUMBERS:
                rule = f"x has more than {MAX_NUMBERS} different elements"
                raise InvalidBody(f"{rule}: send it in parts", "/x")
            yield
        return numbers

    def _are_wrong(self, numbers: Float64s) -> NDArray[np.bool_]:
        if self.log:
            return np.asarray(~((numbers > 0) & (numbers < np.inf)))
        return np.asarray(are_out_of_range(numbers) | (np.abs(numbers) > MAX_NUMBER))

    def _refuse(self, numbers: Float64s) -> None:
        """Raise InvalidBody for the first number that is out of range."""
        rule = "must be positive and finite with log=true"
        if not self.log:
            _check_range("x", numbers)
            rule = f"must be at most {MAX_NUMBER:g} in size"
        value = float(numbers[self._are_wrong(numbers).argmax()])
        raise InvalidBody(f"elements of x {rule}, and {value:g} is not", "/x", to_query(value))


class BoxFourierFeatures(ComposedFamily, path="/encoding/boxes"):
    """Sines and cosines of the coordinates of boxes (…, 4): (…, 8·embed_dim).

    Coordinates are 0 or 1e-30 to 2^62 in size.

    Formula: for each k = 0 … embed_dim − 1, sin(c·ω_k) of the four coordinates c, then cos(c·ω_k)
        of the four, ω_k = temperature^(k/embed_dim), without a factor of 2π.
    Source: "GLIGEN" (Li et al. 2023); diffusers 0.42.1 ``get_fourier_embeds_from_boundingbox``.
    Bound: 5·2^-53 before the single rounding to the element type.
    Trap: channels are ordered by frequency, then sine or cosine, then coordinate; code that
        concatenates the sines and cosines of one coordinate after the other has the same numbers in
        another order.
    """

    example: ClassVar[str] = "embed_dim=2"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "boxes",
            "boxes (batch, box, 4), (box, 4) or (4,): the last axis is the four coordinates",
            ranks=(1, 2, 3),
            example=[[0.125, 0.25, 0.5, 0.75]],
        ),
    )

    embed_dim: Integer = about(
        "Number of frequencies of a coordinate; a box has 8·embed_dim channels.",
        8,
        ge=1,
        le=MAX_CHANNELS // 8,
    )
    temperature: Real = about(
        "The temperature in the frequencies temperature^(k/embed_dim).",
        100,
        default=100.0,
        ge=1,
        le=MAX_FACTOR,
    )
    dtype: RealDType = "float32"

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        boxes = arrays["boxes"]
        # The setup of the table reads the first ones.
        _check_range("boxes", _float64_part(boxes, slice(min(4 * _FIRST_BOXES, size(boxes)))))
        check = OwnSetup.checked(partial(_check_boxes, boxes), _CHECKED_SECONDS * size(boxes))
        if boxes.shape[-1] != 4:
            rule = f"each box has {boxes.shape[-1]} coordinates, but must have 4"
            raise InvalidBody(rule, "/boxes")
        # b^(−2k/dim), where dim is −2·embed_dim, is b^(k/embed_dim).
        frequencies = Geometric(self.temperature, -2 * self.embed_dim, self.embed_dim)
        table = _box_table(frequencies, boxes, check, self.element_type)
        axes = ("batch", "box", "channel")[-len(boxes.shape) :]
        return self.describe({"boxes": table}, self.canonical(), axes=axes, states_axes=True)


def _float64_part(table: StoredTable, part: slice) -> Float64s:
    return to_float64(table.read(part.start or 0, part.stop), table.dtype)


def _check_range(name: str, values: Float64s) -> None:
    """Raise InvalidBody if an element of an array is out of range."""
    out = first_out_of_range(values)
    if out is not None:
        rule = f"must be 0, or {MIN_REAL_POSITION:g} to 2^62 in size"
        detail = f"elements of {name} {rule}, and {out:g} is not"
        raise InvalidBody(detail, f"/{name}", to_query(out))


def _check_boxes(boxes: StoredTable) -> Steps[None]:
    for step in row_steps(size(boxes), 1):
        _check_range("boxes", _float64_part(boxes, step))
        yield


@dataclass(frozen=True, eq=False)
class _Weights:
    """The weights that are integer multiples of one power of two, the unit.

    Attributes:
        places: the index of each in the weight array.
        integers: weight / unit.
        frequencies: 2π·unit·|x| for each number x, or 2π·unit·|ln x|.
    """

    places: Int64s
    integers: Int64s
    frequencies: FixedPointFrequencies


@dataclass(frozen=True, eq=False)
class GaussianTable:
    """Sines and cosines of 2π·number·weight.

    Attributes:
        numbers: finds the distinct elements of x, sorted, float64.
        is_log: whether the weights multiply the logarithms of the numbers.
        x: the number of each row.
        weight: the weight of each pair of channels.
        is_flipped: whether the cosines come first.
        dtype: the element type.
    """

    numbers: OwnSetup[Float64s]
    is_log: bool
    x: StoredTable
    weight: Float64s
    is_flipped: bool
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return *self.x.shape, 2 * len(self.weight)

    element_seconds = 30 * ELEMENT_SECONDS

    @property
    def setup(self) -> Setups:
        return Setups((self.numbers, self._units))

    @cached_property
    def _units(self) -> OwnSetup[list[_Weights]]:
        is_found = self.numbers.seconds == 0
        count = len(self.numbers.get()) if is_found else min(size(self.x), MAX_NUMBERS)
        frequencies = FREQUENCY_SECONDS * len(np.unique(split_units(self.weight)[1]))
        logarithms = _LOGARITHM_SECONDS if self.is_log else 0
        return OwnSetup(self._weights, count * (frequencies + logarithms))

    def _weights(self) -> Steps[list[_Weights]]:
        """Compute the frequencies of the numbers for each unit of the weights."""
        integers, exponents = split_units(self.weight)
        context, numbers = exact_context(), map(Decimal, self.numbers.get().tolist())
        exact: list[Decimal] = []
        logarithms = map(context.ln, numbers) if self.is_log else numbers
        yield from convert_decimals(logarithms, exact.extend, _LOGARITHM_SECONDS)
        units = []
        for exponent in np.unique(exponents).tolist():
            (places,) = np.nonzero(exponents == exponent)
            radians = _radians(exact, exponent)
            parts = yield from convert_decimals(radians, fixed_point, FREQUENCY_SECONDS)
            frequencies = FixedPointFrequencies.joined(parts)
            units.append(_Weights(places, integers[places], frequencies))
            yield
        return units

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, 2 * len(self.weight), self.dtype, self._fill)

    def _fill(self, rows: range, columns: range, block: Elements) -> None:
        count = len(self.weight)
        for part in row_steps(len(rows), _ARRAYS * count):
            some = slice(rows.start + part.start, rows.start + part.stop)
            number = np.searchsorted(self.numbers.get(), _float64_part(self.x, some))
            sine, cosine = np.empty((len(number), count)), np.empty((len(number), count))
            for weights in self._units.get():
                both = sin_cos(weights.frequencies.part(number), weights.integers)
                sine[:, weights.places], cosine[:, weights.places] = both[0].T, both[1].T
            # Frequencies are computed from |number|; the sign is applied to the sine.
            sine *= self._signs[number, np.newaxis]
            halves = (cosine, sine + 0.0) if self.is_flipped else (sine + 0.0, cosine)
            exact = np.concatenate(halves, axis=1)[:, columns.start : columns.stop]
            round_into(exact, block[part], self.dtype)

    @cached_property
    def _signs(self) -> Float64s:
        return np.where(self.numbers.get() < (1.0 if self.is_log else 0.0), -1.0, 1.0)


@exact_series
def _radians(numbers: Sequence[Decimal], exponent: int) -> Iterator[Decimal]:
    """Return 2π·2^exponent·|number| for each number."""
    unit = Fraction(2) ** exponent
    per_number = TWO_PI * unit.numerator / unit.denominator
    yield from (number.copy_abs() * per_number for number in numbers)


def _box_table(rule: Geometric, boxes: StoredTable, check: Setup, dtype: DType) -> Table:
    """Return the table of boxes (…, 4): for each frequency the four sines, then four cosines."""
    row_width = 8 * rule.count
    channels = Channels(("sin", "cos"), interleaved=True, width=2 * rule.count)

    def pairs_of(rows: range) -> RealPhasorTable:
        values = _float64_part(boxes, slice(4 * rows.start, 4 * rows.stop))
        return RealPhasorTable(rule, channels, values, FLOAT64, (len(values), channels.width))

    def evaluate(rows: range, columns: range) -> Float64s:
        by_coordinate = pairs_of(rows).read(0, len(rows) * row_width)
        exact = by_coordinate.reshape(len(rows), 4, -1).swapaxes(1, 2).reshape(len(rows), -1)
        return np.asarray(exact[:, columns.start : columns.stop])

    # Nothing is shared between the coordinates, and each element is reordered.
    shape = *boxes.shape[:-1], row_width
    return FormulaTable(
        shape,
        dtype,
        row_width,
        evaluate,
        element_seconds=25 * ELEMENT_SECONDS,
        # The coordinates of the first boxes have most of the units.
        setup=Setups((check, pairs_of(range(min(_FIRST_BOXES, size(boxes) // 4))).setup)),
    )
