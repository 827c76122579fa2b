""" """

import numpy as np
import pytest

from service.analysis.array import Sample
from service.analysis.families.sinusoid_rows import (
    climb,
    courses,
    locate,
    locate_whole,
    rows_of,
    seen,
    uneven_course,
    views,
)
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from tests.analysis.sinusoid_tables import sample_from, sample_of, view_of


@pytest.mark.parametrize(
    ("name", "grain"),
    [("float64", FLOAT64), ("float32", FLOAT32), ("float16", FLOAT16), ("bfloat16", BFLOAT16)],
)
def test_numbers_of_a_narrow_type_are_known_after_they_were_widened(
    name: str, grain: DType
) -> None:
    narrow = sample_of("encoding", seq_len=8, d_model=16, dtype=name)

    rows = next(rows_of(sample_from(narrow.reals())))

    assert rows.grain is grain


def test_the_scale_of_rows_is_the_root_of_their_squares() -> None:
    view = view_of(sample_of("encoding", seq_len=8, d_model=32, convention="mlx"))

    assert view.scale == pytest.approx(0.25, rel=1e-6)
    assert "cos² + sin² is 0.0625" in view.evenness


def test_a_row_of_zeros_is_left_out_of_the_others() -> None:
    sample = sample_of("encoding", seq_len=5, d_model=7, convention="fairseq")

    view = view_of(sample)

    assert view.kept.tolist() == [0, 2, 3, 4]
    assert (view.pairs, view.channels.zeros) == (3, 1)


def test_errors_of_angles_bound_what_rounding_does_to_them() -> None:
    exact = sample_of("encoding", seq_len=40, d_model=16, dtype="float64")
    narrow = sample_of("encoding", seq_len=40, d_model=16, dtype="bfloat16")
    every = slice(None)

    turns, _ = view_of(exact, "interleaved").part(every)
    rounded, errors = view_of(narrow, "interleaved").part(every)

    assert (np.abs(np.angle(rounded / turns)) <= errors).all()
    assert errors.max() < 2.0**-6


def test_noise_and_arrays_of_other_ranks_are_read_in_no_layout() -> None:
    noise = np.random.default_rng(7).normal(size=(16, 16))

    assert not list(seen(sample_from(noise)))
    assert not list(rows_of(sample_from(noise.reshape(4, 8, 8))))
    assert not list(rows_of(Sample(np.full(4, np.nan), FLOAT64, (4,))))


def test_columns_are_rows_as_well() -> None:
    turned = sample_of("encoding", seq_len=20, d_model=6).reals().T

    assert [rows.is_transposed for rows in rows_of(sample_from(turned)) if list(views(rows))] == [
        True
    ]


@pytest.mark.parametrize(("positions", "step"), [("0:40", 1), ("7:200:3", 3), ("5,100", 95)])
def test_evenly_spaced_rows_give_frequencies_and_step(positions: str, step: int) -> None:
    view = view_of(sample_of("encoding", positions=positions, d_model=32), "interleaved")

    course = next(courses(view))

    assert (course.is_even, course.sign) == (True, 1)
    assert course.series.first == pytest.approx(step, rel=1e-5)
    assert course.series.ratio**-16 == pytest.approx(10000, rel=1e-4)


def test_rows_that_descend_turn_the_other_way() -> None:
    view = view_of(sample_of("relative/transformer-xl", key_len=20, d_model=16))

    assert next(courses(view)).sign == -1


def test_a_spoilt_row_leaves_the_others_even() -> None:
    values = sample_of("encoding", seq_len=40, d_model=32).reals()
    values[3] = values[30]

    course = next(courses(view_of(sample_from(values), "interleaved")))

    assert course.window == slice(8, 24)


def test_rows_in_no_order_give_the_ratio_one_by_one() -> None:
    view = view_of(sample_of("encoding", positions="0,3,100,17,2047", d_model=32), "interleaved")

    course = uneven_course(view)

    assert not course.is_even
    assert course.series.ratio**-16 == pytest.approx(10000, rel=1e-5)


def test_rows_that_say_nothing_have_no_ratio() -> None:
    view = view_of(sample_of("encoding", positions="0", d_model=8), "interleaved")

    assert np.isinf(uneven_course(view).series.ratio_error)


def test_rows_whose_places_are_told_are_as_good_as_even_ones() -> None:
    told = np.array([3.0, 4, 5, 9, 20, 100])
    values = sample_of("encoding", positions="3,4,5,9,20,100", d_model=4)
    view = view_of(values, "interleaved")

    course = next(courses(view, told))

    assert course.is_even
    assert (course.places == told).all()
    assert course.series.first == pytest.approx(1, rel=1e-5)
    assert course.series.ratio == pytest.approx(0.01, rel=1e-5)


def test_places_that_do_not_rise_are_passed_over() -> None:
    view = view_of(sample_of("encoding", seq_len=6, d_model=32), "interleaved")

    course = next(courses(view, np.array([5.0, 4, 3, 2, 1, 0])))

    assert course.places.tolist() == [0, 1, 2, 3, 4, 5]


BASE = 10000.0


def series(position: float, count: int) -> np.ndarray:
    return position * BASE ** (-np.arange(count) / count)


def folded(angles: np.ndarray) -> np.ndarray:
    return (angles + np.pi) % (2 * np.pi) - np.pi


@pytest.mark.parametrize("position", [1.0, 0.25, 37.0, 999.0, -250.0])
def test_one_row_gives_the_ratio_of_its_frequencies(position: float) -> None:
    climbed = climb(folded(series(position, 32)), np.full(32, 1e-9))

    assert climbed is not None
    assert climbed.sign == np.sign(position)
    assert climbed.series.first == pytest.approx(abs(position), rel=1e-4)
    assert climbed.series.ratio**-32 == pytest.approx(BASE, rel=1e-4)


def test_angles_that_are_no_series_are_told() -> None:
    angles = series(5.0, 16)
    angles[8] *= 1.1

    assert climb(folded(angles), np.full(16, 1e-9)) is None


def test_a_slowest_angle_within_its_error_says_nothing() -> None:
    assert climb(np.array([1e-3, 1e-4]), np.full(2, 1e-2)) is None


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


def test_a_place_that_chance_may_have_made_is_none() -> None:
    one = np.array([1.0])

    assert locate_whole(phases([1000.0], one), np.full((1, 1), 1e-3), one) is None
