"""Rows of sinusoids: layouts and series of frequencies."""

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.families.sinusoid_rows import (
    layout_views,
    oriented_rows,
    row_series,
    series_of_single_rows,
    views,
)
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from tests.analysis.measured_rules import view_of
from tests.analysis.samples import sample_from, sample_of


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("float64", FLOAT64), ("float32", FLOAT32), ("float16", FLOAT16), ("bfloat16", BFLOAT16)],
)
def test_widened_numbers_have_the_narrow_type(name: str, dtype: DType) -> None:
    narrow = sample_of("encoding", seq_len=8, d_model=16, dtype=name)

    rows = next(oriented_rows(sample_from(narrow.reals())))

    assert rows.dtype is dtype


def test_the_scale_of_rows_is_their_norm() -> None:
    view = view_of(sample_of("encoding", seq_len=8, d_model=32, convention="mlx"))

    assert view.scale == pytest.approx(0.25, rel=1e-6)
    assert "cos² + sin² is 0.0625" in view.support


def test_rows_and_channels_of_zeros_are_left_out() -> None:
    view = view_of(sample_of("encoding", seq_len=5, d_model=7, convention="fairseq"))

    assert view.nonzero.tolist() == [0, 2, 3, 4]
    assert (view.pairs, view.channels.zeros) == (3, 1)


def test_angle_errors_bound_rounding() -> None:
    exact = sample_of("encoding", seq_len=40, d_model=16, dtype="float64")
    narrow = sample_of("encoding", seq_len=40, d_model=16, dtype="bfloat16")
    every = slice(None)

    phasors, _ = view_of(exact, "interleaved").phasors(every)
    rounded, errors = view_of(narrow, "interleaved").phasors(every)

    assert (np.abs(np.angle(rounded / phasors)) <= errors).all()
    assert errors.max() < 2.0**-6


def test_noise_and_arrays_of_other_ranks_have_no_layout() -> None:
    noise = np.random.default_rng(7).normal(size=(16, 16))

    assert not list(layout_views(sample_from(noise)))
    assert not list(oriented_rows(sample_from(noise.reshape(4, 8, 8))))
    assert not list(oriented_rows(Sample(np.full(4, np.nan), FLOAT64, (4,))))


def test_columns_are_read_as_transposed_rows() -> None:
    transposed = sample_of("encoding", seq_len=20, d_model=6).reals().T

    fitting = [rows for rows in oriented_rows(sample_from(transposed)) if list(views(rows))]

    assert [rows.is_transposed for rows in fitting] == [True]


@pytest.mark.parametrize(("positions", "step"), [("0:40", 1), ("7:200:3", 3), ("5,100", 95)])
def test_evenly_spaced_rows_give_frequencies_and_step(positions: str, step: int) -> None:
    view = view_of(sample_of("encoding", positions=positions, d_model=32), "interleaved")

    rows = next(row_series(view))

    assert (rows.window, rows.sign) == (slice(0, 256), 1)
    assert rows.series.first == pytest.approx(step, rel=1e-5)
    assert rows.series.ratio**-16 == pytest.approx(10000, rel=1e-4)


def test_descending_rows_have_a_negative_sign() -> None:
    view = view_of(sample_of("relative/transformer-xl", key_len=20, d_model=16))

    assert next(row_series(view)).sign == -1


def test_rows_after_a_corrupted_one_give_the_series() -> None:
    values = sample_of("encoding", seq_len=40, d_model=32).reals()
    values[3] = values[30]

    rows = next(row_series(view_of(sample_from(values), "interleaved")))

    assert rows.window == slice(8, 24)


@pytest.mark.parametrize(
    ("positions", "ratio"), [("0,3,100,17,2047", 10000.0 ** (-1 / 16)), ("0", None)]
)
def test_a_row_beyond_position_0_gives_the_ratio(positions: str, ratio: float | None) -> None:
    view = view_of(sample_of("encoding", positions=positions, d_model=32), "interleaved")

    rows = series_of_single_rows(view)

    assert rows.window is None
    assert rows.series.has_ratio == (ratio is not None)
    assert ratio is None or rows.series.ratio == pytest.approx(ratio, rel=1e-6)


def test_rows_at_known_positions_give_the_series() -> None:
    known = np.array([3.0, 4, 5, 9, 20, 100])
    view = view_of(sample_of("encoding", positions="3,4,5,9,20,100", d_model=4), "interleaved")

    rows = next(row_series(view, known))

    assert rows.window is not None
    assert (rows.coordinates == known).all()
    assert rows.series.first == pytest.approx(1, rel=1e-5)
    assert rows.series.ratio == pytest.approx(0.01, rel=1e-5)


def test_known_positions_that_do_not_rise_are_ignored() -> None:
    view = view_of(sample_of("encoding", seq_len=6, d_model=32), "interleaved")

    rows = next(row_series(view, np.array([5.0, 4, 3, 2, 1, 0])))

    assert rows.coordinates.tolist() == [0, 1, 2, 3, 4, 5]
