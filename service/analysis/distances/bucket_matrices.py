"""Matrices of T5's buckets and of DeBERTa's: their sizes from where numbers begin to repeat."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, isqrt

import numpy as np

from service.analysis.distances.distance_indices import Found, propose_rules
from service.analysis.distances.strips import Strip
from service.analysis.plain_integers import plain_integers
from service.analysis.question import Proposal, Question
from service.tables.angle import Float64s, Int64s
from service.tables.buckets import BucketRule, DebertaBuckets, T5Buckets, Unbucketed

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


def t5(question: Question) -> Iterator[Proposal]:
    """Propose matrices and vectors of T5's buckets."""
    return propose_rules(question, "relative/t5", _t5_rules)


def deberta(question: Question) -> Iterator[Proposal]:
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


def _t5_rules(strip: Strip) -> Iterator[Found]:
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
    yield from plain_integers(low, high, _T5_DISTANCE, _MOST_DISTANCES)


def _least_of(bounds: Float64s) -> float:
    return float(bounds.min(initial=20.0))


def _t5_found(rule: T5Buckets, zero: int) -> Found:
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
    return Found(rule, parameters, zero, said)


def _deberta_rules(strip: Strip) -> Iterator[Found]:
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


def _without_repeats(farthest: int, zero: int) -> Iterator[Found]:
    said = ("a number is query - key",)
    yield Found(Unbucketed(), {"bucket_size": -1}, zero, said)
    if farthest <= _DEBERTA_BUCKETS // 2:
        rule: BucketRule = DebertaBuckets(_DEBERTA_BUCKETS, _DEBERTA_POSITION, farthest)
        yield Found(rule, {}, zero, said)


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
    yield from plain_integers(low + 1, high + 1, _DEBERTA_POSITION, _MOST_DISTANCES)


def _oddity(size: tuple[int, int]) -> tuple[bool, int, int]:
    """Order sizes by how odd a choice they are."""
    mid, position = size
    is_default = 2 * mid == _DEBERTA_BUCKETS and position == _DEBERTA_POSITION
    return not is_default, mid.bit_count() + position.bit_count(), -mid


def _deberta_found(rule: DebertaBuckets, zero: int) -> Found:
    parameters = rule.parameters()
    if rule.bucket_size == _DEBERTA_BUCKETS:
        del parameters["bucket_size"]
    if rule.max_position == _DEBERTA_POSITION:
        del parameters["max_position"]
    said = (
        f"distances up to {rule.mid} are their own buckets, negative after the query",
        f"farther ones share buckets as with max_position={rule.max_position}",
    )
    return Found(rule, parameters, zero, said)
