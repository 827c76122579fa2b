"""The rows of an array beside those of a table."""

import numpy as np
import pytest

from service.analysis.call import Call
from service.analysis.identifying.verification_rows import Rows, TableRows, channels_agree, matched
from service.analysis.question import Proposal, Question
from service.analysis.sample import Sample
from service.routes.asked import tables
from service.tables.dtypes import COMPLEX64, FLOAT32, FLOAT64
from service.tables.table import StoredTable
from tests.analysis.engines import proposal, question, sample

ENCODING = Proposal(Call("encoding", {"seq_len": 6, "d_model": 4}), ())


def test_an_element_is_named_where_it_was_sent() -> None:
    rows = Rows.of(sample(np.zeros((1, 6, 1, 4))), None, is_transposed=False)

    assert rows.values.shape == (6, 4)
    assert rows.index(2, 3) == (0, 2, 0, 3)


def test_an_element_of_reversed_axes_is_named_where_it_was_sent() -> None:
    array = sample(np.arange(24.0).reshape(4, 6))
    rows = Rows.of(array, None, is_transposed=True)

    assert rows.values[2, 3] == array.values[rows.index(2, 3)]


def test_both_parts_of_a_complex_number_are_one_element() -> None:
    array = Sample.of(StoredTable(np.zeros((6, 2), dtype=np.complex64), COMPLEX64))
    rows = Rows.of(array, 6, is_transposed=False)

    assert rows.values.shape == (6, 4)
    assert rows.index(2, 3) == (2, 1)


def test_rows_of_a_table_are_those_asked_for() -> None:
    table = StoredTable(np.arange(24, dtype=np.float32).reshape(6, 4), FLOAT32)
    rows = TableRows(table, 4, None).read(np.array([0, 2, 3, 5]))

    assert (rows[:, 0] == [0, 8, 12, 20]).all()


def test_numbers_of_a_table_are_rounded_to_the_type_of_the_array() -> None:
    table = StoredTable(np.array([[1 / 3]]), FLOAT64)

    assert TableRows(table, 1, FLOAT32).read(np.array([0]))[0, 0] == np.float32(1 / 3)


def test_an_array_is_matched_whatever_its_name_and_its_axes_of_1() -> None:
    asked = question(np.zeros((1, 6, 4)))

    assert matched(tables(ENCODING.call), asked, ENCODING) is not None


@pytest.mark.parametrize("shape", [(6, 5), (5, 4), (24,), (4, 6)])
def test_an_array_of_another_shape_is_not_matched(shape: tuple[int, ...]) -> None:
    assert matched(tables(ENCODING.call), question(np.zeros(shape)), ENCODING) is None


def test_cosines_and_sines_are_matched_by_name() -> None:
    call = Call("rope", {"head_dim": 8, "seq_len": 6, "pack": "half"})
    pair = Question({name: sample(np.zeros((6, 8))) for name in ("cos", "sin")})
    found = matched(tables(call), pair, Proposal(call, ()))

    assert found is not None
    assert found.keys() == {"cos", "sin"}
    assert matched(tables(ENCODING.call), pair, ENCODING) is None


def test_angles_of_other_arrays_are_told_from_theirs() -> None:
    assert channels_agree(proposal(6, 4), {"x": 24})
    assert not channels_agree(proposal(6, 4), {"x": 28})
    assert not channels_agree(ENCODING, {"x": 24})
