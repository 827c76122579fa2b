import numpy as np

from service.analysis.lone_arrays import lone_finite, lone_integers, lone_reals
from service.analysis.question import Question
from service.analysis.sample import Sample
from service.tables.dtypes import COMPLEX64
from service.tables.table import StoredTable
from tests.analysis.asked_arrays import question_of


def test_an_array_of_few_enough_axes_is_given() -> None:
    question = question_of(np.array([[1.0, 2.0], [3.0, -np.inf]]))

    assert lone_reals(question, (1,)) is None
    values = lone_reals(question, (2,))
    assert values is not None
    assert values.shape == (2, 2)
    assert lone_finite(question, (2,)) is None


def test_whole_numbers_are_integers_whatever_their_type() -> None:
    whole = lone_integers(question_of(np.array([1.0, 2.0])), (1,))

    assert whole is not None
    assert whole.dtype == np.int64
    assert lone_integers(question_of(np.array([1.0, 2.5])), (1,)) is None


def test_pairs_complex_numbers_and_nothing_are_passed_over() -> None:
    sample = question_of(np.ones(3)).sample
    turns = Sample.of(StoredTable(np.ones(3, dtype="<c8"), COMPLEX64))

    assert lone_reals(Question({"cos": sample, "sin": sample}), (1,)) is None
    assert lone_reals(Question({"array": turns}), (1, 2)) is None
    assert lone_reals(question_of(np.ones((0, 3))), (1, 2)) is None
