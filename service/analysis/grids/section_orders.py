"""In which order the frequencies of three axes lie, by which of them turn together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.tables.mrope import AXES, axis_of_frequency


@dataclass(frozen=True)
class Order:
    """How frequencies are shared out to t, h and w.

    Attributes:
        section: how many turn with each.
        interleaved: whether they take turns.
        groups: which group of frequencies is that of each axis.
        axis_of: the axis of each frequency, one letter each.
    """

    section: tuple[int, int, int]
    interleaved: bool
    groups: tuple[int, int, int]
    axis_of: str


def orders(places: Sequence[set[int]], count: int) -> Iterator[Order]:
    """Give the orders that groups of frequencies lie in, one in blocks and one in turns at most.

    Args:
        places: for each group the frequencies that may be of it.
        count: how many there are.
    """
    for interleaved in (False, True):
        for groups in _choices(places, count, interleaved=interleaved):
            section = (
                _turned_section(places, groups, count)
                if interleaved
                else _block_section(places, groups, count)
            )
            if section is None:
                continue
            axis_of = axis_of_frequency(count, section, interleaved=interleaved)
            if all(k in places[groups[AXES.index(axis)]] for k, axis in enumerate(axis_of)):
                yield Order(section, interleaved, groups, axis_of)
                break


def _choices(
    places: Sequence[set[int]], count: int, *, interleaved: bool
) -> Iterator[tuple[int, int, int]]:
    """Give groups that may be those of t, h and w."""
    every = range(len(places))
    last = 2 if interleaved else count - 1
    for t in every:
        for h in every:
            for w in every:
                is_middle = 1 in places[h] if interleaved else True
                uses_all = len({t, h, w}) == len(places)
                if 0 in places[t] and last in places[w] and is_middle and uses_all:
                    yield t, h, w


def _block_section(
    places: Sequence[set[int]], groups: tuple[int, int, int], count: int
) -> tuple[int, int, int] | None:
    """Let t have all from the first on that it can, and w all to the last."""
    first, middle, last = (places[group] for group in groups)
    end = next((k for k in range(count) if k not in first), count)
    begin = next((k + 1 for k in range(count - 1, -1, -1) if k not in last), 0)
    begin = max(begin, end)
    if not all(k in middle for k in range(end, begin)):
        return None
    return end, begin - end, count - begin


def _turned_section(
    places: Sequence[set[int]], groups: tuple[int, int, int], count: int
) -> tuple[int, int, int] | None:
    """Let h and w have what they can of their thirds, from the first on."""
    counts = []
    for place, group in enumerate(groups[1:], start=1):
        own = range(place, count, 3)
        counts.append(next((n for n, k in enumerate(own) if k not in places[group]), len(own)))
    section = (count - sum(counts), counts[0], counts[1])
    return section if min(section) >= 0 else None
