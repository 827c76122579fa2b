"""DETR's sinusoids for images with padding: a position is a cumulative count of valid pixels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from service.encodings.family import (
    Choice,
    ComposedFamily,
    Factor,
    InputArray,
    RealDType,
    about,
    impossible,
    optional,
)
from service.encodings.grid.grid_conventions import normalized, normalized_unit
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real
from service.lru import ByteBoundedLRU
from service.numerics.dtypes import DType, Elements, round_into
from service.numerics.evaluation import sin_cos_of_each
from service.numerics.limits import MAX_AXES_CHANNELS, MAX_SCALED_BASE
from service.numerics.phase import (
    FixedPointFrequencies,
    Float64s,
    FrequencyRule,
    Geometric,
    Int64s,
    exact_series,
)
from service.numerics.phasors import Frequencies
from service.numerics.setups import Setups, Steps, finish
from service.numerics.tables import (
    ELEMENT_SECONDS,
    STEP_ELEMENTS,
    Document,
    StoredTable,
    read_blocks,
    row_steps,
)

MAX_MASKS = 2**10
"""The most images in a batch: pixels are counted image by image."""

MAX_PIXELS = 2**22
"""The most pixels of all masks together: their counts stay in memory."""

MAX_QUOTIENTS = 2**16
"""The most quotients of a frequency and a final count: each is computed with 80 digits."""


# Room for the counts of the largest image, along both axes.
_COUNTS_BYTES = 32 * MAX_PIXELS

# The processor seconds of counting the pixels of a small image along an axis.
_LINE_SECONDS = 1.5e-4

_KINDS = {"padding": "padding_mask", "valid": "valid_mask"}


def _input(name: str, meaning: str, *aliases: str) -> InputArray:
    return InputArray(
        name=name,
        description=f"the mask, where 1 is {meaning}, (height, width) or (batch, height, width)",
        ranks=(2, 3),
        example=[[0, 0, 1], [0, 0, 1]],
        is_integer=True,
        is_required=False,
        aliases=aliases,
    )


class MaskedGridEncoding(ComposedFamily, path="/encoding/mask"):
    """DETR's sinusoids for images with padding: (batch, d_model, height, width).

    The body has either padding_mask or valid_mask, with at most 1024 images and 2^22 pixels; the
    answer states which. The mask of an npy file has no name: mask=padding or mask=valid states it.

    Formula: y counts the valid pixels of a column down to and including this one, x those of its
        row. Channel i of the first N = d_model/2 is sin(y·ω) if i is even and cos(y·ω) if i is odd,
        ω = base^(−2⌊i/2⌋/N); the other N channels are the same for x. With normalize=true y is
        divided by the final count of its column + 10^-6, x by that of its row, and both are
        multiplied by scale, 2π unless given.
    Source: facebookresearch/detr commit 29901c5 ``PositionEmbeddingSine``; transformers 5.23.0
        ``DetrSinePositionEmbedding``.
    Bound: 0.9·2^-53 before the single rounding to the element type: each frequency is divided by
        each final count of a column or row with 80 digits.
    Trap: 1 is padding in facebookresearch's mask, but a valid pixel in that of transformers
        (``pixel_mask``, here valid_mask). With the wrong one padding is counted, without any error.
    """

    example: ClassVar[str] = "d_model=4&normalize=true"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        _input("padding_mask", "padding (facebookresearch)"),
        _input("valid_mask", "a valid pixel (transformers)", "pixel_mask"),
    )
    choice: ClassVar[Choice] = Choice("mask", _KINDS)

    mask: Literal["padding", "valid"] | None = optional(
        "The meaning of 1 in the mask of an npy file; other formats name the mask.", "padding"
    )
    d_model: Integer = about(
        "Number of channels of both axes together: 2·num_pos_feats, where num_pos_feats is even.",
        256,
        ge=4,
        le=MAX_AXES_CHANNELS,
        multiple_of=4,
    )
    base: Real = about("Base of the frequencies.", 10000, default=10000.0, ge=1, le=MAX_SCALED_BASE)
    normalize: Boolean = about(
        "Whether a count is divided by the final count of its column or row + 10^-6, and "
        "multiplied by scale.",
        True,
        default=False,
    )
    scale: Factor | None = optional("Factor of normalized positions; 2π unless given.", 1)
    dtype: RealDType = "float32"

    @property
    def frequencies(self) -> int:
        return self.d_model // 4

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        if self.scale is not None and not self.normalize:
            raise impossible("scale", self.scale, "scale goes with normalize=true")
        masks = _masks(arrays)
        (name,) = arrays
        if self.quotients(masks) > MAX_QUOTIENTS:
            rule = (
                f"the masks have too many distinct row and column totals for d_model={self.d_model}"
            )
            raise InvalidBody(rule, f"/{name}")
        kind = next(kind for kind, known in _KINDS.items() if known == name)
        return self.describe(
            {"encoding": self.table(masks)},
            {"mask": kind} | self.canonical(),
            axes=("batch", "channel(sin|cos height + sin|cos width)", "height", "width"),
            states_axes=True,
        )

    def rates(self, lasts: tuple[int, ...]) -> Frequencies:
        """Return the frequencies per counted pixel for each of lasts, one after the other."""
        series = Geometric(self.base, self.d_model // 2, self.frequencies)
        if not self.normalize:
            return Frequencies(series)
        return Frequencies(Quotients(normalized(series, self.scale), self.scale, lasts))

    def table(self, masks: "Masks") -> "MaskedGridTable":
        """Return the table of masks (B, h, w), which needs the final counts of every image."""
        totals = masks.totals if self.normalize else [np.zeros((1, 1), dtype=np.int64)]
        lasts = (np.unique(line).tolist() for lines in totals for line in lines)
        rates = dict.fromkeys(self.rates(tuple(each)) for each in lasts)
        return MaskedGridTable(self, masks, Setups(tuple(rates)), self.element_type)

    def quotients(self, masks: "Masks") -> int:
        """Bound how many 80-digit frequencies masks (B, h, w) need."""
        if not self.normalize:
            return self.frequencies
        ends = [np.sort(totals, axis=1) for totals in masks.totals]
        changes = sum(int(np.count_nonzero(np.diff(each, axis=1))) for each in ends)
        return (changes + 2 * len(masks.elements)) * self.frequencies


@dataclass(frozen=True)
class Quotients:
    """The frequencies of a rule divided by each of some final counts, one after the other."""

    rule: FrequencyRule
    scale: float | None
    lasts: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.lasts) * self.rule.count

    @exact_series
    def exact(self) -> Iterator[Decimal]:
        frequencies = list(self.rule.exact())
        for last in self.lasts:
            unit = normalized_unit(last, self.scale)
            yield from (each * unit.numerator / unit.denominator for each in frequencies)


@dataclass(frozen=True, eq=False)
class Masks:
    """The masks of images.

    Attributes:
        elements: 0 and 1, integers of any type, (B, h, w).
        valid: the element of a valid pixel.
    """

    elements: Elements
    valid: int

    @cached_property
    def totals(self) -> list[Int64s]:
        """The numbers of valid pixels of each column, (B, w), and of each row, (B, h)."""
        ones = [self.elements.sum(axis=axis, dtype=np.int64) for axis in (1, 2)]
        lengths = self.elements.shape[1:]
        return ones if self.valid else [n - each for n, each in zip(lengths, ones, strict=True)]

    def image(self, index: int) -> NDArray[np.bool_]:
        """Return which pixels of an image are valid, (h, w)."""
        return np.asarray(self.elements[index] == self.valid)


def _masks(arrays: Mapping[str, StoredTable]) -> Masks:
    """Return the masks of the body; raises InvalidBody."""
    if len(arrays) != 1:
        raise InvalidBody("send either padding_mask or valid_mask")
    ((name, table),) = arrays.items()
    mask = table.elements
    if mask.ndim == 2:
        mask = mask[np.newaxis]
    if not mask.size or len(mask) > MAX_MASKS or mask.size > MAX_PIXELS:
        detail = f"{name} must have 1 to {MAX_PIXELS} pixels, and at most {MAX_MASKS} images"
        raise InvalidBody(detail, f"/{name}")
    if mask.min() < 0 or mask.max() > 1:
        raise InvalidBody(f"{name} must hold 0 and 1, or false and true", f"/{name}")
    return Masks(mask, 0 if name == "padding_mask" else 1)


@dataclass(frozen=True, eq=False)
class Counts:
    """The cumulative counts of valid pixels along one axis, reduced to distinct pairs.

    Attributes:
        rule: the parameters.
        pairs: the distinct (count, index into lasts) pairs that occur.
        lasts: the distinct final counts of the rows or columns; [0] without normalize.
        place: the index into pairs of each pixel, (pixels,).
    """

    rule: MaskedGridEncoding
    pairs: tuple[Int64s, Int64s]
    lasts: tuple[int, ...]
    place: NDArray[np.int32]

    @classmethod
    def steps(
        cls, rule: MaskedGridEncoding, valid: NDArray[np.bool_], axis: int
    ) -> Steps["Counts"]:
        """Count valid pixels (h, w) along an axis, in one step unless the image is large."""
        is_large = valid.size > STEP_ELEMENTS
        count = np.empty(valid.shape, dtype=np.int32)
        lines, out = (valid.T, count.T) if axis == 0 else (valid, count)
        for part in row_steps(*lines.shape):
            np.cumsum(lines[part], axis=1, out=out[part])
            if is_large:
                yield
        ends = count.take([-1], axis=axis) if rule.normalize else np.zeros((1, 1), np.int32)
        lasts, last = np.unique(ends, return_inverse=True)
        span = int(count.max()) + 1
        # Codes are at most the number of pixels and of lines together.
        first = np.broadcast_to(last.reshape(ends.shape).astype(np.int32) * span, valid.shape)
        is_there = np.zeros(len(lasts) * span, dtype=np.bool_)
        for part in row_steps(*valid.shape):
            is_there[first[part] + count[part]] = True
            if is_large:
                yield
        pairs = np.flatnonzero(is_there)
        places = np.cumsum(is_there, dtype=np.int32) - 1
        for part in row_steps(*valid.shape):
            if is_large:
                yield
            count[part] = places[first[part] + count[part]]
        return cls(rule, (pairs % span, pairs // span), tuple(lasts.tolist()), count.reshape(-1))

    def values(self, frequencies: range, pixels: range) -> Float64s:
        """Return sine and cosine, alternating, of n frequencies at some pixels: (2n, pixels)."""
        place = self.place[pixels.start : pixels.stop]
        if len(self.pairs[0]) <= len(place):
            return self._of_pairs(frequencies, *self.pairs).take(place, axis=1)
        return self._of_pairs(frequencies, self.pairs[0][place], self.pairs[1][place])

    def _of_pairs(self, frequencies: range, counts: Int64s, lasts: Int64s) -> Float64s:
        """Return sine and cosine, alternating, of n frequencies for m pairs: (2n, m)."""
        which = np.array(frequencies)[:, np.newaxis] + lasts * self.rule.frequencies
        every = np.broadcast_to(counts, which.shape).reshape(-1)
        both = sin_cos_of_each(self._rates.part(which.reshape(-1)), every)
        channels = np.stack([part.reshape(which.shape) for part in both], axis=1)
        return channels.reshape(2 * len(frequencies), len(counts))

    @cached_property
    def _rates(self) -> FixedPointFrequencies:
        return self.rule.rates(self.lasts).get()


@dataclass(frozen=True, eq=False)
class MaskedGridTable:
    """The table (B, d_model, h, w) of masks (B, h, w).

    Attributes:
        rule: the parameters.
        masks: the masks.
        setup: the frequencies for the columns and for the rows of each image.
        dtype: the element type.
    """

    rule: MaskedGridEncoding
    masks: Masks
    setup: Setups
    dtype: DType
    _counts: ByteBoundedLRU[int, Counts] = field(
        default_factory=lambda: ByteBoundedLRU(_COUNTS_BYTES), init=False, repr=False
    )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        masks, height, width = self.masks.elements.shape
        return masks, self.rule.d_model, height, width

    @property
    def element_seconds(self) -> float:
        height, width = self.shape[2:]
        return 2 * ELEMENT_SECONDS + _LINE_SECONDS / (self.rule.d_model // 2 * height * width)

    def _counts_of(self, line: int) -> Steps[Counts]:
        """Count an image down its columns, or the next ones along its rows, from the cache."""
        counts = self._counts.get(line)
        if counts is None:
            image, axis = divmod(line, 2)
            counts = yield from Counts.steps(self.rule, self.masks.image(image), axis)
            self._counts.put(line, counts, counts.place.nbytes + counts.pairs[0].nbytes * 2 + 1024)
        return counts

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.masks.elements[0].size, self.dtype, self._fill)

    def _fill(self, planes: range, pixels: range, block: Elements) -> None:
        """Fill a block with channels of consecutive images, up to half of an image at a time."""
        axis_channels, done = self.rule.d_model // 2, 0
        while done < len(planes):
            line, channel = divmod(planes.start + done, axis_channels)
            count = min(axis_channels - channel, len(planes) - done)
            pairs = range(channel // 2, (channel + count + 1) // 2)
            values = finish(line, self._counts_of(line)).values(pairs, pixels)[channel % 2 :]
            round_into(values[:count], block[done : done + count], self.dtype)
            done += count
