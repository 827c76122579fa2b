"""Hypotheses are ranked by exactness and simplicity."""

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Sample, TableRequest
from service.analysis.identification.ranking import are_alike, is_rival, ranked
from service.analysis.identification.search import identify
from service.analysis.identification.verification import Verdict
from service.numerics.dtypes import FLOAT64
from service.numerics.tables import StoredTable, size
from service.routes.table_urls import tables
from tests.analysis.engines import in_float32, in_float64, proposal, question, verify


def verdict(base: float | None = None, *, single: bool = False) -> Verdict:
    given = proposal(6, 4) if base is None else proposal(6, 4, base=base)
    table = (in_float32 if single else in_float64)(6, 4, base or 10000.0)
    found = verify(question(table), given, tables)
    assert found is not None
    assert found.matches
    return found


def test_exact_match_ranks_before_a_float32_match() -> None:
    single, exact = verdict(5000.0, single=True), verdict()

    assert exact.arithmetic[0].rank < single.arithmetic[0].rank
    assert ranked([single, exact])[0] is exact


def test_table_that_differs_only_in_a_less_round_base_is_dropped() -> None:
    plain, crooked = verdict(20000.0), verdict(20000.0625)

    assert ranked([crooked, plain]) == (plain,)


def test_rival_has_similar_digits_and_arithmetic() -> None:
    assert is_rival(verdict(), verdict(500.0))
    assert not is_rival(verdict(), verdict(5000.25))
    assert not is_rival(verdict(), verdict(500.0, single=True))


def test_requests_for_one_table_are_alike() -> None:
    paper = TableRequest("encoding", {"seq_len": 9, "d_model": 8})
    other = paper.with_parameters(convention="positional-encodings")

    assert are_alike(paper, other, tables)
    assert not are_alike(paper, paper.with_parameters(layout="concatenated"), tables)


def test_tables_that_continue_differently_are_not_alike() -> None:
    paper = TableRequest("encoding", {"seq_len": 1, "d_model": 8})
    slower = paper.with_parameters(base=500.0)
    table = in_float64(1, 8)
    held = [
        verify(question(table, FLOAT64), proposal(1, 8, "float64", **given), tables)
        for given in ({}, {"base": 500.0})
    ]

    assert all(each is not None and each.matches for each in held)
    assert not are_alike(paper, slower, tables)


def names(query: TableRequest) -> list[str]:
    (table,) = tables(query).arrays.values()
    numbers = table.read(0, size(table)).reshape(table.shape).astype(np.float64)
    found = identify(question(numbers), tables)
    return [verdict.proposal.request.resource for verdict in found.hypotheses]


@pytest.mark.full
def test_cosines_first_rank_as_rotary_sines_first_as_encoding_and_timesteps_last() -> None:
    rotary = TableRequest(
        "rope", {"head_dim": 16, "rope_theta": 10000.0, "seq_len": 20, "pack": "concat"}
    )
    sines = TableRequest("encoding", {"d_model": 16, "seq_len": 20, "layout": "concatenated"})

    assert names(rotary)[0] == "rope"
    assert names(sines)[0] == "encoding"
    assert names(rotary)[-1] == names(sines)[-1] == "encoding/timesteps"


def test_float32_matches_are_dropped_where_one_is_exact() -> None:
    exact, near = verdict(), verdict(5000.0, single=True)

    assert ranked([near, exact]) == (exact,)


def test_list_fitted_to_random_numbers_is_no_identification() -> None:
    rng = np.random.default_rng(3)
    numbers = np.sort(rng.random(24))[::-1].astype(np.float32).astype(np.float64)

    assert identify(question(numbers), tables).outcome == "none"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_list_with_many_elements_per_number_is_identified(dtype: str) -> None:
    inv_freq = tuple(float(f"{0.9 / (1 + k * k):.5g}") for k in range(16))
    call = TableRequest(
        "rope", {"inv_freq": inv_freq, "seq_len": 40, "pack": "concat", "dtype": dtype}
    )
    (table,) = tables(call).arrays.values()
    elements = table.read(0, size(table)).reshape(table.shape)
    sample = Sample.of(StoredTable(elements, table.dtype))

    assert identify(IdentifyInput({"x": sample}), tables).outcome != "none"
