"""Numbers of distances, held to their definitions in integers.

Edges of buckets, held to comparisons of the powers themselves.

``/relative/t5`` through HTTP.

``/relative/deberta`` through HTTP.

``/relative/shaw`` through HTTP.
"""

from fractions import Fraction
from itertools import count, pairwise
from threading import Thread

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.encodings.relative.buckets import (
    MAX_EDGES,
    BucketRule,
    Clipped,
    DebertaBuckets,
    T5Buckets,
    Unbucketed,
    buckets,
    ceilings,
    floors,
    looked_up,
)
from service.encodings.relative.distance import QueryKey
from service.numerics.dtypes import INT32, INT64
from service.numerics.positions import Positions
from tests.client import Client

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


@given(st.integers(1, 400), st.integers(1, 10**6), st.integers(2, 60))
def test_a_ceiling_is_the_first_integer_from_a_power_on(low: int, more: int, steps: int) -> None:
    high = low + more

    for j, edge in enumerate(ceilings(low, high, steps).tolist(), start=1):
        power = high**j * low ** (steps - j)
        assert (edge - 1) ** steps < power <= edge**steps


@given(st.integers(1, 400), st.integers(1, 10**6), st.integers(1, 60), st.integers(1, 10**4))
def test_a_floor_is_the_last_integer_up_to_a_power(
    low: int, more: int, steps: int, limit: int
) -> None:
    high = low + more

    found = floors(low, high, steps, limit).tolist()[:200]

    assert all(edge < limit for edge in found)
    for j, edge in enumerate(found):
        power = high**j
        assert edge**steps * low**j <= power * low**steps < (edge + 1) ** steps * low**j


@pytest.mark.parametrize(("growth", "steps"), [(2, 1), (2, 5), (3, 7), (2, 62)])
def test_powers_that_are_integers_are_met_exactly(growth: int, steps: int) -> None:
    """(growth^steps)^(j/steps) is an integer for every j: the case that rounded logarithms miss."""
    high = growth**steps
    powers = [growth**j for j in range(steps)]

    assert ceilings(1, high, steps).tolist() == powers[1:]
    assert floors(1, high, steps, high).tolist() == powers


def test_powers_beside_integers_are_told_from_them() -> None:
    """√(2^61·(2^61 + 2)) is below 2^61 + 1 by less than 10^-18."""
    low, high = 2**61, 2**61 + 2

    assert ceilings(low, high, 2).tolist() == [2**61 + 1]
    assert floors(low, high, 2, high).tolist() == [2**61, 2**61]


def test_no_steps_have_no_edges() -> None:
    assert floors(1, 5, 0, 100).tolist() == []


def test_edges_reach_as_far_as_positions() -> None:
    edges = floors(128, 511, 127, 2**63)

    assert 2**62 < edges[-1] < 2**63 - 1
    assert all(before <= after for before, after in pairwise(edges.tolist()))


def test_edges_are_the_same_from_a_bare_thread() -> None:
    """The decimal context belongs to the thread, and a new one has 28 digits."""
    found = []
    thread = Thread(target=lambda: found.append(ceilings.__wrapped__(2048, 2**62, 2048)))
    thread.start()
    thread.join()

    assert np.array_equal(found[0], ceilings(2048, 2**62, 2048))
    assert found[0].dtype == np.int64


T5 = "/relative/t5"


def numbers(client: Client, query: str, path: str = T5) -> list[list[int]]:
    answer = client.get(f"{path}?{query}")
    assert answer.status_code == 200, answer.text
    rows: list[list[int]] = answer.json()["data"]
    return rows


def test_rows_are_queries_and_later_keys_have_the_second_half(client: Client) -> None:
    assert numbers(client, "query_len=3&key_len=4&num_buckets=8&max_distance=20") == [
        [0, 5, 6, 6],
        [1, 0, 5, 6],
        [2, 1, 0, 5],
    ]


def test_a_decoder_has_no_buckets_for_later_keys(client: Client) -> None:
    query = "query_len=3&key_len=4&num_buckets=8&max_distance=20&bidirectional=false"

    assert numbers(client, query) == [[0, 0, 0, 0], [1, 0, 0, 0], [2, 1, 0, 0]]


def test_one_decoding_step_is_the_last_row_of_all_steps(client: Client) -> None:
    rest = "key_len=300&bidirectional=false"

    assert (
        numbers(client, f"query_start=299&query_len=1&{rest}")
        == numbers(client, f"query_len=300&{rest}")[-1:]
    )


def test_buckets_are_exact_at_any_distance(client: Client) -> None:
    """8·16^(j/8) is an integer at even j; and the farthest pair of positions has a bucket."""
    keys = [-(2**62), -128, -127, -64, -63, -32, -31, 31, 32, 2**62]

    found = numbers(client, f"query_positions=0&key_positions={','.join(map(str, keys))}")

    assert found == [[15, 15, 15, 14, 13, 12, 11, 27, 28, 31]]


def test_a_huge_table_is_read_by_ranges(client: Client) -> None:
    url = f"{T5}.bin?query_len={2**29}&key_len={2**29}"
    last = 2**60 - 4

    answer = client.get(url, range=f"bytes={last - 4}-{last + 3}")

    assert answer.headers["Array-Shape"] == f"{2**29}, {2**29}"
    assert np.frombuffer(answer.content, "<i4").tolist() == [1, 0]


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("", "query_len", None),
        ("query_len=2&num_buckets=1", "num_buckets", "1"),
        ("query_len=2&num_buckets=3", "num_buckets", "3"),
        ("query_len=2&num_buckets=65537", "num_buckets", "65537"),
        ("query_len=2&num_buckets=1&bidirectional=false", "num_buckets", "1"),
        ("query_len=2&max_distance=8", "max_distance", "8"),
        ("query_len=2&max_distance=16&bidirectional=false", "max_distance", "16"),
        ("query_len=2&max_distance=0", "max_distance", "0"),
        ("query_len=2&bidirectional=yes", "bidirectional", "yes"),
        ("query_len=2&dtype=float32", "dtype", "float32"),
        ("query_len=2&head=0", "head", "0"),
    ],
)
def test_what_is_wrong_is_named(
    client: Client, query: str, parameter: str, value: str | None
) -> None:
    answer = client.get(f"{T5}?{query}")

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value)]


@pytest.mark.parametrize(
    ("rows", "query"), [(3, ""), (1, "&bidirectional=false"), (65_537, "&bidirectional=false")]
)
def test_a_table_has_as_many_rows_as_there_may_be_buckets(
    client: Client, rows: int, query: str
) -> None:
    answer = client.post(f"{T5}/bias?query_len=2{query}", json={"weight": [[0.5]] * rows})

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/weight"]


def test_a_table_without_rows_for_both_directions_serves_one(client: Client) -> None:
    answer = client.post(
        f"{T5}/bias?query_len=2&bidirectional=false", json={"weight": [[0.5], [1.5]]}
    )

    assert answer.json()["data"] == [[[0.5, 0.5], [1.5, 0.5]]]


DEBERTA = "/relative/deberta"


def test_numbers_count_from_the_key_to_the_query(client: Client) -> None:
    """The other way than those of T5: a key that comes later has a negative one."""
    assert numbers(client, "query_len=2&key_len=4", DEBERTA) == [[0, -1, -2, -3], [1, 0, -1, -2]]


def test_far_distances_share_numbers_that_are_not_clipped(client: Client) -> None:
    query = "query_positions=4,5,8,11,12,100&key_len=1&bucket_size=8&max_position=12"

    assert numbers(client, query, DEBERTA) == [[4], [5], [7], [7], [8], [14]]


@pytest.mark.parametrize(
    "none", ["bucket_size=-1", "max_position=-1", "bucket_size=-1&max_position=-1"]
)
def test_without_buckets_distances_are_their_own_numbers(client: Client, none: str) -> None:
    answer = client.get(f"{DEBERTA}?query_positions=7,-900&key_len=2&{none}").json()

    assert answer["data"] == [[7, 6], [-900, -901]]
    assert answer["parameters"]["bucket_size"] == -1
    assert "max_position" not in answer["parameters"]


def test_distances_beyond_32_bits_need_64(client: Client) -> None:
    far = f"{DEBERTA}?query_start={2**31}&query_len=1&key_len=1&bucket_size=-1"

    assert [error["parameter"] for error in client.get(far).json()["errors"]] == ["dtype"]
    assert client.get(f"{far}&dtype=int64").json()["data"] == [[2**31]]
    assert numbers(client, f"query_start={2**62}&query_len=1&key_len=1", DEBERTA) == [[3626]]


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("", "query_len", None),
        ("query_len=2&bucket_size=0", "bucket_size", "0"),
        ("query_len=2&bucket_size=1", "bucket_size", "1"),
        ("query_len=2&bucket_size=-2", "bucket_size", "-2"),
        ("query_len=2&bucket_size=65537", "bucket_size", "65537"),
        ("query_len=2&max_position=129", "max_position", "129"),
        ("query_len=2&max_position=0", "max_position", "0"),
        ("query_len=2&max_position=-2", "max_position", "-2"),
        ("query_len=2&max_position=-1&bucket_size=256", "bucket_size", "256"),
        ("query_len=2&max_position=512&bucket_size=-1", "max_position", "512"),
        (
            "query_start=1000000&query_len=2&key_len=2&bucket_size=60000&max_position=30002",
            "max_position",
            "30002",
        ),
    ],
)
def test_relative_deberta_what_is_wrong_is_named(
    client: Client, query: str, parameter: str, value: str | None
) -> None:
    answer = client.get(f"{DEBERTA}?{query}")

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value)]


SHAW = "/relative/shaw"


def test_distances_are_clipped_and_counted_from_zero(client: Client) -> None:
    answer = client.get(f"{SHAW}?query_len=3&key_len=4&max_relative_position=1")

    assert answer.json()["data"] == [[1, 2, 2, 2], [0, 1, 2, 2], [0, 0, 1, 2]]


def test_one_decoding_step_has_one_row(client: Client) -> None:
    answer = client.get(f"{SHAW}?query_start=4&query_len=1&key_len=5&max_relative_position=2")

    assert answer.json()["data"] == [[0, 0, 0, 1, 2]]


def test_embeddings_are_the_rows_that_distances_name(client: Client) -> None:
    weight = [[0.5, -1.0], [0.25, -2.0], [1.5, 3.0]]

    answer = client.post(f"{SHAW}/embeddings?query_len=2&key_len=3", json={"weight": weight}).json()

    assert answer["axes"] == ["query", "key", "channel"]
    assert answer["parameters"]["max_relative_position"] == 1
    assert answer["data"] == [
        [weight[1], weight[2], weight[2]],
        [weight[0], weight[1], weight[2]],
    ]


def test_a_table_of_one_row_has_one_embedding(client: Client) -> None:
    answer = client.post(f"{SHAW}/embeddings?query_len=1&key_len=2", json={"weight": [[7.0]]})

    assert answer.json()["data"] == [[[7.0], [7.0]]]


@pytest.mark.parametrize(
    ("query", "where"),
    [("query_len=2", "/weight"), ("query_len=2&max_relative_position=1", "/weight")],
)
def test_a_table_of_an_even_number_of_rows_is_refused(
    client: Client, query: str, where: str
) -> None:
    answer = client.post(f"{SHAW}/embeddings?{query}", json={"weight": [[1.0]] * 4})

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == [where]


def test_a_table_of_other_distances_than_are_said_is_refused(client: Client) -> None:
    url = f"{SHAW}/embeddings?query_len=2&max_relative_position=2"

    answer = client.post(url, json={"weight": [[1.0]] * 3})

    assert [error["parameter"] for error in answer.json()["errors"]] == ["max_relative_position"]


def test_numbers_beyond_32_bits_need_64(client: Client) -> None:
    most = 2**31 - 1
    near = f"{SHAW}?query_len=1&key_len=2&max_relative_position={most - 1}"
    far = f"{SHAW}?query_len=1&key_len=2&max_relative_position={most}"

    assert client.get(near).json()["data"] == [[most - 1, most]]
    assert [error["parameter"] for error in client.get(far).json()["errors"]] == ["dtype"]
    assert client.get(f"{far}&dtype=int64").json()["data"] == [[most, most + 1]]


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("query_len=2", "max_relative_position", None),
        ("max_relative_position=2", "query_len", None),
        ("query_len=2&max_relative_position=-1", "max_relative_position", "-1"),
        (
            f"query_len=2&max_relative_position={2**61 + 1}&dtype=int64",
            "max_relative_position",
            str(2**61 + 1),
        ),
    ],
)
def test_relative_shaw_what_is_wrong_is_named(
    client: Client, query: str, parameter: str, value: str | None
) -> None:
    answer = client.get(f"{SHAW}?{query}")

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value)]
