"""Numbers of distances, held to their definitions in integers."""

from fractions import Fraction
from itertools import count

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.tables.buckets import (
    MAX_EDGES,
    BucketRule,
    Clipped,
    DebertaBuckets,
    T5Buckets,
    Unbucketed,
    buckets,
    looked_up,
)
from service.tables.dtypes import INT32, INT64
from service.tables.positions import Positions
from service.tables.query_key import QueryKey

FAR = 2**62

# Logarithms of float32 or of float64 miss an edge of each.
T5_GROWTHS = [(5, 7), (9, 2), (10, 2), (10, 5), (12, 7)]
DEBERTA_GROWTHS = [(4, 21), (5, 5), (5, 6), (5, 30), (6, 5)]


def of(rule: BucketRule, *distances: int) -> list[int]:
    found: list[int] = rule.values(np.array(distances, dtype=np.int64), range(1)).tolist()
    return found


def t5_by_definition(rule: T5Buckets, distance: int) -> int:
    """Find the bucket by trying one power after the other, in integers."""
    far = abs(distance) if rule.bidirectional else max(-distance, 0)
    after = rule.of_direction if rule.bidirectional and distance > 0 else 0
    near, shared = rule.single, rule.of_direction - rule.single
    if far < near:
        return after + far
    reached = [
        j for j in range(shared) if far**shared * near**j >= rule.max_distance**j * near**shared
    ]
    return after + near + reached[-1]


@given(st.integers(2, 80), st.integers(2, 5000), st.booleans(), st.integers(-FAR, FAR))
def test_t5_buckets_are_what_comparing_integers_gives(
    num_buckets: int, max_distance: int, bidirectional: bool, distance: int
) -> None:
    rule = T5Buckets(num_buckets, max_distance, bidirectional)
    assume(0 < rule.single < max_distance)
    distances = [distance, distance % 6000, -(distance % 6000), max_distance, -max_distance]

    assert of(rule, *distances) == [t5_by_definition(rule, one) for one in distances]


def test_t5_buckets_of_one_direction_put_the_future_into_the_first() -> None:
    rule = T5Buckets(32, 128, bidirectional=False)

    assert of(rule, 0, 1, 5, FAR) == [0, 0, 0, 0]
    assert of(rule, -1, -15, -16, -18, -19, -127, -128, -FAR) == [1, 15, 16, 16, 17, 31, 31, 31]


def test_t5_buckets_of_both_directions_are_halves() -> None:
    rule = T5Buckets(32, 128, bidirectional=True)

    assert of(rule, 0, -1, 1, -7, 7, -8, 8, -FAR, FAR) == [0, 1, 17, 7, 23, 8, 24, 15, 31]


def test_powers_of_two_are_the_first_of_their_bucket() -> None:
    """8·16^(j/8) is an integer at even j, where a logarithm that is a bit too small loses one."""
    rule = T5Buckets(32, 128, bidirectional=True)

    assert of(rule, -15, -16, -31, -32, -63, -64, -127, -128) == [9, 10, 11, 12, 13, 14, 15, 15]


@pytest.mark.parametrize(("num_buckets", "growth"), T5_GROWTHS)
def test_edges_that_are_integers_are_the_first_of_their_bucket(
    num_buckets: int, growth: int
) -> None:
    near = num_buckets // 2
    edges = [near * growth**j for j in range(num_buckets - near)]
    rule = T5Buckets(num_buckets, edges[-1] * growth, bidirectional=False)

    assert of(rule, *(-edge for edge in edges)) == list(range(near, num_buckets))
    assert of(rule, *(1 - edge for edge in edges)) == list(range(near - 1, num_buckets - 1))


def test_an_odd_number_of_buckets_leaves_the_last_unused() -> None:
    odd, even = T5Buckets(33, 128, bidirectional=True), T5Buckets(32, 128, bidirectional=True)

    assert of(odd, *range(-300, 300)) == of(even, *range(-300, 300))


def deberta_by_definition(rule: DebertaBuckets, distance: int) -> int:
    far, mid, sign = abs(distance), rule.mid, -1 if distance > 0 else 1
    if far <= mid:
        return sign * far
    wanted = Fraction(far, mid) ** (mid - 1)
    growth = Fraction(rule.max_position - 1, mid)
    return sign * (mid + next(j for j in count() if growth**j >= wanted))


@given(st.integers(2, 40), st.integers(4, 300), st.integers(-FAR, FAR))
def test_deberta_buckets_are_what_comparing_integers_gives(
    bucket_size: int, max_position: int, distance: int
) -> None:
    assume(max_position - 1 > 1.5 * (bucket_size // 2))
    near = DebertaBuckets(bucket_size, max_position, 1000)
    far = DebertaBuckets(bucket_size, max_position, FAR)
    distances = [distance % 1000, -(distance % 1000), near.mid, near.mid + 1, max_position - 1]

    assert of(near, *distances) == [deberta_by_definition(near, one) for one in distances]
    assert of(far, distance) == [deberta_by_definition(far, distance)]


@pytest.mark.parametrize(("mid", "growth"), DEBERTA_GROWTHS)
def test_powers_that_are_integers_are_the_last_of_their_deberta_bucket(
    mid: int, growth: int
) -> None:
    powers = [mid * growth**j for j in range(mid)]
    rule = DebertaBuckets(2 * mid, powers[-1] + 1, FAR)

    assert of(rule, *(-power for power in powers)) == list(range(mid, 2 * mid))
    assert of(rule, *(-power - 1 for power in powers)) == list(range(mid + 1, 2 * mid + 1))


def test_deberta_counts_from_the_key_to_the_query() -> None:
    rule = DebertaBuckets(256, 512, 1000)

    assert of(rule, 3, -3, 128, -128) == [-3, 3, -128, 128]
    assert of(rule, -129, -511, -512, -1000) == [129, 255, 256, 317]
    assert of(Unbucketed(), 3, -3, FAR) == [-3, 3, -FAR]


def test_two_deberta_buckets_are_signs() -> None:
    assert of(DebertaBuckets(2, 3, FAR), 0, -1, -2, FAR) == [0, 1, 1, -1]


def test_a_distance_has_the_same_deberta_bucket_in_tables_of_any_length() -> None:
    found = {tuple(of(DebertaBuckets(16, 64, f), *range(-100, 101))) for f in (100, 127, 128, FAR)}

    assert len(found) == 1


@pytest.mark.parametrize(
    ("bucket_size", "max_position", "farthest"),
    [(256, 512, FAR), (64, 40, 10**6), (4, 4, FAR), (65536, FAR, FAR)],
)
def test_edges_are_estimated_before_they_are_found(
    bucket_size: int, max_position: int, farthest: int
) -> None:
    rule = DebertaBuckets(bucket_size, max_position, farthest)

    largest = of(rule, -farthest)[0]

    assert largest - rule.mid <= rule.edge_count() + 1 <= MAX_EDGES


def test_near_tables_have_no_shared_buckets() -> None:
    assert DebertaBuckets(65536, 40000, 100).edge_count() == 0


def test_clipped_distances_are_rows_of_a_table() -> None:
    rule = Clipped(3)

    assert of(rule, -FAR, -4, -3, -1, 0, 2, 3, 4, FAR) == [0, 0, 0, 2, 3, 5, 6, 6, 6]
    assert of(Clipped(0), -5, 0, 5) == [0, 0, 0]
    assert of(Clipped(2**61), -FAR, 0, FAR) == [0, 2**61, 2**62]
    assert (rule.largest(2), rule.largest(FAR)) == (5, 6)


RULES: list[BucketRule] = [
    T5Buckets(8, 20, bidirectional=True),
    DebertaBuckets(4, 12, 40),
    Unbucketed(),
    Clipped(2),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_any_range_of_a_table_is_a_slice_of_the_whole(rule: BucketRule) -> None:
    pairs = QueryKey(Positions.contiguous(30, 3), Positions.contiguous(0, 40))
    document = buckets("relative-t5", "bucket", rule, pairs, INT32)
    table = document.arrays["bucket"]
    whole = table.read(0, 120)

    assert (table.shape, whole.dtype.name) == ((3, 40), "int32")
    assert whole.tolist() == of(rule, *(key - q for q in (30, 31, 32) for key in range(40)))
    for start, stop in [(0, 1), (39, 41), (50, 120), (7, 7)]:
        assert table.read(start, stop).tolist() == whole[start:stop].tolist()
    assert looked_up(rule, pairs).dtype is INT64


def test_a_document_names_what_matters_and_the_order_of_its_axes() -> None:
    pairs = QueryKey(Positions.contiguous(9, 1), Positions.contiguous(0, 10))

    document = buckets("relative-t5", "bucket", RULES[0], pairs, INT32)

    assert (document.axes, document.states_axes) == (("query", "key"), True)
    assert document.parameters == {
        "num_buckets": 8,
        "max_distance": 20,
        "bidirectional": True,
        "query_start": 9,
        "query_len": 1,
        "key_start": 0,
        "key_len": 10,
    }
    assert [rule.parameters() for rule in RULES[1:]] == [
        {"bucket_size": 4, "max_position": 12},
        {"bucket_size": -1},
        {"max_relative_position": 2},
    ]
