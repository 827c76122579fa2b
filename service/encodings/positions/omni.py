"""Conventions of prompts with audio: Qwen Omni, whose videos may be woven with their audio.

The sources are transformers 5.23.0 and 4.57.6, whose functions are the same and were run. What
follows a medium starts at the largest id of its last piece + 1.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from service.encodings.family import InputArray, about, impossible
from service.encodings.positions.media import KINDS
from service.encodings.positions.multimodal import MergedGrids, RowBuilder, TokensPerSecond
from service.encodings.positions.pieces import Piece, Ramp, constant, grid_piece, one_run, scalar_of
from service.encodings.positions.segments import MAX_SEGMENTS, Prompt, Segment
from service.encodings.positions.sent_arrays import AUDIO_LENGTHS, SECONDS_PER_GRID
from service.errors import InvalidBody
from service.grammar import Boolean, Integer
from service.numerics.dtypes import FLOAT32, DType, Elements
from service.numerics.phase import Int64s
from service.numerics.tables import StoredTable

AudioInVideo = Annotated[
    Boolean,
    about("Of arrays: whether the tokens of a video are woven with those of its audio.", True),
]
SecondsPerChunk = Annotated[Integer, about("Seconds of a chunk.", 2, ge=1, le=10**6)]

_MARKERS = ("vision_start", "audio_start", "audio_end", "vision_end")
# The most tokens of the audio of the videos of a request.
_MAX_WOVEN = 2**20


class Omni(MergedGrids):
    """Base of the conventions with audio."""

    inputs: ClassVar[tuple[InputArray, ...]] = (
        *MergedGrids.inputs,
        SECONDS_PER_GRID,
        AUDIO_LENGTHS,
    )
    kinds: ClassVar[tuple[str, ...]] = ("text", "pad", "image", "video", "audio", "joint")
    takes: ClassVar[tuple[str, ...]] = ("seconds_per_grid",)
    marks: ClassVar[tuple[str, ...]] = ("image", "video", "audio", *_MARKERS, "pad")
    libraries: ClassVar[tuple[str, ...]] = ("transformers-5", "transformers-4")
    has_padded_delta: ClassVar[bool] = False

    tokens_per_second: TokensPerSecond = 25
    use_audio_in_video: AudioInVideo | None = None

    def audio_tokens(self, frames: int) -> int:
        """Return the number of tokens of feature frames of audio."""
        raise NotImplementedError

    def count(self, segment: Segment) -> int:
        audio = self.audio_tokens(segment.audio) if segment.audio is not None else 0
        if segment.audio is not None and audio < 1:
            raise ValueError(f"audio of {segment.audio} frames has no tokens")
        if segment.kind == "audio":
            return audio
        return super().count(segment) + (audio + len(_MARKERS) if audio else 0)

    def counts_masked(self, rules: str) -> bool:  # noqa: ARG002
        return True

    def prompts(self, arrays: Mapping[str, StoredTable]) -> list[Prompt]:
        if self.rows is not None and self.use_audio_in_video is not None:
            rule = "rows say it themselves: a video has audio"
            raise impossible("use_audio_in_video", self.use_audio_in_video, rule)
        prompts = super().prompts(arrays)
        where = "/rows" if self.rows is not None else "/input_ids"
        segments = [segment for prompt in prompts for segment in prompt.segments]
        if {"video", "joint"} <= {segment.kind for segment in segments}:
            rule = "either all videos of a batch are woven with their audio, or none"
            raise InvalidBody(rule, where)
        woven = [segment for segment in segments if segment.kind == "joint"]
        frames = sum(segment.grid[0] for segment in woven)
        audio = sum(self.audio_tokens(segment.audio or 0) for segment in woven)
        if frames > MAX_SEGMENTS or audio > _MAX_WOVEN:
            rule = f"at most {MAX_SEGMENTS} frames are woven with {_MAX_WOVEN} audio tokens"
            raise InvalidBody(f"{rule} in a request, and these are {frames} with {audio}", where)
        return prompts

    def kinds_of(self, arrays: Mapping[str, StoredTable]) -> Elements:
        kinds = super().kinds_of(arrays)
        if not self.use_audio_in_video:
            return kinds
        ids, (first, second, third, last) = self.marked(arrays, _MARKERS, "use_audio_in_video")
        for number, row in enumerate(ids):
            starts = np.flatnonzero((row[:-1] == first) & (row[1:] == second))
            ends = np.flatnonzero((row[:-1] == third) & (row[1:] == last)) + 2
            if len(starts) != len(ends) or (starts >= ends).any() or (starts[1:] < ends[:-1]).any():
                rule = "vision_start, audio_start do not pair with audio_end, vision_end"
                raise InvalidBody(rule, f"/input_ids/{number}")
            for start, stop in zip(starts.tolist(), ends.tolist(), strict=True):
                if (kinds[number, start + 2 : stop - 2] < 2).any():
                    rule = "a video with its audio must have no other tokens inside"
                    raise InvalidBody(rule, f"/input_ids/{number}/{start}")
                kinds[number, start:stop] = KINDS.index("joint")
        return kinds

    def number(self, builder: RowBuilder, segment: Segment, rules: str) -> None:  # noqa: ARG002
        start = builder.next
        if segment.kind == "joint":
            self.weave(builder, segment)
            return
        piece = one_run(self.count(segment), start, 3)
        if segment.kind != "audio":
            piece = grid_piece((start,) * 3, self.merged(segment), self._omni_times(segment))
        builder.next = builder.add(piece) + 1

    def _omni_times(self, segment: Segment) -> Ramp:
        """Return the times of frames: fl32(fl32(k·s)·rate), truncated where ids are integers."""
        rate = self.tokens_per_second
        if segment.video is None:
            return lambda frames: frames * rate
        if segment.seconds_per_grid is None:
            raise ValueError("the video needs seconds_per_grid")
        seconds = np.float32(segment.seconds_per_grid)
        if float(seconds) * segment.video[0] * rate > 2.0**62:
            raise ValueError("the video's times lie beyond the range of ids")

        def times(frames: Int64s) -> Any:
            product = frames.astype(np.float32) * seconds * np.float32(rate)
            return product if self.dtype is FLOAT32 else product.astype(np.int64)

        return times

    def weave(self, builder: RowBuilder, segment: Segment) -> None:
        """Add a video with its audio, and the tokens around them."""
        raise NotImplementedError

    def _video_and_audio(self, segment: Segment, start: Any) -> tuple[Piece, Piece, Int64s]:
        """Return the pieces of a video and of its audio, and the times of the frames."""
        shape, times = self.merged(segment), self._omni_times(segment)
        audio = one_run(self.audio_tokens(segment.audio or 0), start, 3)
        return grid_piece((start,) * 3, shape, times), audio, times(np.arange(shape[0]))


class Qwen2x5Omni(Omni, name="qwen2_5_omni"):
    """Images, videos, audio, and videos woven with their audio chunk by chunk.

    Formula: images T_k = k·r, r = tokens_per_second; videos T_k = trunc(fl32(fl32(k·s)·r)), s =
        seconds_per_grid; audio of L frames is text of ((L−1)//2+1−2)//2+1 tokens. A video with its
        audio, from m on: two tokens m; both media from m+1 on, cut before the first token whose
        time is c·r·seconds_per_chunk or later, c = 1, 2, …, in turn, video first; two tokens with
        the largest id of the last chunk + 1. Masked: 1.
    Source: transformers 5.23.0 and 4.57.6 ``Qwen2_5Omni…ForConditionalGeneration.get_rope_index``,
        run.
    Trap: without images and videos a masked id counts for rope_deltas.
    """

    models: ClassVar[tuple[str, ...]] = ("qwen2_5_omni", "qwen2_5_omni_thinker")
    example: ClassVar[Mapping[str, Any]] = {
        "rows": [[{"text": 3}, {"video": [2, 4, 4], "seconds_per_grid": 0.5}, {"text": 2}]]
    }

    seconds_per_chunk: SecondsPerChunk = 2

    def audio_tokens(self, frames: int) -> int:
        return ((frames - 1) // 2 + 1 - 2) // 2 + 1

    def masked_id(self, rules: str, *, has_media: bool) -> int:  # noqa: ARG002
        return 1

    def weave(self, builder: RowBuilder, segment: Segment) -> None:
        start = builder.next
        video, audio, times = self._video_and_audio(segment, start + 1)
        per = self.tokens_per_second * self.seconds_per_chunk
        builder.add(Piece(2, (constant(start),) * 3))
        pieces = (video, audio)
        cuts = [_cuts(video.count, per, times), _cuts(audio.count, per)]
        for number in range(max(map(len, cuts)) - 1):
            for piece, edges in zip(pieces, cuts, strict=True):
                if number + 1 < len(edges):
                    largest = builder.add(piece.part(edges[number], edges[number + 1]))
        end = largest + 1
        builder.add(Piece(2, (constant(end),) * 3))
        builder.next = end + 1


def _cuts(tokens: int, per: int, times: Int64s | None = None) -> list[int]:
    """Return where tokens are cut: before the first of time c·per or later, c from 1 on.

    Args:
        tokens: how many there are.
        per: the time of a chunk.
        times: those of frames, each of as many tokens; the number of the token if None.
    """
    cuts = [0]
    while len(cuts) <= MAX_SEGMENTS:
        due = len(cuts) * per
        if times is not None:
            due = int(np.searchsorted(times, due)) * (tokens // len(times))
        following = max(cuts[-1] + 1, due) if len(cuts) > 1 else due
        if following >= tokens:
            return [*cuts, tokens]
        cuts.append(following)
    raise ValueError(f"the video and its audio have more than {MAX_SEGMENTS} chunks")


class Qwen3Omni(Omni, name="qwen3_omni"):
    """Images, videos, audio, and videos woven with their audio token by token; ids are float32.

    Formula: images T_k = k·r, r = tokens_per_second; videos T_k = fl32(fl32(k·s)·r), not
        truncated, so that later text has fractional ids; audio of L frames, f = (L mod 100 −
        1)//2+1, is text of ((f−1)//2+1−1)//2+1 + 13·(L//100) tokens. A video with its audio, from m
        on: tokens m, m+1; both media from m+2 on, merged by time, video first of equal ones; two
        tokens with the largest id of the last piece + 1, + 2. Masked: 0, or 1 without images and
        videos.
    Source: transformers 5.23.0 and 4.57.6 ``Qwen3OmniMoe…get_rope_index``, run; it needs a mask.
    Trap: float32 has no odd ids beyond 2^24.
    """

    models: ClassVar[tuple[str, ...]] = ("qwen3_omni_moe", "qwen3_omni_moe_thinker")
    dtype: ClassVar[DType] = FLOAT32
    example: ClassVar[Mapping[str, Any]] = {
        "rows": [[{"text": 2}, {"video": [2, 4, 4], "seconds_per_grid": 0.75}, {"text": 2}]]
    }

    tokens_per_second: TokensPerSecond = 13

    def audio_tokens(self, frames: int) -> int:
        features = (frames % 100 - 1) // 2 + 1
        return ((features - 1) // 2 + 1 - 1) // 2 + 1 + frames // 100 * 13

    def masked_id(self, rules: str, *, has_media: bool) -> int:  # noqa: ARG002
        return int(not has_media)

    def builder(self, prompt: Prompt) -> RowBuilder:
        """Return the builder of an empty row.

        The token after a medium, and the one before it, are runs of their own in transformers.
        """
        builder, tokens, after = super().builder(prompt), 0, False
        plan: list[int] = []
        for segment in (*prompt.segments, None):
            if segment is not None and segment.kind in {"text", "pad"}:
                tokens += segment.text or 0
                continue
            before = segment is not None and segment.kind != "joint"
            head = int(after and tokens > 0)
            tail = int(before and tokens > head)
            plan += [count for count in (head, tokens - head - tail, tail) if count]
            tokens, after = 0, before
        builder.plan = plan[::-1]
        return builder

    def weave(self, builder: RowBuilder, segment: Segment) -> None:
        begin = one_run(2, builder.next, 3)
        builder.add(begin)
        start = builder.next + scalar_of(self.dtype)(2)
        video, audio, times = self._video_and_audio(segment, start)
        ids = np.arange(audio.count).astype(np.float32) + start
        before = np.searchsorted(ids, times.astype(np.float32) + start).tolist()
        frame, done = video.count // len(times), 0
        for number, stop in enumerate(before):
            if stop > done:
                builder.add(audio.part(done, stop))
                done = stop
            is_rest = done == audio.count
            end_of_video = video.count if is_rest else (number + 1) * frame
            largest = builder.add(video.part(number * frame, end_of_video))
            if is_rest:
                break
        else:
            largest = builder.add(audio.part(done, audio.count))
        end = one_run(2, largest + 1, 3)
        builder.next = builder.add(end) + 1
