"""Questions: one array, or cosines and sines that belong together."""

import numpy as np

from service.analysis.question import Question
from service.analysis.sample import Sample
from service.tables.dtypes import FLOAT32
from service.tables.table import StoredTable


def sample(value: float) -> Sample:
    return Sample.of(StoredTable(np.full((2, 3), value, dtype=np.float32), FLOAT32))


def test_one_array_is_the_sample_whatever_its_name() -> None:
    only = sample(1)

    question = Question({"mine": only})

    assert question.sample is only
    assert not question.is_pair


def test_cosines_stand_for_a_pair() -> None:
    cosines, sines = sample(1), sample(0)

    question = Question({"sin": sines, "cos": cosines})

    assert question.sample is cosines
    assert question.is_pair
