"""Media in arrays of tokens: which tokens are images, videos and audio, and with which grids."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from service.encodings.family import InputArray, impossible
from service.encodings.positions.segments import (
    MAX_SECONDS,
    MAX_SEGMENTS,
    Prompt,
    Segment,
    TokenConvention,
    Tokens,
    plain_segment,
    runs_of,
)
from service.encodings.positions.sent_arrays import (
    ATTENTION_MASK,
    AUDIO_LENGTHS,
    IMAGE_GRIDS,
    IMAGE_SIZES,
    IMAGES_PER_SAMPLE,
    INPUT_IDS,
    SECONDS_PER_GRID,
    TOKEN_TYPES,
    VIDEO_GRIDS,
    VIDEO_SIZES,
    check_each,
    integers_of,
)
from service.errors import InvalidBody
from service.numerics.dtypes import Elements, to_float64
from service.numerics.phase import Int64s
from service.numerics.tables import StoredTable

KINDS = ("text", "image", "video", "audio", "joint")
"""The kinds of tokens, by number; masked ones are -1."""

# The columns of arrays of media, and the least and the largest power of two of their numbers.
_ITEMS = {
    IMAGE_GRIDS.name: ("t, h, w", 1, 31),
    VIDEO_GRIDS.name: ("t, h, w", 1, 31),
    IMAGE_SIZES.name: ("h, w", 1, 31),
    VIDEO_SIZES.name: ("h, w", 1, 31),
    AUDIO_LENGTHS.name: ("", 1, 40),
    IMAGES_PER_SAMPLE.name: ("", 0, 31),
}


def _items(name: str, table: StoredTable) -> list[Any]:
    """Return the items of an array of media; raises InvalidBody if one is impossible."""
    if table.shape[0] > MAX_SEGMENTS:
        rule = f"{name} has {table.shape[0]} items: at most {MAX_SEGMENTS} are possible"
        raise InvalidBody(rule, f"/{name}")
    if name == SECONDS_PER_GRID.name:
        seconds = to_float64(table.in_order().elements, table.dtype)
        valid = (seconds >= 0) & (seconds <= MAX_SECONDS)
        check_each(valid, seconds, name, f"must be from 0 to {MAX_SECONDS:g}")
        return list(map(float, seconds))
    values, (sides, least, power) = integers_of(table), _ITEMS[name]
    if sides and values.shape[1] != sides.count(",") + 1:
        rule = f"{name} must have rows of {sides}, not of {values.shape[1]} numbers"
        raise InvalidBody(rule, f"/{name}")
    valid = (values >= least) & (values <= 2**power)
    check_each(valid, values, name, f"must be {least} to 2^{power}")
    return [tuple(each) if sides else each for each in values.tolist()]


def _check_changes(kinds: Elements) -> None:
    """Raise InvalidBody if tokens change their kind too often."""
    changes = int(np.count_nonzero(kinds[:, 1:] != kinds[:, :-1]))
    if changes + len(kinds) > MAX_SEGMENTS:
        rule = f"the tokens have {changes} changes of their kind: at most {MAX_SEGMENTS} fit"
        raise InvalidBody(rule, "/input_ids")


class Media:
    """The items of arrays of media, taken in the order of the media in the batch."""

    def __init__(self, arrays: Mapping[str, StoredTable], *, frames_apart: bool) -> None:
        names = [name for name in (*_ITEMS, SECONDS_PER_GRID.name) if name in arrays]
        self.lists = {name: _items(name, arrays[name]) for name in names}
        self.taken: Counter[str] = Counter()
        # Where the frames of each video end that is taken frame by frame.
        self.ends: list[int] = []
        name = VIDEO_GRIDS.name
        if frames_apart and name in self.lists:
            grids = self.lists[name]
            self.ends = [*accumulate(frames for frames, *_ in grids)]
            if max(self.ends, default=0) > MAX_SEGMENTS:
                raise InvalidBody(f"{name} has more than {MAX_SEGMENTS} frames", f"/{name}")
            self.lists[name] = [(1, *sides) for frames, *sides in grids for _ in range(frames)]

    def take(self, name: str, where: str) -> Any:
        """Return the next item of an array; raises InvalidBody if there is none."""
        number, items = self.taken[name], self.lists.get(name, [])
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
        frames = "frames of " if self.ends and name == VIDEO_GRIDS.name else ""
        return f"the {len(self.lists.get(name, ()))} {frames}{name}"

    def check_taken(self) -> None:
        """Raise InvalidBody if an array has more items than the tokens need."""
        for name, items in self.lists.items():
            taken = self.taken[name]
            if taken < len(items):
                is_apart = self.ends and name == VIDEO_GRIDS.name
                place = bisect_right(self.ends, taken) if is_apart else taken
                rule = f"the tokens need {taken} of {self._all(name)}"
                raise InvalidBody(rule, f"/{name}/{place}")


class MediaConvention(TokenConvention):
    """Base of the conventions whose prompts have media.

    Attributes:
        frames_apart: whether the frames of a video are as many images, with text between them.
        surrounding: the tokens around a medium that may be marked as it, and are text.
        marks: the tokens whose ids it reads.
    """

    inputs: ClassVar[tuple[InputArray, ...]] = (
        *TokenConvention.inputs,
        TOKEN_TYPES,
        IMAGE_GRIDS,
        VIDEO_GRIDS,
    )
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
            if other.name in arrays and name in {"pad", *KINDS}:
                rule = f"{name} of tokens does not go with {other.name}, which says where it is"
                raise impossible("tokens", sent, rule)

    def marked(
        self, arrays: Mapping[str, StoredTable], names: Sequence[str], what: str
    ) -> tuple[Int64s, list[int]]:
        """Return the token ids, and those of marks that something needs.

        Raises InvalidParameters if one is missing.
        """
        marks: list[Any] = [getattr(self.tokens, name, None) for name in names]
        if INPUT_IDS.name not in arrays or None in marks or len({*marks}) < len(marks):
            rule = f"{what} needs input_ids, and tokens with an id each of {', '.join(names)}"
            raise impossible("tokens", self.tokens and str(self.tokens), rule)
        return integers_of(arrays[INPUT_IDS.name]), marks

    def kinds_of(self, arrays: Mapping[str, StoredTable]) -> Elements:
        kinds = super().kinds_of(arrays)
        ids = integers_of(arrays["input_ids"]) if "input_ids" in arrays else None
        if TOKEN_TYPES.name in arrays:
            found = integers_of(arrays[TOKEN_TYPES.name])
            most = max(KINDS.index(kind) for kind in self.kinds if kind in KINDS[:4])
            rule = f"must be 0 to {most}"
            check_each((found >= 0) & (found <= most), found, TOKEN_TYPES.name, rule)
        else:
            found = self._by_ids(ids, arrays)
        pad = self.tokens.pad if self.tokens is not None else None
        if ids is not None and pad is not None and "attention_mask" not in arrays:
            kinds[ids == pad] = -1
        return np.where(kinds < 0, kinds, found.astype(np.int8))

    def _by_ids(self, ids: Int64s | None, arrays: Mapping[str, StoredTable]) -> Elements:
        """Return the kinds of tokens by their ids; raises if a needed id is not given."""
        if ids is None:
            raise InvalidBody("send input_ids or token_types", "/input_ids")
        given = [token for name, token in self.tokens or () if name in KINDS and token is not None]
        if len(set(given)) < len(given):
            raise impossible("tokens", str(self.tokens), "tokens has one id for two media")
        found = np.zeros(ids.shape, dtype=np.int8)
        for number, kind in enumerate(KINDS[1:4], 1):
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
        # Further numbers are those of markers, which are text.
        _check_changes(np.where(kinds < len(KINDS), kinds, 0))
        prompts = []
        for number, row in enumerate(kinds):
            where = f"/input_ids/{number}"
            parts = [*self.parts(row, media, where)]
            segments, starts = [each for each, _ in parts], [start for _, start in parts]
            prompts.append(Prompt(segments, where, starts))
        media.check_taken()
        return prompts

    def parts(
        self, kinds: Elements, media: Media, where: str, first: int = 0
    ) -> Iterator[tuple[Segment, int]]:
        """Yield the segments of the tokens of a row, each with its first token.

        Raises InvalidBody for media that the tokens cannot be.

        Args:
            kinds: of the tokens.
            media: of the batch; those of the row are taken.
            where: the pointer to the row.
            first: the number of the first token in the row.
        """
        for kind, start, stop in runs_of(kinds):
            if kind > 0:
                yield from self.media_in(KINDS[kind], first + start, first + stop, media, where)
            else:
                yield plain_segment(kind, stop - start), first + start

    def media_in(
        self, kind: str, start: int, stop: int, media: Media, where: str
    ) -> Iterator[tuple[Segment, int]]:
        """Yield the media of a run of tokens, with their first tokens; raises InvalidBody."""
        tokens, where = stop - start, f"{where}/{start}"
        while start < stop:
            segment = media.take_segment(kind, where)
            count, left = self.count_of(segment, where), stop - start
            around = self.surrounding // 2 if left == tokens == count + self.surrounding else 0
            if not count or count > left:
                rule = (
                    f"{left} {kind} tokens are no {kind}: the next one, with the grid "
                    f"{list(segment.grid)}, has {count} (none of them masked or text)"
                )
                raise InvalidBody(rule, where)
            if around:
                yield plain_segment(0, around), start
            yield segment, start + around
            if around:
                yield plain_segment(0, around), stop - around
            start += count + 2 * around
