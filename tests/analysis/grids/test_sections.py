import pytest

from service.analysis.grids.sections import propose
from tests.analysis.grid_asking import nearest, question_of

# Text, an image of 3 by 4 patches, and text again.
POSITIONS = (
    "positions_t=0:4,4,4,4,4,4,4,4,4,4,4,4,4,8:12"
    "&positions_h=0:4,4,4,4,4,5,5,5,5,6,6,6,6,8:12"
    "&positions_w=0:4,4,5,6,7,4,5,6,7,4,5,6,7,8:12"
)
SECTIONS = [
    "head_dim=128&mrope_section=16,24,24&rope_theta=1000000",
    "head_dim=32&mrope_section=4,6,6",
    "head_dim=128&mrope_section=24,20,20&mrope_interleaved=true&rope_theta=5000000",
    "head_dim=64&mrope_section=12,10,10&mrope_interleaved=true&rope_theta=500000",
]


@pytest.mark.parametrize("pack", ["half", "pair", "complex", "concat", "interleaved"])
@pytest.mark.parametrize("section", SECTIONS)
def test_sections_base_and_positions_are_found(section: str, pack: str) -> None:
    question = question_of(f"/rope?{section}&{POSITIONS}&pack={pack}")

    assert nearest(propose, question) <= 2**-23


@pytest.mark.parametrize("section", SECTIONS)
def test_a_grid_is_said_as_one(section: str) -> None:
    question = question_of(f"/rope?{section}&grid=2,5,7")

    proposal = next(propose(question))

    said: dict[str, object] = dict(proposal.call.parameters)
    assert said["grid"] == (2, 5, 7)
    assert nearest(propose, question) <= 2**-23


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("section", SECTIONS)
def test_sections_are_found_in_narrow_types(section: str, dtype: str) -> None:
    question = question_of(f"/rope?{section}&{POSITIONS}&dtype={dtype}")

    assert nearest(propose, question) == 0


RULES: list[dict[str, object]] = [
    {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
    {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "rope_theta": 1000000.0,
    },
]


@pytest.mark.parametrize("rule", RULES, ids=["linear", "yarn"])
def test_a_text_before_the_image_says_the_rule(rule: dict[str, object]) -> None:
    asked = "&".join(f"{name}={value}" for name, value in rule.items()).replace(".0", "")
    question = question_of(
        f"/rope?head_dim=64&mrope_section=16,8,8&{asked}&{POSITIONS}&dtype=float64"
    )

    said = next(propose(question)).call.parameters
    assert rule.items() <= said.items()
    assert said["mrope_section"] == (16, 8, 8)


def test_positions_of_one_axis_are_none_of_three() -> None:
    assert list(propose(question_of("/rope?head_dim=64&seq_len=40"))) == []


def test_a_row_of_another_table_leaves_no_positions() -> None:
    question = question_of(f"/rope?{SECTIONS[1]}&{POSITIONS}")
    question.sample.values[7] = question.sample.values[7][::-1].copy()

    assert list(propose(question)) == []
