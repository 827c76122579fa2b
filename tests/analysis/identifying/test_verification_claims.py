"""What claims about an array's arithmetic say of its rows."""

import numpy as np

from service.analysis.identifying.verification_claims import (
    SUMMED_ROUNDINGS,
    Exactly,
    agrees,
    computed_claims,
    half_spacing,
    turned_claims,
)
from service.analysis.identifying.verification_rows import TableRows
from service.tables.dtypes import BFLOAT16, FLOAT32, FLOAT64
from service.tables.table import StoredTable
from tests.analysis.engines import in_float32, in_float64, sample, turning

ROWS = np.arange(48)


def test_exactly_is_equal_and_nothing_else() -> None:
    exact = np.array([[1.0, -np.inf], [0.0, 3.0]])
    have = np.array([[1.0, -np.inf], [5e-324, np.nan]])

    good = agrees(Exactly(), "x", np.arange(2), have, exact)
    assert (good == [[True, True], [False, False]]).all()


def test_rounding_moves_a_number_by_no_more_than_its_bound() -> None:
    numbers = np.random.default_rng(1).normal(size=1000) * 10.0 ** np.arange(-20, 20).repeat(25)

    moved = np.abs(numbers - numbers.astype(np.float32))
    assert (moved <= half_spacing(numbers, FLOAT32)).all()
    assert half_spacing(np.ones(1), BFLOAT16)[0] < 2.0**-7


def test_a_table_of_one_engine_bears_out_its_claim_and_not_a_more_exact_one() -> None:
    have = {"x": sample(in_float32(4096, 64)).reals()[::86]}
    rows = np.arange(4096)[::86]
    claims = list(turned_claims(turning(4096, 64), rows, have, FLOAT32))
    held = have["x"]
    good = [each.arithmetic.name for each in claims if agrees(each, "x", rows, held, held).all()]

    assert good[0] == "float32"


def test_rows_of_padding_stay_zeros() -> None:
    exact = in_float64(48, 8)
    exact[5] = 0
    claim = next(turned_claims(turning(48, 8), ROWS, {"x": exact}, FLOAT64))

    assert agrees(claim, "x", ROWS, exact, exact).all()
    wrong = exact.copy()
    wrong[5, 0] = 1e-9
    assert not agrees(claim, "x", ROWS, wrong, exact)[5, 0]


def test_a_power_is_held_to_a_share_of_itself_and_a_bias_to_one_of_the_largest() -> None:
    table = np.array([[1.0, 1e-6]])
    wide = {"x": TableRows(StoredTable(table, FLOAT64), 2, None)}
    off = np.array([[1.0, 1e-6 + 1e-9]])
    verdicts = []
    for roundings in (0, SUMMED_ROUNDINGS):
        *_, single = computed_claims(wide, {"x": 1.0}, FLOAT64, roundings)
        verdicts.append(bool(agrees(single, "x", np.arange(1), off, table).all()))

    assert verdicts == [False, True]
