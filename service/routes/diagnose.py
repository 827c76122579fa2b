"""``POST /diagnose``: what is wrong with an array, in one sentence, and what to do about it.

The expected table is in the body, or a URL names it. A URL may also name the rotation that should
have turned ``x`` into ``rotated``.

This module is long because the report stands beside the examinations that fill it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import ConfigDict, Field

from service.analysis.array import IdentifyInput, Sample, TableRequest
from service.analysis.explanation.arithmetic import Waves, fit_of
from service.analysis.explanation.catalogue import Mistake
from service.analysis.explanation.engine import Explanation, Match, explain
from service.analysis.explanation.family_mistakes import other_slopes
from service.analysis.explanation.faults import of_length
from service.analysis.explanation.numeric_tables import Alternative, Numbers, explain_numbers
from service.analysis.explanation.places import Finding
from service.analysis.explanation.rotations import explain_rotation
from service.analysis.explanation.sampling import ALL_ROWS, DESCRIPTION
from service.analysis.explanation.target import (
    PACKING_TEXTS,
    PART_TEXTS,
    SHOWN,
    Target,
    target_of,
)
from service.analysis.explanation.views import HALF_STEP, View
from service.analysis.identification.search import identify
from service.delivery.endpoints import ABSENT, Count, Report
from service.delivery.parameters import read_parameters
from service.encodings.family import RealPositionList, optional
from service.encodings.rotary.angles import PACKS
from service.encodings.rotary.rope import Rope
from service.errors import Fault, InvalidBody, PosrefError, shortened
from service.formats.format import Input
from service.numerics.dtypes import FLOAT64, INT64, REAL_DTYPES, DType, to_float64
from service.numerics.tables import Document, ParameterValue, StoredTable, Table, size
from service.routes.another_table import as_another_table, other_settings
from service.routes.composed_tables import explain_composed, is_composed
from service.routes.expected_tables import (
    ROWS,
    Expected,
    bad_url,
    beginning,
    exchanged_grids,
    expected_at,
    expected_rotation,
    finite_sample,
    frequencies_url,
    is_table_of,
    moved_grids,
    numbers_of,
    one_copy,
    rows_of,
)
from service.routes.table_urls import (
    ReportParameters,
    TableLink,
    arrays_in_to,
    link_to,
    tables,
    url_of,
)
from service.settings import Settings

Arrays: TypeAlias = Mapping[str, StoredTable]


class MistakeReport(Report):
    """A mistake, with further fields that depend on its name."""

    model_config = ConfigDict(extra="allow")

    name: str
    sentence: str = Field(description="What the mistake is, and how it shows.")
    correction: str = Field(description="How to correct it.")


class FindingReport(Report):
    """A finding about the data, with further fields that depend on its name."""

    model_config = ConfigDict(extra="allow")

    name: str
    sentence: str


class AlternativeReport(Report):
    """Other mistakes that explain the numbers as well."""

    mistakes: list[MistakeReport]


class WrapperReport(Report):
    """The wrapping of the numbers, where it is not that of the expected table."""

    pack: str = Field(default=ABSENT, description="The packing of cosines and sines.")
    notes: list[str] = Field(default=ABSENT, description="What was undone to read the array.")


class SampledRows(Report):
    """The rows in which explanations were looked for."""

    rows: Count
    which: str


class CheckedElements(Report):
    """The count of numbers that were compared with the answer."""

    elements: Count
    rows: Count = Field(
        default=ABSENT,
        description="Only where the array is shorter than the table of to: the number of rows, "
        "from the first on, that are expected.",
    )
    of: Count = Field(default=ABSENT, description="With rows: the number that the table of to has.")


class DiagnoseReport(Report):
    """The answer in a sentence, the mistakes, their corrections, and what else the data shows."""

    verdict: Literal["equal", "diagnosed", "none"] = Field(
        description="equal: no mistake; diagnosed: the mistakes explain every number; none: no "
        "list of known mistakes does, and findings say what the data shows."
    )
    sentence: str = Field(description="The answer.")
    mistakes: list[MistakeReport]
    arithmetic: str = Field(
        default=ABSENT, description="The arithmetic in which the array was made."
    )
    wrapper: WrapperReport = ABSENT
    alternatives: list[AlternativeReport] = Field(
        default=ABSENT, description="Other lists of mistakes that explain the numbers as well."
    )
    findings: list[FindingReport] = Field(default=ABSENT, description="What else the data shows.")
    correct: TableLink = Field(
        default=ABSENT,
        description="The expected table, with the rows that are expected; of /rope/apply, the "
        "cosines and sines before inverse.",
    )
    yours: TableLink = Field(
        default=ABSENT, description="The table that the array equals, if this server has it."
    )
    sampled: SampledRows = Field(
        default=ABSENT, description="Of a large array: the rows in which it was looked for."
    )
    checked: CheckedElements

    def lines(self) -> Iterator[str]:
        """Yield the answer, what to do, and what else was found."""
        yield self.sentence
        for each in self.mistakes:
            yield f"mistake: {each.name}"
            yield f"correction: {each.correction}"
        for other in self.alternatives or ():
            yield "or: " + " ".join(each.sentence for each in other.mistakes)
        for finding in self.findings or ():
            yield f"finding: {finding.sentence}"
        if self.wrapper is not None:
            yield from (f"note: {note}" for note in self.wrapper.notes or ())
        yield from (line for line in super().lines() if not line.startswith("sentence: "))
        yield from (f"{name}: {link}" for name, link in self if isinstance(link, TableLink))
        if self.checked.of:
            yield f"checked: the first {self.checked.rows} of {self.checked.of} rows"
        else:
            yield f"checked: {self.checked.elements} numbers"


_PAIR = ("cos", "sin")
_ROLES = ("have", "want")
ARRAY_NAMES = (*_ROLES, *map("_".join, product(_ROLES, _PAIR)), *_PAIR, "x", "rotated")
"""The names of arrays in a body."""


class DiagnoseParameters(ReportParameters):
    """Parameters of a diagnosis."""

    array_names: ClassVar[str] = "x, or cos and sin, and want, or want_cos and want_sin,"
    to: str | None = optional(
        "The expected table, in place of want: path and query of its URL here; in a URL written "
        "by hand, each & of it is %26. For x and rotated: a URL of /rope or /rope/apply. A length "
        "may be left out.",
        "/encoding?seq_len=2&d_model=4",
    )
    positions: RealPositionList | None = optional(
        "Position of each row that is sent, in place of those of to. Rows may then be any, and "
        "have the first channels alone.",
        "0,5,9:20:2",
    )


def diagnose_arrays(
    parameters: DiagnoseParameters, content: Input, settings: Settings
) -> DiagnoseReport:
    """Return the report about the arrays of a body; raises PosrefError."""
    arrays, url = content.arrays, parameters.to
    if url is not None and is_composed(url):
        if parameters.positions is not None:
            raise bad_url("positions go with a table whose rows have them, and to names none")
        return report_of(explain_composed(url, content), None, None, settings)
    _check_names(content, url)
    if "rotated" in arrays:
        if set(arrays) != {"x", "rotated"}:
            raise InvalidBody("x and rotated go together, and with nothing else")
        if url is None:
            raise bad_url("to is required with x and rotated: a URL of /rope or /rope/apply")
        return diagnose_rotation(url, arrays["x"], arrays["rotated"], settings)
    have = _arrays_of("have", arrays, is_alone=url is not None)
    _check_shapes(have)
    if url is None:
        return _against_array(have, _arrays_of("want", arrays, is_alone=False), settings)
    positions = None if parameters.positions is None else str(parameters.positions)
    expected = expected_at(url, _most_rows(have), positions)
    if expected.target is None:
        # One axis may be that of the rows.
        longest = max(table.shape[0] for table in have.values())
        if all(len(table.shape) == 1 for table in have.values()) and longest > 1:
            expected = expected_at(url, longest, positions)
        rule = arrays_in_to(url, expected.document, content)
        return _against_numbers(have, expected, settings, rule)
    if positions is not None:
        expected = replace(expected, target=_of_first_channels(expected.target, have))
    return against(have, expected, settings)


# Findings that say nothing of an array but that it is no table of sines and cosines.
_VAGUE = {"unit-length", "frequencies"}
# Arrays above _LARGE are refused unread unless one axis is within a factor of _WIDEST of the number
# of channels.
_LARGE, _WIDEST = 2**20, 8


def against(have: Arrays, expected: Expected, settings: Settings) -> DiagnoseReport:
    """Return the report about arrays that should be a table of sines and cosines."""
    target = expected.target
    assert target is not None
    table = next(iter(have.values()))
    _refuse_ids(have)
    if size(table) > _LARGE and all(
        max(each / target.width, target.width / each) > _WIDEST for each in table.shape
    ):
        _check_related(have, expected)
    found = explain(_by_part(have), target)
    if found.verdict == "none" and all(each.name in _VAGUE for each in found.findings):
        found = _beginning_of_channels(found, have, target)
        if found.verdict == "none":
            _check_related(have, expected)
    is_sequence = target.is_along_one_axis
    found = as_another_table(
        found, _by_part(have), expected.request, settings, is_sequence=is_sequence
    )
    sent = found.match.reading.sent if found.match else _rows(have, expected.document)
    request, rows = expected.request, None
    if sent < rows_of(expected.document):
        request, _ = beginning(request, expected.document, sent)
    if expected.rows is not None and sent < expected.rows:
        rows = {"rows": sent, "of": expected.rows}
    whole = len(target.structure.places)
    if found.match and not rows_of(expected.document) and sent < whole:
        if is_sequence:
            rows = {"rows": sent, "of": whole}
        else:
            found = _without_last_rows(found, replace(target, rows=whole))
    found = replace(found, findings=tuple(_numbered(found.findings, have, target)))
    named = replace(expected, request=request)
    return report_of(found, target, named, settings, rows=rows, have=have)


def _refuse_ids(have: Arrays) -> None:
    """Raise InvalidBody for rows that all count from a number, once or again: ids of positions."""
    for name, table in have.items():
        if table.elements.dtype.kind != "c":
            numbers = table.elements.reshape(-1, table.shape[-1])
            row = to_float64(numbers[0], table.dtype)
            is_rising = ((np.diff(row) == 1) | (row[1:] == row[0])).all()
            if is_rising and np.ptp(row) > 1 and (numbers == numbers[0]).all():
                rule = (
                    f"the array has the numbers {row.min():.0f} to {row.max():.0f}, as ids of "
                    "positions do: send the cosines and sines that are made of them"
                )
                raise InvalidBody(rule, f"/{shortened(name)}")


def _beginning_of_channels(found: Explanation, have: Arrays, target: Target) -> Explanation:
    """Return that rows have only their first channels, if they do, or else what is known."""
    shape, wanted = next(iter(have.values())).shape, target.wanted.shape
    if shape[:-1] != wanted[:-1] or shape[-1] >= wanted[-1]:
        return found
    part = explain(_by_part(have), _of_first_channels(target, have))
    # Fewer with a mistake may be cosines, or sines, alone.
    if part.verdict == "none" or (part.mistakes and shape[-1] <= len(target.omega)):
        return found
    mistakes = (*part.mistakes, of_length("channels", shape[-1], wanted[-1]))
    return replace(part, verdict="diagnosed", mistakes=mistakes)


def _numbered(found: Iterable[Finding], have: Arrays, target: Target) -> Iterator[Finding]:
    """Yield findings; that of one wrong number also with its place in the array and its error."""
    for each in found:
        given = each.values
        part = given.get("part")
        if each.name != "element" or part not in {"cosines", "sines"} or "mistakes" in given:
            yield each
            continue
        row, lane = int(given["row"]), int(given["lane"])
        more = {}
        for name, columns in target.wanted.columns.items():
            chosen = columns.sine if part == "sines" else columns.cosine
            table = have.get(name) or have.get(f"have_{name}") or next(iter(have.values()))
            places = target.places(row + 1)
            width = len(target.structure.frequency)
            if lane >= len(chosen) or table.shape[-1] != width or places is None:
                continue
            channel = int(chosen[lane])
            elements = table.elements.reshape(-1, width)[row, channel : channel + 1]
            number = float(to_float64(elements, table.dtype)[0])
            place = float(places[row, 0 if places.shape[1] == 1 else lane])
            wave = np.sin if part == "sines" else np.cos
            expected = target.scale * float(wave(place * target.omega[lane]))
            more = {"position": _json(place), "channel": channel, "want": expected}
            if np.isfinite(number):
                more |= {"have": number, "error": abs(number - expected)}
            break
        yield replace(each, values={**given, **more})


def _rows(have: Arrays, document: Document) -> int:
    """Return the number of rows of arrays that are not explained."""
    sent, wanted = (next(iter(each.values())).shape for each in (have, document.arrays))
    if len(sent) == len(wanted) != 2 and "position" in document.axes:
        return sent[document.axes.index("position")]
    lengths = (1, 1, *sent)
    is_transposed = lengths[-1] != wanted[-1] == lengths[-2]
    return lengths[-1] if is_transposed else lengths[-2]


def _most_rows(arrays: Arrays) -> int:
    lengths = [max(table.shape[:-1], default=1) for table in arrays.values()]
    # A transposed table has its rows last.
    return max([*lengths, *(table.shape[-1] for table in arrays.values() if len(table.shape) > 1)])


def _by_part(arrays: Arrays) -> Arrays:
    """Return cosines and sines by these names, or one array by its own."""
    if len(arrays) == 1:
        return arrays
    return {name.removeprefix("have_"): table for name, table in arrays.items()}


def _of_first_channels(target: Target, have: Arrays) -> Target:
    width = next(iter(have.values())).shape[-1]
    if len(target.wanted.columns) > 1 or width >= len(target.structure.frequency):
        return target
    return target.beginning_of_rows(width)


def _against_array(have: Arrays, want: Arrays, settings: Settings) -> DiagnoseReport:
    """Return the report about an array beside another: as the table that it is, or as numbers."""
    rule = "send x with want, or have_cos and have_sin with want_cos and want_sin"
    samples = {name.removeprefix("want_"): finite_sample(name, each) for name, each in want.items()}
    if len(have) != len(want):
        raise InvalidBody(rule)
    found = identify(IdentifyInput(samples), tables).hypotheses
    if found:
        request = found[0].proposal.request
        document = tables(request)
        rope = read_parameters(Rope, request.parameters) if request.resource == "rope" else None
        target = target_of(document, request, rope and rope.rule(rope.head_dim))
        if target is not None:
            target = replace(target, rows=next(iter(want.values())).shape[0])
            known = explain(_by_part(have), target)
            is_lost = any(each.name in {"not-finite", "uninitialised"} for each in known.findings)
            if known.verdict != "none" or is_lost:
                return report_of(_without_last_rows(known, target), target, None, settings)
    sent = {name: finite_sample(name, table) for name, table in have.items()}
    named = dict(zip(samples, sent.values(), strict=True))
    dtype = next(iter(samples.values())).element_dtype
    numbers = Numbers(samples, FLOAT64 if dtype is INT64 else dtype)
    found_numbers = explain_numbers(named, numbers)
    found_numbers = as_another_table(
        found_numbers or Explanation("none"), _by_part(have), None, settings
    )
    if found_numbers.verdict == "none" and not found_numbers.elements:
        raise _unrelated(sent, next(iter(samples.values())))
    return report_of(found_numbers, None, None, settings)


def _without_last_rows(found: Explanation, target: Target) -> Explanation:
    """Return an explanation with the mistake that rows are missing, if some are."""
    have, want = found.match.reading.sent if found.match else 0, target.rows or 0
    if found.verdict == "none" or not 0 < have < want:
        return found
    fewer = of_length("rows", have, want)
    return replace(found, verdict="diagnosed", mistakes=(*found.mistakes, fewer))


def _against_numbers(
    have: Arrays, expected: Expected, settings: Settings, rule: str
) -> DiagnoseReport:
    may_be_masked = "masked" in expected.document.parameters
    arrays, notes = one_copy(_by_part(have), expected.document)
    samples = {
        name: finite_sample(name, table, may_be_masked=may_be_masked)
        for name, table in arrays.items()
    }
    names = expected.document.arrays
    if len(samples) == len(names) == 1:
        samples = dict(zip(names, samples.values(), strict=True))
    elif set(samples) != set(names):
        raise InvalidBody(rule)
    sent = sum(sample.values.size for sample in samples.values())
    numbers = numbers_of(expected.request, expected.document, sent)

    shape = next(iter(samples.values())).values.shape

    def others() -> Iterator[Alternative]:
        yield from exchanged_grids(expected.request, numbers)
        yield from moved_grids(expected.request, numbers)
        yield from other_slopes(expected.request, numbers, shape)
        yield from other_settings(expected.request, sent)

    found = explain_numbers(samples, numbers, others)
    named = dict(zip(samples, arrays.values(), strict=True))
    found = as_another_table(found or Explanation("none"), named, expected.request, settings)
    if found.verdict == "none" and not expected.document.parameters.get("masked"):
        for name, table in arrays.items():
            finite_sample(name, table)
    if found.verdict == "none" and not found.elements:
        raise _unrelated(have, next(iter(expected.document.arrays.values())))
    found = replace(found, elements=sum(map(size, have.values())), notes=notes)
    if found.request is None and len(found.mistakes) == 1 and (own := found.mistakes[0].changes):
        given = {name: value for name, value in own.items() if value is not None}
        found = replace(found, request=expected.request.with_parameters(**given))
    count, rows = rows_of(expected.document), None
    if expected.rows is not None and 0 < count < expected.rows:
        rows = {"rows": count, "of": expected.rows}
    return report_of(found, None, expected, settings, rows=rows, have=arrays)


def _unrelated(
    arrays: Mapping[str, StoredTable | Sample],
    want: Table | Sample,
    shape: tuple[int, ...] | None = None,
    url: str | None = None,
) -> InvalidBody:
    """Return the error for an array without the rows and channels of a table, or of its shape."""
    name, have = next(iter(arrays.items()))
    rule = (
        f"the array is {have.dtype.name} of shape {have.shape}, and the expected table "
        f"{want.dtype.name} of shape {shape or want.shape}: these shapes have nothing in common"
    )
    if have.shape[-len(want.shape) :] == want.shape:
        rule = f"the array has the shape {have.shape}, and its tables differ: send one of them"
    rule += f"; frequencies go with {url}" if url else ""
    return InvalidBody.at(Fault(f"/{shortened(name)}", None, rule, in_body=True, url=url))


def _check_related(have: Arrays, expected: Expected) -> None:
    """Raise InvalidBody if an array has neither the rows nor the channels of a table."""
    table, want = (next(iter(each.values())) for each in (have, expected.document.arrays))
    # Any array may have an axis of the two parts of a pair.
    shape = want.shape[:-1] if expected.document.pack == "pair" else want.shape
    lengths = {shape[-1], *shape[:-1]}
    if rows_of(expected.document) not in {0, expected.rows}:
        # The document has as many rows as were sent, whatever the table of to has.
        lengths = {shape[-1]}
    if not set(table.shape) & {each for each in lengths if each > 1}:
        shape = want.shape
        if expected.rows is not None and "position" in expected.document.axes:
            axis = expected.document.axes.index("position")
            shape = (*shape[:axis], expected.rows, *shape[axis + 1 :])
        url = None
        assert expected.target is not None
        if table.shape == (len(expected.target.omega),) and expected.request.resource == "rope":
            url = frequencies_url(url_of(expected.request))
        raise _unrelated(have, want, shape, url)


def _check_names(content: Input, url: str | None) -> None:
    if url is None and not content.is_named:
        raise bad_url("an unnamed array is read as x: give the URL of the expected table as to=")
    unknown = [name for name in content.arrays if name not in ARRAY_NAMES]
    if unknown and (len(content.arrays) > 1 or url is None):
        rule = (
            f"{shortened(unknown[0])} is not an accepted array name: use {', '.join(ARRAY_NAMES)}"
        )
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


def _check_shapes(arrays: Arrays) -> None:
    shapes = {table.shape for table in arrays.values()}
    if len(shapes) > 1:
        named = " and ".join(str(table.shape) for table in arrays.values())
        raise InvalidBody(f"cosines and sines must have the same shape, and have {named}")


def diagnose_rotation(
    url: str, x: StoredTable, rotated: StoredTable, settings: Settings
) -> DiagnoseReport:
    """Return the report about an array that should have been rotated by the rotation of a URL.

    The arrays are (…, positions, head_dim). Only ``/rope/apply?…`` has the layout.

    Raises:
        InvalidParameters: the URL names no rotation.
        InvalidBody: the arrays do not fit the rotation.
    """
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
    rotation = expected_rotation(url, x, rotated)
    before, after = (
        to_float64(each.elements, each.dtype) for each in (rotation.x, rotation.rotated)
    )
    expected, options = rotation.expected, rotation.options
    assert expected.target is not None
    found = explain_rotation(before, after, rotated.dtype, expected.target, **options)
    return report_of(
        found, expected.target, expected, settings, rows=rotation.rows, rotated=rotated.dtype
    )


def report_of(
    found: Explanation,
    target: Target | None,
    expected: Expected | None,
    settings: Settings,
    *,
    rows: Mapping[str, int] | None = None,
    rotated: DType | None = None,
    have: Arrays | None = None,
) -> DiagnoseReport:
    """Return the report about an explanation.

    Args:
        found: the explanation.
        target: what is expected; None if it is no table of sines and cosines.
        expected: the table of ``to``; None if there is none.
        settings: the limits of the tables that links name.
        rows: how many of the rows of ``to`` are expected, if not all are.
        rotated: the type of the array that was rotated; None if there is none.
        have: the arrays, which the table of ``yours`` must be; None if they were rotated.
    """
    match = found.match
    sent = match.reading.view.rows if match else 0
    given: dict[str, Any] = {}
    if expected is not None:
        given |= _links(found, target, expected, settings, have)
    if match is not None and _is_made(match):
        given["arithmetic"] = match.fit.arithmetic.name
    if match is not None and target is not None and rotated is None:
        given |= _wrapper(match, target)
    if found.notes:
        given["wrapper"] = WrapperReport(notes=[*found.notes])
    if found.alternatives:
        given["alternatives"] = [
            AlternativeReport(mistakes=[_mistake(each) for each in other])
            for other in found.alternatives
        ]
    if found.findings:
        given["findings"] = [
            FindingReport(name=each.name, sentence=each.text, **each.values)
            for each in found.findings
        ]
    if sent > ALL_ROWS:
        given["sampled"] = SampledRows(rows=found.sampled, which=DESCRIPTION)
    return DiagnoseReport(
        verdict=found.verdict,
        sentence=sentence_of(found, target, rotated, rows or {}),
        mistakes=[_mistake(each) for each in found.mistakes],
        **given,
        checked=CheckedElements(elements=found.elements, **(rows or {})),
    )


def _links(
    found: Explanation,
    target: Target | None,
    expected: Expected,
    settings: Settings,
    have: Arrays | None,
) -> dict[str, Any]:
    """Return the expected table, and that which the array is; never the same one twice."""
    links = {"correct": _link(expected.request, settings)}
    yours = found.request or (_matching_request(found, target) if target else None)
    if yours is not None and (have is None or is_table_of(yours, _by_part(have))):
        link = _link(yours, settings)
        if link.url != links["correct"].url:
            links["yours"] = link
    return links


def _wrapper(match: Match, target: Target) -> dict[str, Any]:
    view, wrapper = match.reading.view, dict[str, Any]()
    if _are_angles(match):
        wrapper["pack"] = "angle"
    elif view.packing != target.wanted.packing:
        wrapper["pack"] = target.shown(view.packing)
    if notes := [note.text for note in view.notes]:
        wrapper["notes"] = notes
    return {"wrapper": WrapperReport(**wrapper)} if wrapper else {}


def sentence_of(
    found: Explanation, target: Target | None, rotated: DType | None, rows: Mapping[str, int]
) -> str:
    """Return the answer in one or several sentences; see report_of."""
    match = found.match
    if found.verdict == "diagnosed":
        return " ".join(each.sentence for each in found.mistakes)
    if found.verdict == "none":
        if not found.findings:
            return "None of the known mistakes explains this array."
        text = found.findings[0].text
        return f"{text[0].upper()}{text[1:]}."
    made = f", made {match.fit.arithmetic.description}" if match and _is_made(match) else ""
    first = f": its first {rows['rows']} rows of {rows['of']}" if rows else ""
    first = first.replace("first 1 rows", "first row")
    text = f"This is the {'table' if rotated is None else 'rotation'}{made}{first}."
    if match and rotated and HALF_STEP[match.dtype] > HALF_STEP[rotated]:
        text += f" Its numbers are rounded to {match.dtype.name}."
    view = match.reading.view if match and rotated is None else None
    if match and rotated is None and _are_angles(match):
        text = "These are the angles of the table: take their cosines and sines."
    elif view is not None and target is not None:
        text = _with_packing(text, f"{made}{first}.", view, target)
    if found.findings:
        text += f" {found.findings[0].text[0].upper()}{found.findings[0].text[1:]}."
    return text


def _are_angles(match: Match) -> bool:
    return any(each.name == "angles" for each in match.reading.view.notes)


def _is_made(match: Match) -> bool:
    """Return whether numbers show their arithmetic: rounded angles look like float32 steps."""
    return match.candidate.narrowing is not None or not _are_angles(match)


def _with_packing(text: str, end: str, view: View, target: Target) -> str:
    """Return the text about a right table, with the parts and the packing that it has."""
    is_alone = view.part_names != target.wanted.parts
    if is_alone:
        text = f"These are the {PART_TEXTS[view.part_names[0]]} of the table alone{end}"
    if view.packing == target.wanted.packing:
        return text
    have, want = (_packing_text(each, target) for each in (view.packing, target.wanted.packing))
    return f"{text} {'They are' if is_alone else 'It is'} packed as {have}, instead of {want}."


def _packing_text(packing: str, target: Target) -> str:
    order = PACKING_TEXTS.get(packing)
    return f"{target.shown(packing)} ({order})" if order else target.shown(packing)


def _mistake(each: Mistake) -> MistakeReport:
    values = {name: _json(value) for name, value in each.values.items()}
    return MistakeReport(
        **values, name=each.name, sentence=each.sentence, correction=each.correction
    )


def _json(value: Any) -> Any:
    """Return a value for JSON: integers without a fraction, tuples as lists."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, tuple | list):
        return [_json(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _json(each) for name, each in value.items()}
    return value


def _link(request: TableRequest, settings: Settings) -> TableLink:
    return TableLink(**link_to(request, tables(request), settings))


# The characters of a list of positions that goes into a URL.
_MOST_LISTED = 2000
_WITHOUT_URL = {"narrow-tables", "rounded-decimals", "transposed", "truncated"}


def _matching_request(found: Explanation, target: Target) -> TableRequest | None:
    """Return the request for the table that an array is, if this server has it and it agrees."""
    match, request = found.match, target.request
    if match is None or request is None or found.verdict != "diagnosed":
        return None
    changes = _changes(found, match, target)
    if changes is None:
        return None
    is_axial = request.resource == "rope/axial" and "pack" not in changes
    if not is_axial and request.resource not in {"rope", "encoding", "encoding/timesteps"}:
        return None
    if "seq_len" in request.parameters and "positions" not in changes:
        changes["seq_len"] = match.reading.view.rows
    removed = [name for name, value in changes.items() if value is None]
    kept = {name: value for name, value in changes.items() if value is not None}
    moved = request.without(*removed).with_parameters(**kept)
    with suppress(PosrefError):
        other = target_of(tables(moved), moved)
        if other is not None and _agrees(match, other):
            return moved
    return None


def _changes(
    found: Explanation, match: Match, target: Target
) -> dict[str, ParameterValue | None] | None:
    """Return the parameters that the mistakes change; None if no URL has them."""
    if match.candidate.narrowing or any(each.name in _WITHOUT_URL for each in found.mistakes):
        return None
    changes: dict[str, ParameterValue | None] = {}
    for each in match.candidate.mistakes:
        if each.changes is None:
            return None
        changes |= each.changes
    view = match.reading.view
    packing = view.packing
    if packing != target.wanted.packing or view.part_names != target.wanted.parts:
        if target.base_parameter == "rope_theta" and packing in PACKS:
            part = None if view.has_pairs else view.part_names[0]
            changes |= {"pack": packing, "part": part}
        elif packing in SHOWN:
            changes["layout"] = SHOWN[packing]
        else:
            return None
    if "positions" in changes:
        if len(str(changes["positions"])) > _MOST_LISTED:
            return None
        changes |= {name: None for name in ROWS if name != "positions"}
    return changes


def _agrees(match: Match, other: Target) -> bool:
    """Return whether a table gives the sampled numbers of a match."""
    rows = match.reading.rows
    places = other.places(match.reading.view.rows)
    if places is None or len(other.omega) != match.reading.sample.count:
        return False
    waves = Waves(other.omega, places[rows], other.scale, match.candidate.series)
    return fit_of(match.reading.sample, waves, match.dtype) is not None
