"""What ``/compare`` says about one array, of what was found.

One array of a comparison: laid over its table, read in its type, compared.

The JSON schema of what ``/compare`` answers.

``POST /compare``: arrays that somebody has, against a table of this server.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import Any

import numpy as np
from pydantic import Field

from service.analysis.comparison import (
    ULPS,
    Alignment,
    Bools,
    Comparison,
    Overlay,
    Spot,
    Tolerance,
    alignments,
    compare,
    misfit,
    narrower,
    scale_of,
)
from service.delivery.endpoints import Endpoint, ReportedArrays
from service.encodings.fields import Parameters, Reals
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.formats.format import Input
from service.formats.png import Numbers, axis_numbers
from service.grammar import Real
from service.numerics.document import Document
from service.numerics.dtypes import COMPLEX_DTYPES, FLOAT64, INT32, INT64, REAL_DTYPES, round_into
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable, Table
from service.routes import table_urls as asked

Json = dict[str, Any]

MOST_RANGES = 64
MOST_RUNS = 32


@dataclass(frozen=True, eq=False)
class Reported:
    """A comparison in the words of a document.

    Attributes:
        comparison: what was found.
        alignment: how the array lies over the table.
        names: what each axis of the table counts.
        positions: what the rows are numbered by.
        is_integer: whether the numbers of the table are integers.
    """

    comparison: Comparison
    alignment: Alignment
    names: tuple[str, ...]
    positions: Numbers
    is_integer: bool

    def content(self) -> Json:
        """Say where numbers differ."""
        found = self.comparison
        return {
            "tolerance": _tolerance(found.tolerance),
            "axes": self._axes(),
            "largest": {
                "absolute": self._spot(found.absolute),
                "relative": self._spot(found.relative),
                "ulp": self._spot(found.ulp),
            },
            "first_beyond": self._spot(found.first_beyond),
            "first_not_finite": self._spot(found.first_not_finite),
            "good_to": self._good_to(found.good_rows),
            "good_positions": self._good_positions(),
            "errors_by_position": self._ranges(found.row_errors, self._position),
            "errors_by_channel": self._ranges(found.column_errors, int),
        }

    def within(self, epsilons: tuple[float, ...]) -> list[Json]:
        """Say how far all numbers are within other tolerances."""
        errors = self.comparison.row_errors
        return [{"epsilon": each, "good_to": self._good_to(errors <= each)} for each in epsilons]

    def _position(self, row: int) -> int | float:
        number: int | float = self.positions[row].item()
        return number

    def _good_to(self, good: Bools) -> int | float | None:
        """Give the position of the last row before the first that is not good."""
        first_bad = len(good) if good.all() else int(good.argmin())
        return self._position(first_bad - 1) if first_bad else None

    def _good_positions(self) -> Json:
        good = self.comparison.good_rows
        runs = list(_runs(good))
        shown = [
            {"first": self._position(first), "last": self._position(last)}
            for first, last in runs[:MOST_RUNS]
        ]
        return {
            "count": int(good.sum()),
            "of": len(good),
            "runs": shown,
            "further_runs": len(runs) - len(shown),
        }

    def _ranges(self, errors: Float64s, number: Callable[[int], float]) -> list[Json]:
        """Give the largest error in each of a few ranges."""
        if not len(errors):
            return []
        step = -(-len(errors) // MOST_RANGES)
        firsts = range(0, len(errors), step)
        largest = np.maximum.reduceat(errors, firsts)
        return [
            {
                "first": number(first),
                "last": number(min(first + step, len(errors)) - 1),
                "largest": _finite(float(error)),
            }
            for first, error in zip(firsts, largest, strict=True)
        ]

    def _spot(self, spot: Spot | None) -> Json | None:
        if spot is None:
            return None
        rank = len(self.names)
        columns = self.comparison.columns
        said: Json = {
            "index": list(self.alignment.index(spot.place[:rank])),
            "position": self._position(spot.place[self.comparison.rows]),
            "channel": None if columns is None else spot.place[columns],
            "error": _finite(spot.error),
            "yours": self._number(spot.yours),
            "theirs": self._number(spot.theirs),
        }
        if len(spot.place) > rank:
            said["part"] = ("real", "imaginary")[spot.place[rank]]
        return said

    def _number(self, value: float) -> int | float | str:
        if not isfinite(value):
            return "NaN" if isnan(value) else ("Infinity" if value == inf else "-Infinity")
        return int(value) if self.is_integer and value.is_integer() else value

    def _axes(self) -> Json:
        """Say what positions and channels are, and how the shapes differ if they do."""
        alignment, columns = self.alignment, self.comparison.columns
        said: Json = {
            "position": self.names[self.comparison.rows],
            "channel": None if columns is None else self.names[columns],
        }
        if alignment.is_squeezed:
            said["removed"] = {
                "yours": [i for i, length in enumerate(alignment.shape) if length == 1],
                "theirs": [i for i, length in enumerate(alignment.table_shape) if length == 1],
            }
        if alignment.is_reordered:
            said["order"] = list(alignment.axes)
        if not alignment.is_whole:
            said["prefix"] = self._prefix()
        return said

    def _prefix(self) -> Json:
        alignment = self.alignment
        if alignment.prefix is None:
            assert alignment.longer is not None
            yours = alignment.shape[alignment.longer]
            return {"axis": None, "yours": yours, "theirs": 1, "compared": 1}
        mine = alignment.axes[alignment.prefix]
        return {
            "axis": self.names[alignment.prefix],
            "yours": 1 if mine is None else alignment.shape[mine],
            "theirs": alignment.table_shape[alignment.prefix],
            "compared": alignment.region[alignment.prefix],
        }


def _tolerance(tolerance: Tolerance) -> Json:
    if tolerance.is_given:
        return {"atol": tolerance.atol or 0.0, "rtol": tolerance.rtol or 0.0}
    if tolerance.dtype is None:
        return {"atol": 0.0, "rtol": 0.0}
    return {"ulp": ULPS, "of": tolerance.dtype.name, "at_least_of": tolerance.floor}


def _finite(number: float) -> float | None:
    return number if isfinite(number) else None


def _runs(good: Bools) -> Iterator[tuple[int, int]]:
    """Give the first and the last of each run of good rows."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], good, [False])).astype(np.int8)))
    for first, after in edges.reshape(-1, 2).tolist():
        yield first, after - 1


MAX_WORK = 2**29
"""The most sines that are computed for a comparison: some seconds of a core."""

# Vectors of these have numbers of many sizes, all of which matter: none is a difference of others.
_OF_MANY_SIZES = {(), ("head",)}
_COLUMNS = ("channel", "pair", "dimension", "key")


@dataclass(frozen=True, eq=False)
class Compared:
    """An array that was compared.

    Attributes:
        report: what was found.
        described: shapes and types of both.
        is_equal_bytes: whether type, shape and every byte are the same.
    """

    report: Reported
    described: Json
    is_equal_bytes: bool


def compared(
    document: Document,
    name: str,
    array: StoredTable,
    tolerances: tuple[float | None, float | None],
    sent_as: str | None,
) -> Compared:
    """Compare an array with one of a document.

    Args:
        document: what is meant.
        name: which of its arrays.
        array: what was sent.
        tolerances: atol and rtol, as far as they are asked for.
        sent_as: the name of the type that it was sent in; None for text, which has none: its
            numbers are rounded to the type of the table.

    Raises:
        InvalidBody: the array cannot be compared with the table.
        InvalidParameters: it would take too long.
    """
    table = document.arrays[name]
    yours = {"shape": list(array.shape), "dtype": sent_as or "number"}
    theirs = {"shape": list(table.shape), "dtype": table.dtype.name}
    if sent_as is None:
        array = _rounded(array, table)
    overlay, tolerance = _laid(array, table, document, tolerances)
    alignment = overlay.alignment
    names = _axes(document, alignment.table_shape)
    rows = next((i for i, axis in enumerate(names) if axis != "head"), 0)
    region = alignment.region
    found = compare(overlay, tolerance, rows, _columns(names, rows))
    places = axis_numbers(names[rows], alignment.table_shape[rows], document, region[rows])
    is_integer = table.dtype in {INT32, INT64}
    return Compared(
        Reported(found, alignment, names, places, is_integer),
        {"yours": yours, "theirs": theirs},
        found.is_equal
        and array.shape == table.shape
        and (sent_as or array.dtype.name) == table.dtype.name
        and found.has_equal_signs,
    )


def _rounded(array: StoredTable, table: Table) -> StoredTable:
    if array.dtype is not FLOAT64 or table.dtype.name not in REAL_DTYPES:
        return array
    elements = np.empty(array.shape, dtype=table.dtype.storage)
    with np.errstate(over="ignore"):
        round_into(array.elements, elements, table.dtype)
    return StoredTable(elements, table.dtype)


def _laid(
    array: StoredTable,
    table: Table,
    document: Document,
    tolerances: tuple[float | None, float | None],
) -> tuple[Overlay, Tolerance]:
    """Lay an array over a table in the way in which it fits best."""
    if (array.dtype in COMPLEX_DTYPES) != (table.dtype in COMPLEX_DTYPES):
        raise InvalidBody(
            f"the array is {array.dtype.name} and the table {table.dtype.name}: "
            "pack=complex in to names complex numbers, pack=pair their parts"
        )
    ways = alignments(array.shape, table.shape or (1,))
    if not ways:
        raise InvalidBody(
            f"the array has the shape {array.shape}, and the table {table.shape}: compared are "
            "shapes that differ by axes of length 1, by the order of axes, or along one axis only"
        )
    overlays = [Overlay(array, table, way) for way in ways]
    work = overlays[0].work
    if work > MAX_WORK:
        rule = f"comparing with it takes {work} sines, and at most {MAX_WORK} are possible"
        raise InvalidParameters(Fault("to", None, f"to is too large a table: {rule}"))
    dtype = None if table.dtype in {INT32, INT64} else narrower(array.dtype, table.dtype)
    is_of_many_sizes = dtype is None or document.axes in _OF_MANY_SIZES
    floor = 0.0 if is_of_many_sizes else scale_of(overlays[0])
    tolerance = Tolerance(*tolerances, dtype, floor)
    return _best(overlays, tolerance), tolerance


def _best(overlays: list[Overlay], tolerance: Tolerance) -> Overlay:
    """Choose the order of axes that fits best; the first, unless another fits twice as well.

    Where none fits, the first is meant: other numbers are no nearer in another order, but for
    chance, and that makes no such difference.
    """
    if len(overlays) == 1:
        return overlays[0]
    misfits = [misfit(each, tolerance) for each in overlays]
    least = min(misfits)
    is_better = any(2 * mine < theirs for mine, theirs in zip(least, misfits[0], strict=True))
    return overlays[misfits.index(least)] if is_better else overlays[0]


def _axes(document: Document, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Name the axes of a table; they are numbered where the document does not."""
    if len(document.axes) == len(shape):
        return document.axes
    return tuple(f"axis {number}" for number in range(len(shape)))


def _columns(names: Iterable[str], rows: int) -> int | None:
    """Choose the axis beside that of the rows whose places are told apart."""
    others = [(i, name) for i, name in enumerate(names) if i != rows]
    for i, name in others:
        if name.startswith(_COLUMNS):
            return i
    return others[-1][0] if others else None


_TRUTH: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_POSITION: Json = {
    "type": ["number", "null"],
    "description": "A position; null where not even the first is good.",
}
_ERROR: Json = {
    "type": ["number", "null"],
    "description": "Null where it is infinite or there is none.",
}
_VALUE: Json = {"type": ["number", "string"], "description": "NaN and infinities are words."}


def _object(properties: Json, optional: tuple[str, ...] = ()) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def _or_null(schema: Json, description: str) -> Json:
    return {**schema, "type": ["object", "null"], "description": description}


_SPOT = _object(
    {
        "index": {"type": "array", "items": _COUNT, "description": "In the array that was sent."},
        "position": {"type": "number"},
        "channel": {"type": ["integer", "null"]},
        "error": _ERROR,
        "yours": _VALUE,
        "theirs": _VALUE,
        "part": {"enum": ["real", "imaginary"]},
    },
    optional=("part",),
)
_DESCRIBED = _object({"shape": {"type": "array", "items": _COUNT}, "dtype": {"type": "string"}})
_RANGES: Json = {
    "type": "array",
    "items": _object({"first": {"type": "number"}, "last": {"type": "number"}, "largest": _ERROR}),
}
_AXES = _object(
    {
        "position": {"type": "string", "description": "What positions count."},
        "channel": {"type": ["string", "null"], "description": "What channels count."},
        "removed": _object(
            {
                "yours": {"type": "array", "items": _COUNT},
                "theirs": {"type": "array", "items": _COUNT},
            }
        ),
        "order": {
            "type": "array",
            "items": {"type": ["integer", "null"]},
            "description": "For each axis of the table, that of the array.",
        },
        "prefix": _object(
            {
                "axis": {"type": ["string", "null"]},
                "yours": _COUNT,
                "theirs": _COUNT,
                "compared": _COUNT,
            }
        ),
    },
    optional=("removed", "order", "prefix"),
)
_TOLERANCE: Json = {
    "type": "object",
    "description": "atol + rtol·|number|; or so many ulp of a type, at the number or at "
    "at_least_of, whichever is larger.",
    "properties": {
        "atol": {"type": "number"},
        "rtol": {"type": "number"},
        "ulp": {"type": "integer"},
        "of": {"type": "string"},
        "at_least_of": {"type": "number"},
    },
    "additionalProperties": False,
}
_GOOD = _object(
    {
        "count": _COUNT,
        "of": _COUNT,
        "runs": {
            "type": "array",
            "items": _object({"first": {"type": "number"}, "last": {"type": "number"}}),
        },
        "further_runs": _COUNT,
    }
)
_VERDICTS: Json = {
    "equal": {**_TRUTH, "description": "Whether all numbers that are compared are equal."},
    "equal_bytes": {**_TRUTH, "description": "Whether type, shape and every byte are."},
    "within": {**_TRUTH, "description": "Whether all are within the tolerance."},
}
_FOUND: Json = {
    "array": _object({"yours": _DESCRIBED, "theirs": _DESCRIBED}),
    "tolerance": _TOLERANCE,
    "axes": _AXES,
    "largest": _object(
        {
            "absolute": _or_null(_SPOT, "The largest error."),
            "relative": _or_null(_SPOT, "As a share of the number in the table, 0 left out."),
            "ulp": _or_null(_SPOT, "In the ulp that the tolerance is in; null for integers."),
        }
    ),
    "first_beyond": _or_null(_SPOT, "The first number beyond the tolerance."),
    "first_not_finite": _or_null(_SPOT, "The first NaN or infinity where the other has none."),
    "good_to": {**_POSITION, "description": "Up to here every number is within the tolerance."},
    "good_positions": _GOOD,
    "errors_by_position": _RANGES,
    "errors_by_channel": _RANGES,
    "within_epsilon": {
        "type": "array",
        "items": _object({"epsilon": {"type": "number"}, "good_to": _POSITION}),
    },
}
_OF_ONE: Json = _object({**_VERDICTS, **_FOUND})
COMPARE_SCHEMA: Json = _object(
    {
        "to": {"type": "string", "format": "uri-reference"},
        **_VERDICTS,
        **_FOUND,
        "not_sent": {"type": "array", "items": {"type": "string"}},
        "arrays": {"type": "object", "additionalProperties": _OF_ONE},
    },
    optional=(*_FOUND, "not_sent", "arrays"),
)


EPSILONS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


class CompareParameters(Parameters):
    """Parameters of a comparison."""

    to: str = Field(
        description="The table to compare with: path and query of its URL here, each & of it "
        "written as %26.",
        examples=["/rope?head_dim=128&seq_len=4096"],
    )
    atol: Real | None = Field(
        default=None,
        ge=0,
        description="How far a number may be from the one in the table; with rtol, the sum of "
        "both. Without either, 4 ulp of the narrower of the two types.",
        examples=[1e-6],
    )
    rtol: Real | None = Field(
        default=None,
        ge=0,
        description="How far it may be as a share of the one in the table.",
        examples=[1e-5],
    )
    epsilon: Reals | None = Field(
        default=None,
        max_length=16,
        description="Absolute errors, for each of which the answer says up to which position the "
        "whole table stays within it; powers of ten from 1e-6 to 0.1 unless given.",
        examples=["1e-6,1e-3"],
    )

    @classmethod
    def meant(cls, name: str, values: Mapping[str, Any]) -> str | None:
        """Explain a parameter that belongs to the URL in ``to``."""
        array = asked.misnamed_array_hint(values.get(name), "x, or its own where to has several,")
        return array or asked.unencoded_url_hint("to", values.get("to"), name)


def _examine(parameters: CompareParameters, content: Input) -> Json:
    url = asked.parse_parameter_url("to", parameters.to)
    document = asked.document_at("to", parameters.to)
    pairs = _paired(document, content)
    tolerances = (parameters.atol, parameters.rtol)
    found = {
        name: compared(document, name, array, tolerances, _type_of(array, content))
        for name, array in pairs.items()
    }
    summary = {
        "to": url.canonical,
        "equal": all(each.report.comparison.is_equal for each in found.values()),
        "equal_bytes": all(each.is_equal_bytes for each in found.values()),
        "within": all(each.report.comparison.is_within for each in found.values()),
    }
    if len(document.arrays) == 1:
        (alone,) = found.values()
        return summary | _content(alone, parameters)
    missing = [name for name in document.arrays if name not in found]
    arrays = {name: _one(each, parameters) for name, each in found.items()}
    return summary | {"not_sent": missing, "arrays": arrays}


def _one(found: Compared, parameters: CompareParameters) -> Json:
    comparison = found.report.comparison
    return {
        "equal": comparison.is_equal,
        "equal_bytes": found.is_equal_bytes,
        "within": comparison.is_within,
        **_content(found, parameters),
    }


def _content(found: Compared, parameters: CompareParameters) -> Json:
    return {
        "array": found.described,
        **found.report.content(),
        "within_epsilon": found.report.within(parameters.epsilon or EPSILONS),
    }


def _type_of(array: StoredTable, content: Input) -> str | None:
    """Name the type that an array was sent in; text has none."""
    if content.is_text:
        return None
    name = next(name for name, sent in content.arrays.items() if sent is array)
    return content.integer_types.get(name, array.dtype.name)


def _paired(document: Document, content: Input) -> Mapping[str, StoredTable]:
    """Say which array of the document each one is that was sent."""
    sent, names = content.arrays, tuple(document.arrays)
    if len(sent) == len(names) == 1:
        return {names[0]: next(iter(sent.values()))}
    there = f"the table of to has {' and '.join(names)}{_of_packs(names)}"
    if not content.is_named:
        raise InvalidBody(
            f"{there}, and npy is one array without a name: add part={names[0]} to the URL in to, "
            "or send safetensors or JSON"
        )
    unknown = [name for name in sent if name not in names]
    if unknown:
        raise InvalidBody.at(
            *(
                Fault("", shortened(name), f"{shortened(name)} is no array here: {there}", True)
                for name in unknown
            )
        )
    return sent


def _of_packs(names: tuple[str, ...]) -> str:
    return "; with pack=half, interleaved or compact it has cos and sin" * (names == ("rope",))


COMPARE = Endpoint(
    path="/compare",
    operation="Compare",
    summary="Where arrays differ from a table of this server",
    parameters=CompareParameters,
    answer=_examine,
    says="Where the arrays differ",
    report=COMPARE_SCHEMA,
    inputs=ReportedArrays(
        names=("x", "cos", "sin", "frequency", "wavelength", "inv_freq", "attention_factor"),
        example={
            "x": [[0.0, 1.0, 0.0, 1.0], [0.84147098, 0.54030231, 0.00999983, 0.99995]],
        },
        copies=2,
    ),
    example="to=/encoding?seq_len=2%26d_model=4",
)
