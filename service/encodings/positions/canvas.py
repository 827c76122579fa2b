"""The convention of MiniCPM-V 4.7: thumbnails and slices of a picture on one canvas."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, WithJsonSchema

from service.encodings.family import InputArray
from service.encodings.positions.media import KINDS, Media
from service.encodings.positions.multimodal import Multimodal, RowBuilder
from service.encodings.positions.pieces import Piece, Progress, Ramp, constant
from service.encodings.positions.segments import Segment, TokenConvention
from service.encodings.positions.sent_arrays import IMAGE_SIZES, TOKEN_TYPES, VIDEO_SIZES
from service.errors import InvalidBody
from service.numerics.dtypes import Elements
from service.numerics.phase import Int64s
from service.numerics.tables import StoredTable

DownsampleMode = Annotated[
    Literal["16x", "4x"],
    # No enumeration: clients in Rust cannot name values that begin with digits.
    WithJsonSchema({"type": "string", "pattern": "^(16x|4x)$"}),
    Field(description="Whether 4 or 2 patches of a side are merged.", examples=["4x"]),
]
_MARKERS = ("vision_start", "vision_end", "slice_start", "slice_end", "newline")
# The characters of masked tokens and of KINDS, and of markers behind them.
_CHARACTERS = np.frombuffer(b"ptiv  <>[]n", np.uint8)
# A thumbnail, its slices row by row, and the markers behind them but that of the next picture.
_PICTURE = re.compile(
    rb"<(?:i+>(?:\[i+\](?:n?\[i+\])*)?|v+>(?:\[v+\](?:n?\[v+\])*)?)((?:[<>\[\]n](?![iv]))*)"
)


class MiniCPMV(Multimodal, name="minicpmv4_7"):
    """A frame: a thumbnail between two markers, then its slices row by row.

    Formula: a frame starts at c; its canvas (H, W) is rows·sh, columns·sw of the first slice
        (sh, sw), or the grid (a, b) of the thumbnail. All its tokens have t = c. Begin marker:
        max(c − 1, 0) on y and x; thumbnail: y = c + round(linspace(0, H − 1, a)), x likewise, in
        float32, half to even; end marker (c + H, c + W). Slice at (r, q): begin marker
        (c + r, c + q), tokens (c + r + i, c + q + j), end marker the last of them; a newline behind
        a row but the last: (c + (row + 1)·sh − 1, c + columns·sw). Markers right behind the frame
        have c. Then the next position is c + max(H, W) + 1.
    Source: transformers 5.23.0 ``MiniCPMV4_7Model.get_rope_index``, run.
    Trap: a newline right behind a picture belongs to it.
    """

    models: ClassVar[tuple[str, ...]] = ("minicpmv4_7",)
    inputs: ClassVar[tuple[InputArray, ...]] = (
        *TokenConvention.inputs,
        TOKEN_TYPES,
        IMAGE_SIZES,
        VIDEO_SIZES,
    )
    takes: ClassVar[tuple[str, ...]] = ("slices", "markers")
    marks: ClassVar[tuple[str, ...]] = (*_MARKERS, "pad")
    example: ClassVar[Mapping[str, Any]] = {
        "rows": [[{"text": 1}, {"image": [1, 8, 8], "slices": [[[4, 8], [4, 8]]]}, {"text": 1}]]
    }

    downsample_mode: DownsampleMode = "16x"

    def _size(self, size: tuple[int, ...]) -> tuple[int, int]:
        """Return the tokens of a picture on each side; raises ValueError."""
        merge = 4 if self.downsample_mode == "16x" else 2
        if size[0] % merge or size[1] % merge:
            raise ValueError(f"the size {list(size)} is not divisible by {merge}")
        return size[0] // merge, size[1] // merge

    def count(self, segment: Segment) -> int:
        if segment.kind in {"text", "pad"}:
            return super().count(segment)
        frames, *thumbnail = segment.grid
        if frames != 1:
            raise ValueError("each frame is a segment of its own, with t=1")
        slices = segment.slices or ()
        sizes = [self._size(size) for row in slices for size in row]
        height, width = self._size(tuple(thumbnail))
        newlines = max(len(slices) - 1, 0) + (segment.markers or 0)
        return 2 + height * width + sum(2 + h * w for h, w in sizes) + newlines

    def number(self, builder: RowBuilder, segment: Segment, rules: str) -> None:  # noqa: ARG002
        start = builder.next
        thumbnail, slices = self._size(segment.grid[1:]), segment.slices or ()
        sh, sw = self._size(slices[0][0]) if slices else thumbnail
        height, width = (sh * len(slices), sw * len(slices[0])) if slices else thumbnail

        def marker(y: int, x: int, count: int = 1) -> None:
            builder.add(Piece(count, (constant(start), constant(y), constant(x))))

        def picture(
            y: int, x: int, size: tuple[int, int], ramps: tuple[Ramp | None, Ramp | None]
        ) -> None:
            rows, columns = size
            axes = (
                constant(start),
                Progress(y, columns, rows, ramps[0]),
                Progress(x, 1, columns, ramps[1]),
            )
            builder.add(Piece(rows * columns, axes))

        marker(max(start - 1, 0), max(start - 1, 0))
        stretched = (_stretch(height, thumbnail[0]), _stretch(width, thumbnail[1]))
        picture(start, start, thumbnail, stretched)
        marker(start + height, start + width)
        for row, sizes in enumerate(slices):
            for column, size in enumerate(sizes):
                y, x, own = start + row * sh, start + column * sw, self._size(size)
                marker(y, x)
                picture(y, x, own, (None, None))
                marker(y + own[0] - 1, x + own[1] - 1)
            if row < len(slices) - 1:
                marker(start + (row + 1) * sh - 1, start + width)
        if segment.markers:
            marker(start, start, segment.markers)
        builder.next = start + max(height, width) + 1

    def kinds_of(self, arrays: Mapping[str, StoredTable]) -> Elements:
        if TOKEN_TYPES.name not in arrays:
            raise InvalidBody("send input_ids with token_types", f"/{TOKEN_TYPES.name}")
        ids, marks = self.marked(arrays, _MARKERS, f"convention={self.name}")
        kinds, text = super().kinds_of(arrays), 0
        for number, mark in enumerate(marks, len(KINDS)):
            kinds[(kinds == text) & (ids == mark)] = number
        return kinds

    def parts(
        self, kinds: Elements, media: Media, where: str, first: int = 0
    ) -> Iterator[tuple[Segment, int]]:
        row, plain = _CHARACTERS[kinds + 1].tobytes(), np.where(kinds < len(KINDS), kinds, 0)
        if b"p" in row.strip(b"p"):
            raise InvalidBody("masked tokens must be at the ends of a row", where)
        lone = re.search(rb"[iv]", _PICTURE.sub(lambda match: bytes(len(match[0])), row))
        if lone is not None:
            rule = "a picture is vision_start, its tokens, vision_end, and slices right behind it"
            raise InvalidBody(rule, f"{where}/{lone.start()}")
        done = 0
        for match in _PICTURE.finditer(row):
            yield from super().parts(plain[done : match.start()], media, where, first + done)
            start, done = match.span()
            here, kind = f"{where}/{start}", KINDS[plain[start + 1]]
            counts = [line.count(b"[") for line in row[start : match.start(1)].split(b"n")]
            if len(set(counts)) > 1:
                raise InvalidBody("the slices are no rows of one length", here)
            sizes = [media.take(f"{kind}_sizes", here) for _ in range(1 + sum(counts))]
            thumbnail, *slices = sizes
            fields: dict[str, Any] = {kind: (1, *thumbnail), "markers": len(match[1]) or None}
            if slices:
                ends = range(counts[0], len(sizes), counts[0])
                fields["slices"] = tuple(tuple(slices[end - counts[0] : end]) for end in ends)
            picture = Segment.model_construct(**fields)
            count = self.count_of(picture, here)
            if count != done - start:
                rule = f"the picture has {done - start} tokens, and its sizes {count}"
                raise InvalidBody(rule, here)
            yield picture, start
        yield from super().parts(plain[done:], media, where, first + done)


def _stretch(length: int, count: int) -> Ramp | None:
    """Return the rounded places of ``count`` tokens over a length; None if they are as many."""
    return None if length == count else partial(_stretched, length, count)


def _stretched(length: int, count: int, steps: Int64s) -> Int64s:
    """Return places of linspace(0, length − 1, count) in float32: each half from its own end."""
    end = np.float32(length - 1)
    step = end / np.float32(max(count - 1, 1))
    numbers = steps.astype(np.float32)
    from_end = end - step * (np.float32(count - 1) - numbers)
    places = np.where(steps < count // 2, step * numbers, from_end)
    return np.rint(places if count > 1 else np.zeros_like(numbers)).astype(np.int64)
