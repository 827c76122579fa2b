"""Whether mistakes explain a table: what they make of the wanted one, element by element."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.analysis.mistakes.catalogue import Mistake
from service.analysis.mistakes.extents import Extent
from service.analysis.mistakes.orders import Order
from service.analysis.mistakes.turns import Turned, reach
from service.analysis.mistakes.waves import Waves
from service.analysis.sample import spacing
from service.tables.angle import Float64s
from service.tables.channels import Indices
from service.tables.dtypes import DType

_SAMPLED_ROWS = 64
_FEWEST_SAMPLED_ROWS = 16
_SAMPLED_ELEMENTS = 2**13
_BLOCK_ELEMENTS = 2**18

# Engines round a frequency, its product with a position and its sine to float32, each to 2^-24 of
# it; what leads to a frequency (a power, a logarithm) may put some of its last places wrong. The
# larger the angle, the more that matters: 4 · 2^-24 of it (more where ``reach`` says so), and as
# much for the last step.
_ARITHMETIC = 2.0**-22


@dataclass(frozen=True, eq=False)
class Subject:
    """Two tables of rows and columns, the arrays of each side by side.

    Attributes:
        have, want: what somebody has, and what it should be.
        have_dtype, want_dtype: what they were rounded to.
        waves: what is wanted, where that is waves.
        blocks: how many arrays there are.
        cut: how far numbers are from what they were before they were rounded to a few decimals.
    """

    have: Float64s
    want: Float64s
    have_dtype: DType
    want_dtype: DType
    waves: Waves | None
    blocks: int
    cut: float = 0.0

    def allowed(self, table: Float64s, angles: Float64s | None, scale: float) -> Float64s:
        """Bound how far elements may be from computed ones, of waves of a scale."""
        steps = spacing(table, self.have_dtype) + spacing(table, self.want_dtype)
        if angles is None:
            bound: Float64s = 2 * steps + self.cut
            return bound
        return steps + _ARITHMETIC * (1 + angles) * scale + self.cut


@dataclass(frozen=True, eq=False)
class Suspect:
    """A way that somebody may have come from what is wanted to what is there.

    Attributes:
        mistakes: what went wrong.
        extent: what can be compared.
        order: where what is wanted is.
        waves: what is wanted of that extent.
        turned: what was made of the waves; None where the numbers are taken as they are, times
        factor: this, from the row
        shift: this many further down.
    """

    mistakes: tuple[Mistake, ...]
    extent: Extent
    order: Order
    waves: Waves | None = None
    turned: Turned | None = None
    factor: float = 1.0
    shift: int = 0

    def expected(self, subject: Subject, rows: Indices) -> tuple[Float64s, Float64s | None]:
        """Compute rows, and how much the angles of their elements count, where they have any."""
        if self.turned is not None and self.waves is not None:
            return self.turned.table(self.waves, rows)
        wanted = subject.want[rows + self.shift][:, self.extent.want] * self.factor
        if self.waves is None:
            return wanted, None
        angles = np.outer(self.waves.positions[rows], self.waves.omega)
        return wanted, reach(angles, self.waves.omega)[:, self.waves.frequency]

    def found(self, subject: Subject, rows: Indices) -> Float64s:
        """Give the rows that somebody has, in the order that is wanted."""
        return subject.have[self.order.rows[rows]][:, self.extent.have[self.order.columns]]

    @property
    def scale(self) -> float:
        """What the waves are multiplied by, as they would have been made."""
        factor = self.factor if self.turned is None else self.turned.factor
        return factor * (self.waves.scale if self.waves else 1.0)

    @property
    def rows(self) -> int:
        """How many rows can be compared."""
        return self.extent.rows - abs(self.shift)


@dataclass(frozen=True)
class Match:
    """How far a suspect explains what is there.

    Attributes:
        share: of the elements, those that are explained.
        residual: how far an element is from what is expected, at most.
        allowed: how far the one that is farthest, for what it may, may be.
        elements: how many were compared.
        leaves: the first that is not explained: its row and its column in the wanted order, what
            is there, what is expected, how far apart they may be.
    """

    share: float
    residual: float
    allowed: float
    elements: int
    leaves: tuple[int, int, float, float, float] | None

    @property
    def is_whole(self) -> bool:
        """Tell whether every element is explained."""
        return self.leaves is None


def sampled(count: int, width: int) -> Indices:
    """Pick some of many rows of a width, the first and the last among them."""
    most = min(_SAMPLED_ROWS, max(_FEWEST_SAMPLED_ROWS, _SAMPLED_ELEMENTS // width))
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.intp)


def check(subject: Subject, suspect: Suspect, rows: Indices) -> Match:
    """Hold what a suspect would have made against rows of what is there."""
    good, residual, allowed, elements = 0, 0.0, 0.0, 0
    leaves: tuple[int, int, float, float, float] | None = None
    for part in _blocks(rows, len(suspect.extent.want)):
        expected, angles = suspect.expected(subject, part)
        found = suspect.found(subject, part)
        bound = subject.allowed(expected, angles, suspect.scale)
        error = np.abs(found - expected)
        is_good = error <= bound
        good += int(is_good.sum())
        elements += found.size
        residual = max(residual, float(error.max()))
        allowed = max(allowed, float(bound.max()))
        if leaves is None and not is_good.all():
            row, column = divmod(int(np.argmin(is_good)), found.shape[1])
            here = (found[row, column], expected[row, column], bound[row, column])
            leaves = (int(part[row]), column, *map(float, here))
    return Match(good / elements, residual, allowed, elements, leaves)


def _blocks(rows: Indices, width: int) -> Iterator[Indices]:
    length = max(1, _BLOCK_ELEMENTS // width)
    for start in range(0, len(rows), length):
        yield rows[start : start + length]
