"""A case of one's own: a vector file of the rows where an array is wrong, with the right numbers.

It fails with the implementation that made the array, and passes once that is mended.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, permutations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import TableRequest
from service.conformance.expected import expectation
from service.conformance.judging import (
    AnswerArrays,
    Copies,
    InvalidAnswer,
    Judgement,
    unpacked,
)
from service.conformance.questions import Kind, Question
from service.conformance.recorded_cases import RecordedCase
from service.conformance.suite import Case, text_of_cases
from service.delivery.parameters import read_parameters
from service.encodings.relative.distance import QueryKeyParameters
from service.encodings.rotary.angles import CONSUMERS, PACKS
from service.errors import Fault, InvalidBody, InvalidParameters, PosrefError
from service.grammar import positions as parse_positions
from service.numerics.dtypes import Elements, to_float64
from service.numerics.phasors import Indices
from service.numerics.tables import StoredTable
from service.routes import ENDPOINTS
from service.routes.expected_tables import ROWS, expected_at, expected_rotation
from service.routes.table_urls import table_request, tables

_Shape: TypeAlias = tuple[int | None, ...]

# Numbers that are judged at a time, and rows that show the packing.
_MOST_NUMBERS = 2**18
_SAMPLED = 64
# Characters of a number with its tolerance, and of all numbers of a file.
_NUMBER, _MOST_CHARACTERS, _MOST_ROWS = 40, 11000, 8
# How the rows of a table are chosen and written, which is no part of what a case asks.
_LENGTH = "max_position_embeddings"
_FORM = {*ROWS, _LENGTH, "pack", "part", "batch", "dtype", "revision", "axes"}
_FORM |= {f"{axis}_{name}" for axis in ("query", "key") for name in ("len", "start", "positions")}
_SWAPPED = "axes-swapped"
_REAL = {"complex64": "float32", "complex128": "float64"}
_KINDS: Mapping[str, Kind] = {"/rope": "table", "/rope/apply": "rotate"}
# What a case says, though a URL may leave it to its default or to the number of rows.
_IMPLIED = ("rope_theta", "context_length", "original_max_position_embeddings")


def own_case(
    name: str,
    url: str,
    have: Mapping[str, StoredTable],
    mistakes: Collection[str] = (),
    sentence: str = "",
) -> str:
    """Return the text of a vector file with one case.

    Args:
        name: of the case.
        url: path and query of the table, or of the rotation, that the arrays should be.
        have: the array, the cosines and sines, or ``x`` and ``rotated``.
        mistakes: the names of those that the arrays show.
        sentence: what is known of them; the comment of the case ends with it.

    Raises:
        InvalidParameters: the URL names no table of positions, or of queries and keys.
        InvalidBody: no number is wrong, or the arrays cannot be read as that table.
    """
    request = table_request(url)
    dtype = have.get("rotated", next(iter(have.values()))).dtype.name
    question, file = _question(url, request, have), re.sub("[^a-z0-9]+", "-", name.lower())
    file = f"own/{file.strip('-') or 'case'}"
    found = None
    if "rotated" in have:
        rotation = expected_rotation(url, have["x"], have["rotated"])
        x, rotated = (to_float64(t.elements, t.dtype) for t in (rotation.x, rotation.rotated))
        # Heads, and sequences of a batch, have the same positions: the first wrong one is enough,
        # if they are not taken for positions themselves.
        heads: Iterable[Any] = np.ndindex(x.shape[:-2])
        if _SWAPPED in mistakes:
            heads = [(*(0,) * (x.ndim - 3), slice(2))]
        for head in heads:
            of_head = {"rotated": rotated[head][None]}
            found = found or _failing_case(file, question, request, of_head, dtype, x=x[head])
    else:
        arrays = {each: _numbers(table) for each, table in have.items()}
        # The judge knows the types of the numbers that are in complex ones.
        dtype = _REAL.get(dtype, dtype)
        copies, is_moved = _unpacked_arrays(question, request, arrays, dtype)
        found = _failing_case(file, question, request, copies, dtype, is_moved=is_moved)
    if found is None:
        raise InvalidBody("no number is further off than an implementation of its type may be")
    comment = f"{found.comment}. {sentence}" if sentence else found.comment
    return text_of_cases(file, [replace(found, comment=comment)])


def _numbers(table: StoredTable) -> Elements:
    """Return numbers as float64, complex ones as pairs."""
    elements = table.elements
    if elements.dtype.kind == "c":
        return np.stack([elements.real, elements.imag], axis=-1).astype(np.float64)
    return to_float64(elements, table.dtype)


def _failing_case(
    file: str,
    question: Question,
    request: TableRequest,
    copies: Copies,
    dtype: str,
    *,
    x: Elements | None = None,
    is_moved: bool = False,
) -> Case | None:
    """Return the case of the rows that are wrong; None if none is, and the axes are right."""
    first = next(iter(copies.values()))
    count, size = first.shape[-2], sum(copy[0].size for copy in copies.values())
    axis = "query_" if "key_positions" in question.parameters else ""
    places = _places(request.parameters, count, axis)

    def wrong_among(rows: Sequence[int]) -> NDArray[np.bool_]:
        some = None if x is None else x[..., rows, :]
        case = _case_at(question, [places[row] for row in rows], some)
        if not all(np.isfinite(each).all() for each in case.expected.arrays.values()):
            raise _refused("a case has finite numbers: name the bias before a mask is added")
        judgement = Judgement(case, AnswerArrays(dtype, {}, _rows_of(copies, rows)))
        if not judgement.has_shape:
            raise InvalidBody(judgement.summary)
        return np.asarray(judgement.wrong.any(axis=tuple(range(judgement.wrong.ndim - 2))))

    step = max(1, _MOST_NUMBERS * count // size)
    steps = (range(start, min(start + step, count)) for start in range(0, count, step))
    wrong = [rows[each] for rows in steps for each in np.flatnonzero(wrong_among(rows).any(axis=1))]
    comment = "rows of an implementation whose axes are in another order"
    if wrong:
        comment = f"rows of an implementation that is wrong from position {places[wrong[0]]} on"
    elif is_moved and first[0].size > 1:
        wrong = [*range(count)]
    else:
        return None
    most = max(1, _MOST_CHARACTERS * count // (_NUMBER * size))
    columns = list[int]()
    if "key_positions" in question.parameters:
        keys = question.parameters["key_positions"]
        bad = np.flatnonzero(wrong_among(wrong[:1])[0])
        columns = _spread(bad if len(bad) else range(len(keys)), most * len(keys) // 2)
        # The last key is what some biases count from.
        columns = sorted({*columns, len(keys) - 1})
        question = question.changed(key_positions=[keys[each] for each in columns])
        most = max(1, most * len(keys) // len(columns) - 1)
    rows = sorted({0, *_spread(wrong, most)})
    if is_moved and len(rows) == (len(columns) or first.shape[-1]):
        # The shape of a square table would be right.
        rows = rows[:-1] or rows
    case = _case_at(question, [places[row] for row in rows], None if x is None else x[..., rows, :])
    return Case(f"{file}/1", comment, case.question, case.expected, ())


def _spread(places: Sequence[int] | Indices, most: int) -> list[int]:
    """Return the first and some other places."""
    chosen = np.linspace(0, len(places) - 1, max(1, min(most, _MOST_ROWS, len(places))))
    return sorted({int(places[int(each)]) for each in chosen})


def _question(url: str, request: TableRequest, have: Mapping[str, StoredTable]) -> Question:
    """Return the question whose answer the arrays should be, without positions and x."""
    given, layout = dict(request.parameters), {}
    if "rotated" in have:
        rotation = expected_rotation(url, have["x"], have["rotated"])
        document, resource, rows = rotation.expected.document, "/rope/apply", 0
        layout = {"layout": rotation.options["layout"]}
        if layout["layout"] is None:
            raise _refused("name the rotation by its layout, as in /rope/apply?layout=half")
    else:
        rows = max(max(table.shape) for table in have.values())
        document, resource = expected_at(url, rows).document, f"/{request.resource}"
    parameters = ENDPOINTS[resource].parameters
    is_of_pairs = issubclass(parameters, QueryKeyParameters)
    of_axes = {"cu_seqlens", "seqlen_offsets", "grid", *map("positions_{}".format, "thws")}
    if not (is_of_pairs or "positions" in parameters.model_fields) or of_axes & given.keys():
        rule = "a case needs a table of queries and keys, or whose rows have one position each"
        raise _refused(f"{rule}, not {resource}")
    if "head" in given:
        raise _refused("a case has the biases of all heads: leave out head")
    kept = {name: each for name, each in given.items() if name not in _FORM} | layout
    if "rope_type" in given and "factor" not in given:
        # A rule may take its factor from it.
        kept |= {name: each for name, each in given.items() if name == _LENGTH}
    kept |= {name: document.parameters[name] for name in _IMPLIED if name in document.parameters}
    rest = {"query_positions": "0", "key_positions": "0"} if is_of_pairs else {}
    parsed = read_parameters(parameters, kept | rest)
    listed = parsed.model_dump(mode="json", include=set(kept))
    if is_of_pairs:
        keys = next(iter(document.arrays.values())).shape[-1]
        if keys > rows:
            raise _refused(f"to has {keys} keys, and the array no such axis")
        listed["key_positions"] = _places(given, keys, "key_")
        if "query_start" in document.parameters or "query_positions" in document.parameters:
            listed["query_positions"] = [0]
    return Question(_KINDS.get(resource, "array"), resource, listed)


def _refused(rule: str) -> InvalidParameters:
    return InvalidParameters(Fault("to", None, rule))


def _case_at(question: Question, places: Sequence[int], x: Elements | None) -> RecordedCase:
    if "query_positions" in question.parameters:
        own = question.changed(query_positions=[*places])
    elif "key_positions" in question.parameters:
        own = question
    else:
        rows = None if x is None else x.tolist()
        own = replace(question, positions=tuple(places), x=rows)
    return RecordedCase("", "", "", own, expectation(own))


def _unpacked_arrays(
    question: Question, request: TableRequest, arrays: Mapping[str, Elements], dtype: str
) -> tuple[Copies, bool]:
    """Return arrays unpacked, and whether their axes are out of order.

    The packing is that of the table, or that with most right numbers.
    """
    case = _case_at(question, [0], None)
    if question.kind != "table":
        (name,), (array,) = case.expected.arrays, arrays.values()
        shape: _Shape = (None, *case.expected.shape[1:])
        if "key_positions" in question.parameters:
            ((_, table),) = tables(request).arrays.items()
            shape = table.shape
        copy, is_moved = _one_copy(array, shape)
        return {name: copy[None]}, is_moved
    pack = str(request.parameters.get("pack", "pair"))
    found = dict[str, tuple[Copies, bool]]()
    for each in (CONSUMERS.get(pack, pack), *PACKS):
        packed = TableRequest("rope", {**question.parameters, "positions": "0", "pack": each})
        with suppress(InvalidAnswer, PosrefError):
            shape = (None, *next(iter(tables(packed).arrays.values())).shape[1:])
            read = {name: _one_copy(array, shape) for name, array in arrays.items()}
            copies = unpacked(each, {name: copy for name, (copy, _) in read.items()}, case)
            found[each] = copies, any(is_moved for _, is_moved in read.values())
    if not found:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InvalidBody(f"{shapes}: no packing of the table has such a shape")
    if pack in found:
        return found[pack]
    wrong = {}
    for name, (copies, _) in found.items():
        rows = range(min(_SAMPLED, copies["cos"].shape[-2]))
        sample = _case_at(question, _places(request.parameters, len(rows)), None)
        answer = AnswerArrays(dtype, {}, _rows_of(copies, rows))
        wrong[name] = Judgement(sample, answer).wrong.mean()
    return found[min(wrong, key=lambda name: wrong[name])]


def _one_copy(array: Elements, shape: _Shape) -> tuple[Elements, bool]:
    """Return an array in a shape, of equal copies one, and whether its axes are out of order.

    Raises:
        InvalidBody: no axes have these lengths, of which None is any, or the copies differ.
    """
    every = range(array.ndim)
    in_order = [*combinations(every, len(shape))][::-1]
    for axes in dict.fromkeys([*in_order, *permutations(every, len(shape))]):
        if any(want not in {None, array.shape[at]} for want, at in zip(shape, axes, strict=True)):
            continue
        others = [axis for axis in every if axis not in axes]
        moved = array.transpose(*others, *axes)
        copy = moved[(0,) * len(others)]
        if np.array_equal(moved, np.broadcast_to(copy, moved.shape), equal_nan=True):
            return copy, axes not in in_order
    wanted = str(shape).replace("None", "rows")
    raise InvalidBody(f"the array has the shape {array.shape}, and no equal copies of {wanted}")


def _rows_of(copies: Copies, rows: Sequence[int]) -> Copies:
    return {name: copy[..., rows, :] for name, copy in copies.items()}


def _places(given: Mapping[str, Any], count: int, axis: str = "") -> list[int]:
    """Return the position of each row, of each query or of each key."""
    if f"{axis}positions" not in given:
        start = int(str(given.get(f"{axis}start", 0)))
        return [*range(start, start + count)]
    listed = parse_positions(given[f"{axis}positions"])
    if listed.count < count:
        raise _refused(f"to has {listed.count} positions for {count} rows")
    return [int(each) for each in listed.at(0, count)]
