import numpy as np
import pytest

from service.analysis.sinusoids.series import courses, uneven_course
from tests.analysis.sinusoid_tables import sample_from, sample_of, view_of


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
