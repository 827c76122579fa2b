"""An array before and after somebody turned it, and whether an application explains it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from service.analysis.applied.spin import Indices, Spin, Target, rounded
from service.analysis.applied.wiring import Wiring
from service.analysis.mistakes.catalogue import Mistake
from service.tables.angle import Float64s

Flags = NDArray[np.bool_]

# Roundings of cosine, sine, two products and their sum, each by half an ulp at most, of numbers
# that |x0| + |x1| bounds: 2 for a product with its factor, 1 for the sum, and one to spare.
_ROUNDINGS = 4
# A frequency of float32 is some ulp off (a power, a division), and so is its product.
_FLOAT32 = 2.0**-24
_ANGLE_ROUNDINGS = 4

_CHUNK_ELEMENTS = 2**20


@dataclass(frozen=True, eq=False)
class Application:
    """One way to turn an array, and what is wrong with it.

    Attributes:
        wiring: what becomes of channels.
        spin: by which cosines and sines.
        mistakes: how it differs from what is wanted.
        aspects: what of it they changed.
    """

    wiring: Wiring
    spin: Spin = field(default_factory=Spin)
    mistakes: tuple[Mistake, ...] = ()
    aspects: tuple[str, ...] = ()

    def having(
        self,
        aspect: str,
        mistake: Mistake,
        *,
        wiring: Wiring | None = None,
        spin: Spin | None = None,
    ) -> "Application":
        """Make one mistake more."""
        return Application(
            wiring or self.wiring,
            spin or self.spin,
            (*self.mistakes, mistake),
            (*self.aspects, aspect),
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """An array before and after.

    Attributes:
        x: before, (H, S, head_dim).
        y: after, in the same shape.
        target: the cosines and sines that should have turned it.
        roundoff: half an ulp of 1 in the type of the arrays.
        least: what may be lost where numbers are too small for it.
    """

    x: Float64s
    y: Float64s
    target: Target
    roundoff: float
    least: float = 0.0

    def errors(
        self, application: Application, heads: slice, rows: Indices
    ) -> tuple[Float64s, Float64s, Float64s]:
        """Give what an application makes of rows, how far it is off, and by how much it may be."""
        wiring, spin, target = application.wiring, application.spin, self.target
        x, y = self.x[heads][:, rows], self.y[heads][:, rows]
        cosine, sine = spin.cosines_and_sines(target, rows)
        made = wiring.apply(x, cosine, sine)
        share = np.full((len(rows), wiring.head_dim), self.roundoff)
        size = np.hypot(cosine, sine)
        links = wiring.links
        bound = size * self._share(spin, rows)
        if spin.dtype is not None:
            bound += self._doubt(spin, rows, bound)
        share[:, links.place] = bound[:, links.frequency]
        if spin.beyond is not None:
            is_beyond = rows >= spin.beyond[0]
            made[:, is_beyond] = x[:, is_beyond] if spin.beyond[1] == "unrotated" else 0.0
        allowed = wiring.sizes(x) * share + self.least
        with np.errstate(invalid="ignore"):
            return made, np.abs(y - made), allowed

    def share_within(self, application: Application, heads: slice, rows: Indices) -> Float64s:
        """Give the share of elements that an application explains, for each row."""
        _, error, allowed = self.errors(application, heads, rows)
        share: Float64s = (error <= allowed).mean(axis=(0, 2))
        return share

    def chunks(self) -> Iterator[Indices]:
        """Give all rows, so many at a time as take little memory."""
        size = max(1, _CHUNK_ELEMENTS // (self.x.shape[0] * self.x.shape[2]))
        for start in range(0, self.target.rows, size):
            yield np.arange(start, min(start + size, self.target.rows))

    def _doubt(self, spin: Spin, rows: Indices, bound: Float64s) -> Float64s:
        """Bound what rounding to a narrow type makes of an error: a whole step, or nothing."""
        assert spin.dtype is not None
        parts = replace(spin, dtype=None).cosines_and_sines(self.target, rows)
        doubts = [
            rounded(part + bound, spin.dtype) - rounded(part - bound, spin.dtype) for part in parts
        ]
        return np.maximum(*doubts)

    @cached_property
    def untouched(self) -> tuple[Flags, Flags]:
        """Tell which channels are the same after as before, and which are 0."""
        is_kept = np.ones(self.x.shape[2], dtype=bool)
        is_zero = is_kept.copy()
        for rows in self.chunks():
            x, y = self.x[:, rows], self.y[:, rows]
            is_still = np.abs(y - x) <= 2 * self.roundoff * np.abs(x)
            # Rows of zeros say nothing of what passes through.
            is_kept &= (is_still | (y == 0).all(axis=2, keepdims=True)).all(axis=(0, 1))
            is_zero &= (y == 0).all(axis=(0, 1))
        return is_kept, is_zero

    def _share(self, spin: Spin, rows: Indices) -> Float64s:
        """Bound the error of a turned channel as a share of what it is made of, (rows, K)."""
        target, omega = self.target, spin.frequencies(self.target)
        places = np.abs(spin.positions(target, rows))
        pairs = target.unit.shape[1] if omega is None else len(omega)
        pace = np.ones(pairs) if omega is None else np.abs(omega)
        angles = places[:, None] * pace
        # Angles of half types are made in float32.
        moved = _ANGLE_ROUNDINGS * min(self.roundoff, _FLOAT32) * angles
        if len(target.omega_error) == pairs:
            # What is not in the table is made from its nearest row with frequencies so exact.
            away = places + np.abs(spin.positions(target, rows) - target.positions[rows])
            moved = moved + away[:, None] * (target.omega_error + 2.0**-50 * pace)
        times = max(1, spin.times)
        share: Float64s = times * (_ROUNDINGS * self.roundoff + np.minimum(moved, 2.0))
        return share
