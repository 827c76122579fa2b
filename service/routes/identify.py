"""``POST /identify``: which tables an array is equal to, or which is the nearest."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, WithJsonSchema

from service.analysis.array import MAX_ELEMENTS, FirstMismatch, IdentifyInput, Sample
from service.analysis.comparison import rounded_to
from service.analysis.identification.search import identify
from service.analysis.identification.verification import Verdict
from service.delivery.endpoints import Endpoint, ReportedArrays
from service.delivery.reports import Count, FiniteOrNull, Report
from service.encodings.family import Parameters, RealDTypeName, RealPositionList, impossible
from service.errors import InvalidBody, shortened
from service.formats.format import Input
from service.grammar import Integer
from service.numerics.dtypes import FLOAT64, REAL_DTYPES
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import MAX_POSITION, Float64s
from service.numerics.tables import StoredTable, size
from service.routes import table_urls

Index = Annotated[list[Count], Field(description="In the array that was sent.")]
Position = Annotated[
    int | float | list[int | float] | None,
    Field(description="A position, or one on each axis; null where rows have none."),
    WithJsonSchema({"type": ["number", "array", "null"], "items": {"type": "number"}}),
]


class Residual(Report):
    """The largest error of an array, and where it is."""

    max_absolute: FiniteOrNull = Field(
        description="The largest absolute error; null if not finite."
    )
    max_ulp: FiniteOrNull = Field(
        description="The largest error in steps of the type; null for integers."
    )
    index: Index
    position: Position


class IdentifiedTable(Report):
    """A table, and how an array compares with it."""

    url: str = Field(description="Path and query of the table here.")
    kind: str
    parameters: dict[str, Any] = Field(
        description="Every parameter that fixes its numbers, in canonical form."
    )
    transposed: bool = Field(
        description="Whether the array has the axes of the table in reverse order."
    )
    residual: Residual = Field(description="The largest error of the array, and where it is.")
    support: list[str] = Field(description="The evidence in the array for this table.")


class ArithmeticReport(Report):
    """A float arithmetic."""

    name: str
    description: str


class Hypothesis(IdentifiedTable):
    """A table that reproduces the whole array."""

    arithmetic: list[ArithmeticReport] = Field(
        description="The arithmetics whose error explains every number."
    )


class MismatchReport(Report):
    """A number that no arithmetic explains."""

    array: str
    index: Index
    position: Position
    channel: Count
    yours: FiniteOrNull = Field(description="The number of the array; null if not finite.")
    expected: FiniteOrNull = Field(description="That of the table; null if not finite.")
    error: FiniteOrNull = Field(description="Their difference; null if not finite.")
    allowed: float = Field(
        description="The error that the arithmetic which explains most numbers may have."
    )


class NearestTable(IdentifiedTable):
    """The closest table where none reproduces the array."""

    agreeing: float = Field(description="The share of numbers that agree.")
    leaves_at: MismatchReport = Field(description="The first number that does not agree.")


class IdentifiedArray(Report):
    """The array that was sent."""

    shape: list[Count]
    dtype: str
    names: list[str] | None = Field(description="cos and sin where two arrays were sent.")


class IdentifyReport(Report):
    """The identification of an array."""

    verdict: Literal["identified", "ambiguous", "none"] = Field(
        description="ambiguous: several tables have these numbers, and differ further on."
    )
    array: IdentifiedArray
    hypotheses: list[Hypothesis] = Field(
        description="The tables that reproduce the whole array, the best first."
    )
    nearest: NearestTable | None = Field(
        description="Where there are no hypotheses: the table nearest to the array."
    )
    notes: list[str]


class IdentifyParameters(Parameters):
    """Parameters of an identification."""

    d_model: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="The number of channels of the whole encoding, as far as that is known.",
        examples=[512],
    )
    positions: RealPositionList | None = Field(
        default=None,
        description="The position of each row, as far as they are known; each greater than the "
        "one before it.",
        examples=["0,5,9:20:2"],
    )
    start: Integer | None = Field(
        default=None,
        ge=-MAX_POSITION,
        le=MAX_POSITION,
        description="The position of the first row, where the others follow one by one; found "
        "unless given.",
        examples=[0],
    )
    dtype: RealDTypeName | None = Field(
        default=None,
        description="The type that numbers had before they were written as text; float32 unless "
        "given, if every number is the shortest decimal of one, otherwise float64.",
        examples=["float32"],
    )

    @classmethod
    def meant(cls, name: str, values: Mapping[str, Any]) -> str | None:
        return table_urls.misnamed_array_hint(values.get(name), "x, or cos and sin,")

    def places(self, rows: int) -> Float64s | None:
        """Return the position of each row, None where they are unknown."""
        if self.positions is None:
            if self.start is None:
                return None
            return self.start + np.arange(rows, dtype=np.float64)
        if self.start is not None:
            raise impossible("start", self.start, "start does not go with positions")
        if self.positions.count != rows:
            rule = f"positions names {self.positions.count} rows, and the array has {rows}"
            raise impossible("positions", str(self.positions), rule)
        places = self.positions.at(0, rows).astype(np.float64)
        if not (np.diff(places) > 0).all():
            rule = "positions must rise: each must be greater than the one before it"
            raise impossible("positions", str(self.positions), rule)
        return places


def identify_arrays(parameters: IdentifyParameters, content: Input) -> IdentifyReport:
    """Return the report about the arrays of a body; raises PosrefError."""
    arrays = {name: _typed(parameters, array, content) for name, array in _named(content).items()}
    samples = {name: Sample.of(array) for name, array in arrays.items()}
    rows = next(iter(samples.values())).values
    places = parameters.places(rows.shape[0] if rows.ndim > 1 else 1)
    question = IdentifyInput(samples, parameters.d_model, places)
    sample, outcome = question.sample, identify(question, table_urls.tables)
    nearest = outcome.nearest
    return IdentifyReport(
        verdict=outcome.outcome,
        array=IdentifiedArray(
            shape=list(sample.shape),
            dtype=sample.dtype.name,
            names=list(question.arrays) if question.is_pair else None,
        ),
        hypotheses=[
            Hypothesis(
                **_identified(verdict),
                arithmetic=[
                    ArithmeticReport(name=each.name, description=each.description)
                    for each in verdict.arithmetic
                ],
            )
            for verdict in outcome.hypotheses
        ],
        nearest=None
        if nearest is None or nearest.first_mismatch is None
        else NearestTable(
            **_identified(nearest),
            agreeing=nearest.agreeing,
            leaves_at=_mismatch(nearest.first_mismatch),
        ),
        notes=list(outcome.notes),
    )


def _named(content: Input) -> Mapping[str, StoredTable]:
    """Return the one array as x, or two as cos and sin."""
    count = sum(map(size, content.arrays.values()))
    if count > MAX_ELEMENTS:
        raise InvalidBody(f"there are {count} numbers: at most {MAX_ELEMENTS} are possible")
    if len(content.arrays) == 1:
        return {"x": next(iter(content.arrays.values()))}
    parts = {_part(name): array for name, array in content.arrays.items()}
    if len(content.arrays) != 2 or parts.keys() != {"cos", "sin"}:
        names = shortened(", ".join(content.arrays))
        raise InvalidBody(
            f"send one array, or two of which one has cos in its name and the other sin: {names}"
        )
    if parts["cos"].shape != parts["sin"].shape or parts["cos"].dtype != parts["sin"].dtype:
        raise InvalidBody("cosines and sines must be of one shape and one type")
    return {"cos": parts["cos"], "sin": parts["sin"]}


def _part(name: str) -> str | None:
    """Return the one of cos and sin that a name contains; None for neither and both."""
    parts = [part for part in ("cos", "sin") if part in name.lower()]
    return parts[0] if len(parts) == 1 else None


def _typed(parameters: IdentifyParameters, array: StoredTable, content: Input) -> StoredTable:
    """Round numbers that were sent as text to the type that they had before."""
    if not content.is_text or array.dtype is not FLOAT64:
        return array
    name = parameters.dtype
    if name is None:
        name = "float32" if _are_float32(array.elements) else "float64"
    return rounded_to(array, REAL_DTYPES[name])


def _are_float32(numbers: Float64s) -> bool:
    """Return whether every number is the shortest decimal of a float32."""
    with np.errstate(over="ignore"):
        near = numbers.reshape(-1).astype(np.float32)
    pairs = zip(near, numbers.reshape(-1).tolist(), strict=True)
    return all(float(str(single)) == number for single, number in pairs)


def _identified(verdict: Verdict) -> dict[str, Any]:
    """Return the fields of an IdentifiedTable."""
    proposal, document = verdict.proposal, verdict.document
    return {
        "url": table_urls.url_of(proposal.request),
        "kind": document.kind,
        "parameters": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in document.parameters.items()
        },
        "transposed": proposal.is_transposed,
        "residual": Residual(
            max_absolute=verdict.max_absolute,
            max_ulp=verdict.max_ulp,
            index=list(verdict.index),
            position=_position(verdict.position),
        ),
        "support": list(proposal.support),
    }


def _mismatch(mismatch: FirstMismatch) -> MismatchReport:
    return MismatchReport(
        array=mismatch.array,
        index=list(mismatch.index),
        position=_position(mismatch.position),
        channel=mismatch.channel,
        yours=mismatch.value,
        expected=mismatch.expected,
        error=mismatch.error,
        allowed=mismatch.allowed,
    )


def _position(place: float | tuple[float, ...] | None) -> Any:
    if isinstance(place, tuple):
        return [_position(part) for part in place]
    return int(place) if place is not None and place.is_integer() else place


IDENTIFY = Endpoint(
    path="/identify",
    operation="Identify",
    summary="What an array is, and the URL that gives it here",
    parameters=IdentifyParameters,
    inputs=ReportedArrays(
        names=("x", "cos", "sin", "freqs_cos", "freqs_sin", "cos_cached", "sin_cached"),
        example={"x": [[0, 1, 0, 1], [0.84147096, 0.5403023, 0.009999833, 0.99995]]},
        copies=6,
    ),
    answer=identify_arrays,
    report=IdentifyReport,
)
