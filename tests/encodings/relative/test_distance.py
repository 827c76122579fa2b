"""Queries and keys, tables of their distances, and biases gathered from a learned table."""

import io
import tracemalloc
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

from service.encodings.relative.alibi import GivenSlopes, LinearBias, SlopeRule
from service.encodings.relative.distance import (
    BiasParameters,
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
    INT32,
    INT64,
    REAL_DTYPES,
    DType,
    Elements,
    to_float64,
)
from service.numerics.phase import Int64s
from service.numerics.positions import Positions, Run
from service.numerics.tables import overflows, setup_work, size
from tests.client import Client

FAR = 2**62
RUNS = st.builds(Run, st.integers(-50, 50), st.integers(-5, 5), st.integers(1, 6))
POSITIONS = st.lists(RUNS, min_size=1, max_size=3).map(Positions.of_runs)


@dataclass(frozen=True)
class Thirds:
    """(head + 1)/3 of a distance, or whole multiples of it; records how many it evaluates."""

    is_integer: bool = False
    sizes: list[int] = field(default_factory=list)
    work_per_element: int = 3

    def values(self, distances: Int64s, heads: range) -> Elements:
        self.sizes.append(len(heads) * len(distances))
        scale = np.arange(heads.start + 1, heads.stop + 1)[:, np.newaxis]
        return distances * scale if self.is_integer else distances * scale / 3

    def bound(self, pairs: QueryKey, heads: range) -> float:
        return pairs.farthest * heads.stop / 3


def span(start: int, count: int) -> Positions:
    return Positions.contiguous(start, count)


def listed(positions: Positions) -> list[int]:
    return [int(position) for position in positions.at(0, positions.count)]


@given(POSITIONS, POSITIONS, st.data())
def test_a_range_has_the_positions_and_distances_of_its_elements(
    queries: Positions, keys: Positions, data: st.DataObject
) -> None:
    pairs = QueryKey(queries, keys)
    everything = [(query, key) for query in listed(queries) for key in listed(keys)]
    start = data.draw(st.integers(0, len(everything) - 1))
    stop = data.draw(st.integers(start + 1, len(everything)))

    query, key = pairs.places(start, stop)

    assert list(zip(query.tolist(), key.tolist(), strict=True)) == everything[start:stop]
    differences = [key - query for query, key in everything]
    assert pairs.distances(start, stop).tolist() == differences[start:stop]
    assert pairs.shape == (queries.count, keys.count)
    assert pairs.farthest == max(map(abs, differences))
    assert pairs.farthest_behind == max(0, -min(differences))


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
def test_memory_is_bounded_by_the_range_that_is_read(
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


def test_one_table_holds_the_largest_and_smallest_distances_exactly() -> None:
    keys = Positions.of_runs([Run(-FAR, 1, 1), Run(0, 1, 2), Run(FAR, 1, 1)])
    table = RelativeTable(Thirds(is_integer=True), QueryKey(span(0, 1), keys), INT64)

    assert table.read(0, 4).tolist() == [-FAR, 0, 1, FAR]


def test_canonical_parameters_are_starts_and_lengths_of_contiguous_positions() -> None:
    contiguous = QueryKey(span(7, 1), span(0, 8))
    scattered = QueryKey(
        Positions.of_runs([Run(0, 2, 4)]), Positions.of_runs([Run(3, 1, 1), Run(3, 1, 1)])
    )

    assert contiguous.parameters() == {
        "query_start": 7,
        "query_len": 1,
        "key_start": 0,
        "key_len": 8,
    }
    assert scattered.parameters() == {"query_positions": "0:7:2", "key_positions": "3,3"}


def test_heads_are_a_leading_axis_or_one_head_has_none() -> None:
    pairs = QueryKey(span(0, 2), span(0, 3))

    several = RelativeTable(Thirds(), pairs, FLOAT64, range(4), has_head_axis=True)
    whole = several.read(0, 24).reshape(4, 2, 3)

    assert (several.shape, several.work_per_element) == ((4, 2, 3), 3)
    for head in range(4):
        expected = [[(key - query) * (head + 1) / 3 for key in range(3)] for query in range(2)]
        assert whole[head].tolist() == expected
        alone = RelativeTable(Thirds(), pairs, FLOAT64, range(head, head + 1))
        assert alone.shape == (2, 3)
        assert alone.read(0, 6).tolist() == whole[head].ravel().tolist()


@given(POSITIONS, POSITIONS, st.sampled_from([*REAL_DTYPES.values(), INT32, INT64]), st.data())
def test_any_range_has_the_bytes_of_the_whole(
    queries: Positions, keys: Positions, dtype: DType, data: st.DataObject
) -> None:
    function = Thirds(is_integer=dtype in {INT32, INT64})
    table = RelativeTable(function, QueryKey(queries, keys), dtype, range(3), has_head_axis=True)
    start = data.draw(st.integers(0, size(table) - 1))
    stop = data.draw(st.integers(start, size(table)))

    part = table.read(start, stop)

    assert part.dtype == np.dtype(dtype.storage)
    assert part.tobytes() == table.read(0, size(table))[start:stop].tobytes()


@pytest.mark.parametrize("step", [1, 7, 100, 300])
def test_the_size_of_steps_does_not_change_bytes(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    pairs = QueryKey(span(-9, 20), span(3, 13))
    table = RelativeTable(Thirds(), pairs, FLOAT64, range(2), has_head_axis=True)
    at_once = table.read(0, size(table))
    monkeypatch.setattr("service.encodings.relative.distance.STEP_ELEMENTS", step)
    monkeypatch.setattr("service.numerics.tables.STEP_ELEMENTS", step)

    assert at_once.tobytes() == table.read(0, size(table)).tobytes()


@pytest.mark.parametrize(("stretch", "evaluated"), [(1, 499), (2, 997), (50, 24_901), (2**40, 499)])
def test_each_distance_is_evaluated_once(stretch: int, evaluated: int) -> None:
    """Gaps between distances are evaluated too while that is less than the elements."""
    function = Thirds()
    keys = Positions.of_runs([Run(0, stretch, 300)])
    queries = Positions.of_runs([Run(0, stretch, 200)])
    table = RelativeTable(function, QueryKey(queries, keys), FLOAT64)

    values = table.read(0, 200 * 300).reshape(200, 300)

    assert function.sizes == [evaluated]
    query, key = np.mgrid[0:200, 0:300] * stretch
    assert (values == (key - query) / 3).all()


def test_values_beyond_a_type_are_infinite_without_a_warning() -> None:
    keys = Positions.of_runs([Run(-FAR, 1, 1), Run(1, 1, 1), Run(FAR, 1, 1)])
    for dtype in REAL_DTYPES.values():
        table = RelativeTable(Thirds(), QueryKey(span(0, 1), keys), dtype)

        low, third, high = to_float64(table.read(0, 3), dtype)

        assert overflows(table) == (dtype is FLOAT16)
        if dtype is FLOAT16:
            assert (low, high) == (-np.inf, np.inf)
        else:
            assert low == -high == pytest.approx(-FAR / 3, rel=2.0**-8)
        assert third == pytest.approx(1 / 3, rel=2.0**-8)


def test_many_heads_of_few_pairs_are_evaluated_together() -> None:
    """A round of NumPy for each head would take seconds."""
    for keys in (span(0, 3), Positions.of_runs([Run(0, 5, 2), Run(9, 1, 1)])):
        function = Thirds()
        pairs = QueryKey(span(0, 1), keys)
        table = RelativeTable(function, pairs, FLOAT64, range(5000), has_head_axis=True)

        values = table.read(1, 14_999)

        # The two ends are parts of a head, and evaluated by themselves.
        assert len(function.sizes) == 3
        assert values.tolist() == table.read(0, 15_000)[1:-1].tolist()


def test_a_table_overflows_if_one_of_its_heads_does() -> None:
    """The bound is (head + 1)·65,500/3, and float16 ends at 65,520."""

    def table(head: int | None, count: int, dtype: DType = FLOAT16) -> RelativeTable:
        parameters = BiasParameters(query_len=1, key_start=65_500, key_len=1, head=head)
        return parameters.bias_table(Thirds(), dtype, count)

    assert not overflows(table(None, 3))
    assert overflows(table(None, 4))
    assert overflows(table(3, 4))
    assert not overflows(table(2, 4))
    assert not overflows(table(3, 4, FLOAT32))


def test_evaluating_slopes_is_counted_before_the_first_bias() -> None:
    ones = np.ones(12)
    rule, sent = SlopeRule("original", 12, 8.0), GivenSlopes(ones)

    for head in (None, 3):
        parameters = BiasParameters(query_len=2, head=head)
        for slopes, expected in ((rule, setup_work(rule)), (sent, 0)):
            for function in (LinearBias(slopes), Kernel(slopes, ones, ones, is_causal=True)):
                assert setup_work(parameters.bias_table(function, FLOAT64, 12)) == expected


def pairs(**values: object) -> QueryKey:
    return QueryKeyParameters.model_validate(values).pairs


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
    ("values", "rule"),
    [
        ({}, "query_len is required, unless query_positions is given"),
        ({"query_len": 1, "query_positions": "1"}, "does not go with query_positions"),
        ({"query_len": 2, "query_start": FAR}, "lies beyond 2\\^62"),
        ({"query_len": 1, "query_start": -1, "key_start": FAR, "key_len": 1}, "within 2\\^62"),
        ({"query_len": 1, "query_start": 7}, "key_len=query_start\\+query_len"),
    ],
)
def test_a_refusal_of_queries_and_keys_says_the_rule(values: dict[str, object], rule: str) -> None:
    with pytest.raises(InvalidParameters, match=rule):
        pairs(**values)


# Without buckets, DeBERTa's numbers are query − key.
DISTANCES = "/relative/deberta"


def distances(client: Client, query: str, extension: str = "") -> httpx.Response:
    return client.get(f"{DISTANCES}{extension}?bucket_size=-1&{query}")


def test_one_decoded_query_sees_the_whole_cache(client: Client) -> None:
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
def test_the_parameters_of_an_answer_request_it_again(client: Client, query: str) -> None:
    first = distances(client, query)

    again = client.get(f"{DISTANCES}?{urlencode(first.json()['parameters'])}")

    assert again.headers["ETag"] == first.headers["ETag"]


@pytest.mark.parametrize(("query", "distance"), [(0, FAR), (FAR, -FAR)])
def test_the_farthest_distance_is_exact(client: Client, query: int, distance: int) -> None:
    places = f"query_len=1&query_start={query}&key_start={query + distance}&key_len=1"

    answer = distances(client, f"{places}&dtype=int64", ".npy")

    assert np.load(io.BytesIO(answer.content)).tolist() == [[-distance]]


def test_a_range_of_a_row_longer_than_any_memory_is_answered(client: Client) -> None:
    columns, header_bytes = 2**50, 128
    url = f"{DISTANCES}.npy?bucket_size=-1&query_len=3&key_len={columns}&dtype=int64"
    start = header_bytes + 8 * (columns - 2)

    part = client.get(url, range=f"bytes={start}-{start + 31}")

    assert part.status_code == 206
    assert np.frombuffer(part.content, "<i8").tolist() == [2 - columns, 1 - columns, 1, 0]
    assert client.head(url).headers["Array-Shape"] == f"3, {columns}"
    assert client.head(url).headers["Array-Axes"] == "query, key"


def test_a_table_of_more_than_2_to_the_63_elements_is_refused(client: Client) -> None:
    answer = client.get(f"/relative/t5.npy?query_len={FAR}&key_len={FAR}")

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"


# A path, a query, the rows of its table of biases, and how the index is requested.
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
        ("/relative/swin", "window_size=2,3", 15, "class_token=false"),
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
def test_a_bias_is_the_row_of_its_index(
    client: Client, path: str, query: str, rows: int, index: str, dtype: str
) -> None:
    weight = np.random.default_rng(0).standard_normal((rows, 3)).astype(dtype)
    numbers = npy(client.get(f"{path}.npy?{query}&{index}"))

    bias = npy(sent(client, f"{path}/bias?{query}", weight))
    one = sent(client, f"{path}/bias.csv?{query}&head=2", weight)

    assert bias.dtype == weight.dtype
    assert bias.tobytes() == weight[numbers].transpose(2, 0, 1).tobytes()
    assert one.headers["Array-Axes"] == "query, key"
    matrix = np.loadtxt(io.StringIO(one.text), delimiter=",", ndmin=2)
    assert (matrix.astype(dtype) == weight[numbers, 2]).all()


@ROUTES
def test_the_parameters_of_biases_request_them_again(
    client: Client, path: str, query: str, rows: int, index: str
) -> None:
    weight = [[0.5, 1.5]] * rows

    answer = client.post(f"{path}/bias?{query}", json={"weight": weight}).json()

    assert answer["kind"] == f"{path[1:].replace('/', '-')}-bias"
    assert answer["axes"] == ["head", "query", "key"]
    again = client.post(f"{path}/bias", json={"weight": weight, **answer["parameters"]})
    assert again.json() == answer
    assert index in urlencode(answer["parameters"]).lower()


@ROUTES
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_copied_where_the_format_holds_them(
    client: Client, path: str, query: str, rows: int, index: str, value: float
) -> None:
    weight = np.full((rows, 1), value, dtype=np.float32)
    numbers = npy(client.get(f"{path}.npy?{query}&{index}"))

    bias = npy(sent(client, f"{path}/bias.npy?{query}", weight))
    refused = sent(client, f"{path}/bias.json?{query}", weight)

    assert bias.tobytes() == weight[numbers].transpose(2, 0, 1).tobytes()
    assert refused.status_code == 422
    assert "no NaN" in refused.json()["detail"]


def test_bfloat16_is_copied_bit_for_bit(client: Client) -> None:
    weight = np.arange(12.0).reshape(4, 3).astype(ml_dtypes.bfloat16)
    header = '{"weight":{"dtype":"BF16","shape":[4, 3],"data_offsets":[0,24]}}'
    body = len(header).to_bytes(8, "little") + header.encode() + weight.tobytes()

    answer = client.post(
        "/relative/t5/bias?query_len=2&key_len=5",
        content=body,
        headers={"Content-Type": "application/vnd.safetensors"},
    )

    assert (answer.headers["Array-Dtype"], answer.headers["Array-Shape"]) == ("bfloat16", "3, 2, 5")
    numbers = npy(client.get("/relative/t5.npy?query_len=2&key_len=5&num_buckets=4"))
    assert answer.content.endswith(weight[numbers].transpose(2, 0, 1).tobytes())


@ROUTES
@pytest.mark.parametrize("extra", [-1, 1])
def test_other_numbers_of_rows_are_refused(
    client: Client, path: str, query: str, rows: int, index: str, extra: int
) -> None:
    answer = sent(client, f"{path}/bias?{query}&{index}", np.zeros((rows + extra, 2)))

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error.get("parameter") == "num_buckets" or error.get("pointer") == "/weight"


@pytest.mark.parametrize(
    ("path", "weight"),
    [
        ("/relative/t5/bias?query_len=2", np.zeros(8)),
        ("/relative/t5/bias?query_len=2", np.zeros((8, 2, 2))),
        ("/relative/t5/bias?query_len=2", np.zeros((3, 1))),
        ("/relative/t5/bias?query_len=2&bidirectional=false", np.zeros((1, 1))),
        ("/relative/t5/bias?query_len=2&bidirectional=false", np.zeros((65_537, 1))),
        ("/relative/swin/bias?window_size=2,3", np.zeros(15)),
        ("/relative/shaw/embeddings?query_len=2", np.zeros((4, 1))),
        ("/relative/shaw/embeddings?query_len=2&max_relative_position=1", np.zeros((4, 1))),
    ],
)
def test_a_weight_of_an_impossible_shape_is_named(
    client: Client, path: str, weight: NDArray[Any]
) -> None:
    answer = sent(client, path, weight)

    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/weight"]
