"""Orders that mistakes lead to: undone, they give what was wanted."""

import numpy as np

from service.analysis.mistakes.orders import orders

WANTED = np.arange(6 * 8).reshape(6, 8)


def undone(have: np.ndarray, grid: tuple[int, int] | None = None) -> list[list[str]]:
    found = orders(len(have), 8, 1, grid)
    return [
        [mistake.name for mistake in order.mistakes]
        for order in found
        if np.array_equal(have[order.rows][:, order.columns], WANTED)
    ]


def test_what_is_in_order_comes_first() -> None:
    assert undone(WANTED)[0] == []


def test_each_exchange_is_undone() -> None:
    halves = np.hstack([WANTED[:, ::2], WANTED[:, 1::2]])
    pairs = np.stack([WANTED[:, :4], WANTED[:, 4:]], axis=-1).reshape(6, 8)

    assert undone(halves) == [["layout-swapped"]]
    assert undone(pairs) == [["layout-swapped"]]
    assert undone(np.roll(WANTED, 4, axis=1)) == [["halves-swapped"]]
    assert undone(WANTED[:, np.arange(8) ^ 1]) == [["halves-swapped"]]
    assert undone(WANTED[::-1]) == [["positions-reversed"]]
    assert undone(halves[::-1]) == [["positions-reversed", "layout-swapped"]]


def test_a_grid_that_is_read_down_is_undone() -> None:
    down = WANTED.reshape(2, 3, 8).swapaxes(0, 1).reshape(6, 8)

    assert undone(down, grid=(2, 3)) == [["axes-swapped"]]
    assert undone(down) == []


def test_of_four_channels_the_exchange_is_named_after_what_is_wanted() -> None:
    for is_interleaved in (False, True):
        found = list(orders(1, 4, 1, is_interleaved=is_interleaved))[1].mistakes

        assert found[0].values["want"] == ("interleaved" if is_interleaved else "half")


def test_two_arrays_are_rearranged_each_for_itself() -> None:
    inner = np.concatenate([block + np.array([0, 4, 1, 5, 2, 6, 3, 7]) for block in (0, 8)])

    assert any(np.array_equal(order.columns, np.argsort(inner)) for order in orders(1, 16, 2))
