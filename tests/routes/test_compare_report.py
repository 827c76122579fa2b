"""What is said of a comparison."""

from typing import Any

import numpy as np

from service.analysis.comparing.alignment import alignments
from service.analysis.comparing.comparison import compare
from service.analysis.comparing.overlay import Overlay
from service.analysis.comparing.tolerance import Tolerance
from service.routes.compare_report import MOST_RANGES, MOST_RUNS, Reported
from service.tables.dtypes import FLOAT64, Elements
from service.tables.table import StoredTable


def reported(yours: Elements, theirs: Elements, first: int = 0, **asked: float) -> Reported:
    way = alignments(yours.shape, theirs.shape)[0]
    over = Overlay(StoredTable(yours, FLOAT64), StoredTable(theirs, FLOAT64), way)
    tolerance = Tolerance(asked.get("atol"), asked.get("rtol"), FLOAT64, 1.0)
    found = compare(over, tolerance, 0, 1)
    positions = first + np.arange(way.region[0])
    return Reported(found, way, ("position", "channel"), positions, is_integer=False)


def bad_at(*rows: int, count: int = 1000) -> Any:
    yours = np.zeros((count, 4))
    yours[list(rows), 2] = 0.5
    return reported(yours, np.zeros((count, 4)), first=100).content()


def test_rows_before_the_first_error_are_good_and_counted_by_position() -> None:
    said = bad_at(257, 600)

    assert said["good_to"] == 356
    assert said["good_positions"] == {
        "count": 998,
        "of": 1000,
        "runs": [
            {"first": 100, "last": 356},
            {"first": 358, "last": 699},
            {"first": 701, "last": 1099},
        ],
        "further_runs": 0,
    }
    assert said["first_beyond"]["position"] == 357
    assert said["first_beyond"]["channel"] == 2


def test_nothing_is_good_where_the_first_row_is_not() -> None:
    assert bad_at(0)["good_to"] is None
    assert bad_at()["good_to"] == 1099
    assert bad_at(*range(1000))["good_positions"]["runs"] == []


def test_many_runs_and_rows_are_short_profiles() -> None:
    said = bad_at(*range(0, 1000, 2))

    assert len(said["good_positions"]["runs"]) == MOST_RUNS
    assert said["good_positions"]["further_runs"] == 500 - MOST_RUNS
    ranges = said["errors_by_position"]
    assert len(ranges) <= MOST_RANGES
    assert (ranges[0]["first"], ranges[-1]["last"]) == (100, 1099)
    assert all(ranges[i]["last"] + 1 == ranges[i + 1]["first"] for i in range(len(ranges) - 1))


def test_each_channel_has_its_largest_error() -> None:
    assert [each["largest"] for each in bad_at(5)["errors_by_channel"]] == [0.0, 0.0, 0.5, 0.0]


def test_errors_that_grow_are_within_each_epsilon_up_to_another_position() -> None:
    yours = np.repeat(np.arange(10.0)[:, None], 2, axis=1)
    report = reported(yours, np.zeros((10, 2)))

    assert report.within((0.5, 3.0, 100.0)) == [
        {"epsilon": 0.5, "good_to": 0},
        {"epsilon": 3.0, "good_to": 3},
        {"epsilon": 100.0, "good_to": 9},
    ]


def test_what_is_no_number_is_a_word_and_its_error_null() -> None:
    yours = np.array([[np.nan, np.inf], [-np.inf, 1.0]])

    said = reported(yours, np.ones((2, 2))).content()

    assert said["first_not_finite"]["yours"] == "NaN"
    assert said["first_not_finite"]["error"] is None
    assert [each["largest"] for each in said["errors_by_position"]] == [None, None]
    assert said["largest"]["absolute"] is None


def test_an_index_is_that_of_the_array_which_was_sent() -> None:
    theirs = np.zeros((3, 5))
    yours = np.zeros((5, 1, 3))
    yours[4, 0, 2] = 1.0

    said = reported(yours, theirs).content()

    assert said["largest"]["absolute"]["index"] == [4, 0, 2]
    assert (said["largest"]["absolute"]["position"], said["largest"]["absolute"]["channel"]) == (
        2,
        4,
    )
    assert said["axes"]["order"] == [2, 0]
    assert said["axes"]["removed"] == {"yours": [1], "theirs": []}


def test_a_prefix_is_said_from_either_side() -> None:
    for mine, other, axis in (((2, 5), (3, 5), "position"), ((3, 7), (3, 5), "channel")):
        prefix = reported(np.zeros(mine), np.zeros(other)).content()["axes"]["prefix"]
        assert (prefix["axis"], prefix["compared"]) == (
            axis,
            min(prefix["yours"], prefix["theirs"]),
        )
    one_row = reported(np.zeros((4, 5)), np.zeros((1, 5))).content()["axes"]["prefix"]
    assert one_row == {"axis": None, "yours": 4, "theirs": 1, "compared": 1}


def test_the_tolerance_that_was_applied_is_said() -> None:
    asked = reported(np.ones((2, 2)), np.zeros((2, 2)), atol=2.0).content()

    assert asked["tolerance"] == {"atol": 2.0, "rtol": 0.0}
    assert asked["first_beyond"] is None
    assert bad_at()["tolerance"] == {"ulp": 4, "of": "float64", "at_least_of": 1.0}
