"""Numbers as text."""

import json

import numpy as np
import pytest

from service.formats.numbers import (
    dumped,
    elements_of_block,
    no_spelling,
    spelled,
    spelled_limit_bytes,
)
from service.tables.document import Document
from service.tables.dtypes import BFLOAT16, COMPLEX64, FLOAT32, FLOAT64
from service.tables.positions import Positions
from service.tables.relative import similarity
from service.tables.table import StoredTable

TABLE = StoredTable(np.arange(6, dtype="<f4").reshape(2, 3) / 3, FLOAT32)


def test_elements_are_spelled_as_nested_lists_of_a_shape() -> None:
    assert spelled(TABLE, 1, (2, 2)) == b"[[0.33333334,0.6666667],[1.0,1.3333334]]"
    assert spelled(TABLE, 5, (1,)) == b"[1.6666666]"


def test_no_element_is_longer_than_the_limit_says() -> None:
    longest = StoredTable(np.full(4, -np.finfo(np.float64).tiny * 1.1), FLOAT64)

    assert len(spelled(longest, 0, (4,))) - 2 <= spelled_limit_bytes(longest)


def test_what_has_no_decimals_says_why() -> None:
    complex_table = StoredTable(np.zeros((1, 1), "<c8"), COMPLEX64)
    infinite = StoredTable(np.array([[np.inf]]), FLOAT64, is_finite=False)

    assert no_spelling(Document("x", {}, {"x": complex_table}), "CSV") == (
        "complex numbers have no CSV"
    )
    assert no_spelling(Document("x", {}, {"x": infinite}), "CSV") == (
        "CSV has no NaN and no infinity"
    )
    assert no_spelling(Document("x", {}, {"x": TABLE}), "CSV") is None


def test_a_block_is_bounded_by_work() -> None:
    (heavy,) = similarity(
        d_model=2**20, base=10000.0, offsets=Positions.contiguous(0, 9), dtype=BFLOAT16
    ).arrays.values()

    assert elements_of_block(heavy) == 1
    assert elements_of_block(TABLE) > 1000


@pytest.mark.parametrize("value", [0.1, 1e-45, 3.4e38])
def test_spelled_numbers_parse_back(value: float) -> None:
    table = StoredTable(np.array([value], "<f4"), FLOAT32)

    assert np.float32(spelled(table, 0, (1,))[1:-1].decode()) == table.elements[0]


@pytest.mark.parametrize("length", [0, 1, 4096, 4097, 10_000])
def test_a_parameter_is_spelled_as_json_however_long_it_is(length: int) -> None:
    value = tuple(k / 3 for k in range(length))

    assert dumped(value) == json.dumps(value)
    assert [dumped("½"), dumped(True), dumped(1.0)] == ['"\\u00bd"', "true", "1.0"]
