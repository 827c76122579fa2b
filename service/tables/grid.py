"""Tokens of a grid, row by row, and the position of each along an axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from service.tables.angle import Int64s
from service.tables.axes import RowPositions
from service.tables.document import ParameterValue
from service.tables.frequencies import FrequencyRule
from service.tables.positions import Positions
from service.tables.scaling import Decimals


@dataclass(frozen=True)
class GridAxis:
    """The positions first, first + step, … of the tokens of a grid along one of its axes.

    Attributes:
        first: position of the first token.
        step: from one to the next.
        length: how many there are along the axis.
        inner: tokens between one position and the next: the product of the axes that run faster.
    """

    first: int
    step: int
    length: int
    inner: int

    @property
    def farthest(self) -> int:
        """The largest magnitude of them."""
        return max(abs(self.first), abs(self.first + self.step * (self.length - 1)))

    def at(self, start: int, stop: int) -> Int64s:
        """Give the positions of the tokens start to stop, shape (stop - start,)."""
        tokens = np.arange(start, stop, dtype=np.int64)
        return tokens // self.inner % self.length * self.step + self.first

    def in_blocks(self, size: int, width: int, *, is_column: bool) -> "BlockAxis":
        """Give the same positions of tokens that come block by block, not row by row.

        Args:
            size: rows and columns of a block, which divides the axis.
            width: columns of the whole.
            is_column: whether the axis is that of columns, the last one.
        """
        block_tokens = size * size if is_column else size * width
        outer = GridAxis(self.first, self.step * size, self.length // size, block_tokens)
        return BlockAxis(outer, GridAxis(0, self.step, size, 1 if is_column else size))


@dataclass(frozen=True)
class BlockAxis:
    """The positions of tokens that come in square blocks, row by row within each.

    Vision towers that merge patches put those to be merged next to each other: transformers 5.23.0
    ``get_vision_position_ids`` with a spatial_merge_size.

    Attributes:
        outer: the position of the block.
        within: how much further the token is.
    """

    outer: GridAxis
    within: GridAxis

    @property
    def farthest(self) -> int:
        """A magnitude that none of them exceeds."""
        return self.outer.farthest + self.within.farthest

    def at(self, start: int, stop: int) -> Int64s:
        """Give the positions of the tokens start to stop, shape (stop - start,)."""
        return self.outer.at(start, stop) + self.within.at(start, stop)


@dataclass(frozen=True)
class Tokens:
    """Tokens with a position along each of several axes.

    Attributes:
        axes: the positions, by the name of the axis.
        rows: how many tokens there are.
        spelled: the positions as canonical parameters.
    """

    axes: Mapping[str, RowPositions]
    rows: int
    spelled: Mapping[str, ParameterValue]

    @classmethod
    def of_grid(cls, lengths: tuple[int, ...], names: Sequence[str]) -> "Tokens":
        """Make the tokens of a grid with positions 0, 1, … along each axis, the last fastest."""
        axes = {
            name: GridAxis(0, 1, length, prod(lengths[index + 1 :]))
            for index, (name, length) in enumerate(zip(names, lengths, strict=True))
        }
        return cls(axes, prod(lengths), {"grid": lengths})

    @classmethod
    def of_lists(cls, positions: Mapping[str, Positions]) -> "Tokens":
        """Make tokens of their positions along each axis, all as many."""
        spelled = {f"positions_{axis}": str(along) for axis, along in positions.items()}
        return cls(positions, next(iter(positions.values())).count, spelled)

    @classmethod
    def of_sequence(cls, positions: Positions, names: Sequence[str]) -> "Tokens":
        """Make tokens of text: a token has one position along all axes."""
        return cls(dict.fromkeys(names, positions), positions.count, positions.parameters())


@dataclass(frozen=True)
class Picked:
    """Some frequencies of a rule.

    Attributes:
        rule: the rule.
        places: which of its frequencies.
    """

    rule: FrequencyRule
    places: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.places)

    def exact(self) -> Decimals:
        """Evaluate them, in radians per position."""
        every = _exact(self.rule)
        return [every[place] for place in self.places]


@lru_cache(maxsize=4)
def _exact(rule: FrequencyRule) -> Decimals:
    """Evaluate a rule once for all who pick some of its frequencies."""
    return rule.exact()
