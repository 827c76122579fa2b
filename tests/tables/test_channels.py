"""What a row holds in which place."""

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
