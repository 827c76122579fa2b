"""Other ways to look at an array."""

import numpy as np

from service.analysis.identifying.views import (
    extended,
    head,
    narrowed,
    transposed,
    windows,
    without_copies,
)
from service.analysis.question import Question
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from tests.analysis.engines import in_float64, proposal, question, sample


def test_two_axes_are_turned_round_and_more_are_not() -> None:
    turned = transposed(question(in_float64(5, 8)))

    assert turned is not None
    assert turned.sample.shape == (8, 5)
    assert transposed(question(np.ones((2, 3, 4)))) is None


def test_an_array_is_of_the_narrowest_type_that_holds_it() -> None:
    for narrow in (BFLOAT16, FLOAT16, FLOAT32):
        numbers = sample(in_float64(5, 8), narrow).reals()
        view = narrowed(question(numbers, FLOAT64))
        assert view is not None
        assert view.sample.dtype is narrow
    assert narrowed(question(in_float64(5, 8), FLOAT64)) is None
    assert narrowed(question(in_float64(5, 8), FLOAT32)) is None


def test_a_long_array_is_asked_about_by_its_first_rows() -> None:
    beginning = head(question(in_float64(2000, 8)))

    assert beginning is not None
    assert beginning.sample.shape == (256, 8)
    assert head(question(in_float64(400, 8))) is None


def test_parts_of_an_array_come_with_their_rows_and_positions() -> None:
    whole = Question({"x": sample(in_float64(64, 8))}, positions=np.arange(64.0))
    parts = list(windows(whole))

    assert [(part.sample.shape[0], first) for part, first in parts] == [
        (32, 0),
        (32, 32),
        (16, 0),
        (16, 48),
        (4, 0),
        (4, 60),
    ]
    assert all(part.positions is not None and part.positions[0] == first for part, first in parts)


def test_parts_of_a_long_array_are_short_and_not_its_beginning() -> None:
    parts = windows(question(in_float64(4096, 8)))

    assert [(part.sample.shape[0], first) for part, first in parts] == [
        (256, 2048),
        (256, 3072),
        (256, 3840),
    ]


def test_what_some_rows_are_goes_on_over_all() -> None:
    whole = extended(proposal(32, 8), 16, 64)

    assert whole is not None
    assert whole.turning is not None
    assert whole.call.parameters["seq_len"] == 64
    assert whole.call.parameters["start"] == -16
    assert (whole.turning.coordinates[:, 0] == np.arange(-16, 48)).all()


def test_one_of_several_copies_keeps_its_place() -> None:
    copied = np.repeat(in_float64(5, 8)[None, :, None], 3, axis=2)
    single = without_copies(question(copied))

    assert single is not None
    assert single[1] == 2
    assert single[0].sample.shape == (1, 5, 1, 8)
    assert single[0].sample.values.shape == (5, 8)
    copied[0, 2, 1, 3] += 1
    assert without_copies(question(copied)) is None
