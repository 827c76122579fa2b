"""``POST /diagnose``: find the shortest known mistakes that turn the expected table into an array.

The expected table is in the body, or a URL names it. A table from a URL is computed in float64 if
its family has this type, and the array is also compared with the tables of mistaken settings. A URL
may also name the rotation that should have converted ``x`` to ``rotated``.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, Field

from service.analysis.array import (
    LARGEST,
    MAX_ELEMENTS,
    FirstMismatch,
    IdentifyInput,
    Sample,
    TableRequest,
)
from service.analysis.diagnosis.explanation import ExpectedTable, diagnose
from service.analysis.diagnosis.frequency_faults import variants
from service.analysis.diagnosis.mistakes import Diagnosis, Mistake
from service.analysis.diagnosis.rotation import diagnose_applied
from service.analysis.diagnosis.waves import Narrowing
from service.analysis.identification.arithmetic import narrow_arithmetic
from service.analysis.identification.ranking import are_alike
from service.analysis.identification.search import identify
from service.analysis.identification.verification import Verdict
from service.delivery.endpoints import ABSENT, Count, Endpoint, Report, ReportedArrays
from service.delivery.parameters import read_parameters
from service.encodings.family import Parameters, optional
from service.encodings.rotary.angles import RotaryAngles, SequenceAngles, packed
from service.encodings.rotary.rope import Rope
from service.encodings.rotary.rope_apply import RopeApply
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.formats.format import Input
from service.grammar import integer, integers, real_positions, to_query
from service.numerics.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT64,
    INDEX_DTYPES,
    INT64,
    REAL_DTYPES,
    Elements,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.tables import Document, StoredTable, Table, size
from service.routes.table_urls import (
    pointing_at_to,
    table_in_to,
    table_request,
    tables,
    unknown_parameter_hint,
    url_of,
)


class TableLink(Report):
    """A link to a table of this server."""

    url: str = Field(json_schema_extra={"format": "uri-reference"})


class MistakeReport(Report):
    """A mistake, with further fields that depend on its name."""

    model_config = ConfigDict(extra="allow")

    name: str
    sentence: str = Field(description="What the mistake is, and how it shows.")
    correction: str = Field(description="How to correct it.")


class UnexplainedElement(Report):
    """The first element that the mistakes do not explain."""

    array: str
    index: list[Count]
    position: int = Field(
        default=ABSENT, description="Position of the row, in the table's numbering."
    )
    channel: Count = ABSENT
    have: float
    want: float = Field(description="The number of the nearest explanation.")
    error: float
    allowed: float


class CheckedElements(Report):
    """The number of checked elements, and the tolerance."""

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
    correct: TableLink = Field(default=ABSENT, description="The expected table.")
    yours: TableLink = Field(
        default=ABSENT, description="The table that the array equals, if this server has it."
    )
    leaves_at: UnexplainedElement = ABSENT
    checked: CheckedElements


_PAIR = ("cos", "sin")
_NAMES = (
    "have",
    "want",
    *(f"{role}_{part}" for role in ("have", "want") for part in _PAIR),
    *_PAIR,
    "x",
    "rotated",
)

Arrays = Mapping[str, StoredTable]


class DiagnoseParameters(Parameters):
    """Parameters of a diagnosis."""

    to: str | None = optional(
        "The URL of the expected table here, path and query, each & of it written as %26; in place "
        "of want. For x and rotated: a URL of /rope or /rope/apply.",
        "/encoding?seq_len=2&d_model=4",
    )

    @classmethod
    def hint_for_unknown(cls, name: str, values: Mapping[str, Any]) -> str | None:
        return unknown_parameter_hint(name, values, "have, and want,")


def diagnose_arrays(parameters: DiagnoseParameters, content: Input) -> DiagnoseReport:
    """Return the report about the arrays of a body; raises PosrefError."""
    arrays, url = content.arrays, parameters.to
    _check_names(content, url)
    if {"x", "rotated"} & set(arrays):
        if set(arrays) != {"x", "rotated"}:
            raise InvalidBody("x and rotated go together, and with nothing else")
        if url is None:
            raise _bad_url("to is required with x and rotated: a URL of /rope or /rope/apply")
        return _report(*diagnose_rotation(url, arrays["x"], arrays["rotated"]))
    have = _samples(_arrays_of("have", arrays, is_alone=url is not None))
    if url is None:
        want = _samples(_arrays_of("want", arrays, is_alone=False))
        dtype = next(iter(want.values())).element_dtype
        request, expected = None, ExpectedTable(want, FLOAT64 if dtype is INT64 else dtype)
    else:
        elements = sum(sample.values.size for sample in have.values())
        request, expected = expected_table(url, elements)
    have = _by_expected_names(have, expected)
    diagnosis = diagnose(have, expected, alternative_tables(request) if request else ())
    if diagnosis is None:
        (name, sample), *_ = have.items()
        other = next(iter(expected.arrays.values()))
        rule = (
            f"the array is {sample.dtype.name} of shape {sample.shape}, and the expected table "
            f"{other.dtype.name} of shape {other.shape}: these shapes have nothing in common"
        )
        raise InvalidBody(rule, f"/{shortened(name)}")
    return _report(request, with_matching_table(diagnosis, have, request))


def _bad_url(rule: str, url: str | None = None) -> InvalidParameters:
    """Return the error for the parameter ``to``."""
    return InvalidParameters(Fault("to", url, rule))


def _check_names(content: Input, url: str | None) -> None:
    unknown = [name for name in content.arrays if name not in _NAMES]
    if unknown and (len(content.arrays) > 1 or url is None):
        if not content.is_named:
            raise _bad_url(
                "an unnamed array is read as have: set to to the URL of the expected table"
            )
        rule = f"{shortened(unknown[0])} is not an accepted array name: use {', '.join(_NAMES)}"
        raise InvalidBody(rule, f"/{shortened(unknown[0])}")
    given = [name for name in content.arrays if name.startswith("want")]
    if given and url is not None:
        rule = f"to and {given[0]} are both the expected table: send one of them"
        raise _bad_url(rule, shortened(url))


def _arrays_of(role: str, arrays: Arrays, *, is_alone: bool) -> Arrays:
    """Return the arrays with a role: one array, or cosines and sines; raises InvalidBody.

    Args:
        role: ``have`` (the submitted table) or ``want`` (the expected table).
        arrays: the arrays of the body.
        is_alone: whether the body has only arrays of this role: then cos and sin need no prefix.
    """
    pair = {part: arrays[name] for part in _PAIR if (name := f"{role}_{part}") in arrays}
    if not pair and is_alone:
        pair = {part: arrays[part] for part in _PAIR if part in arrays}
        if len(arrays) == 1:
            return arrays
    if role in arrays and not pair:
        return {role: arrays[role]}
    if len(pair) == 2 and role not in arrays:
        return pair
    rule = f"send {role}, or {role}_cos and {role}_sin"
    raise InvalidBody(rule if role == "have" else f"{rule}, or name the expected table in to")


def _samples(arrays: Arrays) -> dict[str, Sample]:
    samples = {name: finite_sample(name, table) for name, table in arrays.items()}
    if len({sample.values.shape for sample in samples.values()}) > 1:
        shapes = " and ".join(str(table.shape) for table in arrays.values())
        raise InvalidBody(f"cosines and sines must have the same shape, and have {shapes}")
    return samples


def finite_sample(name: str, table: StoredTable) -> Sample:
    """Return an array as a Sample.

    Raises:
        InvalidBody: the array has more than MAX_ELEMENTS elements, or an element that is not
            finite or has a magnitude above 2^64.
    """
    shown = shortened(name)
    rule = f"{shown} has {size(table)} numbers: at most {MAX_ELEMENTS} are possible"
    if size(table) <= MAX_ELEMENTS:
        sample = Sample.of(table)
        if not sample.is_finite:
            rule = f"{shown} holds NaN or an infinity"
        elif float(np.abs(sample.reals()).max()) > LARGEST:
            rule = f"{shown} holds numbers beyond 2^64: no table of positions does"
        else:
            return sample
    raise InvalidBody(rule, f"/{shown}")


def _by_expected_names(have: dict[str, Sample], expected: ExpectedTable) -> dict[str, Sample]:
    """Return the arrays by the table's array names; a single array may have any name.

    Raises InvalidBody if the names differ.
    """
    names = sorted(expected.arrays)
    if len(have) == len(names) == 1:
        return {names[0]: next(iter(have.values()))}
    if sorted(have) != names:
        rule = f"to names {' and '.join(names)}: send the same, or name one by part in to"
        if names == ["rope"]:
            rule += "; with pack=half, interleaved or compact it has cos and sin"
        raise InvalidBody(rule)
    return have


# Identifying a larger array takes longer than diagnosing it.
_MAX_IDENTIFIED_ELEMENTS = 2**19

_ROWS = ("seq_len", "start", "positions")

# For each arithmetic in a narrow type, the mistakes that describe it.
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
    diagnosis: Diagnosis, have: Mapping[str, Sample], expected: TableRequest | None
) -> Diagnosis:
    """Return the diagnosis with the table of this server that the arrays equal.

    If no mistake explains the arrays, the mistake is that they are a different table.

    Args:
        diagnosis: the diagnosis so far.
        have: the arrays.
        expected: the expected table, if it has a URL.
    """
    if diagnosis.verdict == "equal" or diagnosis.matching_table is not None:
        return diagnosis
    match = _identified_table(have)
    if match is None:
        return diagnosis
    request, further = match.proposal.request, _further_mistakes(match)
    matching_table = None if further else request
    if diagnosis.verdict == "diagnosed":
        return replace(diagnosis, matching_table=matching_table)
    mistakes = (*_other_table(request, expected), *further)
    if not mistakes:
        return diagnosis
    return replace(
        diagnosis,
        verdict="diagnosed",
        mistakes=mistakes,
        residual=match.max_absolute,
        first_mismatch=None,
        matching_table=matching_table,
    )


def _identified_table(have: Mapping[str, Sample]) -> Verdict | None:
    """Return the best match among this server's tables for the arrays; None if none matches."""
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
    order = ", ".join(map(str, reversed(range(len(match.index)))))
    transposed = (Mistake("transposed", {"order": order}),) * match.proposal.is_transposed
    return (*transposed, *_NARROW.get(match.arithmetic[0], ()))


def _other_table(match: TableRequest, expected: TableRequest | None) -> tuple[Mistake, ...]:
    """Return the mistake that the arrays are another table; () if it is the expected one."""
    if expected is None:
        return (Mistake("another-table", {"have": url_of(match), "want": "what is wanted"}),)
    if are_alike(match, expected, tables):
        return ()
    if "positions" in match.parameters:
        kept = {name: each for name, each in expected.parameters.items() if name not in _ROWS}
        positions = {"positions": match.parameters["positions"]}
        moved = TableRequest(expected.resource, {**kept, **positions})
        if are_alike(match, moved, tables):
            have, want = (shortened(_positions(request)) for request in (moved, expected))
            return (Mistake("other-positions", {"have": have, "want": want}),)
    is_same = match.resource == expected.resource
    values = {"have": url_of(match), "want": url_of(expected)}
    return (Mistake("wrong-rule" if is_same else "another-table", values),)


def _positions(request: TableRequest) -> str:
    """Return the positions of a table as text."""
    given = request.parameters
    if "positions" in given:
        return to_query(given["positions"])
    start = int(str(given.get("start", 0)))
    return f"{start}:{start + int(str(given['seq_len']))}" if "seq_len" in given else "one by one"


# The expected table may have this many times the elements of the array, plus _SHORT_ELEMENTS, and
# at most _MOST_ELEMENTS.
_TIMES_LONGER = 8
_SHORT_ELEMENTS = 2**16
_MOST_ELEMENTS = 2**24

_ROUNDED = ("float32", "float16", "bfloat16", "complex64")


def expected_table(url: str, array_elements: int) -> tuple[TableRequest, ExpectedTable]:
    """Return the table that a URL names, before rounding where possible.

    Args:
        url: the value of ``to``.
        array_elements: the number of elements of the submitted arrays.

    Raises:
        InvalidParameters: the URL has no table, or its table is far larger than the arrays.
    """
    _, document = table_in_to(url)
    elements = sum(map(size, document.arrays.values()))
    if elements > min(_MOST_ELEMENTS, _TIMES_LONGER * array_elements + _SHORT_ELEMENTS):
        raise _bad_url(
            f"to names a table of {elements} elements, and {array_elements} are sent: "
            "name the part that they should be, by seq_len or positions"
        )
    request = table_request(url)
    return request, _expected(request, document)


def alternative_tables(
    request: TableRequest,
) -> Iterator[tuple[Mistake, TableRequest, ExpectedTable]]:
    """Yield the tables for mistaken settings of a request: mistake, request, table."""
    for mistake, other in variants(request):
        try:
            yield mistake, other, _expected(other, tables(other))
        except InvalidParameters:
            continue


def _expected(request: TableRequest, document: Document) -> ExpectedTable:
    """Read the table of a request, before rounding where possible."""
    exact = document
    if document.dtype in _ROUNDED:
        with suppress(InvalidParameters):
            exact = tables(request.with_parameters(dtype="float64"))
    samples = {}
    for name, table in exact.arrays.items():
        dtype, elements = table.dtype, _elements(table)
        if dtype.name in INDEX_DTYPES:
            dtype, elements = INT64, elements.astype(np.int64)
        samples[name] = Sample.of(StoredTable(elements, dtype))
    name = "float32" if document.dtype == "complex64" else str(document.dtype)
    dtype = REAL_DTYPES.get(name, FLOAT64)
    return ExpectedTable(samples, dtype, row_positions(request), _grid(request))


def _elements(table: Table) -> Elements:
    return table.read(0, size(table)).reshape(table.shape)


def row_positions(request: TableRequest) -> Float64s | None:
    """Return the row positions that the request states; None if it states none."""
    parameters = request.parameters
    if "positions" in parameters:
        positions = real_positions(parameters["positions"])
        return positions.at(0, positions.count).astype(np.float64)
    # From a far start, even the slowest angle has passed 2π: it does not determine the start.
    if {"start", "seq_len"} <= set(parameters):
        start, rows = (integer(parameters[name]) for name in ("start", "seq_len"))
        return start + np.arange(rows, dtype=np.float64)
    return None


def _grid(request: TableRequest) -> tuple[int, int] | None:
    """Return (height, width) if the rows are the tokens of a 2-D grid, else None."""
    parameters = request.parameters
    if {"height", "width"} <= set(parameters) and "depth" not in parameters:
        return integer(parameters["height"]), integer(parameters["width"])
    lengths = integers(parameters["grid"]) if "grid" in parameters else ()
    return (lengths[0], lengths[1]) if len(lengths) == 2 else None


_LAYOUTS = {"half": "half", "interleaved": "interleaved", "half_concat": "half"}
_FORM = ("pack", "part", "batch", "dtype")
_MOST_ROWS = 2**16


def diagnose_rotation(
    url: str, x: StoredTable, rotated: StoredTable
) -> tuple[TableRequest, Diagnosis]:
    """Diagnose an array that should have been rotated by the rotation of a URL.

    Args:
        url: ``/rope?…``, or ``/rope/apply?…``, which also has the layout.
        x: the array before the rotation, (…, positions, head_dim).
        rotated: the array after the rotation, with the same shape.

    Raises:
        InvalidParameters: the URL names no rotation.
        InvalidBody: the arrays do not fit the rotation.
    """
    _check_rotated(x, rotated)
    with pointing_at_to(url):
        request = table_request(url)
    angles: RotaryAngles | None = None
    sign = 1.0
    if request.resource == "rope/apply":
        with pointing_at_to(url):
            parameters = read_parameters(RopeApply, request.parameters)
            angles = parameters.angles_of(x.shape)
        document = packed(angles, "compact", FLOAT64)
        sign = -1.0 if parameters.inverse else 1.0
        options: dict[str, Any] = {
            "layout": parameters.layout,
            "output_layout": parameters.output_layout,
            "rotary_offset": parameters.rotary_offset,
        }
    else:
        document = _compact_table(url, request)
        if request.resource == "rope":
            angles = read_parameters(Rope, request.parameters).rotary_angles()
        options = {"layout": _LAYOUTS.get(str(request.parameters.get("pack")))}
    if isinstance(angles, SequenceAngles):
        frequencies = np.array([float(frequency) for frequency in angles.rule.exact()])
        positions = angles.positions.at(0, angles.rows).astype(np.float64)
        options |= {"positions": positions, "omega": sign * frequencies}
    cos, sin = (_elements(document.arrays[name]) for name in _PAIR)
    if 2 * cos.shape[1] > x.shape[-1]:
        rule = f"the rotation has {2 * cos.shape[1]} channels, and x has {x.shape[-1]}"
        raise InvalidBody(rule, "/x")
    if len(cos) < x.shape[-2]:
        raise _bad_url(f"to names {len(cos)} rows, and x has {x.shape[-2]}: name as many at least")
    before, after = (to_float64(table.elements, table.dtype) for table in (x, rotated))
    return request, diagnose_applied(before, after, cos, sign * sin, rotated.dtype, **options)


def _check_rotated(x: StoredTable, rotated: StoredTable) -> None:
    for name, table in (("x", x), ("rotated", rotated)):
        if table.dtype not in REAL_DTYPES.values():
            rule = f"{name} must hold real numbers: it is {table.dtype.name}"
            raise InvalidBody(rule, f"/{name}")
        if len(table.shape) < 2:
            raise InvalidBody(f"{name} must be positions by channels at least", f"/{name}")
        finite_sample(name, table)
    if x.shape != rotated.shape:
        rule = f"x has the shape {x.shape}, and rotated {rotated.shape}: they must be the same"
        raise InvalidBody(rule, "/rotated")


def _compact_table(url: str, request: TableRequest) -> Document:
    if request.resource not in {"rope", "rope/axial"}:
        path = f"/{request.resource}"
        rule = f"to must name a rotation, /rope or /rope/apply, where x is sent: it is {path}"
        raise _bad_url(rule, path)
    _, document = table_in_to(url)
    if any(table.shape[0] > _MOST_ROWS for table in document.arrays.values()):
        raise _bad_url(f"to names more than {_MOST_ROWS} rows: as many as x has are enough")
    kept = {name: value for name, value in request.parameters.items() if name not in _FORM}
    return tables(TableRequest(request.resource, {**kept, "pack": "compact", "dtype": "float64"}))


def _report(request: TableRequest | None, diagnosis: Diagnosis) -> DiagnoseReport:
    links = {"correct": request, "yours": diagnosis.matching_table}
    given: dict[str, Any] = {
        name: TableLink(url=url_of(table)) for name, table in links.items() if table is not None
    }
    if diagnosis.first_mismatch is not None:
        given["leaves_at"] = _unexplained(diagnosis.first_mismatch)
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
        **given,
        checked=CheckedElements(elements=diagnosis.elements, allowed=diagnosis.allowed),
    )


def _unexplained(mismatch: FirstMismatch) -> UnexplainedElement:
    given: dict[str, Any] = {}
    if isinstance(mismatch.position, float):
        given["position"] = int(mismatch.position)
    if len(mismatch.index) > 1:
        given["channel"] = mismatch.index[-1]
    return UnexplainedElement(
        array=mismatch.array,
        index=list(mismatch.index),
        **given,
        have=mismatch.value,
        want=mismatch.expected,
        error=mismatch.error,
        allowed=mismatch.allowed,
    )


DIAGNOSE = Endpoint(
    path="/diagnose",
    operation="Diagnose",
    summary="The shortest known mistakes that turn the expected table into an array",
    parameters=DiagnoseParameters,
    inputs=ReportedArrays(
        names=_NAMES,
        example={
            "have": [[0.0, 0.0, 1.0, 1.0], [0.84147098, 0.00999983, 0.54030231, 0.99995]],
        },
        copies=16,
        base_seconds=0.08,
        root_seconds=6e-3,
    ),
    answer=diagnose_arrays,
    report=DiagnoseReport,
    example="to=/encoding?seq_len=2%26d_model=4",
)
