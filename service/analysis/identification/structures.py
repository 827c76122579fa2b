"""Submitted arrays beside the tables of a document: their rows, and their sines and cosines."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import (
    COMPONENT_DTYPES,
    IdentifyInput,
    Position,
    Proposal,
    Sample,
    read_rows,
)
from service.analysis.explanation.arithmetic import Waves
from service.analysis.explanation.formulas import Series
from service.analysis.explanation.measured import UNIT
from service.analysis.explanation.target import Structure, structure_of
from service.analysis.explanation.views import Columns
from service.analysis.precision import rounded
from service.encodings.absolute.conventions import ZeroRow
from service.encodings.grid.sincos import GridTable, lanes
from service.numerics.dtypes import INDEX_DTYPES
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices
from service.numerics.repeated_rows import RepeatedRows
from service.numerics.tables import Document, Table, size


@dataclass(frozen=True, eq=False)
class TableWaves:
    """Tables of sines and cosines.

    Attributes:
        waves: the waves of all rows.
        channels: for each array, the frequency of each channel, and whether it is a sine.
        zeros: the number of channels at the end that are zero.
        slack: the error that engines add to fractional coordinates, in radians.
        axis: the axis of each frequency, (K,).
        zero: the position whose rows are zeros, if there is one.
    """

    waves: Waves
    channels: Mapping[str, tuple[Indices, NDArray[np.bool_]]]
    zeros: int = 0
    slack: float = 0.0
    axis: Indices | None = None
    zero: int | None = None

    @cached_property
    def key(self) -> Hashable:
        """The structure that numbers follow from."""
        waves = self.waves
        channels = tuple(
            (name, frequency.tobytes(), is_sine.tobytes())
            for name, (frequency, is_sine) in self.channels.items()
        )
        numbers = waves.omega.tobytes(), waves.places.tobytes(), waves.scale
        return numbers, channels, self.zeros, self.zero

    def columns(self, name: str) -> Columns:
        """Return where the cosines and the sines of an array stand."""
        return Columns.of_indices(*self.channels[name], self.zeros)

    def position(self, row: int) -> Position:
        """Return the position of a row, or its coordinates on several axes."""
        places = self.waves.places[row]
        if len(places) == 1 or self.axis is None:
            return float(places[0])
        first = [int(np.argmax(self.axis == each)) for each in np.unique(self.axis)]
        return tuple(float(places[k]) for k in first)


def waves_of(tables: Mapping[str, Table]) -> TableWaves | None:
    """Return the waves of tables by name; None if a table has other numbers."""
    parts = {name: _structure(table) for name, table in tables.items()}
    first = next(iter(parts.values()))
    if first is None:
        return None
    channels = {}
    for name, part in parts.items():
        if part is None:
            return None
        channels[name] = part.frequency, part.is_sine
    waves = Waves(first.omega, first.places, first.scale, _series(first.omega))
    table = next(iter(tables.values()))
    zero = table.zero if isinstance(table, ZeroRow) else None
    return TableWaves(waves, channels, first.zeros, _slack(first), first.axis, zero)


def _structure(table: Table) -> Structure | None:
    source = table.table if isinstance(table, RepeatedRows) else table
    return _of_grid(source) if isinstance(source, GridTable) else structure_of(source)


def _series(omega: Float64s) -> Series | None:
    """Return the series of frequencies, so that products can be emulated; None if there is none."""
    if len(omega) < 2 or not (omega > 0).all() or not omega[1] < omega[0]:
        return None
    ratio = float(np.log(omega[0] / omega[1]))
    return Series(float(np.e), -np.log(omega), 2 * len(omega)) if ratio > 0 else None


def _slack(structure: Structure) -> float:
    """Return the error of one rounding of the farthest fractional coordinate, in radians."""
    places = structure.places
    if (places == np.round(places)).all():
        return 0.0
    far = np.abs(places).max(axis=0) * np.abs(structure.omega)
    return float(far.max(initial=0)) * UNIT


def _of_grid(table: GridTable) -> Structure | None:
    """Return the structure of a table of a grid; None with coordinates or zeros in it."""
    layout, width = table.layout, table.width
    rows = size(table) // width
    if layout.zero_rows:
        return None
    frequency = np.full(width, -1, dtype=np.intp)
    is_sine = np.zeros(width, dtype=np.bool_)
    omega: list[float] = []
    axis: list[int] = []
    places = []
    for number, (name, along) in enumerate(layout.along.items()):
        rates = [float(each) for each in along.rule.exact()]
        for lane in lanes(layout.blocks, width):
            if lane.axis == name and lane.content != "coordinate":
                frequency[lane.channels] = len(omega) + np.arange(len(lane.channels))
                is_sine[lane.channels] = lane.content == "sin"
        omega += rates
        axis += [number] * len(rates)
        coordinates = along.tokens.at(0, rows) * float(along.unit)
        places.append(np.repeat(coordinates[:, None], len(rates), axis=1))
    if frequency.min() < 0:
        return None
    where = np.concatenate(places, axis=1)
    return Structure(np.array(omega), where, np.array(axis), frequency, is_sine)


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """A submitted array and its proposed table, both read as rows of equal width.

    Attributes:
        sample: the submitted array.
        table: the table.
        values: the elements of the array in the order of the table, (rows, channels).
        is_transposed: whether the submitted array has the table's axes in reverse order.
        shape: the table's shape without axes of length 1; a complex table has a last axis of 2.
    """

    sample: Sample
    table: Table
    values: Float64s
    is_transposed: bool
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls, sample: Sample, table: Table, count: int | None, *, is_transposed: bool
    ) -> "ArrayRows":
        """Split an array into ``count`` rows; None makes a row of each run of its last axis."""
        values = sample.reals()
        if is_transposed:
            values = np.ascontiguousarray(values.T)
        rows = values.reshape(-1, values.shape[-1]) if count is None else values.reshape(count, -1)
        return cls(sample, table, rows, is_transposed, values.shape)

    def expected(self, rows: Indices) -> Float64s:
        """Return the table's values at the given row indices, rounded to the array's dtype."""
        values = read_rows(rows, self.table, self.values.shape[1])
        dtype = self.sample.element_dtype
        has_integers = self.sample.is_integer or self.table.dtype.name in INDEX_DTYPES
        return values if has_integers or dtype is self.table.dtype else rounded(values, dtype)

    def index(self, row: int, channel: int) -> tuple[int, ...]:
        """Return the index, in the submitted array, of the element in this row and channel."""
        flat = row * self.values.shape[1] + channel
        index = [int(part) for part in np.unravel_index(flat, self.shape)]
        if self.is_transposed:
            index.reverse()
        if self.sample.is_complex:
            index.pop()
        remaining = iter(index)
        return tuple(0 if length == 1 else next(remaining) for length in self.sample.shape)


def matching_tables(
    document: Document, inputs: IdentifyInput, proposal: Proposal
) -> dict[str, Table] | None:
    """Return the document's table for each submitted array, by array name.

    Return None if names or shapes differ, or if one is complex and the other real.
    """
    tables = dict(document.arrays)
    if not inputs.is_pair and len(tables) == 1:
        tables = dict(zip(inputs.arrays, tables.values(), strict=True))
    if tables.keys() != inputs.arrays.keys():
        return None
    for name, sample in inputs.arrays.items():
        table, shape = tables[name], sample.values.shape
        parts = (2,) if table.dtype in COMPONENT_DTYPES else ()
        expected = tuple(length for length in (*table.shape, *parts) if length != 1) or (1,)
        if bool(parts) != sample.is_complex:
            return None
        if expected != (shape[::-1] if proposal.is_transposed else shape):
            return None
    return tables
