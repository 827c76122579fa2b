"""Hypotheses are ranked by exactness and simplicity."""

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Sample, TableRequest
from service.analysis.identification.ranking import are_alike, is_rival, ranked
from service.analysis.identification.search import Identification, identify
from service.analysis.identification.verification import Verdict, rank
from service.numerics.dtypes import FLOAT64
from service.routes.table_urls import tables
from tests.analysis.engines import in_float32, in_float64, proposal, verify
from tests.analysis.samples import float_input, sample_of


def identified(sample: Sample) -> Identification:
    return identify(IdentifyInput({"x": sample}), tables)


def verdict(base: float | None = None, *, single: bool = False) -> Verdict:
    proposed = proposal(600, 4) if base is None else proposal(600, 4, base=base)
    table = (in_float32 if single else in_float64)(600, 4, base or 10000.0)
    verdict = verify(float_input(table), proposed, tables)
    assert verdict is not None
    assert verdict.matches
    return verdict


def test_float32_matches_are_dropped_where_one_is_exact() -> None:
    exact, near = verdict(), verdict(5000.0, single=True)

    assert rank(exact.arithmetic[0]) < rank(near.arithmetic[0])
    assert ranked([near, exact]) == (exact,)


def test_table_that_differs_only_in_a_less_round_base_is_dropped() -> None:
    round_base, other = verdict(20000.0), verdict(20000.0625)

    assert ranked([other, round_base]) == (round_base,)


def test_rival_has_similar_digits_and_arithmetic() -> None:
    assert is_rival(verdict(), verdict(500.0))
    assert not is_rival(verdict(), verdict(5000.25))
    assert not is_rival(verdict(), verdict(500.0, single=True))


def test_requests_for_one_table_are_alike() -> None:
    paper = TableRequest("encoding", {"seq_len": 9, "d_model": 8})
    other = paper.with_parameters(convention="positional-encodings")

    assert are_alike(paper, other, tables)
    assert not are_alike(paper, paper.with_parameters(layout="concatenated"), tables)


def test_masked_tables_with_other_slopes_are_not_alike() -> None:
    given = {"num_heads": 4, "query_len": 6, "masked": True}
    one = TableRequest("relative/alibi", given)

    assert are_alike(one, one, tables)
    assert not are_alike(one, one.with_parameters(alibi_bias_max=4.0), tables)


def test_tables_that_continue_differently_are_not_alike() -> None:
    row = float_input(in_float64(1, 8), FLOAT64)
    paper, slower = proposal(1, 8, "float64"), proposal(1, 8, "float64", base=500.0)

    for each in (paper, slower):
        verdict = verify(row, each, tables)
        assert verdict is not None
        assert verdict.matches
    assert not are_alike(paper.request, slower.request, tables)


@pytest.mark.full
def test_cosines_first_rank_as_rotary_sines_first_as_encoding_and_timesteps_last() -> None:
    rotary = sample_of("rope", head_dim=16, rope_theta=10000.0, seq_len=20, pack="concat")
    sines = sample_of("encoding", d_model=16, seq_len=20, layout="concatenated")
    rotary_names, sine_names = (
        [verdict.proposal.request.resource for verdict in identified(sample).hypotheses]
        for sample in (rotary, sines)
    )

    assert rotary_names[0] == "rope"
    assert sine_names[0] == "encoding"
    assert rotary_names[-1] == sine_names[-1] == "encoding/timesteps"


def test_list_fitted_to_random_numbers_is_no_identification() -> None:
    rng = np.random.default_rng(3)
    numbers = np.sort(rng.random(24))[::-1].astype(np.float32).astype(np.float64)

    assert identify(float_input(numbers), tables).outcome == "none"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_list_with_many_elements_per_number_is_identified(dtype: str) -> None:
    inv_freq = tuple(float(f"{0.9 / (1 + k * k):.5g}") for k in range(16))
    sample = sample_of("rope", inv_freq=inv_freq, seq_len=40, pack="concat", dtype=dtype)

    assert identified(sample).outcome != "none"
