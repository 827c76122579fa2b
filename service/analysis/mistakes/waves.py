"""What is wanted, read as waves: which frequency is in which column, how fast, from where on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.layouts import Reading, read, readings
from service.analysis.progression import bases, geometric
from service.analysis.waves import EARLY_ROWS, Complexes, measure
from service.tables.angle import Float64s
from service.tables.channels import Channels, Indices

_TWO_PI = 2 * np.pi

# Norms of pairs and straightness of angles of tables in any type: bfloat16 moves a component by
# 2^-9 of it at most, so a norm by as much and an angle by 2^-8 at most.
_ROUGHEST = 2.0**-7


@dataclass(frozen=True, eq=False)
class Waves:
    """A table of sines and cosines, S rows of C columns.

    Attributes:
        frequency: which frequency a column holds, (C,).
        is_sine: whether it holds its sine, (C,).
        positions: of rows, (S,).
        omega: radians per position, (K,).
        scale: what sines and cosines are multiplied by.
        base: that of the frequencies, where they are powers of one; and over how many channels they
            fall to 1 over it.
    """

    frequency: Indices
    is_sine: np.ndarray
    positions: Float64s
    omega: Float64s
    scale: float
    base: tuple[float, int] | None

    @property
    def copies(self) -> tuple[Indices, Indices]:
        """Give the first column of each frequency's cosine, and of its sine."""
        return tuple(  # type: ignore[return-value]
            np.array(
                [np.flatnonzero((self.frequency == k) & part)[0] for k in range(len(self.omega))]
            )
            for part in (~self.is_sine, self.is_sine)
        )

    def turns(self, rows: Float64s) -> Complexes:
        """Read rows (S, C) that lie as these do: a cosine + i·sine for each frequency."""
        cosine, sine = self.copies
        read_turns: Complexes = rows[:, cosine] + 1j * rows[:, sine]
        return read_turns

    def narrowed(self, columns: Indices, rows: int) -> "Waves | None":
        """Keep some columns and the first rows; None where a sine is left without its cosine."""
        frequency, is_sine = self.frequency[columns], self.is_sine[columns]
        sines, cosines = set(frequency[is_sine].tolist()), set(frequency[~is_sine].tolist())
        count = len(sines)
        if sines != cosines or sines != set(range(count)):
            return None
        return replace(
            self,
            frequency=frequency,
            is_sine=is_sine,
            positions=self.positions[:rows],
            omega=self.omega[:count],
        )

    def of_width(self, channels: int) -> "Waves":
        """Let frequencies fall over another number of channels, where they have a base."""
        if self.base is None:
            return self
        base, _ = self.base
        omega = base ** (-2 * np.arange(len(self.omega)) / channels)
        return replace(self, omega=omega, base=(base, channels))


def waves_of(rows: Float64s, *, is_pair: bool, positions: Float64s | None) -> Waves | None:
    """Read rows (S, C) as waves; None where they are none.

    Args:
        rows: cosines and sines; for two arrays the columns of the one, then of the other.
        is_pair: whether they are two arrays, the cosines first.
        positions: of rows, rising, where they are known; otherwise whole numbers from where the
            angles say.
    """
    if len(rows) < 2 or rows.shape[1] < 2:
        return None
    if positions is None or len(positions) != len(rows):
        # Rows of several axes are not those of the positions of one.
        places = np.arange(len(rows), dtype=np.float64)
    else:
        places = positions
    if not (np.diff(places) > 0).all():
        return None
    early = rows[:EARLY_ROWS]
    found = [
        (reading.channels, waves)
        for reading in _readings(early, is_pair=is_pair)
        if (waves := _waves(reading, places[: len(early)])) is not None
    ]
    if not found:
        return None
    # Frequencies that turn backwards are the same table as forward ones with sines for cosines.
    channels, waves = min(
        found, key=lambda each: (float(np.median(each[1].omega)) < 0, len(each[1].omega))
    )
    return _of_all(waves, read("", channels, rows), places)


def _of_all(waves: Waves, reading: Reading, places: Float64s) -> Waves | None:
    """Read all rows as the first ones; None where those after them are no waves."""
    moved = waves.positions[0] - places[0]
    if not _is_even(reading):
        return None
    if waves.base is None:
        waves = replace(waves, omega=_refined(reading.turns, places + moved, waves.omega))
    return replace(waves, positions=places + moved)


def _readings(rows: Float64s, *, is_pair: bool) -> Iterator[Reading]:
    width = rows.shape[1]
    if width % 4 == 0:
        yield read("pairs", Channels(("cos", "sin"), False, width, 2), rows)
    for reading in readings(rows):
        if not is_pair or reading.layout in {"concat", "half_concat"}:
            yield reading


def _waves(reading: Reading, places: Float64s) -> Waves | None:
    if not _is_even(reading):
        return None
    measured = measure(reading.turns, places)
    if measured.crookedness.max() > 2 * _ROUGHEST:
        return None
    start = offset_of(measured.phase, measured.omega)
    if start is None:
        return None
    error = measured.omega_error + 2.0**-23 * np.abs(measured.omega)
    based, base = _based(np.abs(measured.omega), error)
    if base is None:
        omega = measured.omega
    else:
        omega = -based if float(np.median(measured.omega)) < 0 else based
    frequency, is_sine = reading.channels.indices()
    return Waves(frequency, is_sine, places + start, omega, measured.scale, base)


def _is_even(reading: Reading) -> bool:
    """Tell whether pairs have one norm, and copies are such."""
    norms = np.abs(reading.turns)
    scale = float(np.median(norms))
    most = _ROUGHEST * scale
    return scale > 0 and reading.discord <= most and float(np.abs(norms - scale).max()) <= most


def _refined(turns: Complexes, positions: Float64s, omega: Float64s) -> Float64s:
    """Measure frequencies by all rows, where none is half a turn away from what is expected."""
    if len(turns) <= EARLY_ROWS:
        return omega
    bent = np.angle(turns * np.exp(-1j * np.outer(positions, omega)))
    if np.abs(bent).max() > 1:
        return omega
    # Angles go through 0 at position 0.
    more: Float64s = omega + positions @ bent / float(positions @ positions)
    return more


def _based(omega: Float64s, error: Float64s) -> tuple[Float64s, tuple[float, int] | None]:
    """Put the powers of a plain base in place of measured frequencies, if they are such powers."""
    series = geometric(omega, error)
    if series is None or len(omega) < 2:
        return omega, None
    places = np.arange(len(omega))
    for span in (2 * len(omega), 2 * len(omega) - 2):
        for base in bases(series, span):
            exact = float(base) ** (-2 * places / span)
            if base == float(f"{base:.3g}") and (np.abs(exact - omega) <= 2 * error).all():
                return exact, (base, span)
    return omega, None


def offset_of(phase: Float64s, omega: Float64s, tolerance: float = 0.05) -> float | None:
    """Find the whole position at which all angles are what they are; None where there is none.

    The slowest frequency says about where it is, and each faster one more exactly.

    Args:
        phase: angles, modulo 2π, (K,).
        omega: radians per position, (K,).
        tolerance: how far an angle may be from what it should be.
    """
    position = 0.0
    for k in np.argsort(np.abs(omega), kind="stable"):
        if omega[k] != 0:
            position += float(_folded(phase[k] - position * omega[k]) / omega[k])
    whole = float(np.round(position))
    away = np.abs(_folded(phase - whole * omega))
    return whole if float(away.max(initial=0.0)) <= tolerance else None


def _folded(angles: Float64s) -> Float64s:
    return (angles + np.pi) % _TWO_PI - np.pi
