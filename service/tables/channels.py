"""What a row of sines and cosines holds in which place."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.tables.dtypes import Elements

Component: TypeAlias = Literal["sin", "cos"]
Indices: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class Channels:
    """Say which component of which frequency each channel of a row holds.

    Attributes:
        components: the components in turn.
        interleaved: whether they alternate channel by channel, or each fills a part of the row.
        width: channels in the row. Where those before the zeros are no multiple of the number of
            components, the last components have one channel less.
        repeats: how often a frequency comes next to itself within its part.
        zeros: channels after the width's others that hold 0 whatever the position.
    """

    components: tuple[Component, ...]
    interleaved: bool
    width: int
    repeats: int = 1
    zeros: int = 0

    def indices(self) -> tuple[Indices, NDArray[np.bool_]]:
        """Give the frequency's index, and whether it is the sine, for each channel.

        Channels of zeros are sines of the first frequency, which ``blank`` makes zeros.
        """
        parts, width = len(self.components), self.width - self.zeros
        channel = np.arange(width)
        if self.interleaved:
            frequency, part = np.divmod(channel, parts)
        else:
            part, frequency = np.divmod(channel, max(1, -(-width // parts)))
        is_sine = np.array([component == "sin" for component in self.components])[part]
        blank = np.zeros(self.zeros, dtype=np.intp)
        return (
            np.concatenate([frequency // self.repeats, blank]),
            np.concatenate([is_sine, blank == 0]),
        )

    def blank(self, rows: Elements) -> None:
        """Put zeros into the channels of rows that hold them."""
        if self.zeros:
            rows[:, -self.zeros :] = 0
