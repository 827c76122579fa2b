"""Samples, and the single arrays of identification inputs."""

import ml_dtypes
import numpy as np
import pytest

from service.analysis.array import (
    IdentifyInput,
    Sample,
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
    DType,
)
from service.numerics.tables import StoredTable
from tests.analysis.samples import input_from


def sent(elements: np.ndarray, dtype: DType = FLOAT64) -> Sample:
    return Sample.of(StoredTable(elements, dtype))


@pytest.mark.parametrize(
    ("elements", "dtype", "values"),
    [
        (np.ones((1, 3, 1, 2), dtype=np.float32), FLOAT32, np.ones((3, 2))),
        (np.ones((1, 1)), FLOAT64, np.ones(1)),
        (np.array([[1 + 2j, 3 - 4j]], dtype="<c8"), COMPLEX64, np.array([[1.0, 2.0], [3.0, -4.0]])),
        (np.array([0x3F80, 0xC000], dtype=np.uint16), BFLOAT16, np.array([1.0, -2.0])),
        (np.array([2**62 + 1, -5]), INT64, np.array([2**62 + 1, -5])),
    ],
    ids=["axes of length 1", "one number", "complex", "bfloat16", "int64"],
)
def test_sample_has_the_numbers_that_were_sent(
    elements: np.ndarray, dtype: DType, values: np.ndarray
) -> None:
    sample = sent(elements, dtype)

    assert sample.values.dtype == values.dtype
    assert sample.values.tolist() == values.tolist()
    assert sample.shape == elements.shape
    assert sample.reals().dtype == np.float64
    assert sample.is_complex == (dtype is COMPLEX64)
    assert sample.element_dtype is (FLOAT32 if dtype is COMPLEX64 else dtype)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (sent(np.array([2**62 + 1, -5]), INT64), [2**62 + 1, -5]),
        (sent(np.array([0.0, -3.0, 7.0])), [0, -3, 7]),
        *((sent(np.array([1.0, number])), None) for number in (0.5, np.inf, np.nan, 1e300)),
    ],
)
def test_integers_are_exact_or_none(sample: Sample, expected: list[int] | None) -> None:
    integers = sample.integers()

    assert (None if integers is None else integers.tolist()) == expected


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, FLOAT16], ids=lambda dtype: dtype.name)
def test_spacing_equals_numpy(dtype: DType) -> None:
    numbers = np.array([0.0, 1e-7, 0.3, 0.5, 1.0, 1.5, 2.0, 3e4], dtype=dtype.storage)

    ulps = spacing(-numbers.astype(np.float64), dtype)

    assert ulps.tolist() == np.spacing(numbers).astype(np.float64).tolist()


def test_spacing_of_bfloat16_is_the_distance_to_the_next_number() -> None:
    numbers = np.array([0.0, 0.3, 1.0, 1.5, -2.0, 3e38]).astype(ml_dtypes.bfloat16)
    bits = np.abs(numbers).view(np.uint16)
    following = (bits + 1).astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)

    ulps = spacing(numbers.astype(np.float64), BFLOAT16)

    assert ulps[:-1].tolist() == (following - np.abs(numbers).astype(np.float64))[:-1].tolist()


def test_sample_of_an_input_is_the_single_array_or_the_cosines() -> None:
    ones, zeros = sent(np.ones((2, 3))), sent(np.zeros((2, 3)))

    single = IdentifyInput({"mine": ones})
    pair = IdentifyInput({"sin": zeros, "cos": ones})

    assert single.sample is ones
    assert pair.sample is ones
    assert (single.is_pair, pair.is_pair) == (False, True)


def test_single_array_has_an_allowed_number_of_axes() -> None:
    request = input_from(np.array([[1.0, 2.0], [3.0, -np.inf]]))

    values = single_real_array(request, (2,))

    assert values is not None
    assert values.shape == (2, 2)
    assert single_real_array(request, (1,)) is None
    assert single_finite_array(request, (2,)) is None


def test_single_integer_array_takes_whole_floats() -> None:
    whole = single_integer_array(input_from(np.array([1.0, 2.0])), (1,))

    assert whole is not None
    assert whole.dtype == np.int64
    assert single_integer_array(input_from(np.array([1.0, 2.5])), (1,)) is None


def test_pairs_complex_and_empty_arrays_are_no_single_array() -> None:
    sample = sent(np.ones(3))
    phasors = sent(np.ones(3, dtype="<c8"), COMPLEX64)

    assert single_real_array(IdentifyInput({"cos": sample, "sin": sample}), (1,)) is None
    assert single_real_array(IdentifyInput({"array": phasors}), (1, 2)) is None
    assert single_real_array(input_from(np.ones((0, 3))), (1, 2)) is None
