"""What is proposed for rotary tables."""

import numpy as np
import pytest

from service.analysis.question import Question
from service.analysis.sample import Sample
from service.tables.dtypes import FLOAT32
from service.tables.packs import PACKS
from service.tables.table import StoredTable
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

    assert any(gives(each.call, question) for each in proposed(question)[:3])


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_every_type_comes_first(dtype: str) -> None:
    assert rank(asked(f"/rope?head_dim=64&seq_len=300&start=3&pack=half&dtype={dtype}")) == 0


@pytest.mark.parametrize("rows", ["seq_len=4", "seq_len=1&start=4095", "positions=3,9,1000"])
def test_few_rows_are_enough(rows: str) -> None:
    assert rank(asked(f"/rope?head_dim=64&{rows}&pack=half")) == 0


def test_turning_gives_the_numbers_that_are_proposed() -> None:
    question = asked("/rope?head_dim=8&seq_len=6&start=2&pack=concat&rope_theta=500000")
    turning = proposed(question)[0].turning
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
    question = Question({"array": Sample.of(StoredTable(noise, FLOAT32))})

    assert not any(gives(each.call, question) for each in proposed(question))
