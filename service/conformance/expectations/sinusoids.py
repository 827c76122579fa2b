"""Expectations of sinusoids: the tolerance of each sine and cosine, by the roundings of its angle.

The roundings of an angle are those of the module ``tolerance``. Coordinates of grids, fractional
timesteps and factors of frequencies cost their own operations. Errors are in units of float32.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from service.conformance.questions import Numbers, Question, arrays_of, numbers_of
from service.conformance.tolerance import (
    MOST_ANGLE,
    MOST_COUNTED,
    POWER,
    UNIT,
    Errors,
    Expectation,
    Expected,
    Keys,
    rounded_up,
)
from service.encodings.absolute.conventions import ZeroRow
from service.encodings.grid.sincos import ChannelsFirstTable, GridTable, Layout, lanes
from service.numerics.axes import AxesTable, Axis
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
from service.numerics.phasors import PhasorTable, RealPhasorTable
from service.numerics.repeated_rows import RepeatedRows
from service.numerics.tables import Table
from service.numerics.tables import size as size_of

# A coordinate between neighbours is a sum, a quotient and a product, times a scale; so is a count
# of pixels that is normalized.
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
        """Return the frequencies of a rule."""
        exact = list(rule.exact())
        frequencies = np.array([float(each) for each in exact])
        if isinstance(rule, ScaledFrequencies | TimesTwoPi):
            return cls(frequencies, cls.of(rule.rule).roundings + 2)
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
        errors: Float64s = size * self.frequencies * counted
        return errors


def _capped(errors: Float64s) -> Float64s:
    return np.asarray(np.minimum(errors, MOST_ANGLE / UNIT))


def _errors_of(table: Table) -> Float64s:
    """Return the error of the angle of each number of a table of sinusoids, of its shape."""
    if isinstance(table, RepeatedRows):
        return _errors_of(table.table)
    if isinstance(table, ChannelsFirstTable):
        return np.moveaxis(_errors_of(table.table), -1, 0)
    if isinstance(table, GridTable):
        return _of_layout(table.layout, table.width).reshape(table.shape)
    rows = size_of(table) // table.shape[-1]
    if isinstance(table, ZeroRow):
        found = _errors_of(table.table).reshape(rows, -1)
        found[table.positions.at(0, rows) == table.zero] = 0
        return found.reshape(table.shape)
    source: Axis | PhasorTable | RealPhasorTable
    if isinstance(table, AxesTable):
        (source,) = table.axes
    else:
        assert isinstance(table, PhasorTable | RealPhasorTable)
        source = table
    positions = source.positions
    numbers = positions if isinstance(positions, np.ndarray) else positions.at(0, rows)
    index, _ = table.channels.indices()
    found = RoundedRates.of(source.rule).errors(numbers)[:, index]
    table.channels.blank(found)
    return found.reshape(table.shape)


def _of_layout(layout: Layout, width: int) -> Float64s:
    """Return the errors of the tokens of a grid, (rows, width)."""
    along = layout.along
    tokens = max(axis.tokens.length * axis.tokens.inner for axis in along.values())
    found = np.zeros((layout.zero_rows + tokens, width))
    for lane in lanes(layout.blocks, width):
        axis = along[lane.axis]
        positions, place = axis.distinct(0, tokens)
        rates, unit = RoundedRates.of(axis.rule), float(axis.unit)
        coordinates: Float64s = positions * np.float64(unit)
        if lane.content == "coordinate":
            errors = np.full((len(positions), 1), _END_TO_END)
        else:
            errors = rates.errors(coordinates, 0.0 if unit == 1 else _COORDINATE)
            if isinstance(axis.rule, PixelBands):
                errors = errors + rates.frequencies * _END_TO_END
        found[layout.zero_rows :, lane.channels] = errors[place, : len(lane.channels)]
    return found


def _sinusoids(question: Question) -> Expectation:
    """Return a table of sinusoids of one array, or the ids of its rows; raises PosrefError."""
    ((name, table),) = question.request.document().arrays.items()
    arrays = {name: numbers_of(table)}
    if table.dtype.name in INDEX_DTYPES:
        return Expectation(arrays)
    scale = float(getattr(table, "scale", 1.0))
    errors = _capped(scale * _errors_of(table))
    return Expectation(arrays, rounded_up(errors * UNIT), factor=scale)


def _two_directions(question: Question) -> Expectation:
    """Return XLNet's table; the rows of a second direction have the same angles, negated."""
    one = _sinusoids(question.changed("bi_data"))
    if not question.parameters.get("bi_data"):
        return one
    assert one.angle is not None
    angle = np.stack([one.angle] * 2, axis=1)
    return replace(one, arrays=arrays_of(question.request), angle=angle)


def _sum(question: Question) -> Expectation:
    """Return embeddings plus sinusoids: the product by the root, the sine and the sum round."""
    keys, x = dict(question.parameters), np.asarray(question.x, dtype=np.float64)
    keys.pop("axes", None)
    is_scaled = keys.pop("scale_embeddings", False)
    rows = question.positions or tuple(range(x.shape[-2]))
    added = _sinusoids(Question("array", "/encoding", {**keys, "d_model": x.shape[-1]}, rows))
    assert added.angle is not None
    (encoding,) = added.arrays.values()
    own = np.abs((np.sqrt(x.shape[-1]) if is_scaled else 1.0) * x)
    sines = np.broadcast_to(np.abs(encoding), x.shape)
    errors = added.angle + UNIT * (2 * sines + (3 * own if is_scaled else 0.0))
    arrays = arrays_of(question.request)
    return Expectation(arrays, rounded_up(errors), own + sines, is_rotation=True)


def _series(keys: Keys) -> RoundedRates:
    """Return the frequencies of d_model channels and a base."""
    d_model, base = keys["d_model"], keys.get("base", 10000.0)
    return RoundedRates.of(Geometric(base, d_model, d_model // 2))


def _operator(keys: Keys, size: Float64s) -> Float64s:
    """The blocks of the matrix of an offset have the angles of the offset."""
    offsets = keys["offsets"] if "offsets" in keys else [keys["offset"]]
    errors = _series(keys).errors(np.array(offsets))
    pairs = errors.shape[-1]
    is_interleaved = keys.get("layout", "interleaved") == "interleaved"
    pair = np.arange(2 * pairs) // 2 if is_interleaved else np.arange(2 * pairs) % pairs
    in_pair = pair[:, np.newaxis] == pair
    found = np.where(in_pair, errors[:, pair][:, :, np.newaxis], 0.0)
    return _capped(found).reshape(size.shape)


def _similarity(keys: Keys, _: Float64s) -> Float64s:
    """Sums of n cosines: each is rounded, and n − 1 sums are, of at most n in size."""
    errors = _series(keys).errors(np.array(keys["offsets"]))
    count = errors.shape[-1]
    sums: Float64s = errors.sum(axis=-1) + 2 * count + (count - 1) * count
    return sums


def _boxes(keys: Keys, size: Float64s) -> Float64s:
    """For each frequency, four sines and four cosines."""
    count = keys["embed_dim"]
    boxes = np.array(keys["boxes"], dtype=np.float64).reshape(-1, 4)
    # The frequencies rise by the same factors by which those of the reciprocal base fall.
    falling = RoundedRates.of(Geometric(keys.get("temperature", 100.0), 2 * count, count))
    rising = RoundedRates(1 / falling.frequencies, falling.roundings)
    # Coordinates are exact, although they are fractions.
    errors = np.stack([rising.errors(boxes[:, place]) for place in range(4)], axis=-1)
    both = np.concatenate([errors, errors], axis=-1)
    return _capped(both).reshape(size.shape)


def _fourier(keys: Keys, _: Float64s) -> Float64s:
    """A logarithm, two products, and 2π cost 6 roundings."""
    x = np.array(keys["x"], dtype=np.float64)
    if keys.get("log", True):
        x = np.log(x)
    angles = 2 * np.pi * np.abs(x[:, np.newaxis] * np.array(keys["weight"]))
    return _capped(np.concatenate([angles, angles], axis=-1) * 6)


def _mask(keys: Keys, _: Float64s) -> Float64s:
    """Sinusoids of counts of pixels, which may be normalized."""
    half = keys["d_model"] // 2
    rule = Geometric(keys.get("base", 10000.0), half, half // 2)
    valid = 1 - np.array(keys["padding_mask"]) if "padding_mask" in keys else keys["valid_mask"]
    images = np.array(valid, dtype=np.float64)
    images = images.reshape(-1, *images.shape[-2:])
    parts = [_along(images.cumsum(axis), axis, keys, rule) for axis in (1, 2)]
    return _capped(np.concatenate(parts, axis=1))


def _along(counts: Float64s, axis: int, keys: Keys, rule: Geometric) -> Float64s:
    """Return the errors of one half of the channels, (image, channel, height, width)."""
    rates = RoundedRates.of(rule)
    if keys.get("normalize"):
        scale = keys.get("scale")
        last = np.take(counts, [-1], axis=axis)
        counts = counts / (last + 1e-6) * (1.0 if scale is None else scale)
        rates = RoundedRates.of(TimesTwoPi(rule)) if scale is None else rates
    errors = rates.errors(counts.reshape(-1), _COORDINATE if keys.get("normalize") else 0.0)
    shaped = np.repeat(errors, 2, axis=-1).reshape(*counts.shape, -1)
    return np.moveaxis(shaped, -1, 1)


EXPECTED: Mapping[str, Expected] = {
    "/encoding": _sinusoids,
    "/encoding/timesteps": _sinusoids,
    "/encoding/tokens": _sinusoids,
    "/encoding/grid": _sinusoids,
    "/encoding/apply": _sum,
    "/relative/transformer-xl": _sinusoids,
    "/relative/xlnet": _two_directions,
    "/relative/conformer": _sinusoids,
}
ERRORS: Mapping[str, Errors] = {
    "/encoding/boxes": _boxes,
    "/encoding/fourier": _fourier,
    "/encoding/mask": _mask,
    "/relative": _operator,
    "/relative/similarity": _similarity,
}
