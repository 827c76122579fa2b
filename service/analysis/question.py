"""What is asked, and what is proposed as an answer: a table, and why."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from service.analysis.call import Call
from service.analysis.sample import Sample
from service.tables.angle import Float64s
from service.tables.channels import Channels


@dataclass(frozen=True, eq=False)
class Question:
    """An array of which nobody knows what it is, or the two arrays of a rotary table.

    Attributes:
        arrays: by name: ``cos`` and ``sin``, or one array, whose name says nothing.
        d_model: its channels, as far as that is known.
        positions: those of its rows, rising, as far as they are known.
    """

    arrays: Mapping[str, Sample]
    d_model: int | None = None
    positions: Float64s | None = None

    @property
    def sample(self) -> Sample:
        """The one array, or the cosines."""
        return self.arrays.get("cos") or next(iter(self.arrays.values()))

    @property
    def is_pair(self) -> bool:
        """Tell whether cosines and sines come as two arrays."""
        return self.arrays.keys() == {"cos", "sin"}


@dataclass(frozen=True, eq=False)
class Turning:
    """What angles a table is made of, for what engines make of them in narrower arithmetic.

    An element of row s in a channel of frequency k is the sine or the cosine of
    coordinates[s, axis[k]]·omega[k], times the scale.

    Attributes:
        coordinates: where each row is, on each axis, (S, A).
        axis: which of them each frequency turns with, (K,).
        omega: radians per unit, (K,), as exact as float64 can say.
        channels: for each array by name, which component of which frequency a channel holds.
        scale: what sines and cosines are multiplied by.
    """

    coordinates: Float64s
    axis: tuple[int, ...]
    omega: Float64s
    channels: Mapping[str, Channels]
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Proposal:
    """A table that an array may be.

    Attributes:
        call: the table, in the type of the array; it has the shape that was sent, but for axes of
            length 1, and the same array names where there are several.
        support: sentences: what in the data speaks for it.
        turning: its angles, where it is made of any.
        is_transposed: whether the array has the axes of the table in reverse order.
    """

    call: Call
    support: tuple[str, ...]
    turning: Turning | None = None
    is_transposed: bool = False


Family: TypeAlias = Callable[[Question], Iterator[Proposal]]
"""Looks at an array and proposes the tables of one kind that it may be, the plainest first.

It never searches: what it proposes follows from what it measured. It raises nothing, and proposes
nothing for an array of another kind.
"""
