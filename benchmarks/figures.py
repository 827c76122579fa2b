"""Figures of posref and of a peer, one of each per round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

Figure = TypeVar("Figure")


@dataclass(frozen=True)
class Measured:
    """Figures of posref and, if there is one, of its peer, with notes."""

    ours: Sequence[float]
    peer: Sequence[float] = ()
    remark: str = ""

    @property
    def ratios(self) -> list[float]:
        """The figure of posref ÷ that of the peer, in each round."""
        return [ours / peer for ours, peer in zip(self.ours, self.peer, strict=True)]


def in_turns(turns: Sequence[Callable[[int], Figure]], rounds: int) -> list[list[Figure]]:
    """Run all turns in each round, in alternating order, and return the figures by turn."""
    figures: list[list[Figure]] = [[] for _ in turns]
    for number in range(rounds):
        order = range(len(turns)) if number % 2 == 0 else reversed(range(len(turns)))
        for index in order:
            figures[index].append(turns[index](number))
    return figures
