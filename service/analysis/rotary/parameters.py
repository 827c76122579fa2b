"""What rotary families ask of an array: its rounding, its numbers, and where its rows are."""

import numpy as np

from service.analysis.question import Question
from service.analysis.real_types import rounding_of
from service.analysis.sample import Sample
from service.tables.angle import Int64s
from service.tables.document import ParameterValue
from service.tables.dtypes import BFLOAT16, REAL_DTYPES
from service.tables.positions import Positions


def unit_of(sample: Sample) -> float:
    """Give how far rounding to an array's type moves cosines and sines, as a share of their scale.

    They are below 1, where half a step of bfloat16 is 2^-9. Finer types have as much again, for
    what engines lose beside it.
    """
    rounding = rounding_of(sample)
    return rounding / 2 if sample.element_dtype is BFLOAT16 else rounding


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
