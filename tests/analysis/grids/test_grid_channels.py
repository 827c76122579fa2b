import numpy as np

from service.analysis.grids.grid_channels import ListedChannels


def test_channels_hold_what_is_listed() -> None:
    channels = ListedChannels.of([1, 0, 1], [True, False, False])

    frequency, is_sine = channels.indices()

    assert frequency.tolist() == [1, 0, 1]
    assert is_sine.tolist() == [True, False, False]
    assert (channels.width, channels.zeros) == (3, 0)


def test_no_channel_is_blank() -> None:
    rows = np.ones((2, 3))

    ListedChannels.of([1, 0, 1], [True, False, False]).blank(rows)

    assert rows.all()
