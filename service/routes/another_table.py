"""Other tables than the expected one that an array may be.

``other_settings`` yields those with one mistaken setting of the request, ``as_another_table`` finds
any table of this server, where mistakes do not make an array of the expected one.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import numpy as np

from service.analysis.array import IdentifyInput, Sample, TableRequest
from service.analysis.explanation.arithmetic import NARROW_PARTS, Narrowing
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.decoding import pattern
from service.analysis.explanation.engine import Explanation
from service.analysis.explanation.numeric_tables import Alternative
from service.analysis.explanation.places import Finding
from service.analysis.explanation.sources import USUAL_BASES
from service.analysis.identification.ranking import are_alike
from service.analysis.identification.search import identify
from service.analysis.identification.verification import Verdict
from service.analysis.round_numbers import is_unround
from service.encodings.rotary.rules import RULE_KEYS
from service.errors import InvalidParameters, PosrefError
from service.grammar import real_positions
from service.numerics.dtypes import BFLOAT16, FLOAT16
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue, StoredTable, size
from service.routes.expected_tables import ROWS, is_table_of, numbers_of
from service.routes.table_urls import TableLink, link_to, table_at, tables
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
    if not further and not is_table_of(request, have):
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
    """Return True for a setting with a number of many digits: one that fits is found by chance."""
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


def other_settings(request: TableRequest, sent: int) -> Iterator[Alternative]:
    """Yield the numbers of requests with one mistaken setting, of those that have a table."""
    variants = chain(_of_rule(request), _of_width(request), _swapped_axes(request))
    resource, resolved = table_at(f"/{request.resource}"), tables(request).parameters
    variants = chain(variants, _of_last_queries(request, resolved))
    fields = resource.parameters.model_fields if resource else {}
    choices = switched(request, fields, resolved)
    settings = chain(_other_bases(request), _left_out(request), choices)
    for wrong, other in chain(variants, settings):
        try:
            yield wrong, other, numbers_of(other, tables(other), sent)
        except InvalidParameters:
            continue


# The keys of the scaling rules other than rope_type; a table needs max_position_embeddings.
_RULE_KEYS = tuple(name for name in RULE_KEYS if name != "max_position_embeddings")

# These choose what is answered and how it is packed, or by whose rules everything else is read.
_NOT_SWITCHED = frozenset({"part", "dtype", "layout", "pack", "batch"})
# Their conventions share parameters.
_WITH_CONVENTIONS = frozenset({"resize", "resize/apply", "encoding/grid"})
# The two sides of a grid.
_SIDES = ("size", "old_size")

# Without these, a request names no table, or they have a mistake of their own.
_NEEDED = frozenset(
    {
        *(*ROWS, "d_model", "head_dim", "grid", "height", "width", "depth", "num_heads"),
        *("convention", "pack", "part", "batch", "dtype", "layout", "revision", "scale"),
        *("rope_theta", "base", "rope_type", "rotary_dim", "partial_rotary_factor", *RULE_KEYS),
    }
)


def _left_out(request: TableRequest) -> Iterator[tuple[Mistake, TableRequest]]:
    """Yield requests that leave one parameter to its default."""
    resolved = tables(request).parameters
    for key, given in request.parameters.items():
        if key not in _NEEDED and not key.startswith("positions_"):
            other = request.without(key)
            with suppress(PosrefError):
                have = tables(other).parameters.get(key, "not given")
                values = {"key": key, "have": have, "want": resolved.get(key, given)}
                yield mistake("config-key-ignored", None, values, variant="default"), other


def _of_rule(request: TableRequest) -> Iterator[tuple[Mistake, TableRequest]]:
    """Yield requests without the scaling rule, and with another one in its place."""
    given = request.parameters
    rule = str(given.get("rope_type", "default"))
    if rule == "default":
        return
    keys = [key for key in _RULE_KEYS if key in given]
    yield (
        mistake("config-key-ignored", None, {"settings": keys, "rule": rule}),
        request.without("rope_type", *keys),
    )
    trained = given.get("original_max_position_embeddings")
    if rule == "longrope" and trained is not None:
        lists, length = ("short_factor", "long_factor"), int(str(trained))
        if int(str(given.get("context_length", length))) <= length:
            lists, length = ("long_factor", "short_factor"), length + 1
        wrong = mistake(
            "short-for-long-factors", None, dict(zip(("have", "want"), lists, strict=True))
        )
        yield wrong, request.with_parameters(context_length=length)
    if rule != "linear" and "factor" in keys:
        linear = request.without(*keys).with_parameters(rope_type="linear", factor=given["factor"])
        yield mistake("wrong-rule", None, {"have": "linear", "want": rule}), linear


def _other_bases(request: TableRequest) -> Iterator[tuple[Mistake, TableRequest]]:
    if not request.resource.startswith("rope"):
        return
    expected = float(str(request.parameters.get("rope_theta", 10000)))
    for base in USUAL_BASES:
        if base != expected:
            wrong = mistake("wrong-base", None, {"have": float(base), "want": expected})
            yield wrong, request.with_parameters(rope_theta=base)


def _of_last_queries(
    request: TableRequest, resolved: Mapping[str, ParameterValue]
) -> Iterator[tuple[Mistake, TableRequest]]:
    """Let queries be the last of the keys, as those of a decoder are."""
    if {"query_start", "query_len", "key_len"} <= resolved.keys():
        keys, queries = (int(str(resolved[name])) for name in ("key_len", "query_len"))
        values = {"key": "query_start", "have": keys - queries, "want": resolved["query_start"]}
        if keys > queries and values["have"] != values["want"]:
            moved = request.with_parameters(query_start=keys - queries)
            yield mistake("wrong-parameter", None, values), moved


def _of_width(request: TableRequest) -> Iterator[tuple[Mistake, TableRequest]]:
    """Let all channels of a head rotate."""
    given = request.parameters
    keys = [key for key in ("partial_rotary_factor", "rotary_dim") if key in given]
    if keys and "head_dim" in given:
        width = int(str(given["head_dim"]))
        share = float(str(given.get("partial_rotary_factor", 1)))
        rotary_dim = int(str(given.get("rotary_dim", int(share * width))))
        wrong = mistake("partial-width", None, {"have": width, "want": rotary_dim})
        yield wrong, request.without(*keys)


def _swapped_axes(request: TableRequest) -> Iterator[tuple[Mistake, TableRequest]]:
    swapped = mistake("axes-swapped", None, {"first": "h", "second": "w"})
    lengths = str(request.parameters.get("grid", "")).split(",")
    if len(lengths) > 1 and lengths[-1] != lengths[-2]:
        grid = ",".join([*lengths[:-2], lengths[-1], lengths[-2]])
        yield swapped, request.with_parameters(grid=grid)
    for first, second in (("positions_h", "positions_w"), ("height", "width")):
        if {first, second} <= set(request.parameters):
            height, width = (request.parameters[name] for name in (first, second))
            if height != width:
                yield swapped, request.with_parameters(**{first: width, second: height})


def switched(
    request: TableRequest, fields: Mapping[str, Any], resolved: Mapping[str, Any]
) -> Iterator[tuple[Mistake, TableRequest]]:
    """Yield requests with another choice in one parameter, or with the sides of a grid exchanged.

    Args:
        request: the expected request.
        fields: the fields of its parameters, by name.
        resolved: the values that its document has for them.
    """
    for key, each in sorted(fields.items(), key=lambda field: field[0] == "convention"):
        is_read = key not in _NOT_SWITCHED
        is_read &= key != "convention" or request.resource in _WITH_CONVENTIONS
        choices = _choices(each.annotation) if is_read else ()
        want = resolved.get(key, request.parameters.get(key))
        for choice in choices:
            if want is not None and str(choice).lower() != str(want).lower():
                values = {"key": key, "have": choice, "want": want}
                spelled = str(choice).lower() if isinstance(choice, bool) else choice
                changed = request.with_parameters(**{key: spelled})
                yield mistake("wrong-parameter", None, values, {key: choice}), changed
    for key in _SIDES:
        sides = str(request.parameters.get(key, "")).split(",")
        if len(sides) == 2 and sides[0] != sides[1]:
            swapped = mistake("axes-swapped", None, {"first": "height", "second": "width"})
            yield swapped, request.with_parameters(**{key: ",".join(sides[::-1])})


def _choices(annotation: Any) -> tuple[Any, ...]:
    """Return the values that a parameter of a few choices may have; none for other parameters."""
    origin = get_origin(annotation)
    if annotation is bool:
        return (True, False)
    if origin is Literal:
        return get_args(annotation)
    if origin is Annotated:
        return _choices(get_args(annotation)[0])
    if origin in {Union, UnionType}:
        return tuple(choice for each in get_args(annotation) for choice in _choices(each))
    return ()
