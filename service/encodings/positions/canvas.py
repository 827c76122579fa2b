"""The convention of MiniCPM-V 4.7: thumbnails and slices of a picture on one canvas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, WithJsonSchema

from service.encodings.family import InputArray, impossible
from service.encodings.positions.multimodal import Multimodal, RowBuilder
from service.encodings.positions.pieces import Curve, Piece, Progress, constant
from service.encodings.positions.segments import (
    TOKEN_TYPES,
    Prompt,
    Segment,
    TokenConvention,
    check_changes,
    check_each,
    integers_of,
    plain_segment,
    runs_of,
)
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
_SIZES = tuple(
    InputArray(
        f"{kind}_sizes",
        f"patches h, w of each thumbnail and slice of {kind}s, in order, (n, 2)",
        (2,),
        [[8, 8]],
        is_integer=True,
        is_required=False,
        aliases=(alias,),
    )
    for kind, alias in (("image", "target_sizes"), ("video", "target_sizes_videos"))
)
_MARKERS = ("vision_start", "vision_end", "slice_start", "slice_end", "newline")


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
    inputs: ClassVar[tuple[InputArray, ...]] = (*TokenConvention.inputs, TOKEN_TYPES, *_SIZES)
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

    def number(self, numbering: RowBuilder, segment: Segment, rules: str) -> None:  # noqa: ARG002
        start = numbering.next
        thumbnail, slices = self._size(segment.grid[1:]), segment.slices or ()
        sh, sw = self._size(slices[0][0]) if slices else thumbnail
        height, width = (sh * len(slices), sw * len(slices[0])) if slices else thumbnail

        def marker(y: int, x: int, count: int = 1) -> None:
            numbering.add(Piece(count, (constant(start), constant(y), constant(x))))

        def picture(
            y: int, x: int, size: tuple[int, int], curves: tuple[Curve | None, Curve | None]
        ) -> None:
            rows, columns = size
            axes = (
                constant(start),
                Progress(y, columns, rows, curves[0]),
                Progress(x, 1, columns, curves[1]),
            )
            numbering.add(Piece(rows * columns, axes))

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
        numbering.next = start + max(height, width) + 1

    def found(self, arrays: Mapping[str, StoredTable]) -> list[Prompt]:
        if TOKEN_TYPES.name not in arrays or "input_ids" not in arrays:
            raise InvalidBody("send input_ids with token_types", f"/{TOKEN_TYPES.name}")
        marks = [
            token for name in _MARKERS if (token := getattr(self.tokens, name, None)) is not None
        ]
        if len(marks) < len(_MARKERS):
            rule = f"tokens needs {', '.join(_MARKERS)}"
            raise impossible("tokens", self.tokens and str(self.tokens), rule)
        sizes: dict[int, list[Any]] = {1: [], 2: []}
        for kind, array in enumerate(_SIZES, 1):
            if array.name in arrays:
                values = integers_of(arrays[array.name])
                if values.shape[1] != 2:
                    raise InvalidBody(f"{array.name} must have rows of h, w", f"/{array.name}")
                check_each((values >= 1) & (values <= 2**31), values, array.name, "is out of range")
                sizes[kind] = values.tolist()[::-1]
        kinds, ids = self.kinds_of(arrays), integers_of(arrays["input_ids"])
        check_changes(kinds)
        prompts = [
            self._frames(_Tokens(number, *row, marks), sizes)
            for number, row in enumerate(zip(ids, kinds, strict=True))
        ]
        for kind, array in enumerate(_SIZES, 1):
            if sizes[kind]:
                raise InvalidBody(f"{array.name} has {len(sizes[kind])} too many", f"/{array.name}")
        return prompts

    def _frames(self, tokens: "_Tokens", sizes: dict[int, list[Any]]) -> Prompt:
        """Return the segments of a row; raises InvalidBody."""
        segments: list[Segment] = []
        starts: list[int] = []

        def add(segment: Segment, start: int) -> None:
            segments.append(segment)
            starts.append(start)

        position, crops = 0, tokens.crops()
        while crops:
            kind, start, end = crops.pop()
            begin = start - 1
            rows, end = tokens.slices(kind, start, end, crops)
            taken = 1 + sum(map(len, rows))
            if len(sizes[kind]) < taken:
                raise tokens.refusal(begin, f"{_SIZES[kind - 1].name} has too few items")
            found = [tuple(sizes[kind].pop()) for _ in range(taken)]
            if len({len(row) for row in rows}) > 1:
                raise tokens.refusal(begin, "the slices are no rows of one length")
            following = crops[-1][1] - 1 if crops else None
            markers = tokens.count_markers(end, following)
            slices = (
                tuple(tuple(found[place] for place in row) for row in rows) if rows[0] else None
            )
            grid = (1, *found[0])
            frame = Segment.model_construct(
                image=grid if kind == 1 else None,
                video=grid if kind > 1 else None,
                slices=slices,
                markers=markers or None,
            )
            for other, first, last in runs_of(tokens.kinds[position:begin]):
                add(plain_segment(other, last - first), position + first)
            add(frame, begin)
            try:
                count = self.count(frame)
            except ValueError as error:
                raise tokens.refusal(begin, str(error)) from None
            if count != end + markers - begin:
                rule = f"the picture has {end + markers - begin} tokens, and its sizes {count}"
                raise tokens.refusal(begin, rule)
            position = end + markers
        for other, first, last in runs_of(tokens.kinds[position:]):
            add(plain_segment(other, last - first), position + first)
        return Prompt(segments, lambda place: f"/input_ids/{tokens.number}/{starts[place]}")


@dataclass(frozen=True)
class _Tokens:
    """The tokens of a row, the kind of each, and the ids of markers in the order of _MARKERS."""

    number: int
    ids: Int64s
    kinds: Elements
    marks: Sequence[int]

    def crops(self) -> list[tuple[int, int, int]]:
        """Return kind, start and end of each picture, the last first; raises InvalidBody."""
        (shown,) = np.nonzero(self.kinds >= 0)
        if len(shown) and shown[-1] - shown[0] + 1 != len(shown):
            raise self.refusal(int(shown[0]), "masked tokens must be at the ends of a row")
        return [each for each in runs_of(self.kinds) if each[0] > 0][::-1]

    def refusal(self, place: int, rule: str) -> InvalidBody:
        """Return the error of a token."""
        return InvalidBody(rule, f"/input_ids/{self.number}/{place}")

    def has(self, place: int, marker: str) -> bool:
        """Return whether a place has a marker."""
        mark = self.marks[_MARKERS.index(marker)]
        is_text = 0 <= place < len(self.ids) and self.kinds[place] == 0
        return bool(is_text and self.ids[place] == mark)

    def need(self, place: int, marker: str) -> None:
        """Raise InvalidBody unless a place has a marker."""
        if not self.has(place, marker):
            raise self.refusal(max(place, 0), f"a picture needs {marker} here")

    def slices(
        self, kind: int, start: int, end: int, crops: list[tuple[int, int, int]]
    ) -> tuple[list[list[int]], int]:
        """Return the numbers of a picture's slices by row, and its end; takes their crops.

        Args:
            kind: that of its tokens.
            start: the first token of its thumbnail.
            end: the end of its thumbnail.
            crops: those behind it, the last first.
        """
        self.need(start - 1, "vision_start")
        self.need(end, "vision_end")
        rows: list[list[int]] = [[]]
        end, number = end + 1, 1
        while crops and crops[-1][0] == kind and self.has(crops[-1][1] - 1, "slice_start"):
            _, start, stop = crops.pop()
            if rows[-1] and start - 1 == end + 1:
                self.need(end, "newline")
                rows.append([])
            elif start - 1 != end:
                raise self.refusal(end, "a slice must follow what is before it")
            self.need(stop, "slice_end")
            rows[-1].append(number)
            end, number = stop + 1, number + 1
        return rows, end

    def count_markers(self, place: int, following: int | None) -> int:
        """Return how many markers stand from a place on, before that of the following picture."""
        stop = place
        while stop != following and any(self.has(stop, marker) for marker in _MARKERS):
            stop += 1
        return stop - place


def _stretch(length: int, count: int) -> Curve | None:
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
