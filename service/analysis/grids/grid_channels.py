"""Channels that are in no order that has a name: each says what it holds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.tables.channels import Channels, Indices


@dataclass(frozen=True)
class ListedChannels(Channels):
    """Say which component of which frequency each channel holds, one by one.

    Attributes:
        frequencies: the index of the frequency of each channel.
        sines: whether a channel holds the sine.
    """

    frequencies: tuple[int, ...] = ()
    sines: tuple[bool, ...] = ()

    @classmethod
    def of(cls, frequencies: list[int], sines: list[bool]) -> "ListedChannels":
        """List channels."""
        return cls(("cos", "sin"), False, len(sines), 1, 0, tuple(frequencies), tuple(sines))

    def indices(self) -> tuple[Indices, NDArray[np.bool_]]:
        """Give the frequency's index, and whether it is the sine, for each channel."""
        return np.array(self.frequencies, dtype=np.intp), np.array(self.sines, dtype=np.bool_)
