"""Integers of distances, compared with their definitions in integers."""

from fractions import Fraction
from itertools import count, pairwise
from threading import Thread

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.encodings.relative.buckets import MAX_EDGES, T5, Deberta, Shaw, ceilings, floors
from service.encodings.relative.distance import DistanceTableFamily
from tests.client import Client, load_data

FAR = 2**62

# Logarithms of float32 or of float64 miss an edge of each.
T5_GROWTHS = [(5, 7), (9, 2), (10, 2), (10, 5), (12, 7)]
DEBERTA_GROWTHS = [(4, 21), (5, 5), (5, 6), (5, 30), (6, 5)]


def t5(num_buckets: int, max_distance: int, *, bidirectional: bool = True) -> T5:
    return T5(num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional)


def deberta(bucket_size: int, max_position: int, farthest: int) -> Deberta:
    places = {"query_start": farthest, "query_len": 1, "key_len": 1}
    return Deberta(bucket_size=bucket_size, max_position=max_position, **places)


def of(family: DistanceTableFamily, *distances: int) -> list[int]:
    numbers: list[int] = family.values(np.array(distances, dtype=np.int64), range(1)).tolist()
    return numbers


def t5_by_definition(rule: T5, distance: int) -> int:
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
def test_t5_buckets_match_the_definition_in_integer_arithmetic(
    num_buckets: int, max_distance: int, bidirectional: bool, distance: int
) -> None:
    rule = t5(num_buckets, max_distance, bidirectional=bidirectional)
    assume(0 < rule.single < max_distance)
    distances = [distance, distance % 6000, -(distance % 6000), max_distance, -max_distance]

    assert of(rule, *distances) == [t5_by_definition(rule, one) for one in distances]


def test_t5_buckets_of_one_direction_put_later_keys_into_the_first() -> None:
    rule = t5(32, 128, bidirectional=False)

    assert of(rule, 0, 1, 5, FAR) == [0, 0, 0, 0]
    assert of(rule, -1, -15, -16, -18, -19, -127, -128, -FAR) == [1, 15, 16, 16, 17, 31, 31, 31]


def test_t5_buckets_of_both_directions_are_halves() -> None:
    assert of(t5(32, 128), 0, -1, 1, -7, 7, -8, 8, -FAR, FAR) == [0, 1, 17, 7, 23, 8, 24, 15, 31]


def test_powers_of_two_are_the_first_of_their_bucket() -> None:
    """8·16^(j/8) is an integer at even j, where a logarithm that is a bit too small loses one."""
    numbers = of(t5(32, 128), -15, -16, -31, -32, -63, -64, -127, -128)

    assert numbers == [9, 10, 11, 12, 13, 14, 15, 15]


@pytest.mark.parametrize(("num_buckets", "growth"), T5_GROWTHS)
def test_edges_that_are_integers_are_the_first_of_their_bucket(
    num_buckets: int, growth: int
) -> None:
    near = num_buckets // 2
    edges = [near * growth**j for j in range(num_buckets - near)]
    rule = t5(num_buckets, edges[-1] * growth, bidirectional=False)

    assert of(rule, *(-edge for edge in edges)) == list(range(near, num_buckets))
    assert of(rule, *(1 - edge for edge in edges)) == list(range(near - 1, num_buckets - 1))


def test_an_odd_number_of_buckets_leaves_the_last_unused() -> None:
    assert of(t5(33, 128), *range(-300, 300)) == of(t5(32, 128), *range(-300, 300))


def deberta_by_definition(rule: Deberta, distance: int) -> int:
    far, mid, sign = abs(distance), rule.mid, -1 if distance > 0 else 1
    if far <= mid:
        return sign * far
    power = Fraction(far, mid) ** (mid - 1)
    growth = Fraction(rule.max_position - 1, mid)
    return sign * (mid + next(j for j in count() if growth**j >= power))


@given(st.integers(2, 40), st.integers(4, 300), st.integers(-FAR, FAR))
def test_deberta_buckets_equal_comparisons_of_integers(
    bucket_size: int, max_position: int, distance: int
) -> None:
    assume(max_position - 1 > 1.5 * (bucket_size // 2))
    near, far = deberta(bucket_size, max_position, 1000), deberta(bucket_size, max_position, FAR)
    distances = [distance % 1000, -(distance % 1000), near.mid, near.mid + 1, max_position - 1]

    assert of(near, *distances) == [deberta_by_definition(near, one) for one in distances]
    assert of(far, distance) == [deberta_by_definition(far, distance)]


@pytest.mark.parametrize(("mid", "growth"), DEBERTA_GROWTHS)
def test_powers_that_are_integers_are_the_last_of_their_deberta_bucket(
    mid: int, growth: int
) -> None:
    powers = [mid * growth**j for j in range(mid)]
    rule = deberta(2 * mid, powers[-1] + 1, FAR)

    assert of(rule, *(-power for power in powers)) == list(range(mid, 2 * mid))
    assert of(rule, *(-power - 1 for power in powers)) == list(range(mid + 1, 2 * mid + 1))


def test_deberta_numbers_are_positive_before_the_query() -> None:
    rule = deberta(256, 512, 1000)

    assert of(rule, 3, -3, 128, -128) == [-3, 3, -128, 128]
    assert of(rule, -129, -511, -512, -1000) == [129, 255, 256, 317]
    assert of(deberta(-1, 512, FAR), 3, -3, FAR) == [-3, 3, -FAR]
    assert of(deberta(2, 3, FAR), 0, -1, -2, FAR) == [0, 1, 1, -1]


def test_deberta_buckets_do_not_depend_on_the_farthest_distance() -> None:
    numbers = {tuple(of(deberta(16, 64, f), *range(-100, 101))) for f in (100, 127, 128, FAR)}

    assert len(numbers) == 1


@pytest.mark.parametrize(
    ("bucket_size", "max_position", "farthest"),
    [(256, 512, FAR), (64, 40, 10**6), (4, 4, FAR), (65536, FAR, FAR)],
)
def test_the_number_of_edges_is_estimated_from_above(
    bucket_size: int, max_position: int, farthest: int
) -> None:
    rule = deberta(bucket_size, max_position, farthest)

    largest = of(rule, -farthest)[0]

    assert largest - rule.mid <= rule.edge_count() + 1 <= MAX_EDGES
    assert deberta(65536, 40000, 100).edge_count() == 0


def test_shaw_numbers_are_clipped_distances_from_0() -> None:
    shaw = Shaw(max_relative_position=3)

    assert of(shaw, -FAR, -4, -3, -1, 0, 2, 3, 4, FAR) == [0, 0, 0, 2, 3, 5, 6, 6, 6]
    assert of(Shaw(max_relative_position=0), -5, 0, 5) == [0, 0, 0]
    assert of(Shaw(max_relative_position=2**61), -FAR, 0, FAR) == [0, 2**61, 2**62]


def test_shaw_rows_of_keys_after_the_query_have_their_own_limit_and_order() -> None:
    distances = (-FAR, -4, -1, 0, 1, 2, FAR)
    wide, narrow = Shaw(max_relative_position=3, max_after=1), Shaw(max_relative_position=1)

    assert of(wide, *distances) == [0, 0, 2, 3, 4, 4, 4]
    assert of(Shaw.like(wide, descending=True), *distances) == [4, 4, 2, 1, 0, 0, 0]
    assert of(Shaw.like(narrow, descending=True), -2, 0, 2) == [2, 1, 0]


@given(st.integers(1, 400), st.integers(1, 10**6), st.integers(2, 60))
def test_a_ceiling_is_the_least_integer_not_below_a_power(low: int, more: int, steps: int) -> None:
    high = low + more

    for j, edge in enumerate(ceilings(low, high, steps).tolist(), start=1):
        power = high**j * low ** (steps - j)
        assert (edge - 1) ** steps < power <= edge**steps


@given(st.integers(1, 400), st.integers(1, 10**6), st.integers(1, 60), st.integers(1, 10**4))
def test_a_floor_is_the_greatest_integer_not_above_a_power(
    low: int, more: int, steps: int, limit: int
) -> None:
    high = low + more

    edges = floors(low, high, steps, limit).tolist()[:200]

    assert all(edge < limit for edge in edges)
    for j, edge in enumerate(edges):
        power = high**j
        assert edge**steps * low**j <= power * low**steps < (edge + 1) ** steps * low**j


@pytest.mark.parametrize(("growth", "steps"), [(2, 1), (2, 5), (3, 7), (2, 62)])
def test_powers_that_are_integers_are_exact(growth: int, steps: int) -> None:
    """(growth^steps)^(j/steps) is an integer for every j: the case that rounded logarithms miss."""
    high = growth**steps
    powers = [growth**j for j in range(steps)]

    assert ceilings(1, high, steps).tolist() == powers[1:]
    assert floors(1, high, steps, high).tolist() == powers


def test_powers_beside_integers_are_compared_exactly() -> None:
    """√(2^61·(2^61 + 2)) is below 2^61 + 1 by less than 10^-18."""
    low, high = 2**61, 2**61 + 2

    assert ceilings(low, high, 2).tolist() == [2**61 + 1]
    assert floors(low, high, 2, high).tolist() == [2**61, 2**61]


def test_edges_reach_as_far_as_positions() -> None:
    edges = floors(128, 511, 127, 2**63)

    assert 2**62 < edges[-1] < 2**63 - 1
    assert all(before <= after for before, after in pairwise(edges.tolist()))


def test_edges_are_the_same_in_a_new_thread() -> None:
    """The decimal context belongs to the thread, and a new one has 28 digits."""
    found = []
    thread = Thread(target=lambda: found.append(ceilings.__wrapped__(2048, 2**62, 2048)))
    thread.start()
    thread.join()

    assert np.array_equal(found[0], ceilings(2048, 2**62, 2048))
    assert found[0].dtype == np.int64


# 8·16^(j/8) is an integer at even j; and the farthest pair of positions has a bucket.
T5_EDGES = "-4611686018427387904,-128,-127,-64,-63,-32,-31,31,32,4611686018427387904"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            f"t5?query_positions=0&key_positions={T5_EDGES}",
            [[15, 15, 15, 14, 13, 12, 11, 27, 28, 31]],
        ),
        (f"deberta?query_start={2**62}&query_len=1&key_len=1", [[3626]]),
        (
            f"deberta?query_start={2**31}&query_len=1&key_len=1&bucket_size=-1&dtype=int64",
            [[2**31]],
        ),
        (f"shaw?query_len=1&key_len=2&max_relative_position={2**31 - 2}", [[2**31 - 2, 2**31 - 1]]),
        (
            f"shaw?query_len=1&key_len=2&max_relative_position={2**31 - 1}&dtype=int64",
            [[2**31 - 1, 2**31]],
        ),
        (
            "shaw?query_len=1&key_len=2&max_relative_position=1&max_after=2147483646&descending=true",
            [[2**31 - 2, 2**31 - 3]],
        ),
    ],
)
def test_extreme_numbers_are_exact_in_their_type(
    client: Client, path: str, expected: list[list[int]]
) -> None:
    assert load_data(client.get(f"/relative/{path}")).tolist() == expected


def test_two_rows_are_buckets_of_one_direction(client: Client) -> None:
    answer = client.post(
        "/relative/t5/bias?query_len=2&bidirectional=false", json={"weight": [[0.5], [1.5]]}
    )

    assert answer.json()["data"] == [[[0.5, 0.5], [1.5, 0.5]]]


@pytest.mark.parametrize(
    "query", ["bucket_size=-1", "max_position=-1", "bucket_size=-1&max_position=-1"]
)
def test_without_buckets_distances_are_their_own_numbers(client: Client, query: str) -> None:
    answer = client.get(f"/relative/deberta?query_positions=7,-900&key_len=2&{query}").json()

    assert answer["data"] == [[7, 6], [-900, -901]]
    assert answer["parameters"]["bucket_size"] == -1
    assert "max_position" not in answer["parameters"]


def test_embeddings_are_the_rows_of_clipped_distances(client: Client) -> None:
    weight = [[0.5, -1.0], [0.25, -2.0], [1.5, 3.0]]
    url = "/relative/shaw/embeddings"

    answer = client.post(f"{url}?query_len=2&key_len=3", json={"weight": weight}).json()
    single = client.post(f"{url}?query_len=1&key_len=2", json={"weight": [[7.0]]}).json()

    assert answer["axes"] == ["query", "key", "channel"]
    assert answer["parameters"]["max_relative_position"] == 1
    assert answer["data"] == [[weight[1], weight[2], weight[2]], [weight[0], weight[1], weight[2]]]
    assert single["data"] == [[[7.0], [7.0]]]
