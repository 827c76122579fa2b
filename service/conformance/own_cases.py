"""A case of one's own: a vector file of the rows where an array is wrong, with the right numbers.

It fails with the implementation that made the array, and passes once that is mended.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from service.analysis.array import TableRequest
from service.conformance.expected import expectation
from service.conformance.judging import (
    AnswerArrays,
    Copies,
    InvalidAnswer,
    Judgement,
    unpacked,
    without_batch,
)
from service.conformance.questions import Kind, Question
from service.conformance.recorded_cases import RecordedCase
from service.conformance.suite import Case, text_of_cases
from service.delivery.parameters import read_parameters
from service.encodings.rotary.angles import CONSUMERS, PACKS
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import positions as parse_positions
from service.numerics.dtypes import Elements, to_float64
from service.numerics.tables import StoredTable
from service.routes import ENDPOINTS
from service.routes.expected_tables import ROWS, expected_at, expected_rotation
from service.routes.table_urls import table_request

# Rows that are judged at a time, and those that show the packing.
_ROWS = 1024
_SAMPLED = 64
# Characters of a number with its tolerance, and of all numbers of a file.
_NUMBER, _MOST_CHARACTERS, _MOST_ROWS = 40, 11000, 8
# How the rows of a table are chosen and written, which is no part of what a case asks.
_FORM = {*ROWS, "max_position_embeddings", "pack", "part", "batch", "dtype", "revision"}
_KINDS: Mapping[str, Kind] = {"/rope": "table", "/rope/apply": "rotate"}
# What a case says, though a URL may leave it to its default or to the number of rows.
_IMPLIED = ("rope_theta", "context_length", "original_max_position_embeddings")


def own_case(name: str, url: str, have: Mapping[str, StoredTable]) -> str:
    """Return the text of a vector file with one case.

    Args:
        name: of the case.
        url: path and query of the table, or of the rotation, that the arrays should be.
        have: the array, the cosines and sines, or ``x`` and ``rotated``.

    Raises:
        InvalidParameters: the URL names no table whose rows have one position each.
        InvalidBody: no number is wrong, or the arrays cannot be read as that table.
    """
    request = table_request(url)
    dtype = have.get("rotated", next(iter(have.values()))).dtype.name
    arrays = {each: to_float64(table.elements, table.dtype) for each, table in have.items()}
    question, file = _question(url, request, have), re.sub("[^a-z0-9]+", "-", name.lower())
    file = f"own/{file.strip('-') or 'case'}"
    found = None
    if "rotated" in arrays:
        # Heads, and sequences of a batch, have the same positions: the first wrong one is enough.
        for head in np.ndindex(arrays["x"].shape[:-2]):
            rotated = {"rotated": arrays["rotated"][head]}
            found = found or _case(file, question, request, rotated, dtype, x=arrays["x"][head])
    else:
        found = _case(file, question, request, arrays, dtype)
    if found is None:
        raise InvalidBody("no number is further off than an implementation of its type may be")
    return text_of_cases(file, [found])


def _case(
    file: str,
    question: Question,
    request: TableRequest,
    arrays: Mapping[str, Elements],
    dtype: str,
    *,
    x: Elements | None = None,
) -> Case | None:
    """Return the case of the rows that are wrong; None if none is."""
    copies = _copies(question, request, arrays, dtype, x)
    count = next(iter(copies.values())).shape[-2]
    places = _places(request, count)

    def wrong_among(rows: range) -> list[int]:
        case = _asked(question, [places[row] for row in rows], None if x is None else x[rows])
        wrong = _wrong_rows(case, _rows_of(copies, rows), dtype)
        return [rows[each] for each in np.flatnonzero(wrong)]

    steps = (range(start, min(start + _ROWS, count)) for start in range(0, count, _ROWS))
    wrong = [row for rows in steps for row in wrong_among(rows)]
    if not wrong:
        return None
    most = _MOST_CHARACTERS // (_NUMBER * sum(copy[0, 0].size for copy in copies.values()))
    chosen = np.linspace(0, len(wrong) - 1, max(1, min(most, _MOST_ROWS, len(wrong))))
    rows = sorted({0, *(wrong[int(each)] for each in chosen)})
    case = _asked(question, [places[row] for row in rows], None if x is None else x[rows])
    comment = f"rows of an implementation that is wrong from position {places[wrong[0]]} on"
    return Case(f"{file}/1", comment, case.question, case.expected, ())


def _question(url: str, request: TableRequest, have: Mapping[str, StoredTable]) -> Question:
    """Return the question whose answer the arrays should be, without positions and x."""
    given, layout = dict(request.parameters), {}
    if "rotated" in have:
        rotation = expected_rotation(url, have["x"], have["rotated"])
        document, resource = rotation.expected.document, "/rope/apply"
        layout = {"layout": rotation.options["layout"]}
        if layout["layout"] is None:
            raise _refused("name the rotation by its layout, as in /rope/apply?layout=half")
    else:
        rows = max(max(table.shape) for table in have.values())
        document, resource = expected_at(url, rows).document, f"/{request.resource}"
    endpoint = ENDPOINTS[resource]
    of_axes = {"cu_seqlens", "seqlen_offsets", "grid", *map("positions_{}".format, "thws")}
    if "positions" not in endpoint.parameters.model_fields or of_axes & given.keys():
        raise _refused(f"a case needs a table whose rows have one position each, not {resource}")
    kept = {name: each for name, each in given.items() if name not in _FORM} | layout
    kept |= {name: document.parameters[name] for name in _IMPLIED if name in document.parameters}
    parsed = read_parameters(endpoint.parameters, kept)
    parameters = parsed.model_dump(mode="json", include=set(kept))
    return Question(_KINDS.get(resource, "array"), resource, parameters)


def _refused(rule: str) -> InvalidParameters:
    return InvalidParameters(Fault("to", None, rule))


def _asked(question: Question, places: Sequence[int], x: Elements | None) -> RecordedCase:
    rows = None if x is None else x[: len(places)].tolist()
    own = replace(question, positions=tuple(places), x=rows)
    return RecordedCase("", "", "", own, expectation(own))


def _copies(
    question: Question,
    request: TableRequest,
    arrays: Mapping[str, Elements],
    dtype: str,
    x: Elements | None,
) -> Copies:
    """Return arrays unpacked, in the packing of the table, or in that with most right numbers."""
    case = _asked(question, [0], x)
    if question.kind != "table":
        name = next(iter(case.expected.arrays))
        ((_, array),) = arrays.items()
        return {name: without_batch(array, case.expected.shape)[None]}
    pack = str(request.parameters.get("pack", "pair"))
    found = dict[str, Copies]()
    for each in (CONSUMERS.get(pack, pack), *PACKS):
        with suppress(InvalidAnswer):
            copies = unpacked(each, arrays, case)
            if copies["cos"].ndim == 3 and copies["cos"].shape[-1] == case.expected.shape[-1]:
                found[each] = copies
    if not found:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InvalidBody(f"{shapes}: no packing of the table has such a shape")
    if pack in found:
        return found[pack]
    rows = range(min(_SAMPLED, next(iter(found.values()))["cos"].shape[-2]))
    sample = _asked(question, _places(request, len(rows)), None)
    wrong = {
        name: Judgement(sample, AnswerArrays(dtype, {}, _rows_of(copies, rows))).wrong.sum()
        for name, copies in found.items()
    }
    return found[min(wrong, key=lambda name: wrong[name])]


def _rows_of(copies: Copies, rows: Sequence[int]) -> Copies:
    return {name: copy[..., rows, :] for name, copy in copies.items()}


def _wrong_rows(case: RecordedCase, copies: Copies, dtype: str) -> Elements:
    judgement = Judgement(case, AnswerArrays(dtype, {}, copies))
    if not judgement.has_shape:
        raise InvalidBody(judgement.summary)
    return np.asarray(judgement.wrong.any(axis=(0, -1)))


def _places(request: TableRequest, count: int) -> list[int]:
    """Return the position of each row."""
    given = request.parameters
    if "positions" not in given:
        start = int(str(given.get("start", 0)))
        return [*range(start, start + count)]
    listed = parse_positions(given["positions"])
    if listed.count < count:
        raise _refused(f"to has {listed.count} positions for {count} rows")
    return [int(each) for each in listed.at(0, count)]
