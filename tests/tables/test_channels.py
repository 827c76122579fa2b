"""What a row holds in which place."""

import numpy as np
import pytest

from service.tables.channels import Channels


@pytest.mark.parametrize(
    ("channels", "expected"),
    [
        (Channels(("sin", "cos"), True, 4), [(0, True), (0, False), (1, True), (1, False)]),
        (Channels(("sin", "cos"), True, 3), [(0, True), (0, False), (1, True)]),
        (Channels(("sin", "cos"), False, 4), [(0, True), (1, True), (0, False), (1, False)]),
        (Channels(("sin", "cos"), False, 3), [(0, True), (1, True), (0, False)]),
        (Channels(("cos", "sin"), False, 2), [(0, False), (0, True)]),
        (Channels(("cos", "cos"), True, 4), [(0, False), (0, False), (1, False), (1, False)]),
    ],
)
def test_channels_name_component_and_frequency(
    channels: Channels, expected: list[tuple[int, bool]]
) -> None:
    frequency, is_sine = channels.indices()

    assert expected == list(zip(frequency.tolist(), is_sine.tolist(), strict=True))


ZEROS = [
    (Channels(("sin", "cos"), False, 5, zeros=1), [(0, True), (1, True), (0, False), (1, False)]),
    (Channels(("sin", "cos"), True, 4, zeros=2), [(0, True), (0, False)]),
    (Channels(("cos", "sin"), False, 3, zeros=1), [(0, False), (0, True)]),
    (Channels(("sin", "cos"), False, 1, zeros=1), []),
]


@pytest.mark.parametrize(("channels", "before"), ZEROS)
def test_zeros_come_last_and_move_nothing_before_them(
    channels: Channels, before: list[tuple[int, bool]]
) -> None:
    frequency, is_sine = channels.indices()
    found = list(zip(frequency.tolist(), is_sine.tolist(), strict=True))

    assert len(found) == channels.width
    assert found[: -channels.zeros] == before
    # A sine of the first frequency is there for every rule.
    assert found[-channels.zeros :] == [(0, True)] * channels.zeros


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "uint16"])
def test_channels_of_zeros_are_blank_whatever_was_there(dtype: str) -> None:
    rows = np.ones((3, 5), dtype=dtype)

    Channels(("sin", "cos"), False, 5, zeros=2).blank(rows)

    assert rows.tolist() == [[1, 1, 1, 0, 0]] * 3


def test_without_zeros_nothing_is_blank() -> None:
    rows = np.ones((2, 4))

    Channels(("sin", "cos"), True, 4).blank(rows)

    assert rows.all()
