"""Conventions of prompts with images alone: HunYuan-VL and GLM-Image."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from service.encodings.family import InputArray, about
from service.encodings.positions.media import Media
from service.encodings.positions.multimodal import MergedGrids, Multimodal, RowBuilder
from service.encodings.positions.pieces import (
    Piece,
    PiecesTable,
    Progress,
    Row,
    constant,
    grid_piece,
)
from service.encodings.positions.segments import Prompt, Segment, TokenConvention
from service.encodings.positions.sent_arrays import IMAGE_GRIDS, IMAGES_PER_SAMPLE, VIDEO_GRIDS
from service.errors import InvalidBody
from service.grammar import Integer
from service.numerics.dtypes import Elements
from service.numerics.tables import StoredTable, Table

NumAxes = Annotated[Integer, about("Axes: the length of mrope_section.", 4, ge=3, le=4)]


class HunYuanVL(MergedGrids, name="hunyuan_vl"):
    """Images with a column of newlines, and the number of the image as an axis.

    Formula: text has its index among the unmasked tokens on all axes; an image is
        (h/merge)·(w/merge + 1) tokens with (index,) column, row and number of the image in the
        batch. Two tokens around the grid may be marked as the image; they are text.
    Source: transformers 5.23.0 ``HunYuanVLModel.get_rope_index``, run.
    Trap: the column comes before the row, and images count over all rows of the batch.
    """

    models: ClassVar[tuple[str, ...]] = ("hunyuan_vl",)
    inputs: ClassVar[tuple[InputArray, ...]] = tuple(
        each for each in MergedGrids.inputs if each is not VIDEO_GRIDS
    )
    kinds: ClassVar[tuple[str, ...]] = ("text", "pad", "image")
    has_steps: ClassVar[bool] = False
    surrounding: ClassVar[int] = 2
    marks: ClassVar[tuple[str, ...]] = ("image", "pad")
    example: ClassVar[Mapping[str, Any]] = {
        "rows": [[{"text": 2}, {"image": [1, 4, 4]}, {"text": 1}]]
    }

    num_axes: NumAxes = 4

    @property
    def axis_names(self) -> str:
        return "p,w,h,t"[-2 * self.num_axes + 1 :]

    def merged(self, segment: Segment) -> tuple[int, int, int]:
        frames, height, width = super().merged(segment)
        if frames != 1:
            raise ValueError(f"an image has t=1, not {frames}")
        return 1, height, width + 1

    def number(self, builder: RowBuilder, segment: Segment, rules: str) -> None:  # noqa: ARG002
        start, (_, height, width) = builder.next, self.merged(segment)
        axes = (
            *[Progress(start)] * (self.num_axes - 3),
            Progress(0, 1, width),
            Progress(0, width, height),
            constant(next(builder.images)),
        )
        builder.add(Piece(height * width, axes))
        builder.next = start + height * width


class GlmImage(Multimodal, name="glm_image"):
    """Images to change, and images to generate, whose ids are those of decoded tokens.

    Formula: grids are not merged; T_k = k; after an image from p on the next position is
        p + max(h, w). Masked: 1; rope_deltas 0. decode_position_ids: d = the next position; for
        each grid to generate, the last first, (d, d + y, d + x), then d += max(h, w); then one
        token d on all axes; shorter rows repeat it.
    Source: transformers 5.23.0 ``GlmImageModel.get_rope_index``, run.
    Trap: the grids to generate come last in image_grids and are decoded from the last on.
    """

    models: ClassVar[tuple[str, ...]] = ("glm_image",)
    inputs: ClassVar[tuple[InputArray, ...]] = (
        *TokenConvention.inputs,
        IMAGE_GRIDS,
        IMAGES_PER_SAMPLE,
    )
    kinds: ClassVar[tuple[str, ...]] = ("text", "pad", "image", "generate")
    marks: ClassVar[tuple[str, ...]] = ("vision_start", "vision_end")
    has_steps: ClassVar[bool] = False
    example: ClassVar[Mapping[str, Any]] = {
        "rows": [[{"text": 2}, {"image": [1, 2, 2]}, {"text": 2}, {"generate": [2, 2]}]]
    }

    def count(self, segment: Segment) -> int:
        return 0 if segment.kind == "generate" else super().count(segment)

    def check(self, prompt: Prompt, place: int) -> None:
        super().check(prompt, place)
        if place and prompt.segments[place].kind not in {"generate", "pad"}:
            before = place - 1
            while before and prompt.segments[before].kind == "pad":
                before -= 1
            if prompt.segments[before].kind == "generate":
                rule = "images to generate come last: text and images come before them"
                raise prompt.refusal(before, rule)

    def masked_id(self, rules: str, *, has_media: bool) -> int:  # noqa: ARG002
        return 1

    def number(self, builder: RowBuilder, segment: Segment, rules: str) -> None:
        if segment.kind != "generate":
            super().number(builder, segment, rules)

    def _row(self, prompt: Prompt, builder: RowBuilder, rules: str, *, has_media: bool) -> Row:
        row = super()._row(prompt, builder, rules, has_media=has_media)
        return Row(row.pieces, 0, builder.next)

    def decoded(self, prompts: Sequence[Prompt], rows: Sequence[Row]) -> dict[str, Table]:
        if not any(each.kind in {"image", "generate"} for p in prompts for each in p.segments):
            return {}
        found = []
        for prompt, row in zip(prompts, rows, strict=True):
            origin, pieces = row.following, []
            grids = [each.grid for each in prompt.segments if each.kind == "generate"]
            for grid in reversed(grids):
                pieces.append(grid_piece((origin,) * 3, grid))
                origin += max(grid)
            found.append((pieces, sum(piece.count for piece in pieces), (constant(origin),) * 3))
        most = 1 + max(count for _, count, _ in found)
        padded = [Row((*pieces, Piece(most - count, end))) for pieces, count, end in found]
        return {"decode_position_ids": PiecesTable(padded, 3)}

    def kinds_of(self, arrays: Mapping[str, StoredTable]) -> Elements:
        kinds = TokenConvention.kinds_of(self, arrays)
        if IMAGE_GRIDS.name not in arrays:
            return kinds
        name = IMAGES_PER_SAMPLE.name
        if len(kinds) > 1 and name not in arrays:
            raise InvalidBody(f"send {name}: {IMAGES_PER_SAMPLE.description}", f"/{name}")
        every, marks = self.marked(arrays, self.marks, IMAGE_GRIDS.name)
        for row, ids in zip(kinds, every, strict=True):
            (tokens,) = np.nonzero(row == 0)
            starts, ends = (tokens[ids[tokens] == mark] for mark in marks)
            for start, stop in zip(starts.tolist(), ends.tolist(), strict=False):
                row[start + 1 : stop] = 1
        return kinds

    def parts(
        self, kinds: Elements, media: Media, where: str, first: int = 0
    ) -> Iterator[tuple[Segment, int]]:
        name, grids = IMAGES_PER_SAMPLE.name, IMAGE_GRIDS.name
        before, count = media.taken[grids], len(media.lists.get(grids, ()))
        yield from super().parts(kinds, media, where, first)
        if name in media.lists:
            count = media.take(name, f"/{name}")
        if media.taken[grids] - before > count:
            raise InvalidBody(f"a row has more images than the {count} of {name}", where)
        for _ in range(before + count - media.taken[grids]):
            height, width = media.take(grids, f"/{grids}")[1:]
            yield Segment.model_construct(generate=(height, width)), len(kinds)
