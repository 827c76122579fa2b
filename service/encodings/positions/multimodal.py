"""Conventions of prompts with images and videos, on the axes t, h, w (M-RoPE).

Text of n tokens from p on has p … p + n − 1 on all axes. A medium that starts at p has, in the
order t, h, w, the ids (p + T_k, p + y, p + x) of the merged grid. What follows it starts at another
position in other libraries (``rules``); the sources are transformers 5.23.0 and 4.57.6, whose
functions were run, and vLLM 0.33.0, which was read.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from service.encodings.family import InputArray, about, impossible
from service.encodings.positions.convention import NamedTables, SpatialMergeSize
from service.encodings.positions.media import MediaConvention
from service.encodings.positions.pieces import (
    Piece,
    PiecesTable,
    Progress,
    Ramp,
    Row,
    constant,
    grid_piece,
    joined,
    scalar_of,
)
from service.encodings.positions.segments import Prompt, Segment
from service.encodings.positions.sent_arrays import SECONDS_PER_GRID
from service.errors import InvalidBody
from service.grammar import Integer
from service.numerics.dtypes import INT64, DType
from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.tables import Caution, StoredTable, Table

RuleName = Literal["transformers-5", "transformers-4", "vllm"]
Rules = Annotated[
    RuleName, Field(description="Whose ids, where libraries differ.", examples=["transformers-4"])
]
TemporalMergeSize = Annotated[Integer, about("Frames of a merged one.", 2, ge=1, le=1024)]
TokensPerSecond = Annotated[Integer, about("Temporal ids of a second of video.", 2, ge=1, le=10**6)]

# Frames of the videos of a request that are compared with those of other rules.
_COMPARED_FRAMES, _FRAMES_AT_ONCE = 2**20, 2**12
# Pieces of a request, behind which no further medium is numbered.
_MAX_PIECES = 2**15


@dataclass
class RowBuilder:
    """The pieces of a row while its segments are numbered.

    Attributes:
        axes: the number of axes.
        next: the position of what comes next.
        dtype: the type of the ids.
        largest: the largest id so far.
        images: numbers the images of the batch.
        plan: the lengths of runs of text, last first, where each rounds its sums anew.
        others: the number of pieces of earlier rows.
    """

    axes: int
    next: Any = 0
    dtype: DType = INT64
    largest: Any = -1
    pieces: list[Piece] = field(default_factory=list)
    images: Iterator[int] = field(default_factory=itertools.count)
    plan: list[int] = field(default_factory=list)
    others: int = 0
    _done: int = 0

    def run(self, count: int) -> None:
        """Add tokens of text."""
        while count:
            whole = self.plan[-1] if self.plan else count
            taken = min(count, whole - self._done)
            self.add(Piece(taken, (Progress(self.next),) * self.axes, self._done))
            self._done, count = self._done + taken, count - taken
            if self._done == whole:
                self.next = self.next + scalar_of(self.dtype)(whole)
                self._done = 0
                del self.plan[-1:]

    def mask(self, count: int, value: int) -> None:
        """Add masked tokens."""
        self.pieces.append(Piece(count, (constant(value),) * self.axes, is_masked=True))

    def add(self, piece: Piece) -> Any:
        """Add a piece that does not change the next position; return its largest id."""
        self.pieces.append(piece)
        largest = piece.largest(self.dtype)
        self.largest = max(self.largest, largest)
        return largest


class Multimodal(MediaConvention):
    """Base of the conventions with media.

    Attributes:
        libraries: the rules that were run or read.
        dtype: of the ids.
        has_steps: whether the ids of decoded tokens are known for any number of them.
        has_padded_delta: whether rope_deltas of transformers 4 count masked tokens.
        has_times_by_rules: whether the times of frames depend on the rules.
    """

    arrays: ClassVar[tuple[str, ...]] = (
        "position_ids",
        "rope_deltas",
        "attention_mask",
        "decode_position_ids",
    )
    libraries: ClassVar[tuple[str, ...]] = ("transformers-5",)
    dtype: ClassVar[DType] = INT64
    has_steps: ClassVar[bool] = True
    has_padded_delta: ClassVar[bool] = True
    has_times_by_rules: ClassVar[bool] = False

    rules: Rules = "transformers-5"

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:
        if self.rules not in self.libraries:
            rule = f"convention={self.name} has the rules {'|'.join(self.libraries)}"
            raise impossible("rules", self.rules, f"{rule}: it is not known in {self.rules}")
        if self.steps is not None and not self.has_steps:
            rule = f"the ids of later tokens are not known with convention={self.name}"
            raise impossible("steps", self.steps, rule)
        prompts = self.prompts(arrays)
        if self.rules == "vllm" and any(
            each.kind == "pad" for p in prompts for each in p.padded() if self.count(each)
        ):
            rule = "vLLM has no masked tokens: send each row alone, without them"
            raise impossible("rules", self.rules, rule)
        rows = self.numbered(prompts, self.rules)
        if max(row.following for row in rows) > MAX_POSITION:
            raise InvalidBody("ids lie beyond 2^62", "/rows")
        axes = self.axis_count
        tables: dict[str, Table] = {
            "position_ids": PiecesTable(rows, axes, self.dtype, self.past_length),
            "rope_deltas": self._stored([[row.delta] for row in rows]),
            "attention_mask": PiecesTable([row.mask() for row in rows]),
        }
        tables |= self.decoded(prompts, rows)
        return NamedTables(tables, {"axes": self.axis_names}, tuple(self._cautions(prompts, rows)))

    @property
    def axis_names(self) -> str:
        """The names of the axes of the ids."""
        return "t,h,w"

    @property
    def axis_count(self) -> int:
        return self.axis_names.count(",") + 1

    def _stored(self, values: Sequence[Any]) -> StoredTable:
        return StoredTable(np.array(values, dtype=self.dtype.storage), self.dtype)

    def decoded(self, prompts: Sequence[Prompt], rows: Sequence[Row]) -> dict[str, Table]:  # noqa: ARG002
        """Return the ids of decoded tokens by name of the array, if they are requested."""
        if self.steps is None:
            return {}
        axes, steps = self.axis_count, self.steps
        runs = [Row((Piece(steps, (Progress(row.delta),) * axes, row.counted),)) for row in rows]
        return {"decode_position_ids": PiecesTable(runs, axes, self.dtype)}

    def merged(self, segment: Segment) -> tuple[int, int, int]:
        """Return the merged grid of an image or a video; raises ValueError."""
        frames, height, width = segment.grid
        merge: int = getattr(self, "spatial_merge_size", 1)
        if height % merge or width % merge:
            rule = f"grid {height},{width} is not divisible by spatial_merge_size={merge}"
            raise ValueError(f"the {segment.kind}'s {rule}")
        return frames, height // merge, width // merge

    def count(self, segment: Segment) -> int:
        if segment.kind in {"text", "pad"}:
            return super().count(segment)
        frames, height, width = self.merged(segment)
        return frames * height * width

    def numbered(self, prompts: Sequence[Prompt], rules: str) -> list[Row]:
        """Return the ids of rows by the rules of a library."""
        has_media = any(
            segment.kind in {"image", "video", "joint"}
            for prompt in prompts
            for segment in prompt.segments
        )
        images, rows, pieces = itertools.count(), [], 0
        for prompt in prompts:
            builder = self.builder(prompt)
            builder.images, builder.others = images, pieces
            rows.append(self._row(prompt, builder, rules, has_media=has_media))
            pieces += len(builder.pieces)
        return rows

    def _row(self, prompt: Prompt, builder: RowBuilder, rules: str, *, has_media: bool) -> Row:
        masked, tokens = 0, 0
        for place, segment in enumerate(prompt.padded()):
            count = self.count(segment)
            if segment.kind == "pad":
                builder.mask(count, self.masked_id(rules, has_media=has_media))
                masked += count
            elif segment.kind == "text":
                builder.run(count)
            else:
                try:
                    if len(builder.pieces) + builder.others > _MAX_PIECES:
                        rule = f"the media before it have more than {_MAX_PIECES} parts"
                        raise ValueError(f"{rule}: send it in another request")
                    self.number(builder, segment, rules)
                except ValueError as error:
                    raise prompt.refusal(place - 1, str(error)) from None
            tokens += count
        pieces = joined(builder.pieces)
        if masked == tokens:
            return Row(pieces)
        scalar = scalar_of(self.dtype)
        following = builder.largest + 1
        if masked and not has_media and self.counts_masked(rules):
            following = max(following, scalar(2))
        counted = tokens if rules == "transformers-4" and self.has_padded_delta else tokens - masked
        return Row(pieces, following - scalar(counted), following, counted)

    def builder(self, prompt: Prompt) -> RowBuilder:  # noqa: ARG002
        """Return the builder of an empty row."""
        return RowBuilder(self.axis_count, scalar_of(self.dtype)(0), self.dtype)

    def masked_id(self, rules: str, *, has_media: bool) -> int:  # noqa: ARG002
        """Return the id of masked tokens."""
        return int(rules == "transformers-4")

    def counts_masked(self, rules: str) -> bool:
        """Return whether ids of masked tokens count for the largest of a batch without media."""
        return rules == "transformers-4"

    def number(self, builder: RowBuilder, segment: Segment, rules: str) -> None:
        """Add the tokens of a medium."""
        shape, start = self.merged(segment), builder.next
        piece = grid_piece((start,) * 3, shape, self.times(segment, rules))
        largest = builder.add(piece)
        by_sides = rules == "transformers-5"
        builder.next = start + max(shape[1:]) if by_sides else largest + 1

    def times(self, segment: Segment, rules: str) -> Ramp | None:  # noqa: ARG002
        """Return the distance of the time of each frame from that of the first; None for k."""
        return None

    def _cautions(self, prompts: Sequence[Prompt], rows: Sequence[Row]) -> list[Caution]:
        """Return a warning if other rules give other ids for these prompts."""
        found, are_known = [], False
        for rules in self.libraries:
            if rules == self.rules:
                continue
            others = self.numbered(prompts, rules)
            compared = _DifferentIds(self.past_length, has_times=self.has_times_by_rules)
            for row, other in zip(rows, others, strict=True):
                compared.add(row, other)
            deltas = sum(row.delta != other.delta for row, other in zip(rows, others, strict=True))
            masked = 0 if rules == "vllm" else compared.masked
            counts = {"tokens": compared.tokens, "masked tokens": masked, "rope_deltas": deltas}
            if compared.tokens or masked:
                named = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
                found.append(f"{rules}: {'at least ' * compared.is_cut}{named}")
                are_known = True
            elif compared.is_cut:
                found.append(f"{rules}: unknown behind {_COMPARED_FRAMES} frames")
        if not found:
            return []
        verb = "differ" if are_known else "may differ"
        detail = f"ids {verb} from those of {self.rules} by the rules of {'; '.join(found)}"
        return [Caution("libraries-differ", detail)]


@dataclass
class _DifferentIds:
    """The number of tokens of rows with other ids on any axis by the rules of a library.

    Attributes:
        skipped: the number of first tokens of each row that are left out.
        has_times: whether the times of frames may differ.
        frames: how many more frames are compared.
        tokens: the number of tokens that differ.
        masked: the number of masked ones that differ.
        is_cut: whether there are frames that were not compared.
    """

    skipped: int
    has_times: bool
    frames: int = _COMPARED_FRAMES
    tokens: int = 0
    masked: int = 0
    is_cut: bool = False

    def add(self, row: Row, other: Row) -> None:
        """Compare two rows of the same pieces."""
        for one, another, end in zip(row.pieces, other.pieces, row.ends, strict=True):
            start = max(self.skipped - (end - one.count), 0)
            if start < one.count:
                count = self._count(one, another, start)
                self.masked += count * one.is_masked
                self.tokens += count * (not one.is_masked)

    def _count(self, one: Piece, other: Piece, start: int) -> int:
        """Return how many tokens of a piece differ, from one of them on."""
        if [axis.origin for axis in one.axes] != [axis.origin for axis in other.axes]:
            return one.count - start
        time, others = pair = one.axes[0], other.axes[0]
        if not self.has_times or time.ramp is others.ramp:
            return 0
        first, length = start // time.every, time.length or 1
        stop = min(length, first + self.frames)
        self.frames -= stop - first
        self.is_cut |= stop < length
        different = 0
        for at in range(first, stop, _FRAMES_AT_ONCE):
            frames = np.arange(at, min(at + _FRAMES_AT_ONCE, stop))
            mine, theirs = (frames if axis.ramp is None else axis.ramp(frames) for axis in pair)
            different += int(np.count_nonzero(mine != theirs)) * time.every
            if at == first and mine[0] != theirs[0]:
                different -= start % time.every
        return different


_TRANSFORMERS = ("transformers-5", "transformers-4")
_EXAMPLE = [[{"text": 2}, {"image": [1, 4, 6]}, {"text": 2}], [{"text": 6}]]


class MergedGrids(Multimodal):
    """Base of the conventions whose patches are merged."""

    spatial_merge_size: SpatialMergeSize = 2


class Qwen2VL(MergedGrids, name="qwen2_vl"):
    """Images and videos on a grid of frames, rows and columns.

    Formula: T_k = k; after a medium from p on the next position is p + max(h, w) of the merged grid
        (transformers 5, whatever t), or the largest id of the medium + 1 (transformers 4, vLLM).
    Source: transformers 5.23.0 and 4.57.6 ``Qwen2VLModel.get_rope_index``, run; vLLM 0.33.0, read.
    Trap: in transformers 5 text behind a long video has ids inside those of the video.
    """

    models: ClassVar[tuple[str, ...]] = ("qwen2_vl", "paddleocr_vl")
    libraries: ClassVar[tuple[str, ...]] = (*_TRANSFORMERS, "vllm")
    example: ClassVar[Mapping[str, Any]] = {"padding_side": "left", "rows": _EXAMPLE}


class Keye(Qwen2VL, name="keye"):
    """The grid of Qwen2-VL, by the rules of vLLM.

    Formula: that of qwen2_vl with rules=vllm.
    Source: vLLM 0.33.0 Keye, read; transformers has no Keye.
    Trap: ids of transformers' rules differ behind videos.
    """

    models: ClassVar[tuple[str, ...]] = ("Keye",)
    libraries: ClassVar[tuple[str, ...]] = ("vllm",)
    example: ClassVar[Mapping[str, Any]] = {"rows": _EXAMPLE[:1]}

    rules: Rules = "vllm"


class Qwen2x5VL(Qwen2VL, name="qwen2_5_vl"):
    """A grid whose frames are as far apart as their times.

    Formula: images T_k = k (transformers 4 and vLLM: 0); videos, with s = seconds_per_grid (1 if
        none) and r = tokens_per_second: transformers 5 trunc(fl32(k·fl32(r·s))), transformers 4
        k·trunc(s)·r, vLLM trunc(k·(fl32(s)·r)) in float64. The next position is that of qwen2_vl.
    Source: transformers 5.23.0 and 4.57.6 ``Qwen2_5_VLModel.get_rope_index``, run; vLLM 0.33.0,
        read.
    Trap: transformers 4 truncates the seconds: 0.5 s a frame become 0.
    """

    models: ClassVar[tuple[str, ...]] = ("qwen2_5_vl",)
    takes: ClassVar[tuple[str, ...]] = ("seconds_per_grid",)
    has_times_by_rules: ClassVar[bool] = True
    inputs: ClassVar[tuple[InputArray, ...]] = (*Qwen2VL.inputs, SECONDS_PER_GRID)
    example: ClassVar[Mapping[str, Any]] = {
        "rows": [[{"text": 1}, {"video": [3, 4, 4], "seconds_per_grid": 1.5}, {"text": 2}]]
    }

    tokens_per_second: TokensPerSecond = 2

    def times(self, segment: Segment, rules: str) -> Ramp | None:
        rate = self.tokens_per_second
        if segment.video is None:
            return None if rules == "transformers-5" else flat_ramp
        seconds = np.float32(1.0 if segment.seconds_per_grid is None else segment.seconds_per_grid)
        if rules == "transformers-5":
            return checked_times(partial(times_in, np.float32(rate) * seconds), segment)
        if rules == "transformers-4":
            return checked_times(partial(np.multiply, int(seconds) * rate), segment)
        return checked_times(partial(times_in, np.float64(seconds) * rate), segment)


def flat_ramp(frames: Int64s) -> Int64s:
    """Return the time 0 of each frame."""
    return np.zeros_like(frames)


def times_in(interval: Any, frames: Int64s) -> Int64s:
    """Return the truncated products of frames and an interval, in the type of the interval."""
    return np.asarray(frames.astype(interval.dtype) * interval).astype(np.int64)


def checked_times(times: Ramp, segment: Segment) -> Ramp:
    """Return the times of a video; raises ValueError if an id would lie beyond 2^62."""
    frames = segment.grid[0]
    seconds = 1.0 if segment.seconds_per_grid is None else segment.seconds_per_grid
    if frames * seconds * 1e6 > MAX_POSITION:
        raise ValueError("the video's times lie beyond the range of ids")
    return times


class Qwen3VL(MergedGrids, name="qwen3_vl"):
    """Videos as images, each after the text of its time.

    Formula: a video of t frames is t images of t = 1, frame k after timestamps[k] tokens of text;
        all else is that of qwen2_vl.
    Source: transformers 5.23.0 ``Qwen3VLModel.get_rope_index``, and the same function of its other
        models, run; transformers 4.57.6 Qwen3-VL and GLM-4V, run; vLLM 0.33.0, read.
    Trap: rope_deltas of transformers 4 count masked tokens.
    """

    models: ClassVar[tuple[str, ...]] = (
        "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen4_exp", "glm4v", "glm4v_moe",
        "glm46v", "glm_ocr", "cohere_compass", "cosmos3_omni", "cosmos3_edge",
    )  # fmt: skip
    libraries: ClassVar[tuple[str, ...]] = (*_TRANSFORMERS, "vllm")
    takes: ClassVar[tuple[str, ...]] = ("timestamps",)
    frames_apart: ClassVar[bool] = True
    example: ClassVar[Mapping[str, Any]] = {
        "rows": [[{"text": 3}, {"video": [2, 4, 4], "timestamps": [4, 5]}, {"text": 2}]]
    }

    def count(self, segment: Segment) -> int:
        return super().count(segment) + sum(self._texts(segment))

    def _texts(self, segment: Segment) -> tuple[int, ...]:
        """Return the text tokens before each frame of a video; raises ValueError."""
        if segment.video is None or (segment.timestamps is None and segment.video[0] == 1):
            return ()
        frames, texts = segment.video[0], segment.timestamps
        if texts is None:
            raise ValueError(
                f"the video needs timestamps: the text tokens before each of its {frames} frames"
            )
        if len(texts) != frames:
            raise ValueError(f"timestamps has {len(texts)} numbers, and the video {frames} frames")
        return texts

    def number(self, builder: RowBuilder, segment: Segment, rules: str) -> None:
        for count in self._texts(segment) or (0,):
            builder.run(count)
            frame = (
                segment.model_copy(update={segment.kind: (1, *segment.grid[1:])})
                if segment.video
                else segment
            )
            super().number(builder, frame, rules)


class Ernie(MergedGrids, name="ernie4_5_vl"):
    """A grid whose videos have merged frames.

    Formula: a video has t/temporal_merge_size frames, T_k = k; all else is that of qwen2_vl.
    Source: transformers 5.23.0 ``Ernie4_5_VLMoeModel.get_rope_index``, run.
    Trap: images are not merged along time.
    """

    models: ClassVar[tuple[str, ...]] = ("ernie4_5_vl_moe",)
    example: ClassVar[Mapping[str, Any]] = {"rows": [[{"text": 2}, {"video": [4, 4, 6]}]]}

    temporal_merge_size: TemporalMergeSize = 2

    def merged(self, segment: Segment) -> tuple[int, int, int]:
        frames, height, width = super().merged(segment)
        merge = self.temporal_merge_size
        if segment.video is None:
            return frames, height, width
        if frames % merge:
            raise ValueError(f"{frames} frames are not divisible by temporal_merge_size={merge}")
        return frames // merge, height, width
