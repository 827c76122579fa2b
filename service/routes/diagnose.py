"""Arrays that are sent to ``/diagnose``: held to what any table of positions is.

The JSON schema of what ``/diagnose`` answers.

What ``to`` of ``/diagnose`` names: the table that somebody should have.

``/diagnose`` of an applied rotation: queries or keys before and after it.

What somebody has in place of what is wanted, where this server has a table of it.

``POST /diagnose``: what was done to get what somebody has in place of what it should be.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from pydantic import Field

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
from service.analysis.identification import arithmetic
from service.analysis.identification.ranking import are_alike
from service.analysis.identification.search import identify
from service.analysis.identification.verification import Verdict
from service.delivery.endpoints import Endpoint, ReportedArrays
from service.delivery.parameters import parse_query, read_parameters
from service.encodings.fields import Parameters
from service.encodings.rotary import packs as rotary
from service.encodings.rotary.angles import AlongSequence, RotaryAngles
from service.encodings.rotary.rope import APPLY, ApplyParameters, RopeParameters
from service.errors import Fault, InvalidBody, InvalidParameters, shortened
from service.formats.format import Input
from service.grammar import integer, integers, real_positions, to_query
from service.numerics.document import Document
from service.numerics.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT64,
    INDEX_DTYPES,
    INT64,
    REAL_DTYPES,
    DType,
    to_float64,
)
from service.numerics.phase import Float64s
from service.numerics.real_positions import RealPositions
from service.numerics.tables import StoredTable, Table, size
from service.routes.table_urls import (
    document_at,
    misnamed_array_hint,
    pointing_at,
    split_url,
    tables,
    unencoded_url_hint,
    url_of,
)


def sound(name: str, table: StoredTable) -> Sample:
    """Read an array of numbers that are finite, none of them huge.

    Raises:
        InvalidBody: it is none, or has more numbers than are looked into.
    """
    shown = shortened(name)
    if size(table) > MAX_ELEMENTS:
        rule = f"{shown} has {size(table)} numbers: at most {MAX_ELEMENTS} are possible"
        raise InvalidBody(rule, f"/{shown}")
    sample = Sample.of(table)
    if not sample.is_finite:
        raise InvalidBody(f"{shown} holds NaN or an infinity", f"/{shown}")
    if float(np.abs(sample.reals()).max()) > LARGEST:
        rule = f"{shown} holds numbers beyond 2^64: no table of positions does"
        raise InvalidBody(rule, f"/{shown}")
    return sample


Json = dict[str, Any]

_NUMBER: Json = {"type": "number"}
_TEXT: Json = {"type": "string"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_TABLE: Json = {
    "type": "object",
    "properties": {"url": {"type": "string", "format": "uri-reference"}},
    "required": ["url"],
    "additionalProperties": False,
}
_MISTAKE: Json = {
    "type": "object",
    "description": "One thing that was done; beside what is named here, its own values.",
    "properties": {
        "name": _TEXT,
        "sentence": {**_TEXT, "description": "What it is, and how it shows."},
        "correction": {**_TEXT, "description": "What to do about it."},
    },
    "required": ["name", "sentence", "correction"],
    "additionalProperties": True,
}
_LEAVING: Json = {
    "type": "object",
    "description": "The first element that the mistakes do not explain.",
    "properties": {
        "array": _TEXT,
        "index": {"type": "array", "items": _COUNT},
        "position": {"type": "integer", "description": "Of its row, as the table counts."},
        "channel": _COUNT,
        "have": _NUMBER,
        "want": {**_NUMBER, "description": "What the nearest explanation would have there."},
        "error": _NUMBER,
        "allowed": _NUMBER,
    },
    "required": ["array", "index", "have", "want", "error", "allowed"],
    "additionalProperties": False,
}

DIAGNOSIS: Json = {
    "type": "object",
    "properties": {
        "verdict": {
            "enum": ["equal", "diagnosed", "none"],
            "description": "equal: no mistake; diagnosed: the mistakes explain every element; "
            "none: no list of known mistakes does, and those named come nearest.",
        },
        "mistakes": {"type": "array", "items": _MISTAKE},
        "residual": {
            **_NUMBER,
            "description": "How far an element is from what the mistakes make of what is wanted.",
        },
        "correct": {**_TABLE, "description": "The table that it should be."},
        "yours": {**_TABLE, "description": "The table that it is, where this server has it."},
        "leaves_at": _LEAVING,
        "checked": {
            "type": "object",
            "properties": {"elements": _COUNT, "allowed": _NUMBER},
            "required": ["elements", "allowed"],
            "additionalProperties": False,
        },
    },
    "required": ["verdict", "mistakes", "residual", "checked"],
    "additionalProperties": False,
}


# A table that is longer than what is there is read as a whole: so many times as long at most, and
# never much more than a large upload.
_TIMES_LONGER = 8
_SHORT_ELEMENTS = 2**16
_MOST_ELEMENTS = 2**24

_ROUNDED = ("float32", "float16", "bfloat16", "complex64")


def call_of(url: str) -> TableRequest:
    """Read a URL as the call that it is."""
    split = split_url(url)
    query = parse_query(split.query.encode("utf-8", "surrogateescape"))
    return TableRequest(split.path.partition(".")[0].strip("/"), query)


def wanted_of(url: str, sent_elements: int) -> tuple[TableRequest, ExpectedTable]:
    """Read the table that a URL names, as exactly as there is.

    Args:
        url: the value of ``to``.
        sent_elements: how many there are in what is held against it.

    Raises:
        InvalidParameters: it names no table, or one that is far larger.
    """
    document = document_at("to", url)
    _check_size(document, sent_elements)
    call = call_of(url)
    return call, wanted_by(call, document)


def wanted_by(call: TableRequest, document: Document) -> ExpectedTable:
    """Read the table that a call names, as exactly as there is."""
    read = {name: _sample(table) for name, table in _exact(call, document).arrays.items()}
    return ExpectedTable(read, _rounded_to(document), positions_of(call), _grid(call))


def alternative_tables(call: TableRequest) -> Iterator[tuple[Mistake, TableRequest, ExpectedTable]]:
    """Read the tables that mistakes of settings make of one, as far as there are such."""
    for mistake, other in variants(call):
        try:
            yield mistake, other, wanted_by(other, tables(other))
        except InvalidParameters:
            continue


def _check_size(document: Document, sent_elements: int) -> None:
    elements = sum(map(size, document.arrays.values()))
    if elements > min(_MOST_ELEMENTS, _TIMES_LONGER * sent_elements + _SHORT_ELEMENTS):
        rule = (
            f"to names a table of {elements} elements, and {sent_elements} are sent: "
            "name the part that they should be, by seq_len or positions"
        )
        raise InvalidParameters(Fault("to", None, rule))


def _exact(call: TableRequest, document: Document) -> Document:
    """Give a table of real numbers as float64, where there is such a one."""
    if document.dtype not in _ROUNDED:
        return document
    try:
        return tables(call.with_parameters(dtype="float64"))
    except InvalidParameters:
        return document


def _rounded_to(document: Document) -> DType:
    name = "float32" if document.dtype == "complex64" else str(document.dtype)
    return REAL_DTYPES.get(name, FLOAT64)


def _sample(table: Table) -> Sample:
    elements = table.read(0, size(table)).reshape(table.shape)
    if table.dtype.name in INDEX_DTYPES:
        return Sample.of(StoredTable(elements.astype(np.int64), INT64))
    return Sample.of(StoredTable(elements, table.dtype))


def positions_of(call: TableRequest) -> Float64s | None:
    """Give the positions of rows, where they are listed or do not begin at 0."""
    listed = call.parameters.get("positions")
    if listed is None:
        return _following(call)
    positions = real_positions(listed)
    if isinstance(positions, RealPositions):
        return np.array(positions.values, dtype=np.float64)
    return positions.at(0, positions.count).astype(np.float64)


def _following(call: TableRequest) -> Float64s | None:
    """Count from a start: far out even the slowest angle may have gone round, and hides it."""
    if not {"start", "seq_len"} <= set(call.parameters):
        return None
    start, rows = (integer(call.parameters[name]) for name in ("start", "seq_len"))
    return start + np.arange(rows, dtype=np.float64)


def _grid(call: TableRequest) -> tuple[int, int] | None:
    """Give height and width, where rows are the places of a grid of two axes."""
    if {"height", "width"} <= set(call.parameters) and "depth" not in call.parameters:
        return integer(call.parameters["height"]), integer(call.parameters["width"])
    sides = integers(call.parameters["grid"]) if "grid" in call.parameters else ()
    return (sides[0], sides[1]) if len(sides) == 2 else None


_LAYOUTS = {"half": "half", "interleaved": "interleaved", "half_concat": "half"}
_FORM = ("pack", "part", "batch", "dtype")
_MOST_ROWS = 2**16


def diagnose_rotation(
    url: str, x: StoredTable, rotated: StoredTable
) -> tuple[TableRequest, Diagnosis]:
    """Find what was done to an array in place of a rotation that a URL names.

    Args:
        url: ``/rope?…``, or ``/rope/apply?…``, which says the layout too.
        x: before, (…, S, head_dim).
        rotated: after.

    Raises:
        InvalidParameters: the URL names no rotation.
        InvalidBody: the arrays are none of this rotation.
    """
    _check(x, rotated)
    with pointing_at("to", url):
        call = call_of(url)
    options: dict[str, Any] = {}
    if call.resource == "rope/apply":
        with pointing_at("to", url):
            parameters = read_parameters(ApplyParameters, call.parameters)
            turns = _applied(parameters, x)
        document = rotary.rope(turns=turns, pack="compact", dtype=FLOAT64)
        sign = -1.0 if parameters.inverse else 1.0
        options = {
            **_known(turns, sign),
            "layout": parameters.layout,
            "output_layout": parameters.output_layout,
            "rotary_offset": parameters.rotary_offset,
        }
    else:
        document, sign = _table(url, call), 1.0
        options = {"layout": _layout(call), **_known(_turns(call), sign)}
    cos, sin = (_values(document, name) for name in ("cos", "sin"))
    if 2 * cos.shape[1] > x.shape[-1]:
        rule = f"{2 * cos.shape[1]} channels turn, and x has {x.shape[-1]}"
        raise InvalidBody(rule, "/x")
    if len(cos) < x.shape[-2]:
        rule = f"to names {len(cos)} rows, and x has {x.shape[-2]}: name as many at least"
        raise InvalidParameters(Fault("to", None, rule))
    before, after = (
        to_float64(table.elements, table.dtype).reshape(table.shape) for table in (x, rotated)
    )
    diagnosis = diagnose_applied(before, after, cos, sign * sin, rotated.dtype, **options)
    return call, diagnosis


def _check(x: StoredTable, rotated: StoredTable) -> None:
    for name, table in (("x", x), ("rotated", rotated)):
        if table.dtype not in REAL_DTYPES.values():
            raise InvalidBody(
                f"{name} must hold real numbers: it is {table.dtype.name}", f"/{name}"
            )
        if len(table.shape) < 2:
            raise InvalidBody(f"{name} must be positions by channels at least", f"/{name}")
        sound(name, table)
    if x.shape != rotated.shape:
        rule = f"x has the shape {x.shape}, and rotated {rotated.shape}: they must be the same"
        raise InvalidBody(rule, "/rotated")


def _applied(parameters: ApplyParameters, x: StoredTable) -> RotaryAngles:
    """Give the angles of a rotation; raises what the rotation itself of one head would."""
    *_, rows, head_dim = x.shape
    one = x.elements.reshape(-1, rows, head_dim)[0]
    APPLY.answer(parameters, {"x": StoredTable(one, x.dtype)})
    return parameters.turns(head_dim, lambda: parameters.positions_of(rows))


def _turns(call: TableRequest) -> RotaryAngles | None:
    """Give the angles of a table, where they are along one sequence."""
    if call.resource != "rope":
        return None
    parameters = read_parameters(RopeParameters, call.parameters)
    longest = parameters.max_position_embeddings
    return parameters.turns(parameters.head_dim, lambda: parameters.resolved_positions(longest))


def _known(turns: RotaryAngles | None, sign: float) -> dict[str, Any]:
    """Give positions and frequencies, where angles are the one times the other."""
    if not isinstance(turns, AlongSequence):
        return {}
    places = turns.positions.at(0, turns.rows).astype(np.float64)
    frequencies = np.array([float(frequency) for frequency in turns.rule.exact()])
    return {"positions": places, "omega": sign * frequencies}


def _table(url: str, call: TableRequest) -> Document:
    if call.resource not in {"rope", "rope/axial"}:
        path = f"/{call.resource}"
        rule = f"to must name a rotation, /rope or /rope/apply, where x is sent: it is {path}"
        raise InvalidParameters(Fault("to", path, rule))
    document = document_at("to", url)
    if any(table.shape[0] > _MOST_ROWS for table in document.arrays.values()):
        rule = f"to names more than {_MOST_ROWS} rows: as many as x has are enough"
        raise InvalidParameters(Fault("to", None, rule))
    kept = {name: value for name, value in call.parameters.items() if name not in _FORM}
    return tables(TableRequest(call.resource, {**kept, "pack": "compact", "dtype": "float64"}))


def _layout(call: TableRequest) -> str | None:
    return _LAYOUTS.get(str(call.parameters.get("pack")))


def _values(document: Document, name: str) -> Float64s:
    table = document.arrays[name]
    read: Float64s = table.read(0, size(table)).reshape(table.shape)
    return read


# Beyond that it takes longer to say what it is than what is wrong with it.
_MAX_IDENTIFIED_ELEMENTS = 2**19

_PLACES = ("seq_len", "start", "positions")

# What explains numbers that are not those of the table, but what a narrow type makes of them.
_NARROW = {
    made(dtype.name): narrowing.mistakes
    for dtype in (BFLOAT16, FLOAT16)
    for made, narrowing in (
        (arithmetic.narrow_positions, Narrowing(dtype, positions=True)),
        (arithmetic.narrow_frequencies, Narrowing(dtype, frequencies=True)),
        (arithmetic.narrow_angles, Narrowing(dtype, angles=True)),
        (arithmetic.narrow_throughout, Narrowing(dtype, angles=True)),
    )
}


def with_yours(
    diagnosis: Diagnosis, have: Mapping[str, Sample], wanted: TableRequest | None
) -> Diagnosis:
    """Name the table that somebody has; where no mistake explains it, that is what is wrong.

    Args:
        diagnosis: what is known.
        have: the arrays.
        wanted: the table that it should be, where it has a URL.
    """
    if diagnosis.verdict == "equal" or diagnosis.matching_table is not None:
        return diagnosis
    best = _found(have)
    if best is None:
        return diagnosis
    yours, beside = best.proposal.request, _beside(best)
    named = None if beside else yours
    if diagnosis.verdict == "diagnosed":
        return replace(diagnosis, matching_table=named)
    mistakes = (*_another(yours, wanted), *beside)
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


def _found(have: Mapping[str, Sample]) -> Verdict | None:
    """Find the table that all of the arrays are."""
    elements = sum(prod(sample.shape) for sample in have.values())
    if elements > _MAX_IDENTIFIED_ELEMENTS:
        return None
    hypotheses = identify(IdentifyInput(have), tables).hypotheses
    # Of copies of a table, one was looked at.
    if not hypotheses or sum(map(size, hypotheses[0].document.arrays.values())) != elements:
        return None
    return hypotheses[0]


def _beside(found: Verdict) -> tuple[Mistake, ...]:
    """Say why numbers are not just those of the table that they were found to be."""
    order = range(len(found.index))
    exchanged = Mistake("transposed", {"order": ", ".join(map(str, reversed(order)))})
    turned = (exchanged,) if found.proposal.is_transposed else ()
    return (*turned, *_NARROW.get(found.arithmetic[0], ()))


def _another(yours: TableRequest, wanted: TableRequest | None) -> tuple[Mistake, ...]:
    """Name the table; it is no other where the one that is wanted was found."""
    if wanted is None:
        return (Mistake("another-table", {"have": url_of(yours), "want": "what is wanted"}),)
    if are_alike(yours, wanted, tables):
        return ()
    moved = _moved(wanted, yours)
    if moved is not None and are_alike(yours, moved, tables):
        have, want = (shortened(_positions(call)) for call in (moved, wanted))
        return (Mistake("other-positions", {"have": have, "want": want}),)
    is_same = yours.resource == wanted.resource
    values = {"have": url_of(yours), "want": url_of(wanted)}
    return (Mistake("wrong-rule" if is_same else "another-table", values),)


def _moved(wanted: TableRequest, yours: TableRequest) -> TableRequest | None:
    """Give what is wanted at the positions of another table; None where it lists none."""
    if "positions" not in yours.parameters:
        return None
    kept = {name: value for name, value in wanted.parameters.items() if name not in _PLACES}
    return TableRequest(wanted.resource, {**kept, "positions": yours.parameters["positions"]})


def _positions(call: TableRequest) -> str:
    """Spell the positions of a table."""
    given = {name: call.parameters[name] for name in _PLACES if name in call.parameters}
    if "positions" in given:
        return str(to_query(given["positions"]))
    start = int(str(given.get("start", 0)))
    return f"{start}:{start + int(str(given['seq_len']))}" if "seq_len" in given else "one by one"


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
        description="The URL of the table here that it should be, path and query, with %26 for "
        "each & in it; in place of want. Where x and rotated are sent: of /rope, or /rope/apply.",
        examples=["/encoding?seq_len=2&d_model=4"],
    )

    @classmethod
    def meant(cls, name: str, values: Mapping[str, Any]) -> str | None:
        """Say that a parameter may belong to the URL in to."""
        array = misnamed_array_hint(values.get(name), "have, and want,")
        return array or unencoded_url_hint("to", values.get("to"), name)


def _examine(parameters: DiagnoseParameters, content: Input) -> Mapping[str, Any]:
    arrays = dict(content.arrays)
    _check_names(arrays, content, parameters)
    if {"x", "rotated"} & set(arrays):
        _check_rotation(arrays, parameters)
        call, diagnosis = diagnose_rotation(str(parameters.to), arrays["x"], arrays["rotated"])
        return _report(diagnosis, call)
    have = _samples(_side(arrays, "have", is_free=parameters.to is not None))
    if parameters.to is None:
        want = _samples(_side(arrays, "want", is_free=False))
        dtype = next(iter(want.values())).element_dtype
        wanted = ExpectedTable(want, FLOAT64 if dtype is INT64 else dtype)
        return _report(_diagnosed(_renamed(have, wanted), wanted, None), None)
    elements = sum(sample.values.size for sample in have.values())
    call, wanted = wanted_of(parameters.to, elements)
    return _report(_diagnosed(_renamed(have, wanted), wanted, call), call)


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
    """Pick what somebody has, or wants: one array, or cosines and sines."""
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
    samples = {name: sound(name, table) for name, table in arrays.items()}
    if len({sample.values.shape for sample in samples.values()}) > 1:
        shapes = " and ".join(str(table.shape) for table in arrays.values())
        raise InvalidBody(f"cosines and sines must have the same shape, and have {shapes}")
    return samples


def _renamed(have: dict[str, Sample], wanted: ExpectedTable) -> dict[str, Sample]:
    """Call a lone array what the table is called."""
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
    have: Mapping[str, Sample], wanted: ExpectedTable, call: TableRequest | None
) -> Diagnosis:
    diagnosis = diagnose(have, wanted, alternative_tables(call) if call else ())
    if diagnosis is None:
        (name, ours), *_ = have.items()
        theirs = next(iter(wanted.arrays.values()))
        rule = (
            f"what you have is {ours.dtype.name} of shape {ours.shape}, and what it should be "
            f"{theirs.dtype.name} of shape {theirs.shape}: they do not go together"
        )
        raise InvalidBody(rule, f"/{shortened(name)}")
    return with_yours(diagnosis, have, call)


def _report(diagnosis: Diagnosis, call: TableRequest | None) -> Mapping[str, Any]:
    known: dict[str, Any] = {}
    if call is not None:
        known["correct"] = {"url": url_of(call)}
    if diagnosis.matching_table is not None:
        known["yours"] = {"url": url_of(diagnosis.matching_table)}
    if diagnosis.first_mismatch is not None:
        known["leaves_at"] = _leaving(diagnosis.first_mismatch)
    return {
        "verdict": diagnosis.verdict,
        "mistakes": [_said(mistake) for mistake in diagnosis.mistakes],
        "residual": diagnosis.residual,
        **known,
        "checked": {"elements": diagnosis.elements, "allowed": diagnosis.allowed},
    }


def _said(mistake: Mistake) -> dict[str, Any]:
    return {
        **mistake.values,
        "name": mistake.name,
        "sentence": mistake.sentence,
        "correction": mistake.correction,
    }


def _leaving(mismatch: FirstMismatch) -> dict[str, Any]:
    position = mismatch.position
    known = {"position": int(position)} if isinstance(position, float) else {}
    channel = {"channel": mismatch.index[-1]} if len(mismatch.index) > 1 else {}
    return {
        "array": mismatch.array,
        "index": list(mismatch.index),
        **known,
        **channel,
        "have": mismatch.value,
        "want": mismatch.expected,
        "error": mismatch.error,
        "allowed": mismatch.allowed,
    }


DIAGNOSE = Endpoint(
    path="/diagnose",
    operation="Diagnose",
    summary="The shortest known mistakes that make what somebody has of what it should be",
    parameters=DiagnoseParameters,
    answer=_examine,
    says="What was done, what to do about it, and whether that explains every element",
    report=DIAGNOSIS,
    inputs=ReportedArrays(
        names=_NAMES,
        example={
            "have": [[0.0, 0.0, 1.0, 1.0], [0.84147098, 0.00999983, 0.54030231, 0.99995]],
        },
        copies=16,
    ),
    example="to=/encoding?seq_len=2%26d_model=4",
)
