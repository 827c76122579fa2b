"""What is measured in rows says what may have been done to waves.

Mistakes of frequencies, from measured ones.

Tables that one gets where a setting is not read.
"""

import numpy as np
import pytest

from service.analysis.array import TableRequest
from service.analysis.diagnosis.frequency_faults import angle_faults, frequency_mistakes, variants
from service.analysis.diagnosis.waves import Waves, waves_of
from service.numerics.phase import Float64s
from tests.analysis.mistaken import Made

RIGHT = Made(40, 16, "concat")
EPSILON = 2.0**-24


def found(made: Made) -> list[list[str]]:
    waves = waves_of(RIGHT.table()["table"], is_pair=False, positions=None)
    assert waves is not None
    return [
        [mistake.name for mistake in each.mistakes]
        for each in angle_faults(waves, made.table()["table"], EPSILON)
        if np.abs(each.table(waves, slice(None))[0] - made.table()["table"]).max() < 1e-9
    ]


def test_several_things_are_measured_at_once() -> None:
    made = Made(40, 16, "concat", base=500000.0, start=3, factor=1.25)

    assert sorted(found(made)[0]) == ["extra-factor", "position-offset", "wrong-base"]


def test_what_is_right_is_among_it() -> None:
    assert [] in found(RIGHT)


def test_zeros_say_nothing() -> None:
    waves = waves_of(RIGHT.table()["table"], is_pair=False, positions=None)
    assert waves is not None

    assert list(angle_faults(waves, np.zeros((40, 16)), EPSILON)) == []


PLACES = np.arange(8)


def wanted() -> Waves:
    waves = waves_of(Made(30, 16, "concat").table()["table"], is_pair=False, positions=None)
    assert waves is not None
    return waves


def explained(omega: Float64s) -> list[tuple[list[str], dict[str, object]]]:
    error = np.full(8, 1e-9)
    return [
        ([mistake.name for mistake in mistakes], dict(mistakes[0].values) if mistakes else {})
        for mistakes, speeds in frequency_mistakes(wanted(), omega, error)
        if np.abs(speeds - omega).max() < 1e-12
    ]


def powers(base: float, channels: int = 16) -> Float64s:
    return np.asarray(base ** (-2 * PLACES / channels))


@pytest.mark.parametrize(
    ("omega", "names"),
    [
        (powers(10000), []),
        (-powers(10000), ["sine-sign"]),
        (2 * powers(10000), ["rotated-twice"]),
        (0 * powers(10000), ["not-rotated"]),
        (powers(500000), ["wrong-base"]),
        (powers(10000) / 8, ["linear-factor"]),
        (2 * powers(500000), ["wrong-base", "rotated-twice"]),
        (powers(500000) / 8, ["wrong-base", "linear-factor"]),
        (-powers(500000), ["sine-sign", "wrong-base"]),
        (np.where(PLACES < 4, powers(10000), 0), ["partial-width"]),
        (np.where(PLACES < 4, powers(10000, 8), 0), ["partial-width"]),
        (np.where(PLACES < 4, powers(10000) / 4, 0), ["partial-width", "linear-factor"]),
        (np.where(PLACES < 4, powers(500000, 8), 0), ["partial-width", "wrong-base"]),
    ],
    ids=str,
)
def test_frequencies_are_explained(omega: Float64s, names: list[str]) -> None:
    assert names in [found for found, _ in explained(omega)]


def test_both_bases_and_both_widths_are_given() -> None:
    assert explained(powers(500000))[0][1] == {"have": 500000, "want": 10000}
    narrow = explained(np.where(PLACES < 4, powers(10000, 8), 0))

    assert narrow[0][1] == {"have": 8, "want": 16}


def test_the_same_base_over_another_width_is_one() -> None:
    assert (["partial-width"], {"have": 20, "want": 16}) in explained(powers(10000, 20))


def test_other_frequencies_have_no_explanation() -> None:
    assert explained(np.array([1, 0.9, 0.5, 0.2, 0.19, 0.1, 0.01, 0.001])) == []


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
        for mistake, call in variants(TableRequest(resource, parameters))
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
