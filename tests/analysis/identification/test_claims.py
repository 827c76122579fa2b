"""Claims bound the numbers of an arithmetic; rows of arrays and tables are paired."""

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Proposal, Sample, TableRequest
from service.analysis.identification.claims import (
    SUMMED_ROUNDINGS,
    ArrayRows,
    ExactClaim,
    TableRows,
    agrees,
    angle_claims,
    computed_claims,
    half_spacing,
    has_angles_of,
    matching_tables,
)
from service.numerics.dtypes import BFLOAT16, COMPLEX64, FLOAT32, FLOAT64
from service.numerics.tables import StoredTable
from service.routes.table_urls import tables
from tests.analysis.engines import angle_model, in_float32, in_float64, proposal, question, sample

ROWS = np.arange(48)


def test_exact_claim_allows_only_equal_numbers() -> None:
    exact = np.array([[1.0, -np.inf], [0.0, 3.0]])
    have = np.array([[1.0, -np.inf], [5e-324, np.nan]])

    good = agrees(ExactClaim(), "x", np.arange(2), have, exact)
    assert (good == [[True, True], [False, False]]).all()


def test_half_spacing_bounds_rounding() -> None:
    numbers = np.random.default_rng(1).normal(size=1000) * 10.0 ** np.arange(-20, 20).repeat(25)

    moved = np.abs(numbers - numbers.astype(np.float32))
    assert (moved <= half_spacing(numbers, FLOAT32)).all()
    assert half_spacing(np.ones(1), BFLOAT16)[0] < 2.0**-7


def test_float32_table_agrees_with_float32_and_no_more_exact_claim() -> None:
    have = {"x": sample(in_float32(4096, 64)).reals()[::86]}
    rows = np.arange(4096)[::86]
    claims = list(angle_claims(angle_model(4096, 64), rows, have, FLOAT32))
    held = have["x"]
    good = [each.arithmetic.name for each in claims if agrees(each, "x", rows, held, held).all()]

    assert good[0] == "float32"


def test_emulated_padding_rows_stay_zero() -> None:
    exact = in_float64(48, 8)
    exact[5] = 0
    claim = next(angle_claims(angle_model(48, 8), ROWS, {"x": exact}, FLOAT64))

    assert agrees(claim, "x", ROWS, exact, exact).all()
    wrong = exact.copy()
    wrong[5, 0] = 1e-9
    assert not agrees(claim, "x", ROWS, wrong, exact)[5, 0]


def test_rounding_claim_has_relative_bounds_for_powers_and_absolute_ones_for_sums() -> None:
    table = np.array([[1.0, 1e-6]])
    wide = {"x": TableRows(StoredTable(table, FLOAT64), 2, None)}
    off = np.array([[1.0, 1e-6 + 1e-9]])
    verdicts = []
    for roundings in (0, SUMMED_ROUNDINGS):
        *_, single = computed_claims(wide, {"x": 1.0}, FLOAT64, roundings)
        verdicts.append(bool(agrees(single, "x", np.arange(1), off, table).all()))

    assert verdicts == [False, True]


ENCODING = Proposal(TableRequest("encoding", {"seq_len": 6, "d_model": 4}), ())


def test_index_is_that_of_the_array_as_sent() -> None:
    rows = ArrayRows.of(sample(np.zeros((1, 6, 1, 4))), None, is_transposed=False)

    assert rows.values.shape == (6, 4)
    assert rows.index(2, 3) == (0, 2, 0, 3)


def test_index_of_reversed_axes_is_that_of_the_array_as_sent() -> None:
    array = sample(np.arange(24.0).reshape(4, 6))
    rows = ArrayRows.of(array, None, is_transposed=True)

    assert rows.values[2, 3] == array.values[rows.index(2, 3)]


def test_index_of_a_complex_number_is_the_same_for_both_components() -> None:
    array = Sample.of(StoredTable(np.zeros((6, 2), dtype=np.complex64), COMPLEX64))
    rows = ArrayRows.of(array, 6, is_transposed=False)

    assert rows.values.shape == (6, 4)
    assert rows.index(2, 3) == (2, 1)


def test_table_rows_are_read_by_number() -> None:
    table = StoredTable(np.arange(24, dtype=np.float32).reshape(6, 4), FLOAT32)
    rows = TableRows(table, 4, None).read(np.array([0, 2, 3, 5]))

    assert (rows[:, 0] == [0, 8, 12, 20]).all()


def test_table_rows_are_rounded_to_the_type_of_the_array() -> None:
    table = StoredTable(np.array([[1 / 3]]), FLOAT64)

    assert TableRows(table, 1, FLOAT32).read(np.array([0]))[0, 0] == np.float32(1 / 3)


def test_table_is_paired_with_an_array_of_any_name_and_axes_of_length_1() -> None:
    asked = question(np.zeros((1, 6, 4)))

    assert matching_tables(tables(ENCODING.request), asked, ENCODING) is not None


@pytest.mark.parametrize("shape", [(6, 5), (5, 4), (24,), (4, 6)])
def test_table_is_not_paired_with_an_array_of_another_shape(shape: tuple[int, ...]) -> None:
    assert matching_tables(tables(ENCODING.request), question(np.zeros(shape)), ENCODING) is None


def test_cosines_and_sines_are_paired_by_name() -> None:
    call = TableRequest("rope", {"head_dim": 8, "seq_len": 6, "pack": "half"})
    pair = IdentifyInput({name: sample(np.zeros((6, 8))) for name in ("cos", "sin")})
    found = matching_tables(tables(call), pair, Proposal(call, ()))

    assert found is not None
    assert found.keys() == {"cos", "sin"}
    assert matching_tables(tables(ENCODING.request), pair, ENCODING) is None


def test_angles_belong_to_arrays_of_their_size() -> None:
    assert has_angles_of(proposal(6, 4), {"x": 24})
    assert not has_angles_of(proposal(6, 4), {"x": 28})
    assert not has_angles_of(ENCODING, {"x": 24})
