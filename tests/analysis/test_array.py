"""Samples: what was sent, as numbers, whatever type it came in.

Questions: one array, or cosines and sines that belong together.

Calls: tables named the way that they are asked for.
"""

import ml_dtypes
import numpy as np
import pytest

from service.analysis.array import (
    IdentifyInput,
    Sample,
    TableRequest,
    single_finite_array,
    single_integer_array,
    single_real_array,
)
from service.analysis.precision import spacing
from service.numerics.dtypes import (
    BFLOAT16,
    COMPLEX64,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    REAL_DTYPES,
    DType,
)
from service.numerics.tables import StoredTable
from tests.analysis.asked_arrays import question_of


def test_axes_of_length_one_are_left_out() -> None:
    sent = np.arange(6, dtype=np.float32).reshape(1, 3, 1, 2)

    sample = Sample.of(StoredTable(sent, FLOAT32))

    assert sample.values.shape == (3, 2)
    assert sample.shape == (1, 3, 1, 2)
    assert sample.values.dtype == np.float64


def test_one_number_is_an_array_of_one() -> None:
    assert Sample.of(StoredTable(np.ones((1, 1)), FLOAT64)).values.shape == (1,)


def test_complex_numbers_are_pairs() -> None:
    sent = np.array([[1 + 2j, 3 - 4j]], dtype=np.complex64)

    sample = Sample.of(StoredTable(sent, COMPLEX64))

    assert sample.values.tolist() == [[1.0, 2.0], [3.0, -4.0]]
    assert sample.is_complex
    assert sample.element_dtype is FLOAT32


def test_bfloat16_is_read_from_its_bits() -> None:
    sent = np.array([0x3F80, 0xC000], dtype=np.uint16)

    assert Sample.of(StoredTable(sent, BFLOAT16)).values.tolist() == [1.0, -2.0]


def test_integers_stay_integers_beyond_2_to_the_53() -> None:
    sent = np.array([2**62 + 1, -5])

    sample = Sample.of(StoredTable(sent, INT64))
    found = sample.integers()

    assert found is not None
    assert found.tolist() == [2**62 + 1, -5]
    assert sample.reals().dtype == np.float64


def test_whole_numbers_are_integers_whatever_their_type() -> None:
    found = Sample.of(StoredTable(np.array([0.0, -3.0, 7.0]), FLOAT64)).integers()

    assert found is not None
    assert found.tolist() == [0, -3, 7]


@pytest.mark.parametrize("number", [0.5, np.inf, np.nan, 1e300])
def test_other_numbers_are_none(number: float) -> None:
    assert Sample.of(StoredTable(np.array([1.0, number]), FLOAT64)).integers() is None


def test_a_number_that_is_none_is_noticed() -> None:
    assert not Sample.of(StoredTable(np.array([1.0, np.nan]), FLOAT64)).is_finite
    assert Sample.of(StoredTable(np.array([1.0, 2.0]), FLOAT64)).is_finite


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, FLOAT16], ids=lambda dtype: dtype.name)
def test_spacing_is_that_of_numpy(dtype: DType) -> None:
    numbers = np.array([0.0, 1e-7, 0.3, 0.5, 1.0, 1.5, 2.0, 3e4], dtype=dtype.storage)

    found = spacing(-numbers.astype(np.float64), dtype)

    assert found.tolist() == np.spacing(numbers).astype(np.float64).tolist()


def test_spacing_of_bfloat16_is_that_of_its_seven_bits() -> None:
    numbers = np.array([0.0, 0.3, 1.0, 1.5, -2.0, 3e38])
    narrow = numbers.astype(ml_dtypes.bfloat16)
    bits = np.abs(narrow).view(np.uint16)
    following = (bits + 1).astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)

    found = spacing(narrow.astype(np.float64), BFLOAT16)

    assert found[:-1].tolist() == (following - np.abs(narrow).astype(np.float64))[:-1].tolist()


def test_every_real_type_has_a_spacing() -> None:
    for dtype in REAL_DTYPES.values():
        assert (spacing(np.array([0.0, 1.0]), dtype) > 0).all()


def sample(value: float) -> Sample:
    return Sample.of(StoredTable(np.full((2, 3), value, dtype=np.float32), FLOAT32))


def test_one_array_is_the_sample_whatever_its_name() -> None:
    only = sample(1)

    question = IdentifyInput({"mine": only})

    assert question.sample is only
    assert not question.is_pair


def test_cosines_stand_for_a_pair() -> None:
    cosines, sines = sample(1), sample(0)

    question = IdentifyInput({"sin": sines, "cos": cosines})

    assert question.sample is cosines
    assert question.is_pair


def test_a_call_with_other_parameters_keeps_those_it_had() -> None:
    call = TableRequest("rope", {"head_dim": 8, "seq_len": 4})

    assert call.with_parameters(seq_len=2, pack="flat") == TableRequest(
        "rope", {"head_dim": 8, "seq_len": 2, "pack": "flat"}
    )
    assert call.parameters == {"head_dim": 8, "seq_len": 4}


def test_an_array_of_few_enough_axes_is_given() -> None:
    question = question_of(np.array([[1.0, 2.0], [3.0, -np.inf]]))

    assert single_real_array(question, (1,)) is None
    values = single_real_array(question, (2,))
    assert values is not None
    assert values.shape == (2, 2)
    assert single_finite_array(question, (2,)) is None


def test_lone_arrays_whole_numbers_are_integers_whatever_their_type() -> None:
    whole = single_integer_array(question_of(np.array([1.0, 2.0])), (1,))

    assert whole is not None
    assert whole.dtype == np.int64
    assert single_integer_array(question_of(np.array([1.0, 2.5])), (1,)) is None


def test_pairs_complex_numbers_and_nothing_are_passed_over() -> None:
    sample = question_of(np.ones(3)).sample
    turns = Sample.of(StoredTable(np.ones(3, dtype="<c8"), COMPLEX64))

    assert single_real_array(IdentifyInput({"cos": sample, "sin": sample}), (1,)) is None
    assert single_real_array(IdentifyInput({"array": turns}), (1, 2)) is None
    assert single_real_array(question_of(np.ones((0, 3))), (1, 2)) is None
