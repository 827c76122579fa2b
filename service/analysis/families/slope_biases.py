"""ALiBi's forms: slope by slope, what is multiplied, and where queries and keys are then.

ALiBi's slopes: which series they are of, and how far it goes.

ALiBi's biases: the slopes of heads by their ratios, and what they multiply.
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
    TableRequest,
    single_finite_array,
    single_real_array,
)
from service.analysis.families.bias_strips import query_key_parameters
from service.analysis.precision import dtype_parameters, error_share
from service.analysis.round_numbers import round_numbers
from service.encodings.relative.alibi import MAX_BIAS_MAX, SlopeRule
from service.numerics.document import ParameterValue
from service.numerics.dtypes import REAL_DTYPES, largest_finite
from service.numerics.phase import Float64s, Int64s

_HELD_ROWS = 8
# With a row gone wrong it is no table of these, but the nearest; of few rows, one is too many.
_MOST_WRONG, _FEWEST_ROWS = 1, 4
# A share is that of four roundings, and a multiple has one or two: so this is far from a half.
_SURE = 1.0


@dataclass(frozen=True, eq=False)
class Multiples:
    """What a slope is multiplied by, for queries (down) and keys (across).

    Attributes:
        numbers: (Q, K), near integers.
        hidden: (Q, K), whether there is -∞ instead.
        share: by how much of its size a number is off.
    """

    numbers: Float64s
    hidden: NDArray[np.bool_]
    share: float

    def are(self, expected: Int64s) -> bool:
        """Tell whether numbers are these integers where nothing is hidden."""
        return self.wrong_rows(expected) == 0

    def wrong_rows(self, expected: Int64s) -> int:
        """Count the rows that are not these integers where nothing is hidden."""
        error = self.share * np.abs(expected) + self.share
        is_right = self.hidden | (np.abs(self.numbers - expected) <= error)
        return int((~is_right.all(axis=1)).sum())

    def some_rows(self) -> tuple[Int64s, "Multiples"]:
        """Choose a few rows, the first and the last among them."""
        rows = np.unique(np.linspace(0, len(self.numbers) - 1, _HELD_ROWS, dtype=np.int64))
        return rows, Multiples(self.numbers[rows], self.hidden[rows], self.share)


@dataclass(frozen=True, eq=False)
class Form:
    """A form of biases, and which queries and keys give them.

    Attributes:
        parameters: as of the resource, the slopes apart.
        support: what the numbers are.
    """

    parameters: dict[str, ParameterValue]
    support: str


def forms(of: Multiples) -> Iterator[Form]:
    """Give the forms that numbers may be of, the plainest first."""
    if len(of.numbers) == 1 and not of.hidden.any():
        yield from _forms_of_keys(of)
    for form, sign in (("linear", 1), ("symmetric", -1)):
        places = _in_line(of, sign, 0) or _listed(of, sign) or _in_line(of, sign, _MOST_WRONG)
        if places is not None:
            parameters: dict[str, ParameterValue] = {} if sign == 1 else {"form": form}
            if of.hidden.any():
                parameters["masked"] = True
            said = "slope·(key - query)" if sign == 1 else "-slope·|key - query|"
            yield Form({**parameters, **query_key_parameters(*places)}, said)


def _forms_of_keys(of: Multiples) -> Iterator[Form]:
    numbers = np.round(of.numbers[0]).astype(np.int64)
    if not of.are(numbers[np.newaxis]):
        return
    keys = {
        name: value
        for name, value in query_key_parameters(np.zeros(1, dtype=np.int64), numbers).items()
        if name.startswith("key")
    }
    keys.setdefault("key_len", 1)
    if numbers[-1] == 0:
        own = query_key_parameters(numbers, numbers)
        keys = {name.replace("query", "key"): value for name, value in own.items()}
        yield Form({"form": "last-key", **keys}, "slope·(key - last key)")
    elif numbers.min() >= 0:
        if "key_positions" in keys:
            del keys["key_len"]
        yield Form({"form": "key", **keys}, "slope·key, the same for every query")


def _in_line(of: Multiples, sign: int, most_wrong: int) -> tuple[Int64s, Int64s] | None:
    """Find queries and keys that follow one another, but for so many wrong ones of a few rows.

    The sign is 1 for linear, -1 for symmetric.
    """
    rows, some = of.some_rows()
    queries, keys = of.numbers.shape
    if most_wrong and queries < _FEWEST_ROWS:
        return None
    for nearest in dict.fromkeys(_nearest(of, sign)):
        distances = nearest + np.arange(keys) - rows[:, np.newaxis]
        expected = distances if sign == 1 else -np.abs(distances)
        is_masked = not of.hidden.any() or bool((some.hidden == (distances > 0)).all())
        if some.wrong_rows(expected) <= most_wrong and is_masked:
            return np.arange(queries), np.arange(nearest, nearest + keys)
    return None


def _nearest(of: Multiples, sign: int) -> Iterator[int]:
    """Give how far the first key may be after the first query, by the smallest numbers of rows."""
    sizes = np.where(of.hidden, np.inf, np.abs(of.numbers))
    smallest = int(sizes.min(axis=1).argmin())
    for row in (smallest, 0, len(sizes) - 1):
        column = int(sizes[row].argmin())
        number = round(float(of.numbers[row, column]))
        yield number - column + row
        if sign == -1:
            yield -number - column + row


def _listed(of: Multiples, sign: int) -> tuple[Int64s, Int64s] | None:
    """Find queries and keys anywhere, rising, where every number is known to the integer."""
    numbers = np.round(of.numbers)
    if of.hidden.any() or (np.abs(numbers) * of.share > _SURE).any():
        return None
    whole = numbers.astype(np.int64)
    if not of.are(whole):
        return None
    for first in _signed(whole[0], sign):
        keys = first - first[0]
        queries = _queries(whole, keys, sign)
        if queries is not None:
            return queries, keys
    return None


def _signed(row: Int64s, sign: int) -> Iterator[Int64s]:
    """Give the distances of a row of keys that rise; the nearest may be on either side."""
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
    """Find each query from its row, given where keys are after the first."""
    found = []
    for row in numbers:
        fitting = [
            distances[0]
            for distances in _signed(row, sign)
            if np.array_equal(distances - distances[0], keys)
        ]
        if not fitting:
            return None
        found.append(-fitting[0])
    return np.array(found, dtype=np.int64)


_BIAS_MAX = 8.0
_CONVENTIONS = ("original", "paper")
_MOST_BIAS_MAXES = 2
# So few slopes are of any series; only a plain one is meant.
_FEW = 3

# Heads among which one with the slope of a head alone is looked for.
_POWERS = (1, 2, 4, 8, 16, 32)
_MOST_HEADS = 26


def slopes(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose the slopes of heads."""
    sample, values = question.sample, single_finite_array(question, (1,))
    if values is None or not (values > 0).all():
        return
    for rule in slope_rules(values, error_share(sample), is_absolute=True):
        call = TableRequest(
            "relative/alibi/slopes", {**rule_parameters(rule), **dtype_parameters(sample)}
        )
        yield Proposal(call, (slope_support(rule),))


def rule_parameters(rule: SlopeRule) -> dict[str, ParameterValue]:
    """Spell a rule by what is no default of it."""
    parameters: dict[str, ParameterValue] = {"num_heads": rule.count}
    if rule.convention != "original":
        parameters["convention"] = rule.convention
    if rule.bias_max != _BIAS_MAX:
        parameters["alibi_bias_max"] = rule.bias_max
    return parameters


def slope_support(rule: SlopeRule) -> str:
    """Say what slopes of a rule are."""
    own = rule.count if rule.convention == "paper" else 1 << (rule.count.bit_length() - 1)
    series = f"slopes fall as 2^(-{rule.bias_max:g}h/{own}), h = 1 … {own}"
    return series if own == rule.count else f"{series}; the others are between them"


def slope_rules(values: Float64s, share: float, *, is_absolute: bool) -> Iterator[SlopeRule]:
    """Give the rules whose slopes are these, or are as these to each other.

    Args:
        values: above 0, one for each head.
        share: by how much of its size each may be off.
        is_absolute: whether they are slopes; otherwise two of them at least that are proportional.
    """
    count = len(values)
    for convention in _CONVENTIONS:
        own = count if convention == "paper" else 1 << (count.bit_length() - 1)
        # From first to last, or to the last from 1, which would come before the first.
        steps = own if is_absolute else own - 1
        fall = -log2(values[own - 1] / (1.0 if is_absolute else values[0]))
        if steps == 0 or not 0 < fall < 2 * MAX_BIAS_MAX:
            continue
        bias_max, error = fall * own / steps, 2 * share / log(2) * own / steps
        for plain in round_numbers(bias_max, error / bias_max, _MOST_BIAS_MAXES):
            rule = SlopeRule(convention, count, plain)
            unit = 1.0 if is_absolute else values[0] / rule.sizes(range(1))[0]
            if plain <= MAX_BIAS_MAX and _is_meant(rule) and _fits(rule, values / unit, share):
                yield rule
                break


def _is_meant(rule: SlopeRule) -> bool:
    return rule.count >= _FEW or float(f"{rule.bias_max:.1e}") == rule.bias_max


def _fits(rule: SlopeRule, values: Float64s, share: float) -> bool:
    sizes = rule.sizes(range(rule.count))
    return bool((np.abs(values - sizes) <= 2 * share * sizes).all())


def lone_slope(slope: float, share: float) -> Iterator[tuple[SlopeRule, int]]:
    """Give the fewest heads of which one has a slope, and which one that is.

    Of a series up to 2^-8, one of n heads; or of a series of one head, if it is a plain one.
    """
    if not 0 < slope < 1:
        return
    exponent, error = -log2(slope), 2 * share / log(2)
    for count in (*_POWERS, *range(3, _MOST_HEADS)):
        place = exponent * count / _BIAS_MAX
        if abs(place - round(place)) <= error * count / _BIAS_MAX and 1 <= round(place) <= count:
            name = "original" if count in _POWERS else "paper"
            yield SlopeRule(name, count, _BIAS_MAX), round(place) - 1
            return
    of_one = slope_rules(np.array([slope]), share, is_absolute=True)
    # With one head both conventions are the same.
    yield from ((rule, 0) for rule in islice(of_one, 1))


_MOST = 8
_LEAST_LENGTH = 3
# A quotient is rounded to the integer that is meant while its error is well below a half.
_CERTAIN = 0.25
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


def alibi(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose the biases of heads, or of one."""
    values = single_real_array(question, (1, 2, 3))
    if values is not None and len(values) > 1:
        yield from islice(_of_values(values, question), _MOST)


def _of_values(values: Float64s, question: IdentifyInput) -> Iterator[Proposal]:
    sample = question.sample
    dtype = sample.element_dtype
    lowest = -largest_finite(dtype) if dtype.name in REAL_DTYPES else -np.inf
    # Where there is no -∞ there may be the least number of the type, or of float32.
    hidden_below = max(lowest, -largest_finite(REAL_DTYPES["float32"])) / 2
    for is_heads, block in _blocks(values):
        hidden = block[0] <= hidden_below
        first = np.where(hidden, 0.0, block[0])
        if hidden.all() or not np.isfinite(first).all():
            continue
        for heads in _heads(block, first, hidden, error_share(sample), is_heads=is_heads):
            for form in forms(Multiples(first / heads.slope, hidden, error_share(sample))):
                parameters = {**heads.parameters, **form.parameters, **dtype_parameters(sample)}
                said = (heads.support, f"biases are {form.support}")
                yield Proposal(TableRequest("relative/alibi", parameters), said)


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
    sure = (np.abs(numbers) * share < _CERTAIN) & (numbers != 0)
    if sure.any():
        far = int(np.where(sure, np.abs(numbers), 0.0).argmax())
        slope = float(line[far] / numbers[far])
    for rule, head in lone_slope(slope, share):
        parameters: dict[str, ParameterValue] = {**rule_parameters(rule), "head": head}
        yield _Heads(slope, parameters, f"numbers are multiples of {slope:.6g}")
