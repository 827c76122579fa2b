"""Mistakes of order: rows and channels that hold the right numbers in other places."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import isqrt

import numpy as np

from service.analysis.mistakes.catalogue import Mistake
from service.tables.channels import Indices


@dataclass(frozen=True, eq=False)
class Order:
    """Say where in what somebody has the numbers are that are wanted.

    Attributes:
        mistakes: what put them there.
        rows: for each row that is wanted, the one that holds it.
        columns: for each column that is wanted, the one that holds it.
    """

    mistakes: tuple[Mistake, ...]
    rows: Indices
    columns: Indices


def orders(
    rows: int,
    columns: int,
    blocks: int,
    grid: tuple[int, int] | None = None,
    *,
    is_interleaved: bool = False,
) -> Iterator[Order]:
    """Give the orders that mistakes of order lead to, the fewest mistakes first.

    Args:
        rows: how many there are.
        columns: how many there are, in all arrays together.
        blocks: arrays that the columns are of.
        grid: height and width, where rows are the places of a grid.
        is_interleaved: whether neighbours are pairs in what is wanted, as far as is known.
    """
    seen: set[bytes] = set()
    made: list[Order] = []
    for across in _column_orders(columns, blocks, is_interleaved=is_interleaved):
        for along in _row_orders(rows, grid):
            order = Order((*along.mistakes, *across.mistakes), along.rows, across.columns)
            key = order.rows.tobytes() + order.columns.tobytes()
            if len(order.mistakes) <= 2 and key not in seen:
                seen.add(key)
                made.append(order)
    yield from sorted(made, key=lambda order: len(order.mistakes))


def _row_orders(rows: int, grid: tuple[int, int] | None) -> Iterator[Order]:
    straight = np.arange(rows)
    none = np.arange(0)
    yield Order((), straight, none)
    yield Order((Mistake("positions-reversed"),), straight[::-1].copy(), none)
    side = isqrt(rows)
    height, width = grid or ((side, side) if side * side == rows else (1, rows))
    if min(height, width) > 1:
        across = straight.reshape(width, height).T.reshape(-1)
        yield Order((Mistake("axes-swapped", {"first": "h", "second": "w"}),), across, none)


def _column_orders(columns: int, blocks: int, *, is_interleaved: bool) -> Iterator[Order]:
    none = np.arange(0)
    single = list(_single_orders(columns, blocks, is_interleaved=is_interleaved))
    straight = np.arange(columns)
    yield Order((), none, straight)
    for mistake, order in single:
        yield Order((mistake,), none, order)
    for (first, inner), (second, outer) in product(single, single):
        if first.name != second.name:
            yield Order((first, second), none, inner[outer])


def _single_orders(
    columns: int, blocks: int, *, is_interleaved: bool
) -> Iterator[tuple[Mistake, Indices]]:
    for parts in {1, blocks, 2}:
        if columns % (2 * parts) == 0 and (parts == 1 or columns // parts > 2):
            layouts = list(_layouts(columns, parts))
            # Of four channels both are the same exchange.
            yield from reversed(layouts) if is_interleaved else layouts
    if columns % 2 == 0:
        swapped = Mistake("halves-swapped")
        yield swapped, np.roll(np.arange(columns), columns // 2)
        if blocks == 1:
            yield swapped, np.arange(columns).reshape(-1, 2)[:, ::-1].reshape(-1)


def _layouts(columns: int, parts: int) -> Iterator[tuple[Mistake, Indices]]:
    """Exchange pairs of neighbours for pairs a half apart, in each of some equal parts."""
    numbers = np.arange(columns).reshape(parts, -1)
    halves = numbers.reshape(parts, -1, 2).swapaxes(1, 2).reshape(-1)
    pairs = numbers.reshape(parts, 2, -1).swapaxes(1, 2).reshape(-1)
    for have, want, order in (("interleaved", "half", halves), ("half", "interleaved", pairs)):
        yield Mistake("layout-swapped", {"have": have, "want": want}), order
