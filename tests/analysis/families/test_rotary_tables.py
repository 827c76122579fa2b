"""Rotary tables, their components, frequencies and angles."""

import numpy as np
import pytest

from service.analysis.array import IdentifyInput, Proposal
from service.analysis.families.rotary_tables import propose_angles, propose_inverse_frequencies
from service.analysis.identification.search import propose_rows
from tests.analysis.samples import distance, input_from, input_of


def rotary_proposals(request: IdentifyInput) -> list[Proposal]:
    return [each for each in propose_rows(request) if each.request.resource == "rope"]


def test_support_names_norm_and_series() -> None:
    first = rotary_proposals(input_of("/rope?head_dim=8&seq_len=6&pack=concat"))[0]

    assert first.support[0].startswith("√(cos² + sin²) is 1 within ")
    assert "frequencies fall from 1 as 10000^(-2k/8)" in first.support[1]


@pytest.mark.parametrize("part", ["cos", "sin"])
@pytest.mark.parametrize("pack", ["half", "interleaved", "compact"])
@pytest.mark.parametrize("start", [0, 40])
def test_one_component_gives_rule_pack_and_start(part: str, pack: str, start: int) -> None:
    request = input_of(f"/rope?head_dim=64&seq_len=300&start={start}&pack={pack}&part={part}")

    first = rotary_proposals(request)[0]

    assert first.request.parameters["part"] == part
    assert first.request.parameters["pack"] == pack
    assert first.request.parameters.get("start", 0) == start
    assert distance(first, request) == 0


def test_one_component_of_few_rows_has_no_proposal() -> None:
    request = input_of("/rope?head_dim=64&seq_len=4&pack=half&part=cos")

    assert not rotary_proposals(request)


def test_frequencies_in_float32_keep_their_base() -> None:
    omega = (1 / 10000.0 ** (np.arange(32, dtype=np.float32) / 32)).astype(np.float32)

    first = next(propose_inverse_frequencies(input_from(omega)))

    assert first.request.parameters == {"head_dim": 64, "rope_theta": 10000.0, "part": "inv_freq"}


def test_cosines_and_sines_are_neither_frequencies_nor_angles() -> None:
    request = input_of("/rope?head_dim=8&seq_len=9&pack=flat")

    assert not list(propose_inverse_frequencies(request))
    assert not list(propose_angles(request))
