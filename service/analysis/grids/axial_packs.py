"""The turns that a rotary table says, read in every pack that it may be in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from service.analysis.layouts import read, readings
from service.analysis.question import Question
from service.analysis.waves import Complexes
from service.tables.angle import Float64s
from service.tables.channels import Channels
from service.tables.dtypes import REAL_DTYPES, DType, rounding_bound
from service.tables.packs import PACKS, Pack

_STRUCTURE = 2.0**-13
_NAMES = {"concatenated": "sin_concat", "interleaved": None}
_EARLY_ROWS = 64


@dataclass(frozen=True, eq=False)
class Packed:
    """A rotary table read in a pack.

    Attributes:
        pack: its name.
        turns: cosine + i·sine of each row and frequency, (S, K).
        scale: what they were multiplied by.
        dtype: the type of the numbers.
    """

    pack: str
    turns: Complexes
    scale: float
    dtype: DType

    @property
    def rounding(self) -> float:
        """Half a unit in the last place at 1."""
        return rounding_bound(self.dtype, 1.0)

    def channels(self) -> Mapping[str, Channels]:
        """Say what each array holds in which channel; nothing where it holds angles."""
        pack, count = PACKS[self.pack], self.turns.shape[1]
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
    for name, turns in _readings(question):
        found = Packed(name, turns, 1.0, sample.element_dtype)
        early = np.abs(turns[:_EARLY_ROWS])
        scale = float(np.median(early)) or 1.0
        loose = 8 * found.rounding + _STRUCTURE
        if turns.size and np.abs(early / scale - 1).max() <= loose:
            is_one = abs(scale - 1) <= loose
            yield Packed(name, turns, 1.0 if is_one else scale, sample.element_dtype)


def _readings(question: Question) -> Iterator[tuple[str, Complexes]]:
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
            yield "complex", _flat(values[..., 0]) + 1j * _flat(values[..., 1])
        return
    if values.ndim >= 3 and values.shape[-1] == 2:
        yield "pair", _flat(values[..., 0]) + 1j * _flat(values[..., 1])
        return
    if values.ndim >= 2:
        yield from _of_rows(_flat(values))


def _flat(values: Float64s) -> Float64s:
    return values.reshape(-1, values.shape[-1])


def _of_two(cosine: Float64s, sine: Float64s) -> Iterator[tuple[str, Complexes]]:
    turns = cosine + 1j * sine
    half, is_even = turns.shape[1] // 2, turns.shape[1] % 2 == 0
    if is_even and np.array_equal(turns[:, :half], turns[:, half:]):
        yield "half", turns[:, :half]
    if is_even and np.array_equal(turns[:, ::2], turns[:, 1::2]):
        yield "interleaved", turns[:, ::2]
    yield "compact", turns


def _of_rows(rows: Float64s) -> Iterator[tuple[str, Complexes]]:
    early = rows[:_EARLY_ROWS]
    loose = 2.0**-6
    for reading in readings(early):
        name = _NAMES.get(reading.layout, reading.layout)
        norms = np.abs(reading.turns)
        if name and reading.discord <= loose and np.ptp(norms) <= loose * norms.max(initial=1):
            yield name, read(reading.layout, reading.channels, rows).turns
    if np.abs(rows).max(initial=0) > 1:
        yield "angle", np.exp(1j * rows)
