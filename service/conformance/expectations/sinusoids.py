"""Expectations of sinusoids: the tolerance of each sine and cosine, by the roundings of its angle.

The angle p·ω of an implementation in float32 is wrong by at most |p|·ω·u·c, and a sine moves by no
more than its angle. c counts the roundings of the frequency and of the position. A frequency b^−e
costs 3·e·ln b (logarithm, quotient, product, each of a number that is exponentiated), the
exponential 2, its reciprocal 1, the product with the position 1; a frequency of 1 costs nothing.
Coordinates of grids, fractional timesteps and factors of frequencies cost their own operations.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.conformance.questions import Numbers, Question, numbers_of
from service.conformance.tolerance import (
    MOST_ANGLE,
    MOST_COUNTED,
    POWER,
    UNIT,
    Expectation,
    Expected,
    rounded_up,
)
from service.encodings.absolute.conventions import ZeroRow
from service.encodings.grid.sincos import GridTable, Layout, lanes
from service.numerics.axes import AxesTable
from service.numerics.dtypes import INDEX_DTYPES
from service.numerics.phase import (
    Float64s,
    FrequencyRule,
    Geometric,
    PixelBands,
    ScaledFrequencies,
    ScaledGeometric,
    TimesTwoPi,
)
from service.numerics.phasors import Channels, PhasorTable, RealPhasorTable
from service.numerics.repeated_rows import RepeatedRows
from service.numerics.tables import Table, size

# A coordinate between neighbours is a sum, a quotient and a product, times a scale.
_COORDINATE = 4.0
# An end, a quotient and a product of coordinates from −1 to 1, all relative to 1.
_END_TO_END = 3.0


@dataclass(frozen=True, eq=False)
class RoundedRates:
    """The frequencies of a rule, and the roundings of the product of each with a position."""

    frequencies: Float64s
    roundings: Float64s

    @classmethod
    def of(cls, rule: FrequencyRule) -> "RoundedRates":
        """Return the waves of a rule."""
        if isinstance(rule, ScaledFrequencies | TimesTwoPi):
            frequencies = np.array([float(each) for each in rule.exact()])
            return cls(frequencies, cls.of(rule.rule).roundings + 2)
        exact = list(rule.exact())
        frequencies = np.array([float(each) for each in exact])
        if isinstance(rule, PixelBands):
            # A band is a sum, a quotient and a product; π and two products follow.
            return cls(frequencies, np.full(len(exact), 6.0))
        spread = np.array([abs(float((each / exact[0]).ln())) for each in exact])
        counted = 3 * spread + POWER
        if isinstance(rule, ScaledGeometric):
            # The quotient of the ends, and two factors. From the highest to the lowest, the
            # exponent of each frequency is a difference of logarithms as large as all of them.
            is_descending = rule.first == rule.greatest
            counted = 3 * (spread.max() if is_descending else spread) + POWER + 3
        return cls(frequencies, np.where(frequencies == 1, 0.0, counted))

    def errors(self, positions: Numbers, roundings: float = 0.0) -> Float64s:
        """Return the error of each angle, (m, n), of positions (m,) with roundings of their own."""
        size = np.abs(np.asarray(positions, dtype=np.float64))[:, np.newaxis]
        counted = self.roundings + roundings + (size > MOST_COUNTED) + (size != np.round(size))
        errors: Float64s = size * self.frequencies * counted * UNIT
        return errors


def in_channels(errors: Float64s, channels: Channels) -> Float64s:
    """Return errors of angles, (m, n), in the channels of a row, (m, width); 0 for zeros."""
    index, _ = channels.indices()
    found = errors[:, index]
    channels.blank(found)
    return found


def errors_of(table: Table) -> Float64s:
    """Return the error of the angle of each number of a table of sinusoids, of its shape."""
    if isinstance(table, RepeatedRows):
        return errors_of(table.table)
    if isinstance(table, GridTable):
        return _of_layout(table.layout, table.width).reshape(table.shape)
    rows = size(table) // table.shape[-1]
    if isinstance(table, ZeroRow):
        found = errors_of(table.table).reshape(rows, -1)
        found[table.positions.at(0, rows) == table.zero] = 0
        return found.reshape(table.shape)
    if isinstance(table, AxesTable):
        (axis,) = table.axes
        found = RoundedRates.of(axis.rule).errors(axis.positions.at(0, rows))
        return in_channels(found, table.channels).reshape(table.shape)
    assert isinstance(table, PhasorTable | RealPhasorTable)
    positions = table.positions
    numbers = positions if isinstance(positions, np.ndarray) else positions.at(0, rows)
    found = RoundedRates.of(table.rule).errors(numbers)
    return in_channels(found, table.channels).reshape(table.shape)


def _of_layout(layout: Layout, width: int) -> Float64s:
    """Return the errors of the tokens of a grid, (rows, width)."""
    along = layout.along
    tokens = max(axis.tokens.length * axis.tokens.inner for axis in along.values())
    found = np.zeros((layout.zero_rows + tokens, width))
    for lane in lanes(layout.blocks, width):
        axis = along[lane.axis]
        positions, place = axis.distinct(0, tokens)
        waves, unit = RoundedRates.of(axis.rule), float(axis.unit)
        is_end_to_end = isinstance(axis.rule, PixelBands)
        coordinates: Float64s = positions * np.float64(unit)
        if lane.content == "coordinate":
            errors = np.full((len(positions), 1), _END_TO_END * UNIT)
        else:
            errors = waves.errors(coordinates, 0.0 if unit == 1 else _COORDINATE)
            if is_end_to_end:
                errors = errors + waves.frequencies * _END_TO_END * UNIT
        found[layout.zero_rows :, lane.channels] = errors[place, : len(lane.channels)]
    return found


def _expected(question: Question) -> Expectation:
    """Return a table of sinusoids of one array; raises PosrefError."""
    name, table = question.single_table
    if table.dtype.name in INDEX_DTYPES:
        return Expectation({name: numbers_of(table)})
    scale = float(getattr(table, "scale", 1.0))
    errors = scale * errors_of(table)
    return Expectation({name: numbers_of(table)}, allowed(errors), factor=scale)


def allowed(errors: Float64s) -> Float64s:
    """Return the errors of angles as a case states them: rounded up, never more than a turn."""
    return rounded_up(np.minimum(errors, MOST_ANGLE))


def _grid(question: Question) -> Expectation:
    """Return the table of a grid; raises PosrefError."""
    document = question.request.document()
    ((name, table),) = document.arrays.items()
    inner = getattr(table, "table", table)
    errors = errors_of(inner)
    if inner.shape != table.shape:
        errors = np.moveaxis(errors, -1, 0)
    return Expectation({name: numbers_of(table)}, allowed(errors))


def _two_directions(question: Question) -> Expectation:
    """Return XLNet's table; the rows of a second direction have the same angles, negated."""
    if not question.parameters.get("bi_data"):
        return _expected(question)
    one = _expected(question.changed("bi_data"))
    name, table = question.single_table
    assert one.angle is not None
    return Expectation({name: numbers_of(table)}, np.stack([one.angle] * 2, axis=1))


def _series(keys: Mapping[str, Any]) -> RoundedRates:
    """Return the waves of d_model channels and a base."""
    d_model, base = keys["d_model"], keys.get("base", 10000.0)
    return RoundedRates.of(Geometric(base, d_model, d_model // 2))


def _operator(question: Question) -> Expectation:
    """Return the matrix of an offset: its blocks have the angles of the offset."""
    name, table = question.single_table
    keys = question.parameters
    offsets = keys["offsets"] if "offsets" in keys else [keys["offset"]]
    errors = _series(keys).errors(np.array(offsets))
    pairs = errors.shape[-1]
    is_interleaved = keys.get("layout", "interleaved") == "interleaved"
    pair = np.arange(2 * pairs) // 2 if is_interleaved else np.arange(2 * pairs) % pairs
    in_pair = pair[:, np.newaxis] == pair
    found = np.where(in_pair, errors[:, pair][:, :, np.newaxis], 0.0)
    return Expectation({name: numbers_of(table)}, allowed(found.reshape(table.shape)))


def _similarity(question: Question) -> Expectation:
    """Return sums of n cosines: each is rounded, and n − 1 sums are, of at most n in size."""
    name, table = question.single_table
    errors = _series(question.parameters).errors(np.array(question.parameters["offsets"]))
    count = errors.shape[-1]
    sums = errors.sum(axis=-1) + 2 * count * UNIT + (count - 1) * count * UNIT
    return Expectation({name: numbers_of(table)}, rounded_up(sums))


def _sum(question: Question) -> Expectation:
    """Return embeddings plus sinusoids: the product by the root, the sine and the sum round."""
    name, table = question.single_table
    x = np.asarray(question.x, dtype=np.float64)
    keys = {each: value for each, value in question.parameters.items() if each != "axes"}
    is_scaled = keys.pop("scale_embeddings", False)
    rows = question.positions or tuple(range(x.shape[-2]))
    plain = Question("array", "/encoding", {**keys, "d_model": x.shape[-1]}, rows)
    added = _expected(plain)
    assert added.angle is not None
    (encoding,) = added.arrays.values()
    factor = np.sqrt(x.shape[-1]) if is_scaled else 1.0
    parts = np.abs(factor * x), np.broadcast_to(np.abs(encoding), x.shape)
    errors = added.angle + UNIT * (2 * parts[1] + (3 * parts[0] if is_scaled else 0.0))
    return Expectation(
        {name: numbers_of(table)}, rounded_up(errors), parts[0] + parts[1], is_rotation=True
    )


EXPECTED: Mapping[str, Expected] = {
    "/encoding": _expected,
    "/encoding/timesteps": _expected,
    "/encoding/tokens": _expected,
    "/encoding/grid": _grid,
    "/encoding/apply": _sum,
    "/relative": _operator,
    "/relative/similarity": _similarity,
    "/relative/transformer-xl": _expected,
    "/relative/xlnet": _two_directions,
    "/relative/conformer": _expected,
}
