"""Layouts: where cosines and sines lie, read off a row."""

import numpy as np
import pytest

from service.analysis.layouts import read, readings
from service.analysis.waves import measure
from service.tables.channels import Channels, Component

OMEGA = 10000.0 ** (-2 * np.arange(8) / 16)
ANGLES = np.outer(np.arange(20), OMEGA)

LAYOUTS: dict[str, tuple[tuple[Component, ...], bool, int]] = {
    "interleaved": (("sin", "cos"), True, 1),
    "concatenated": (("sin", "cos"), False, 1),
    "flat": (("cos", "sin"), True, 1),
    "concat": (("cos", "sin"), False, 1),
    "half_concat": (("cos", "cos", "sin", "sin"), False, 1),
    "sin_half_concat": (("sin", "sin", "cos", "cos"), False, 1),
    "sin_interleaved_concat": (("sin", "cos"), False, 2),
}


def rows_in(channels: Channels) -> np.ndarray:
    frequency, is_sine = channels.indices()
    angles = ANGLES[:, frequency]
    return np.asarray(np.where(is_sine, np.sin(angles), np.cos(angles)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_is_where_norms_are_even_turns_go_forward_and_frequencies_are_fewest(
    layout: str,
) -> None:
    components, interleaved, repeats = LAYOUTS[layout]
    width = 8 * len(components) * repeats
    rows = rows_in(Channels(components, interleaved, width, repeats))

    fitting = []
    for reading in readings(rows):
        waves = measure(reading.turns)
        if reading.discord < 1e-9 and waves.unevenness < 1e-9 and (waves.omega > 0).all():
            fitting.append((reading.turns.shape[1], reading.layout))

    assert min(fitting) == (8, layout)
    assert [count for count, _ in fitting].count(8) == 1


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_a_sine_without_a_cosine_is_left_out(layout: str) -> None:
    components, interleaved, repeats = LAYOUTS[layout]
    channels = Channels(components, interleaved, 15, repeats)

    reading = read(layout, channels, rows_in(channels))

    assert reading.turns.shape == (20, 7)
    assert np.allclose(reading.turns, np.exp(1j * ANGLES[:, :7]))


def test_channels_that_should_be_equal_and_are_not_are_noticed() -> None:
    channels = Channels(("cos", "cos", "sin", "sin"), False, 32)
    rows = rows_in(channels)
    rows[3, 9] += 0.25

    assert read("half_concat", channels, rows).discord == pytest.approx(0.25)


def test_one_channel_has_no_layout() -> None:
    assert not list(readings(np.ones((5, 1))))


@pytest.mark.parametrize("width", range(2, 13))
def test_every_width_is_read(width: int) -> None:
    for reading in readings(np.ones((3, width))):
        assert reading.turns.shape[0] == 3
        assert 1 <= reading.turns.shape[1] <= width // 2
