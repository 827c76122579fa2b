"""What of a rotary table's call the array itself says: its type and where its rows are."""

import numpy as np

from service.analysis.question import Question
from service.analysis.sample import Sample
from service.tables.angle import Int64s
from service.tables.document import ParameterValue
from service.tables.dtypes import BFLOAT16, FLOAT32, REAL_DTYPES
from service.tables.positions import Positions


def unit_of(sample: Sample) -> float:
    """Give how far rounding to an array's type may move a number, as a share of it."""
    dtype = sample.element_dtype
    if dtype not in REAL_DTYPES.values():
        return 2.0**-24
    return 2.0**-9 if dtype is BFLOAT16 else float(np.finfo(dtype.storage).eps) / 2


def is_of_numbers(sample: Sample) -> bool:
    """Tell whether an array has real or complex numbers, all finite, not all of them 0."""
    is_known = sample.element_dtype in REAL_DTYPES.values()
    return is_known and sample.is_finite and bool(sample.values.any())


def has_whole_positions(question: Question, rows: int) -> bool:
    """Tell whether the positions of rows are unknown, or integers that rise, one for each row."""
    known = question.positions
    if known is None:
        return True
    is_whole = len(known) == rows and bool((known == np.round(known)).all())
    return is_whole and bool((np.diff(known) > 0).all())


def positions_as_parameters(positions: Int64s) -> dict[str, ParameterValue]:
    """Spell positions, all that is not left to a default."""
    spelled = Positions.of_runs(positions.tolist()).parameters()
    return {name: value for name, value in spelled.items() if (name, value) != ("start", 0)}


def dtype_of(sample: Sample) -> dict[str, ParameterValue]:
    """Say of which type the numbers are, unless it is the usual one."""
    dtype = sample.element_dtype
    return {} if dtype is FLOAT32 or dtype not in REAL_DTYPES.values() else {"dtype": dtype.name}
