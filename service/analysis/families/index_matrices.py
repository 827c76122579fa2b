"""Propose tables of integers: T5's and DeBERTa's buckets, Shaw's clipped distances, Swin, weights.

Matrices of queries and keys are read as strips of distances. The sizes of a rule follow from where
numbers begin to repeat, and the rule must then give every number. Windows of Swin and permutations
of rotary weights are read by where their numbers jump.
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
from service.analysis.families.requests import unless_default
from service.analysis.measure import spread_indices
from service.analysis.round_numbers import round_integers
from service.encodings.relative.buckets import T5, Deberta, Shaw
from service.encodings.relative.distance import DistanceTableFamily
from service.encodings.relative.windows import Swin
from service.encodings.rotary.rope_apply import HeadOrder
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import ParameterValue

_ONE_HEAD = range(1)
_MAX_PROPOSALS = 8
_TRIED_ROWS = 32
# Fewer different numbers are of any rule: a mask, a sign.
_FEWEST_NUMBERS = 3
# Of fewer rows, one is too many to be wrong.
_FEWEST_ROWS = 4


@dataclass(frozen=True, eq=False)
class IndexMatch:
    """A rule that a strip may follow; zero is the place of distance 0, in the strip or outside."""

    rule: DistanceTableFamily
    parameters: dict[str, ParameterValue]
    zero: int
    support: tuple[str, ...]

    def gives(self, strip: Strip) -> bool:
        """Return whether the rule gives all numbers of a strip."""
        expected = self.rule.values(strip.distances(self.zero), _ONE_HEAD)
        return bool(np.array_equal(expected, strip.values[0]))


Reader: TypeAlias = Callable[[Strip], Iterator[IndexMatch]]
"""Finds the rules of a kind that a strip may follow, the plainest first."""


def propose_rules(request: IdentifyInput, resource: str, read: Reader) -> Iterator[Proposal]:
    """Propose the tables of integers that follow from what a reader finds.

    Rows that are a choice of those of a larger table are located by one that is read alone.
    """
    numbers = single_integer_array(request, (1, 2))
    if numbers is None or numbers.size < 2:
        return
    whole = list(strips(numbers))
    if whole:
        yield from islice(_of_strips(whole, resource, read), _MAX_PROPOSALS)
    elif numbers.ndim == 2:
        yield from islice(_of_rows(numbers, resource, read), _MAX_PROPOSALS)
        if len(numbers) >= _FEWEST_ROWS:
            yield from islice(_of_most_rows(numbers, resource, read), _MAX_PROPOSALS)


def _of_strips(
    whole: list[Strip], resource: str, read: Reader, left_out: tuple[int, int] = (0, 0)
) -> Iterator[Proposal]:
    """Propose tables of strips, and of so many queries before and after theirs."""
    for strip in whole:
        if len(np.unique(strip.values)) < _FEWEST_NUMBERS:
            continue
        evidence = f"a number depends on key - query alone, in {strip.queries} rows of {strip.keys}"
        if 1 in {strip.queries, strip.keys}:
            evidence = f"{strip.values.shape[1]} neighbouring distances"
        for match in read(strip):
            if match.gives(strip):
                queries, keys = strip.places(match.zero)
                every = np.arange(queries[0] - left_out[0], queries[-1] + 1 + left_out[1])
                parameters = {**match.parameters, **query_key_parameters(every, keys)}
                yield Proposal(TableRequest(resource, parameters), (evidence, *match.support))


def _of_most_rows(numbers: Int64s, resource: str, read: Reader) -> Iterator[Proposal]:
    """Propose tables that all rows but one agree with, which are near, if not the array's.

    Distances at the ends are in the first or in the last row alone: where that is the wrong one,
    the others give the rule.
    """
    near = strip_of(numbers[np.newaxis], wrong_rows=1)
    if near is not None:
        yield from _of_strips([near], resource, read)
    for rest, left_out in ((numbers[1:], (1, 0)), (numbers[:-1], (0, 1))):
        near = strip_of(rest[np.newaxis])
        if near is not None:
            yield from _of_strips([near], resource, read, left_out)


def _of_rows(numbers: Int64s, resource: str, read: Reader) -> Iterator[Proposal]:
    for kind, sign, rows in (("row", 1, numbers), ("column", -1, numbers.T)):
        columns = np.arange(rows.shape[1], dtype=np.int64)
        lengths = (1, len(columns)) if sign == 1 else (len(columns), 1)
        evidence = f"every {kind} is a part of what the rule of the fullest one gives"
        for row in _fullest_rows(rows):
            strip = Strip(row[np.newaxis, ::sign], *lengths)
            for match in read(strip):
                places = _row_places(match, strip, rows, sign)
                if places is not None:
                    both = (places, columns) if sign == 1 else (columns, places)
                    parameters = {**match.parameters, **query_key_parameters(*both)}
                    yield Proposal(TableRequest(resource, parameters), (evidence, *match.support))


def _fullest_rows(rows: Int64s) -> Int64s:
    """Choose the row with the most numbers, and that with the largest, to be read alone."""
    some = rows[spread_indices(len(rows), _TRIED_ROWS)]
    fullest = int(np.argmax([len(np.unique(row)) for row in some]))
    largest = int(np.abs(some).max(axis=1).argmax())
    return some[[fullest] if fullest == largest else [fullest, largest]]


def _row_places(match: IndexMatch, strip: Strip, rows: Int64s, sign: int) -> Int64s | None:
    if not match.gives(strip):
        return None
    return aligned(rows, lambda distances: match.rule.values(distances, _ONE_HEAD), sign)


# Buckets.

_T5_BUCKETS, _T5_DISTANCE = 32, 128
_DEBERTA_BUCKETS, _DEBERTA_POSITION = 256, 512

# Smaller numbers than these are matrices of other things: masks and signs.
_LEAST_LARGEST = 3
_MAX_DISTANCES = 3
_MAX_SIZES = 6
_MAX_EDGES = 4096
# Rows of other queries may be so much farther away.
_REACH = 2**13
_FARTHEST = 2**30
# Ends of ranges are known as well as powers in float64 are.
_SLACK = 1e-9
_LARGEST_LOGARITHM = 20.0


def propose_t5(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose matrices and vectors of T5's buckets."""
    return propose_rules(request, "relative/t5", _t5_rules)


def propose_deberta(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose matrices and vectors of DeBERTa's buckets, and of distances without buckets."""
    return propose_rules(request, "relative/deberta", _deberta_rules)


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

    def beyond(self, single: int, least: int) -> tuple[Float64s, Int64s] | None:
        """Return ln(length/single) and bucket - single of the lengths from one on.

        None where shorter lengths are not their own buckets.
        """
        is_far = self.lengths >= least
        if not np.array_equal(self.buckets[~is_far], self.lengths[~is_far]):
            return None
        return np.log(self.lengths[is_far] / single), self.buckets[is_far] - single


def _fewest_single(shared: int) -> int:
    """Bound from below how many lengths have a bucket of their own.

    Past h of them buckets are h + ln(m/h)·s for some s: at s = h they leave m by no more than
    (m - h)^2/2h, which is 1 at h + √(2h) or so, and for any other s sooner. Twice as far is safe.
    """
    return max(1, shared - 4 * isqrt(shared) - 8)


def _t5_rules(strip: Strip) -> Iterator[IndexMatch]:
    numbers = strip.values[0].astype(np.int64)
    if numbers.min() < 0 or not _LEAST_LARGEST <= numbers.max() <= _FARTHEST:
        return
    zeros = np.flatnonzero(numbers == 0)
    # Distance 0 is at the first 0, or as far behind the least number as that is large.
    nearest = len(numbers) - 1 - int(np.argmin(numbers[::-1]))
    zero = int(zeros[0]) if len(zeros) else nearest + int(numbers[nearest])
    distances = strip.distances(zero)
    is_behind, is_ahead = distances < 0, distances > 0
    lengths, buckets = [-distances[is_behind]], [numbers[is_behind]]
    of_direction, ahead = None, numbers[is_ahead]
    if ahead.any():
        of_direction = int(ahead[0]) - int(distances[is_ahead][0])
        lengths.append(distances[is_ahead])
        buckets.append(ahead - of_direction)
    side = _Side(np.concatenate(lengths), np.concatenate(buckets))
    if min(strip.queries, strip.keys) == 1 and side.first_shared is None:
        return
    # Without keys ahead buckets may be for one direction or for both.
    directions: tuple[bool, ...] = (False,) if len(ahead) else (False, True)
    if of_direction is not None:
        directions = (True,)
    for count in _bucket_counts(side, of_direction):
        for distance in _max_distances(side, count):
            for is_both in directions:
                rule = T5.model_construct(
                    num_buckets=count * (1 + is_both), max_distance=distance, bidirectional=is_both
                )
                yield _t5_match(rule, zero)


def _bucket_counts(side: _Side, known: int | None) -> Iterator[int]:
    """Yield how many buckets a direction may have, the plainest first."""
    if known is not None:
        if known >= 2:
            yield known
        return
    top, shared = int(side.buckets.max(initial=0)), side.first_shared
    if shared is None:
        # All have a bucket of their own: half of the buckets, or more than there are distances.
        yield max(_T5_BUCKETS, 1 << (2 * int(side.lengths.max())).bit_length())
        return
    counts = [
        count
        for single in range(min(shared, _MAX_EDGES) - 1, _fewest_single(shared) - 1, -1)
        for count in (2 * single, 2 * single + 1)
        if count > max(top, 1)
    ]
    # The number of the last bucket, where it occurs, gives the count.
    counts.sort(key=lambda count: (count != top + 1, count.bit_count(), -count))
    yield from counts[:_MAX_SIZES]


def _max_distances(side: _Side, count: int) -> Iterator[int]:
    """Yield the plainest of the largest distances for which buckets of a direction are these.

    h + j is the bucket of m for (D/h)^j ≤ (m/h)^(n-h) < (D/h)^(j+1), the last but for the bound
    above: each m bounds D from both sides.
    """
    single = count // 2
    shared = count - single
    beyond = side.beyond(single, single)
    if beyond is None or (beyond[1] < 0).any() or (beyond[1] >= shared).any():
        return
    ratio, step = beyond
    inner = step < shared - 1
    least = (ratio[inner] * shared / (step[inner] + 1)).max(initial=0.0)
    most = (ratio[step > 0] * shared / step[step > 0]).min(initial=_LARGEST_LOGARITHM)
    low = max(single + 1, floor(single * np.exp(least) * (1 - _SLACK)))
    high = min(_FARTHEST, floor(single * np.exp(most) * (1 + _SLACK)))
    yield from round_integers(low, high, _T5_DISTANCE, _MAX_DISTANCES)


def _t5_match(rule: T5, zero: int) -> IndexMatch:
    parameters = _non_defaults(rule, "num_buckets", "max_distance", "bidirectional")
    ahead = "have buckets of their own" if rule.bidirectional else "share bucket 0"
    support = (
        f"{rule.single} lengths have a bucket of their own, of {rule.of_direction} in a direction",
        f"farther ones share buckets as with max_distance={rule.max_distance}",
        f"keys after the query {ahead}",
    )
    return IndexMatch(rule, parameters, zero, support)


def _non_defaults(rule: DistanceTableFamily, *names: str) -> dict[str, ParameterValue]:
    """Return the parameters of these names that differ from their defaults."""
    fields = type(rule).model_fields
    values = {name: getattr(rule, name) for name in names}
    return {name: value for name, value in values.items() if value != fields[name].default}


def _deberta_rules(strip: Strip) -> Iterator[IndexMatch]:
    numbers = strip.values[0].astype(np.int64)
    if not -_FARTHEST <= numbers.min() <= numbers.max() <= _FARTHEST:
        return
    if np.abs(numbers).max() < _LEAST_LARGEST:
        return
    nearest = int(np.argmin(np.abs(numbers)))
    zero = nearest + int(numbers[nearest])
    distances = strip.distances(zero)
    if not np.array_equal(-np.sign(distances) * np.abs(numbers), numbers):
        return
    side = _Side(np.abs(distances), np.abs(numbers))
    farthest, shared = int(side.lengths.max()), side.first_shared
    if shared is None:
        if min(strip.queries, strip.keys) > 1:
            yield from _unshared(farthest, zero)
        return
    mids = range(max(2, _fewest_single(shared)), min(shared, _MAX_EDGES))
    sizes = [(mid, position) for mid in mids for position in _max_positions(side, mid)]
    sizes.sort(key=_oddity)
    for mid, position in sizes[:_MAX_SIZES]:
        rule = _deberta(2 * mid, position, farthest + _REACH)
        if rule.edge_count() <= _MAX_EDGES:
            parameters = _non_defaults(rule, "bucket_size", "max_position")
            support = (
                f"distances up to {mid} are their own buckets, negative after the query",
                f"farther ones share buckets as with max_position={position}",
            )
            yield IndexMatch(rule, parameters, zero, support)


def _unshared(farthest: int, zero: int) -> Iterator[IndexMatch]:
    support = ("a number is query - key",)
    without = _deberta(-1, _DEBERTA_POSITION, farthest)
    yield IndexMatch(without, {"bucket_size": -1}, zero, support)
    if farthest <= _DEBERTA_BUCKETS // 2:
        rule = _deberta(_DEBERTA_BUCKETS, _DEBERTA_POSITION, farthest)
        yield IndexMatch(rule, {}, zero, support)


def _deberta(bucket_size: int, max_position: int, farthest: int) -> Deberta:
    """Return buckets of distances up to the farthest."""
    return Deberta.model_construct(
        bucket_size=bucket_size,
        max_position=max_position,
        query_start=farthest,
        query_len=1,
        key_len=1,
    )


def _max_positions(side: _Side, mid: int) -> Iterator[int]:
    """Yield the plainest max_position for which buckets around so many are these.

    With P = max_position - 1, mid + j is the bucket of m for
    (P/mid)^(j-1) < (m/mid)^(mid-1) ≤ (P/mid)^j.
    """
    beyond = side.beyond(mid, mid + 1)
    if beyond is None or (beyond[1] < 1).any():
        return
    power, step = beyond[0] * (mid - 1), beyond[1]
    least = (power / step).max(initial=0.0)
    most = (power[step > 1] / (step[step > 1] - 1)).min(initial=_LARGEST_LOGARITHM)
    low = max(mid + 1, ceil(mid * np.exp(least) * (1 - _SLACK)))
    high = min(_FARTHEST, ceil(mid * np.exp(most) * (1 + _SLACK)))
    yield from round_integers(low + 1, high + 1, _DEBERTA_POSITION, _MAX_DISTANCES)


def _oddity(size: tuple[int, int]) -> tuple[bool, int, int]:
    """Order sizes: the default, few binary digits, many buckets."""
    mid, position = size
    is_default = 2 * mid == _DEBERTA_BUCKETS and position == _DEBERTA_POSITION
    return not is_default, mid.bit_count() + position.bit_count(), -mid


# Clipped distances.


def propose_shaw(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose matrices of clipped distances."""
    return propose_rules(request, "relative/shaw", _shaw_rules)


def _shaw_rules(strip: Strip) -> Iterator[IndexMatch]:
    numbers = strip.values[0].astype(np.int64)
    steps = np.diff(numbers)
    repeats = np.flatnonzero(steps == 0)
    is_line = min(strip.queries, strip.keys) == 1
    if not np.isin(steps, (0, 1)).all() or numbers[-1] < 2 or (is_line and not len(repeats)):
        return
    # Where both ends are clipped the middle is 0; otherwise queries and keys begin or end together.
    middle = np.flatnonzero(2 * numbers == numbers[-1]).tolist()
    together = [strip.queries - 1, strip.keys - 1]
    is_clipped = len(repeats) > 1 and repeats[0] == 0 and repeats[-1] == len(numbers) - 2
    for zero in dict.fromkeys([*middle, *together] if is_clipped else [*together, *middle]):
        if 0 <= zero < len(numbers) and numbers[zero] > 0:
            clipped = int(numbers[zero])
            support = f"numbers rise with key - query by one, and are {clipped} at distance 0"
            rule = Shaw.model_construct(max_relative_position=clipped)
            yield IndexMatch(rule, {"max_relative_position": clipped}, zero, (support,))


# Windows.

# Of fewer tokens, a wrong one is too many.
_FEWEST_TOKENS = 4


def propose_swin(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the relative positions of the tokens of a window, a row of which may be wrong."""
    numbers = single_integer_array(request, (2,))
    if numbers is None or numbers.shape[0] != numbers.shape[1]:
        return
    for has_token in (False, True):
        inner = numbers[has_token:, has_token:]
        # From the last token back, numbers fall as they rise from the first on: one of both ends
        # is right if one row is wrong.
        for height, width in dict.fromkeys(
            (*_window_sides(inner), *_window_sides(-inner[::-1, ::-1]))
        ):
            window = Swin.model_construct(window_size=(height, width), class_token=has_token)
            if not _is_of_window(numbers, window):
                continue
            parameters: dict[str, ParameterValue] = {
                "window_size": (height, width),
                **unless_default("class_token", has_token, default=False),
            }
            support = (
                f"by one along {width} tokens, by {2 * width - 1} from row to row",
                f"the number of a token and itself is the middle of {window.between_tokens}",
            )
            yield Proposal(TableRequest("relative/swin", parameters), support)


def _is_of_window(numbers: Int64s, window: Swin) -> bool:
    """Check by some rows whether all rows but one may be those of a window."""
    tokens = window.tokens
    some = {0, 1, window.width, window.width + 1, tokens // 2, tokens - 1}
    right = [
        np.array_equal(window.numbers(range(row, row + 1), range(tokens))[0], numbers[row])
        for row in sorted(some)
        if row < tokens
    ]
    return right.count(False) <= (0 if tokens < _FEWEST_TOKENS else 1)


def _window_sides(numbers: Int64s) -> Iterator[tuple[int, int]]:
    """Yield the sides of windows: a row of it ends where numbers rise by more than one."""
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


# Rotary weights.


def propose_permutation(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the order of weights in the other rotary layout."""
    order = single_integer_array(request, (1,))
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
    heads = len(order) // head_dim
    for layout, output in (("interleaved", "half"), ("half", "interleaved")):
        rule = HeadOrder(head_dim, rotary_dim, offset, layout, output)
        if not np.array_equal(rule.sources(np.arange(head_dim)), order[:head_dim]):
            continue
        parameters: dict[str, ParameterValue] = {
            "head_dim": head_dim,
            **unless_default("rotary_dim", rotary_dim, head_dim - offset),
            **unless_default("rotary_offset", offset, 0),
            **unless_default("layout", layout, "interleaved"),
            **unless_default("num_attention_heads", heads, 1),
        }
        support = (
            f"the same order within each of {heads} heads of {head_dim} channels",
            f"{rotary_dim} channels go from {layout} to {output}",
        )
        yield Proposal(TableRequest("rope/permutation", parameters), support)


def _period(order: Int64s) -> int:
    """Return after how many channels the next head does the same."""
    for period in range(4, len(order) // 2 + 1):
        if len(order) % period == 0:
            heads = order.reshape(-1, period) - np.arange(0, len(order), period)[:, np.newaxis]
            if (heads == heads[0]).all():
                return period
    return len(order)
