"""Rotary tables, their components, frequencies and angles."""

import numpy as np
import pytest

from service.analysis.families.rotary_tables import (
    located_components,
    propose_angles,
    propose_inverse_frequencies,
)
from tests.analysis.samples import (
    ROTARY_FAMILIES,
    distance,
    evaluated_rows,
    input_from,
    input_of,
    proposed,
)

UNIT = 2.0**-24


def test_the_angle_model_gives_the_proposed_table() -> None:
    request = input_of("/rope?head_dim=8&seq_len=6&start=2&pack=concat&rope_theta=500000")

    model = proposed(request, ROTARY_FAMILIES)[0].angles

    assert model is not None
    assert evaluated_rows(model) == pytest.approx(request.sample.reals(), abs=2 * UNIT)


def test_support_names_norm_and_series() -> None:
    first = proposed(input_of("/rope?head_dim=8&seq_len=6&pack=concat"), ROTARY_FAMILIES)[0]

    assert first.support[0].startswith("√(cos² + sin²) is 1 within ")
    assert "frequencies fall from 1 as 10000^(-2k/8)" in first.support[1]


@pytest.mark.parametrize("part", ["cos", "sin"])
@pytest.mark.parametrize("pack", ["half", "interleaved", "compact"])
@pytest.mark.parametrize("start", [0, 40])
def test_one_component_gives_rule_pack_and_start(part: str, pack: str, start: int) -> None:
    request = input_of(f"/rope?head_dim=64&seq_len=300&start={start}&pack={pack}&part={part}")

    found, name, located = next(located_components(request, UNIT))

    assert (found, name) == (pack, part)
    assert located.match.parameters == {"rope_theta": 10000.0}
    assert located.positions[0] == start
    assert distance(proposed(request, ROTARY_FAMILIES)[0], request) == 0


def test_one_component_of_few_rows_has_no_proposal() -> None:
    request = input_of("/rope?head_dim=64&seq_len=4&pack=half&part=cos")

    assert not list(located_components(request, UNIT))


def test_frequencies_in_float32_keep_their_base() -> None:
    omega = (1 / 10000.0 ** (np.arange(32, dtype=np.float32) / 32)).astype(np.float32)

    first = next(propose_inverse_frequencies(input_from(omega)))

    assert first.request.parameters == {"head_dim": 64, "rope_theta": 10000.0, "part": "inv_freq"}


def test_cosines_and_sines_are_neither_frequencies_nor_angles() -> None:
    request = input_of("/rope?head_dim=8&seq_len=9&pack=flat")

    assert not list(propose_inverse_frequencies(request))
    assert not list(propose_angles(request))
