"""Arrays that are sent to be diagnosed: what is none of a table is refused with its name."""

import numpy as np
import pytest

from service.analysis.sample import MAX_ELEMENTS
from service.errors import InvalidBody
from service.routes.diagnose_arrays import sound
from service.tables.dtypes import FLOAT64
from service.tables.table import StoredTable


def test_an_array_of_numbers_is_read() -> None:
    sample = sound("have", StoredTable(np.array([[1.0, -2.0]]), FLOAT64))

    assert sample.values.tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    ("number", "rule"),
    [
        (np.nan, "have holds NaN or an infinity"),
        (-np.inf, "have holds NaN or an infinity"),
        (1e300, "have holds numbers beyond 2^64: no table of positions does"),
    ],
)
def test_what_is_no_number_of_a_table_is_refused(number: float, rule: str) -> None:
    with pytest.raises(InvalidBody, match=rule.replace("^", r"\^")) as refused:
        sound("have", StoredTable(np.array([1.0, number]), FLOAT64))

    assert refused.value.faults[0].where == "/have"


def test_more_numbers_than_are_looked_into_are_refused() -> None:
    many = np.broadcast_to(np.zeros(1), (MAX_ELEMENTS + 1,))

    with pytest.raises(InvalidBody, match=f"at most {MAX_ELEMENTS} are possible"):
        sound("x", StoredTable(many, FLOAT64))
