"""Queries and keys: every element by itself, in any range, however many there are beside it."""

import tracemalloc
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tables.angle import Int64s
from service.tables.dtypes import (
    FLOAT16,
    FLOAT64,
    INT32,
    INT64,
    REAL_DTYPES,
    DType,
    Elements,
    widened,
)
from service.tables.positions import Positions, Run
from service.tables.query_key import QueryKey, RelativeTable
from service.tables.table import size

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
        monkeypatch.setattr("service.tables.query_key.STEP_ELEMENTS", step)
        monkeypatch.setattr("service.tables.table.STEP_ELEMENTS", step)

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

        low, third, high = widened(table.read(0, 3), dtype)

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
