"""``POST /identify``: find the tables that equal an array, or else the nearest table."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, WithJsonSchema

from service.analysis.array import MAX_ELEMENTS, IdentifyInput, Sample
from service.analysis.comparison import rounded_to
from service.analysis.identification.search import identify
from service.analysis.identification.verification import Verdict
from service.delivery.endpoints import Count, Endpoint, FiniteOrNull, Report, ReportedArrays
from service.encodings.family import (
    Position,
    RealDTypeName,
    RealPositionList,
    impossible,
    optional,
)
from service.errors import InvalidBody, shortened
from service.formats.format import Input
from service.grammar import Integer
from service.numerics.dtypes import FLOAT64, REAL_DTYPES
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable, size
from service.routes.table_urls import ReportParameters, TableLink, link_to, tables
from service.settings import Settings

Index = Annotated[list[Count], Field(description="The index in the submitted array.")]


def _plain(position: float | tuple[float, ...] | None) -> Any:
    """Return a position for JSON: integers without a fraction, a tuple as a list."""
    if isinstance(position, tuple):
        return [_plain(each) for each in position]
    return int(position) if position is not None and position.is_integer() else position


PositionReport = Annotated[
    int | float | list[int | float] | None,
    BeforeValidator(_plain),
    WithJsonSchema(
        {"description": "A position, or a list of one on each axis; null where rows have none."}
    ),
]


class Residual(Report):
    """The largest error of an element of the array, with its index and position."""

    max_absolute: FiniteOrNull = Field(description="The largest absolute error; null if infinite.")
    max_ulp: FiniteOrNull = Field(
        description="The largest error in ulps of the array's dtype; null for integers."
    )
    index: Index
    position: PositionReport


class IdentifiedTable(TableLink):
    """A table, and how the array compares with it."""

    kind: str
    parameters: dict[str, Any] = Field(
        description="Every parameter that determines its elements, in canonical form."
    )
    transposed: bool = Field(description="Whether the array has the table's axes in reverse order.")
    residual: Residual = Field(description="The largest error, with its index and position.")
    support: list[str] = Field(description="The evidence in the array for this table.")


class ArithmeticReport(Report):
    """The floating-point types and rounding steps of a computation."""

    name: str
    description: str


class Hypothesis(IdentifiedTable):
    """A table that reproduces the whole array."""

    arithmetic: list[ArithmeticReport] = Field(
        description="The arithmetics that reproduce every element, the most exact first."
    )


class MismatchReport(Report):
    """The first element that the best arithmetic does not reproduce."""

    array: str
    index: Index
    position: PositionReport
    channel: Count
    yours: FiniteOrNull = Field(
        validation_alias="value", description="The number in the array; null if not finite."
    )
    expected: FiniteOrNull = Field(description="The number in the table; null if not finite.")
    error: FiniteOrNull = Field(
        description="The difference between yours and expected; null if not finite."
    )
    allowed: float = Field(
        description="The largest error that the best arithmetic allows for this element."
    )


class NearestTable(IdentifiedTable):
    """The closest table, if no table reproduces the array."""

    agreeing: float = Field(description="The fraction of the elements that agree, 0 to 1.")
    leaves_at: MismatchReport = Field(description="The first element that does not agree.")


class IdentifiedArray(Report):
    """The submitted array."""

    shape: list[Count]
    dtype: str
    names: list[str] | None = Field(description="cos and sin for two arrays, else null.")


_TRANSPOSED = ("transposed: the array has the axes of the table in reverse order",)


class IdentifyReport(Report):
    """The tables that match an array, or else the nearest table."""

    verdict: Literal["identified", "ambiguous", "none"] = Field(
        description="ambiguous: several tables match the array, but their next rows differ."
    )
    array: IdentifiedArray
    hypotheses: list[Hypothesis] = Field(
        description="The tables that reproduce the whole array, the best first."
    )
    nearest: NearestTable | None = Field(
        description="The closest table, if there are no hypotheses and one is close."
    )
    notes: list[str]

    def lines(self) -> Iterator[str]:
        """Yield the URL of the table if it is certain, else the verdict; then what was found."""
        yield str(self.hypotheses[0]) if self.verdict == "identified" else self.verdict
        yield from super().lines()
        for each in self.hypotheses:
            yield f"url: {each}"
            yield from _TRANSPOSED * each.transposed
            yield f"arithmetic: {each.arithmetic[0].name}"
        if self.nearest is not None:
            yield f"nearest: {self.nearest}"
            yield from _TRANSPOSED * self.nearest.transposed
            yield f"agreeing: {self.nearest.agreeing}"
        yield from (f"note: {note}" for note in self.notes)


class IdentifyParameters(ReportParameters):
    """Parameters of an identification."""

    array_names: ClassVar[str] = "x, or cos and sin,"
    d_model: Integer | None = optional(
        "Number of channels of the whole encoding, if known.",
        512,
        ge=1,
        le=MAX_CHANNELS,
    )
    positions: RealPositionList | None = optional(
        "Position of each row, if known; each must be greater than the previous one.",
        "0,5,9:20:2",
    )
    start: Position | None = optional(
        "Position of the first row, if the rows are consecutive; it is searched for unless given.",
        0,
    )
    dtype: RealDTypeName | None = optional(
        "Type of the elements before they were written as JSON; the default is float32 if every "
        "number is the shortest decimal of a float32, otherwise float64.",
        "float32",
    )

    def row_positions(self, rows: int) -> Float64s | None:
        """Return the position of each row, (rows,); None if unknown."""
        if self.positions is None:
            if self.start is None:
                return None
            return self.start + np.arange(rows, dtype=np.float64)
        if self.start is not None:
            raise impossible("start", self.start, "start does not go with positions")
        if self.positions.count != rows:
            rule = f"positions names {self.positions.count} rows, and the array has {rows}"
            raise impossible("positions", str(self.positions), rule)
        positions = self.positions.at(0, rows).astype(np.float64)
        if not (np.diff(positions) > 0).all():
            rule = "positions must rise: each must be greater than the one before it"
            raise impossible("positions", str(self.positions), rule)
        return positions


def identify_arrays(
    parameters: IdentifyParameters, content: Input, settings: Settings
) -> IdentifyReport:
    """Return the report about the submitted arrays; raise PosrefError if they are refused."""
    arrays = {
        name: Sample.of(_with_dtype(parameters.dtype, array, content))
        for name, array in _by_name(content).items()
    }
    values = next(iter(arrays.values())).values
    positions = parameters.row_positions(values.shape[0] if values.ndim > 1 else 1)
    request = IdentifyInput(arrays, parameters.d_model, positions)
    sample, outcome = request.sample, identify(request, tables)
    nearest = outcome.nearest
    return IdentifyReport(
        verdict=outcome.outcome,
        array=IdentifiedArray(
            shape=list(sample.shape),
            dtype=sample.dtype.name,
            names=list(request.arrays) if request.is_pair else None,
        ),
        hypotheses=[
            Hypothesis(
                **_identified(verdict, settings),
                arithmetic=[ArithmeticReport.model_validate(each) for each in verdict.arithmetic],
            )
            for verdict in outcome.hypotheses
        ],
        nearest=None
        if nearest is None or nearest.first_mismatch is None
        else NearestTable(
            **_identified(nearest, settings),
            agreeing=nearest.agreeing,
            leaves_at=MismatchReport.model_validate(nearest.first_mismatch),
        ),
        notes=list(outcome.notes),
    )


def _by_name(content: Input) -> Mapping[str, StoredTable]:
    """Return a single array as x, or two arrays as cos and sin."""
    arrays = content.arrays
    count = sum(map(size, arrays.values()))
    if count > MAX_ELEMENTS:
        rule = f"there are {count} numbers: at most {MAX_ELEMENTS} are possible"
        raise InvalidBody(f"{rule}: send the first rows")
    if len(arrays) == 1:
        return {"x": next(iter(arrays.values()))}
    parts = {_part(name): array for name, array in arrays.items()}
    if len(arrays) != 2 or parts.keys() != {"cos", "sin"}:
        names = shortened(", ".join(arrays))
        raise InvalidBody(
            f"send one array, or two of which one has cos in its name and the other sin: {names}"
        )
    cos, sin = parts["cos"], parts["sin"]
    if cos.shape != sin.shape or cos.dtype != sin.dtype:
        raise InvalidBody("cosines and sines must be of one shape and one type")
    return {"cos": cos, "sin": sin}


def _part(name: str) -> str | None:
    """Return ``cos`` or ``sin`` if a name contains exactly one of them, else None."""
    parts = [part for part in ("cos", "sin") if part in name.lower()]
    return parts[0] if len(parts) == 1 else None


def _with_dtype(name: str | None, array: StoredTable, content: Input) -> StoredTable:
    """Return an array of JSON text rounded to the dtype it had before; others unchanged."""
    if not content.is_text or array.dtype is not FLOAT64:
        return array
    if name is None:
        name = "float32" if _are_float32(array.elements) else "float64"
    return rounded_to(array, REAL_DTYPES[name])


def _are_float32(numbers: Float64s) -> bool:
    """Return whether every number is the shortest decimal of a float32."""
    with np.errstate(over="ignore"):
        near = numbers.reshape(-1).astype(np.float32)
    pairs = zip(near, numbers.reshape(-1).tolist(), strict=True)
    return all(float(str(single)) == number for single, number in pairs)


def _identified(verdict: Verdict, settings: Settings) -> dict[str, Any]:
    """Return the fields of an IdentifiedTable."""
    proposal, document = verdict.proposal, verdict.document
    return {
        **link_to(proposal.request, document, settings),
        "kind": document.kind,
        "parameters": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in document.parameters.items()
        },
        "transposed": proposal.is_transposed,
        "residual": Residual.model_validate(verdict),
        "support": list(proposal.support),
    }


IDENTIFY = Endpoint(
    path="/identify",
    operation="Identify",
    summary="Find the table that an array is equal to, and its URL here",
    parameters=IdentifyParameters,
    inputs=ReportedArrays(
        names=("x", "cos", "sin", "freqs_cos", "freqs_sin", "cos_cached", "sin_cached"),
        example={"x": [[0, 1, 0, 1], [0.84147096, 0.5403023, 0.009999833, 0.99995]]},
        copies=12,
        base_seconds=0.015,
        root_seconds=5e-4,
    ),
    answer=identify_arrays,
    report=IdentifyReport,
)
