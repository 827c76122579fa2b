"""Read cosines and sines of a rotary table in every pack in which they have one norm."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from service.analysis.array import IdentifyInput
from service.analysis.measure import Complexes, layout_readings
from service.encodings.rotary.angles import PACKS, Pack
from service.numerics.dtypes import REAL_DTYPES, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels

# Tolerances of norms: engines in float32 add to rounding at large positions. Verification compares
# the numbers themselves.
_TOLERANCE = 2.0**-13
_LAYOUT_TOLERANCE = 2.0**-6
_EARLY_ROWS = 64

Components: TypeAlias = tuple[Float64s, Float64s]
"""Cosines and sines, (S, K) each, as views of the array: reading a pack copies nothing."""


@dataclass(frozen=True, eq=False)
class PackReading:
    """A rotary table read in a pack.

    Attributes:
        pack: its name.
        components: cosines and sines of each row and frequency, (S, K) each.
        scale: the factor of both.
        dtype: the type of the numbers.
    """

    pack: str
    components: Components
    scale: float
    dtype: DType

    @cached_property
    def phasors(self) -> Complexes:
        """Cosine + i·sine of each row and frequency, (S, K)."""
        return self.phasors_of(slice(None))

    def phasors_of(self, frequencies: list[int] | slice) -> Complexes:
        """Return the phasors of some frequencies, which is faster than those of all."""
        cosine, sine = self.components
        return np.asarray(cosine[:, frequencies] + 1j * sine[:, frequencies])

    @property
    def count(self) -> int:
        """The number of frequencies."""
        return int(self.components[0].shape[1])

    @property
    def rounding(self) -> float:
        """Half a unit in the last place at 1."""
        return rounding_bound(self.dtype, 1.0)

    @property
    def smallest_error(self) -> float:
        """The rounding error of the smallest numbers: half of the smallest above 0."""
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
    """Read arrays in each pack in which all pairs of channels have one norm."""
    dtype = request.sample.element_dtype
    if any(
        each.element_dtype.name not in REAL_DTYPES or not each.is_finite
        for each in request.arrays.values()
    ):
        return
    tolerance = 8 * rounding_bound(dtype, 1.0) + _TOLERANCE
    for name, components in _readings(request):
        cosine, sine = (each[:_EARLY_ROWS] for each in components)
        norms = np.hypot(cosine, sine)
        scale = float(np.median(norms)) or 1.0
        if norms.size and np.abs(norms / scale - 1).max() <= tolerance:
            is_one = abs(scale - 1) <= tolerance
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


def _of_two_arrays(*both: Float64s) -> Iterator[tuple[str, Components]]:
    width = both[0].shape[1]
    if width % 2 == 0:
        halves = slice(0, width // 2), slice(width // 2, None)
        alternate = slice(0, None, 2), slice(1, None, 2)
        for name, (first, second) in (("half", halves), ("interleaved", alternate)):
            if all(np.array_equal(each[:, first], each[:, second]) for each in both):
                yield name, (both[0][:, first], both[1][:, first])
    yield "compact", (both[0], both[1])


def _of_one_array(rows: Float64s) -> Iterator[tuple[str, Components]]:
    for reading in layout_readings(rows[:_EARLY_ROWS]):
        norms = np.abs(reading.phasors)
        is_even = np.ptp(norms) <= _LAYOUT_TOLERANCE * norms.max(initial=1)
        # No pack has sines and cosines that alternate, the sines first.
        if reading.layout == "interleaved" or reading.copy_error > _LAYOUT_TOLERANCE or not is_even:
            continue
        name = "sin_concat" if reading.layout == "concatenated" else reading.layout
        frequency, is_sine = reading.channels.indices()
        cosine, sine = (
            rows[:, _first_channels(np.flatnonzero(part), frequency)]
            for part in (~is_sine, is_sine)
        )
        count = reading.phasors.shape[1]
        yield name, (cosine[:, :count], sine[:, :count])
    if np.abs(rows).max(initial=0) > 1:
        yield "angle", (np.cos(rows), np.sin(rows))


def _first_channels(channels: np.ndarray, frequency: np.ndarray) -> slice:
    """Return the first channel of each frequency; they are evenly spaced in every layout."""
    first = channels[np.unique(frequency[channels], return_index=True)[1]]
    step = int(first[1] - first[0]) if len(first) > 1 else 1
    return slice(int(first[0]), int(first[-1]) + 1, step)
