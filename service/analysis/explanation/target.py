"""The expected table, as waves: frequencies, positions, scale, packing, and the settings behind it.

``target_of`` reads them from the tables of a document: nothing is measured. A family whose tables
are sines and cosines along one axis or several needs nothing else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import isclose

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import COMPONENT_DTYPES, TableRequest
from service.analysis.explanation.formulas import Rule, Series
from service.analysis.explanation.views import PACKINGS, Columns, Wanted
from service.encodings.absolute.conventions import CONVENTIONS, ZeroRow
from service.encodings.rotary.angles import ComplexTable
from service.encodings.rotary.rules import RotaryRule
from service.numerics.axes import AxesTable, Axis
from service.numerics.dtypes import FLOAT64, REAL_DTYPES, DType
from service.numerics.phase import Float64s, FrequencyRule
from service.numerics.phasors import Indices, PhasorTable, RealPhasorTable
from service.numerics.repeated_rows import RepeatedRows
from service.numerics.tables import Document, ParameterValue, Table, size


@dataclass(frozen=True, eq=False)
class Structure:
    """A table of sines and cosines, taken apart.

    Attributes:
        omega: the frequencies, (K,).
        places: the position of each row, (S, 1), or of each row and frequency, (S, K).
        axis: the axis of each frequency, (K,).
        frequency: the frequency of each channel, (C,).
        is_sine: whether each channel is a sine, (C,).
        zeros: the number of channels at the end that are zero.
        scale: the factor of sines and cosines.
        blank: the position whose row is zero, as that of padding is; None if none is.
    """

    omega: Float64s
    places: Float64s
    axis: Indices
    frequency: Indices
    is_sine: NDArray[np.bool_]
    zeros: int = 0
    scale: float = 1.0
    blank: float | None = None


def structure_of(table: Table) -> Structure | None:
    """Return what a table of sines and cosines is made of; None if it is of another kind."""
    if isinstance(table, ComplexTable | RepeatedRows):
        return structure_of(table.table)
    if isinstance(table, ZeroRow):
        inner = structure_of(table.table)
        return inner and replace(inner, blank=float(table.zero))
    if isinstance(table, PhasorTable):
        places = table.positions.at(0, table.positions.count)
    elif isinstance(table, RealPhasorTable):
        places = table.positions
    elif isinstance(table, AxesTable) and table.growth is None:
        return _of_axes(table)
    else:
        return None
    omega = _frequencies(table.rule)
    frequency, is_sine = table.channels.indices()
    return Structure(
        omega,
        np.asarray(places, dtype=np.float64)[:, None],
        np.zeros(len(omega), dtype=np.intp),
        frequency,
        is_sine,
        table.channels.zeros,
        table.scale,
    )


def _frequencies(rule: FrequencyRule) -> Float64s:
    return np.array([float(each) for each in rule.exact()], dtype=np.float64)


def _of_axes(table: AxesTable) -> Structure:
    count = sum(len(axis.places) for axis in table.axes)
    rows = size(table) // table.channels.width
    omega, of_axis = np.zeros(count), np.zeros(count, dtype=np.intp)
    coordinates = np.empty((rows, len(table.axes)))
    for number, axis in enumerate(table.axes):
        columns = list(axis.places)
        omega[columns], of_axis[columns] = _frequencies(axis.rule), number
        coordinates[:, number] = _coordinates(axis, rows)
    frequency, is_sine = table.channels.indices()
    places = coordinates[:, :1] if len(table.axes) == 1 else coordinates[:, of_axis]
    if (coordinates == coordinates[:, :1]).all():
        places = coordinates[:, :1]
    return Structure(omega, places, of_axis, frequency, is_sine, table.channels.zeros, table.scale)


def _coordinates(axis: Axis, rows: int) -> Float64s:
    return axis.positions.at(0, rows).astype(np.float64) + float(axis.shift)


_FARTHEST = 2.0**26


@dataclass(frozen=True, eq=False)
class Target:
    """The expected table: what it is made of, and the request that gives it.

    Attributes:
        structure: frequencies, positions and channels.
        wanted: the packing.
        dtype: the real type of its numbers.
        series: the frequencies before any rule; None if they are no powers of one base.
        rule: the scaling rule.
        base_parameter: the parameter of the base.
        head_dim: the channels of a head, for rotary tables.
        request: the request; None if there is none.
        document: its document; None if there is none.
        rows: the number of rows, or None if the request leaves it open.
        read_exact: returns the exact numbers of all rows by name, as float64; None if nothing can.
    """

    structure: Structure
    wanted: Wanted
    dtype: DType
    series: Series | None = None
    rule: Rule = field(default_factory=Rule)
    base_parameter: str = "base"
    head_dim: int = 0
    request: TableRequest | None = None
    document: Document | None = None
    rows: int | None = None
    read_exact: Callable[[], Mapping[str, Float64s]] | None = None

    @property
    def omega(self) -> Float64s:
        return self.structure.omega

    @property
    def scale(self) -> float:
        return self.structure.scale

    @property
    def base(self) -> float:
        """The base; 0 if there is none."""
        return self.series.base if self.series else 0.0

    @property
    def has_two_ends(self) -> bool:
        """True if the highest and the lowest frequency are settings, in place of a base."""
        given = self.document.parameters if self.document else {}
        convention = CONVENTIONS.get(str(given.get("convention")))
        return convention is not None and convention.has_two_ends

    @property
    def width(self) -> int:
        """The number of channels that turn."""
        return 2 * len(self.omega)

    def shown(self, packing: str) -> str:
        """Return the name of a packing; of sinusoids, that of the layout."""
        return packing if self.base_parameter == "rope_theta" else SHOWN.get(packing, packing)

    @property
    def is_along_one_axis(self) -> bool:
        return int(self.structure.places.shape[1]) == 1

    @property
    def may_follow_others(self) -> bool:
        """True if rows may continue a sequence: those of a grid do only where text precedes it."""
        is_mrope = self.request is not None and self.request.resource == "rope"
        return self.is_along_one_axis or is_mrope

    def may_have(self, count: int) -> bool:
        """Return whether a table may have so many frequencies instead, if another width turns."""
        wanted = len(self.omega)
        is_less = count < wanted or 2 * count <= self.head_dim
        return count == wanted or (is_less and self.series is not None and self.is_along_one_axis)

    def places(self, rows: int) -> Float64s | None:
        """Return the position of each of the first rows, (rows, 1) or (rows, K); None if fewer."""
        known = self.structure.places
        if rows <= len(known):
            return known[:rows]
        if not self.is_along_one_axis or len(known) < 1:
            return None
        step = known[-1] - known[-2] if len(known) > 1 else np.ones(1)
        more = known[-1] + step * np.arange(1, rows - len(known) + 1)[:, None]
        return np.concatenate([known, more])

    def exact(self, rows: Indices) -> tuple[Float64s, Float64s] | None:
        """Return the exact cosines and sines of rows, each (S, K), if angles are far; else None.

        A float64 product of position and frequency is then no angle any more.
        """
        farthest = np.abs(self.structure.places).max(initial=0) * np.abs(self.omega).max(initial=0)
        if (
            self.read_exact is None
            or farthest < _FARTHEST
            or rows[-1] >= len(self.structure.places)
        ):
            return None
        parts = [np.zeros((len(rows), len(self.omega))), np.zeros((len(rows), len(self.omega)))]
        tables = self.read_exact()
        for name, columns in self.wanted.columns.items():
            for part, chosen in zip(parts, (columns.cosine, columns.sine), strict=True):
                table = tables[name].reshape(len(self.structure.places), -1)
                part[:, : len(chosen)] = table[rows][:, chosen] if len(chosen) else 0.0
        return parts[0], parts[1]

    def beginning_of_rows(self, width: int) -> "Target":
        """Return the target of rows that have only their first channels."""
        frequency, is_sine = self.structure.frequency[:width], self.structure.is_sine[:width]
        pairs = int(frequency.max(initial=0)) + 1
        places = self.structure.places
        structure = replace(
            self.structure,
            omega=self.omega[:pairs],
            axis=self.structure.axis[:pairs],
            places=places if places.shape[1] == 1 else places[:, :pairs],
            frequency=frequency,
            is_sine=is_sine,
            zeros=0,
        )
        name = next(iter(self.wanted.columns))
        columns = {name: Columns.of_indices(frequency, is_sine)}
        rows = self.wanted.shape[: self.wanted.row_axes]
        wanted = Wanted(self.wanted.packing, (*rows, width), columns, len(rows))
        series = self.series and replace(self.series, exponents=self.series.exponents[:pairs])
        return replace(self, structure=structure, wanted=wanted, series=series)


def target_of(
    document: Document,
    request: TableRequest | None = None,
    rule: object = None,
    *,
    rows: int | None = None,
    read_exact: Callable[[], Mapping[str, Float64s]] | None = None,
) -> Target | None:
    """Return the target that a document is; None if its tables are no sines and cosines.

    Args:
        document: the document of the expected table.
        request: its request.
        rule: its rotary rule, if it is a rotary table.
        rows: the number of rows that the request names; None if it leaves them open.
        read_exact: returns the exact numbers of the document by name, as float64.
    """
    parts = {name: structure_of(table) for name, table in document.arrays.items()}
    columns, first = {}, None
    for name, part in parts.items():
        if part is None:
            return None
        first = first or part
        columns[name] = Columns.of_indices(part.frequency, part.is_sine, part.zeros)
    assert first is not None
    table = next(iter(document.arrays.values()))
    shape = table.shape + (2,) * (table.dtype in COMPONENT_DTYPES)
    lengths = tuple(each for each in shape if each != 1) or (1,)
    width = len(first.frequency)
    row_axes = 0
    while row_axes < len(lengths) and int(np.prod(lengths[row_axes:])) > width:
        row_axes += 1
    if not row_axes:
        lengths, row_axes = (1, *lengths), 1
    given = document.parameters
    layout = str(given.get("layout", document.layout))
    packing = _PACKS.get(document.pack, document.pack) if document.pack else _LAYOUTS.get(layout)
    packing = packing or _packing_of(first.frequency, first.is_sine) or layout
    wanted = Wanted(packing, lengths, columns, row_axes)
    dtype = COMPONENT_DTYPES.get(table.dtype, table.dtype)
    named = request.parameters if request else given
    series, own, parameter = _settings(first, {**named, **given}, rule)
    head_dim = int(str(named.get("head_dim", 2 * len(first.omega))))
    return Target(
        first,
        wanted,
        dtype if dtype.name in REAL_DTYPES else FLOAT64,
        series,
        own,
        parameter,
        head_dim,
        request,
        document,
        rows,
        read_exact,
    )


def _packing_of(frequency: Indices, is_sine: NDArray[np.bool_]) -> str | None:
    """Return the packing whose channels have these frequencies and components; None if none."""
    for name, packing in PACKINGS.items():
        channels = packing.channels(len(frequency))
        if channels is not None:
            own = channels.indices()
            if np.array_equal(own[0], frequency) and np.array_equal(own[1], is_sine):
                return name
    return None


# The names that views give to packs and to the layouts of sinusoids.
_PACKS: Mapping[str, str] = {"complex": "pair"}
_LAYOUTS: Mapping[str, str] = {"interleaved": "sin_flat", "concatenated": "sin_concat"}
SHOWN: Mapping[str, str] = {packing: layout for layout, packing in _LAYOUTS.items()}
"""The layout of sinusoids that each packing of them is."""

PACKING_TEXTS: Mapping[str, str] = {
    "concat": "cosines, then sines",
    "sin_concat": "sines, then cosines",
    "flat": "each cosine before its sine",
    "sin_flat": "each sine before its cosine",
    "pair": "a cosine and its sine together, or one complex number of both",
    "sin_pair": "a sine and its cosine together",
    "compact": "cosines and sines apart, each once",
    "half": "cosines and sines apart, all twice",
    "interleaved": "cosines and sines apart, each twice in a row",
    "half_concat": "cosines twice, then sines twice",
    "sin_half_concat": "sines twice, then cosines twice",
    "interleaved_concat": "each cosine twice in a row, then each sine",
    "sin_interleaved_concat": "each sine twice in a row, then each cosine",
}
"""The order of cosines and sines in each packing."""

PART_TEXTS: Mapping[str, str] = {"cos": "cosines", "sin": "sines"}
"""The names of the parts of a table, in a sentence."""


_BASES = ("rope_theta", "base", "max_timescale", "max_period", "theta")


def _settings(
    structure: Structure, given: Mapping[str, ParameterValue], rule: object
) -> tuple[Series | None, Rule, str]:
    """Return the series of unscaled frequencies, the rule, and the parameter of the base."""
    omega = structure.omega
    if isinstance(rule, RotaryRule):
        values = {name: value for name, value in vars(rule).items() if value is not None}
        width, base = values.pop("rotary_dim"), float(values.pop("rope_theta"))
        keys = {name: value for name, value in values.items() if value != ()}
        # Rules keep only the attention factor that follows from these.
        for name in ("factor", "mscale", "mscale_all_dim"):
            if name in given:
                keys[name] = float(str(given[name]))
        own = Rule(rule.rope_type, {k: v for k, v in keys.items() if k != "attention_factor"})
        if isclose(own.scale, rule.scale, rel_tol=1e-12):
            keys.pop("attention_factor", None)
        exponents = 2 * np.arange(width // 2) / width
        own = Rule(rule.rope_type, keys)
        series = Series(base, exponents, width) if base > 1 else None
        if len(exponents) == len(omega):
            return series, own, "rope_theta"
    bases = {name: float(str(given.get(name, 0))) for name in _BASES}
    if "min_freq" in given and omega[-1] > 0:
        # MLX gives the frequencies of both ends.
        bases["min_freq"] = float(omega[0] / omega[-1])
    for name, base in bases.items():
        if base > 1 and (omega > 0).all():
            exponents = -np.log(omega) / np.log(base)
            return Series(base, exponents, 2 * len(omega)), Rule(), name
    return None, Rule(), "base"
