"""Queries and keys: every element by itself, in any range, however many there are beside it.

Biases of heads.

Parameters of queries and keys, on a small resource made for the test.

What every route that looks rows of a sent array up promises.
"""

import io
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.app import create_app
from service.delivery.resources import Resource
from service.encodings.fields import ArrayParameters, IndexDType, index_dtype_field
from service.encodings.relative.alibi import GivenSlopes, Linear, SlopeRule
from service.encodings.relative.distance import (
    QueryKey,
    QueryKeyParameters,
    RelativeTable,
    agreed,
    bias_document,
    check_fits,
    head_biases,
    wrong_rows,
)
from service.encodings.relative.kerple import kernel
from service.errors import InvalidBody, InvalidParameters
from service.numerics.document import Document
from service.numerics.dtypes import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INDEX_DTYPES,
    INT32,
    INT64,
    REAL_DTYPES,
    DType,
    Elements,
    to_float64,
)
from service.numerics.phase import Float64s, Int64s
from service.numerics.positions import Positions, Run
from service.numerics.tables import overflows, setup_work, size
from service.settings import default_settings
from tests.client import Client, client_of

FAR = 2**62
RUNS = st.builds(Run, st.integers(-50, 50), st.integers(-5, 5), st.integers(1, 6))
POSITIONS = st.lists(RUNS, min_size=1, max_size=3).map(Positions.of_runs)


@dataclass(frozen=True)
class Scaled:
    """As many thirds of a distance as the head has of them, or whole numbers of them."""

    is_integer: bool = False
    sizes: list[int] = field(default_factory=list)
    work_per_element: int = 3

    def values(self, distances: Int64s, heads: range) -> Elements:
        self.sizes.append(len(heads) * len(distances))
        scale = np.arange(heads.start + 1, heads.stop + 1)[:, np.newaxis]
        return distances * scale if self.is_integer else distances * scale / 3


def span(start: int, count: int) -> Positions:
    return Positions.contiguous(start, count)


def listed(positions: Positions) -> list[int]:
    return [int(position) for position in positions.at(0, positions.count)]


@given(POSITIONS, POSITIONS, st.data())
def test_every_range_gives_the_distances_of_its_elements(
    queries: Positions, keys: Positions, data: st.DataObject
) -> None:
    pairs = QueryKey(queries, keys)
    everything = [key - query for query in listed(queries) for key in listed(keys)]
    start = data.draw(st.integers(0, len(everything) - 1))
    stop = data.draw(st.integers(start + 1, len(everything)))

    assert pairs.distances(start, stop).tolist() == everything[start:stop]
    assert pairs.shape == (queries.count, keys.count)
    assert pairs.farthest == max(map(abs, everything))


@given(POSITIONS, POSITIONS, st.data())
def test_every_range_gives_the_places_of_its_elements(
    queries: Positions, keys: Positions, data: st.DataObject
) -> None:
    everything = [(query, key) for query in listed(queries) for key in listed(keys)]
    start = data.draw(st.integers(0, len(everything) - 1))
    stop = data.draw(st.integers(start + 1, len(everything)))

    query, key = QueryKey(queries, keys).places(start, stop)

    found = list(zip(query.tolist(), key.tolist(), strict=True))
    assert found == everything[start:stop]


LONG = 2**50
STEPPED = Positions.of_runs([Run(-FAR, 2**12, LONG - 3), Run(7, -1, 3)])


@pytest.mark.parametrize(
    ("queries", "keys", "row"),
    [
        (span(5, 3), span(-LONG, LONG), 1),
        (span(5, 3), STEPPED, 2),
        (STEPPED, span(-2, 5), LONG // 2),
        (STEPPED, span(-2, 5), LONG - 100),
        (span(-LONG, LONG), span(0, 1), LONG - 600),
        (span(0, 2**30), span(0, 2**31), 2**29),
    ],
)
@pytest.mark.parametrize("length", [1, 7, 1000])
def test_no_more_is_held_than_the_range_that_is_read(
    queries: Positions, keys: Positions, row: int, length: int
) -> None:
    """Each range crosses the beginning of a row."""
    pairs, columns = QueryKey(queries, keys), keys.count
    flat = range(row * columns - length // 2, row * columns - length // 2 + length)
    expected = [
        (queries.at(row, row + 1)[0], keys.at(column, column + 1)[0])
        for row, column in (divmod(one, columns) for one in flat[:5])
    ]
    pairs.places(0, 1)
    tracemalloc.start()
    try:
        query, key = pairs.places(flat.start, flat.stop)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 10_000 + 120 * length
    assert list(zip(query, key, strict=True))[:5] == expected
    assert len(query) == length


def test_the_last_elements_of_the_largest_table_are_read() -> None:
    pairs = QueryKey(span(0, 2**30), span(-(2**31), 2**31))
    last = 2**61

    assert pairs.distances(last - 2, last).tolist() == [-2 - (2**30 - 1), -1 - (2**30 - 1)]


@pytest.mark.parametrize(("query", "key"), [(0, FAR), (FAR, 0), (-(2**61), 2**61), (-FAR, 0)])
def test_distances_reach_two_to_the_62(query: int, key: int) -> None:
    pairs = QueryKey(span(query, 1), span(key, 1))

    assert pairs.farthest == FAR
    assert pairs.distances(0, 1).tolist() == [key - query]


def test_the_farthest_distances_stand_beside_near_ones() -> None:
    keys = Positions.of_runs([Run(-FAR, 1, 1), Run(0, 1, 2), Run(FAR, 1, 1)])
    table = RelativeTable(Scaled(is_integer=True), QueryKey(span(0, 1), keys), INT64)

    assert table.read(0, 4).tolist() == [-FAR, 0, 1, FAR]


@pytest.mark.parametrize(
    ("queries", "keys", "parameters"),
    [
        (
            span(7, 1),
            span(0, 8),
            {"query_start": 7, "query_len": 1, "key_start": 0, "key_len": 8},
        ),
        (
            Positions.of_runs([Run(0, 2, 4)]),
            Positions.of_runs([Run(3, 1, 1), Run(3, 1, 1)]),
            {"query_positions": "0:7:2", "key_positions": "3,3"},
        ),
    ],
)
def test_starts_and_lengths_are_said_where_they_say_it_all(
    queries: Positions, keys: Positions, parameters: dict[str, object]
) -> None:
    assert QueryKey(queries, keys).parameters() == parameters


def test_heads_are_a_leading_axis_or_none() -> None:
    pairs = QueryKey(span(0, 2), span(0, 3))

    alone = RelativeTable(Scaled(), pairs, FLOAT64)
    several = RelativeTable(Scaled(), pairs, FLOAT64, heads=4)

    assert (alone.shape, several.shape) == ((2, 3), (4, 2, 3))
    assert alone.work_per_element == 3
    whole = several.read(0, 24).reshape(4, 2, 3)
    assert alone.read(0, 6).tolist() == whole[0].ravel().tolist()
    for head in range(4):
        expected = [[(key - query) * (head + 1) / 3 for key in range(3)] for query in range(2)]
        assert whole[head].tolist() == expected


@given(POSITIONS, POSITIONS, st.sampled_from([*REAL_DTYPES.values(), INT32, INT64]), st.data())
def test_any_range_has_the_bytes_of_the_whole(
    queries: Positions, keys: Positions, dtype: DType, data: st.DataObject
) -> None:
    of_distance = Scaled(is_integer=dtype in {INT32, INT64})
    table = RelativeTable(of_distance, QueryKey(queries, keys), dtype, heads=3)
    start = data.draw(st.integers(0, size(table) - 1))
    stop = data.draw(st.integers(start, size(table)))

    part = table.read(start, stop)

    assert part.dtype == np.dtype(dtype.storage)
    assert part.tobytes() == table.read(0, size(table))[start:stop].tobytes()


def test_many_elements_are_the_same_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    table = RelativeTable(Scaled(), QueryKey(span(-9, 20), span(3, 13)), FLOAT64, heads=2)
    at_once = table.read(0, size(table))
    for step in (1, 7, 100, 300):
        monkeypatch.setattr("service.encodings.relative.distance.STEP_ELEMENTS", step)
        monkeypatch.setattr("service.numerics.tables.STEP_ELEMENTS", step)

        assert at_once.tobytes() == table.read(0, size(table)).tobytes()


@pytest.mark.parametrize(("stretch", "evaluated"), [(1, 499), (2, 997), (50, 24_901), (2**40, 499)])
def test_each_distance_is_evaluated_once_and_between_them_no_more_than_there_are_elements(
    stretch: int, evaluated: int
) -> None:
    of_distance = Scaled()
    keys = Positions.of_runs([Run(0, stretch, 300)])
    queries = Positions.of_runs([Run(0, stretch, 200)])
    table = RelativeTable(of_distance, QueryKey(queries, keys), FLOAT64)

    found = table.read(0, 200 * 300).reshape(200, 300)

    assert of_distance.sizes == [evaluated]
    query, key = np.mgrid[0:200, 0:300] * stretch
    assert (found == (key - query) / 3).all()


def test_values_are_rounded_once_and_what_is_too_large_is_infinite_without_a_warning() -> None:
    keys = Positions.of_runs([Run(-FAR, 1, 1), Run(1, 1, 1), Run(FAR, 1, 1)])
    for dtype in REAL_DTYPES.values():
        table = RelativeTable(Scaled(), QueryKey(span(0, 1), keys), dtype)

        low, third, high = to_float64(table.read(0, 3), dtype)

        if dtype is FLOAT16:
            assert (low, high) == (-np.inf, np.inf)
        else:
            assert low == -high == pytest.approx(-FAR / 3, rel=2.0**-8)
        assert third == pytest.approx(1 / 3, rel=2.0**-8)


def test_many_heads_of_few_pairs_are_evaluated_at_once() -> None:
    """A round of NumPy for each would take seconds."""
    for keys in (span(0, 3), Positions.of_runs([Run(0, 5, 2), Run(9, 1, 1)])):
        of_distance = Scaled()
        table = RelativeTable(of_distance, QueryKey(span(0, 1), keys), FLOAT64, heads=5000)

        found = table.read(1, 14_999)

        # The two ends are parts of a head, and evaluated by themselves.
        assert len(of_distance.sizes) == 3
        assert found.tolist() == table.read(0, 15_000)[1:-1].tolist()


@given(POSITIONS, POSITIONS)
def test_keys_behind_queries_are_measured(queries: Positions, keys: Positions) -> None:
    behind = [query - key for query in listed(queries) for key in listed(keys)]

    assert QueryKey(queries, keys).farthest_behind == max(0, *behind)


PAIRS = QueryKey(Positions.contiguous(0, 2), Positions.contiguous(0, 3))


@dataclass(frozen=True, eq=False)
class Tens:
    work_per_element: int = 7

    def values(self, distances: Int64s, heads: range) -> Float64s:
        tens = 10.0 * np.arange(heads.start, heads.stop)[:, np.newaxis]
        return np.asarray(tens + distances, dtype=np.float64)

    def bound(self, pairs: QueryKey, heads: range) -> float:
        return 10.0 * (heads.stop - 1) + pairs.farthest


def test_all_heads_come_first_and_one_alone_is_a_matrix() -> None:
    all_of_them = head_biases(Tens(), PAIRS, FLOAT64, 3, None)
    last = head_biases(Tens(), PAIRS, FLOAT64, 3, 2)

    assert (all_of_them.shape, last.shape) == ((3, 2, 3), (2, 3))
    assert all_of_them.read(12, 18).tolist() == last.read(0, 6).tolist() == [20, 21, 22, 19, 20, 21]
    assert last.work_per_element == 7


def test_the_one_head_is_a_parameter_and_no_axis() -> None:
    table = head_biases(Tens(), PAIRS, FLOAT64, 3, 2)

    one = bias_document("relative-alibi", {"num_heads": 3}, table, 2)
    every = bias_document("relative-alibi", {"num_heads": 3}, table, None)

    assert (one.axes, one.parameters["head"]) == (("query", "key"), 2)
    assert (every.axes, "head" in every.parameters) == (("head", "query", "key"), False)
    assert one.states_axes
    assert every.states_axes


def test_a_table_overflows_where_a_head_that_is_wanted_does() -> None:
    far = QueryKey(Positions.contiguous(0, 1), Positions.contiguous(65_490, 1))

    assert not overflows(head_biases(Tens(), far, FLOAT16, 3, None))
    assert overflows(head_biases(Tens(), far, FLOAT16, 4, None))
    assert overflows(head_biases(Tens(), far, FLOAT16, 4, 3))
    assert not overflows(head_biases(Tens(), far, FLOAT16, 4, 2))
    assert not overflows(head_biases(Tens(), far, FLOAT32, 4, 3))


def test_biases_take_the_setting_up_of_their_slopes() -> None:
    ones = np.ones(12)
    rule, sent = SlopeRule("original", 12, 8.0), GivenSlopes(ones)
    expected = setup_work(rule)

    for head in (None, 3):
        linear = [Linear(of, is_symmetric=False, is_masked=False) for of in (rule, sent)]
        found = [setup_work(head_biases(of, PAIRS, FLOAT64, 12, head)) for of in linear]
        assert found == [expected, 0]
        numbers = {"a": ones, "p": ones}
        kernels = [
            kernel("nemo", given, is_causal=True) for given in (numbers, {**numbers, "b": ones})
        ]
        found = [setup_work(head_biases(of, PAIRS, FLOAT64, 12, head)) for of in kernels]
        assert found == [expected, 0]


class DistanceParameters(ArrayParameters, QueryKeyParameters):
    """Parameters of distances."""

    dtype: IndexDType = index_dtype_field()


class Itself:
    """A distance is worth itself."""

    work_per_element = 1

    def values(self, distances: Int64s, heads: range) -> Int64s:
        return distances + heads.start


def distances(parameters: DistanceParameters) -> Document:
    pairs = parameters.pairs()
    table = RelativeTable(Itself(), pairs, INDEX_DTYPES[parameters.dtype])
    axes = ("query", "key")
    arrays = {"distance": table}
    return Document("relative-t5", pairs.parameters(), arrays, axes=axes, states_axes=True)


DISTANCES = Resource(
    path="/distances",
    operation="Distances",
    summary="Distances",
    parameters=DistanceParameters,
    document=distances,
    example="query_len=2",
)


@pytest.fixture(scope="module")
def asked() -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.app.ENDPOINTS", (DISTANCES,))
        app = create_app(default_settings())
    with client_of(app) as client:
        yield client


def pairs(**values: object) -> QueryKey:
    return QueryKeyParameters.model_validate(values).pairs()


@pytest.mark.parametrize(
    ("values", "queries", "keys"),
    [
        ({"query_len": "3"}, span(0, 3), span(0, 3)),
        ({"query_len": "3", "key_len": "5"}, span(0, 3), span(0, 5)),
        ({"query_len": "1", "query_start": "7", "key_len": "8"}, span(7, 1), span(0, 8)),
        ({"query_positions": "0:2", "key_start": 3}, span(0, 2), span(3, 2)),
        ({"query_positions": "4,9", "key_len": 2}, Positions.of_runs([Run(4, 5, 2)]), span(0, 2)),
        ({"query_positions": [4], "key_start": -1, "key_len": 1}, span(4, 1), span(-1, 1)),
        ({"query_len": 2, "key_positions": "3:9:2"}, span(0, 2), Positions.of_runs([Run(3, 2, 3)])),
        ({"query_len": FAR, "key_len": FAR}, span(0, FAR), span(0, FAR)),
    ],
)
def test_queries_and_keys_are_runs_or_lists(
    values: dict[str, object], queries: Positions, keys: Positions
) -> None:
    assert pairs(**values) == QueryKey(queries, keys)


@pytest.mark.parametrize(
    ("values", "where", "rule"),
    [
        ({}, "query_len", "query_len is required, unless query_positions is given"),
        ({"key_len": 3}, "query_len", "query_len is required"),
        ({"query_len": 1, "query_positions": "1"}, "query_len", "does not go with query_positions"),
        ({"query_start": 0, "query_positions": "1"}, "query_start", "does not go with"),
        (
            {"query_len": 1, "key_len": 1, "key_positions": "1"},
            "key_len",
            "key_len does not go with key_positions",
        ),
        ({"query_len": 1, "key_start": 0, "key_positions": "1"}, "key_start", "does not go with"),
        ({"query_len": 2, "query_start": FAR}, "query_start", "lies beyond 2\\^62"),
        ({"query_len": 1, "key_len": 2, "key_start": FAR}, "key_start", "lies beyond 2\\^62"),
        (
            {"query_len": 1, "query_start": -1, "key_start": FAR, "key_len": 1},
            *("query_start", "within 2\\^62"),
        ),
        ({"query_len": 1, "query_start": 7}, "key_len", "key_len=query_start\\+query_len"),
        ({"query_positions": "4,9"}, "key_len", "key_len is required"),
        ({"query_len": 1, "query_start": FAR, "key_positions": "0,-1"}, "query_start", "within"),
    ],
)
def test_what_is_said_twice_or_not_or_lies_too_far_is_refused_where_it_is(
    values: dict[str, object], where: str, rule: str
) -> None:
    with pytest.raises(InvalidParameters, match=rule) as caught:
        pairs(**values)

    assert caught.value.faults[0].where == where


@pytest.mark.parametrize(
    "query",
    [
        "query_len=0",
        "query_len=-1",
        "query_len=1.0",
        f"query_len={FAR + 1}",
        "query_len=1&key_len=0",
        f"query_len=1&query_start={FAR + 1}",
        f"query_len=1&key_start={-FAR - 1}",
        "query_positions=",
        "query_positions=3:3",
        "query_len=1&key_positions=1;2",
        "query_len=1&query_len=1",
        "query_length=1",
        "query_len=1&seq_len=1",
    ],
)
def test_what_cannot_be_is_a_problem(asked: Client, query: str) -> None:
    answer = asked.get(f"/distances?{query}")

    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:posref:problem:invalid-parameters"
    name, _, _ = query.rpartition("&")[-1].partition("=")
    assert answer.json()["errors"][0]["parameter"] == name


def test_one_decoded_query_sees_the_whole_cache(asked: Client) -> None:
    answer = asked.get("/distances?query_start=5&query_len=1&key_len=6").json()

    assert answer["data"] == [[-5, -4, -3, -2, -1, 0]]
    assert answer["axes"] == ["query", "key"]
    assert answer["parameters"] == {
        "query_start": 5,
        "query_len": 1,
        "key_start": 0,
        "key_len": 6,
    }


@pytest.mark.parametrize(
    "query",
    [
        "query_len=2",
        "query_positions=0,1",
        "query_len=2&key_len=2&key_start=0&query_start=0",
        "query_positions=0:2&key_positions=0,1",
    ],
)
def test_spellings_of_the_same_pairs_are_one_table(asked: Client, query: str) -> None:
    answer = asked.get(f"/distances.npy?{query}")

    assert answer.headers["ETag"] == asked.get("/distances.npy?query_len=2").headers["ETag"]


@pytest.mark.parametrize(
    "query", ["query_len=3&key_start=-4", "query_positions=5,5,1&key_positions=0:9:3,2"]
)
def test_the_parameters_of_an_answer_ask_for_it_again(asked: Client, query: str) -> None:
    first = asked.get(f"/distances?{query}")

    again = asked.get(f"/distances?{urlencode(first.json()['parameters'])}")

    assert again.headers["ETag"] == first.headers["ETag"]


@pytest.mark.parametrize(("query", "distance"), [(0, FAR), (FAR, -FAR)])
def test_the_farthest_distance_is_exact(asked: Client, query: int, distance: int) -> None:
    key = query + distance

    answer = asked.get(
        f"/distances.npy?query_len=1&query_start={query}&key_start={key}&key_len=1&dtype=int64"
    )

    assert np.load(io.BytesIO(answer.content)).tolist() == [[distance]]


def test_a_range_of_a_cache_longer_than_any_memory_is_answered(asked: Client) -> None:
    columns, header_bytes = 2**50, 128
    url = f"/distances.npy?query_len=3&key_len={columns}&dtype=int64"
    start = header_bytes + 8 * (columns - 2)

    part = asked.get(url, range=f"bytes={start}-{start + 31}")

    assert part.status_code == 206
    assert np.frombuffer(part.content, "<i8").tolist() == [columns - 2, columns - 1, -1, 0]
    assert asked.head(url).headers["Array-Shape"] == f"3, {columns}"
    assert asked.head(url).headers["Array-Axes"] == "query, key"


def test_a_table_beyond_what_can_be_counted_is_too_large(asked: Client) -> None:
    answer = asked.get(f"/distances.npy?query_len={FAR}&key_len={FAR}")

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"


# A path, a query, the number of rows that it takes, and the indices that it looks up.
ROUTES = pytest.mark.parametrize(
    ("path", "query", "rows", "index"),
    [
        ("/relative/t5", "query_len=3&key_len=7&max_distance=20", 8, "num_buckets=8"),
        (
            "/relative/t5",
            "query_start=9&query_len=1&key_len=10&bidirectional=false",
            6,
            "num_buckets=6",
        ),
        ("/relative/swin", "window_size=2,3", 15, ""),
        ("/relative/swin", "window_size=2,3", 18, "class_token=true"),
    ],
)


def npy(answer: httpx.Response) -> NDArray[Any]:
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


def sent(client: Client, url: str, weight: NDArray[Any]) -> httpx.Response:
    stream = io.BytesIO()
    np.save(stream, weight)
    headers = {"Content-Type": "application/x-npy"}
    return client.post(url, content=stream.getvalue(), headers=headers)


@ROUTES
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_bias_is_the_row_that_the_index_names(
    client: Client, path: str, query: str, rows: int, index: str, dtype: str
) -> None:
    weight = np.random.default_rng(0).standard_normal((rows, 3)).astype(dtype)
    numbers = npy(client.get(f"{path}.npy?{query}&{index}"))

    bias = npy(sent(client, f"{path}/bias?{query}", weight))

    assert bias.dtype == weight.dtype
    assert bias.tobytes() == weight[numbers].transpose(2, 0, 1).tobytes()


@ROUTES
def test_one_head_is_a_matrix_that_csv_can_hold(
    client: Client, path: str, query: str, rows: int, index: str
) -> None:
    weight = np.arange(3.0 * rows).reshape(rows, 3)
    numbers = npy(client.get(f"{path}.npy?{query}&{index}"))

    answer = sent(client, f"{path}/bias.csv?{query}&head=2", weight)

    assert answer.headers["Array-Axes"] == "query, key"
    found = np.loadtxt(io.StringIO(answer.text), delimiter=",", ndmin=2)
    assert (found == weight[numbers, 2]).all()


@ROUTES
def test_an_answer_says_what_a_json_client_asked_for(
    client: Client, path: str, query: str, rows: int, index: str
) -> None:
    answer = client.post(f"{path}/bias?{query}", json={"weight": [[0.5, 1.5]] * rows}).json()

    assert answer["kind"] == f"{path[1:].replace('/', '-')}-bias"
    assert answer["axes"] == ["head", "query", "key"]
    again = client.post(
        f"{path}/bias", json={"weight": [[0.5, 1.5]] * rows, **answer["parameters"]}
    )
    assert again.json() == answer
    assert index.replace("true", "True") in "&".join(
        f"{name}={value}" for name, value in answer["parameters"].items()
    )


@ROUTES
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_passes_where_it_can_be_held(
    client: Client, path: str, query: str, rows: int, index: str, value: float
) -> None:
    weight = np.full((rows, 1), value, dtype=np.float32)
    numbers = npy(client.get(f"{path}.npy?{query}&{index}"))

    bias = npy(sent(client, f"{path}/bias.npy?{query}", weight))

    assert bias.tobytes() == weight[numbers].transpose(2, 0, 1).tobytes()
    refused = sent(client, f"{path}/bias.json?{query}", weight)
    assert refused.status_code == 422
    assert "no NaN" in refused.json()["detail"]


def test_bfloat16_is_copied_as_it_is(client: Client) -> None:
    weight = np.arange(12.0).reshape(4, 3).astype(ml_dtypes.bfloat16)
    body = _safetensors("weight", "BF16", weight)

    answer = client.post(
        "/relative/t5/bias?query_len=2&key_len=5",
        content=body,
        headers={"Content-Type": "application/vnd.safetensors"},
    )

    assert (answer.headers["Array-Dtype"], answer.headers["Array-Shape"]) == ("bfloat16", "3, 2, 5")
    numbers = npy(client.get("/relative/t5.npy?query_len=2&key_len=5&num_buckets=4"))
    assert answer.content.endswith(weight[numbers].transpose(2, 0, 1).tobytes())


def _safetensors(name: str, dtype: str, array: NDArray[Any]) -> bytes:
    shape = list(array.shape)
    header = f'{{"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{array.nbytes}]}}}}'
    return len(header).to_bytes(8, "little") + header.encode() + array.tobytes()


@ROUTES
@pytest.mark.parametrize("extra", [-1, 1])
def test_rows_that_do_not_fit_are_refused(
    client: Client, path: str, query: str, rows: int, index: str, extra: int
) -> None:
    said = f"&{index}" if index else "&class_token=false"

    answer = sent(client, f"{path}/bias?{query}{said}", np.zeros((rows + extra, 2)))

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error.get("parameter") == "num_buckets" or error.get("pointer") == "/weight"


@ROUTES
def test_a_head_that_is_not_there_is_refused(
    client: Client, path: str, query: str, rows: int, index: str
) -> None:
    answer = sent(client, f"{path}/bias?{query}&head=2", np.zeros((rows, 2)))

    assert answer.status_code == 422, index
    assert [error["parameter"] for error in answer.json()["errors"]] == ["head"]


@ROUTES
@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_a_table_of_other_axes_is_refused(
    client: Client, path: str, query: str, rows: int, index: str, shape: tuple[int, ...]
) -> None:
    answer = sent(client, f"{path}/bias?{query}", np.zeros((rows, *shape)))

    assert answer.status_code == 422, index
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/weight"]


def test_what_an_array_says_may_be_said_again_and_not_otherwise() -> None:
    assert agreed("num_buckets", None, 32) == agreed("num_buckets", 32, 32) == 32
    with pytest.raises(InvalidParameters, match="num_buckets is 32"):
        agreed("num_buckets", 31, 32)


def test_wrong_rows_point_at_the_table() -> None:
    error = wrong_rows(3, "an even number")

    assert isinstance(error, InvalidBody)
    assert [(fault.where, fault.in_body) for fault in error.faults] == [("/weight", True)]


def test_numbers_beyond_32_bits_need_64() -> None:
    check_fits(INT32, 2**31 - 1)
    check_fits(INT64, 2**31)
    with pytest.raises(InvalidParameters, match="dtype=int64"):
        check_fits(INT32, 2**31)
