"""Cosines alone, or sines."""

import pytest

from service.analysis.rotary.components import components_located
from tests.analysis.rotary_tables import asked, rank

_UNIT = 2.0**-24


@pytest.mark.parametrize("part", ["cos", "sin"])
@pytest.mark.parametrize("pack", ["half", "interleaved", "compact"])
@pytest.mark.parametrize("start", [0, 40])
def test_one_component_says_rule_pack_and_start(part: str, pack: str, start: int) -> None:
    question = asked(f"/rope?head_dim=64&seq_len=300&start={start}&pack={pack}&part={part}")

    packed, found = next(components_located(question, _UNIT))

    assert list(packed.channels) == [part]
    assert found.found.parameters == {"rope_theta": 10000.0}
    assert found.positions[0] == start
    assert rank(question) == 0


def test_a_few_rows_say_too_little() -> None:
    question = asked("/rope?head_dim=64&seq_len=4&pack=half&part=cos")

    assert not list(components_located(question, _UNIT))
