"""Another table of this server, where mistakes do not make an array of the expected one."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from service.analysis.array import IdentifyInput, Sample, TableRequest
from service.analysis.explanation.arithmetic import NARROW_PARTS, Narrowing
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.decoding import pattern
from service.analysis.explanation.engine import Explanation
from service.analysis.explanation.places import Finding
from service.analysis.identification.ranking import are_alike
from service.analysis.identification.search import identify
from service.analysis.identification.verification import Verdict
from service.analysis.round_numbers import is_unround
from service.errors import PosrefError
from service.grammar import real_positions
from service.numerics.dtypes import BFLOAT16, FLOAT16
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue, StoredTable, size
from service.routes.expected_tables import ROWS
from service.routes.table_urls import TableLink, link_to, tables
from service.settings import Settings

# Identifying a larger array takes longer than diagnosing it.
_MAX_ELEMENTS = 2**19
# Of a larger sequence so many rows are identified first; if they are no table, it is none.
_FEW_ELEMENTS, _FIRST_ROWS = 2**14, 16
# Findings of arrays that are no table.
_HOPELESS = {"element", "not-finite", "uninitialised"}
# The share of pairs that are no cosine and sine, in noise.
_NOISE = 0.95
# A narrow arithmetic lets a few numbers be almost any table.
_NARROW = {
    Narrowing(dtype, part).arithmetic for dtype in (BFLOAT16, FLOAT16) for part in NARROW_PARTS
}
# Of a table with more other settings, the URL says it better.
_MOST_SETTINGS = 2
# Longer lists are no sizes of a grid.
_MOST_AXES = 4
# Lists of frequencies can be any numbers.
_LISTS = {"inv_freq", "freq_factors", "short_factor", "long_factor"}


def as_another_table(
    found: Explanation,
    have: Mapping[str, StoredTable],
    expected: TableRequest | None,
    settings: Settings,
    *,
    is_sequence: bool = False,
) -> Explanation:
    """Return the explanation that arrays are another table, where nothing else explains them.

    Args:
        found: what is known of them.
        have: the arrays.
        expected: the request for the expected table; None if it has none.
        settings: the limits of the tables that mistakes name.
        is_sequence: whether rows are positions, so that the first ones are a table, too.
    """
    is_large = found.elements > _FEW_ELEMENTS
    if found.verdict != "none" or any(
        _is_hopeless(each, is_large=is_large) for each in found.findings
    ):
        return found
    match = _identified(have, expected, is_sequence=is_sequence)
    if match is None:
        return found
    proposed = match.proposal
    if expected and proposed.is_transposed and proposed.request.resource == expected.resource:
        wanted = next(iter(tables(expected).arrays.values()))
        if next(iter(have.values())).shape == wanted.shape:
            # Rows and columns are where they should be.
            return found
    request = match.proposal.request
    further = (mistake("transposed"),) if match.proposal.is_transposed else ()
    if expected is not None and are_alike(request, expected, tables):
        return found
    url, want = str(TableLink(**link_to(request, match.document, settings))), "what is wanted"
    if expected is not None:
        want = str(TableLink(**link_to(expected, tables(expected), settings)))
    moved = _of_other_positions(request, expected)
    other = (moved,) if moved else _of_other_settings(request, expected)
    other = other or (mistake("another-table", None, {"have": url, "want": want}),)
    return replace(
        found,
        verdict="diagnosed",
        mistakes=(*other, *further),
        match=None,
        findings=(),
        elements=sum(map(size, have.values())),
        request=None if further else request,
    )


def _is_hopeless(finding: Finding, *, is_large: bool) -> bool:
    """Return whether no table has what was found, or a large one does not seem to."""
    is_noise = finding.name == "unit-length" and float(finding.values.get("share", 0)) > _NOISE
    return (is_noise and is_large) or finding.name in _HOPELESS


def _of_other_positions(request: TableRequest, expected: TableRequest | None) -> Mistake | None:
    """Return the mistake that only the positions of the rows are others; None if more is."""
    if expected is None:
        return None
    given = {name: request.parameters[name] for name in ROWS if name in request.parameters}
    found, wanted = (_positions(tables(each).parameters) for each in (request, expected))
    if found is None or wanted is None or len(found) != len(wanted):
        return None
    with suppress(PosrefError):
        if are_alike(request, expected.without(*ROWS).with_parameters(**given), tables):
            return pattern(found, wanted)
    return None


def _of_other_settings(request: TableRequest, expected: TableRequest | None) -> tuple[Mistake, ...]:
    """Return the mistakes that a few settings are others; none if more differs."""
    if expected is None or request.resource != expected.resource:
        return ()
    have, want = (tables(each).parameters for each in (request, expected))
    keys = [key for key in want if have.get(key) != want[key]]
    lists = (each for key in keys if isinstance(each := want[key], tuple))
    is_long = any(len(each) > _MOST_AXES for each in lists) or not {*keys}.isdisjoint(ROWS)
    if have.keys() != want.keys() or len(keys) > _MOST_SETTINGS or is_long:
        return ()
    return tuple(
        mistake("wrong-parameter", None, {"key": key, "have": have[key], "want": want[key]})
        for key in keys
    )


def _positions(given: Mapping[str, ParameterValue]) -> Float64s | None:
    if "positions" in given:
        listed = real_positions(given["positions"])
        return listed.at(0, listed.count).astype(np.float64)
    if {"start", "seq_len"} <= given.keys():
        return int(str(given["start"])) + np.arange(int(str(given["seq_len"])), dtype=np.float64)
    return None


def _first_rows(table: StoredTable) -> StoredTable:
    return StoredTable(table.elements[:_FIRST_ROWS], table.dtype)


def _hypotheses(have: Mapping[str, StoredTable]) -> list[Verdict]:
    samples = {name: Sample.of(table) for name, table in have.items()}
    if not all(sample.is_finite for sample in samples.values()):
        return []
    return [
        each
        for each in identify(IdentifyInput(samples), tables).hypotheses
        if each.arithmetic[0] not in _NARROW
        and not _LISTS & each.proposal.request.parameters.keys()
        and not any(map(_is_odd, each.proposal.request.parameters.values()))
    ]


def _is_odd(value: ParameterValue) -> bool:
    """Return whether a setting is a number of many digits, or has one: such are guesses."""
    for each in str(value).split(","):
        with suppress(ValueError):
            if "." in each and is_unround(abs(float(each))):
                return True
    return False


def _identified(
    have: Mapping[str, StoredTable], expected: TableRequest | None, *, is_sequence: bool
) -> Verdict | None:
    """Return the table of this server that arrays are, if one is, most like the expected one."""
    elements = sum(map(size, have.values()))
    if elements > _MAX_ELEMENTS:
        return None
    is_long = is_sequence and all(len(table.shape) == 2 for table in have.values())
    if is_long and elements > _FEW_ELEMENTS:
        first = {name: _first_rows(table) for name, table in have.items()}
        if not _hypotheses(first):
            return None
    hypotheses = _hypotheses(have)
    # identify() looks at one copy along a batch axis; its size then differs.
    whole = [
        each for each in hypotheses if sum(map(size, each.document.arrays.values())) == elements
    ]
    wanted = {} if expected is None else {**expected.parameters, "": expected.resource}

    def alike(each: Verdict) -> int:
        request = each.proposal.request
        given = {**request.parameters, "": request.resource}
        return sum(str(given.get(name)) == str(value) for name, value in wanted.items())

    return max(whole, key=alike, default=None)
