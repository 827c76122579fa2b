"""Rotary tables: the cosines and sines by which queries and keys are turned.

"RoFormer" (Su et al. 2021), §3.2.2: a pair of channels turns by the angle position·ω. Every cosine
and sine is within 4·2^-53 of the formula; times an attention factor it is within 6·2^-53 of that
factor. Both are rounded once to their element type.
"""

from decimal import Decimal

from service.tables.decimals import DecimalTable
from service.tables.document import Document
from service.tables.dtypes import DType
from service.tables.frequencies import wavelengths
from service.tables.packs import PACKS
from service.tables.rotary_rule import RotaryRule
from service.tables.table import Table
from service.tables.turns import Turns


def rope(
    *, turns: Turns, pack: str, dtype: DType, batch: bool = False, kind: str = "rope"
) -> Document:
    """Describe cosines and sines in a packing.

    Args:
        turns: S rows of r/2 angles.
        pack: a key of PACKS.
        dtype: a real element type; for the complex pack the type of the two parts.
        batch: whether there is a leading axis of 1.
        kind: the kind of the document.
    """
    parameters = {**turns.parameters(), "pack": pack, **({"batch": True} if batch else {})}
    tables = PACKS[pack].tables(turns, dtype, (1,) if batch else ())
    bound = PACKS[pack].error_bound(turns, dtype)
    shape = next(iter(tables.values())).shape
    axes = _axes(shape[int(batch) :], turns.count, "token" if kind == "rope-axial" else "position")
    named = (("batch",) if batch else ()) + axes
    return Document(kind, parameters, tables, len(tables) > 1, bound, axes=named)


def _axes(shape: tuple[int, ...], pairs: int, row: str) -> tuple[str, ...]:
    """Name what the axes of a packing count."""
    if len(shape) == 3:
        return row, "pair", "component"
    return row, "pair" if shape[1] == pairs else "channel"


def frequencies(rule: RotaryRule) -> Document:
    """Describe the frequencies of a rule and the numbers on the way to them, all float64.

    ``inv_freq`` (r/2,) in radians per position; ``wavelength`` 2π/ω (r/2,) in positions, infinite
    where a frequency is 0; ``attention_factor`` (), and what the rule has ``beside``. Each number
    is the nearest to the formula.
    """
    arrays: dict[str, Table] = {
        "inv_freq": DecimalTable((rule.count,), rule.exact),
        "wavelength": DecimalTable((rule.count,), lambda: wavelengths(rule.exact())),
        "attention_factor": DecimalTable((), lambda: [Decimal(rule.scale)]),
    }
    arrays |= rule.beside()
    return Document("rope-frequencies", rule.parameters(), arrays, has_parts=True)
