"""What is proposed for rotary tables.

Cosines alone, or sines.

Vectors of frequencies, and angles outright.
"""

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Sample
from service.analysis.families.rotary_tables import (
    located_components,
    propose_angles,
    propose_inverse_frequencies,
)
from service.encodings.rotary.packs import PACKS
from service.numerics.dtypes import FLOAT32
from service.numerics.tables import StoredTable
from tests.analysis.rotary_tables import asked, gives, proposed, rank

_RULES = {
    "default": "",
    "base": "&rope_theta=500000",
    "linear": "&rope_type=linear&factor=8",
    "alpha": "&rope_type=dynamic&alpha=1000",
    "ntk": "&rope_type=ntk&factor=8",
    "mixed": "&rope_type=ntk&factor=8&mixed_b=0.625",
    "yarn": "&rope_type=yarn&factor=16&original_max_position_embeddings=4096",
    "llama3": "&rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4&rope_theta=500000"
    "&original_max_position_embeddings=8192",
    "proportional": "&rope_type=proportional&partial_rotary_factor=0.25",
}


@pytest.mark.parametrize("rule", _RULES)
@pytest.mark.parametrize("head_dim", [64, 128])
def test_every_rule_is_among_the_first_few(rule: str, head_dim: int) -> None:
    question = asked(f"/rope?head_dim={head_dim}&seq_len=200&pack=half{_RULES[rule]}")

    place = rank(question)

    assert place is not None
    assert place < 6


@pytest.mark.parametrize("pack", PACKS)
def test_every_pack_comes_first(pack: str) -> None:
    question = asked(f"/rope?head_dim=32&seq_len=40&pack={pack}")

    assert any(gives(each.request, question) for each in proposed(question)[:3])


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_every_type_comes_first(dtype: str) -> None:
    assert rank(asked(f"/rope?head_dim=64&seq_len=300&start=3&pack=half&dtype={dtype}")) == 0


@pytest.mark.parametrize("rows", ["seq_len=4", "seq_len=1&start=4095", "positions=3,9,1000"])
def test_few_rows_are_enough(rows: str) -> None:
    assert rank(asked(f"/rope?head_dim=64&{rows}&pack=half")) == 0


def test_turning_gives_the_numbers_that_are_proposed() -> None:
    question = asked("/rope?head_dim=8&seq_len=6&start=2&pack=concat&rope_theta=500000")
    turning = proposed(question)[0].angles
    assert turning is not None
    index, is_sine = turning.channels["rope"].indices()

    angles = (turning.coordinates @ turning.omega[np.newaxis])[:, index]

    made = turning.scale * np.where(is_sine, np.sin(angles), np.cos(angles))
    assert np.abs(made - question.sample.values).max() < 2.0**-23


def test_a_support_says_what_was_measured() -> None:
    first = proposed(asked("/rope?head_dim=8&seq_len=6&pack=concat"))[0]

    assert first.support[0].startswith("√(cos² + sin²) is 1 within ")
    assert "frequencies fall from 1 as 10000^(-2k/8)" in first.support[1]


@pytest.mark.parametrize(
    "shape", [(1,), (7,), (5, 6), (1, 8), (8, 1), (3, 4, 2), (3, 4, 5), (2, 2)]
)
def test_noise_raises_nothing_and_is_no_table(shape: tuple[int, ...]) -> None:
    noise = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    question = IdentifyInput({"array": Sample.of(StoredTable(noise, FLOAT32))})

    assert not any(gives(each.request, question) for each in proposed(question))


_UNIT = 2.0**-24


@pytest.mark.parametrize("part", ["cos", "sin"])
@pytest.mark.parametrize("pack", ["half", "interleaved", "compact"])
@pytest.mark.parametrize("start", [0, 40])
def test_one_component_says_rule_pack_and_start(part: str, pack: str, start: int) -> None:
    question = asked(f"/rope?head_dim=64&seq_len=300&start={start}&pack={pack}&part={part}")

    packed, found = next(located_components(question, _UNIT))

    assert list(packed.channels) == [part]
    assert found.match.parameters == {"rope_theta": 10000.0}
    assert found.positions[0] == start
    assert rank(question) == 0


def test_a_few_rows_say_too_little() -> None:
    question = asked("/rope?head_dim=64&seq_len=4&pack=half&part=cos")

    assert not list(located_components(question, _UNIT))


_INVERSE_FREQUENCIES_RULES = (
    "",
    "&rope_theta=500000",
    "&rope_type=linear&factor=8",
    "&rope_type=yarn&factor=16&original_max_position_embeddings=4096",
    "&rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4&original_max_position_embeddings=8192",
)


@pytest.mark.parametrize("rule", _INVERSE_FREQUENCIES_RULES)
@pytest.mark.parametrize("part", ["inv_freq", "wavelength"])
def test_a_rule_is_found_by_its_frequencies(rule: str, part: str) -> None:
    question = asked(f"/rope/frequencies?head_dim=128&part={part}{rule}")

    assert any(
        gives(proposal.request, question) for proposal in propose_inverse_frequencies(question)
    )


def test_frequencies_in_float32_keep_their_base() -> None:
    omega = (1 / 10000.0 ** (np.arange(32, dtype=np.float32) / 32)).astype(np.float32)
    question = IdentifyInput({"array": Sample.of(StoredTable(omega, FLOAT32))})

    first = next(propose_inverse_frequencies(question))

    assert first.request.parameters == {"head_dim": 64, "rope_theta": 10000.0, "part": "inv_freq"}


@pytest.mark.parametrize("rule", _INVERSE_FREQUENCIES_RULES)
@pytest.mark.parametrize("start", [0, 30])
def test_angles_say_rule_and_start(rule: str, start: int) -> None:
    question = asked(f"/rope?head_dim=64&seq_len=20&start={start}&pack=angle{rule}&dtype=float64")

    assert any(gives(proposal.request, question) for proposal in propose_angles(question))


def test_a_table_of_waves_is_neither() -> None:
    question = asked("/rope?head_dim=8&seq_len=9&pack=flat")

    assert not list(propose_inverse_frequencies(question))
    assert not list(propose_angles(question))
