"""How long the axes of a grid are, by which rows of its table repeat each other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from service.tables.angle import Float64s

_MOST_COLUMNS = 32

# An engine computes an axis once and copies it, or computes the same twice: the last bits of a
# product may differ where a loop is vectorized for all but its tail.
_EQUAL_ROUNDINGS = 4


@dataclass(frozen=True, eq=False)
class AxisLines:
    """The rows of a grid along each of its axes, where the other axes are at their first token.

    Attributes:
        lengths: tokens along each axis, the slowest first.
        lines: for each axis its rows, (length, C).
        depends: for each axis, whether a channel changes along it, (C,).
    """

    lengths: tuple[int, ...]
    lines: tuple[Float64s, ...]
    depends: tuple[NDArray[np.bool_], ...]

    def only(self, axis: int, channels: Sequence[int] | range | NDArray[np.intp]) -> bool:
        """Tell whether channels change along no axis but one."""
        others = (depends for other, depends in enumerate(self.depends) if other != axis)
        return not any(depends[channels].any() for depends in others)


def axis_lines(rows: Float64s, lengths: tuple[int, ...], rounding: float) -> AxisLines:
    """Take the rows (S, C) of a grid of known lengths apart into its axes."""
    lines = []
    for axis, length in enumerate(lengths):
        inner = prod(lengths[axis + 1 :])
        lines.append(rows[: length * inner : inner])
    tolerance = _EQUAL_ROUNDINGS * rounding
    depends = tuple(np.ptp(line, axis=0) > tolerance for line in lines)
    return AxisLines(lengths, tuple(lines), depends)


def token_grids(rows: Float64s, rounding: float) -> Iterator[tuple[int, ...]]:
    """Give the lengths of grids of two or three axes that rows (S, C) may be the tokens of.

    A channel is about one axis: it is the same in runs of tokens, and repeats after longer ones.

    Args:
        rows: the table, token by token.
        rounding: half a unit in the last place of its numbers, at 1.
    """
    count, width = rows.shape
    columns = rows[:, some_of(width, _MOST_COLUMNS)]
    tolerance = _EQUAL_ROUNDINGS * rounding
    varies = np.ptp(columns, axis=0) > tolerance
    if count < 2 or not varies.any():
        return
    varying = columns[:, varies]
    found = list(_of_repeats(varying, tolerance))
    yield from found
    if not varies.all():
        for lengths in [(count,), *(each for each in found if len(each) == 2)]:
            for place in range(len(lengths), -1, -1):
                yield (*lengths[:place], 1, *lengths[place:])
        yield from ((1, 1, count), (count, 1, 1), (1, count, 1))


def some_of(count: int, most: int) -> NDArray[np.intp]:
    """Pick some of a number of channels, in no step that channels may take turns in."""
    if count <= most:
        return np.arange(count)
    golden = np.arange(most) * 0.6180339887498949 % 1
    return np.unique((golden * count).astype(np.intp))


def _of_repeats(columns: Float64s, tolerance: float) -> Iterator[tuple[int, ...]]:
    """Give three axes before two, as which two of three that run on pass."""
    count = len(columns)
    spans = [span for span in range(2, count) if count % span == 0]
    steady = {span: _is_steady(columns, span, tolerance) for span in spans}
    periodic = {span: _repeats(columns, span, tolerance) for span in spans}
    for short, long in ((a, b) for a in spans for b in spans if a < b and b % a == 0):
        middle = steady[short] & periodic[long]
        if _are_kinds(steady[long], middle, periodic[short]):
            yield count // long, long // short, short
    for span in spans:
        if _are_kinds(steady[span], periodic[span]):
            yield count // span, span


def _are_kinds(*kinds: NDArray[np.bool_]) -> bool:
    """Tell whether every channel is of a kind, and some of each kind alone."""
    number = np.sum(kinds, axis=0)
    return bool((number > 0).all() and all((kind & (number == 1)).any() for kind in kinds))


def _is_steady(columns: Float64s, span: int, tolerance: float) -> NDArray[np.bool_]:
    runs = (columns[:span], columns[-span:])
    steady: NDArray[np.bool_] = np.all([np.ptp(run, axis=0) <= tolerance for run in runs], axis=0)
    return steady


def _repeats(columns: Float64s, span: int, tolerance: float) -> NDArray[np.bool_]:
    first = columns[:span]
    others = (columns[span : 2 * span], columns[-span:])
    apart = [np.abs(other - first).max(axis=0) <= tolerance for other in others]
    repeats: NDArray[np.bool_] = np.all(apart, axis=0)
    return repeats
