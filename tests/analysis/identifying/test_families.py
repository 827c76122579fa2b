"""All families together."""

import numpy as np
import pytest

from service.analysis.identifying.families import FAMILIES
from service.analysis.question import Question
from service.analysis.sample import Sample
from service.tables.dtypes import COMPLEX64, FLOAT32, FLOAT64, INT64, DType
from service.tables.table import StoredTable

RANDOM = np.random.default_rng(11)
ODD_ARRAYS = {
    "nan": np.full((4, 4), np.nan),
    "some nan": np.where(np.eye(6) == 1, np.nan, 0.5),
    "infinite": np.where(np.eye(6) == 1, np.inf, 0.5),
    "zeros": np.zeros((5, 6)),
    "one number": np.array([0.25]),
    "one row": RANDOM.normal(size=(1, 8)),
    "one column": RANDOM.normal(size=(8, 1)),
    "three axes": RANDOM.normal(size=(2, 3, 4)),
    "eight axes": RANDOM.normal(size=(2,) * 8),
    "huge": RANDOM.normal(size=(6, 8)) * 1e300,
    "tiny": RANDOM.normal(size=(6, 8)) * 1e-300,
    "unit circle": np.exp(1j * RANDOM.normal(size=(9, 4))).view(np.float64),
    "falling": np.exp(-np.arange(12.0)),
    "rising": np.exp(np.arange(12.0)),
    "negative": -np.arange(1.0, 9.0),
}


@pytest.mark.parametrize("name", ODD_ARRAYS)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64])
def test_no_family_fails_over_an_odd_array(name: str, dtype: DType) -> None:
    with np.errstate(over="ignore"):
        values = ODD_ARRAYS[name].astype(dtype.storage)
    question = Question({"x": Sample.of(StoredTable(values, dtype))})
    pair = Question({part: Sample.of(StoredTable(values, dtype)) for part in ("cos", "sin")})

    for family in FAMILIES:
        assert len(list(family(question))) < 100
        assert len(list(family(pair))) < 100


@pytest.mark.parametrize("shape", [(1,), (7,), (5, 5), (2, 3, 4), (1, 1)])
def test_no_family_fails_over_integers(shape: tuple[int, ...]) -> None:
    values = RANDOM.integers(-(2**40), 2**40, size=shape)
    question = Question({"x": Sample.of(StoredTable(values, INT64))})

    for family in FAMILIES:
        assert len(list(family(question))) < 100


@pytest.mark.parametrize("shape", [(1,), (7,), (5, 4), (2, 3, 4)])
def test_no_family_fails_over_complex_numbers(shape: tuple[int, ...]) -> None:
    values = (RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)).astype(np.complex64)
    question = Question({"x": Sample.of(StoredTable(values, COMPLEX64))})

    for family in FAMILIES:
        assert len(list(family(question))) < 100


def test_an_array_that_is_wider_than_any_table_is_asked_about_at_no_cost() -> None:
    values = np.ones((2, 2**20 + 1), dtype=np.float32)
    question = Question({"x": Sample.of(StoredTable(values, FLOAT32))})

    assert not [proposal for family in FAMILIES for proposal in family(question)]
