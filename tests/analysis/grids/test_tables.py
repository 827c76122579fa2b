import numpy as np
import pytest

from service.analysis.call import Call
from service.analysis.grids.tables import FAMILIES
from service.analysis.question import Question
from tests.analysis.grid_asking import distance, nearest, question_from, question_of
from tests.parity.golden import Case, golden_folder, read_cases

LIBRARIES = {
    "positional_encodings_2d",
    "positional_encodings_3d",
    "diffusers_sincos_2d",
    "diffusers_sincos_3d",
    "timm_sincos_2d",
    "detr_sine",
    "mae_sincos_2d",
    "t2t_timing_signal_nd",
    "hf_perceiver_fourier",
    "hf_mrope_chunked",
    "hf_mrope_interleaved",
    "diffusers_rope_2d",
    "diffusers_rope_3d",
    "timm_rope",
    "timm_rope_cat",
    "dinov3_rope",
}


def is_one_grid(case: Case) -> bool:
    """Tell whether what a case answers is the table of one grid: of no mask and no single axis."""
    masks = [mask for name, mask in case.inputs.items() if name == "valid_mask" or len(mask) > 1]
    is_masked = case.family == "detr_sine" and bool(masks)
    return not is_masked and "grid_t" not in case.outputs


CASES = [
    case for case in read_cases(golden_folder()) if case.family in LIBRARIES and is_one_grid(case)
]


def asked(case: Case) -> tuple[Question, float]:
    """Ask about what a library made."""
    names = case.outputs.keys() & {"out", "cos", "sin"}
    atol = max(case.atol[name] for name in names)
    return question_from({name: case.outputs[name] for name in sorted(names)}), atol


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_tables_of_libraries_are_among_what_is_proposed_first(case: Case) -> None:
    question, atol = asked(case)

    assert min(nearest(family, question) for family in FAMILIES) <= atol


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_no_grid(seed: int) -> None:
    noise = np.random.default_rng(seed).standard_normal((48, 32))
    question = question_from({"out": noise})

    assert [proposal for family in FAMILIES for proposal in family(question)] == []


@pytest.mark.parametrize("url", ["/encoding?seq_len=64&d_model=32", "/rope?seq_len=64&head_dim=32"])
def test_a_sequence_is_no_grid(url: str) -> None:
    question = question_of(url)

    assert [each.call for family in FAMILIES for each in family(question)] == []


def test_a_proposal_with_angles_says_them_as_the_table_has_them() -> None:
    question = question_of("/rope/axial?convention=qwen2_vl&head_dim=16&grid=3,5&pack=concat")
    proposal = next(each for family in FAMILIES for each in family(question))
    assert proposal.turning is not None
    turning = proposal.turning

    channels = turning.channels["rope"]
    frequency, is_sine = channels.indices()
    angles = turning.coordinates[:, turning.axis] * turning.omega
    made = np.where(is_sine, np.sin(angles[:, frequency]), np.cos(angles[:, frequency]))

    assert proposal.call == Call(
        "rope/axial", {"convention": "qwen2_vl", "head_dim": 16, "grid": (3, 5), "pack": "concat"}
    )
    assert np.abs(made - question.sample.reals()).max() < 2**-23
    assert distance(proposal, question) == 0
