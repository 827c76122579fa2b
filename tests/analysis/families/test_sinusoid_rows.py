"""Rows of sinusoids: layouts, series and places."""

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.families.sinusoid_rows import (
    layout_views,
    locate,
    locate_whole,
    oriented_rows,
    row_series,
    uneven_series,
    unwrapped_series,
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


BASE = 10000.0


def angles_of(position: float, count: int) -> np.ndarray:
    return position * BASE ** (-np.arange(count) / count)


def folded(angles: np.ndarray) -> np.ndarray:
    return (angles + np.pi) % (2 * np.pi) - np.pi


@pytest.mark.parametrize("position", [1.0, 0.25, 37.0, 999.0, -250.0])
def test_one_row_gives_the_ratio_of_its_frequencies(position: float) -> None:
    unwrapped = unwrapped_series(folded(angles_of(position, 32)), np.full(32, 1e-9))

    assert unwrapped is not None
    series, sign = unwrapped
    assert sign == np.sign(position)
    assert series.first == pytest.approx(abs(position), rel=1e-4)
    assert series.ratio**-32 == pytest.approx(BASE, rel=1e-4)


def test_angles_without_a_constant_ratio_have_no_series() -> None:
    angles = angles_of(5.0, 16)
    angles[8] *= 1.1

    assert unwrapped_series(folded(angles), np.full(16, 1e-9)) is None


def test_a_slowest_angle_within_its_error_has_no_series() -> None:
    assert unwrapped_series(np.array([1e-3, 1e-4]), np.full(2, 1e-2)) is None


OMEGA = 10000.0 ** (-np.arange(16) / 16)


def phases(places: list[float], omega: np.ndarray = OMEGA) -> np.ndarray:
    return (np.outer(places, omega) + np.pi) % (2 * np.pi) - np.pi


def errors(rows: int, omega: np.ndarray = OMEGA) -> np.ndarray:
    return np.full((rows, len(omega)), 1e-8)


def test_rows_in_any_order_are_located_with_fractions_among_them() -> None:
    places = [0.0, 0.5, 3.0, 100.0, 2047.0, -7.25]

    found = locate(phases(places), errors(6), OMEGA)

    assert found is not None
    assert found.rounded().tolist() == places


def test_a_place_many_turns_of_the_slowest_frequency_away_is_found() -> None:
    found = locate(phases([131071.0, 2.0**20]), errors(2), OMEGA)

    assert found is not None
    assert found.rounded().tolist() == [131071.0, 2.0**20]


def test_phases_of_other_frequencies_have_no_place() -> None:
    assert locate(phases([100.0], OMEGA**1.1), errors(1), OMEGA) is None


@pytest.mark.parametrize("place", [-5.0, 1000.0])
def test_one_frequency_alone_gives_the_nearest_whole_place(place: float) -> None:
    one = np.array([1.0])

    found = locate_whole(phases([place], one), np.full((1, 1), 1e-9), one)

    assert found is not None
    assert found.rounded().tolist() == [place]


def test_a_place_that_fits_by_chance_is_rejected() -> None:
    one = np.array([1.0])

    assert locate_whole(phases([1000.0], one), np.full((1, 1), 1e-3), one) is None
