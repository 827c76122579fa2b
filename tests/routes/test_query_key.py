"""Parameters of queries and keys, on a small resource made for the test."""

import io
from collections.abc import Iterator
from urllib.parse import urlencode

import numpy as np
import pytest

from service.app import create_app
from service.delivery.resource import ArrayParameters, Resource
from service.errors import InvalidParameters
from service.routes.parameters import IndexDType, index_dtype_field
from service.routes.query_key import QueryKeyParameters
from service.settings import default_settings
from service.tables.angle import Int64s
from service.tables.document import Document
from service.tables.dtypes import INDEX_DTYPES
from service.tables.positions import Positions, Run
from service.tables.query_key import QueryKey, RelativeTable
from tests.client import Client, client_of

FAR = 2**62


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
        patch.setattr("service.app.RESOURCES", (DISTANCES,))
        app = create_app(default_settings())
    with client_of(app) as client:
        yield client


def pairs(**values: object) -> QueryKey:
    return QueryKeyParameters.model_validate(values).pairs()


def span(start: int, count: int) -> Positions:
    return Positions.contiguous(start, count)


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
