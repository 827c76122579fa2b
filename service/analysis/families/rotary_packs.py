"""Read the cosines and sines of a rotary table in every pack that fits its channels.

A pack is an order of cosines and sines in one or two arrays, such as ``half`` or ``interleaved``.
"""

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

# A tolerance of norms: float32 engines add errors at large positions. Verification later compares
# the elements themselves.
_TOLERANCE = 2.0**-13
_EARLY_ROWS = 64

# The first rows propose tables; all rows verify them.
_MAX_ROWS = 512

Components: TypeAlias = tuple[Float64s, Float64s]
"""Cosines and sines, (S, K) each, as views of the array: reading a pack copies nothing."""


@dataclass(frozen=True, eq=False)
class PackReading:
    """The cosines and sines of an array that is read in one pack.

    Attributes:
        pack: the name of the pack.
        components: cosines and sines of S rows and K frequencies, (S, K) each.
        dtype: the dtype of the array.
        scale: the measured norm √(cos² + sin²) of all pairs; 1 if it is near 1 or not measured.
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
        """Return the phasors of the given rows and frequency indices only."""
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
        """Half an ulp of 1 in the dtype of the array."""
        return rounding_bound(self.dtype, 1.0)

    @property
    def smallest_error(self) -> float:
        """The rounding error of elements near 0."""
        return rounding_bound(self.dtype, 0.0) / 2

    def channels(self) -> Mapping[str, Channels]:
        """Return the channel order of each array, by its name; empty for the pack ``angle``."""
        return pack_channels(self.pack, self.count)


def pack_channels(name: str, count: int) -> Mapping[str, Channels]:
    """Return the channel order of each array of a pack with ``count`` frequencies, by array name.

    The mapping is empty for the pack ``angle``, which has neither cosines nor sines.
    """
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
    """Yield a reading in each pack in which all (cosine, sine) pairs have the same norm.

    Only arrays of at least two rows have readings.
    """
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
    """Yield a reading in each pack whose repeated channels are equal in the arrays."""
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
    """Return whether an array is complex, or has a last axis of length 2 for cosine and sine."""
    return sample.is_complex or (len(sample.shape) >= 3 and sample.shape[-1] == 2)


def rows_of(sample: Sample) -> Float64s:
    """Return the array as rows of channels, (S, C): the last axis has the channels.

    A vector is one row, or a column of S rows if the last axis of the array had length 1.
    """
    values = sample.reals()
    if values.ndim == 1:
        last = sample.shape[-1] if sample.shape else 1
        return values[np.newaxis] if last == len(values) else values[:, np.newaxis]
    return values.reshape(-1, values.shape[-1])


def equal_channels(dtype: DType, *arrays: Float64s) -> Iterator[tuple[str, slice]]:
    """Yield the packs that fit arrays with only cosines or only sines, (S, C) each.

    With each pack comes the slice that selects one channel per frequency.
    """
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
        # No pack alternates sines and cosines with the sine first.
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
    """Return a slice of the first channel of each frequency, for one component's channels.

    These first channels are evenly spaced in every layout.
    """
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
