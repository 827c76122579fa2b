"""Prompts as rows of segments: text, media and padding, sent as such or found in arrays."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from service.encodings.family import InputArray, impossible, optional
from service.encodings.positions.convention import Convention, PastLength, Steps
from service.encodings.positions.sent_arrays import (
    ATTENTION_MASK,
    INPUT_IDS,
    TOKEN_TYPES,
    check_each,
    integers_of,
)
from service.errors import InvalidBody
from service.grammar import Integer, Real, integer
from service.numerics.dtypes import Elements
from service.numerics.limits import MAX_LENGTH
from service.numerics.tables import StoredTable

MAX_SEGMENTS = 2**14
"""The most segments, frames with text between them, and runs of tokens of a request."""

MAX_SECONDS = 1e6

_MAX_SIDE = 2**31
_MAX_AUDIO_FRAMES = 2**40


def _sides(names: str) -> BeforeValidator:
    """Return the parser of a list of as many lengths as there are names."""

    def parsed(value: Any) -> tuple[int, ...]:
        if not isinstance(value, list | tuple) or len(value) != len(names.split(",")):
            raise ValueError(f"must be [{names}]")
        sides = tuple(map(integer, value))
        if not all(1 <= side <= _MAX_SIDE for side in sides):
            raise ValueError("must be integers from 1 to 2^31")
        return sides

    return BeforeValidator(parsed)


def _list_of(count: int) -> WithJsonSchema:
    items = {"type": "integer", "format": "int64", "minimum": 1}
    return WithJsonSchema({"type": "array", "items": items, "minItems": count, "maxItems": count})


Grid = Annotated[tuple[int, int, int], _sides("t,h,w"), _list_of(3)]
Size = Annotated[tuple[int, int], _sides("h,w"), _list_of(2)]
Count = Annotated[Integer, Field(ge=0, le=MAX_LENGTH)]
Tick = Annotated[
    Integer, Field(ge=0, le=2**31), WithJsonSchema({"type": "integer", "format": "int64"})
]


class Segment(BaseModel):
    """A part of a row: one of text, pad, image, video, audio, generate, with what belongs to it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: Count | None = optional("Number of text tokens.", 4)
    pad: Count | None = optional("Number of masked tokens.", 2)
    image: Grid | None = optional("Patches t,h,w of an image, before the merge.", [1, 4, 6])
    video: Grid | None = optional("Patches t,h,w of a video, before the merge.", [2, 4, 4])
    audio: Annotated[Integer, Field(ge=1, le=_MAX_AUDIO_FRAMES)] | None = optional(
        "Feature frames of audio; beside video, of its audio.", 130
    )
    generate: Size | None = optional("Grid h,w of an image to generate.", [4, 3])
    seconds_per_grid: Annotated[Real, Field(ge=0, le=MAX_SECONDS)] | None = optional(
        "Of a video: seconds from one frame of its grid to the next.", 1
    )
    timestamps: tuple[Tick, ...] | None = optional(
        "Of a video: text tokens before each of its frames.", [4, 4]
    )
    slices: tuple[tuple[Size, ...], ...] | None = optional(
        "Of an image or a frame: patches h,w of its slices, row by row.", [[[8, 8], [8, 8]]]
    )
    markers: Tick | None = optional("Of the same: markers and newlines right behind it.", 1)

    @model_validator(mode="after")
    def _is_one(self) -> "Segment":
        given = [name for name in SEGMENTS if getattr(self, name) is not None]
        if given == ["video", "audio"]:
            given = ["video"]
        if len(given) != 1:
            raise ValueError(f"must have one of {', '.join(SEGMENTS)}")
        for name in OF_MEDIA:
            owners = ("image", "video") if name in OF_CANVASES else ("video",)
            if getattr(self, name) is not None and given[0] not in owners:
                raise ValueError(f"has {name}, which goes with {' and '.join(owners)}")
        rows = {len(row) for row in self.slices or ()}
        if self.slices is not None and (len(rows) != 1 or 0 in rows):
            raise ValueError("has slices that are no rows of one length")
        return self

    @cached_property
    def kind(self) -> str:
        """The name of the field that it has; ``joint`` for a video with its audio."""
        if self.video is not None:
            return "video" if self.audio is None else "joint"
        return next(name for name in SEGMENTS if getattr(self, name) is not None)

    @property
    def woven(self) -> int:
        """An upper bound of the frames or chunks of a video that is woven with its audio."""
        frames = self.grid[0] + (self.audio or 0) // 4
        return min(frames, MAX_SEGMENTS) if self.kind == "joint" else 0

    @property
    def grid(self) -> tuple[int, int, int]:
        """The patches t, h, w of an image or a video."""
        return self.image or self.video or (1, *(self.generate or (1, 1)))


OF_CANVASES = ("slices", "markers")
OF_MEDIA = ("seconds_per_grid", "timestamps", *OF_CANVASES)
SEGMENTS = ("text", "pad", "image", "video", "audio", "generate")


def _bounded(value: Any) -> Any:
    if not isinstance(value, list) or not all(type(row) is list for row in value):
        raise ValueError("must be a list of rows in a JSON body, each a list of segments")
    if not value:
        raise ValueError("must have at least one row")
    parts = len(value) + sum(map(len, value))
    if parts <= MAX_SEGMENTS:
        lists = (each.get("timestamps") for row in value for each in row if type(each) is dict)
        parts += sum(len(each) for each in lists if type(each) is list)
    if parts > MAX_SEGMENTS:
        raise ValueError(f"must have at most {MAX_SEGMENTS} rows, segments and timestamps")
    return value


Rows = Annotated[
    tuple[tuple[Segment, ...], ...],
    BeforeValidator(_bounded),
    Field(
        description="The batch as segments, in place of input_ids.",
        examples=[[[{"text": 4}, {"image": [1, 4, 6]}]]],
        json_schema_extra={"minItems": 1},
    ),
]


class TokenIds(BaseModel):
    """The ids of the tokens that mark media."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: Integer | None = None
    video: Integer | None = None
    audio: Integer | None = None
    vision_start: Integer | None = None
    vision_end: Integer | None = None
    audio_start: Integer | None = None
    audio_end: Integer | None = None
    pad: Integer | None = None
    slice_start: Integer | None = None
    slice_end: Integer | None = None
    newline: Integer | None = None

    def __str__(self) -> str:
        """Format as in a query: ``image:151655,video:151656``."""
        return ",".join(f"{name}:{value}" for name, value in self if value is not None)


def _token_ids(value: Any) -> Any:
    if isinstance(value, dict | TokenIds):
        return value
    pairs = [pair.partition(":")[::2] for pair in value.split(",")] if type(value) is str else []
    if not pairs:
        raise ValueError("must be an object of ids by name, or name:id,name:id")
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("names a token twice")
    return dict(pairs)


Tokens = Annotated[
    TokenIds,
    BeforeValidator(_token_ids),
    Field(description="The ids of tokens by name.", examples=["image:151655,video:151656"]),
]

PaddingSide = Annotated[
    Literal["left", "right"], Field(description="Where shorter rows are padded.", examples=["left"])
]
PaddedLength = Annotated[
    Integer,
    Field(description="With padding_side: tokens of each row.", examples=[16], ge=1, le=MAX_LENGTH),
]


@dataclass(frozen=True)
class Prompt:
    """One row of a batch.

    Attributes:
        segments: its segments, without the padding that makes rows equally long.
        where: the pointer to the row.
        starts: the first token of each segment, in rows that are found in arrays.
        before, after: the tokens of that padding.
    """

    segments: Sequence[Segment]
    where: str
    starts: Sequence[int] | None = None
    before: int = 0
    after: int = 0

    def place(self, number: int) -> str:
        """Return the pointer to a segment."""
        return f"{self.where}/{number if self.starts is None else self.starts[number]}"

    def padded(self) -> Iterator[Segment]:
        """Yield all segments."""
        yield Segment.model_construct(pad=self.before)
        yield from self.segments
        yield Segment.model_construct(pad=self.after)

    def refusal(self, number: int, rule: str) -> InvalidBody:
        """Return the error of a segment."""
        return InvalidBody(rule, self.place(number))


class TokenConvention(Convention):
    """Base of the conventions of tokens: of structured rows, or of arrays of token ids.

    Attributes:
        kinds: the kinds of segments that it numbers.
        takes: what videos may have with it.
    """

    inputs: ClassVar[tuple[InputArray, ...]] = (INPUT_IDS, ATTENTION_MASK)
    kinds: ClassVar[tuple[str, ...]] = ("text", "pad")
    takes: ClassVar[tuple[str, ...]] = ()

    rows: Rows | None = None
    padding_side: PaddingSide | None = None
    length: PaddedLength | None = None
    past_length: PastLength = 0
    steps: Steps | None = None

    def count(self, segment: Segment) -> int:
        """Return the number of tokens of a segment; raises ValueError if it is impossible."""
        return segment.text or segment.pad or 0

    def prompts(self, arrays: Mapping[str, StoredTable]) -> list[Prompt]:
        """Return the rows of a request, of one length; raises InvalidParameters or InvalidBody."""
        if self.rows is not None:
            if arrays:
                name = next(iter(arrays))
                raise InvalidBody(f"{name} does not go with rows: send one of them", f"/{name}")
            prompts = self._padded([self._checked(*each) for each in enumerate(self.rows)])
        elif shaping := [arrays[each.name] for each in RAW if each.name in arrays]:
            for name in ("padding_side", "length"):
                if (value := getattr(self, name)) is not None:
                    raise impossible(name, value, f"{name} goes with rows only")
            if len({table.shape for table in shaping}) > 1:
                rule = "input_ids, attention_mask and token_types must have one shape"
                raise InvalidBody(
                    rule, f"/{next(each.name for each in RAW if each.name in arrays)}"
                )
            prompts = self.found(arrays)
        else:
            raise InvalidBody("send rows, or input_ids", "/rows")
        self._check_lengths(prompts)
        return prompts

    def _checked(self, number: int, segments: tuple[Segment, ...]) -> Prompt:
        """Return a structured row; raises InvalidBody for a segment that has no place here."""
        prompt = Prompt(segments, f"/rows/{number}")
        for place, segment in enumerate(segments):
            if segment.kind not in self.kinds:
                of = {"joint": "a video with its audio"}.get(segment.kind, segment.kind)
                rule = f"there is no {of} with convention={self.name}, but {', '.join(self.kinds)}"
                raise prompt.refusal(place, rule)
            for name in OF_MEDIA:
                if getattr(segment, name) is not None and name not in self.takes:
                    rule = self._foreign(name, "takes")
                    raise InvalidBody(rule, f"{prompt.place(place)}/{name}")
            self.check(prompt, place)
        return prompt

    def check(self, prompt: Prompt, place: int) -> None:
        """Raise InvalidBody for a segment that is impossible."""
        self.count_of(prompt.segments[place], prompt.place(place))

    def count_of(self, segment: Segment, where: str) -> int:
        """Return the number of tokens of a segment; raises InvalidBody if it is impossible."""
        try:
            return self.count(segment)
        except ValueError as error:
            raise InvalidBody(str(error), where) from None

    def _padded(self, prompts: list[Prompt]) -> list[Prompt]:
        """Return rows of one length; raises InvalidParameters or InvalidBody if they differ."""
        counts = [sum(map(self.count, prompt.segments)) for prompt in prompts]
        most = max(counts)
        length, side = max(most, self.length or 0), self.padding_side
        if self.length is not None and side is None:
            raise impossible("length", self.length, "length needs padding_side")
        if self.length is not None and most > self.length:
            rule = f"the row has {most} tokens, more than length={self.length}"
            raise InvalidBody(rule, f"/rows/{counts.index(most)}")
        if side is None and min(counts) < length:
            number = next(each for each, count in enumerate(counts) if count != counts[0])
            rule = (
                f"row {number} has {counts[number]} tokens and row 0 has {counts[0]}: "
                "padding_side=left or right pads them"
            )
            raise InvalidBody(rule, f"/rows/{number}")
        return [
            replace(
                each,
                before=(length - count) * (side == "left"),
                after=(length - count) * (side == "right"),
            )
            for each, count in zip(prompts, counts, strict=True)
        ]

    def _check_lengths(self, prompts: list[Prompt]) -> None:
        tokens = sum(map(self.count, prompts[0].padded()))
        if not tokens:
            raise InvalidBody("the rows have no tokens", "/rows")
        if tokens > MAX_LENGTH:
            raise InvalidBody(f"a row has {tokens} tokens: at most 2^62 are possible", "/rows")
        if self.past_length >= tokens:
            rule = f"past_length must be less than the {tokens} tokens of a row"
            raise impossible("past_length", self.past_length, rule)

    @abstractmethod
    def found(self, arrays: Mapping[str, StoredTable]) -> list[Prompt]:
        """Return the rows that arrays of tokens hold; raises InvalidBody."""

    def kinds_of(self, arrays: Mapping[str, StoredTable]) -> Elements:
        """Return the kind of each token, (batch, length): 0 text, -1 masked, else a medium."""
        shape = next(arrays[each.name].shape for each in RAW if each.name in arrays)
        kinds = np.zeros(shape, dtype=np.int8)
        if ATTENTION_MASK.name in arrays:
            mask = integers_of(arrays[ATTENTION_MASK.name])
            check_each((mask == 0) | (mask == 1), mask, ATTENTION_MASK.name, "must be 0 or 1")
            kinds[mask == 0] = -1
        return kinds


RAW = (INPUT_IDS, ATTENTION_MASK, TOKEN_TYPES)


def plain_segment(kind: int, count: int) -> Segment:
    """Return tokens of text, or masked ones for the kind -1."""
    if kind < 0:
        return Segment.model_construct(pad=count)
    return Segment.model_construct(text=count)


def runs_of(kinds: Elements) -> Iterator[tuple[int, int, int]]:
    """Yield the kind, the first token and the end of each run of tokens of one kind."""
    if not len(kinds):
        return
    edges = [0, *(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)]
    for start, stop in pairwise(edges):
        yield int(kinds[start]), start, stop
