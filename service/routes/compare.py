"""``POST /compare``: report where arrays differ from a table of this server."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import ConfigDict, Field, WithJsonSchema

from service.analysis.array import TableRequest
from service.analysis.comparison import (
    ULPS,
    Bools,
    Comparison,
    ElementError,
    Overlay,
    Tolerance,
    best_overlay,
    compare,
    rounded_to,
)
from service.delivery.endpoints import ABSENT, Count, Endpoint, FiniteOrNull, Number, Report
from service.encodings.family import Parameters, Sizes, optional
from service.errors import Fault, InvalidBody, shortened
from service.formats.format import Input
from service.formats.png import Numbers, axis_numbers
from service.grammar import Real
from service.numerics.dtypes import INDEX_DTYPES
from service.numerics.phase import Float64s
from service.numerics.positions import Positions
from service.numerics.tables import Document, StoredTable, axis_names
from service.routes.expected_layers import ArraysOfModel, LayerParameters, expected_url
from service.routes.table_urls import (
    ROTATED,
    PostingReport,
    Url,
    arrays_in_to,
    link_to,
    table_in_to,
)
from service.settings import Settings

MOST_RANGES = 64
MOST_RUNS = 32
EPSILONS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)

# Values in this range are written to JSON as integers; others stay floats.
_LEAST_INTEGER, _INTEGERS_END = -(2.0**63), 2.0**64

_COLUMN_AXES = ("channel", "pair", "dimension", "key")

Value = Annotated[
    int | float | str,
    WithJsonSchema({"description": "A number; NaN and infinities are strings."}),
]
GoodPosition = Annotated[
    Number | None,
    Field(
        description="All positions up to this one are within the bound; null if the first is not."
    ),
]


class ErrorLocation(Report):
    """An element of the array, and its error."""

    index: list[Count] = Field(description="The index in the submitted array.")
    position: Number
    channel: int | None
    error: FiniteOrNull
    yours: Value
    theirs: Value
    part: Literal["real", "imaginary"] = ABSENT


class ArrayType(Report):
    """Shape and element type of an array."""

    shape: list[Count]
    dtype: str


class ArrayTypes(Report):
    """The types of the submitted array (yours) and of the table (theirs)."""

    yours: ArrayType
    theirs: ArrayType


class RemovedAxes(Report):
    """The axes of length 1 that are removed from each shape."""

    yours: list[Count]
    theirs: list[Count]


class ToleranceReport(Report):
    """The tolerance of the comparison."""

    atol: float = ABSENT
    rtol: float = ABSENT
    ulp: int = ABSENT
    of: str = ABSENT
    at_least_of: float = ABSENT


class ComparedPrefix(Report):
    """The lengths of the axis along which only the first elements are compared."""

    axis: str | None
    yours: Count
    theirs: Count
    compared: Count

    def __str__(self) -> str:
        longer = "yours" if self.yours > self.theirs else "the table"
        axis = f"axis {_word(self.axis)}" if self.axis else "an axis of length 1"
        whole = f"{longer} has {max(self.yours, self.theirs)}"
        return f"the first {self.compared} along {axis}, where {whole}"


class AxesReport(Report):
    """The meaning of the axes, and how the two shapes differ."""

    position: str = Field(description="Name of the axis that positions refer to.")
    channel: str | None = Field(description="Name of the axis that channels refer to.")
    removed: RemovedAxes = ABSENT
    order: list[int | None] = Field(
        default=ABSENT, description="For each axis of the table, the index of the array's axis."
    )
    prefix: ComparedPrefix = ABSENT

    def error(self, at: ErrorLocation) -> str:
        """Return the place of an error by the names of its axes, and both numbers."""
        channel = f", {_word(self.channel)} {at.channel}" if self.channel else ""
        return f"{_word(self.position)} {at.position}{channel}: {at.yours} instead of {at.theirs}"


def _word(axis: str) -> str:
    """Return the name of an axis without what it is made of."""
    return axis.partition("(")[0]


class LargestErrors(Report):
    """The largest errors by three measures."""

    absolute: ErrorLocation | None = Field(description="The largest error.")
    relative: ErrorLocation | None = Field(
        description="The largest |error|/|table number|, over nonzero table numbers."
    )
    ulp: ErrorLocation | None = Field(
        description="The largest error in ulps of the tolerance's type; null for integers."
    )


class PositionRun(Report):
    """A run of consecutive positions from first to last, both included."""

    first: Number
    last: Number


class GoodPositions(Report):
    """The positions at which every element is within the tolerance."""

    count: Count
    of: Count
    runs: list[PositionRun]
    further_runs: Count


class ErrorRange(PositionRun):
    """The largest error in a range of positions or channels, both ends included."""

    largest: FiniteOrNull


class EpsilonReport(Report):
    """The position up to which all errors are within an absolute bound."""

    epsilon: float
    good_to: GoodPosition


class ComparisonVerdicts(Report):
    """Three results of a comparison: equal elements, equal bytes, errors within the tolerance."""

    equal: bool = Field(description="Whether all compared elements are equal.")
    equal_bytes: bool = Field(description="Whether type, shape and every byte are equal.")
    within: bool = Field(description="Whether all compared elements are within the tolerance.")


class ArrayDifferences(ComparisonVerdicts):
    """The verdicts, and the differences between an array and the table's array, if given."""

    array: ArrayTypes = ABSENT
    tolerance: ToleranceReport = Field(
        default=ABSENT,
        description="atol + rtol·|number|; or a number of ulp of a type, at the number or at "
        "at_least_of, whichever is larger.",
    )
    axes: AxesReport = ABSENT
    largest: LargestErrors = ABSENT
    first_beyond: ErrorLocation | None = Field(
        default=ABSENT, description="The first element beyond the tolerance."
    )
    first_not_finite: ErrorLocation | None = Field(
        default=ABSENT,
        description="The first NaN or infinity that only one of the two arrays has.",
    )
    good_to: GoodPosition = ABSENT
    good_positions: GoodPositions = ABSENT
    errors_by_position: list[ErrorRange] = ABSENT
    errors_by_channel: list[ErrorRange] = ABSENT
    within_epsilon: list[EpsilonReport] = ABSENT

    @property
    def sentence(self) -> str:
        """The strongest verdict that holds, for how much, and up to which position."""
        verdict = "within the tolerance" if self.within else "beyond the tolerance"
        if self.equal:
            verdict = f"equal, every {'byte' if self.equal_bytes else 'number'}"
        axis = _word(self.axes.position)
        place = f"at no {axis}" if self.good_to is None else f"up to {axis} {self.good_to}"
        part = f", in {self.axes.prefix}" if self.axes.prefix is not None else ""
        if self.axes.order is not None:
            part += ", with its axes in another order"
        return verdict + part + f", good {place}" * (not self.within)

    def lines(self) -> Iterator[str]:
        yield from super().lines()
        largest = self.largest and self.largest.absolute
        if largest:
            yield f"largest: {largest.error}, at {self.axes.error(largest)}"
        if self.first_beyond is not None:
            yield f"first_beyond: {self.axes.error(self.first_beyond)}"


class ArrayComparison(ArrayDifferences):
    """The differences between a submitted array and the table's array."""

    model_config = ConfigDict(json_schema_extra={"required": [*ArrayDifferences.model_fields]})


class ComparedTable(PostingReport, ComparisonVerdicts):
    """The verdicts, and the URL of the table."""

    to: Url = Field(description="Path and query of the table here.")
    summary: str = Field(
        description="The strongest verdict that holds, of each array if there are several, and how "
        "much was compared if not everything was."
    )


# The order of the base classes determines the order of the JSON keys.
class CompareReport(ArrayDifferences, ComparedTable):
    """The differences between the arrays; at the top level if the table has one array."""

    not_sent: list[str] = ABSENT
    arrays: dict[str, ArrayComparison] = ABSENT

    def lines(self) -> Iterator[str]:
        """Yield the verdict, of each array if there are several, and the places of errors."""
        yield self.summary
        yield from super().lines()
        yield from (f"not_sent: {name}" for name in self.not_sent or ())
        for name, each in (self.arrays or {}).items():
            yield from (f"{name}.{line}" for line in each.lines())
        if not self.within:
            yield "note: /diagnose, with the same to, allows the errors of float32 angles"


class ToleranceParameters(Parameters):
    """The tolerance of a comparison."""

    atol: Real | None = optional(
        "The absolute tolerance; with rtol, the tolerance is the sum of both. Without either, it "
        "is 4 ulp of the narrower of the two types.",
        1e-6,
        ge=0,
    )
    rtol: Real | None = optional("The tolerance as a share of the number in the table.", 1e-5, ge=0)
    epsilon: Sizes | None = optional(
        "Absolute errors; for each, the answer has the position up to which the whole table stays "
        "within it. Powers of ten from 1e-6 to 0.1 unless given.",
        "1e-6,1e-3",
        max_length=16,
    )


class CompareParameters(ToleranceParameters, LayerParameters):
    """Parameters of a comparison."""

    array_names: ClassVar[str] = "x, or by its name in the table if it has several arrays,"
    to: str | None = optional(
        "The table to compare with: path and query of its URL here. In a URL written by hand, each "
        "& of it is %26. Required unless the body has a model.",
        "/rope?head_dim=128&seq_len=4096",
    )


def compare_arrays(
    parameters: CompareParameters, content: Input, settings: Settings
) -> CompareReport:
    """Return the report about the arrays of a body; raises PosrefError."""
    to = expected_url(parameters, content, parameters.to, settings)
    url, document = table_in_to(to)
    arrays = _by_name(to, document, content)
    examined = {
        name: ExaminedArray(array, _dtype_name(array, content)) for name, array in arrays.items()
    }
    return report_of(parameters, url.request, document, examined, settings)


@dataclass(frozen=True, eq=False)
class ExaminedArray:
    """An array that is compared.

    Attributes:
        table: its elements.
        dtype_name: the name of their type; None for JSON numbers, which are rounded to the dtype of
            the table.
        axes: the names of its axes; empty if they have none.
    """

    table: StoredTable
    dtype_name: str | None
    axes: tuple[str, ...] = ()


def report_of(
    parameters: ToleranceParameters,
    request: TableRequest,
    document: Document,
    arrays: Mapping[str, ExaminedArray],
    settings: Settings,
) -> CompareReport:
    """Return the report about arrays by their names in a document; raises PosrefError."""
    link = link_to(request, document, settings)
    link["to"] = link.pop("url")
    reports = {name: _compared(parameters, document, name, each) for name, each in arrays.items()}
    if len(document.arrays) == 1:
        (single,) = reports.values()
        return CompareReport(**link, summary=single.sentence, **dict(single))
    verdicts = {
        name: all(getattr(each, name) for each in reports.values())
        for name in ComparisonVerdicts.model_fields
    }
    summary = "; ".join(f"{name} is {each.sentence}" for name, each in reports.items())
    missing = [name for name in document.arrays if name not in reports]
    return CompareReport(**link, summary=summary, **verdicts, not_sent=missing, arrays=reports)


def _dtype_name(array: StoredTable, content: Input) -> str | None:
    """Return the dtype name of an array in the body; None for JSON, which has no dtypes."""
    if content.is_text:
        return None
    name = next(name for name, each in content.arrays.items() if each is array)
    return content.integer_types.get(name, array.dtype.name)


def _by_name(url: str, document: Document, content: Input) -> Mapping[str, StoredTable]:
    """Return the arrays of a body, by the names in the document; raises InvalidBody."""
    arrays, names = content.arrays, tuple(document.arrays)
    if len(arrays) == len(names) == 1:
        return {names[0]: next(iter(arrays.values()))}
    known = ROTATED if "rotated" in arrays else arrays_in_to(url, document, content)
    if not content.is_named:
        raise InvalidBody(known)
    faults = [
        Fault(f"/{shown}", shown, f"{shown} is not an accepted array name: {known}", in_body=True)
        for shown in (shortened(name) for name in arrays if name not in names)
    ]
    if faults:
        raise InvalidBody.at(*faults)
    return arrays


def _compared(
    parameters: ToleranceParameters, document: Document, name: str, examined: ExaminedArray
) -> ArrayComparison:
    """Compare an array with the one of this name in a document; raises PosrefError."""
    table, array = document.arrays[name], examined.table
    if examined.dtype_name is None:
        array = rounded_to(array, table.dtype)
    tolerances = (parameters.atol, parameters.rtol)
    overlay, tolerance = best_overlay(array, table, document.axes, tolerances, examined.axes)
    shape, region = overlay.alignment.table_shape, overlay.alignment.region
    axes = axis_names(document.axes, len(shape))
    places = enumerate(zip(axes, shape, strict=True))
    others = [i for i, axis in places if axis[0] != "head" and axis != ("batch", 1)]
    rows = next((i for i in others if not axes[i].startswith(_COLUMN_AXES)), min(others, default=0))
    columns = _column_axis(axes, rows)
    comparison = compare(overlay, tolerance, rows, columns)
    positions = axis_numbers(axes[rows], shape[rows], document, region[rows])
    chosen = document.places if "channels" in document.parameters else {}
    channels = None if columns is None else chosen.get(axes[columns])
    own = axis_names(examined.axes, len(array.shape)) if examined.axes else ()
    writer = _ReportWriter(comparison, overlay, axes, own, positions, channels)
    return writer.report(examined.dtype_name, parameters.epsilon or EPSILONS)


def _column_axis(names: Iterable[str], rows: int) -> int | None:
    """Return the index of the axis for errors_by_channel; None if there is none.

    It is the channel, pair, dimension or key axis, otherwise the last axis other than rows.
    """
    others = {i: name for i, name in enumerate(names) if i != rows}
    of_columns = (i for i, name in others.items() if name.startswith(_COLUMN_AXES))
    return next(of_columns, max(others, default=None))


@dataclass(frozen=True, eq=False)
class _ReportWriter:
    """Writes the report of one comparison.

    Attributes:
        comparison: the comparison.
        overlay: the array and the table.
        names: the axis names of the table.
        own_names: those of the array; empty if its axes have none.
        positions: the positions of the rows, (rows,).
        channels: the channels that the columns are; None if they are all of the table's.
    """

    comparison: Comparison
    overlay: Overlay
    names: tuple[str, ...]
    own_names: tuple[str, ...]
    positions: Numbers
    channels: Positions | None

    def report(self, dtype_name: str | None, epsilons: Iterable[float]) -> ArrayComparison:
        """Return the report; ``dtype_name`` is None for JSON numbers."""
        comparison, array, table = self.comparison, self.overlay.array, self.overlay.table
        is_same_type = (dtype_name or array.dtype.name) == table.dtype.name
        is_same = comparison.is_equal and comparison.has_equal_signs
        return ArrayComparison(
            equal=comparison.is_equal,
            equal_bytes=is_same
            and is_same_type
            and array.shape == table.shape
            and not self.overlay.alignment.is_reordered,
            within=comparison.is_within,
            array=ArrayTypes(
                yours=ArrayType(shape=list(array.shape), dtype=dtype_name or "number"),
                theirs=ArrayType(shape=list(table.shape), dtype=table.dtype.name),
            ),
            tolerance=_tolerance(comparison.tolerance),
            axes=self._axes(),
            largest=LargestErrors(
                absolute=self._location(comparison.absolute),
                relative=self._location(comparison.relative),
                ulp=self._location(comparison.ulp),
            ),
            first_beyond=self._location(comparison.first_beyond),
            first_not_finite=self._location(comparison.first_not_finite),
            good_to=self._good_to(comparison.good_rows),
            good_positions=self._good_positions(),
            errors_by_position=_ranges(comparison.row_errors, self._position),
            errors_by_channel=_ranges(comparison.column_errors, self._channel),
            within_epsilon=[
                EpsilonReport(epsilon=each, good_to=self._good_to(comparison.row_errors <= each))
                for each in epsilons
            ],
        )

    def _position(self, row: int) -> int | float:
        number: int | float = self.positions[row].item()
        return number

    def _channel(self, column: int) -> int:
        return column if self.channels is None else int(self.channels.at(column, column + 1)[0])

    def _good_to(self, good: Bools) -> int | float | None:
        """Return the position of the row before the first False in ``good``; None if none."""
        first_bad = len(good) if good.all() else int(good.argmin())
        return self._position(first_bad - 1) if first_bad else None

    def _good_positions(self) -> GoodPositions:
        good = self.comparison.good_rows
        edges = np.flatnonzero(np.diff(good, prepend=False, append=False)).reshape(-1, 2)
        return GoodPositions(
            count=int(good.sum()),
            of=len(good),
            runs=[
                PositionRun(first=self._position(first), last=self._position(after - 1))
                for first, after in edges[:MOST_RUNS].tolist()
            ],
            further_runs=max(0, len(edges) - MOST_RUNS),
        )

    def _location(self, element: ElementError | None) -> ErrorLocation | None:
        if element is None:
            return None
        rank, columns = len(self.names), self.comparison.columns
        is_complex = len(element.index) > rank
        return ErrorLocation(
            index=list(self.overlay.alignment.index(element.index[:rank])),
            position=self._position(element.index[self.comparison.rows]),
            channel=None if columns is None else self._channel(element.index[columns]),
            error=element.error,
            yours=self._value(element.value),
            theirs=self._value(element.expected),
            **({"part": ("real", "imaginary")[element.index[rank]]} if is_complex else {}),
        )

    def _value(self, value: float) -> int | float | str:
        if not isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        is_integer = value.is_integer() and _LEAST_INTEGER <= value < _INTEGERS_END
        is_exact = is_integer and self.overlay.table.dtype.name in INDEX_DTYPES
        return int(value) if is_exact else value

    def _axes(self) -> AxesReport:
        alignment, columns = self.overlay.alignment, self.comparison.columns
        differences: dict[str, Any] = {}
        if alignment.is_squeezed:
            differences["removed"] = RemovedAxes(
                yours=[i for i, length in enumerate(alignment.shape) if length == 1],
                theirs=[i for i, length in enumerate(alignment.table_shape) if length == 1],
            )
        if alignment.is_reordered:
            differences["order"] = list(alignment.axes)
        if not alignment.is_whole:
            differences["prefix"] = self._prefix()
        return AxesReport(
            position=self.names[self.comparison.rows],
            channel=None if columns is None else self.names[columns],
            **differences,
        )

    def _prefix(self) -> ComparedPrefix:
        alignment = self.overlay.alignment
        if alignment.prefix is None:
            assert alignment.longer is not None
            length = alignment.shape[alignment.longer]
            axis = self.own_names[alignment.longer] if self.own_names else None
            return ComparedPrefix(axis=axis, yours=length, theirs=1, compared=1)
        own = alignment.axes[alignment.prefix]
        return ComparedPrefix(
            axis=self.names[alignment.prefix],
            yours=1 if own is None else alignment.shape[own],
            theirs=alignment.table_shape[alignment.prefix],
            compared=alignment.region[alignment.prefix],
        )


def _ranges(errors: Float64s, number: Callable[[int], float]) -> list[ErrorRange]:
    """Return the largest error in each of at most MOST_RANGES ranges of equal length."""
    step = -(-len(errors) // MOST_RANGES) or 1
    return [
        ErrorRange(
            first=number(first),
            last=number(min(first + step, len(errors)) - 1),
            largest=float(errors[first : first + step].max()),
        )
        for first in range(0, len(errors), step)
    ]


def _tolerance(tolerance: Tolerance) -> ToleranceReport:
    if tolerance.is_in_ulps:
        assert tolerance.dtype is not None
        return ToleranceReport(ulp=ULPS, of=tolerance.dtype.name, at_least_of=tolerance.floor)
    return ToleranceReport(atol=tolerance.atol or 0.0, rtol=tolerance.rtol or 0.0)


COMPARE = Endpoint(
    path="/compare",
    operation="Compare",
    summary="Where arrays differ from a table of this server",
    parameters=CompareParameters,
    inputs=ArraysOfModel(
        names=(
            "x",
            "cos",
            "sin",
            "frequency",
            "wavelength",
            "inv_freq",
            "attention_factor",
            "axis",
        ),
        example={"x": [[0.0, 1.0, 0.0, 1.0], [0.84147098, 0.54030231, 0.00999983, 0.99995]]},
        copies=2,
        base_seconds=0.006,
        root_seconds=6e-5,
    ),
    answer=compare_arrays,
    example="to=/encoding?seq_len=2%26d_model=4",
    report=CompareReport,
)
