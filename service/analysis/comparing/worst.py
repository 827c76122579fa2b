"""Where an error is the largest, found block by block."""

from dataclasses import dataclass

import numpy as np

from service.tables.angle import Float64s

Place = tuple[int, ...]


@dataclass(frozen=True)
class Spot:
    """A place where numbers differ.

    Attributes:
        place: its index in the table, and for complex numbers the part after it.
        error: how much they differ, by one measure.
        yours: the number that was sent.
        theirs: the number in the table.
    """

    place: Place
    error: float
    yours: float
    theirs: float


@dataclass(frozen=True, eq=False)
class Block:
    """A part of two arrays that lie over each other.

    Attributes:
        origin: the index in the table of its first element.
        yours: the numbers that were sent, with as many axes as the table.
        theirs: those of the table.
    """

    origin: Place
    yours: Float64s
    theirs: Float64s

    def spot(self, flat: int, error: Float64s) -> Spot:
        """Describe an element, numbered in the order of the block, by one measure of errors."""
        inside = np.unravel_index(flat, self.yours.shape)
        place = tuple(int(along) + first for along, first in zip(inside, self.origin, strict=True))
        return Spot(
            place,
            float(error[inside]),
            float(self.yours[inside]),
            float(self.theirs[inside]),
        )


class Worst:
    """The largest error so far, the first of those that are equal.

    Attributes:
        spot: where it is; None where there is none above 0.
    """

    def __init__(self) -> None:
        self.spot: Spot | None = None

    def take(self, block: Block, error: Float64s) -> None:
        """Look at the errors of a block, none of which is NaN."""
        flat = int(error.argmax())
        spot = block.spot(flat, error)
        if spot.error > (self.spot.error if self.spot else 0.0):
            self.spot = spot
