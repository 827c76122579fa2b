"""Rows of sinusoids: layouts, series and places."""

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.families.sinusoid_rows import (
    layout_views,
    oriented_rows,
    row_series,
    uneven_series,
    views,
)
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from tests.analysis.measured_rules import view_of
from tests.analysis.samples import sample_from, sample_of


@pytest.mark.parametrize(
    ("name", "grain"),
    [("float64", FLOAT64), ("float32", FLOAT32), ("float16", FLOAT16), ("bfloat16", BFLOAT16)],
)
def test_the_grain_of_widened_numbers_is_the_narrow_type(name: str, grain: DType) -> None:
    narrow = sample_of("encoding", seq_len=8, d_model=16, dtype=name)

    rows = next(oriented_rows(sample_from(narrow.reals())))

    assert rows.grain is grain


def test_the_scale_of_rows_is_the_root_of_their_squares() -> None:
    view = view_of(sample_of("encoding", seq_len=8, d_model=32, convention="mlx"))

    assert view.scale == pytest.approx(0.25, rel=1e-6)
    assert "cos² + sin² is 0.0625" in view.support


def test_a_row_of_zeros_is_left_out_of_the_others() -> None:
    sample = sample_of("encoding", seq_len=5, d_model=7, convention="fairseq")

    view = view_of(sample)

    assert view.filled.tolist() == [0, 2, 3, 4]
    assert (view.pairs, view.channels.zeros) == (3, 1)


def test_angle_errors_bound_rounding() -> None:
    exact = sample_of("encoding", seq_len=40, d_model=16, dtype="float64")
    narrow = sample_of("encoding", seq_len=40, d_model=16, dtype="bfloat16")
    every = slice(None)

    turns, _ = view_of(exact, "interleaved").turns(every)
    rounded, errors = view_of(narrow, "interleaved").turns(every)

    assert (np.abs(np.angle(rounded / turns)) <= errors).all()
    assert errors.max() < 2.0**-6


def test_noise_and_arrays_of_other_ranks_are_read_in_no_layout() -> None:
    noise = np.random.default_rng(7).normal(size=(16, 16))

    assert not list(layout_views(sample_from(noise)))
    assert not list(oriented_rows(sample_from(noise.reshape(4, 8, 8))))
    assert not list(oriented_rows(Sample(np.full(4, np.nan), FLOAT64, (4,))))


def test_columns_are_read_as_transposed_rows() -> None:
    turned = sample_of("encoding", seq_len=20, d_model=6).reals().T

    assert [
        rows.is_transposed for rows in oriented_rows(sample_from(turned)) if list(views(rows))
    ] == [True]


@pytest.mark.parametrize(("positions", "step"), [("0:40", 1), ("7:200:3", 3), ("5,100", 95)])
def test_evenly_spaced_rows_give_frequencies_and_step(positions: str, step: int) -> None:
    view = view_of(sample_of("encoding", positions=positions, d_model=32), "interleaved")

    rows = next(row_series(view))

    assert (rows.is_even, rows.sign) == (True, 1)
    assert rows.series.first == pytest.approx(step, rel=1e-5)
    assert rows.series.ratio**-16 == pytest.approx(10000, rel=1e-4)


def test_descending_rows_have_a_negative_sign() -> None:
    view = view_of(sample_of("relative/transformer-xl", key_len=20, d_model=16))

    assert next(row_series(view)).sign == -1


def test_a_corrupted_row_moves_the_window() -> None:
    values = sample_of("encoding", seq_len=40, d_model=32).reals()
    values[3] = values[30]

    rows = next(row_series(view_of(sample_from(values), "interleaved")))

    assert rows.window == slice(8, 24)


def test_unordered_rows_give_the_ratio() -> None:
    view = view_of(sample_of("encoding", positions="0,3,100,17,2047", d_model=32), "interleaved")

    rows = uneven_series(view)

    assert not rows.is_even
    assert rows.series.ratio**-16 == pytest.approx(10000, rel=1e-5)


def test_a_row_at_position_0_has_no_ratio() -> None:
    view = view_of(sample_of("encoding", positions="0", d_model=8), "interleaved")

    assert np.isinf(uneven_series(view).series.ratio_error)


def test_rows_at_known_places_give_the_series() -> None:
    told = np.array([3.0, 4, 5, 9, 20, 100])
    values = sample_of("encoding", positions="3,4,5,9,20,100", d_model=4)
    view = view_of(values, "interleaved")

    rows = next(row_series(view, told))

    assert rows.is_even
    assert (rows.places == told).all()
    assert rows.series.first == pytest.approx(1, rel=1e-5)
    assert rows.series.ratio == pytest.approx(0.01, rel=1e-5)


def test_known_places_that_do_not_rise_are_ignored() -> None:
    view = view_of(sample_of("encoding", seq_len=6, d_model=32), "interleaved")

    rows = next(row_series(view, np.array([5.0, 4, 3, 2, 1, 0])))

    assert rows.places.tolist() == [0, 1, 2, 3, 4, 5]
