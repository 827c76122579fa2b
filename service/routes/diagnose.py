"""``POST /diagnose``: find the shortest known mistakes that turn the expected table into an array.

The expected table is in the body, or a URL names it. A table from a URL is computed in float64 if
its family has this type, and the array is also compared with the tables of mistaken settings. A URL
may also name the rotation that should have converted ``x`` to ``rotated``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import Any, ClassVar, Literal

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
from service.analysis.diagnosis.explanation import (
    ExpectedTable,
    diagnose,
    matching,
    positions_of_rows,
)
from service.analysis.diagnosis.mistakes import Diagnosis, Mistake
from service.analysis.diagnosis.rotation import diagnose_applied
from service.analysis.diagnosis.waves import Narrowing
from service.analysis.identification.arithmetic import narrow_arithmetic
from service.analysis.identification.ranking import are_alike
from service.analysis.identification.search import identify
from service.analysis.identification.verification import Verdict
from service.delivery.endpoints import ABSENT, Count, Endpoint, Number, Report, ReportedArrays
from service.delivery.parameters import read_parameters
from service.encodings.family import optional
from service.encodings.rotary.angles import RotaryAngles, SequenceAngles, packed
from service.encodings.rotary.rope import Rope
from service.encodings.rotary.rope_apply import RopeApply
from service.errors import InvalidBody, InvalidParameters, shortened
from service.formats.format import Input
from service.grammar import real_positions
from service.numerics.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT64,
    INT64,
    REAL_DTYPES,
    to_float64,
)
from service.numerics.tables import Document, StoredTable, size
from service.routes.expected_tables import (
    ROWS,
    Expectation,
    Rows,
    alternative_tables,
    bad_url,
    beginning,
    elements_of,
    expected_table,
    expected_tables,
    positions_text,
    with_rows,
)
from service.routes.table_urls import (
    ReportParameters,
    TableLink,
    arrays_in_to,
    link_to,
    pointing_at_to,
    table_in_to,
    table_request,
    tables,
)
from service.settings import Settings


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
    position: Number = Field(
        default=ABSENT, description="Position of the row, in the table's numbering."
    )
    channel: Count = ABSENT
    have: float
    want: float = Field(description="The number of the nearest explanation.")
    error: float
    allowed: float

    def __str__(self) -> str:
        index = f"{self.array} at index {self.index}"
        position = "" if self.position is None else f", position {self.position}"
        channel = "" if self.channel is None else f", channel {self.channel}"
        place = f"{index}{position}{channel}"
        return f"{place}: {self.have} instead of {self.want} (±{self.allowed:.2g} is allowed)"


class CheckedElements(Report):
    """The number of checked elements, the tolerance, and the rows where not all were sent."""

    elements: Count
    allowed: float = Field(description="The largest tolerance; each element has its own.")
    rows: Count = Field(
        default=ABSENT,
        description="Only where the array is shorter than the table of to: the number of rows, "
        "from the first on, that are expected.",
    )
    of: Count = Field(default=ABSENT, description="With rows: the number that the table of to has.")


class DiagnoseReport(Report):
    """The mistakes, their corrections, and whether they explain every element."""

    verdict: Literal["equal", "diagnosed", "none"] = Field(
        description="equal: no mistake; diagnosed: the mistakes explain every element; "
        "none: no list of known mistakes does, and those named come nearest."
    )
    reason: str = Field(
        default=ABSENT, description="Of equal: why numbers differ by more than rounding alone."
    )
    mistakes: list[MistakeReport]
    residual: float = Field(
        description="The largest difference from the expected table with the mistakes applied."
    )
    correct: TableLink = Field(
        default=ABSENT,
        description="The expected table, with the rows that are expected; of /rope/apply, the "
        "cosines and sines before inverse.",
    )
    yours: TableLink = Field(
        default=ABSENT, description="The table that the array equals, if this server has it."
    )
    leaves_at: UnexplainedElement = ABSENT
    checked: CheckedElements

    def lines(self) -> Iterator[str]:
        """Yield the mistakes if they explain the array, else the verdict; then what was found."""
        sentences = " ".join(mistake.sentence for mistake in self.mistakes)
        if self.verdict == "none":
            sentences = f"none of the known mistakes explains all; first wrong: {self.leaves_at}"
        yield sentences or ", ".join(filter(None, (self.verdict, self.reason)))
        for mistake in self.mistakes:
            if self.verdict == "none":
                yield f"nearest, but not enough: {mistake.name}"
            else:
                yield f"mistake: {mistake.name}"
                yield f"correction: {mistake.correction}"
        yield from super().lines()
        if self.verdict != "none":
            yield f"allowed: {self.checked.allowed}"
        yield from (f"{name}: {link}" for name, link in self if isinstance(link, TableLink))
        if self.checked.rows is not None:
            yield f"checked: the first {self.checked.rows} of {self.checked.of} rows"
        if self.leaves_at is not None:
            yield f"leaves_at: {self.leaves_at}"


_PAIR = ("cos", "sin")
_ROLES = ("have", "want")
_NAMES = (*_ROLES, *map("_".join, product(_ROLES, _PAIR)), *_PAIR, "x", "rotated")

Arrays = Mapping[str, StoredTable]


class DiagnoseParameters(ReportParameters):
    """Parameters of a diagnosis."""

    array_names: ClassVar[str] = "x, and want,"
    to: str | None = optional(
        "The expected table, in place of want: path and query of its URL here; in a URL written "
        "by hand, each & of it is %26. For x and rotated: a URL of /rope or /rope/apply.",
        "/encoding?seq_len=2&d_model=4",
    )


def diagnose_arrays(
    parameters: DiagnoseParameters, content: Input, settings: Settings
) -> DiagnoseReport:
    """Return the report about the arrays of a body; raises PosrefError."""
    arrays, url = content.arrays, parameters.to
    _check_names(content, url)
    if "rotated" in arrays:
        if set(arrays) != {"x", "rotated"}:
            raise InvalidBody("x and rotated go together, and with nothing else")
        if url is None:
            raise bad_url("to is required with x and rotated: a URL of /rope or /rope/apply")
        return _report(*diagnose_rotation(url, arrays["x"], arrays["rotated"]), settings)
    sent = _arrays_of("have", arrays, is_alone=url is not None)
    have = _samples(sent)
    if url is None:
        want = _samples(_arrays_of("want", arrays, is_alone=False))
        dtype = next(iter(want.values())).element_dtype
        table = ExpectedTable(want, FLOAT64 if dtype is INT64 else dtype)
        rule = "send x with want, or have_cos and have_sin with want_cos and want_sin"
        have = _by_expected_names(have, table.arrays, rule)
        expectations: Iterable[Expectation] = [(None, table, {})]
    else:
        _, document = table_in_to(url)
        have = _by_expected_names(have, document.arrays, arrays_in_to(url, document, content))
        expectations = expected_tables(url, document, have)
    for expectation in expectations:
        request, expected, rows = expectation
        others = partial(alternative_tables, request) if request else tuple
        diagnosis = diagnose(have, expected, others)
        if diagnosis is not None and diagnosis.verdict != "none":
            break
    if diagnosis is None:
        sample = next(iter(have.values()))
        other = next(iter(expected.arrays.values()))
        rule = (
            f"the array is {sample.dtype.name} of shape {sample.shape}, and the expected table "
            f"{other.dtype.name} of shape {other.shape}: these shapes have nothing in common"
        )
        raise InvalidBody(rule, f"/{shortened(next(iter(sent)))}")
    if request and (diagnosis.verdict == "none" or len(diagnosis.mistakes) > 1):
        diagnosis = _with_other_positions(diagnosis, have, expected, request)
    diagnosis = with_matching_table(diagnosis, have, request, settings)
    return _report(request, diagnosis, rows, settings)


def _check_names(content: Input, url: str | None) -> None:
    if url is None and not content.is_named:
        raise bad_url("an unnamed array is read as x: set to to the URL of the expected table")
    unknown = [name for name in content.arrays if name not in _NAMES]
    if unknown and (len(content.arrays) > 1 or url is None):
        rule = f"{shortened(unknown[0])} is not an accepted array name: use {', '.join(_NAMES)}"
        raise InvalidBody(rule, f"/{shortened(unknown[0])}")
    given = [name for name in content.arrays if name.startswith("want")]
    if given and url is not None:
        rule = f"to and {given[0]} are both the expected table: send one of them"
        raise bad_url(rule, shortened(url))


def _arrays_of(role: str, arrays: Arrays, *, is_alone: bool) -> Arrays:
    """Return the arrays with a role: one array, or cosines and sines; raises InvalidBody.

    The role is ``have`` (the submitted table, also x) or ``want`` (the expected one). In a body
    with arrays of this role alone, cos and sin need no prefix.
    """
    alone = [name for name in (role, "x" * (role == "have")) if name in arrays]
    pair = {part: arrays[name] for part in _PAIR if (name := f"{role}_{part}") in arrays}
    if not pair and is_alone:
        pair = {part: arrays[part] for part in _PAIR if part in arrays}
        if len(arrays) == 1:
            return arrays
    if len(alone) == 1 and not pair:
        return {alone[0]: arrays[alone[0]]}
    if len(pair) == 2 and not alone:
        return pair
    rule = f"send {'x' if role == 'have' else role}, or {role}_cos and {role}_sin"
    if len(alone) == 2:
        rule = "x and have are two names of one array: send one of them"
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
    shown, rows = shortened(name), MAX_ELEMENTS * table.shape[-2:][0] // size(table)
    part = f"at most {rows} rows, and later ones with start= in to" if rows else "fewer heads"
    rule = f"{shown} has {size(table)} numbers: at most {MAX_ELEMENTS} are possible: send {part}"
    if size(table) <= MAX_ELEMENTS:
        sample = Sample.of(table)
        if not sample.is_finite:
            rule = f"{shown} holds NaN or an infinity"
        elif float(np.abs(sample.reals()).max()) > LARGEST:
            rule = f"{shown} holds numbers beyond 2^64: no table of positions does"
        else:
            return sample
    raise InvalidBody(rule, f"/{shown}")


def _by_expected_names(
    have: dict[str, Sample], names: Collection[str], rule: str
) -> dict[str, Sample]:
    """Return the arrays by the table's array names; a single array may have any name.

    Raises InvalidBody, with the rule, if the names differ.
    """
    if len(have) == len(names) == 1:
        return dict(zip(names, have.values(), strict=True))
    if set(have) != set(names):
        raise InvalidBody(rule)
    return have


# Identifying a larger array takes longer than diagnosing it.
_MAX_IDENTIFIED_ELEMENTS = 2**19

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


def _with_other_positions(
    diagnosis: Diagnosis,
    have: Mapping[str, Sample],
    expected: ExpectedTable,
    request: TableRequest,
) -> Diagnosis:
    """Return the diagnosis that the rows are those of other positions, if they are."""
    found = positions_of_rows(have, expected)
    if found is None:
        return diagnosis
    listed = str(real_positions(",".join(f"{each:.0f}" for each in found)))
    with suppress(InvalidParameters):
        moved = with_rows(request.without("start", "seq_len"), tables(request), positions=listed)
        if result := matching(have, expected_table(moved, tables(moved))):
            return replace(
                diagnosis,
                verdict="diagnosed",
                mistakes=(_other_positions(moved, request),),
                residual=result.residual,
                allowed=result.allowed,
                first_mismatch=None,
                matching_table=moved if len(listed) <= _MOST_LISTED else None,
            )
    return diagnosis


def _other_positions(moved: TableRequest, expected: TableRequest) -> Mistake:
    have, want = (shortened(positions_text(request)) for request in (moved, expected))
    return Mistake("other-positions", {"have": have, "want": want})


# The characters of a list of positions that goes into a URL.
_MOST_LISTED = 2000


def with_matching_table(
    diagnosis: Diagnosis,
    have: Mapping[str, Sample],
    expected: TableRequest | None,
    settings: Settings,
) -> Diagnosis:
    """Return the diagnosis with the table of this server that the arrays equal.

    If no mistake explains the arrays, the mistake is that they are a different table than the
    expected one, which may have no URL. The settings limit the tables that mistakes name.
    """
    if diagnosis.verdict == "equal" or diagnosis.matching_table is not None:
        return diagnosis
    match = _identified_table(have)
    if match is None:
        return diagnosis
    request, further = match.proposal.request, _further_mistakes(match)
    if diagnosis.verdict == "diagnosed":
        return replace(diagnosis, matching_table=None if further else request)
    other = _other_table(match, expected, settings)
    mistakes = (*other, *further)
    if not mistakes:
        return diagnosis
    return replace(
        diagnosis,
        verdict="diagnosed",
        mistakes=mistakes,
        residual=match.max_absolute,
        first_mismatch=None,
        matching_table=None if further else request,
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


def _other_table(
    found: Verdict, expected: TableRequest | None, settings: Settings
) -> tuple[Mistake, ...]:
    """Return the mistake that the arrays are another table; () if it is the expected one."""
    match = found.proposal.request
    url = str(TableLink(**link_to(match, found.document, settings)))
    if expected is None:
        return (Mistake("another-table", {"have": url, "want": "what is wanted"}),)
    if are_alike(match, expected, tables):
        return ()
    if "positions" in match.parameters:
        moved = expected.without(*ROWS).with_parameters(positions=match.parameters["positions"])
        if are_alike(match, moved, tables):
            return (_other_positions(moved, expected),)
    is_same = match.resource == expected.resource
    want = str(TableLink(**link_to(expected, tables(expected), settings)))
    name = "wrong-rule" if is_same else "another-table"
    return (Mistake(name, {"have": url, "want": want}),)


_LAYOUTS = {"half": "half", "interleaved": "interleaved", "half_concat": "half"}
_FORM = ("pack", "part", "batch", "dtype")
_MOST_ROWS = 2**16


def diagnose_rotation(
    url: str, x: StoredTable, rotated: StoredTable
) -> tuple[TableRequest, Diagnosis, Rows]:
    """Diagnose an array that should have been rotated by the rotation of a URL.

    The arrays are (…, positions, head_dim). Only ``/rope/apply?…`` has the layout.

    Raises:
        InvalidParameters: the URL names no rotation.
        InvalidBody: the arrays do not fit the rotation.
    """
    _check_rotated(x, rotated)
    with pointing_at_to(url):
        request = table_request(url)
    angles: RotaryAngles | None = None
    rows: Rows = {}
    sign = 1.0
    if request.resource == "rope/apply":
        with pointing_at_to(url):
            parameters = read_parameters(RopeApply, request.parameters)
            if parameters.axes is not None:
                x = parameters.vectors("x", x).in_rows()
                rotated = parameters.vectors("rotated", rotated).in_rows()
            angles = parameters.angles_of(*x.shape[-2:])
            if angles.row_shape != x.shape[-2:-1]:
                rule = f"to gives {angles.rows} positions, and x has {x.shape[-2]} rows"
                raise InvalidBody(rule, "/x")
        document = packed(angles, "compact", FLOAT64)
        # A GET returns its cosines and sines.
        request = TableRequest("rope", {**document.parameters, "pack": parameters.layout})
        sign = -1.0 if parameters.inverse else 1.0
        options: dict[str, Any] = {
            "layout": parameters.layout,
            "output_layout": parameters.output_layout,
            "rotary_offset": parameters.rotary_offset,
        }
    else:
        document = _rotation(url, request)
        # Another axis than that before the channels may be the positions.
        whole, (used, _) = request, beginning(request, document, max(x.shape[:-1]))
        request, rows = beginning(whole, document, x.shape[-2])
        document = _compact_table(used)
        if request.resource == "rope":
            angles = read_parameters(Rope, used.parameters).rotary_angles()
        options = {"layout": _LAYOUTS.get(str(request.parameters.get("pack")))}
    if isinstance(angles, SequenceAngles):
        frequencies = np.array([float(frequency) for frequency in angles.rule.exact()])
        positions = angles.positions.at(0, angles.rows).astype(np.float64)
        options |= {"positions": positions, "omega": sign * frequencies}
    if angles is not None and angles.by_channel:
        raise bad_url("to names angles of single channels: send the table, of /rope?pack=half")
    cos, sin = (elements_of(document.arrays[name]) for name in _PAIR)
    if 2 * cos.shape[1] > x.shape[-1]:
        rule = f"the rotation has {2 * cos.shape[1]} channels, and x has {x.shape[-1]}"
        raise InvalidBody(rule, "/x")
    if len(cos) < x.shape[-2]:
        raise bad_url(f"to names {len(cos)} rows, and x has {x.shape[-2]}: name as many at least")
    before, after = (to_float64(table.elements, table.dtype) for table in (x, rotated))
    diagnosis = diagnose_applied(before, after, cos, sign * sin, rotated.dtype, **options)
    return request, diagnosis, rows


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


def _rotation(url: str, request: TableRequest) -> Document:
    if request.resource not in {"rope", "rope/axial"}:
        path = f"/{request.resource}"
        rule = f"to must name a rotation, /rope or /rope/apply, where x is sent: it is {path}"
        raise bad_url(rule, path)
    _, document = table_in_to(url)
    return document


def _compact_table(request: TableRequest) -> Document:
    kept = {name: value for name, value in request.parameters.items() if name not in _FORM}
    compact = {**kept, "pack": "compact", "dtype": "float64"}
    document = tables(TableRequest(request.resource, compact))
    if any(table.shape[0] > _MOST_ROWS for table in document.arrays.values()):
        raise bad_url(f"to names more than {_MOST_ROWS} rows: as many as x has are enough")
    return document


def _report(
    request: TableRequest | None, diagnosis: Diagnosis, rows: Rows, settings: Settings
) -> DiagnoseReport:
    links = {"correct": request, "yours": diagnosis.matching_table}
    given: dict[str, Any] = {
        name: TableLink(**link_to(table, tables(table), settings))
        for name, table in links.items()
        if table is not None
    }
    if diagnosis.verdict == "equal" and diagnosis.reason:
        given["reason"] = diagnosis.reason
    if diagnosis.first_mismatch is not None:
        given["leaves_at"] = _unexplained(diagnosis.first_mismatch)
    return DiagnoseReport(
        verdict=diagnosis.verdict,
        mistakes=[
            MistakeReport(
                **each.values, name=each.name, sentence=each.sentence, correction=each.correction
            )
            for each in diagnosis.mistakes
        ],
        residual=diagnosis.residual,
        **given,
        checked=CheckedElements(elements=diagnosis.elements, allowed=diagnosis.allowed, **rows),
    )


def _unexplained(mismatch: FirstMismatch) -> UnexplainedElement:
    given: dict[str, Any] = {}
    if isinstance(mismatch.position, float):
        position = mismatch.position
        given["position"] = int(position) if position.is_integer() else position
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
            "x": [[0.0, 0.0, 1.0, 1.0], [0.84147098, 0.00999983, 0.54030231, 0.99995]],
        },
        copies=20,
        base_seconds=0.08,
        root_seconds=8e-3,
    ),
    answer=diagnose_arrays,
    report=DiagnoseReport,
    example="to=/encoding?seq_len=2%26d_model=4",
)
