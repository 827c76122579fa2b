"""How the cosines and sines of a rotary table may lie in an array: every pack, read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from service.analysis.layouts import readings
from service.analysis.question import Question
from service.analysis.sample import Sample
from service.analysis.waves import Complexes
from service.tables.angle import Float64s
from service.tables.channels import Channels, Component
from service.tables.packs import PACKS

_SIN: tuple[Component, ...] = ("sin",)
_OF_LAYOUT: Mapping[str, str] = {
    "half_concat": "half_concat",
    "sin_half_concat": "sin_half_concat",
    "sin_interleaved_concat": "sin_interleaved_concat",
    "flat": "flat",
    "concat": "concat",
    "concatenated": "sin_concat",
}


# The first rows say which table it may be; whether it is, all of them.
MOST_ROWS = 512

# In so few rows channels may be alike by chance: all ones at position 0.
_FEW_ROWS = 8


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows read as a pack of rotary tables.

    Attributes:
        pack: its name.
        channels: for each array by name, what it holds where.
        turns: cosine + i·sine of each pair, of the first rows, (S, K).
        rows: how many rows there are in all.
        says: where pairs are, in words.
    """

    pack: str
    channels: Mapping[str, Channels]
    turns: Complexes
    rows: int
    says: str


def rows_of(sample: Sample) -> Float64s:
    """Give an array's rows of channels: what the last axis holds, that had more than one."""
    values = sample.reals()
    if values.ndim == 1:
        last = sample.shape[-1] if sample.shape else 1
        return values[np.newaxis] if last == len(values) else values[:, np.newaxis]
    return values.reshape(-1, values.shape[-1])


def packings(question: Question, unit: float) -> Iterator[Packed]:
    """Read an array, or two, in every pack in which channels that should be equal are.

    Args:
        question: what was sent.
        unit: how far rounding may move a number, as a share of it.
    """
    if question.is_pair:
        if question.sample.values.ndim <= 2:
            yield from _pair(question, unit)
        return
    sample = question.sample
    if sample.is_complex or _ends_in_two(sample):
        yield from _paired(sample)
    elif sample.values.ndim <= 2:
        yield from _single(rows_of(sample), unit)


def _ends_in_two(sample: Sample) -> bool:
    """Tell whether an array has an axis of pairs: its last one, with another of channels."""
    return len(sample.shape) >= 3 and sample.shape[-1] == 2 and sample.values.ndim <= 3


def _paired(sample: Sample) -> Iterator[Packed]:
    pairs = sample.shape[-1] if sample.is_complex else sample.shape[-2]
    values = sample.reals().reshape(-1, pairs, 2)
    channels = Channels(("cos", "sin"), True, 2 * pairs)
    turns = values[..., 0] + 1j * values[..., 1]
    name = "complex" if sample.is_complex else "pair"
    says = "the real and the imaginary part" if sample.is_complex else "the last axis"
    yield Packed(name, {"rope": channels}, turns[:MOST_ROWS], len(turns), says)


def _single(every: Float64s, unit: float) -> Iterator[Packed]:
    rows = every[:MOST_ROWS]
    allowed = 4 * unit * float(np.abs(rows).max(initial=0.0))
    fitting = [
        reading
        for reading in readings(rows)
        if reading.layout in _OF_LAYOUT and reading.discord <= allowed and rows.shape[1] % 2 == 0
    ]
    fewest = min((each.turns.shape[1] for each in fitting), default=0)
    for reading in sorted(fitting, key=lambda each: each.turns.shape[1]):
        if reading.turns.shape[1] > fewest and len(rows) > _FEW_ROWS:
            return
        pack = _OF_LAYOUT[reading.layout]
        says = f"channels laid out as {PACKS[pack].description}"
        yield Packed(pack, {"rope": reading.channels}, reading.turns, len(every), says)


def _pair(question: Question, unit: float) -> Iterator[Packed]:
    every = [rows_of(question.arrays[name]) for name in ("cos", "sin")]
    if every[0].shape != every[1].shape:
        return
    cos, sin = (rows[:MOST_ROWS] for rows in every)
    for pack, laid_out in component_channels(cos, unit):
        twin = Channels(_SIN * len(laid_out.components), laid_out.interleaved, laid_out.width)
        if not _agrees(sin, twin, unit):
            continue
        turns = pick(cos, laid_out) + 1j * pick(sin, twin)
        says = f"channels laid out as {PACKS[pack].description}"
        yield Packed(pack, {"cos": laid_out, "sin": twin}, turns, len(every[0]), says)


def component_channels(
    rows: Float64s, unit: float, component: Component = "cos"
) -> Iterator[tuple[str, Channels]]:
    """Name the packs of two arrays that rows of one component may be, those with copies first."""
    width, is_told = rows.shape[1], False
    for pack, copies, interleaved in (("half", 2, False), ("interleaved", 2, True)):
        channels = Channels((component,) * copies, interleaved, width)
        if width % 2 == 0 and _agrees(rows, channels, unit):
            is_told = len(rows) > _FEW_ROWS
            yield pack, channels
    if not is_told:
        yield "compact", Channels((component,), False, width)


def _agrees(rows: Float64s, channels: Channels, unit: float) -> bool:
    """Tell whether copies of a channel are alike."""
    index, _ = channels.indices()
    first = pick(rows, channels)[:, index]
    return bool(np.abs(rows - first).max() <= 4 * unit * np.abs(rows).max())


def pick(rows: Float64s, channels: Channels) -> Float64s:
    """Give the first channel of each frequency."""
    index, _ = channels.indices()
    _, places = np.unique(index, return_index=True)
    return rows[:, places]
