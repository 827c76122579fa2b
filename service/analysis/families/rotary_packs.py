"""Read cosines and sines of a rotary table in every pack in which they have one norm."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import IdentifyInput
from service.analysis.measure import Complexes, layout_readings
from service.encodings.rotary.packs import PACKS, Pack
from service.numerics.dtypes import REAL_DTYPES, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels

# What engines in float32 may add to rounding, far out: norms are judged loosely, numbers later.
_STRUCTURE = 2.0**-13
_LOOSE = 2.0**-6
_EARLY_ROWS = 64

Components: TypeAlias = tuple[Float64s, Float64s]
"""Cosines and sines, (S, K) each, as views of the array: reading a pack copies nothing."""


@dataclass(frozen=True, eq=False)
class PackReading:
    """A rotary table read in a pack.

    Attributes:
        pack: its name.
        components: cosines and sines of each row and frequency, (S, K) each.
        scale: their factor.
        dtype: the type of the numbers.
    """

    pack: str
    components: Components
    scale: float
    dtype: DType

    @cached_property
    def turns(self) -> Complexes:
        """Cosine + i·sine of each row and frequency, (S, K)."""
        return self.some(slice(None))

    def some(self, frequencies: list[int] | slice) -> Complexes:
        """Return the turns of some frequencies, which costs less than those of all."""
        cosine, sine = self.components
        turns: Complexes = cosine[:, frequencies] + 1j * sine[:, frequencies]
        return turns

    @property
    def count(self) -> int:
        """The number of frequencies."""
        return int(self.components[0].shape[1])

    @property
    def rounding(self) -> float:
        """Half a unit in the last place at 1."""
        return rounding_bound(self.dtype, 1.0)

    @property
    def least(self) -> float:
        """Half the smallest number above 0: the rounding error of the smallest numbers."""
        return rounding_bound(self.dtype, 0.0) / 2

    def channels(self) -> Mapping[str, Channels]:
        """Return the channels of each array; nothing for the pack of angles."""
        pack, count = PACKS[self.pack], self.count
        if not isinstance(pack, Pack):
            return {}
        return {
            name: Channels(parts, pack.interleaved, count * len(parts) * pack.repeats, pack.repeats)
            for name, parts in pack.parts.items()
        }


def packed_tables(request: IdentifyInput) -> Iterator[PackReading]:
    """Read arrays in each pack in which pairs of channels have one norm."""
    dtype = request.sample.element_dtype
    if any(
        each.element_dtype.name not in REAL_DTYPES or not each.is_finite
        for each in request.arrays.values()
    ):
        return
    loose = 8 * rounding_bound(dtype, 1.0) + _STRUCTURE
    for name, components in _readings(request):
        cosine, sine = (each[:_EARLY_ROWS] for each in components)
        norms = np.hypot(cosine, sine)
        scale = float(np.median(norms)) or 1.0
        if norms.size and np.abs(norms / scale - 1).max() <= loose:
            is_one = abs(scale - 1) <= loose
            yield PackReading(name, components, 1.0 if is_one else scale, dtype)


def _readings(request: IdentifyInput) -> Iterator[tuple[str, Components]]:
    if request.is_pair:
        cosine, sine = (request.arrays[name].reals() for name in ("cos", "sin"))
        if cosine.shape == sine.shape and cosine.ndim >= 2:
            yield from _of_two_arrays(_flat(cosine), _flat(sine))
        return
    values, is_complex = request.sample.reals(), request.sample.is_complex
    if len(request.arrays) > 1 or values.ndim < (3 if is_complex else 2):
        return
    if is_complex or (values.ndim >= 3 and values.shape[-1] == 2):
        name = "complex" if is_complex else "pair"
        yield name, (_flat(values[..., 0]), _flat(values[..., 1]))
    else:
        yield from _of_one_array(_flat(values))


def _flat(values: Float64s) -> Float64s:
    return values.reshape(-1, values.shape[-1])


def _of_two_arrays(cosine: Float64s, sine: Float64s) -> Iterator[tuple[str, Components]]:
    half, is_even = cosine.shape[1] // 2, cosine.shape[1] % 2 == 0
    both = cosine, sine
    if is_even and all(np.array_equal(each[:, :half], each[:, half:]) for each in both):
        yield "half", (cosine[:, :half], sine[:, :half])
    if is_even and all(np.array_equal(each[:, ::2], each[:, 1::2]) for each in both):
        yield "interleaved", (cosine[:, ::2], sine[:, ::2])
    yield "compact", both


def _of_one_array(rows: Float64s) -> Iterator[tuple[str, Components]]:
    for reading in layout_readings(rows[:_EARLY_ROWS]):
        norms = np.abs(reading.phasors)
        is_even = np.ptp(norms) <= _LOOSE * norms.max(initial=1)
        # Sine before cosine, channel by channel, is no pack.
        if reading.layout == "interleaved" or reading.copy_error > _LOOSE or not is_even:
            continue
        name = "sin_concat" if reading.layout == "concatenated" else reading.layout
        frequency, is_sine = reading.channels.indices()
        cosine, sine = (
            _first_channels(rows, frequency, part)[:, : reading.phasors.shape[1]]
            for part in (~is_sine, is_sine)
        )
        yield name, (cosine, sine)
    if np.abs(rows).max(initial=0) > 1:
        yield "angle", (np.cos(rows), np.sin(rows))


def _first_channels(
    rows: Float64s, frequency: NDArray[np.intp], of_part: NDArray[np.bool_]
) -> Float64s:
    """Return the first channel of each frequency, evenly apart in every layout, as a view."""
    channels = np.flatnonzero(of_part)
    channels = channels[np.unique(frequency[of_part], return_index=True)[1]]
    step = int(channels[1] - channels[0]) if len(channels) > 1 else 1
    return rows[:, int(channels[0]) : int(channels[-1]) + 1 : step]
