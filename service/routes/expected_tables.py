"""The tables that ``/diagnose`` expects: as waves, or as numbers before rounding.

Of the table of a sequence, only as many rows are read as were sent. A URL that does not say how
many rows there are has as many as the array.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import LARGEST, MAX_ELEMENTS, Sample, TableRequest, float64_numbers
from service.analysis.explanation.catalogue import mistake
from service.analysis.explanation.engine import is_table
from service.analysis.explanation.family_mistakes import exchanged
from service.analysis.explanation.measured import UNIT
from service.analysis.explanation.numeric_tables import (
    Alternative,
    Numbers,
    are_numbers,
)
from service.analysis.explanation.target import Target, target_of
from service.delivery.parameters import read_parameters
from service.encodings.grid.grid_encoding import GridEncoding
from service.encodings.grid.sincos import Along, GridTable, copied_by_axis
from service.encodings.rotary.angles import RotaryAngles, packed
from service.encodings.rotary.rope import Rope
from service.encodings.rotary.rope_apply import RopeApply
from service.errors import Fault, InvalidBody, InvalidParameters, PosrefError, shortened
from service.grammar import integers, real_positions
from service.numerics.dtypes import (
    FLOAT64,
    INDEX_DTYPES,
    INT64,
    REAL_DTYPES,
    Elements,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.tables import Document, ParameterValue, StoredTable, Table, size
from service.routes.table_urls import (
    pointing_at_to,
    read_url,
    table_at,
    table_in_to,
    table_request,
    tables,
    url_of,
)

ROWS = ("seq_len", "start", "positions", "cu_seqlens", "seqlen_offsets")
"""The parameters of the rows of a sequence."""

# The expected table may have this many times the elements of the array, plus _SHORT_ELEMENTS, and
# at most _MOST_ELEMENTS.
_TIMES_LONGER = 8
_SHORT_ELEMENTS = 2**16
_MOST_ELEMENTS = 2**24

_ROUNDED = ("float32", "float16", "bfloat16", "complex64")
_LENGTH = "seq_len"
# The roundings of powers, logarithms and sums in float32, relative to the largest number.
_ROUNDED_OFF = 32 * UNIT
_GRID = "encoding/grid"


@dataclass(frozen=True, eq=False)
class Expected:
    """The table that a URL names.

    Attributes:
        request: the request for as many rows as were sent, or fewer.
        document: its document.
        target: the table as waves; None if it does not consist of sines and cosines.
        rows: how many rows the URL names; None if it does not say.
    """

    request: TableRequest
    document: Document
    target: Target | None
    rows: int | None


def expected_at(url: str, rows: int, positions: str | None = None) -> Expected:
    """Return the table of a URL, with at most so many rows.

    Args:
        url: path and query.
        rows: the most rows that the arrays may have.
        positions: the positions of the rows, in place of those of the URL.

    Raises:
        InvalidParameters: the URL names no table.
    """
    with pointing_at_to(url):
        request = table_request(url)
        if positions is not None:
            request = request.without(*ROWS, "max_position_embeddings")
            request = request.with_parameters(positions=positions)
        is_open = _leaves_length_open(request)
        if is_open:
            request = request.with_parameters(seq_len=max(rows, 1))
            document = tables(request)
        elif positions is not None:
            document = tables(request)
        else:
            document = read_url(url).document
    most = rows_of(document)
    if 0 < rows < most:
        request, _ = beginning(request, document, rows)
        document = tables(request)
    named = None if is_open or not most else most
    return Expected(request, document, _target(request, document, named), named)


def _leaves_length_open(request: TableRequest) -> bool:
    """Return whether a request lacks nothing but the number of rows."""
    resource = table_at(f"/{request.resource}")
    if resource is None or _LENGTH not in resource.parameters.model_fields:
        return False
    if _LENGTH in request.parameters or "positions" in request.parameters:
        return False
    try:
        tables(request)
    except InvalidParameters as error:
        return all(fault.where == _LENGTH for fault in error.faults)
    except PosrefError:
        return False
    return False


def _target(request: TableRequest, document: Document, rows: int | None) -> Target | None:
    if "channels" in document.parameters:
        raise bad_url("to names some channels: name the whole table, without channels")
    rule = None
    if request.resource == "rope":
        rope = read_parameters(Rope, request.parameters)
        rule = rope.rule(rope.head_dim)

    def read_exact() -> Mapping[str, Float64s]:
        exact = tables(request.with_parameters(dtype="float64"))
        return {
            name: float64_numbers(elements_of(table), table.dtype)
            for name, table in exact.arrays.items()
        }

    return target_of(document, request, rule, rows=rows, read_exact=read_exact)


def one_copy(
    have: Mapping[str, StoredTable], document: Document
) -> tuple[Mapping[str, StoredTable], tuple[str, ...]]:
    """Return arrays without copies along axes before those of a table, and what was left out.

    An axis of length 1 of the table is one of its own: an array that is longer there has no copies.
    """
    shape = max((table.shape for table in document.arrays.values()), key=len)
    found, notes = {}, dict[str, None]()
    for name, table in have.items():
        elements = table.elements
        more = len(elements.shape) - len(shape)
        more -= max(_last_ones(elements.shape) - _last_ones(shape), 0)
        for axis in range(more):
            is_own = len(elements) > 1 and _long(elements.shape) <= _long(shape)
            if is_own or not (elements == elements[:1]).all():
                break
            if len(elements) > 1:
                notes[f"axis {axis} has {len(elements)} equal slices"] = None
            elements = elements[0]
        found[name] = StoredTable(elements, table.dtype)
    return found, tuple(notes)


def _long(shape: tuple[int, ...]) -> int:
    """Return how many axes have another length than 1."""
    return sum(length != 1 for length in shape)


def _last_ones(shape: tuple[int, ...]) -> int:
    """Return how many of the last axes have the length 1."""
    return len(list(takewhile(lambda length: length == 1, reversed(shape))))


def is_table_of(request: TableRequest, have: Mapping[str, StoredTable]) -> bool:
    """Return whether arrays are the table of a request, in the arithmetic of some engine."""
    try:
        document = tables(request)
        target = _target(request, document, None)
        if target is not None:
            return is_table(have, target)
        samples = {name: Sample.of(table) for name, table in have.items()}
        if len(samples) == 1:
            samples = dict(zip(document.arrays, samples.values(), strict=False))
        want = numbers_of(request, document, sum(map(size, have.values())))
    except PosrefError:
        return False
    every = np.concatenate([sample.reals().ravel() for sample in want.arrays.values()])
    largest = float(np.abs(every[np.isfinite(every)]).max(initial=0))
    return are_numbers(samples, replace(want, slack=_ROUNDED_OFF * largest))


def frequencies_url(url: str) -> str:
    """Return the URL of the frequencies of a rotary table; that of another table is unchanged."""
    with pointing_at_to(url):
        request = table_request(url)
    resource = table_at("/rope/frequencies")
    if resource is None or request.resource not in {"rope", "rope/frequencies"}:
        return url
    fields = resource.parameters.model_fields.keys() - {*ROWS, "part"}
    kept = {name: value for name, value in request.parameters.items() if name in fields}
    return url_of(TableRequest("rope/frequencies", {**kept, "part": "inv_freq"}))


def rows_of(document: Document) -> int:
    """Return the number of rows if they are the positions of one sequence, else 0."""
    given, table = document.parameters.keys(), next(iter(document.arrays.values()))
    is_sequence = "position" in document.axes and (
        "positions" in given or {"start", "seq_len"} <= given
    )
    return table.shape[document.axes.index("position")] if is_sequence else 0


def beginning(
    request: TableRequest, document: Document, rows: int
) -> tuple[TableRequest, Mapping[str, int]]:
    """Return the request for the first rows of a table; unchanged if the table has no more."""
    given, most = document.parameters, rows_of(document)
    if rows >= most:
        return request, {}
    if "positions" in given:
        positions = real_positions(given["positions"]).beginning(rows)
        request = with_rows(request, document, positions=str(positions))
    else:
        request = with_rows(request, document, seq_len=rows)
    return request, {"rows": rows, "of": most}


def with_rows(request: TableRequest, document: Document, **rows: ParameterValue) -> TableRequest:
    """Return the request for other rows, with the parameters of the document.

    Some depend on the number of rows unless they are given, such as the centre of xPos.
    """
    if "positions" in rows:
        request = request.without(*(name for name in ROWS if name not in rows))
    request = request.with_parameters(**rows)
    changed = tables(request).parameters
    kept = {name: each for name, each in document.parameters.items() if name not in ROWS}
    kept = {name: each for name, each in kept.items() if changed.get(name) != each}
    return request.with_parameters(**kept)


def numbers_of(request: TableRequest, document: Document, sent: int) -> Numbers:
    """Return the numbers of a table, before rounding where possible.

    Raises InvalidParameters if the table is far larger than what was sent.
    """
    check_size(document, sent)
    exact = document
    if document.dtype in _ROUNDED:
        with suppress(InvalidParameters):
            exact = tables(request.with_parameters(dtype="float64"))
    arrays = {}
    for name, table in exact.arrays.items():
        dtype, numbers = table.dtype, elements_of(table)
        if dtype.name in INDEX_DTYPES:
            dtype, numbers = INT64, numbers.astype(np.int64)
        arrays[name] = Sample.of(StoredTable(numbers, dtype))
    name = "float32" if document.dtype == "complex64" else str(document.dtype)
    return Numbers(
        arrays,
        REAL_DTYPES.get(name, FLOAT64),
        _long_axes(document),
        _grid(request),
        are_frequencies=arrays.keys() <= {"inv_freq", "frequency"},
        first=int(str(document.parameters.get("start", 0))),
        moved=partial(_moved, request, document, sent) if rows_of(document) else None,
    )


def _long_axes(document: Document) -> tuple[str, ...]:
    """Return the names of the axes of a document, without those of length 1, as samples are."""
    names = tuple(axis.partition("(")[0] for axis in document.axes)
    shape = next(iter(document.arrays.values())).shape
    if len(names) != len(shape):
        return names
    kept = tuple(name for name, length in zip(names, shape, strict=True) if length != 1)
    return kept or names


def check_size(document: Document, sent: int) -> None:
    """Raise InvalidParameters if a document is far larger than the elements that were sent."""
    elements = sum(map(size, document.arrays.values()))
    if elements > min(_MOST_ELEMENTS, _TIMES_LONGER * sent + _SHORT_ELEMENTS):
        raise bad_url(
            f"to names a table of {elements} elements, and {sent} are sent: "
            "name the part that they should be, as by query_len"
        )


def _moved(request: TableRequest, document: Document, sent: int, rows: int) -> Numbers | None:
    """Return the numbers from another row on; None if the rows have no first one."""
    start = document.parameters.get("start")
    if start is None:
        return None
    with suppress(PosrefError):
        moved = with_rows(request, document, start=int(str(start)) + rows)
        return numbers_of(moved, tables(moved), sent)
    return None


@dataclass(frozen=True, eq=False)
class ExpectedRotation:
    """The rotation that a URL names, for ``x`` and ``rotated`` with positions before channels.

    Attributes:
        x, rotated: the arrays, (…, positions, head_dim).
        expected: the cosines and sines, compact and in float64.
        options: the layout, and what else ``explain_rotation`` takes.
        rows: how many of the rows of the URL are expected, if not all are.
    """

    x: StoredTable
    rotated: StoredTable
    expected: Expected
    options: Mapping[str, Any]
    rows: Mapping[str, int]


def expected_rotation(url: str, x: StoredTable, rotated: StoredTable) -> ExpectedRotation:
    """Return the rotation of a URL of /rope/apply, /rope or /rope/axial.

    Raises:
        InvalidParameters: the URL names no rotation.
        InvalidBody: the arrays do not fit the rotation.
    """
    with pointing_at_to(url):
        request = table_request(url)
    if request.resource == "rope/apply":
        found = _of_transform(url, request, x, rotated)
    else:
        found = _of_table(url, request, x, rotated)
    expected, x = found.expected, found.x
    count, pairs = expected.document.arrays["cos"].shape[-2:]
    if 2 * pairs > x.shape[-1]:
        raise InvalidBody(f"the rotation has {2 * pairs} channels, and x has {x.shape[-1]}", "/x")
    if count < x.shape[-2]:
        raise bad_url(f"to names {count} rows, and x has {x.shape[-2]}: name as many at least")
    if expected.target is None:
        raise bad_url("to names angles that grow with the position: send the table")
    return found


def _of_transform(
    url: str, request: TableRequest, x: StoredTable, rotated: StoredTable
) -> ExpectedRotation:
    with pointing_at_to(url):
        parameters = read_parameters(RopeApply, request.parameters)
        numbers: tuple[int, ...] = ()
        if parameters.axes is not None:
            vectors = parameters.vectors("x", x)
            x, numbers = vectors.in_rows(), vectors.order
            rotated = parameters.vectors("rotated", rotated).in_rows()
        angles = parameters.angles_of(*x.shape[-2:])
        if angles.row_shape != x.shape[-2:-1]:
            rule = f"to gives {angles.rows} positions, and x has {x.shape[-2]} rows"
            raise InvalidBody(rule, "/x")
    _refuse_single_channels(angles)
    document = packed(angles, "compact", FLOAT64)
    # A GET returns its cosines and sines.
    shown = TableRequest("rope", {**document.parameters, "pack": parameters.layout})
    rule_of_pairs = parameters.rule(x.shape[-1] - (parameters.rotary_offset or 0))

    def read_exact() -> Mapping[str, Float64s]:
        return {name: elements_of(table) for name, table in document.arrays.items()}

    target = target_of(document, shown, rule_of_pairs, rows=x.shape[-2], read_exact=read_exact)
    target = target and replace(target, head_dim=x.shape[-1])
    options = {
        "layout": parameters.layout,
        "output_layout": parameters.output_layout,
        "rotary_offset": parameters.rotary_offset,
        "inverse": parameters.inverse,
        "numbers": numbers,
    }
    expected = Expected(shown, document, target, x.shape[-2])
    return ExpectedRotation(x, rotated, expected, options, {})


def _of_table(
    url: str, request: TableRequest, x: StoredTable, rotated: StoredTable
) -> ExpectedRotation:
    if request.resource not in {"rope", "rope/axial"}:
        path = f"/{request.resource}"
        rule = f"to must name a rotation, /rope or /rope/apply, where x is sent: it is {path}"
        raise bad_url(rule, path)
    _, document = table_in_to(url)
    # Another axis than that before the channels may be the positions.
    used, _ = beginning(request, document, max(x.shape[:-1]))
    shown, rows = beginning(request, document, x.shape[-2])
    if request.resource == "rope":
        _refuse_single_channels(read_parameters(Rope, used.parameters).rotary_angles())
    kept = {name: value for name, value in used.parameters.items() if name not in _FORM}
    compact = TableRequest(request.resource, {**kept, "pack": "compact", "dtype": "float64"})
    document = tables(compact)
    count = document.arrays["cos"].shape[0]
    if count > _MOST_ROWS:
        raise bad_url(f"to names more than {_MOST_ROWS} rows: as many as x has are enough")
    target = _target(compact, document, count)
    options = {"layout": _LAYOUTS.get(str(request.parameters.get("pack")))}
    expected = Expected(shown, document, target, rows.get("of", count))
    return ExpectedRotation(x, rotated, expected, options, rows)


def _refuse_single_channels(angles: RotaryAngles) -> None:
    if angles.by_channel:
        raise bad_url("to names angles of single channels: send the table, of /rope?pack=half")


_LAYOUTS = {"half": "half", "interleaved": "interleaved", "half_concat": "half"}
_FORM = ("pack", "part", "batch", "dtype")
_MOST_ROWS = 2**16


def finite_sample(name: str, table: StoredTable, *, may_be_masked: bool = False) -> Sample:
    """Return an array of numbers as a Sample.

    Args:
        name: the name of the array.
        table: the array.
        may_be_masked: whether it may be −∞ where a causal mask is.

    Raises InvalidBody if the array has more than MAX_ELEMENTS elements, or an element that is not
    finite or has a magnitude above 2^64.
    """
    shown, rows = shortened(name), MAX_ELEMENTS * table.shape[-2:][0] // max(size(table), 1)
    part = f"at most {rows} rows, and later ones with start= in to" if rows else "fewer heads"
    rule = f"{shown} has {size(table)} numbers: at most {MAX_ELEMENTS} are possible: send {part}"
    if size(table) <= MAX_ELEMENTS:
        sample = Sample.of(table)
        is_masked = not sample.is_finite and _is_causal(sample.values)
        if is_masked and may_be_masked:
            return sample
        if not sample.is_finite:
            rule = f"{shown} holds NaN or an infinity: the first is {_first_infinite(table)}"
            if is_masked:
                rule += ". This is a causal mask: send the bias before the mask is added"
        elif float(np.abs(sample.reals()).max(initial=0)) > LARGEST:
            rule = f"{shown} holds numbers beyond 2^64: no table of positions does"
        else:
            return sample
    raise InvalidBody(rule, f"/{shown}")


def _first_infinite(table: StoredTable) -> str:
    """Return the first number that is not finite, and its index, as text."""
    numbers = to_float64(table.elements, table.dtype)
    index = tuple(int(each) for each in np.argwhere(~np.isfinite(numbers))[0])
    number = "NaN" if np.isnan(numbers[index]) else f"{numbers[index]:g}"
    return f"{number} at [{', '.join(map(str, index))}]"


def _is_causal(values: NDArray[Any]) -> bool:
    """Return whether all numbers that are not finite are −∞, where the key is after the query."""
    if values.ndim < 2 or values.dtype.kind != "f":
        return False
    queries, keys = values.shape[-2:]
    is_lost = ~np.isfinite(values)
    return bool((values[is_lost] == -np.inf).all()) and any(
        bool((is_lost == ~np.tri(queries, keys, first, dtype=np.bool_)).all())
        for first in {0, keys - queries}
    )


def elements_of(table: Table) -> Elements:
    """Return all elements of a table, in its shape."""
    return table.read(0, size(table)).reshape(table.shape)


def _grid(request: TableRequest) -> tuple[int, int] | None:
    """Return the lengths of a 2-D grid whose cells are the rows, the fastest last; else None."""
    parameters = request.parameters
    if request.resource == _GRID:
        along = read_parameters(GridEncoding, parameters).layout.along.values()
        lengths = tuple(each.tokens.length for each in along)
    elif {"height", "width"} <= set(parameters) and "depth" not in parameters:
        lengths = int(str(parameters["height"])), int(str(parameters["width"]))
    else:
        lengths = tuple(integers(parameters["grid"])) if "grid" in parameters else ()
    return (lengths[0], lengths[1]) if len(lengths) == 2 else None


def exchanged_grids(request: TableRequest, want: Numbers) -> Iterator[Alternative]:
    """Yield the numbers of a grid of sines and cosines whose channels or tokens are exchanged."""
    if request.resource == _GRID:
        encoding = read_parameters(GridEncoding, request.parameters)
        width, is_first = encoding.grid.d_model, encoding.has_channels_first
        yield from exchanged(encoding.layout, width, want, channels_first=is_first)


def _moved_along(along: Along, places: int) -> Along:
    tokens = along.tokens
    return replace(along, tokens=replace(tokens, first=tokens.first + places * tokens.step))


def moved_grids(request: TableRequest, want: Numbers) -> Iterator[Alternative]:
    """Yield the numbers of a grid of sines and cosines whose tokens are one further along axes."""
    if request.resource != _GRID:
        return
    encoding = read_parameters(GridEncoding, request.parameters)
    layout, width = encoding.layout, encoding.grid.d_model
    ((name, sample),) = want.arrays.items()
    values = np.moveaxis(sample.values, 0, -1) if encoding.has_channels_first else sample.values
    flat = (values.size // width, width)
    every = tuple(layout.along)
    together = dict.fromkeys([*((each,) for each in every), every])
    for axes, rows in product(together, (1, -1)):
        variant = "axis" if len(axes) == 1 else "axes"
        wrong = mistake("position-offset", None, {"rows": rows, "axis": axes[0]}, variant=variant)
        along = {
            each: _moved_along(one, rows) if each in axes else one
            for each, one in layout.along.items()
        }
        table = copied_by_axis(GridTable(replace(layout, along=along), width, FLOAT64, flat))
        numbers = table.read(0, size(table)).reshape(values.shape)
        numbers = np.moveaxis(numbers, -1, 0) if encoding.has_channels_first else numbers
        yield wrong, None, replace(want, arrays={name: replace(sample, values=numbers)})


def bad_url(rule: str, url: str | None = None) -> InvalidParameters:
    """Return the error for the parameter ``to``."""
    return InvalidParameters(Fault("to", url, rule))
