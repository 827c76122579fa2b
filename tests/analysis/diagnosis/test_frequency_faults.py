"""Mistakes of frequencies, measured; and tables of settings that are ignored or wrong."""

import numpy as np
import pytest

from service.analysis.array import TableRequest
from service.analysis.diagnosis.frequency_faults import angle_faults, frequency_mistakes, variants
from service.analysis.diagnosis.waves import Waves, waves_of
from service.numerics.phase import Float64s
from tests.analysis.mistaken import WaveTable

RIGHT = WaveTable(40, 16, "concat")
EPSILON = 2.0**-24


def expected_waves() -> Waves:
    waves = waves_of(RIGHT.table()["table"], is_pair=False, positions=None)
    assert waves is not None
    return waves


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (RIGHT, []),
        (
            WaveTable(40, 16, "concat", base=500000.0, start=3, factor=1.25),
            ["extra-factor", "position-offset", "wrong-base"],
        ),
    ],
)
def test_base_offset_and_factor_are_found_in_one_fit(sent: WaveTable, expected: list[str]) -> None:
    waves, table = expected_waves(), sent.table()["table"]

    fitting = [
        sorted(mistake.name for mistake in each.mistakes)
        for each in angle_faults(waves, table, EPSILON)
        if np.abs(each.table(waves, slice(None))[0] - table).max() < 1e-9
    ]

    assert fitting[0] == expected


def test_zeros_have_no_angle_fault() -> None:
    assert list(angle_faults(expected_waves(), np.zeros((40, 16)), EPSILON)) == []


PLACES = np.arange(8)


def powers(base: float, channels: int = 16) -> Float64s:
    return np.asarray(base ** (-2 * PLACES / channels))


def explained(omega: Float64s) -> list[tuple[list[str], dict[str, object]]]:
    """Return the mistakes that lead to frequencies, and the values of the first mistake."""
    return [
        ([mistake.name for mistake in mistakes], dict(mistakes[0].values) if mistakes else {})
        for mistakes, frequencies in frequency_mistakes(expected_waves(), omega, np.full(8, 1e-9))
        if np.abs(frequencies - omega).max() < 1e-12
    ]


@pytest.mark.parametrize(
    ("omega", "names", "values"),
    [
        (powers(10000), [], {}),
        (-powers(10000), ["sine-sign"], {}),
        (2 * powers(10000), ["rotated-twice"], {}),
        (0 * powers(10000), ["not-rotated"], {}),
        (powers(500000), ["wrong-base"], {"have": 500000, "want": 10000}),
        (powers(10000) / 8, ["linear-factor"], {"ratio": 0.125, "factor": 8}),
        (2 * powers(500000), ["wrong-base", "rotated-twice"], {}),
        (powers(500000) / 8, ["wrong-base", "linear-factor"], {}),
        (-powers(500000), ["sine-sign", "wrong-base"], {}),
        (powers(10000, 20), ["partial-width"], {"have": 20, "want": 16}),
        (np.where(PLACES < 4, powers(10000), 0), ["partial-width"], {"have": 8, "want": 16}),
        (np.where(PLACES < 4, powers(10000, 8), 0), ["partial-width"], {"have": 8, "want": 16}),
        (np.where(PLACES < 4, powers(10000) / 4, 0), ["partial-width", "linear-factor"], {}),
        (np.where(PLACES < 4, powers(500000, 8), 0), ["partial-width", "wrong-base"], {}),
    ],
    ids=str,
)
def test_mistakes_of_measured_frequencies_are_named(
    omega: Float64s, names: list[str], values: dict[str, object]
) -> None:
    (found, *_) = (values_of for named, values_of in explained(omega) if named == names)

    assert found.items() >= values.items()


def test_other_frequencies_have_no_mistake() -> None:
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
BOUNDS = ("low_freq_factor", "high_freq_factor")
DEFAULT = {"head_dim": "128", "seq_len": "8", "rope_theta": "500000"}
LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": "32"}
LONG = {**LONGROPE, "context_length": "64"}
PARTIAL = {"head_dim": "64", "partial_rotary_factor": "0.5", "seq_len": "4"}
IMAGE = {"height": "2", "width": "3"}


def without(parameters: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key != name}


def named(resource: str, parameters: dict[str, str]) -> list[tuple[str, dict[str, object]]]:
    return [
        (mistake.name, dict(request.parameters))
        for mistake, request in variants(TableRequest(resource, parameters))
    ]


@pytest.mark.parametrize(
    ("resource", "parameters", "name", "changed"),
    [
        ("rope", LLAMA3, "config-key-ignored", DEFAULT),
        ("rope", LLAMA3, "config-key-ignored", without(LLAMA3, "low_freq_factor")),
        *(
            ("rope", LLAMA3, "wrong-rule", {**LLAMA3, **dict.fromkeys(BOUNDS, cut)})
            for cut in ("1", "4", "2.5")
        ),
        ("rope", LONGROPE, "short-for-long-factors", {**LONGROPE, "context_length": 33}),
        ("rope", LONG, "short-for-long-factors", {**LONGROPE, "context_length": 32}),
        ("rope", PARTIAL, "partial-width", without(PARTIAL, "partial_rotary_factor")),
        ("rope/axial", {"grid": "2,3"}, "axes-swapped", {"grid": "3,2"}),
        ("rope/axial", {"grid": "4,2,3"}, "axes-swapped", {"grid": "4,3,2"}),
        ("encoding/grid", IMAGE, "axes-swapped", {"height": "3", "width": "2"}),
    ],
    ids=str,
)
def test_variants_have_the_settings_of_a_mistake(
    resource: str, parameters: dict[str, str], name: str, changed: dict[str, object]
) -> None:
    assert (name, changed) in named(resource, parameters)


@pytest.mark.parametrize(
    ("resource", "parameters"),
    [("rope", DEFAULT), ("rope/axial", {"grid": "3,3"}), ("rope/axial", {"grid": "3"})],
)
def test_default_rule_and_square_grid_have_no_variants(
    resource: str, parameters: dict[str, str]
) -> None:
    assert named(resource, parameters) == []
