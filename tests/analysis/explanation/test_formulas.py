"""The float64 formulas of scaling rules, by which tables are proposed, are those of tables."""

from typing import Any

import numpy as np
import pytest

from service.analysis.explanation.formulas import FORMULAS, Rule, Series
from service.analysis.explanation.target import target_of
from service.delivery.parameters import parse_query, read_parameters
from service.encodings.rotary.rope import Rope
from service.encodings.rotary.rules import ROPE_TYPES, RULES, rule_of

LISTS = "short_factor=1,1.5,2,4&long_factor=2,3,4,8"
CASES = {
    "default": "",
    "freq_factors": "freq_factors=1,2,3,4",
    "linear": "rope_type=linear&factor=3",
    "ntk": "rope_type=ntk&factor=4",
    "ntk-mixed": "rope_type=ntk&factor=4&mixed_b=0.625",
    "dynamic": "rope_type=dynamic&factor=2&max_position_embeddings=64&context_length=256",
    "dynamic-alpha": "rope_type=dynamic&alpha=1000",
    "yarn": "rope_type=yarn&factor=4&original_max_position_embeddings=64&beta_fast=8",
    "yarn-truncate": "rope_type=yarn&factor=4&original_max_position_embeddings=64&truncate=false",
    "llama3": "rope_type=llama3&factor=8&low_freq_factor=1&high_freq_factor=4"
    "&original_max_position_embeddings=64",
    "longrope-short": f"rope_type=longrope&{LISTS}&factor=4&original_max_position_embeddings=16",
    "longrope-long": f"rope_type=longrope&{LISTS}&factor=4&original_max_position_embeddings=16"
    "&context_length=64",
    "proportional": "rope_type=proportional&partial_rotary_factor=0.5&factor=2",
}


def parameters(query: str) -> Rope:
    return read_parameters(Rope, parse_query(f"head_dim=8&seq_len=4&{query}".encode()))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("base", [10000, 500000])
def test_frequencies_and_scale_are_those_of_the_table(name: str, base: int) -> None:
    rope = parameters(f"{CASES[name]}&rope_theta={base}")
    rule: Any = rope.rule(8)

    target = target_of(rope.document(), None, rule)

    assert target is not None
    assert target.series is not None
    frequencies = target.rule.frequencies(target.series)
    np.testing.assert_allclose(frequencies, target.omega, rtol=1e-12)
    assert target.rule.scale == pytest.approx(target.scale, rel=1e-12)


def test_every_rule_has_a_formula() -> None:
    assert set(FORMULAS) == set(ROPE_TYPES)
    covered = {type(parameters(query).rule(8)) for query in CASES.values()}
    assert covered == set(RULES)


def test_a_rule_without_keys_changes_nothing() -> None:
    series = Series(10000.0, np.arange(4) / 4, 8)

    assert not Rule()
    np.testing.assert_array_equal(Rule().frequencies(series), series.omega)
    assert rule_of("default", {}).rope_type == Rule().rope_type
