"""What engines make of angles in narrower arithmetic: positions, frequencies, products rounded."""

from dataclasses import dataclass

import numpy as np

from service.analysis.identifying.arithmetic import Arithmetic
from service.analysis.question import Turning
from service.tables.angle import Float64s
from service.tables.channels import Channels
from service.tables.dtypes import DType, round_into, widened

# An angle that may be anything says nothing: half of a sine's slope is still a statement.
_MOST_ALLOWED = 0.125


def rounded(values: Float64s, dtype: DType | None) -> Float64s:
    """Round to a real type and back; None leaves values as they are."""
    if dtype is None:
        return values
    elements = np.empty(values.shape, dtype=dtype.storage)
    with np.errstate(over="ignore", invalid="ignore"):
        round_into(values, elements, dtype)
    return widened(elements, dtype)


@dataclass(frozen=True, eq=False)
class Emulation:
    """Cosines and sines as an engine computes them, and how far it may be off beside.

    Attributes:
        arithmetic: what this is called.
        turning: the exact angles.
        omega: the frequencies that the engine uses, (K,).
        positions_in: what positions are rounded to.
        angles_in: what products are rounded to.
        sines_in: what sines are rounded to.
        share: how far an angle may be off, as a share of it, (K,) or for all.
        floor: how far a sine may be off beside, as a share of the scale.
        place_loss: how far the coordinates may be off.
    """

    arithmetic: Arithmetic
    turning: Turning
    omega: Float64s
    positions_in: DType | None = None
    angles_in: DType | None = None
    sines_in: DType | None = None
    share: Float64s | float = 0.0
    floor: float = 0.0
    place_loss: float = 0.0

    def angles(self, rows: np.ndarray) -> Float64s:
        """Give the angle of each frequency in rows, (S, K)."""
        places = rounded(self.turning.coordinates[rows], self.positions_in)
        return rounded(places[:, list(self.turning.axis)] * self.omega, self.angles_in)

    def predict(self, rows: np.ndarray) -> dict[str, tuple[Float64s, Float64s]]:
        """Give for each array what its rows hold, and how far each number may be from it."""
        angles = self.angles(rows)
        scale = abs(self.turning.scale)
        room = self.floor + self.share * np.abs(angles) + self.place_loss * np.abs(self.omega)
        allowed = np.minimum(room, _MOST_ALLOWED) * scale
        parts = {True: None, False: None}
        components = {
            is_sine: rounded((np.sin if is_sine else np.cos)(angles), self.sines_in)
            * self.turning.scale
            for is_sine in parts
        }
        return {
            name: (_laid_out(components, channels), _spread(allowed, channels))
            for name, channels in self.turning.channels.items()
        }


def _laid_out(components: dict[bool, Float64s], channels: Channels) -> Float64s:
    """Put cosines (False) and sines (True) into the channels of rows."""
    frequency, is_sine = channels.indices()
    rows = np.where(is_sine, components[True][:, frequency], components[False][:, frequency])
    channels.blank(rows)
    return rows


def _spread(allowed: Float64s, channels: Channels) -> Float64s:
    """Give every channel what its frequency is allowed; zeros are allowed nothing."""
    rows = allowed[:, channels.indices()[0]]
    channels.blank(rows)
    return rows


@dataclass(frozen=True, eq=False)
class Repeated(Emulation):
    """Angles as ggml makes them: each is the one before it times a float32 ratio.

    Attributes:
        ratio: what angles are multiplied by from frequency to frequency.
    """

    ratio: float = 1.0

    def angles(self, rows: np.ndarray) -> Float64s:
        """Give the angle of each frequency in rows, (S, K); the first factor comes last."""
        angle = self.turning.coordinates[rows, 0].astype(np.float32)
        columns = np.empty((len(rows), len(self.omega)), dtype=np.float32)
        for k in range(len(self.omega)):
            columns[:, k] = angle
            angle = angle * np.float32(self.ratio)
        return (columns * np.float32(self.omega[0])).astype(np.float64)
