"""Vectors of frequencies, and angles outright."""

import numpy as np
import pytest

from service.analysis.question import Question
from service.analysis.rotary.inverse_frequencies import angles_outright, frequency_vectors
from service.analysis.sample import Sample
from service.tables.dtypes import FLOAT32
from service.tables.table import StoredTable
from tests.analysis.rotary_tables import asked, gives

_RULES = (
    "",
    "&rope_theta=500000",
    "&rope_type=linear&factor=8",
    "&rope_type=yarn&factor=16&original_max_position_embeddings=4096",
    "&rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4&original_max_position_embeddings=8192",
)


@pytest.mark.parametrize("rule", _RULES)
@pytest.mark.parametrize("part", ["inv_freq", "wavelength"])
def test_a_rule_is_found_by_its_frequencies(rule: str, part: str) -> None:
    question = asked(f"/rope/frequencies?head_dim=128&part={part}{rule}")

    assert any(gives(proposal.call, question) for proposal in frequency_vectors(question))


def test_frequencies_in_float32_keep_their_base() -> None:
    omega = (1 / 10000.0 ** (np.arange(32, dtype=np.float32) / 32)).astype(np.float32)
    question = Question({"array": Sample.of(StoredTable(omega, FLOAT32))})

    first = next(frequency_vectors(question))

    assert first.call.parameters == {"head_dim": 64, "rope_theta": 10000.0, "part": "inv_freq"}


@pytest.mark.parametrize("rule", _RULES)
@pytest.mark.parametrize("start", [0, 30])
def test_angles_say_rule_and_start(rule: str, start: int) -> None:
    question = asked(f"/rope?head_dim=64&seq_len=20&start={start}&pack=angle{rule}&dtype=float64")

    assert any(gives(proposal.call, question) for proposal in angles_outright(question))


def test_a_table_of_waves_is_neither() -> None:
    question = asked("/rope?head_dim=8&seq_len=9&pack=flat")

    assert not list(frequency_vectors(question))
    assert not list(angles_outright(question))
