"""Results of runs: saved, read again, merged, and written into a page."""

from pathlib import Path

import pytest

from benchmarks.growth.plot import drawn as drawn_plot
from benchmarks.page import drawn, filled
from benchmarks.results import Cell, Number, Ratio, Results, Table, load, merged


def run_of(rate: float, ratios: list[float], at_least: str = "0.9") -> Results:
    row: list[Cell] = ["rope", Number(rate, "elements/s"), Ratio(ratios, at_least)]
    return Results(["a machine"], {"families": Table(["family", "elements/s", "ratio"], [row])})


RUNS = [run_of(2e8, [0.7, 0.8, 0.9]), run_of(4e8, [1.0]), run_of(9e8, [0.5])]


def test_a_saved_run_is_read_again(tmp_path: Path) -> None:
    RUNS[0].save(tmp_path / "folder" / "run.json")
    assert load(tmp_path / "folder" / "run.json") == RUNS[0]


def test_merged_figures_are_medians_and_ratios_those_of_each_run() -> None:
    *_, row = merged([run.tables["families"] for run in RUNS])
    assert row == "| rope | 400 M | **0.8, 1.00, 0.5** |"


@pytest.mark.parametrize(
    ("ratio", "at_least", "misses"),
    [
        (0.89, "0.9", True),
        (0.91, "0.9", False),
        (0.16, "≤ 1/6.5", True),
        (0.15, "≤ 1/6.5", False),
        (1 / 63, "1/64", False),
        (1 / 65, "1/64", True),
        (9.0, "", False),
    ],
)
def test_a_median_beyond_its_limit_misses_it(ratio: float, at_least: str, *, misses: bool) -> None:
    assert Ratio([0.0, ratio, 99.0], at_least).misses == misses


def test_a_small_ratio_is_written_as_its_limit_is() -> None:
    assert str(Ratio([1 / 64, 1 / 32, 1 / 128], "1/45")) == "1/64.0 (1/128.0 to 1/32.0)"
    assert str(Ratio([0.125], "0.9")) == "0.125 (0.125 to 0.125)"


def test_runs_with_other_rows_are_not_merged() -> None:
    with pytest.raises(ValueError, match="zip"):
        merged([RUNS[0].tables["families"], Table(["family", "elements/s", "ratio"], [])])


def test_only_what_lies_between_comments_is_replaced() -> None:
    page = "Before\n<!-- families -->\nold\n<!-- end of families -->\nafter\n"
    new = filled(page, RUNS)
    assert new.startswith("Before\n<!-- families -->\n\n| family |")
    assert new.endswith("|\n\n<!-- end of families -->\nafter\n")
    assert "old" not in new
    assert filled(new, RUNS) == new


def growth(seconds: float) -> Results:
    rows = [
        ["length", name, Number(at, "count"), Number(seconds * at, "element")]
        for name in ("ours", "theirs")
        for at in (1, 4)
    ]
    return Results([], {"growth": Table(["what grows", "made by", "to", "an element"], rows)})


def test_the_plot_shows_the_median_of_the_runs() -> None:
    assert drawn([growth(1e-9), growth(2e-9), growth(8e-9)]) == drawn([growth(2e-9)])


def test_the_plot_has_a_line_for_each_series() -> None:
    panels = {"length": {"ours": [(1, 2.0), (4, 1.0)], "theirs & <others>": [(1, 20.0), (4, 20.0)]}}
    picture = drawn_plot(panels, "ns")
    assert picture.count("<polyline") == 2
    assert "theirs &amp; &lt;others&gt;" in picture
