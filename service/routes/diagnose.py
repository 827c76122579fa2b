"""``POST /diagnose``: the shortest known mistakes that turn the expected table into an array."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, Literal

from pydantic import ConfigDict, Field

from service.analysis.array import FirstMismatch, IdentifyInput, Sample, TableRequest
from service.analysis.diagnosis.explanation import ExpectedTable, diagnose
from service.analysis.diagnosis.mistakes import Diagnosis, Mistake
from service.analysis.diagnosis.waves import Narrowing
from service.analysis.identification.arithmetic import narrow_arithmetic
from service.analysis.identification.ranking import are_alike
from service.analysis.identification.search import identify
from service.analysis.identification.verification import Verdict
from service.delivery.endpoints import ABSENT, Count, Endpoint, Report, ReportedArrays
from service.encodings.family import Parameters
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.formats.format import Input
from service.grammar import to_query
from service.numerics.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT64,
    INT64,
)
from service.numerics.tables import StoredTable, size
from service.routes.expected_tables import (
    alternative_tables,
    diagnose_rotation,
    expected_table,
    finite_sample,
)
from service.routes.table_urls import (
    misnamed_array_hint,
    tables,
    unencoded_url_hint,
    url_of,
)


class TableLink(Report):
    """A table of this server."""

    url: str = Field(json_schema_extra={"format": "uri-reference"})


class MistakeReport(Report):
    """One mistake; beside these fields it has its own values."""

    model_config = ConfigDict(extra="allow")

    name: str
    sentence: str = Field(description="What the mistake is, and how it shows.")
    correction: str = Field(description="How to correct it.")


class UnexplainedElement(Report):
    """The first element that the mistakes do not explain."""

    array: str
    index: list[Count]
    position: int = Field(default=ABSENT, description="Of its row, as the table counts.")
    channel: Count = ABSENT
    have: float
    want: float = Field(description="The number of the nearest explanation.")
    error: float
    allowed: float


class CheckedElements(Report):
    """The extent and the tolerance of the check."""

    elements: Count
    allowed: float


class DiagnoseReport(Report):
    """The mistakes, their corrections, and whether they explain every element."""

    verdict: Literal["equal", "diagnosed", "none"] = Field(
        description="equal: no mistake; diagnosed: the mistakes explain every element; "
        "none: no list of known mistakes does, and those named come nearest."
    )
    mistakes: list[MistakeReport]
    residual: float = Field(
        description="The largest difference from the expected table with the mistakes applied."
    )
    correct: TableLink = Field(default=ABSENT, description="The table that it should be.")
    yours: TableLink = Field(
        default=ABSENT, description="The table that it is, where this server has it."
    )
    leaves_at: UnexplainedElement = ABSENT
    checked: CheckedElements


_PAIR = ("cos", "sin")
_NAMES = (
    "have",
    "want",
    *(f"{side}_{part}" for side in ("have", "want") for part in _PAIR),
    *_PAIR,
    "x",
    "rotated",
)

Arrays = Mapping[str, StoredTable]


class DiagnoseParameters(Parameters):
    """Parameters of a diagnosis."""

    to: str | None = Field(
        default=None,
        description="The URL of the expected table here, path and query, each & of it written as "
        "%26; in place of want. For x and rotated: a URL of /rope or /rope/apply.",
        examples=["/encoding?seq_len=2&d_model=4"],
    )

    @classmethod
    def meant(cls, name: str, values: Mapping[str, Any]) -> str | None:
        array = misnamed_array_hint(values.get(name), "have, and want,")
        return array or unencoded_url_hint("to", values.get("to"), name)


def diagnose_arrays(parameters: DiagnoseParameters, content: Input) -> DiagnoseReport:
    """Return the report about the arrays of a body; raises PosrefError."""
    arrays = dict(content.arrays)
    _check_names(arrays, content, parameters)
    if {"x", "rotated"} & set(arrays):
        _check_rotation(arrays, parameters)
        request, diagnosis = diagnose_rotation(str(parameters.to), arrays["x"], arrays["rotated"])
        return _report(diagnosis, request)
    have = _samples(_side(arrays, "have", is_free=parameters.to is not None))
    if parameters.to is None:
        want = _samples(_side(arrays, "want", is_free=False))
        dtype = next(iter(want.values())).element_dtype
        wanted = ExpectedTable(want, FLOAT64 if dtype is INT64 else dtype)
        return _report(_diagnosed(_renamed(have, wanted), wanted, None), None)
    elements = sum(sample.values.size for sample in have.values())
    request, wanted = expected_table(parameters.to, elements)
    return _report(_diagnosed(_renamed(have, wanted), wanted, request), request)


def _check_names(arrays: Arrays, content: Input, parameters: DiagnoseParameters) -> None:
    unknown = [name for name in arrays if name not in _NAMES]
    is_lone = len(arrays) == 1 and parameters.to is not None
    if unknown and not is_lone:
        if not content.is_named:
            rule = "an array without a name is what you have: to must name what it should be"
            raise InvalidParameters(Fault("to", None, rule))
        rule = f"{shortened(unknown[0])} is no array here: there are {', '.join(_NAMES)}"
        raise InvalidBody(rule, f"/{shortened(unknown[0])}")
    given = [name for name in arrays if name.startswith("want")]
    if given and parameters.to is not None:
        rule = f"to and {given[0]} both say what it should be: send one of them"
        raise InvalidParameters(Fault("to", shortened(parameters.to), rule))


def _check_rotation(arrays: Arrays, parameters: DiagnoseParameters) -> None:
    if set(arrays) != {"x", "rotated"}:
        raise InvalidBody("x and rotated go together, and with nothing else")
    if parameters.to is None:
        rule = "to is required with x and rotated: a URL of /rope or /rope/apply"
        raise InvalidParameters(Fault("to", None, rule))


def _side(arrays: Arrays, side: str, *, is_free: bool) -> Arrays:
    """Return the arrays of a side, have or want: one array, or cosines and sines."""
    pair = {part: arrays[name] for part in _PAIR if (name := f"{side}_{part}") in arrays}
    if not pair and side == "have" and is_free:
        pair = {part: arrays[part] for part in _PAIR if part in arrays}
        if len(arrays) == 1:
            return arrays
    if side in arrays and not pair:
        return {side: arrays[side]}
    if len(pair) == 2 and side not in arrays:
        return pair
    rule = f"send {side}, or {side}_cos and {side}_sin"
    if side == "want":
        rule += ", or name in to what it should be"
    raise InvalidBody(rule)


def _samples(arrays: Arrays) -> dict[str, Sample]:
    samples = {name: finite_sample(name, table) for name, table in arrays.items()}
    if len({sample.values.shape for sample in samples.values()}) > 1:
        shapes = " and ".join(str(table.shape) for table in arrays.values())
        raise InvalidBody(f"cosines and sines must have the same shape, and have {shapes}")
    return samples


def _renamed(have: dict[str, Sample], wanted: ExpectedTable) -> dict[str, Sample]:
    """Return the arrays by the names of the table: a single array takes its name."""
    names = sorted(wanted.arrays)
    if len(have) == len(names) == 1:
        return {names[0]: next(iter(have.values()))}
    if sorted(have) != names:
        rule = f"to names {' and '.join(names)}: send the same, or name one by part in to"
        if names == ["rope"]:
            rule += "; with pack=half, interleaved or compact it has cos and sin"
        raise InvalidBody(rule)
    return have


def _diagnosed(
    have: Mapping[str, Sample], wanted: ExpectedTable, request: TableRequest | None
) -> Diagnosis:
    diagnosis = diagnose(have, wanted, alternative_tables(request) if request else ())
    if diagnosis is None:
        (name, ours), *_ = have.items()
        theirs = next(iter(wanted.arrays.values()))
        rule = (
            f"what you have is {ours.dtype.name} of shape {ours.shape}, and what it should be "
            f"{theirs.dtype.name} of shape {theirs.shape}: they do not go together"
        )
        raise InvalidBody(rule, f"/{shortened(name)}")
    return with_matching_table(diagnosis, have, request)


# Identifying a larger array takes longer than diagnosing it.
_MAX_IDENTIFIED_ELEMENTS = 2**19

_PLACES = ("seq_len", "start", "positions")

# The mistakes that explain the numbers of a table in the arithmetic of a narrow type.
_NARROW = {
    narrow_arithmetic(part, dtype): Narrowing(dtype, **{rounded_part: True}).mistakes
    for dtype in (BFLOAT16, FLOAT16)
    for part, rounded_part in (
        ("positions", "positions"),
        ("frequencies", "frequencies"),
        ("angles", "angles"),
        ("throughout", "angles"),
    )
}


def with_matching_table(
    diagnosis: Diagnosis, have: Mapping[str, Sample], wanted: TableRequest | None
) -> Diagnosis:
    """Add the table of this server that the arrays are equal to.

    Where no mistake explains the arrays, that they are another table is the mistake.

    Args:
        diagnosis: the diagnosis so far.
        have: the arrays.
        wanted: the expected table, where it has a URL.
    """
    if diagnosis.verdict == "equal" or diagnosis.matching_table is not None:
        return diagnosis
    best = _identified_table(have)
    if best is None:
        return diagnosis
    yours, further = best.proposal.request, _further_mistakes(best)
    named = None if further else yours
    if diagnosis.verdict == "diagnosed":
        return replace(diagnosis, matching_table=named)
    mistakes = (*_other_table(yours, wanted), *further)
    if not mistakes:
        return diagnosis
    return replace(
        diagnosis,
        verdict="diagnosed",
        mistakes=mistakes,
        residual=best.max_absolute,
        first_mismatch=None,
        matching_table=named,
    )


def _identified_table(have: Mapping[str, Sample]) -> Verdict | None:
    """Return the match of the table that all of the arrays are equal to."""
    elements = sum(prod(sample.shape) for sample in have.values())
    if elements > _MAX_IDENTIFIED_ELEMENTS:
        return None
    hypotheses = identify(IdentifyInput(have), tables).hypotheses
    # identify() looks at one copy along a batch axis; its size then differs.
    if not hypotheses or sum(map(size, hypotheses[0].document.arrays.values())) != elements:
        return None
    return hypotheses[0]


def _further_mistakes(match: Verdict) -> tuple[Mistake, ...]:
    """Return the mistakes that remain between the arrays and their matching table."""
    order = range(len(match.index))
    exchanged = Mistake("transposed", {"order": ", ".join(map(str, reversed(order)))})
    transposed = (exchanged,) if match.proposal.is_transposed else ()
    return (*transposed, *_NARROW.get(match.arithmetic[0], ()))


def _other_table(yours: TableRequest, wanted: TableRequest | None) -> tuple[Mistake, ...]:
    """Return the mistake of the matching table; none where it is the expected one."""
    if wanted is None:
        return (Mistake("another-table", {"have": url_of(yours), "want": "what is wanted"}),)
    if are_alike(yours, wanted, tables):
        return ()
    moved = _moved(wanted, yours)
    if moved is not None and are_alike(yours, moved, tables):
        have, want = (shortened(_positions(request)) for request in (moved, wanted))
        return (Mistake("other-positions", {"have": have, "want": want}),)
    is_same = yours.resource == wanted.resource
    values = {"have": url_of(yours), "want": url_of(wanted)}
    return (Mistake("wrong-rule" if is_same else "another-table", values),)


def _moved(wanted: TableRequest, yours: TableRequest) -> TableRequest | None:
    """Return the expected table at the positions of another; None where it lists none."""
    if "positions" not in yours.parameters:
        return None
    kept = {name: value for name, value in wanted.parameters.items() if name not in _PLACES}
    return TableRequest(wanted.resource, {**kept, "positions": yours.parameters["positions"]})


def _positions(request: TableRequest) -> str:
    """Return the positions of a table as text."""
    given = {name: request.parameters[name] for name in _PLACES if name in request.parameters}
    if "positions" in given:
        return str(to_query(given["positions"]))
    start = int(str(given.get("start", 0)))
    return f"{start}:{start + int(str(given['seq_len']))}" if "seq_len" in given else "one by one"


def _report(diagnosis: Diagnosis, request: TableRequest | None) -> DiagnoseReport:
    optional: dict[str, Any] = {}
    if request is not None:
        optional["correct"] = TableLink(url=url_of(request))
    if diagnosis.matching_table is not None:
        optional["yours"] = TableLink(url=url_of(diagnosis.matching_table))
    if diagnosis.first_mismatch is not None:
        optional["leaves_at"] = _unexplained(diagnosis.first_mismatch)
    return DiagnoseReport(
        verdict=diagnosis.verdict,
        mistakes=[
            MistakeReport(
                **mistake.values,
                name=mistake.name,
                sentence=mistake.sentence,
                correction=mistake.correction,
            )
            for mistake in diagnosis.mistakes
        ],
        residual=diagnosis.residual,
        **optional,
        checked=CheckedElements(elements=diagnosis.elements, allowed=diagnosis.allowed),
    )


def _unexplained(mismatch: FirstMismatch) -> UnexplainedElement:
    optional: dict[str, Any] = {}
    if isinstance(mismatch.position, float):
        optional["position"] = int(mismatch.position)
    if len(mismatch.index) > 1:
        optional["channel"] = mismatch.index[-1]
    return UnexplainedElement(
        array=mismatch.array,
        index=list(mismatch.index),
        **optional,
        have=mismatch.value,
        want=mismatch.expected,
        error=mismatch.error,
        allowed=mismatch.allowed,
    )


DIAGNOSE = Endpoint(
    path="/diagnose",
    operation="Diagnose",
    summary="The shortest known mistakes that make what somebody has of what it should be",
    parameters=DiagnoseParameters,
    inputs=ReportedArrays(
        names=_NAMES,
        example={
            "have": [[0.0, 0.0, 1.0, 1.0], [0.84147098, 0.00999983, 0.54030231, 0.99995]],
        },
        copies=16,
    ),
    answer=diagnose_arrays,
    report=DiagnoseReport,
    example="to=/encoding?seq_len=2%26d_model=4",
)
