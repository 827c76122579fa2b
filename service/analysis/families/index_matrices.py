"""Matrices of integers that a rule gives for distances: read as strips, held to the rule.

Matrices of T5's buckets and of DeBERTa's: their sizes from where numbers begin to repeat.

Indices: Shaw's clipped distances, Swin's relative positions, permutations of rotary weights.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import ceil, floor, isqrt
from typing import TypeAlias

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest, single_integer_array
from service.analysis.families.bias_strips import (
    Strip,
    aligned,
    query_key_parameters,
    strip_of,
    strips,
)
from service.analysis.round_numbers import round_integers
from service.encodings.relative.buckets import (
    BucketRule,
    Clipped,
    DebertaBuckets,
    T5Buckets,
    Unbucketed,
)
from service.encodings.relative.windows import Window
from service.encodings.rotary.rope import HeadOrder
from service.numerics.document import ParameterValue
from service.numerics.phase import Float64s, Int64s

_ONE_HEAD = range(1)
_MOST = 8
_TRIED_ROWS = 32
# Fewer different numbers are of any rule: a mask, a sign.
_FEWEST_NUMBERS = 3
# Of fewer rows, one is too many to be wrong.
_FEWEST_ROWS = 4


@dataclass(frozen=True, eq=False)
class IndexMatch:
    """A rule that a strip may follow.

    Attributes:
        rule: gives the number of each distance.
        parameters: what names it, queries and keys apart.
        zero: the place of distance 0 in the strip, or outside of it.
        support: what speaks for it.
    """

    rule: BucketRule
    parameters: dict[str, ParameterValue]
    zero: int
    support: tuple[str, ...]


Reader: TypeAlias = Callable[[Strip], Iterator[IndexMatch]]
"""Finds the rules of a kind that a strip may follow, the plainest first."""


def propose_rules(question: IdentifyInput, resource: str, read: Reader) -> Iterator[Proposal]:
    """Propose the tables of integers that follow from what a reader finds.

    Rows that are a choice of those of a larger table are read one alone, and looked for by it.
    """
    numbers = single_integer_array(question, (1, 2))
    if numbers is None or numbers.size < 2:
        return
    whole = list(strips(numbers))
    if whole:
        yield from islice(_of_strips(whole, resource, read), _MOST)
    elif numbers.ndim == 2:
        yield from islice(_of_rows(numbers, resource, read), _MOST)
        if len(numbers) >= _FEWEST_ROWS:
            yield from islice(_of_most_rows(numbers, resource, read), _MOST)


def _of_most_rows(numbers: Int64s, resource: str, read: Reader) -> Iterator[Proposal]:
    """Propose tables of which a row has gone wrong: none will do, and one is the nearest.

    Distances at the ends are in the first or in the last row alone: where that is the wrong one,
    the others say the rule.
    """
    near = strip_of(numbers[np.newaxis], wrong_rows=1)
    if near is not None:
        yield from _of_strips([near], resource, read)
    for rest, left_out in ((numbers[1:], (1, 0)), (numbers[:-1], (0, 1))):
        near = strip_of(rest[np.newaxis])
        if near is not None:
            yield from _of_strips([near], resource, read, left_out)


def _of_strips(
    whole: list[Strip], resource: str, read: Reader, left_out: tuple[int, int] = (0, 0)
) -> Iterator[Proposal]:
    """Propose tables of strips, and of so many queries before and after theirs."""
    for strip in whole:
        if len(np.unique(strip.values)) < _FEWEST_NUMBERS:
            continue
        for found in read(strip):
            if _holds(found, strip):
                queries, keys = strip.places(found.zero)
                every = np.arange(queries[0] - left_out[0], queries[-1] + 1 + left_out[1])
                places = query_key_parameters(every, keys)
                call = TableRequest(resource, {**found.parameters, **places})
                yield Proposal(call, (_of_distance(strip), *found.support))


def _of_rows(numbers: Int64s, resource: str, read: Reader) -> Iterator[Proposal]:
    for sign, rows in ((1, numbers), (-1, numbers.T)):
        columns = np.arange(rows.shape[1], dtype=np.int64)
        lengths = (1, len(columns)) if sign == 1 else (len(columns), 1)
        for telling in _telling(rows):
            strip = Strip(telling[np.newaxis, ::sign], *lengths)
            for found in read(strip):
                places = _row_places(found, strip, rows, sign)
                if places is None:
                    continue
                both = (places, columns) if sign == 1 else (columns, places)
                call = TableRequest(resource, {**found.parameters, **query_key_parameters(*both)})
                kind = "row" if sign == 1 else "column"
                said = f"every {kind} is a part of what the rule of the fullest one says"
                yield Proposal(call, (said, *found.support))


def _telling(rows: Int64s) -> Int64s:
    """Choose the row with the most numbers, and that with the largest, to be read alone."""
    some = rows[np.unique(np.linspace(0, len(rows) - 1, _TRIED_ROWS, dtype=np.int64))]
    fullest = int(np.argmax([len(np.unique(row)) for row in some]))
    largest = int(np.abs(some).max(axis=1).argmax())
    return some[[fullest] if fullest == largest else [fullest, largest]]


def _row_places(found: IndexMatch, strip: Strip, rows: Int64s, sign: int) -> Int64s | None:
    if not _holds(found, strip):
        return None
    return aligned(rows, lambda distances: found.rule.values(distances, _ONE_HEAD), sign)


def _holds(found: IndexMatch, strip: Strip) -> bool:
    expected = found.rule.values(strip.distances(found.zero), _ONE_HEAD)
    return bool(np.array_equal(expected, strip.values[0]))


def _of_distance(strip: Strip) -> str:
    if 1 in {strip.queries, strip.keys}:
        return f"{strip.values.shape[1]} neighbouring distances"
    return f"a number depends on key - query alone, in {strip.queries} rows of {strip.keys}"


_T5_BUCKETS, _T5_DISTANCE = 32, 128
_DEBERTA_BUCKETS, _DEBERTA_POSITION = 256, 512

# Smaller numbers than these are matrices of other things: masks and signs.
_LEAST_LARGEST = 3
_MOST_DISTANCES = 3
_MOST_SIZES = 6
_MOST_EDGES = 4096
# Rows of other queries may be so much farther away.
_REACH = 2**13
_FARTHEST = 2**30
# Ends of ranges are known as well as powers in float64 are.
_SLACK = 1e-9


def t5(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose matrices and vectors of T5's buckets."""
    return propose_rules(question, "relative/t5", _t5_rules)


def deberta(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose matrices and vectors of DeBERTa's buckets, and of distances without buckets."""
    return propose_rules(question, "relative/deberta", _deberta_rules)


@dataclass(frozen=True, eq=False)
class _Side:
    """Buckets of distances to one side: those of lengths."""

    lengths: Int64s
    buckets: Int64s

    @property
    def first_shared(self) -> int | None:
        """The first length that is not the number of its own bucket."""
        is_other = self.buckets != self.lengths
        return int(self.lengths[is_other].min()) if is_other.any() else None


def _t5_rules(strip: Strip) -> Iterator[IndexMatch]:
    numbers = strip.values[0].astype(np.int64)
    if numbers.min() < 0 or not _LEAST_LARGEST <= numbers.max() <= _FARTHEST:
        return
    zero = _t5_zero(numbers)
    if zero is None:
        return
    distances = strip.distances(zero)
    behind, ahead = distances < 0, numbers[distances > 0]
    sides = [_Side(-distances[behind], numbers[behind])]
    of_direction = None
    if len(ahead) and ahead.any():
        of_direction = int(ahead[0]) - int(distances[distances > 0][0])
        sides.append(_Side(distances[distances > 0], ahead - of_direction))
    side = _Side(*(np.concatenate(parts) for parts in zip(*map(_parts, sides), strict=True)))
    if min(strip.queries, strip.keys) == 1 and side.first_shared is None:
        return
    for count in _directions(side, of_direction):
        for distance in _max_distances(side, count):
            for is_both in _both(of_direction, has_ahead=len(ahead) > 0):
                yield _t5_found(T5Buckets(count * (1 + is_both), distance, is_both), zero)


def _parts(side: _Side) -> tuple[Int64s, Int64s]:
    return side.lengths, side.buckets


def _t5_zero(numbers: Int64s) -> int | None:
    """Find the place of distance 0: the first 0, or as far behind the least as that is large."""
    zeros = np.flatnonzero(numbers == 0)
    if len(zeros):
        return int(zeros[0])
    nearest = len(numbers) - 1 - int(np.argmin(numbers[::-1]))
    return nearest + int(numbers[nearest])


def _both(of_direction: int | None, *, has_ahead: bool) -> tuple[bool, ...]:
    """Tell whether buckets are for both directions; there is no telling without keys ahead."""
    if of_direction is not None:
        return (True,)
    return (False,) if has_ahead else (False, True)


def _directions(side: _Side, said: int | None) -> Iterator[int]:
    """Give how many buckets a direction may have, the plainest first."""
    if said is not None:
        if said >= 2:
            yield said
        return
    top, shared = int(side.buckets.max(initial=0)), side.first_shared
    if shared is None:
        # All have a bucket of their own: half of the buckets, or more than there are distances.
        count = max(_T5_BUCKETS, 1 << (2 * int(side.lengths.max())).bit_length())
        yield count
        return
    every = [
        count
        for single in range(min(shared, _MOST_EDGES) - 1, _fewest_single(shared) - 1, -1)
        for count in (2 * single, 2 * single + 1)
        if count > max(top, 1)
    ]
    # Where the last bucket is seen, it says how many there are.
    yield from sorted(every, key=lambda count: (count != top + 1, count.bit_count(), -count))[
        :_MOST_SIZES
    ]


def _fewest_single(shared: int) -> int:
    """Bound from below how many lengths have a bucket of their own.

    Past h of them buckets are h + ln(m/h)·s for some s: at s = h they leave m by no more than
    (m - h)^2/2h, which is 1 at h + √(2h) or so, and for any other s sooner. Twice as far is safe.
    """
    return max(1, shared - 4 * isqrt(shared) - 8)


def _max_distances(side: _Side, count: int) -> Iterator[int]:
    """Give the plainest of the largest distances for which buckets of a direction are these.

    h + j is the bucket of m for (D/h)^j ≤ (m/h)^(n-h) < (D/h)^(j+1), the last but for the bound
    above: each m bounds D from both sides.
    """
    single = count // 2
    is_far = side.lengths >= single
    if not np.array_equal(side.buckets[~is_far], side.lengths[~is_far]):
        return
    shared, step = count - single, side.buckets[is_far] - single
    if (step < 0).any() or (step >= shared).any():
        return
    ratio = np.log(side.lengths[is_far] / single)
    most = _least_of(ratio[step > 0] * shared / step[step > 0])
    inner = step < shared - 1
    least = (ratio[inner] * shared / (step[inner] + 1)).max(initial=0.0)
    low = max(single + 1, floor(single * np.exp(least) * (1 - _SLACK)))
    high = min(_FARTHEST, floor(single * np.exp(min(most, 20.0)) * (1 + _SLACK)))
    yield from round_integers(low, high, _T5_DISTANCE, _MOST_DISTANCES)


def _least_of(bounds: Float64s) -> float:
    return float(bounds.min(initial=20.0))


def _t5_found(rule: T5Buckets, zero: int) -> IndexMatch:
    parameters = rule.parameters()
    if rule.num_buckets == _T5_BUCKETS:
        del parameters["num_buckets"]
    if rule.max_distance == _T5_DISTANCE:
        del parameters["max_distance"]
    if rule.bidirectional:
        del parameters["bidirectional"]
    where = (
        "keys after the query have buckets of their own"
        if rule.bidirectional
        else ("keys after the query share bucket 0")
    )
    said = (
        f"{rule.single} lengths have a bucket of their own, of {rule.of_direction} in a direction",
        f"farther ones share buckets as with max_distance={rule.max_distance}",
        where,
    )
    return IndexMatch(rule, parameters, zero, said)


def _deberta_rules(strip: Strip) -> Iterator[IndexMatch]:
    numbers = strip.values[0].astype(np.int64)
    if not -_FARTHEST <= numbers.min() <= numbers.max() <= _FARTHEST:
        return
    if np.abs(numbers).max() < _LEAST_LARGEST:
        return
    nearest = int(np.argmin(np.abs(numbers)))
    zero = nearest + int(numbers[nearest])
    distances = strip.distances(zero)
    has_sign = -np.sign(distances) * np.abs(numbers)
    if not np.array_equal(has_sign, numbers):
        return
    side = _Side(np.abs(distances), np.abs(numbers))
    shared = side.first_shared
    if shared is None:
        if min(strip.queries, strip.keys) > 1:
            yield from _without_repeats(int(side.lengths.max()), zero)
        return
    mids = range(max(2, _fewest_single(shared)), min(shared, _MOST_EDGES))
    sizes = [(mid, position) for mid in mids for position in _positions(side, mid)]
    sizes.sort(key=_oddity)
    for mid, position in sizes[:_MOST_SIZES]:
        rule = DebertaBuckets(2 * mid, position, int(side.lengths.max()) + _REACH)
        if rule.edge_count() <= _MOST_EDGES:
            yield _deberta_found(rule, zero)


def _without_repeats(farthest: int, zero: int) -> Iterator[IndexMatch]:
    said = ("a number is query - key",)
    yield IndexMatch(Unbucketed(), {"bucket_size": -1}, zero, said)
    if farthest <= _DEBERTA_BUCKETS // 2:
        rule: BucketRule = DebertaBuckets(_DEBERTA_BUCKETS, _DEBERTA_POSITION, farthest)
        yield IndexMatch(rule, {}, zero, said)


def _positions(side: _Side, mid: int) -> Iterator[int]:
    """Give the plainest max_position for which buckets around so many are these.

    With P = max_position - 1, mid + j is the bucket of m for
    (P/mid)^(j-1) < (m/mid)^(mid-1) ≤ (P/mid)^j.
    """
    is_far = side.lengths > mid
    if not np.array_equal(side.buckets[~is_far], side.lengths[~is_far]):
        return
    step = side.buckets[is_far] - mid
    if (step < 1).any():
        return
    power = np.log(side.lengths[is_far] / mid) * (mid - 1)
    least = (power / step).max(initial=0.0)
    most = _least_of(power[step > 1] / (step[step > 1] - 1))
    low = max(mid + 1, ceil(mid * np.exp(least) * (1 - _SLACK)))
    high = min(_FARTHEST, ceil(mid * np.exp(min(most, 20.0)) * (1 + _SLACK)))
    yield from round_integers(low + 1, high + 1, _DEBERTA_POSITION, _MOST_DISTANCES)


def _oddity(size: tuple[int, int]) -> tuple[bool, int, int]:
    """Order sizes by how odd a choice they are."""
    mid, position = size
    is_default = 2 * mid == _DEBERTA_BUCKETS and position == _DEBERTA_POSITION
    return not is_default, mid.bit_count() + position.bit_count(), -mid


def _deberta_found(rule: DebertaBuckets, zero: int) -> IndexMatch:
    parameters = rule.parameters()
    if rule.bucket_size == _DEBERTA_BUCKETS:
        del parameters["bucket_size"]
    if rule.max_position == _DEBERTA_POSITION:
        del parameters["max_position"]
    said = (
        f"distances up to {rule.mid} are their own buckets, negative after the query",
        f"farther ones share buckets as with max_position={rule.max_position}",
    )
    return IndexMatch(rule, parameters, zero, said)


# Of fewer tokens, a wrong one is too many.
_FEWEST_TOKENS = 4


def shaw(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose matrices of clipped distances."""
    return propose_rules(question, "relative/shaw", _shaw_rules)


def _shaw_rules(strip: Strip) -> Iterator[IndexMatch]:
    numbers = strip.values[0].astype(np.int64)
    repeats = np.flatnonzero(np.diff(numbers) == 0)
    is_line = min(strip.queries, strip.keys) == 1
    if not np.isin(np.diff(numbers), (0, 1)).all() or numbers[-1] < 2:
        return
    if is_line and not len(repeats):
        return
    # Where both ends are clipped the middle is 0; otherwise queries and keys begin or end together.
    middle = np.flatnonzero(2 * numbers == numbers[-1]).tolist()
    together = [strip.queries - 1, strip.keys - 1]
    is_clipped = len(repeats) > 1 and repeats[0] == 0 and repeats[-1] == len(numbers) - 2
    places = [*middle, *together] if is_clipped else [*together, *middle]
    for zero in dict.fromkeys(places):
        if 0 <= zero < len(numbers) and numbers[zero] > 0:
            clipped = int(numbers[zero])
            said = f"numbers rise with key - query by one, and are {clipped} at distance 0"
            yield IndexMatch(Clipped(clipped), {"max_relative_position": clipped}, zero, (said,))


def swin(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose the relative positions of the tokens of a window, a row of which may be wrong."""
    numbers = single_integer_array(question, (2,))
    if numbers is None or numbers.shape[0] != numbers.shape[1]:
        return
    for has_token in (False, True):
        inner = numbers[has_token:, has_token:]
        # From the last token back, numbers fall as they rise from the first on: one of both ends
        # is right if one row is wrong.
        for height, width in dict.fromkeys((*_sides(inner), *_sides(-inner[::-1, ::-1]))):
            window = Window(height, width, has_token)
            if _is_of_window(numbers, window):
                yield _swin_proposal(window)


def _is_of_window(numbers: Int64s, window: Window) -> bool:
    """Tell by some rows whether all rows but one may be those of a window."""
    tokens = window.tokens
    every, some = range(tokens), {0, 1, window.width, window.width + 1, tokens // 2, tokens - 1}
    rows = [row for row in sorted(some) if row < tokens]
    right = [
        np.array_equal(window.numbers(range(row, row + 1), every)[0], numbers[row]) for row in rows
    ]
    return sum(right) >= (len(rows) if tokens < _FEWEST_TOKENS else len(rows) - 1)


def _sides(numbers: Int64s) -> Iterator[tuple[int, int]]:
    """Give the sides of windows: a row of it ends where numbers rise by more than one."""
    tokens = len(numbers)
    rising = numbers[:, 0] - numbers[0, 0]
    jumps = np.flatnonzero(rising != np.arange(tokens))
    if tokens < 2:
        return
    if len(jumps):
        width = int(jumps[0])
        if tokens % width == 0:
            yield tokens // width, width
        return
    yield 1, tokens
    yield tokens, 1


def _swin_proposal(window: Window) -> Proposal:
    parameters: dict[str, ParameterValue] = {"window_size": (window.height, window.width)}
    if window.class_token:
        parameters["class_token"] = True
    said = (
        f"by one along {window.width} tokens, by {2 * window.width - 1} from row to row",
        f"the number of a token and itself is the middle of {window.between_tokens}",
    )
    return Proposal(TableRequest("relative/swin", parameters), said)


def permutations(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose the order of weights in the other rotary layout."""
    order = single_integer_array(question, (1,))
    if order is None or len(order) < 4:
        return
    if not np.array_equal(np.sort(order), np.arange(len(order))):
        return
    head_dim = _period(order)
    moved = np.flatnonzero(order[:head_dim] != np.arange(head_dim))
    if not len(moved):
        return
    # The first channel that turns stays where it is, and so does the last.
    offset, rotary_dim = int(moved[0]) - 1, int(moved[-1] - moved[0]) + 3
    if offset < 0 or offset + rotary_dim > head_dim or rotary_dim % 2:
        return
    for layout, output in (("interleaved", "half"), ("half", "interleaved")):
        rule = HeadOrder(head_dim, rotary_dim, offset, layout, output)
        if np.array_equal(rule.sources(np.arange(head_dim)), order[:head_dim]):
            yield _permutation_proposal(rule, len(order) // head_dim)


def _period(order: Int64s) -> int:
    """Give after how many channels the next head does the same."""
    for period in range(4, len(order) // 2 + 1):
        if len(order) % period == 0:
            heads = order.reshape(-1, period) - np.arange(0, len(order), period)[:, np.newaxis]
            if (heads == heads[0]).all():
                return period
    return len(order)


def _permutation_proposal(rule: HeadOrder, heads: int) -> Proposal:
    parameters: dict[str, ParameterValue] = {"head_dim": rule.head_dim}
    if rule.rotary_dim < rule.head_dim - rule.rotary_offset:
        parameters["rotary_dim"] = rule.rotary_dim
    if rule.rotary_offset:
        parameters["rotary_offset"] = rule.rotary_offset
    if rule.layout != "interleaved":
        parameters["layout"] = rule.layout
    if heads > 1:
        parameters["num_attention_heads"] = heads
    said = (
        f"the same order within each of {heads} heads of {rule.head_dim} channels",
        f"{rule.rotary_dim} channels go from {rule.layout} to {rule.output_layout}",
    )
    return Proposal(TableRequest("rope/permutation", parameters), said)
