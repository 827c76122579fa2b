"""Arrays match proposed tables under the arithmetic that computed them, and no others."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from service.analysis.array import AngleModel, IdentifyInput, Proposal, Sample, TableRequest
from service.analysis.identification.verification import (
    SAMPLED_ROWS,
    Verdict,
    sample_match,
    sampled_rows,
)
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType
from service.numerics.tables import StoredTable
from service.routes.table_urls import tables
from tests.analysis import engines
from tests.analysis.engines import (
    Numbers,
    by_exponentials,
    by_multiplication,
    in_float32,
    in_float64,
    proposal,
)

ROWS, WIDTH = 600, 64


def verdict(table: Numbers, dtype: DType = FLOAT32, **parameters: float) -> Verdict:
    rows, width = table.shape
    proposed = proposal(rows, width, dtype.name, **parameters)
    found = engines.verify(engines.question(table, dtype), proposed, tables)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (in_float64, "exact"),
        (in_float32, "float32"),
        (by_exponentials, "float32"),
        (by_multiplication, "float32 by repeated multiplication"),
    ],
)
def test_arithmetic_of_an_engine_is_named(engine: Callable[[int, int], Numbers], name: str) -> None:
    found = verdict(engine(ROWS, WIDTH))

    assert found.arithmetic[0].name == name
    assert found.first_mismatch is None
    assert found.agreeing == 1


def test_float64_table_is_not_called_exact() -> None:
    found = verdict(in_float64(ROWS, WIDTH), FLOAT64)

    assert found.arithmetic[0].name == "float64"
    assert 0 < found.max_absolute < 1e-12


@pytest.mark.parametrize("narrow", [BFLOAT16, FLOAT16])
def test_narrow_positions_and_narrow_frequencies_have_different_names(narrow: DType) -> None:
    positions = verdict(in_float32(3000, WIDTH, positions_in=narrow))
    frequencies = verdict(in_float32(3000, WIDTH, frequencies_in=narrow))

    assert [each.name for each in positions.arithmetic] == [f"{narrow.name} positions"]
    assert [each.name for each in frequencies.arithmetic] == [f"{narrow.name} frequencies"]


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16])
def test_float32_table_cast_to_a_narrow_type_matches(dtype: DType) -> None:
    assert verdict(in_float32(2048, WIDTH), dtype).arithmetic[0].name in {"exact", "float32"}


def test_short_table_matches_under_several_arithmetics() -> None:
    names = [each.name for each in verdict(in_float64(4, 4)).arithmetic]

    assert names[:3] == ["exact", "float64", "float32"]


def test_first_mismatch_is_a_slightly_wrong_element() -> None:
    table = in_float32(ROWS, WIDTH)
    table[50, 40] += 2e-6
    found = verdict(table)

    assert not found.matches
    assert found.first_mismatch is not None
    assert (found.first_mismatch.index, found.first_mismatch.position) == ((50, 40), 50.0)
    assert found.first_mismatch.error > found.first_mismatch.allowed
    assert found.agreeing > 0.9999


def test_wrong_element_within_the_bounds_of_a_looser_arithmetic_is_a_mismatch() -> None:
    table = in_float32(ROWS, WIDTH)
    table[300, 20] += 8e-7
    found = verdict(table)

    assert not found.matches
    assert found.first_mismatch is not None
    assert found.first_mismatch.index == (300, 20)


def test_first_mismatch_is_in_a_wrong_row() -> None:
    table = in_float32(ROWS, WIDTH)
    table[333] = np.random.default_rng(7).normal(size=WIDTH)
    found = verdict(table)

    assert found.first_mismatch is not None
    assert found.first_mismatch.index[0] == 333


@pytest.mark.parametrize("base", [10001.0, 9999.0, 500000.0])
def test_table_of_another_base_does_not_match(base: float) -> None:
    assert not verdict(in_float64(ROWS, WIDTH, base)).matches
    assert verdict(in_float64(ROWS, WIDTH, base), base=base).matches


def test_noise_and_a_learned_table_do_not_match() -> None:
    noise = np.random.default_rng(3).normal(size=(ROWS, WIDTH))

    assert not verdict(noise).matches
    assert not verdict(in_float32(ROWS, WIDTH) + 0.001 * noise).matches


def test_noise_of_the_size_of_narrow_rounding_does_not_match_in_float32() -> None:
    noise = np.random.default_rng(3).uniform(-1e-3, 1e-3, size=(ROWS, WIDTH))

    assert not verdict(in_float64(ROWS, WIDTH) + noise).matches


def test_first_mismatch_of_reversed_axes_has_the_index_that_was_sent() -> None:
    table = in_float32(ROWS, WIDTH)
    table[50, 40] += 2e-6
    proposed = proposal(ROWS, WIDTH)
    turned = Proposal(proposed.request, (), proposed.angles, is_transposed=True)
    found = engines.verify(engines.question(table.T), turned, tables)

    assert found is not None
    assert found.first_mismatch is not None
    assert found.first_mismatch.index == (40, 50)


@pytest.mark.parametrize("dtype", [INT32, INT64])
def test_integers_match_only_if_equal(dtype: DType) -> None:
    call = TableRequest("relative/t5", {"query_len": 9})
    values = np.array(tables(call).arrays["bucket"].read(0, 81)).reshape(9, 9)
    right = IdentifyInput({"x": Sample.of(StoredTable(values.astype(dtype.storage), dtype))})
    values[4, 5] += 1
    wrong = IdentifyInput({"x": Sample.of(StoredTable(values.astype(dtype.storage), dtype))})
    held, left = (engines.verify(each, Proposal(call, ()), tables) for each in (right, wrong))

    assert held is not None
    assert held.matches
    assert held.max_ulp is None
    assert left is not None
    assert left.first_mismatch is not None
    assert left.first_mismatch.index == (4, 5)


def test_infinities_match_only_infinities() -> None:
    call = TableRequest("relative/alibi", {"num_heads": 2, "query_len": 4, "masked": True})
    values = np.array(tables(call).arrays["bias"].read(0, 32)).reshape(2, 4, 4)
    right = engines.verify(engines.question(values), Proposal(call, ()), tables)
    values[0, 3, 0] = -np.inf
    wrong = engines.verify(engines.question(values), Proposal(call, ()), tables)

    assert right is not None
    assert right.matches
    assert wrong is not None
    assert not wrong.matches


def test_proposal_without_a_table_has_no_verdict() -> None:
    impossible = Proposal(TableRequest("encoding", {"seq_len": 4, "d_model": 0}), ())

    assert engines.verify(engines.question(in_float64(4, 4)), impossible, tables) is None


def test_sampled_rows_are_all_of_a_short_array_and_spread_over_a_long_one() -> None:
    assert (sampled_rows(5) == np.arange(5)).all()
    rows = sampled_rows(100_000)

    assert (rows[0], rows[-1]) == (0, 99_999)
    assert len(rows) <= SAMPLED_ROWS
    assert (np.diff(rows) > 0).all()


def test_claims_that_fail_on_sampled_rows_are_dropped() -> None:
    looked = sample_match(engines.question(in_float32(4096, 64)), proposal(4096, 64), tables)

    assert looked is not None
    assert looked.agreeing == 1
    assert next(claim.arithmetic.name for claim in looked.claims) == "float32"


def test_best_claim_is_kept_where_all_fail() -> None:
    table = in_float32(4096, 64)
    table[0, 0] = 0.5
    looked = sample_match(engines.question(table), proposal(4096, 64), tables)

    assert looked is not None
    assert 0.999 < looked.agreeing < 1
    assert len(looked.claims) == 1


def test_angles_of_another_table_are_no_claim() -> None:
    proposed = proposal(300, 16)
    assert proposed.angles is not None
    slower: AngleModel = replace(proposed.angles, omega=proposed.angles.omega / 2)
    doubled = np.arange(300)[:, None] * slower.omega
    looked = sample_match(
        engines.question(engines.laid_out(doubled)), replace(proposed, angles=slower), tables
    )

    assert looked is not None
    assert looked.agreeing < 1


def test_single_array_matches_under_any_name() -> None:
    proposed = proposal(300, 16)
    assert proposed.angles is not None
    channels = {"encoding": proposed.angles.channels["x"]}
    named = replace(proposed, angles=replace(proposed.angles, channels=channels))
    looked = sample_match(engines.question(in_float32(300, 16)), named, tables)

    assert looked is not None
    assert looked.agreeing == 1
