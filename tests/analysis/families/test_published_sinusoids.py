"""Conventions of absolute encodings, and positions of their rows."""

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.families.published_sinusoids import (
    ConventionCandidate,
    FrequencyFit,
    PositionedRows,
    base_fits,
    candidates,
    falling,
    is_unlikely_chance,
    listed_positions,
    positions_of,
)
from service.analysis.families.sinusoid_rows import row_series
from service.analysis.measure import GeometricSeries
from service.numerics.tables import ParameterValue
from tests.analysis.measured_rules import view_of
from tests.analysis.samples import sample_of


def candidates_of(sample: Sample, layout: str = "concatenated") -> list[ConventionCandidate]:
    view = view_of(sample, layout)
    return candidates(view, next(row_series(view)), None)


@pytest.mark.parametrize(
    "parameters",
    [
        {"convention": "fairseq", "base": 500.0},
        {"convention": "tensor2tensor", "min_timescale": 0.5, "max_timescale": 3000.0},
        {"convention": "mlx", "min_freq": 0.003, "max_freq": 0.5, "full_turns": True},
        {"convention": "x-transformers", "scale": 3.0},
        {"convention": "transformer-xl"},
        {"convention": "whisper"},
    ],
    ids=lambda parameters: parameters["convention"],
)
def test_a_convention_is_a_candidate_with_its_parameters(
    parameters: dict[str, ParameterValue],
) -> None:
    expected = {**parameters, "d_model": 16}
    sample = sample_of("encoding", seq_len=40, start=3, **expected)

    assert expected in [dict(each.parameters) for each in candidates_of(sample)]


def test_all_conventions_with_equal_tables_are_candidates() -> None:
    sample = sample_of("encoding", seq_len=40, d_model=16, layout="concatenated")

    assert [each.name for each in candidates_of(sample)] == [
        "vaswani",
        "marian",
        "mae",
        "diffusers",
        "transformer-xl",
        "x-transformers",
    ]


def test_odd_widths_are_those_of_the_conventions_that_have_them() -> None:
    cut = sample_of("encoding", seq_len=40, d_model=9, convention="positional-encodings")
    more = sample_of("encoding", seq_len=40, d_model=15, convention="transformer-xl")

    assert [each.name for each in candidates_of(cut, "interleaved")] == ["positional-encodings"]
    assert [dict(each.parameters) for each in candidates_of(more)] == [
        {"d_model": 15, "convention": "transformer-xl"}
    ]


def test_frequencies_fall_from_one_to_one_over_the_base() -> None:
    assert falling(100.0, 4, 3) == pytest.approx([1, 0.1, 0.01], rel=1e-15)


@pytest.mark.parametrize(("ratio", "error"), [(1.0, np.inf), (0.1, 1e-9)])
def test_a_series_without_a_base_in_range_has_the_default_base(ratio: float, error: float) -> None:
    assert [fit.base for fit in base_fits(GeometricSeries(1.0, ratio, error, error), 8, 4)] == [1e4]


def test_a_close_fit_counts_as_evidence_only_for_numbers_with_few_digits() -> None:
    assert is_unlikely_chance(1, 1e-4)
    assert not is_unlikely_chance(5, 1e-6)


@pytest.mark.parametrize("start", [0, 1, -300, 1000, 2**20])
def test_the_start_of_rows_is_found(start: int) -> None:
    sample = sample_of("encoding", start=start, seq_len=20, d_model=64, dtype="float64")
    view = view_of(sample, "interleaved")

    positioned = positions_of(view, next(row_series(view)), falling(10000.0, 64, 32))

    assert positioned is not None
    assert positioned.values.tolist() == list(range(start, start + 20))


@pytest.mark.parametrize("base", [10001.0, 500000.0])
def test_rows_have_no_positions_for_another_base(base: float) -> None:
    view = view_of(sample_of("encoding", start=900, seq_len=20, d_model=64), "interleaved")

    assert positions_of(view, next(row_series(view)), falling(base, 64, 32)) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1, 2], {"seq_len": 3}),
        ([7, 8, 9], {"seq_len": 3, "start": 7}),
        ([9, 8, 7], {"positions": "9:6:-1"}),
        ([0, 5, 9, 11, 13], {"positions": "0,5,9:14:2"}),
        ([0.5, 2, -1.25], {"positions": "0.5,2,-1.25"}),
    ],
)
def test_positions_have_the_shortest_parameters(
    values: list[float], expected: dict[str, ParameterValue]
) -> None:
    listed = listed_positions(np.array(values, dtype=np.float64))

    assert listed is not None
    assert list(listed) == list(expected)
    tables = [sample_of("encoding", d_model=2, **each).reals() for each in (listed, expected)]
    assert (tables[0] == tables[1]).all()


def test_too_many_positions_have_no_parameters() -> None:
    assert listed_positions(np.square(np.arange(10000.0))) is None


def test_support_names_the_base_the_span_and_the_error() -> None:
    fit = FrequencyFit({}, falling(10000.0, 128, 64), 10000.0, 128)

    assert fit.support(GeometricSeries(1.0, 0.9, 1e-9, 3e-8)) == (
        "64 frequencies are proportional to 10000^(-2k/128); the ratio of neighbours has a "
        "relative error of 3.0e-08"
    )


def test_support_names_the_positions_and_the_step() -> None:
    even = PositionedRows(np.array([3.0, 5.0]), 1e-8, 2.0)
    uneven = PositionedRows(np.array([3.0, 50.0]), 1e-8, None)

    assert even.support(2) == (
        "angles put the first row at position 5, with a step of 2, within 1.0e-08 radians"
    )
    assert uneven.support() == "angles put rows at positions from 3 to 50, within 1.0e-08 radians"
