import numpy as np
import pytest

from service.analysis.real_types import dtype_parameters, rounding_of, share_of
from service.analysis.sample import Sample
from service.tables.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
    round_into,
    widened,
)
from service.tables.table import StoredTable


def sample_of(dtype: DType) -> Sample:
    return Sample.of(StoredTable(np.ones(3, dtype=dtype.storage), dtype))


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda dtype: dtype.name)
def test_a_rounding_stays_within_its_bound_and_comes_near_it(dtype: DType) -> None:
    values = np.random.default_rng(0).uniform(1, 2, 1000)
    elements = np.empty(1000, dtype=dtype.storage)
    round_into(values, elements, dtype)

    off = np.abs(widened(elements, dtype) / values - 1).max()

    assert off <= rounding_of(sample_of(dtype))
    assert off > rounding_of(sample_of(dtype)) / 4


@pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16, FLOAT32], ids=lambda dtype: dtype.name)
def test_a_share_has_room_for_a_few_roundings(dtype: DType) -> None:
    assert share_of(sample_of(dtype)) == 4 * rounding_of(sample_of(dtype))


def test_float64_may_have_been_float32_before() -> None:
    assert share_of(sample_of(FLOAT64)) == share_of(sample_of(FLOAT32))


def test_complex_numbers_are_rounded_as_their_parts_are() -> None:
    assert rounding_of(sample_of(COMPLEX64)) == rounding_of(sample_of(FLOAT32))
    assert dtype_parameters(sample_of(COMPLEX128)) == {"dtype": "float64"}
    assert not dtype_parameters(sample_of(COMPLEX64))


def test_only_a_type_that_is_no_default_is_asked_for() -> None:
    assert dtype_parameters(sample_of(BFLOAT16)) == {"dtype": "bfloat16"}
    assert dtype_parameters(sample_of(FLOAT64)) == {"dtype": "float64"}
    assert not dtype_parameters(sample_of(FLOAT32))
    assert not dtype_parameters(sample_of(INT64))
