"""Where an error is the largest."""

import numpy as np

from service.analysis.comparing.worst import Block, Spot, Worst


def test_the_largest_error_of_all_blocks_is_kept_and_the_first_of_equal_ones() -> None:
    worst = Worst()
    for first, errors in ((0, [[0.0, 2.0]]), (1, [[1.0, 0.0]]), (2, [[2.0, 0.0]])):
        error = np.array(errors)
        worst.take(Block((first, 0), error + 1, np.ones((1, 2))), error)

    assert worst.spot == Spot((0, 1), 2.0, 3.0, 1.0)


def test_no_error_has_no_place() -> None:
    worst = Worst()

    worst.take(Block((0,), np.ones(2), np.ones(2)), np.zeros(2))

    assert worst.spot is None


def test_a_place_is_counted_from_the_origin_of_its_block() -> None:
    block = Block((3, 0, 7), np.arange(4.0).reshape(1, 2, 2), np.zeros((1, 2, 2)))

    assert block.spot(3, block.yours).place == (3, 1, 8)
