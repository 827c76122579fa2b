"""The turns that a rotary table says, read in every pack that it may be in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.layouts import Reading, readings
from service.analysis.question import Question
from service.analysis.waves import Complexes
from service.tables.angle import Float64s
from service.tables.channels import Channels
from service.tables.dtypes import REAL_DTYPES, DType, rounding_bound
from service.tables.packs import PACKS, Pack

# What engines in float32 may add to rounding, far out: norms are judged loosely, numbers later.
_STRUCTURE = 2.0**-13
_NAMES = {"concatenated": "sin_concat", "interleaved": None}
_EARLY_ROWS = 64

Components: TypeAlias = tuple[Float64s, Float64s]
"""Cosines and sines, (S, K) each, as views of what was sent: nothing is copied to look at some."""


@dataclass(frozen=True, eq=False)
class Packed:
    """A rotary table read in a pack.

    Attributes:
        pack: its name.
        components: cosines and sines of each row and frequency, (S, K) each.
        scale: what they were multiplied by.
        dtype: the type of the numbers.
    """

    pack: str
    components: Components
    scale: float
    dtype: DType

    @cached_property
    def turns(self) -> Complexes:
        """Cosine + i·sine of each row and frequency, (S, K)."""
        cosine, sine = self.components
        return cosine + 1j * sine

    @property
    def count(self) -> int:
        """How many frequencies there are."""
        return int(self.components[0].shape[1])

    def some(self, frequencies: list[int]) -> Complexes:
        """Give the turns of some frequencies alone, which costs less than those of all."""
        cosine, sine = self.components
        turns: Complexes = cosine[:, frequencies] + 1j * sine[:, frequencies]
        return turns

    @property
    def rounding(self) -> float:
        """Half a unit in the last place at 1."""
        return rounding_bound(self.dtype, 1.0)

    @property
    def least(self) -> float:
        """Half the smallest number above 0: what rounding moves the very smallest numbers by."""
        return rounding_bound(self.dtype, 0.0) / 2

    def channels(self) -> Mapping[str, Channels]:
        """Say what each array holds in which channel; nothing where it holds angles."""
        pack, count = PACKS[self.pack], self.count
        if not isinstance(pack, Pack):
            return {}
        return {
            name: Channels(parts, pack.interleaved, count * len(parts) * pack.repeats, pack.repeats)
            for name, parts in pack.parts.items()
        }


def packed(question: Question) -> Iterator[Packed]:
    """Read arrays in each pack in which pairs of channels have one norm."""
    sample = question.sample
    if any(
        each.element_dtype.name not in REAL_DTYPES or not each.is_finite
        for each in question.arrays.values()
    ):
        return
    for name, components in _readings(question):
        found = Packed(name, components, 1.0, sample.element_dtype)
        cosine, sine = (each[:_EARLY_ROWS] for each in components)
        early = np.hypot(cosine, sine)
        scale = float(np.median(early)) or 1.0
        loose = 8 * found.rounding + _STRUCTURE
        if early.size and np.abs(early / scale - 1).max() <= loose:
            is_one = abs(scale - 1) <= loose
            yield Packed(name, components, 1.0 if is_one else scale, sample.element_dtype)


def _readings(question: Question) -> Iterator[tuple[str, Components]]:
    if question.is_pair:
        cosine, sine = (question.arrays[name].reals() for name in ("cos", "sin"))
        if cosine.shape == sine.shape and cosine.ndim >= 2:
            yield from _of_two(_flat(cosine), _flat(sine))
        return
    if len(question.arrays) > 1:
        return
    values = question.sample.reals()
    if question.sample.is_complex:
        if values.ndim >= 3:
            yield "complex", (_flat(values[..., 0]), _flat(values[..., 1]))
        return
    if values.ndim >= 3 and values.shape[-1] == 2:
        yield "pair", (_flat(values[..., 0]), _flat(values[..., 1]))
        return
    if values.ndim >= 2:
        yield from _of_rows(_flat(values))


def _flat(values: Float64s) -> Float64s:
    return values.reshape(-1, values.shape[-1])


def _of_two(cosine: Float64s, sine: Float64s) -> Iterator[tuple[str, Components]]:
    half, is_even = cosine.shape[1] // 2, cosine.shape[1] % 2 == 0
    both = cosine, sine
    if is_even and all(np.array_equal(each[:, :half], each[:, half:]) for each in both):
        yield "half", (cosine[:, :half], sine[:, :half])
    if is_even and all(np.array_equal(each[:, ::2], each[:, 1::2]) for each in both):
        yield "interleaved", (cosine[:, ::2], sine[:, ::2])
    yield "compact", both


def _of_rows(rows: Float64s) -> Iterator[tuple[str, Components]]:
    early = rows[:_EARLY_ROWS]
    loose = 2.0**-6
    for reading in readings(early):
        name = _NAMES.get(reading.layout, reading.layout)
        norms = np.abs(reading.turns)
        if name and reading.discord <= loose and np.ptp(norms) <= loose * norms.max(initial=1):
            yield name, _components(rows, reading)
    if np.abs(rows).max(initial=0) > 1:
        yield "angle", (np.cos(rows), np.sin(rows))


def _components(rows: Float64s, reading: Reading) -> Components:
    """Give the channels of a layout that hold the cosines, and the sines, for the first time."""
    frequency, is_sine = reading.channels.indices()
    channels = np.arange(len(frequency))
    cosine, sine = (
        channels[part][np.unique(frequency[part], return_index=True)[1]][: reading.turns.shape[1]]
        for part in (~is_sine, is_sine)
    )
    return _spread(rows, cosine), _spread(rows, sine)


def _spread(rows: Float64s, channels: NDArray[np.intp]) -> Float64s:
    """Give channels that are equally far apart, as those of every layout are, without a copy."""
    step = int(channels[1] - channels[0]) if len(channels) > 1 else 1
    return rows[:, int(channels[0]) : int(channels[-1]) + 1 : step]
