"""``/diagnose`` of an applied rotation: queries or keys before and after it."""

from typing import Any

import numpy as np

from service.analysis.applied.application import diagnose_applied
from service.analysis.call import Call
from service.analysis.mistakes.catalogue import Diagnosis
from service.delivery.parameters import read_parameters
from service.errors import Fault, InvalidBody, InvalidParameters
from service.routes.asked import document_at, pointing_at, tables
from service.routes.diagnose_arrays import sound
from service.routes.diagnose_wanted import call_of
from service.routes.rope import APPLY, ApplyParameters, RopeParameters
from service.tables import rotary
from service.tables.angle import Float64s
from service.tables.document import Document
from service.tables.dtypes import FLOAT64, REAL_DTYPES, widened
from service.tables.table import StoredTable, size
from service.tables.turns import AlongSequence, Turns

_LAYOUTS = {"half": "half", "interleaved": "interleaved", "half_concat": "half"}
_FORM = ("pack", "part", "batch", "dtype")
_MOST_ROWS = 2**16


def diagnose_rotation(url: str, x: StoredTable, rotated: StoredTable) -> tuple[Call, Diagnosis]:
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
        widened(table.elements, table.dtype).reshape(table.shape) for table in (x, rotated)
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


def _applied(parameters: ApplyParameters, x: StoredTable) -> Turns:
    """Give the angles of a rotation; raises what the rotation itself of one head would."""
    *_, rows, head_dim = x.shape
    one = x.elements.reshape(-1, rows, head_dim)[0]
    APPLY.apply(parameters, StoredTable(one, x.dtype))
    return parameters.turns(head_dim, lambda: parameters.positions_of(rows))


def _turns(call: Call) -> Turns | None:
    """Give the angles of a table, where they are along one sequence."""
    if call.resource != "rope":
        return None
    parameters = read_parameters(RopeParameters, call.parameters)
    longest = parameters.max_position_embeddings
    return parameters.turns(parameters.head_dim, lambda: parameters.resolved_positions(longest))


def _known(turns: Turns | None, sign: float) -> dict[str, Any]:
    """Give positions and frequencies, where angles are the one times the other."""
    if not isinstance(turns, AlongSequence):
        return {}
    places = turns.positions.at(0, turns.rows).astype(np.float64)
    frequencies = np.array([float(frequency) for frequency in turns.rule.exact()])
    return {"positions": places, "omega": sign * frequencies}


def _table(url: str, call: Call) -> Document:
    if call.resource not in {"rope", "rope/axial"}:
        path = f"/{call.resource}"
        rule = f"to must name a rotation, /rope or /rope/apply, where x is sent: it is {path}"
        raise InvalidParameters(Fault("to", path, rule))
    document = document_at("to", url)
    if any(table.shape[0] > _MOST_ROWS for table in document.arrays.values()):
        rule = f"to names more than {_MOST_ROWS} rows: as many as x has are enough"
        raise InvalidParameters(Fault("to", None, rule))
    kept = {name: value for name, value in call.parameters.items() if name not in _FORM}
    return tables(Call(call.resource, {**kept, "pack": "compact", "dtype": "float64"}))


def _layout(call: Call) -> str | None:
    return _LAYOUTS.get(str(call.parameters.get("pack")))


def _values(document: Document, name: str) -> Float64s:
    table = document.arrays[name]
    read: Float64s = table.read(0, size(table)).reshape(table.shape)
    return read
