"""Frequencies sorted by the positions that they turn with, which become known on the way."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from service.tables.angle import Float64s, Int64s
from service.tables.mrope import AXES

_TWO_PI = 2 * np.pi

# Frequencies and angles of engines in float32: some roundings of the angle.
ARITHMETIC = 2.0**-22

Rounding: TypeAlias = tuple[float, float]


@dataclass(eq=False)
class Group:
    """Frequencies that turn with the same positions.

    Attributes:
        positions: as far as they are known, (S,).
        errors: how far off each may be.
        places: which frequencies may be of it.
    """

    positions: Float64s
    errors: Float64s
    places: set[int] = field(default_factory=set)

    @property
    def whole(self) -> Int64s:
        """The positions as integers."""
        return np.round(self.positions).astype(np.int64)

    @property
    def is_counted(self) -> bool:
        """Tell whether they do not all lie a multiple of some number apart, as no tokens do."""
        steps = np.gcd.reduce(np.diff(self.whole))
        return int(steps) <= 1

    def refine(self, k: int, rate: float, apart: Float64s, noise: Float64s) -> None:
        """Take in a frequency that turns with them."""
        self.places.add(k)
        moved = self.positions + apart / rate
        self.positions = np.where(noise / rate < self.errors, moved, self.positions)
        self.errors = np.minimum(self.errors, noise / rate)
        nearest = np.round(self.positions)
        is_sure = self.errors < 0.1
        self.positions = np.where(is_sure, nearest, self.positions)
        self.errors = np.where(is_sure, 0.0, self.errors)


def grouped(angles: Float64s, omega: Float64s, rounding: Rounding) -> list[Group] | None:
    """Sort frequencies by the positions they turn with; none where these are more than three.

    Args:
        angles: in radians, (S, K), within ±π.
        omega: radians per position, (K,), falling.
        rounding: by what share it may move a number, and a number near 0 by how much.
    """
    groups: list[Group] = []
    for k in range(len(omega) - 1, -1, -1):
        rate, angle = float(omega[k]), angles[:, k]
        best: tuple[float, Group, Float64s, Float64s] | None = None
        for group in groups:
            expected = group.positions * rate
            noise = _noise(angle, expected, rounding)
            apart = _folded(angle - expected)
            worst = float((np.abs(apart) / (4 * noise + group.errors * rate)).max())
            if worst <= 1:
                group.places.add(k)
                if best is None or worst < best[0]:
                    best = (worst, group, apart, noise)
        if best is not None:
            best[1].refine(k, rate, best[2], best[3])
            continue
        if len(groups) == len(AXES):
            return None
        groups.append(_new_group(groups, k, rate, angle, rounding))
    sure = all((each.errors == 0).all() for each in groups)
    return groups if sure else None


def _new_group(
    groups: list[Group], k: int, rate: float, angle: Float64s, rounding: Rounding
) -> Group:
    """Begin with one frequency, whose first row is near that of the others."""
    positions = np.unwrap(angle) / rate
    if groups:
        turn = _TWO_PI / rate
        positions = positions + turn * np.round((groups[0].positions[0] - positions[0]) / turn)
    noise = _noise(angle, positions * rate, rounding)
    group = Group(positions, np.full(len(positions), np.inf))
    group.refine(k, rate, np.zeros(len(positions)), noise)
    return group


def _noise(angle: Float64s, expected: Float64s, rounding: Rounding) -> Float64s:
    """Say how far off angles are: sines and cosines are rounded, or what they were computed of.

    φ is off by cos φ·δsin − sin φ·δcos, each δ a share of its own.
    """
    share, least = rounding
    rounded = share * np.abs(np.sin(2 * angle)) + max(least, 2.0**-40)
    noise: Float64s = rounded + ARITHMETIC * np.abs(expected)
    return noise


def _folded(angles: Float64s) -> Float64s:
    folded: Float64s = (angles + np.pi) % _TWO_PI - np.pi
    return folded
