"""Queries and keys, tables of their distances, and biases gathered from a learned table."""

import tracemalloc
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.relative.alibi import GivenSlopes, LinearBias, SlopeRule
from service.encodings.relative.distance import (
    BiasParameters,
    DistanceFunction,
    QueryKey,
    QueryKeyParameters,
    RelativeTable,
)
from service.encodings.relative.kerple import Kernel
from service.errors import InvalidParameters
from service.numerics.dtypes import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    REAL_DTYPES,
    DType,
    Elements,
    to_float64,
)
from service.numerics.phase import Int64s
from service.numerics.positions import Positions, Run
from service.numerics.setups import setup_of
from service.numerics.tables import overflows, size
from tests.client import Client, load_npy, npy_bytes

FAR = 2**62
RUNS = st.builds(Run, st.integers(-50, 50), st.integers(-5, 5), st.integers(1, 6))
POSITIONS = st.lists(RUNS, min_size=1, max_size=3).map(Positions.of_runs)


@dataclass(frozen=True)
class Thirds(DistanceFunction):
    """(head + 1)/3 of a distance; records the number of evaluations."""

    sizes: list[int] = field(default_factory=list)

    def values(self, distances: Int64s, heads: range) -> Elements:
        self.sizes.append(len(heads) * len(distances))
        return distances * np.arange(heads.start + 1, heads.stop + 1)[:, np.newaxis] / 3

    def bound(self, pairs: QueryKey, heads: range) -> float:
        return pairs.farthest * heads.stop / 3


class Distance(DistanceFunction):
    """The distance itself, an integer."""

    def values(self, distances: Int64s, heads: range) -> Elements:  # noqa: ARG002
        return distances


def span(start: int, count: int) -> Positions:
    return Positions.contiguous(start, count)


def stepped(*runs: tuple[int, int, int]) -> Positions:
    return Positions.of_runs(Run(*run) for run in runs)


@given(POSITIONS, POSITIONS, st.sampled_from(sorted(REAL_DTYPES)), st.booleans(), st.data())
def test_any_range_has_the_values_of_its_distances(
    queries: Positions, keys: Positions, dtype: str, is_one_head: bool, data: st.DataObject
) -> None:
    pairs = QueryKey(queries, keys)
    heads = range(1, 2) if is_one_head else range(3)
    table = RelativeTable(Thirds(), pairs, REAL_DTYPES[dtype], heads, not is_one_head)
    start = data.draw(st.integers(0, size(table) - 1))
    stop = data.draw(st.integers(start, size(table)))

    part = table.read(start, stop)

    distances = keys.at(0, keys.count) - queries.at(0, queries.count)[:, np.newaxis]
    values = (distances * (np.array(heads) + 1.0)[:, np.newaxis, np.newaxis] / 3).reshape(-1)
    assert table.shape == (*(() if is_one_head else (3,)), queries.count, keys.count)
    assert part.dtype == np.dtype(REAL_DTYPES[dtype].storage)
    assert to_float64(part, REAL_DTYPES[dtype]) == pytest.approx(values[start:stop], rel=2.0**-8)
    assert part.tobytes() == table.read(0, size(table))[start:stop].tobytes()
    assert pairs.farthest == pairs.longest(is_causal=False) == np.abs(distances).max()
    assert pairs.longest(is_causal=True) == max(0, -distances.min())


LONG = 2**50
STEPPED = stepped((-FAR, 2**12, LONG - 3), (7, -1, 3))


@pytest.mark.parametrize(
    ("queries", "keys", "row"),
    [
        (span(5, 3), span(-LONG, LONG), 1),
        (span(5, 3), STEPPED, 2),
        (STEPPED, span(-2, 5), LONG // 2),
        (span(-LONG, LONG), span(0, 1), LONG - 600),
        (span(0, 2**30), span(0, 2**31), 2**29),
    ],
)
@pytest.mark.parametrize("length", [1, 7, 1000])
def test_memory_is_bounded_by_the_range_that_is_read(
    queries: Positions, keys: Positions, row: int, length: int
) -> None:
    """Each range crosses the beginning of a row."""
    table, columns = RelativeTable(Distance(), QueryKey(queries, keys), INT64), keys.count
    start = row * columns - length // 2
    table.read(0, 1)

    tracemalloc.start()
    try:
        values = table.read(start, start + length)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 10_000 + 120 * length
    for index, value in enumerate(values[:5].tolist(), start):
        query, key = divmod(index, columns)
        assert value == keys.at(key, key + 1)[0] - queries.at(query, query + 1)[0]


@pytest.mark.parametrize(
    ("queries", "keys", "start", "expected"),
    [
        (span(0, 2**30), span(-(2**31), 2**31), 2**61 - 2, [-1 - 2**30, -(2**30)]),
        (span(0, 1), stepped((-FAR, 1, 1), (0, 1, 2), (FAR, 1, 1)), 0, [-FAR, 0, 1, FAR]),
        (span(FAR, 1), span(0, 1), 0, [-FAR]),
        (span(-(2**61), 1), span(2**61, 1), 0, [FAR]),
    ],
)
def test_the_farthest_distances_are_exact(
    queries: Positions, keys: Positions, start: int, expected: list[int]
) -> None:
    table = RelativeTable(Distance(), QueryKey(queries, keys), INT64)

    assert table.read(start, start + len(expected)).tolist() == expected


@pytest.mark.parametrize("keys", [10, 1000, 100_000, 2**40])
def test_a_part_of_a_row_evaluates_its_own_distances_alone(keys: int) -> None:
    function = Thirds()
    table = RelativeTable(function, QueryKey(span(0, 3), span(0, keys)), FLOAT64)

    table.read(keys + 3, keys + 8)

    assert function.sizes == [5]


@pytest.mark.parametrize(("stretch", "evaluated"), [(1, 499), (2, 997), (50, 24_901), (2**40, 499)])
def test_each_distance_is_evaluated_once(stretch: int, evaluated: int) -> None:
    """Distances in between are evaluated too while they are fewer than the elements."""
    function = Thirds()
    pairs = QueryKey(stepped((0, stretch, 200)), stepped((0, stretch, 300)))

    values = RelativeTable(function, pairs, FLOAT64).read(0, 200 * 300).reshape(200, 300)

    assert function.sizes == [evaluated]
    query, key = np.mgrid[0:200, 0:300] * stretch
    assert (values == (key - query) / 3).all()


@pytest.mark.parametrize("keys", [span(0, 3), stepped((0, 5, 2), (9, 1, 1))])
def test_many_heads_of_few_pairs_are_evaluated_together(keys: Positions) -> None:
    """One NumPy call for each of 65,536 heads would take seconds."""
    function = Thirds()
    pairs = QueryKey(span(0, 1), keys)
    table = RelativeTable(function, pairs, FLOAT64, range(5000), has_head_axis=True)

    table.read(1, 14_999)

    # The first and the last head are read in part, each by itself.
    assert len(function.sizes) == 3


@pytest.mark.parametrize("dtype", REAL_DTYPES.values())
def test_values_beyond_a_type_are_infinite_without_a_warning(dtype: DType) -> None:
    pairs = QueryKey(span(0, 1), stepped((-FAR, 1, 1), (1, 1, 1), (FAR, 1, 1)))
    table = RelativeTable(Thirds(), pairs, dtype)

    low, third, high = to_float64(table.read(0, 3), dtype)

    assert overflows(table) == (dtype is FLOAT16)
    assert low == -high == pytest.approx(-np.inf if dtype is FLOAT16 else -FAR / 3, rel=2.0**-8)
    assert third == pytest.approx(1 / 3, rel=2.0**-8)


@pytest.mark.parametrize(
    ("head", "count", "dtype", "expected"),
    [
        (None, 3, FLOAT16, False),
        (None, 4, FLOAT16, True),
        (3, 4, FLOAT16, True),
        (2, 4, FLOAT16, False),
        (3, 4, FLOAT32, False),
    ],
)
def test_a_table_overflows_if_one_of_its_heads_does(
    head: int | None, count: int, dtype: DType, expected: bool
) -> None:
    """The bound is (head + 1)·65,500/3, and float16 ends at 65,520."""
    parameters = BiasParameters(query_len=1, key_start=65_500, key_len=1, head=head)

    assert overflows(parameters.bias_table(Thirds(), dtype, count)) == expected


@pytest.mark.parametrize("head", [None, 3])
def test_setup_seconds_of_biases_is_that_of_their_slopes(head: int | None) -> None:
    ones = np.ones(12)
    rule, sent = SlopeRule("original", 12, 8.0625), GivenSlopes(ones)
    parameters = BiasParameters(query_len=2, head=head)

    for slopes, expected in ((rule, rule.new_seconds), (sent, 0)):
        for function in (LinearBias(slopes), Kernel(slopes, ones, ones, is_causal=True)):
            assert setup_of(parameters.bias_table(function, FLOAT64, 12)).seconds == expected


def pairs_of(**values: object) -> QueryKey:
    return QueryKeyParameters.model_validate(values).pairs


@pytest.mark.parametrize(
    ("values", "queries", "keys"),
    [
        ({"query_len": "3"}, span(0, 3), span(0, 3)),
        ({"query_len": "1", "query_start": "7", "key_len": "8"}, span(7, 1), span(0, 8)),
        ({"query_positions": "0:2", "key_start": 3}, span(0, 2), span(3, 2)),
        ({"query_positions": "4,9", "key_len": 2}, stepped((4, 5, 2)), span(0, 2)),
        ({"query_positions": [4], "key_start": -1, "key_len": 1}, span(4, 1), span(-1, 1)),
        ({"query_len": 2, "key_positions": "3:9:2"}, span(0, 2), stepped((3, 2, 3))),
        ({"query_len": FAR, "key_len": FAR}, span(0, FAR), span(0, FAR)),
    ],
)
def test_queries_and_keys_are_runs_or_lists(
    values: dict[str, object], queries: Positions, keys: Positions
) -> None:
    assert pairs_of(**values) == QueryKey(queries, keys)


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({}, "query_len is required unless query_positions is given"),
        ({"query_len": 1, "query_positions": "1"}, "does not go with query_positions"),
        ({"query_len": 2, "query_start": FAR}, "lies beyond 2\\^62"),
        ({"query_len": 1, "query_start": -1, "key_start": FAR, "key_len": 1}, "more than 2\\^62"),
        ({"query_len": 1, "query_start": 7}, "key_len=query_start\\+query_len"),
    ],
)
def test_a_refusal_of_queries_and_keys_states_the_rule(
    values: dict[str, object], rule: str
) -> None:
    with pytest.raises(InvalidParameters, match=rule):
        pairs_of(**values)


# Without buckets, DeBERTa's numbers are query − key.
DISTANCES = "/relative/deberta"


def distances(client: Client, query: str, extension: str = "") -> httpx.Response:
    return client.get(f"{DISTANCES}{extension}?bucket_size=-1&{query}")


def test_one_decoded_query_has_the_distances_to_all_cached_keys(client: Client) -> None:
    answer = distances(client, "query_start=5&query_len=1&key_len=6").json()

    assert answer["data"] == [[5, 4, 3, 2, 1, 0]]
    assert answer["axes"] == ["query", "key"]
    assert answer["parameters"] == {
        "bucket_size": -1,
        "query_start": 5,
        "query_len": 1,
        "key_start": 0,
        "key_len": 6,
    }


@pytest.mark.parametrize(
    "query",
    [
        "query_positions=0,1",
        "query_len=2&key_len=2&key_start=0&query_start=0",
        "query_positions=0:2&key_positions=0,1",
    ],
)
def test_equal_pairs_have_one_entity_tag(client: Client, query: str) -> None:
    tag = distances(client, "query_len=2", ".npy").headers["ETag"]

    assert distances(client, query, ".npy").headers["ETag"] == tag


@pytest.mark.parametrize(
    "query", ["query_len=3&key_start=-4", "query_positions=5,5,1&key_positions=0:9:3,2"]
)
def test_the_parameters_of_an_answer_reproduce_it(client: Client, query: str) -> None:
    first = distances(client, query)

    again = client.get(f"{DISTANCES}?{urlencode(first.json()['parameters'])}")

    assert again.headers["ETag"] == first.headers["ETag"]


def test_a_range_of_a_row_longer_than_any_memory_is_answered(client: Client) -> None:
    columns, header_bytes = 2**50, 128
    url = f"{DISTANCES}.npy?bucket_size=-1&query_len=3&key_len={columns}&dtype=int64"
    start = header_bytes + 8 * (columns - 2)

    part = client.get(url, range=f"bytes={start}-{start + 31}")

    assert part.status_code == 206
    assert np.frombuffer(part.content, "<i8").tolist() == [2 - columns, 1 - columns, 1, 0]
    assert client.head(url).headers["Array-Shape"] == f"3, {columns}"


def test_a_table_of_more_than_2_to_the_63_elements_is_refused(client: Client) -> None:
    answer = client.get(f"/relative/t5.npy?query_len={FAR}&key_len={FAR}")

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"


# A path, a query, the rows of its table of biases, and the parameter that the rows imply.
GATHERED = pytest.mark.parametrize(
    ("path", "query", "rows", "implied"),
    [
        ("/relative/t5", "query_len=3&key_len=7&max_distance=20", 8, "num_buckets=8"),
        (
            "/relative/t5",
            "query_start=9&query_len=1&key_len=10&bidirectional=false",
            6,
            "num_buckets=6",
        ),
        ("/relative/swin", "window_size=2,3", 15, "class_token=false"),
        ("/relative/swin", "window_size=2,3", 18, "class_token=true"),
    ],
)


def post(client: Client, url: str, weight: NDArray[Any]) -> httpx.Response:
    return client.post(
        url, content=npy_bytes(weight), headers={"Content-Type": "application/x-npy"}
    )


@GATHERED
def test_a_bias_is_the_row_of_its_index(
    client: Client, path: str, query: str, rows: int, implied: str
) -> None:
    weight = np.random.default_rng(0).standard_normal((rows, 3)).astype(np.float16)
    numbers = load_npy(client.get(f"{path}.npy?{query}&{implied}"))

    every = load_npy(post(client, f"{path}/bias?{query}", weight))
    one = post(client, f"{path}/bias?{query}&head=2", weight)

    assert every.dtype == weight.dtype
    assert every.tobytes() == weight[numbers].transpose(2, 0, 1).tobytes()
    assert one.headers["Array-Axes"] == "query, key"
    assert load_npy(one).tobytes() == weight[numbers, 2].tobytes()


@GATHERED
def test_the_parameters_of_biases_reproduce_them(
    client: Client, path: str, query: str, rows: int, implied: str
) -> None:
    weight = [[0.5, 1.5]] * rows

    answer = client.post(f"{path}/bias?{query}", json={"weight": weight}).json()

    again = client.post(f"{path}/bias", json={"weight": weight, **answer["parameters"]})
    assert again.json() == answer
    assert answer["axes"] == ["head", "query", "key"]
    assert implied in urlencode(answer["parameters"]).lower()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_copied_where_the_format_holds_them(
    client: Client, value: float
) -> None:
    weight = np.full((4, 1), value, dtype=np.float32)

    bias = load_npy(post(client, "/relative/t5/bias.npy?query_len=1", weight))
    refused = post(client, "/relative/t5/bias.json?query_len=1", weight)

    assert bias.tobytes() == weight[0].tobytes()
    assert refused.status_code == 422
    assert "no NaN" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("url", "rows", "place"),
    [
        ("/relative/t5/bias?query_len=2&num_buckets=8", 7, "num_buckets"),
        ("/relative/t5/bias?query_len=2", 3, "weight"),
        ("/relative/t5/bias?query_len=2&bidirectional=false", 1, "weight"),
        ("/relative/t5/bias?query_len=2&bidirectional=false", 65_537, "weight"),
        ("/relative/swin/bias?window_size=2,3&class_token=false", 16, "weight"),
        ("/relative/swin/bias?window_size=2,3", 17, "weight"),
        ("/relative/shaw/embeddings?query_len=2", 4, "weight"),
        ("/relative/shaw/embeddings?query_len=2&max_relative_position=1", 4, "weight"),
    ],
)
def test_a_wrong_number_of_rows_is_refused(client: Client, url: str, rows: int, place: str) -> None:
    answer = post(client, url, np.zeros((rows, 1)))

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error.get("parameter", error.get("pointer")) == place
