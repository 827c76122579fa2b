"""Tables that one gets where a setting is not read."""

from service.analysis.call import Call
from service.analysis.mistakes.variants import variants

LLAMA3 = {
    "head_dim": "128",
    "seq_len": "8",
    "rope_theta": "500000",
    "rope_type": "llama3",
    "factor": "8",
    "low_freq_factor": "1",
    "high_freq_factor": "4",
    "original_max_position_embeddings": "8192",
}


def named(resource: str, **parameters: str) -> list[tuple[str, dict[str, object]]]:
    return [
        (mistake.name, dict(call.parameters))
        for mistake, call in variants(Call(resource, parameters))
    ]


def test_a_rule_that_is_not_read_leaves_the_base_and_the_width() -> None:
    name, parameters = named("rope", **LLAMA3)[0]

    assert name == "config-key-ignored"
    assert parameters == {"head_dim": "128", "seq_len": "8", "rope_theta": "500000"}


def test_the_default_has_no_rule_to_lose() -> None:
    assert named("rope", head_dim="128", seq_len="8", rope_theta="500000") == []


def test_one_key_may_be_passed_over() -> None:
    found = named("rope", **LLAMA3)

    assert any("low_freq_factor" not in kept and "rope_type" in kept for _, kept in found)


def test_longrope_has_two_lists() -> None:
    options = {"rope_type": "longrope", "original_max_position_embeddings": "32"}

    assert ("short-for-long-factors", {**options, "context_length": 33}) in named("rope", **options)
    long = {**options, "context_length": "64"}
    assert ("short-for-long-factors", {**long, "context_length": 32}) in named("rope", **long)


def test_height_and_width_are_exchanged_however_they_are_said() -> None:
    assert named("rope/axial", grid="2,3") == [("axes-swapped", {"grid": "3,2"})]
    assert named("rope/axial", grid="3,3") == []
    assert named("encoding/grid", height="2", width="3") == [
        ("axes-swapped", {"height": "3", "width": "2"})
    ]


def test_a_share_that_turns_may_be_passed_over() -> None:
    (name, kept), *_ = named("rope", head_dim="64", partial_rotary_factor="0.5", seq_len="4")

    assert name == "partial-width"
    assert kept == {"head_dim": "64", "seq_len": "4"}
