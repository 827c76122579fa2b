"""Media in arrays of tokens: which tokens are images, videos and audio, and with which grids."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from service.encodings.family import InputArray, impossible
from service.encodings.positions.segments import (
    ATTENTION_MASK,
    INPUT_IDS,
    MAX_SECONDS,
    MAX_SEGMENTS,
    TOKEN_TYPES,
    Prompt,
    Segment,
    TokenConvention,
    Tokens,
    check_changes,
    check_each,
    integers_of,
    plain_segment,
    reals_of,
    runs_of,
)
from service.errors import InvalidBody
from service.numerics.dtypes import Elements
from service.numerics.phase import Int64s
from service.numerics.tables import StoredTable

_KINDS = ("text", "image", "video", "audio", "joint")


def _grids(kind: str) -> InputArray:
    return InputArray(
        f"{kind}_grids",
        f"patches t, h, w of each {kind} of the batch, in order, ({kind}s, 3)",
        (2,),
        [[1, 4, 6]],
        is_integer=True,
        is_required=False,
        aliases=(f"{kind}_grid_thw",),
    )


GRIDS = (_grids("image"), _grids("video"))
SECONDS_PER_GRID = InputArray(
    "seconds_per_grid",
    "seconds between the frames of each video, (videos,)",
    (1,),
    [1.0],
    is_required=False,
    aliases=("second_per_grid_ts", "second_per_grids"),
)


AUDIO_LENGTHS = InputArray(
    "audio_lengths",
    "feature frames of each audio, (audios,)",
    (1,),
    [130],
    is_integer=True,
    is_required=False,
    aliases=("audio_seqlens", "audio_feature_lengths"),
)


class Media:
    """The grids of raw requests, taken in the order of the media in the batch."""

    def __init__(self, arrays: Mapping[str, StoredTable], *, frames_apart: bool) -> None:
        self.lists: dict[str, list[Any]] = {}
        self.taken: Counter[str] = Counter()
        # Where the frames of each video end that is taken frame by frame.
        self.ends: list[int] | None = None
        for array in GRIDS:
            if array.name in arrays:
                grids = integers_of(arrays[array.name])
                if grids.shape[1] != 3:
                    rule = (
                        f"{array.name} must have rows of t, h, w, not of {grids.shape[1]} numbers"
                    )
                    raise InvalidBody(rule, f"/{array.name}")
                check_each((grids >= 1) & (grids <= 2**31), grids, array.name, "must be 1 to 2^31")
                if frames_apart and array is GRIDS[1]:
                    if grids[:, 0].sum() > MAX_SEGMENTS:
                        rule = f"{array.name} has more than {MAX_SEGMENTS} frames"
                        raise InvalidBody(rule, f"/{array.name}")
                    self.ends = np.cumsum(grids[:, 0]).tolist()
                    grids = np.repeat(grids, grids[:, 0], axis=0)
                    grids[:, 0] = 1
                self.lists[array.name] = [tuple(grid) for grid in grids.tolist()]
        name = SECONDS_PER_GRID.name
        if name in arrays:
            self.lists[name] = reals_of(arrays[name], name, MAX_SECONDS)

        name = AUDIO_LENGTHS.name
        if name in arrays:
            lengths = integers_of(arrays[name])
            check_each((lengths >= 1) & (lengths <= 2**40), lengths, name, "must be 1 to 2^40")
            self.lists[name] = lengths.tolist()

    def take(self, name: str, where: str) -> Any:
        """Return the next item of an array; raises InvalidBody if there is none."""
        number = self.taken[name]
        items = self.lists.get(name, [])
        if number >= len(items):
            raise InvalidBody(f"the tokens need more than {self._all(name)}", where)
        self.taken[name] += 1
        return items[number]

    def take_segment(self, kind: str, where: str) -> Segment:
        """Return the next image, video or audio; raises InvalidBody if there is none."""
        if kind == "audio":
            return Segment.model_construct(audio=self.take(AUDIO_LENGTHS.name, where))
        seconds: dict[str, Any] = {}
        if kind == "joint":
            seconds["audio"], kind = self.take(AUDIO_LENGTHS.name, where), "video"
        if kind == "video" and SECONDS_PER_GRID.name in self.lists:
            seconds["seconds_per_grid"] = self.take(SECONDS_PER_GRID.name, where)
        return Segment.model_construct(**{kind: self.take(f"{kind}_grids", where)}, **seconds)

    def _all(self, name: str) -> str:
        """Return how many items an array has."""
        frames = "frames of " if self.ends and name == GRIDS[1].name else ""
        return f"the {len(self.lists.get(name, ()))} {frames}{name}"

    def check_taken(self) -> None:
        """Raise InvalidBody if an array has more items than the tokens need."""
        for name, items in self.lists.items():
            taken = self.taken[name]
            if taken < len(items):
                rule = f"the tokens need {taken} of {self._all(name)}"
                is_apart = self.ends is not None and name == GRIDS[1].name
                place = bisect_right(self.ends or (), taken) if is_apart else taken
                raise InvalidBody(rule, f"/{name}/{place}")


class MediaConvention(TokenConvention):
    """Base of the conventions whose prompts have media.

    Attributes:
        frames_apart: whether the frames of a video are as many images, with text between them.
        surrounding: the tokens around a medium that may be marked as it, and are text.
        marks: the tokens whose ids it reads.
    """

    inputs: ClassVar[tuple[InputArray, ...]] = (*TokenConvention.inputs, TOKEN_TYPES, *GRIDS)
    kinds: ClassVar[tuple[str, ...]] = ("text", "pad", "image", "video")
    frames_apart: ClassVar[bool] = False
    surrounding: ClassVar[int] = 0
    marks: ClassVar[tuple[str, ...]] = ("image", "video", "pad")

    tokens: Tokens | None = None

    def prompts(self, arrays: Mapping[str, StoredTable]) -> list[Prompt]:
        self._check_tokens(arrays)
        return super().prompts(arrays)

    def _check_tokens(self, arrays: Mapping[str, StoredTable]) -> None:
        """Raise InvalidParameters for the id of a token that is not read."""
        sent = self.tokens and str(self.tokens)
        if sent is not None and INPUT_IDS.name not in arrays:
            raise impossible("tokens", sent, "tokens goes with input_ids only")
        for name, token in self.tokens or ():
            if token is None:
                continue
            if name not in self.marks:
                raise impossible("tokens", sent, self._foreign(name, "marks"))
            other = ATTENTION_MASK if name == "pad" else TOKEN_TYPES
            if other.name in arrays and name in {"pad", *_KINDS}:
                rule = f"{name} of tokens does not go with {other.name}, which says where it is"
                raise impossible("tokens", sent, rule)

    def kinds_of(self, arrays: Mapping[str, StoredTable]) -> Elements:
        kinds = super().kinds_of(arrays)
        ids = integers_of(arrays["input_ids"]) if "input_ids" in arrays else None
        if TOKEN_TYPES.name in arrays:
            found = integers_of(arrays[TOKEN_TYPES.name])
            most = max(_KINDS.index(kind) for kind in self.kinds if kind in _KINDS[:4])
            rule = f"must be 0 to {most}"
            check_each((found >= 0) & (found <= most), found, TOKEN_TYPES.name, rule)
        else:
            found = self._marked(ids, arrays)
        pad = self.tokens.pad if self.tokens is not None else None
        if ids is not None and pad is not None and "attention_mask" not in arrays:
            kinds[ids == pad] = -1
        return np.where(kinds < 0, kinds, found.astype(np.int8))

    def _marked(self, ids: Int64s | None, arrays: Mapping[str, StoredTable]) -> Elements:
        """Return the kinds of tokens by their ids; raises if a needed id is not given."""
        if ids is None:
            raise InvalidBody("send input_ids or token_types", "/input_ids")
        given = [token for name, token in self.tokens or () if name in _KINDS and token is not None]
        if len(set(given)) < len(given):
            raise impossible("tokens", str(self.tokens), "tokens has one id for two media")
        found = np.zeros(ids.shape, dtype=np.int8)
        for number, kind in enumerate(_KINDS[1:4], 1):
            if kind not in self.kinds:
                continue
            token = getattr(self.tokens, kind, None)
            if token is not None:
                found[ids == token] = number
            elif f"{kind}_grids" in arrays or (kind == "audio" and "audio_lengths" in arrays):
                rule = f"without token_types, tokens needs the id of {kind}: tokens={kind}:151655"
                raise impossible("tokens", self.tokens and str(self.tokens), rule)
        return found

    def found(self, arrays: Mapping[str, StoredTable]) -> list[Prompt]:
        kinds, media = self.kinds_of(arrays), Media(arrays, frames_apart=self.frames_apart)
        check_changes(kinds)
        prompts = [self.found_in(number, row, media) for number, row in enumerate(kinds)]
        media.check_taken()
        return prompts

    def found_in(self, number: int, kinds: Elements, media: Media) -> Prompt:
        """Return the segments of a row; raises InvalidBody."""
        segments: list[Segment] = []
        starts: list[int] = []
        for kind, first, stop in runs_of(kinds):
            start = first
            where = f"/input_ids/{number}/{start}"
            found = [(plain_segment(kind, stop - start), stop - start)]
            if kind > 0:
                found = [*self._media_in(_KINDS[kind], stop - start, media, where)]
            for segment, count in found:
                segments.append(segment)
                starts.append(start)
                start += count
        return Prompt(segments, lambda place: f"/input_ids/{number}/{starts[place]}")

    def _media_in(
        self, kind: str, tokens: int, media: Media, where: str
    ) -> Iterator[tuple[Segment, int]]:
        """Yield the media of a run of tokens, with their number of tokens; raises InvalidBody."""
        left = tokens
        while left:
            segment = media.take_segment(kind, where)
            try:
                count = self.count(segment)
            except ValueError as error:
                raise InvalidBody(str(error), where) from None
            around = self.surrounding // 2 if left == tokens == count + self.surrounding else 0
            if not count or count > left:
                rule = (
                    f"{left} {kind} tokens are no {kind}: the next one, with the grid "
                    f"{list(segment.grid)}, has {count} (none of them masked or text)"
                )
                raise InvalidBody(rule, where)
            if around:
                yield plain_segment(0, around), around
            yield segment, count
            if around:
                yield plain_segment(0, around), around
            left -= count + 2 * around
