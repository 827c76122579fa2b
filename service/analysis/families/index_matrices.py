"""Propose tables of integers: T5, DeBERTa and Shaw indices, Swin windows, rotary permutations.

Matrices of queries and keys are read as strips, one index per distance. The first distances that
share an index give the parameters of a rule, which must then give every element. Jumps between
indices give the size of a Swin window and the heads of a permutation of rotary weights.
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
    locate_rows,
    query_key_parameters,
    strip_of,
    strips,
)
from service.analysis.families.requests import unless_default
from service.analysis.families.series import spread_indices
from service.analysis.round_numbers import round_integers
from service.encodings.relative.buckets import T5, Deberta, Shaw
from service.encodings.relative.distance import DistanceTableFamily
from service.encodings.relative.windows import Swin
from service.encodings.rotary.rope_apply import HeadOrder
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import ParameterValue

_MAX_PROPOSALS = 8
_TRIED_ROWS = 32
# Arrays with fewer distinct elements are masks and signs.
_FEWEST_NUMBERS = 3
# With fewer rows, no wrong row is tolerated.
_FEWEST_ROWS = 4


@dataclass(frozen=True, eq=False)
class IndexMatch:
    """A rule that a strip may follow.

    Attributes:
        rule: the rule of the index of each distance, with its parameters.
        parameters: the request parameters of the rule that are not defaults.
        zero: the index of distance 0 in the strip; it may be out of range.
        support: the evidence for the rule, as sentences.
    """

    rule: DistanceTableFamily
    parameters: dict[str, ParameterValue]
    zero: int
    support: tuple[str, ...]

    def values(self, distances: Int64s) -> Int64s:
        return self.rule.values(distances, range(1))

    def gives(self, strip: Strip) -> bool:
        """Return whether the rule gives every element of a strip."""
        return bool(np.array_equal(self.values(strip.distances(self.zero)), strip.values[0]))

    def proposal(self, resource: str, queries: Int64s, keys: Int64s, evidence: str) -> Proposal:
        parameters = {**self.parameters, **query_key_parameters(queries, keys)}
        return Proposal(TableRequest(resource, parameters), (evidence, *self.support))


Reader: TypeAlias = Callable[[Strip], Iterator[IndexMatch]]
"""Yield the rules of one kind that a strip may follow, the simplest first."""


def propose_rules(request: IdentifyInput, resource: str, read: Reader) -> Iterator[Proposal]:
    """Yield the tables of a resource that match an integer array, by the rules of ``read``.

    If query positions have gaps, a single row gives the rule, and the rule locates the other rows.
    """
    numbers = single_integer_array(request, (1, 2))
    if numbers is None or numbers.size < 2:
        return
    if whole := strips(numbers):
        yield from islice(_of_strips(whole, resource, read), _MAX_PROPOSALS)
    elif numbers.ndim == 2:
        yield from islice(_of_rows(numbers, resource, read), _MAX_PROPOSALS)
        if len(numbers) >= _FEWEST_ROWS:
            yield from islice(_of_most_rows(numbers, resource, read), _MAX_PROPOSALS)


def _of_strips(
    whole: list[Strip], resource: str, read: Reader, left_out: tuple[int, int] = (0, 0)
) -> Iterator[Proposal]:
    """Yield the tables whose rule gives every element of a strip.

    Args:
        whole: the strips.
        resource: the path of the tables.
        read: yields the rules that a strip may follow.
        left_out: how many queries of the array come before and after the queries of the strip.
    """
    for strip in whole:
        if len(np.unique(strip.values)) < _FEWEST_NUMBERS:
            continue
        evidence = f"elements depend on key - query alone, in {strip.queries} rows of {strip.keys}"
        if 1 in {strip.queries, strip.keys}:
            evidence = f"{strip.values.shape[1]} neighbouring distances"
        for match in read(strip):
            if match.gives(strip):
                queries, keys = strip.positions(match.zero)
                every = np.arange(queries[0] - left_out[0], queries[-1] + 1 + left_out[1])
                yield match.proposal(resource, every, keys, evidence)


def _of_most_rows(numbers: Int64s, resource: str, read: Reader) -> Iterator[Proposal]:
    """Yield the tables that differ from the array in one row only.

    The largest and the smallest distances occur only in the first or last row: in case that row is
    the wrong one, the strip is also read from the other rows.
    """
    for rows, left_out, wrong_rows in (
        (numbers, (0, 0), 1),
        (numbers[1:], (1, 0), 0),
        (numbers[:-1], (0, 1), 0),
    ):
        strip = strip_of(rows[np.newaxis], wrong_rows=wrong_rows)
        if strip is not None:
            yield from _of_strips([strip], resource, read, left_out)


def _of_rows(numbers: Int64s, resource: str, read: Reader) -> Iterator[Proposal]:
    for kind, sign, rows in (("row", 1, numbers), ("column", -1, numbers.T)):
        columns = np.arange(rows.shape[1], dtype=np.int64)
        evidence = f"the rule found in the {kind} with the most distinct values gives every {kind}"
        for row in _fullest_rows(rows):
            strip = strips(row)[sign == -1]
            for match in read(strip):
                if not match.gives(strip):
                    continue
                positions = locate_rows(rows, match.values, sign)
                if positions is not None:
                    queries, keys = (positions, columns)[::sign]
                    yield match.proposal(resource, queries, keys, evidence)


def _fullest_rows(rows: Int64s) -> Int64s:
    """Return the row with the most distinct values, and the row with the largest, among some."""
    some = rows[spread_indices(len(rows), _TRIED_ROWS)]
    fullest = int(np.argmax([len(np.unique(row)) for row in some]))
    largest = int(np.abs(some).max(axis=1).argmax())
    return some[list(dict.fromkeys((fullest, largest)))]


# Buckets.

_T5_BUCKETS, _T5_DISTANCE = 32, 128
_DEBERTA_BUCKETS, _DEBERTA_POSITION = 256, 512

# An array with a smaller maximum is a mask or has signs.
_LEAST_LARGEST = 3
_MAX_DISTANCES = 3
_MAX_SIZES = 6
_MAX_EDGES = 4096
# The distances of other rows may be larger than the strip's by up to this.
_REACH = 2**13
_FARTHEST = 2**30
# The relative error of the ends of parameter ranges, from powers in float64.
_SLACK = 1e-9
_LARGEST_LOGARITHM = 20.0


def propose_t5(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/t5``: bucket indices of distances."""
    return propose_rules(request, "relative/t5", _t5_rules)


def propose_deberta(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/deberta``: bucket indices of distances, or distances without buckets."""
    return propose_rules(request, "relative/deberta", _deberta_rules)


@dataclass(frozen=True, eq=False)
class _LengthBuckets:
    """The bucket of each distance |key - query| in one direction.

    Attributes:
        lengths: the absolute distances, (N,).
        buckets: the bucket index of each length, without the offset of its direction, (N,).
    """

    lengths: Int64s
    buckets: Int64s

    @property
    def first_shared(self) -> int | None:
        """The smallest length whose bucket index differs from it; None if there is none."""
        is_other = self.buckets != self.lengths
        return int(self.lengths[is_other].min()) if is_other.any() else None

    def beyond(self, single: int, least: int) -> tuple[Float64s, Int64s] | None:
        """Return ln(length/single) and bucket - single of all lengths of at least ``least``.

        Return None unless the bucket of every smaller length equals the length.
        """
        is_far = self.lengths >= least
        if not np.array_equal(self.buckets[~is_far], self.lengths[~is_far]):
            return None
        return np.log(self.lengths[is_far] / single), self.buckets[is_far] - single


def _fewest_single(shared: int) -> int:
    """Return a lower bound of h, the number of lengths 0 … h - 1 with a bucket of their own.

    A length m ≥ h has the bucket h + ln(m/h)·s for some s. For s = h it differs from m by at most
    (m - h)²/2h, which reaches 1 at about m = h + √(2h); for any other s it differs sooner. The
    bound allows twice this distance.

    Args:
        shared: the smallest length whose bucket index differs from it.
    """
    return max(1, shared - 4 * isqrt(shared) - 8)


def _t5_rules(strip: Strip) -> Iterator[IndexMatch]:
    numbers = strip.values[0].astype(np.int64)
    if numbers.min() < 0 or not _LEAST_LARGEST <= numbers.max() <= _FARTHEST:
        return
    zeros = np.flatnonzero(numbers == 0)
    # Distance 0 has the first index with a 0; without any 0, it is as many indices after the
    # smallest element as the value of that element.
    nearest = len(numbers) - 1 - int(np.argmin(numbers[::-1]))
    zero = int(zeros[0]) if len(zeros) else nearest + int(numbers[nearest])
    distances = strip.distances(zero)
    chosen, ahead = distances < 0, numbers[distances > 0]
    of_direction: int | None = None
    # Without keys after the query, buckets may be for one direction or for both.
    directions: tuple[bool, ...] = (False,) if len(ahead) else (False, True)
    if ahead.any():
        directions = (True,)
        of_direction = int(ahead[0]) - int(distances[distances > 0][0])
        chosen = distances != 0
        numbers = np.where(distances > 0, numbers - of_direction, numbers)
    known = _LengthBuckets(np.abs(distances[chosen]), numbers[chosen])
    if min(strip.queries, strip.keys) == 1 and known.first_shared is None:
        return
    for count in _bucket_counts(known, of_direction):
        for distance in _max_distances(known, count):
            for is_both in directions:
                rule = T5.model_construct(
                    num_buckets=count * (1 + is_both), max_distance=distance, bidirectional=is_both
                )
                ahead_of_query = "have buckets of their own" if is_both else "share bucket 0"
                support = (
                    f"{rule.single} of {rule.of_direction} buckets in a direction have one length",
                    f"farther lengths share buckets as with max_distance={distance}",
                    f"keys after the query {ahead_of_query}",
                )
                parameters = _non_defaults(rule, "num_buckets", "max_distance", "bidirectional")
                yield IndexMatch(rule, parameters, zero, support)


def _bucket_counts(known: _LengthBuckets, of_direction: int | None) -> Iterator[int]:
    """Yield the possible bucket counts of one direction, the simplest first.

    ``of_direction`` is the count if it is already known.
    """
    if of_direction is not None:
        if of_direction >= 2:
            yield of_direction
        return
    top, shared = int(known.buckets.max(initial=0)), known.first_shared
    if shared is None:
        # Every length has its own bucket: at least half of the buckets are for single lengths.
        yield max(_T5_BUCKETS, 1 << (2 * int(known.lengths.max())).bit_length())
        return
    counts = [
        count
        for single in range(min(shared, _MAX_EDGES) - 1, _fewest_single(shared) - 1, -1)
        for count in (2 * single, 2 * single + 1)
        if count > max(top, 1)
    ]
    # If the last bucket occurs, its index + 1 is the count: prefer this count.
    counts.sort(key=lambda count: (count != top + 1, count.bit_count(), -count))
    yield from counts[:_MAX_SIZES]


def _max_distances(known: _LengthBuckets, count: int) -> Iterator[int]:
    """Yield the simplest values D of max_distance for which the known lengths have their buckets.

    With n = ``count`` buckets, h of them for single lengths, bucket h + j has the lengths m with
    (D/h)^j ≤ (m/h)^(n-h) < (D/h)^(j+1); the last bucket has no upper bound. So each m gives a lower
    and an upper bound of D.
    """
    single = count // 2
    shared = count - single
    beyond = known.beyond(single, single)
    if beyond is None or (beyond[1] < 0).any() or (beyond[1] >= shared).any():
        return
    ratio, step = beyond
    inner = step < shared - 1
    least = (ratio[inner] * shared / (step[inner] + 1)).max(initial=0.0)
    most = (ratio[step > 0] * shared / step[step > 0]).min(initial=_LARGEST_LOGARITHM)
    low = max(single + 1, floor(single * np.exp(least) * (1 - _SLACK)))
    high = min(_FARTHEST, floor(single * np.exp(most) * (1 + _SLACK)))
    yield from round_integers(low, high, _T5_DISTANCE, _MAX_DISTANCES)


def _non_defaults(rule: DistanceTableFamily, *names: str) -> dict[str, ParameterValue]:
    """Return the named parameters of a rule that differ from their defaults."""
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
    known = _LengthBuckets(np.abs(distances), np.abs(numbers))
    farthest, shared = int(known.lengths.max()), known.first_shared
    if shared is None:
        if min(strip.queries, strip.keys) == 1:
            return
        sizes = [(-1, _DEBERTA_POSITION)]
        if farthest <= _DEBERTA_BUCKETS // 2:
            sizes.append((_DEBERTA_BUCKETS, _DEBERTA_POSITION))
    else:
        mids = range(max(2, _fewest_single(shared)), min(shared, _MAX_EDGES))
        pairs = ((mid, position) for mid in mids for position in _max_positions(known, mid))
        simplest = sorted(pairs, key=_simplest_first)[:_MAX_SIZES]
        sizes = [(2 * mid, position) for mid, position in simplest]
        farthest += _REACH
    for bucket_size, position in sizes:
        rule = Deberta.model_construct(
            bucket_size=bucket_size,
            max_position=position,
            query_start=farthest,
            query_len=1,
            key_len=1,
        )
        support: tuple[str, ...] = ("each element is query - key",)
        if shared is not None:
            if rule.edge_count() > _MAX_EDGES:
                continue
            support = (
                f"distances up to ±{bucket_size // 2} are their own buckets",
                f"farther ones share buckets as with max_position={position}",
            )
        yield IndexMatch(rule, _non_defaults(rule, "bucket_size", "max_position"), zero, support)


def _max_positions(known: _LengthBuckets, mid: int) -> Iterator[int]:
    """Yield the simplest values of max_position for which the known lengths have their buckets.

    Lengths up to ``mid`` are their own buckets. With P = max_position - 1, bucket mid + j has the
    lengths m with (P/mid)^(j-1) < (m/mid)^(mid-1) ≤ (P/mid)^j.
    """
    beyond = known.beyond(mid, mid + 1)
    if beyond is None or (beyond[1] < 1).any():
        return
    power, step = beyond[0] * (mid - 1), beyond[1]
    least = (power / step).max(initial=0.0)
    most = (power[step > 1] / (step[step > 1] - 1)).min(initial=_LARGEST_LOGARITHM)
    low = max(mid + 1, ceil(mid * np.exp(least) * (1 - _SLACK)))
    high = min(_FARTHEST, ceil(mid * np.exp(most) * (1 + _SLACK)))
    yield from round_integers(low + 1, high + 1, _DEBERTA_POSITION, _MAX_DISTANCES)


def _simplest_first(size: tuple[int, int]) -> tuple[bool, int, int]:
    """Return the sort key of (mid, max_position): default first, few binary digits, large mid."""
    mid, position = size
    is_default = 2 * mid == _DEBERTA_BUCKETS and position == _DEBERTA_POSITION
    return not is_default, mid.bit_count() + position.bit_count(), -mid


# Clipped distances.


def propose_shaw(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/shaw``: clipped distances."""
    return propose_rules(request, "relative/shaw", _shaw_rules)


def _shaw_rules(strip: Strip) -> Iterator[IndexMatch]:
    numbers = strip.values[0].astype(np.int64)
    steps = np.diff(numbers)
    repeats = np.flatnonzero(steps == 0)
    is_line = min(strip.queries, strip.keys) == 1
    if not np.isin(steps, (0, 1)).all() or numbers[-1] < 2 or (is_line and not len(repeats)):
        return
    # If both ends are clipped, distance 0 is in the middle. Otherwise assume that the first, or the
    # last, query and key have the same position.
    middle = np.flatnonzero(2 * numbers == numbers[-1]).tolist()
    together = [strip.queries - 1, strip.keys - 1]
    is_clipped = len(repeats) > 1 and repeats[0] == 0 and repeats[-1] == len(numbers) - 2
    for zero in dict.fromkeys([*middle, *together] if is_clipped else [*together, *middle]):
        if 0 <= zero < len(numbers) and numbers[zero] > 0:
            clipped = int(numbers[zero])
            support = f"elements increase with key - query by 1, and are {clipped} at distance 0"
            rule = Shaw.model_construct(max_relative_position=clipped)
            yield IndexMatch(rule, {"max_relative_position": clipped}, zero, (support,))


# Windows.


def propose_swin(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/swin``: relative position indices of a window; one row may be wrong."""
    numbers = single_integer_array(request, (2,))
    if numbers is None or numbers.shape[0] != numbers.shape[1]:
        return
    for has_token in (False, True):
        inner = numbers[has_token:, has_token:]
        # The window size follows from the first tokens, and from the last ones in reverse order: at
        # most one of both ends has a wrong row.
        backwards = -inner[::-1, ::-1]
        for height, width in dict.fromkeys((*_window_sizes(inner), *_window_sizes(backwards))):
            window = Swin.model_construct(window_size=(height, width), class_token=has_token)
            if not _is_of_window(numbers, window):
                continue
            parameters: dict[str, ParameterValue] = {
                "window_size": (height, width),
                **unless_default("class_token", has_token, default=False),
            }
            support = (
                f"indices differ by 1 along {width} tokens, by {2 * width - 1} from row to row",
                f"the index of a token and itself is the middle of {window.between_tokens}",
            )
            yield Proposal(TableRequest("relative/swin", parameters), support)


def _is_of_window(numbers: Int64s, window: Swin) -> bool:
    """Return whether at most one of the checked rows differs from the indices of a window."""
    tokens = window.tokens
    some = {0, 1, window.width, window.width + 1, tokens // 2, tokens - 1}
    wrong_rows = sum(
        not np.array_equal(window.numbers(range(row, row + 1), range(tokens))[0], numbers[row])
        for row in some
        if row < tokens
    )
    return wrong_rows <= (tokens >= _FEWEST_ROWS)


def _window_sizes(numbers: Int64s) -> Iterator[tuple[int, int]]:
    """Yield (height, width) of possible windows: a row ends where indices jump by more than 1."""
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
    """Propose ``/rope/permutation``: the channel order that converts rotary weights."""
    order = single_integer_array(request, (1,))
    if order is None or len(order) < 4:
        return
    if not np.array_equal(np.sort(order), np.arange(len(order))):
        return
    head_dim = _period(order)
    moved = np.flatnonzero(order[:head_dim] != np.arange(head_dim))
    if not len(moved):
        return
    # The first and the last of the rotated channels keep their indices.
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
            f"the channel order is the same within each of {heads} heads of {head_dim} channels",
            f"{rotary_dim} channels are reordered from {layout} to {output}",
        )
        yield Proposal(TableRequest("rope/permutation", parameters), support)


def _period(order: Int64s) -> int:
    """Return the number of channels of a head, the shortest period of the order."""
    for period in range(4, len(order) // 2 + 1):
        if len(order) % period == 0:
            heads = order.reshape(-1, period) - np.arange(0, len(order), period)[:, np.newaxis]
            if (heads == heads[0]).all():
                return period
    return len(order)
