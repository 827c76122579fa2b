"""Mistakes of extent: rows or channels that are missing, zero, or too many."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.analysis.mistakes.catalogue import Mistake
from service.analysis.mistakes.waves import Waves
from service.tables.angle import Float64s
from service.tables.channels import Indices


@dataclass(frozen=True, eq=False)
class Extent:
    """Say which part of two tables can be compared.

    Attributes:
        mistakes: why there are others.
        rows: how many, the first ones of both.
        have: columns of what somebody has, that lie like
        want: these columns of what is wanted.
        turning: the channels that turn, where frequencies may be those of so many.
    """

    mistakes: tuple[Mistake, ...]
    rows: int
    have: Indices
    want: Indices
    turning: int | None = None


def extents(have: Float64s, want: Float64s, blocks: int, waves: Waves | None) -> Iterator[Extent]:
    """Give the parts that can be compared of two tables of rows and columns.

    Args:
        have: what somebody has, (S, C).
        want: what it should be, of as many rows and columns, or more or fewer.
        blocks: arrays that the columns are of, one after the other.
        waves: what is wanted, where that is waves.
    """
    for lengths, rows in _rows(have, want):
        for across, (ours, theirs), turning in _columns(have, want, blocks, waves):
            yield Extent((*lengths, *across), rows, ours, theirs, turning)


def _rows(have: Float64s, want: Float64s) -> Iterator[tuple[tuple[Mistake, ...], int]]:
    rows, wanted = len(have), len(want)
    filled = rows - int(np.argmax((have != 0).any(axis=1)[::-1]))
    if have.any() and filled < min(rows, wanted) and want[filled:rows].any(axis=1).all():
        yield (_cut("rows", filled, wanted, "zero"),), filled
    yield _length("rows", rows, wanted), min(rows, wanted)


def _columns(
    have: Float64s, want: Float64s, blocks: int, waves: Waves | None
) -> Iterator[tuple[tuple[Mistake, ...], tuple[Indices, Indices], int | None]]:
    width, wanted = have.shape[1] // blocks, want.shape[1] // blocks
    shared = min(width, wanted)
    named = _length("channels", width, wanted)
    yield named, (_prefix(shared, width, blocks), _prefix(shared, wanted, blocks)), None
    if width == wanted:
        filled = have.any(axis=0) | ~want[: len(have)].any(axis=0)
        if not filled.all() and filled.any() and len(have) > 1:
            kept = np.flatnonzero(filled)
            yield (_cut("channels", len(kept), want.shape[1], "zero"),), (kept, kept), None
    elif waves is not None and width < wanted:
        count = len(waves.omega) * width // wanted
        columns = np.flatnonzero(waves.frequency < count)
        if len(columns) == have.shape[1]:
            straight = np.arange(len(columns))
            yield named, (straight, columns), None
            values = {"have": 2 * count, "want": 2 * len(waves.omega)}
            yield (Mistake("partial-width", values),), (straight, columns), 2 * count


def _prefix(kept: int, width: int, blocks: int) -> Indices:
    return np.concatenate([np.arange(kept) + block * width for block in range(blocks)])


def _length(axis: str, have: int, want: int) -> tuple[Mistake, ...]:
    if have == want:
        return ()
    if have > want:
        return (Mistake("longer", {"axis": axis, "have": have, "want": want}),)
    return (_cut(axis, have, want, "missing"),)


def _cut(axis: str, have: int, want: int, beyond: str) -> Mistake:
    values = {"axis": axis, "have": have, "want": want, "beyond": beyond}
    return Mistake("truncated", values)
