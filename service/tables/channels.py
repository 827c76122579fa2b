"""What a row of sines and cosines holds in which place."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Component: TypeAlias = Literal["sin", "cos"]
Indices: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class Channels:
    """Say which component of which frequency each channel of a row holds.

    Attributes:
        components: the components in turn.
        interleaved: whether they alternate channel by channel, or each fills a part of the row.
        width: channels in the row. Where it is no multiple of the number of components, the
            last ones have one channel less.
        repeats: how often a frequency comes next to itself within its part.
    """

    components: tuple[Component, ...]
    interleaved: bool
    width: int
    repeats: int = 1

    def indices(self) -> tuple[Indices, NDArray[np.bool_]]:
        """Give the frequency's index, and whether it is the sine, for each channel."""
        parts = len(self.components)
        channel = np.arange(self.width)
        if self.interleaved:
            frequency, part = np.divmod(channel, parts)
        else:
            part, frequency = np.divmod(channel, -(-self.width // parts))
        is_sine = np.array([component == "sin" for component in self.components])
        return frequency // self.repeats, is_sine[part]
