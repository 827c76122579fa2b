"""Sequences of integer positions in canonical form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.numerics.phase import MAX_POSITION
from service.numerics.positions import Positions, Run

RUNS = st.lists(
    st.builds(Run, st.integers(-20, 20), st.sampled_from([-7, -2, -1, 1, 2, 3]), st.integers(1, 6)),
    min_size=1,
    max_size=6,
)


def expanded(runs: list[Run]) -> list[int]:
    return [run.first + run.step * index for run in runs for index in range(run.count)]


@given(RUNS)
def test_equal_positions_have_equal_canonical_forms(runs: list[Run]) -> None:
    one_by_one = [Run(position, 1, 1) for position in expanded(runs)]

    assert Positions.of_runs(one_by_one) == Positions.of_runs(runs)


@given(RUNS, st.data())
def test_slices_of_positions_are_those_of_a_list(runs: list[Run], data: st.DataObject) -> None:
    positions = Positions.of_runs(runs)
    everything = expanded(runs)
    start = data.draw(st.integers(0, len(everything) - 1))
    stop = data.draw(st.integers(start, len(everything)))

    assert len(everything) == positions.count
    assert everything[start:stop] == positions.at(start, stop).tolist()


def test_contiguous_positions_are_formatted_as_start_and_length() -> None:
    positions = Positions.of_runs([Run(5, 1, 2), Run(7, 1, 3)])

    assert positions.is_contiguous
    assert positions.parameters() == {"start": 5, "seq_len": 5}


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([Run(0, 1, 1), Run(5, 1, 1), Run(9, 2, 6), Run(3, 1, 4)], "0,5,9:20:2,3:7"),
        ([Run(5, -1, 6)], "5:-1:-1"),
        ([Run(3, 1, 1)] * 3, "3,3,3"),
    ],
)
def test_other_positions_are_formatted_as_integers_and_ranges(runs: list[Run], text: str) -> None:
    assert str(Positions.of_runs(runs)) == text


def test_a_run_of_any_length_takes_no_memory() -> None:
    positions = Positions.contiguous(-(2**61), 2**62)

    assert positions.count == 2**62
    assert positions.at(2**62 - 2, 2**62).tolist() == [2**61 - 2, 2**61 - 1]


@pytest.mark.parametrize("ends", [(-(2**62), 2**62), (2**62, -(2**62))])
def test_two_positions_may_be_2_to_the_63_apart(ends: tuple[int, int]) -> None:
    alone = Positions.of_runs(Run(end, 1, 1) for end in ends)
    as_a_range = Positions.of_runs([Run(ends[0], ends[1] - ends[0], 2)])

    assert alone == as_a_range
    assert alone.at(0, 2).tolist() == list(ends)
    assert str(alone) == f"{ends[0]},{ends[1]}"


@given(st.lists(st.integers(-MAX_POSITION, MAX_POSITION), min_size=1, max_size=6), st.integers())
def test_least_most_and_farthest_are_of_all_runs(positions: list[int], origin: int) -> None:
    sequence = Positions.of_runs(Run(position, 1, 1) for position in positions)

    assert (sequence.least, sequence.most) == (min(positions), max(positions))
    assert sequence.farthest == max(map(abs, positions))
    assert sequence.farthest_from(origin) == max(abs(each - origin) for each in positions)


@given(RUNS, st.integers(-(2**61), 2**61))
def test_moved_positions_have_a_canonical_form(runs: list[Run], distance: int) -> None:
    moved = Positions.of_runs(runs).moved(distance)

    one_by_one = [Run(position + distance, 1, 1) for position in expanded(runs)]
    assert moved == Positions.of_runs(one_by_one)
    assert moved.moved(-distance) == Positions.of_runs(runs)
    assert moved.at(0, moved.count).tolist() == [run.first for run in one_by_one]


def test_moved_positions_may_exceed_the_range() -> None:
    moved = Positions.contiguous(0, 2**62 + 1).moved(2)

    assert moved.parameters() == {"start": 2, "seq_len": 2**62 + 1}
    assert moved.farthest == MAX_POSITION + 2


@given(
    st.lists(
        st.one_of(RUNS, st.lists(st.integers(-9, 9), min_size=1, max_size=9)),
        min_size=1,
        max_size=5,
    )
)
def test_single_positions_are_runs_of_one(mixed: list[list[Run | int]]) -> None:
    alone = [each for part in mixed for each in part]
    runs = [Run(each, 1, 1) if isinstance(each, int) else each for each in alone]

    assert Positions.of_runs(alone) == Positions.of_runs(runs)


def test_positions_of_many_runs_are_exact() -> None:
    ends, runs = [-(2**62), 2**62] * 3 + [7, 9], [Run(-5, 2**60, 5), Run(0, 0, 4)]
    positions = Positions.of_runs([*ends, *runs])

    everything = ends + expanded(runs)
    assert positions.at(0, positions.count).tolist() == everything
    assert positions.at(3, 12).tolist() == everything[3:12]
    assert positions.at(4, 4).tolist() == []
