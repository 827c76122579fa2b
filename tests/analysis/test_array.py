"""Samples, identification inputs and table requests."""

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
from tests.analysis.samples import input_from


def test_sample_drops_axes_of_length_1() -> None:
    sent = np.arange(6, dtype=np.float32).reshape(1, 3, 1, 2)

    sample = Sample.of(StoredTable(sent, FLOAT32))

    assert sample.values.shape == (3, 2)
    assert sample.shape == (1, 3, 1, 2)
    assert sample.values.dtype == np.float64


def test_sample_of_one_number_has_one_axis() -> None:
    assert Sample.of(StoredTable(np.ones((1, 1)), FLOAT64)).values.shape == (1,)


def test_sample_of_complex_numbers_has_an_axis_of_components() -> None:
    sent = np.array([[1 + 2j, 3 - 4j]], dtype=np.complex64)

    sample = Sample.of(StoredTable(sent, COMPLEX64))

    assert sample.values.tolist() == [[1.0, 2.0], [3.0, -4.0]]
    assert sample.is_complex
    assert sample.element_dtype is FLOAT32


def test_sample_reads_bfloat16_from_its_bits() -> None:
    sent = np.array([0x3F80, 0xC000], dtype=np.uint16)

    assert Sample.of(StoredTable(sent, BFLOAT16)).values.tolist() == [1.0, -2.0]


def test_integers_beyond_2_to_the_53_stay_exact() -> None:
    sent = np.array([2**62 + 1, -5])

    sample = Sample.of(StoredTable(sent, INT64))
    found = sample.integers()

    assert found is not None
    assert found.tolist() == [2**62 + 1, -5]
    assert sample.reals().dtype == np.float64


def test_whole_floats_are_integers() -> None:
    found = Sample.of(StoredTable(np.array([0.0, -3.0, 7.0]), FLOAT64)).integers()

    assert found is not None
    assert found.tolist() == [0, -3, 7]


@pytest.mark.parametrize("number", [0.5, np.inf, np.nan, 1e300])
def test_fractions_and_huge_numbers_are_no_integers(number: float) -> None:
    assert Sample.of(StoredTable(np.array([1.0, number]), FLOAT64)).integers() is None


def test_sample_with_nan_is_not_finite() -> None:
    assert not Sample.of(StoredTable(np.array([1.0, np.nan]), FLOAT64)).is_finite
    assert Sample.of(StoredTable(np.array([1.0, 2.0]), FLOAT64)).is_finite


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, FLOAT16], ids=lambda dtype: dtype.name)
def test_spacing_equals_numpy(dtype: DType) -> None:
    numbers = np.array([0.0, 1e-7, 0.3, 0.5, 1.0, 1.5, 2.0, 3e4], dtype=dtype.storage)

    found = spacing(-numbers.astype(np.float64), dtype)

    assert found.tolist() == np.spacing(numbers).astype(np.float64).tolist()


def test_spacing_of_bfloat16_is_the_distance_to_the_next_number() -> None:
    numbers = np.array([0.0, 0.3, 1.0, 1.5, -2.0, 3e38])
    narrow = numbers.astype(ml_dtypes.bfloat16)
    bits = np.abs(narrow).view(np.uint16)
    following = (bits + 1).astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)

    found = spacing(narrow.astype(np.float64), BFLOAT16)

    assert found[:-1].tolist() == (following - np.abs(narrow).astype(np.float64))[:-1].tolist()


def test_spacing_of_every_real_type_is_positive() -> None:
    for dtype in REAL_DTYPES.values():
        assert (spacing(np.array([0.0, 1.0]), dtype) > 0).all()


def sample(value: float) -> Sample:
    return Sample.of(StoredTable(np.full((2, 3), value, dtype=np.float32), FLOAT32))


def test_single_array_of_any_name_is_the_sample() -> None:
    only = sample(1)

    question = IdentifyInput({"mine": only})

    assert question.sample is only
    assert not question.is_pair


def test_sample_of_a_pair_is_the_cosines() -> None:
    cosines, sines = sample(1), sample(0)

    question = IdentifyInput({"sin": sines, "cos": cosines})

    assert question.sample is cosines
    assert question.is_pair


def test_with_parameters_returns_a_changed_copy() -> None:
    call = TableRequest("rope", {"head_dim": 8, "seq_len": 4})

    assert call.with_parameters(seq_len=2, pack="flat") == TableRequest(
        "rope", {"head_dim": 8, "seq_len": 2, "pack": "flat"}
    )
    assert call.parameters == {"head_dim": 8, "seq_len": 4}


def test_single_array_has_an_allowed_number_of_axes() -> None:
    question = input_from(np.array([[1.0, 2.0], [3.0, -np.inf]]))

    assert single_real_array(question, (1,)) is None
    values = single_real_array(question, (2,))
    assert values is not None
    assert values.shape == (2, 2)
    assert single_finite_array(question, (2,)) is None


def test_single_integer_array_takes_whole_floats() -> None:
    whole = single_integer_array(input_from(np.array([1.0, 2.0])), (1,))

    assert whole is not None
    assert whole.dtype == np.int64
    assert single_integer_array(input_from(np.array([1.0, 2.5])), (1,)) is None


def test_pairs_complex_and_empty_arrays_are_no_single_array() -> None:
    sample = input_from(np.ones(3)).sample
    turns = Sample.of(StoredTable(np.ones(3, dtype="<c8"), COMPLEX64))

    assert single_real_array(IdentifyInput({"cos": sample, "sin": sample}), (1,)) is None
    assert single_real_array(IdentifyInput({"array": turns}), (1, 2)) is None
    assert single_real_array(input_from(np.ones((0, 3))), (1, 2)) is None
