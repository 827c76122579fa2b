"""ALiBi's biases: the slopes of heads by their ratios, and what they multiply."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from service.analysis.call import Call
from service.analysis.distances.alibi_forms import Multiples, forms
from service.analysis.distances.slopes import (
    lone_slope,
    rule_parameters,
    slope_rules,
    slope_support,
)
from service.analysis.lone_arrays import lone_reals
from service.analysis.question import Proposal, Question
from service.analysis.real_types import dtype_parameters, share_of
from service.tables.angle import Float64s
from service.tables.document import ParameterValue
from service.tables.dtypes import REAL_DTYPES, largest

_MOST = 8
_LEAST_LENGTH = 3
# A quotient is rounded to the integer that is meant while its error is well below a half.
_SURE = 0.25
_RATIO_ROWS = 3


@dataclass(frozen=True, eq=False)
class _Heads:
    """The slope of the first head, and what names it.

    Attributes:
        slope: that of head 0.
        parameters: what names the slopes.
        support: what speaks for them.
    """

    slope: float
    parameters: dict[str, ParameterValue]
    support: str


def alibi(question: Question) -> Iterator[Proposal]:
    """Propose the biases of heads, or of one."""
    values = lone_reals(question, (1, 2, 3))
    if values is not None and len(values) > 1:
        yield from islice(_of_values(values, question), _MOST)


def _of_values(values: Float64s, question: Question) -> Iterator[Proposal]:
    sample = question.sample
    dtype = sample.element_dtype
    lowest = -largest(dtype) if dtype.name in REAL_DTYPES else -np.inf
    # Where there is no -∞ there may be the least number of the type, or of float32.
    hidden_below = max(lowest, -largest(REAL_DTYPES["float32"])) / 2
    for is_heads, block in _blocks(values):
        hidden = block[0] <= hidden_below
        first = np.where(hidden, 0.0, block[0])
        if hidden.all() or not np.isfinite(first).all():
            continue
        for heads in _heads(block, first, hidden, share_of(sample), is_heads=is_heads):
            for form in forms(Multiples(first / heads.slope, hidden, share_of(sample))):
                parameters = {**heads.parameters, **form.parameters, **dtype_parameters(sample)}
                said = (heads.support, f"biases are {form.support}")
                yield Proposal(Call("relative/alibi", parameters), said)


def _blocks(values: Float64s) -> Iterator[tuple[bool, Float64s]]:
    """Read as heads by queries by keys; tell whether the heads are more than one."""
    if values.ndim == 3:
        yield True, values
    elif values.ndim == 2:
        yield True, values[:, np.newaxis]
        yield False, values[np.newaxis]
    else:
        yield False, values[np.newaxis, np.newaxis]


def _heads(
    block: Float64s,
    first: Float64s,
    hidden: NDArray[np.bool_],
    share: float,
    *,
    is_heads: bool,
) -> Iterator[_Heads]:
    if not is_heads:
        yield from _lone(first, hidden, share)
        return
    sizes = _ratios(block, first)
    count = int(np.count_nonzero(sizes))
    if count < 2 or not (np.isfinite(sizes).all() and (sizes[:count] > 0).all()):
        return
    more: dict[str, ParameterValue] = {"total_heads": len(sizes)} if count < len(sizes) else {}
    for rule in slope_rules(sizes[:count], share, is_absolute=False):
        slope = float(rule.sizes(range(1))[0])
        yield _Heads(slope, {**rule_parameters(rule), **more}, slope_support(rule))


def _ratios(block: Float64s, first: Float64s) -> Float64s:
    """Give the biases of heads as shares of the first one's: the middle ones of a few rows."""
    rows = np.unique(np.linspace(0, len(first) - 1, _RATIO_ROWS, dtype=np.int64))
    keys = np.abs(first[rows]).argmax(axis=1)
    is_told = first[rows, keys] != 0
    if not is_told.any():
        return np.zeros(len(block))
    rows, keys = rows[is_told], keys[is_told]
    ratios: Float64s = np.median(block[:, rows, keys] / first[rows, keys], axis=1)
    return ratios


def _lone(rows: Float64s, hidden: NDArray[np.bool_], share: float) -> Iterator[_Heads]:
    """Give the slope of a head alone, by the keys nearest to the query, then by the farthest."""
    row = int((~hidden).sum(axis=1).argmax())
    line = rows[row][~hidden[row]]
    steps = np.abs(np.diff(line))
    near = np.maximum(np.abs(line[1:]), np.abs(line[:-1]))
    if len(line) < _LEAST_LENGTH or not steps.any():
        return
    slope = float(steps[np.where(steps > 0, near, np.inf).argmin()])
    numbers = np.round(line / slope)
    sure = (np.abs(numbers) * share < _SURE) & (numbers != 0)
    if sure.any():
        far = int(np.where(sure, np.abs(numbers), 0.0).argmax())
        slope = float(line[far] / numbers[far])
    for rule, head in lone_slope(slope, share):
        parameters: dict[str, ParameterValue] = {**rule_parameters(rule), "head": head}
        yield _Heads(slope, parameters, f"numbers are multiples of {slope:.6g}")
