"""Propose ``/relative/alibi/slopes`` and ``/relative/alibi``: slopes of heads, and their biases.

The ratios of the biases of heads give the slopes of all heads. Biases divided by the slope are
integers, which give the formula of the biases and the positions of queries and keys.
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
from service.analysis.families.series import spread_indices
from service.analysis.precision import error_share
from service.analysis.round_numbers import round_numbers
from service.encodings.relative.alibi import MAX_BIAS_MAX, SlopeRule
from service.numerics.dtypes import REAL_DTYPES, largest_finite
from service.numerics.phase import MAX_POSITION, Float64s, Int64s
from service.numerics.tables import ParameterValue

_BIAS_MAX = 8.0
_MAX_BIAS_MAXES = 2

# Fewer slopes than this fit any series: accept only a bias_max with at most two digits.
_FEW = 3

# The head counts that are tried for the slope of a single head.
_POWERS = (1, 2, 4, 8, 16, 32)
_MAX_HEADS = 26


def propose_slopes(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/alibi/slopes``: one slope per head."""
    values = single_finite_array(request, (1,))
    if values is None or not (values > 0).all():
        return
    for rule in slope_rules(values, error_share(request.sample), is_absolute=True):
        parameters, support = _slope_parameters(rule), (_slope_support(rule),)
        yield table_proposal(request, "relative/alibi/slopes", parameters, support)


def slope_rules(values: Float64s, share: float, *, is_absolute: bool) -> Iterator[SlopeRule]:
    """Yield the rules whose slopes are equal, or proportional, to the given values.

    Args:
        values: a value above 0 for each head, (heads,); at least two unless is_absolute.
        share: the relative error of a value.
        is_absolute: whether the values are the slopes; otherwise they are proportional to them.
    """
    count = len(values)
    for convention in ("original", "paper"):
        own = SlopeRule(convention, count, _BIAS_MAX).series_heads
        # From head 1 to the last head; absolute slopes also include 1, the slope of "head 0".
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
    """Yield the rule with the fewest heads of which one has the given slope, and its head index.

    If there is none, yield the rule of one head with an unusual bias_max of at most two digits.
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
    # For one head, both conventions give the same slope.
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
    return (
        series if own == rule.count else f"{series}; the remaining heads have interpolated slopes"
    )


# Biases.

_MAX_PROPOSALS = 8
_LEAST_LENGTH = 3
# A quotient with a smaller error than this is rounded to the right integer.
_CERTAIN = 0.25
_RATIO_ROWS = 3


@dataclass(frozen=True, eq=False)
class _Heads:
    """The slope of the first head, the request parameters of all slopes, and the evidence."""

    slope: float
    parameters: dict[str, ParameterValue]
    support: str


def propose_alibi(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/alibi``: the biases of all heads, or of a single head."""
    values = single_real_array(request, (1, 2, 3))
    if values is not None and len(values) > 1:
        yield from islice(_biases(values, request), _MAX_PROPOSALS)


def _biases(values: Float64s, request: IdentifyInput) -> Iterator[Proposal]:
    sample = request.sample
    dtype, share = sample.element_dtype, error_share(sample)
    lowest = -largest_finite(dtype) if dtype.name in REAL_DTYPES else -np.inf
    # Masks may have the lowest finite number of the dtype or of float32 instead of -∞.
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
    """Yield (has_head_axis, biases) for each reading of the array as (heads, queries, keys)."""
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
    """Return the ratio of each head's biases to head 1's, (heads,): the median of a few rows."""
    rows = spread_indices(len(first), _RATIO_ROWS)
    keys = np.abs(first[rows]).argmax(axis=1)
    is_known = first[rows, keys] != 0
    if not is_known.any():
        return np.zeros(len(block))
    rows, keys = rows[is_known], keys[is_known]
    ratios: Float64s = np.median(block[:, rows, keys] / first[rows, keys], axis=1)
    return ratios


def _single_head(rows: Float64s, hidden: NDArray[np.bool_], share: float) -> Iterator[_Heads]:
    """Yield the slope of a single head.

    Neighbouring keys near the query give an estimate, and a key far away refines it.
    """
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
        yield _Heads(slope, parameters, f"biases are multiples of {slope:.6g}")


# Forms.

# One wrong row is tolerated. With fewer rows, no wrong row is tolerated.
_MAX_WRONG, _FEWEST_ROWS = 1, 4
# A multiple with a smaller error bound than this is rounded to the right integer: the bound allows
# four roundings, and a multiple has at most two.
_SURE = 1.0


@dataclass(frozen=True, eq=False)
class Multiples:
    """The biases of queries and keys, divided by the slope.

    Attributes:
        numbers: the quotients, near integers, (Q, K).
        hidden: a mask (Q, K), True where the bias is -∞.
        share: the relative error of a quotient.
    """

    numbers: Float64s
    hidden: NDArray[np.bool_]
    share: float

    def wrong_rows(self, expected: Int64s) -> int:
        """Return how many rows differ from the expected integers; hidden elements are ignored."""
        error = self.share * np.abs(expected) + self.share
        is_right = self.hidden | (np.abs(self.numbers - expected) <= error)
        return int((~is_right.all(axis=1)).sum())


def forms(multiples: Multiples) -> Iterator[tuple[str, dict[str, ParameterValue]]]:
    """Yield (formula, request parameters of form, queries and keys), the simplest first."""
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
    """Return the positions of contiguous queries and contiguous keys; None if they do not fit.

    Args:
        multiples: the biases divided by the slope.
        sign: 1 for the linear form, -1 for the symmetric form.
        max_wrong: how many of the checked rows may be wrong.
    """
    queries, keys = multiples.numbers.shape
    rows = spread_indices(queries, CHECKED_ROWS)
    some = Multiples(multiples.numbers[rows], multiples.hidden[rows], multiples.share)
    if max_wrong and queries < _FEWEST_ROWS:
        return None
    for nearest in dict.fromkeys(_nearest_keys(multiples, sign)):
        if abs(nearest) > MAX_POSITION:
            continue
        distances = nearest + np.arange(keys) - rows[:, np.newaxis]
        expected = distances if sign == 1 else -np.abs(distances)
        is_masked = not multiples.hidden.any() or bool((some.hidden == (distances > 0)).all())
        if some.wrong_rows(expected) <= max_wrong and is_masked:
            return np.arange(queries), np.arange(nearest, nearest + keys)
    return None


def _nearest_keys(multiples: Multiples, sign: int) -> Iterator[int]:
    """Yield possible distances first key - first query, from the smallest quotient of some rows."""
    sizes = np.where(multiples.hidden, np.inf, np.abs(multiples.numbers))
    smallest = int(sizes.min(axis=1).argmin())
    for row in (smallest, 0, len(sizes) - 1):
        column = int(sizes[row].argmin())
        number = round(float(multiples.numbers[row, column]))
        yield number - column + row
        if sign == -1:
            yield -number - column + row


def _listed(multiples: Multiples, sign: int) -> tuple[Int64s, Int64s] | None:
    """Return the positions of queries and increasing keys that may have gaps; None if none fit."""
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
    """Yield the possible distances key - query of a row with increasing keys.

    In the symmetric form, the query may be before or after the nearest key.
    """
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
    """Return the position of each query relative to the first key; None if a row does not fit.

    Args:
        numbers: the integer quotients, (Q, K).
        keys: the key positions relative to the first key, (K,).
        sign: 1 for the linear form, -1 for the symmetric form.
    """
    queries = []
    for row in numbers:
        fitting = [each for each in _signed(row, sign) if np.array_equal(each - each[0], keys)]
        if not fitting:
            return None
        queries.append(-fitting[0][0])
    return np.array(queries, dtype=np.int64)
