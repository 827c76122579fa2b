"""How cosines and sines may lie in a row, and what a row says if they lie so."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.analysis.waves import Complexes
from service.tables.angle import Float64s
from service.tables.channels import Channels, Component

_SINGLE: dict[str, tuple[tuple[Component, ...], bool, int]] = {
    "interleaved": (("sin", "cos"), True, 1),
    "concatenated": (("sin", "cos"), False, 1),
    "flat": (("cos", "sin"), True, 1),
    "concat": (("cos", "sin"), False, 1),
    "half_concat": (("cos", "cos", "sin", "sin"), False, 1),
    "sin_half_concat": (("sin", "sin", "cos", "cos"), False, 1),
    "sin_interleaved_concat": (("sin", "cos"), False, 2),
}


@dataclass(frozen=True, eq=False)
class Reading:
    """Rows read in a layout.

    Attributes:
        layout: its name: ``interleaved`` s0,c0,s1,c1…; ``concatenated`` sines ‖ cosines; or a pack
            of ``/rope`` (of which ``sin_concat`` is the same as concatenated).
        channels: what it holds where.
        turns: cosine + i·sine of each pair, (S, K); a sine without a cosine is left out.
        discord: how far channels that should be equal differ at most.
    """

    layout: str
    channels: Channels
    turns: Complexes
    discord: float


def readings(rows: Float64s) -> Iterator[Reading]:
    """Read rows (S, C) in every layout that C channels may have."""
    width = rows.shape[1]
    for layout, (components, interleaved, repeats) in _SINGLE.items():
        if (
            width >= 2
            and width % (len(components) * repeats) in {0, 1}
            and (width % 2 == 0 or len(components) == 2)
        ):
            channels = Channels(components, interleaved, width, repeats)
            yield read(layout, channels, rows)


def read(layout: str, channels: Channels, rows: Float64s) -> Reading:
    """Read rows in a layout."""
    frequency, is_sine = channels.indices()
    count = int(min(frequency[is_sine].max(initial=-1), frequency[~is_sine].max(initial=-1))) + 1
    parts, discord = [], 0.0
    for is_of_part in (~is_sine, is_sine):
        copies = _copies(frequency, is_of_part, count)
        first = rows[:, copies[0]]
        discord = max([discord, *(float(np.abs(rows[:, other] - first).max()) for other in copies)])
        parts.append(first)
    cosine, sine = parts
    return Reading(layout, channels, cosine + 1j * sine, discord)


def _copies(frequency: np.ndarray, of_part: np.ndarray, count: int) -> list[np.ndarray]:
    """List the channels that hold a part of each frequency, once for each time that they do."""
    channels = np.flatnonzero(of_part & (frequency < count))
    order = channels[np.argsort(frequency[channels], kind="stable")]
    return list(order.reshape(count, -1).T)
