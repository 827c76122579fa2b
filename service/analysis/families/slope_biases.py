"""Propose ``/relative/alibi/slopes`` and ``/relative/alibi``: slopes of heads, and their biases.

The ratios of heads give the series of their slopes; biases divided by a slope are integers, which
give the form of the biases, the queries and the keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import log, log2

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import (
    IdentifyInput,
    Proposal,
    single_finite_array,
    single_real_array,
)
from service.analysis.families.bias_strips import CHECKED_ROWS, query_key_parameters
from service.analysis.families.requests import (
    position_parameters,
    table_proposal,
    unless_default,
)
from service.analysis.measure import spread_indices
from service.analysis.precision import error_share
from service.analysis.round_numbers import round_numbers
from service.encodings.relative.alibi import MAX_BIAS_MAX, SlopeRule
from service.numerics.dtypes import REAL_DTYPES, largest_finite
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import ParameterValue

_BIAS_MAX = 8.0
_MAX_BIAS_MAXES = 2

# Fewer slopes fit any series: only a bias_max of two digits is taken.
_FEW = 3

# The numbers of heads of which one may have the slope of a single head.
_POWERS = (1, 2, 4, 8, 16, 32)
_MAX_HEADS = 26


def propose_slopes(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the slopes of heads."""
    values = single_finite_array(request, (1,))
    if values is None or not (values > 0).all():
        return
    for rule in slope_rules(values, error_share(request.sample), is_absolute=True):
        parameters, support = _slope_parameters(rule), (_slope_support(rule),)
        yield table_proposal(request, "relative/alibi/slopes", parameters, support)


def slope_rules(values: Float64s, share: float, *, is_absolute: bool) -> Iterator[SlopeRule]:
    """Yield the rules whose slopes are these, or are proportional to these.

    Args:
        values: above 0, one for each head.
        share: the relative error of each.
        is_absolute: whether they are slopes; otherwise they are at least two, and proportional.
    """
    count = len(values)
    for convention in ("original", "paper"):
        own = SlopeRule(convention, count, _BIAS_MAX).series_heads
        # From first to last, or to the last from 1, which would come before the first.
        steps, first = (own, 1.0) if is_absolute else (own - 1, values[0])
        fall = -log2(values[own - 1] / first)
        if steps == 0 or not 0 < fall < 2 * MAX_BIAS_MAX:
            continue
        bias_max, error = fall * own / steps, 2 * share / log(2) * own / steps
        for plain in round_numbers(bias_max, error / bias_max, _MAX_BIAS_MAXES):
            rule = SlopeRule(convention, count, plain)
            unit = 1.0 if is_absolute else values[0] / rule.sizes(range(1))[0]
            is_plain = count >= _FEW or float(f"{plain:.1e}") == plain
            if plain <= MAX_BIAS_MAX and is_plain and _fits(rule, values / unit, share):
                yield rule
                break


def _fits(rule: SlopeRule, values: Float64s, share: float) -> bool:
    sizes = rule.sizes(range(rule.count))
    return bool((np.abs(values - sizes) <= 2 * share * sizes).all())


def single_slope(slope: float, share: float) -> Iterator[tuple[SlopeRule, int]]:
    """Yield the rule with the fewest heads of which one has a slope, and the number of that head.

    Otherwise the rule of one head, if its bias_max has two digits.
    """
    if not 0 < slope < 1:
        return
    exponent, error = -log2(slope), 2 * share / log(2)
    for count in (*_POWERS, *range(3, _MAX_HEADS)):
        measured = exponent * count / _BIAS_MAX
        number = round(measured)
        if abs(measured - number) <= error * count / _BIAS_MAX and 1 <= number <= count:
            name = "original" if count in _POWERS else "paper"
            yield SlopeRule(name, count, _BIAS_MAX), number - 1
            return
    of_one = slope_rules(np.array([slope]), share, is_absolute=True)
    # With one head both conventions are the same.
    yield from ((rule, 0) for rule in islice(of_one, 1))


def _slope_parameters(rule: SlopeRule) -> dict[str, ParameterValue]:
    return {
        "num_heads": rule.count,
        **unless_default("convention", rule.convention, "original"),
        **unless_default("alibi_bias_max", rule.bias_max, _BIAS_MAX),
    }


def _slope_support(rule: SlopeRule) -> str:
    own = rule.series_heads
    series = f"slopes fall as 2^(-{rule.bias_max:g}h/{own}), h = 1 … {own}"
    return series if own == rule.count else f"{series}; the others are between them"


# Biases.

_MAX_PROPOSALS = 8
_LEAST_LENGTH = 3
# A quotient is rounded to the right integer if its error is well below a half.
_CERTAIN = 0.25
_RATIO_ROWS = 3


@dataclass(frozen=True, eq=False)
class _Heads:
    """The slope of the first head, the parameters of all slopes, and their support."""

    slope: float
    parameters: dict[str, ParameterValue]
    support: str


def propose_alibi(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the biases of heads, or of one."""
    values = single_real_array(request, (1, 2, 3))
    if values is not None and len(values) > 1:
        yield from islice(_biases(values, request), _MAX_PROPOSALS)


def _biases(values: Float64s, request: IdentifyInput) -> Iterator[Proposal]:
    sample = request.sample
    dtype, share = sample.element_dtype, error_share(sample)
    lowest = -largest_finite(dtype) if dtype.name in REAL_DTYPES else -np.inf
    # The least number of the type or of float32 may take the place of -∞.
    hidden_below = max(lowest, -largest_finite(REAL_DTYPES["float32"])) / 2
    for is_of_heads, block in _blocks(values):
        hidden = block[0] <= hidden_below
        first = np.where(hidden, 0.0, block[0])
        if hidden.all() or not np.isfinite(first).all():
            continue
        every = _heads(block, first, share) if is_of_heads else _single_head(first, hidden, share)
        for heads in every:
            for formula, positions in forms(Multiples(first / heads.slope, hidden, share)):
                support = (heads.support, f"biases are {formula}")
                parameters = {**heads.parameters, **positions}
                yield table_proposal(request, "relative/alibi", parameters, support)


def _blocks(values: Float64s) -> Iterator[tuple[bool, Float64s]]:
    """Yield every reading as (heads, queries, keys), with a flag for an axis of heads."""
    if values.ndim == 3:
        yield True, values
    elif values.ndim == 2:
        yield True, values[:, np.newaxis]
        yield False, values[np.newaxis]
    else:
        yield False, values[np.newaxis, np.newaxis]


def _heads(block: Float64s, first: Float64s, share: float) -> Iterator[_Heads]:
    sizes = _ratios(block, first)
    count = int(np.count_nonzero(sizes))
    if count < 2 or not (np.isfinite(sizes).all() and (sizes[:count] > 0).all()):
        return
    total = unless_default("total_heads", len(sizes), count)
    for rule in slope_rules(sizes[:count], share, is_absolute=False):
        slope = float(rule.sizes(range(1))[0])
        yield _Heads(slope, {**_slope_parameters(rule), **total}, _slope_support(rule))


def _ratios(block: Float64s, first: Float64s) -> Float64s:
    """Return the ratio of each head to the first one: the median of a few rows."""
    rows = spread_indices(len(first), _RATIO_ROWS)
    keys = np.abs(first[rows]).argmax(axis=1)
    is_known = first[rows, keys] != 0
    if not is_known.any():
        return np.zeros(len(block))
    rows, keys = rows[is_known], keys[is_known]
    ratios: Float64s = np.median(block[:, rows, keys] / first[rows, keys], axis=1)
    return ratios


def _single_head(rows: Float64s, hidden: NDArray[np.bool_], share: float) -> Iterator[_Heads]:
    """Yield the slope of a single head, by the keys nearest to the query, then by the farthest."""
    row = int((~hidden).sum(axis=1).argmax())
    line = rows[row][~hidden[row]]
    steps = np.abs(np.diff(line))
    near = np.maximum(np.abs(line[1:]), np.abs(line[:-1]))
    if len(line) < _LEAST_LENGTH or not steps.any():
        return
    slope = float(steps[np.where(steps > 0, near, np.inf).argmin()])
    numbers = np.round(line / slope)
    sure = (np.abs(numbers) * share < _CERTAIN) & (numbers != 0)
    if sure.any():
        far = int(np.where(sure, np.abs(numbers), 0.0).argmax())
        slope = float(line[far] / numbers[far])
    for rule, head in single_slope(slope, share):
        parameters: dict[str, ParameterValue] = {**_slope_parameters(rule), "head": head}
        yield _Heads(slope, parameters, f"numbers are multiples of {slope:.6g}")


# Forms.

# A table with a wrong row is near the array; of fewer rows, none may be wrong.
_MAX_WRONG, _FEWEST_ROWS = 1, 4
# The share is that of four roundings, and a multiple has at most two: below, it is far from a half.
_SURE = 1.0


@dataclass(frozen=True, eq=False)
class Multiples:
    """The biases of queries and keys, divided by the slope.

    Attributes:
        numbers: (Q, K), near integers.
        hidden: (Q, K), whether the bias is -∞.
        share: the relative error of a number.
    """

    numbers: Float64s
    hidden: NDArray[np.bool_]
    share: float

    def wrong_rows(self, expected: Int64s) -> int:
        """Count the rows that are not these integers, except where they are hidden."""
        error = self.share * np.abs(expected) + self.share
        is_right = self.hidden | (np.abs(self.numbers - expected) <= error)
        return int((~is_right.all(axis=1)).sum())


def forms(multiples: Multiples) -> Iterator[tuple[str, dict[str, ParameterValue]]]:
    """Yield formulas of biases with the parameters of form, queries and keys, simplest first."""
    has_hidden = bool(multiples.hidden.any())
    if len(multiples.numbers) == 1 and not has_hidden:
        yield from _forms_of_keys(multiples)
    for form, sign, formula in (
        ("linear", 1, "slope·(key - query)"),
        ("symmetric", -1, "-slope·|key - query|"),
    ):
        positions = (
            _contiguous(multiples, sign, 0)
            or _listed(multiples, sign)
            or _contiguous(multiples, sign, _MAX_WRONG)
        )
        if positions is not None:
            yield (
                formula,
                {
                    **unless_default("form", form, "linear"),
                    **unless_default("masked", has_hidden, default=False),
                    **query_key_parameters(*positions),
                },
            )


def _forms_of_keys(multiples: Multiples) -> Iterator[tuple[str, dict[str, ParameterValue]]]:
    numbers = np.round(multiples.numbers[0]).astype(np.int64)
    if multiples.wrong_rows(numbers[np.newaxis]):
        return
    if numbers[-1] == 0:
        keys = position_parameters(numbers - numbers.min(), "key")
        yield "slope·(key - last key)", {"form": "last-key", **keys}
    elif numbers.min() >= 0:
        keys = position_parameters(numbers, "key")
        yield "slope·key, the same for every query", {"form": "key", **keys}


def _contiguous(multiples: Multiples, sign: int, max_wrong: int) -> tuple[Int64s, Int64s] | None:
    """Find contiguous queries and contiguous keys.

    Args:
        multiples: the biases.
        sign: 1 for linear, -1 for symmetric.
        max_wrong: the number of checked rows that may be wrong.
    """
    queries, keys = multiples.numbers.shape
    rows = spread_indices(queries, CHECKED_ROWS)
    some = Multiples(multiples.numbers[rows], multiples.hidden[rows], multiples.share)
    if max_wrong and queries < _FEWEST_ROWS:
        return None
    for nearest in dict.fromkeys(_nearest_keys(multiples, sign)):
        distances = nearest + np.arange(keys) - rows[:, np.newaxis]
        expected = distances if sign == 1 else -np.abs(distances)
        is_masked = not multiples.hidden.any() or bool((some.hidden == (distances > 0)).all())
        if some.wrong_rows(expected) <= max_wrong and is_masked:
            return np.arange(queries), np.arange(nearest, nearest + keys)
    return None


def _nearest_keys(multiples: Multiples, sign: int) -> Iterator[int]:
    """Yield possible distances of the first key and query, by the smallest numbers of rows."""
    sizes = np.where(multiples.hidden, np.inf, np.abs(multiples.numbers))
    smallest = int(sizes.min(axis=1).argmin())
    for row in (smallest, 0, len(sizes) - 1):
        column = int(sizes[row].argmin())
        number = round(float(multiples.numbers[row, column]))
        yield number - column + row
        if sign == -1:
            yield -number - column + row


def _listed(multiples: Multiples, sign: int) -> tuple[Int64s, Int64s] | None:
    """Find any rising queries and keys, if every number determines an integer."""
    numbers = np.round(multiples.numbers)
    if multiples.hidden.any() or (np.abs(numbers) * multiples.share > _SURE).any():
        return None
    whole = numbers.astype(np.int64)
    if multiples.wrong_rows(whole):
        return None
    for first in _signed(whole[0], sign):
        keys = first - first[0]
        queries = _queries(whole, keys, sign)
        if queries is not None:
            return queries, keys
    return None


def _signed(row: Int64s, sign: int) -> Iterator[Int64s]:
    """Yield the distances of a row of rising keys; the nearest may be on either side."""
    if sign == 1:
        yield row
        return
    if row.max() > 0:
        return
    nearest = int(row.argmax())
    for ahead in (nearest, nearest + 1):
        distances = np.concatenate([row[:ahead], -row[ahead:]])
        if (np.diff(distances) > 0).all():
            yield distances


def _queries(numbers: Int64s, keys: Int64s, sign: int) -> Int64s | None:
    """Find each query from its row, given the keys relative to the first."""
    queries = []
    for row in numbers:
        fitting = [each for each in _signed(row, sign) if np.array_equal(each - each[0], keys)]
        if not fitting:
            return None
        queries.append(-fitting[0][0])
    return np.array(queries, dtype=np.int64)
