"""How far two numbers may be apart."""

import numpy as np
import pytest

from service.analysis.comparing.tolerance import ULPS, Tolerance, narrower
from service.tables.dtypes import (
    BFLOAT16,
    COMPLEX64,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    DType,
)


@pytest.mark.parametrize(
    ("dtype", "other", "expected"),
    [
        (FLOAT64, FLOAT32, FLOAT32),
        (FLOAT16, BFLOAT16, BFLOAT16),
        (COMPLEX64, COMPLEX128, FLOAT32),
        (COMPLEX128, COMPLEX128, FLOAT64),
        (INT64, FLOAT16, FLOAT16),
        (INT64, INT32, None),
    ],
)
def test_the_type_of_fewer_bits_is_the_narrower(
    dtype: DType, other: DType, expected: DType | None
) -> None:
    assert narrower(dtype, other) is expected
    assert narrower(other, dtype) is expected


def test_some_ulp_are_allowed_and_no_finer_than_at_the_floor() -> None:
    exact = np.array([0.0, 0.25, -1.0, 3.0])
    ulp = np.spacing(np.array([1.0, 1.0, 1.0, 3.0], "<f4")).astype(np.float64)

    assert Tolerance(None, None, FLOAT32, 1.0).allowed(exact).tolist() == (ULPS * ulp).tolist()
    assert Tolerance(None, None, FLOAT32).ulp(exact)[1] == 2.0**-25


def test_what_is_asked_for_is_a_sum() -> None:
    exact = np.array([0.0, -2.0])

    assert Tolerance(0.5, None, FLOAT32).allowed(exact).tolist() == [0.5, 0.5]
    assert Tolerance(0.5, 0.25, FLOAT32).allowed(exact).tolist() == [0.5, 1.0]
    assert Tolerance(0.0, None, FLOAT32).is_asked_for


def test_what_is_not_finite_is_never_within() -> None:
    exact = np.array([-np.inf, -np.inf, 1e308, 1.0])
    error = np.array([np.inf, 0.0, np.inf, 1.0])

    exceeded = Tolerance(1.0, 1e308, FLOAT32).is_exceeded(error, exact)

    assert exceeded.tolist() == [True, False, True, False]


def test_integers_have_to_be_equal() -> None:
    assert Tolerance(None, None, None).allowed(np.array([5.0])).tolist() == [0.0]
