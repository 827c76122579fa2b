"""Read cosines and sines of rotary tables in every pack that fits their channels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from service.analysis.array import IdentifyInput, Sample
from service.analysis.measure import Complexes, layout_readings
from service.encodings.rotary.angles import PACKS, Pack
from service.numerics.dtypes import REAL_DTYPES, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels

# A tolerance of norms: engines in float32 add to rounding at large positions. Verification compares
# the numbers themselves.
_TOLERANCE = 2.0**-13
_EARLY_ROWS = 64

# The first rows propose tables; all rows verify them.
_MAX_ROWS = 512

Components: TypeAlias = tuple[Float64s, Float64s]
"""Cosines and sines, (S, K) each, as views of the array: reading a pack copies nothing."""


@dataclass(frozen=True, eq=False)
class PackReading:
    """A rotary table read in a pack.

    Attributes:
        pack: its name.
        components: cosines and sines of each row and frequency, (S, K) each.
        dtype: the type of the numbers.
        scale: the factor of both, if measured.
    """

    pack: str
    components: Components
    dtype: DType
    scale: float = 1.0

    @cached_property
    def phasors(self) -> Complexes:
        """Cosine + i·sine of each row and frequency, (S, K)."""
        return self.phasors_of(slice(None))

    @cached_property
    def first_phasors(self) -> Complexes:
        """The phasors of at most 512 rows."""
        return self.phasors_of(slice(None), slice(_MAX_ROWS))

    def phasors_of(self, frequencies: list[int] | slice, rows: slice = slice(None)) -> Complexes:
        """Return the phasors of some frequencies, which is faster than those of all."""
        cosine, sine = (each[rows, frequencies] for each in self.components)
        return np.asarray(cosine + 1j * sine)

    @property
    def rows(self) -> int:
        return len(self.components[0])

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
        return pack_channels(self.pack, self.count)


def pack_channels(name: str, count: int) -> Mapping[str, Channels]:
    """Return the channels of each array of a pack; nothing for the pack of angles."""
    pack = PACKS[name]
    if not isinstance(pack, Pack):
        return {}
    return {
        part: Channels(
            components, pack.interleaved, count * len(components) * pack.repeats, pack.repeats
        )
        for part, components in pack.parts.items()
    }


def packed_tables(request: IdentifyInput) -> Iterator[PackReading]:
    """Read arrays of several rows in each pack in which all pairs of channels have one norm."""
    if any(
        each.element_dtype.name not in REAL_DTYPES or not each.is_finite
        for each in request.arrays.values()
    ):
        return
    for reading in (*pack_readings(request), *_angle_readings(request)):
        tolerance = 8 * reading.rounding + _TOLERANCE
        norms = np.hypot(*(each[:_EARLY_ROWS] for each in reading.components))
        scale = float(np.median(norms)) if norms.size else 1.0
        if len(norms) > 1 and np.abs(norms / (scale or 1.0) - 1).max(initial=0) <= tolerance:
            yield replace(reading, scale=1.0 if abs(scale - 1) <= tolerance else scale)


def pack_readings(request: IdentifyInput) -> Iterator[PackReading]:
    """Read arrays in each pack in which the channels that should be equal are."""
    sample, dtype = request.sample, request.sample.element_dtype
    if request.is_pair:
        cosine, sine = (rows_of(request.arrays[name]) for name in ("cos", "sin"))
        if cosine.shape == sine.shape:
            for pack, first in equal_channels(dtype, cosine, sine):
                yield PackReading(pack, (cosine[:, first], sine[:, first]), dtype)
    elif len(request.arrays) > 1:
        return
    elif has_pair_axis(sample):
        pairs = sample.shape[-1 if sample.is_complex else -2]
        values = sample.reals().reshape(-1, pairs, 2)
        pack = "complex" if sample.is_complex else "pair"
        yield PackReading(pack, (values[..., 0], values[..., 1]), dtype)
    else:
        yield from _of_one_array(rows_of(sample), dtype)


def has_pair_axis(sample: Sample) -> bool:
    """Return whether the last axis of the numbers is a cosine and a sine."""
    return sample.is_complex or (len(sample.shape) >= 3 and sample.shape[-1] == 2)


def rows_of(sample: Sample) -> Float64s:
    """Return an array by rows; the channels are the last axis, unless its length is 1."""
    values = sample.reals()
    if values.ndim == 1:
        last = sample.shape[-1] if sample.shape else 1
        return values[np.newaxis] if last == len(values) else values[:, np.newaxis]
    return values.reshape(-1, values.shape[-1])


def equal_channels(dtype: DType, *arrays: Float64s) -> Iterator[tuple[str, slice]]:
    """Yield the packs of arrays of one component, with the first channel of each frequency."""
    width = arrays[0].shape[1]
    if width % 2 == 0:
        halves = slice(0, width // 2), slice(width // 2, None)
        alternate = slice(0, None, 2), slice(1, None, 2)
        for pack, (first, second) in (("half", halves), ("interleaved", alternate)):
            if all(
                np.abs(each[:, first] - each[:, second]).max() <= _copy_error(dtype, each)
                for each in arrays
            ):
                yield pack, first
    yield "compact", slice(None)


def _copy_error(dtype: DType, rows: Float64s) -> float:
    return 4 * rounding_bound(dtype, 1.0) * float(np.abs(rows).max(initial=0))


def _of_one_array(rows: Float64s, dtype: DType) -> Iterator[PackReading]:
    if rows.shape[1] % 2:
        return
    early = rows[:_EARLY_ROWS]
    for reading in layout_readings(early):
        # No pack has sines and cosines that alternate, the sines first.
        if reading.layout == "interleaved" or reading.copy_error > _copy_error(dtype, early):
            continue
        name = "sin_concat" if reading.layout == "concatenated" else reading.layout
        frequency, is_sine = reading.channels.indices()
        cosine, sine = (
            rows[:, _first_channels(np.flatnonzero(part), frequency)]
            for part in (~is_sine, is_sine)
        )
        yield PackReading(name, (cosine, sine), dtype)


def _first_channels(channels: np.ndarray, frequency: np.ndarray) -> slice:
    """Return the first channel of each frequency; they are evenly spaced in every layout."""
    first = channels[np.unique(frequency[channels], return_index=True)[1]]
    step = int(first[1] - first[0]) if len(first) > 1 else 1
    return slice(int(first[0]), int(first[-1]) + 1, step)


def _angle_readings(request: IdentifyInput) -> Iterator[PackReading]:
    sample = request.sample
    if len(request.arrays) > 1 or has_pair_axis(sample):
        return
    rows = rows_of(sample)
    if np.abs(rows).max(initial=0) > 1:
        yield PackReading("angle", (np.cos(rows), np.sin(rows)), sample.element_dtype)
