"""Conventions whose positions are fractions: seconds, shares of a size, steps below one."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import frexp, prod
from operator import attrgetter, mul
from typing import Annotated, Any, ClassVar

import numpy as np

from service.encodings.family import InputArray, Integers, Reals, about, impossible
from service.encodings.positions.convention import Convention, Masked, NamedTables, PatchSize
from service.encodings.positions.media import MediaConvention
from service.encodings.positions.patches import Grids, PatchConvention
from service.encodings.positions.pieces import (
    Piece,
    PiecesTable,
    Progress,
    Row,
    constant,
    joined,
    one_run,
)
from service.encodings.positions.segments import Prompt, Segment
from service.errors import InvalidBody
from service.grammar import Integer, Real
from service.numerics.dtypes import FLOAT64, INT64, DType
from service.numerics.tables import StoredTable, Table

_MAX_SIDE = 1024
_MOST = 2**63 - 1
_MAX_FACTOR = 10**6
_MAX_UNITS = 2**53

FrameRate = Annotated[Real, about("Frames of a second of video.", 25, ge=1e-3, le=1e6)]
BaseFps = Annotated[Real, about("Frames of a second in training.", 24, ge=1e-3, le=1e6)]
FrameIndex = Annotated[
    Integer, about("The number of the first frame of a condition.", 8, ge=0, le=10**9)
]
ScaleFactors = Annotated[
    Integers, about("Compression of the VAE: frames, rows and columns; of audio one.", "8,32,32")
]
CausalOffset = Annotated[Integer, about("Frames of the first latent.", 1, ge=0, le=10**6)]
TemporalPatch = Annotated[Integer, about("Latent frames of a patch.", 1, ge=1, le=64)]
Interpolation = Annotated[
    Reals, about("Factors of time, rows and columns.", "0.32,32,32", min_length=3, max_length=3)
]


class Fractions(Convention):
    """Base of the conventions of fractions, each the float64 nearest to the exact one.

    Attributes:
        axis_names: the names of the axes.
        factors_of: the parameters that may have too many digits for exact fractions.
    """

    arrays: ClassVar[tuple[str, ...]] = ("position_ids", "numerator", "denominator")
    axis_names: ClassVar[str] = "t,h,w"
    factors_of: ClassVar[tuple[str, ...]] = ("fps",)

    @property
    @abstractmethod
    def sides(self) -> tuple[int, ...]:
        """The number of steps along each axis; raises InvalidParameters or InvalidBody."""

    @property
    def widths(self) -> tuple[int, ...]:
        """The steps of a patch along each axis; 0 where positions are points."""
        return 0, 0, 0

    @abstractmethod
    def at(self, axis: int, step: int) -> Fraction | int:
        """Return where a step along an axis begins; raises InvalidParameters."""

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:  # noqa: ARG002
        starts, middles, ends = [], [], []
        for axis, (side, width) in enumerate(zip(self.sides, self.widths, strict=True)):
            steps = range(0, side, width or 1)
            starts.append([Fraction(self.at(axis, step)) for step in steps])
            ends.append([Fraction(self.at(axis, step + width)) for step in steps])
            middles.append([(one + two) / 2 for one, two in zip(starts[-1], ends[-1], strict=True)])
        if any(max(each.as_integer_ratio()) > _MOST for axis in middles for each in axis):
            name = max(self.factors_of, key=self._digits)
            rule = f"numerator or denominator is beyond 2^63: send {name} with fewer digits"
            raise impossible(name, getattr(self, name), rule)
        tables = {
            "position_ids": _lattice(middles, float),
            "numerator": _lattice(middles, attrgetter("numerator"), INT64),
            "denominator": _lattice(middles, attrgetter("denominator"), INT64),
            "starts": _lattice(starts, float),
            "ends": _lattice(ends, float),
        }
        return NamedTables({name: tables[name] for name in self.arrays}, {"axes": self.axis_names})

    def _digits(self, name: str) -> int:
        """Return the largest numerator or denominator of a parameter."""
        value = getattr(self, name)
        values = value if isinstance(value, tuple) else (value or 0,)
        return max(max(Fraction(each).as_integer_ratio()) for each in values)


def _lattice(
    axes: Sequence[Sequence[Fraction]], of: Callable[[Fraction], Any], dtype: DType = FLOAT64
) -> PiecesTable:
    """Return a number of each fraction at each point of a grid, the last axis fastest."""
    lengths = [len(axis) for axis in axes]
    steps = []
    for number, axis in enumerate(axes):
        values = np.array([of(each) for each in axis], dtype.storage)
        steps.append(Progress(0, prod(lengths[number + 1 :]), len(axis), values.take))
    return PiecesTable(
        [Row((Piece(prod(lengths), tuple(steps)),))], len(axes), dtype, is_batch=False
    )


class VideoFractions(Fractions, PatchConvention):
    """Base of the conventions of one video."""

    grids: Grids

    @property
    def sides(self) -> tuple[int, int, int]:
        """The frames, rows and columns; raises InvalidParameters if they are too many."""
        sides: tuple[int, int, int] = self.single("grids")
        if max(sides) > _MAX_SIDE:
            rule = f"a side has at most {_MAX_SIDE} with convention={self.name}"
            raise impossible("grids", None, rule)
        return sides


class Cosmos(VideoFractions, name="cosmos"):
    """The positions of Cosmos's video tokens, with time at 24 frames a second.

    Formula: axes t,h,w: (k·base_fps/fps, y, x); without fps (k, y, x).
    Source: diffusers 0.42.1 ``CosmosRotaryPosEmbed``.
    Bound: the float64 nearest to the fraction; the library's float32 is within 2^-22 of it.
    Trap: grids are of patches. An image has no fps.
    """

    example: ClassVar[Mapping[str, Any]] = {"grids": [[2, 2, 3]], "fps": 30}

    factors_of: ClassVar[tuple[str, ...]] = ("fps", "base_fps")

    fps: FrameRate | None = None
    base_fps: BaseFps = 24.0

    def at(self, axis: int, step: int) -> Fraction | int:
        if axis or not self.fps:
            return step
        return step * Fraction(self.base_fps) / Fraction(self.fps)


class Ltx(VideoFractions, name="ltx"):
    """The positions of LTX-Video's tokens, as shares of a base size.

    Formula: axes t,h,w: (k·s_t/20, y·s_h/2048, x·s_w/2048), s = rope_interpolation_scale; without
        it (k, y, x).
    Source: diffusers 0.42.1 ``LTXVideoRotaryPosEmbed``.
    Bound: the float64 nearest to the fraction; the library's float32 is within 2^-22 of it.
    Trap: ``ltx_condition`` has seconds and pixels, which the model divides by 20 and 2048 later.
    """

    example: ClassVar[Mapping[str, Any]] = {
        "grids": [[2, 2, 3]],
        "rope_interpolation_scale": "0.32,32,32",
    }

    factors_of: ClassVar[tuple[str, ...]] = ("rope_interpolation_scale",)

    rope_interpolation_scale: Interpolation | None = None

    def at(self, axis: int, step: int) -> Fraction | int:
        scale = self.rope_interpolation_scale
        if scale is None:
            return step
        if min(scale) <= 0:
            rule = "rope_interpolation_scale must be 3 numbers above 0"
            raise impossible("rope_interpolation_scale", scale, rule)
        return step * Fraction(scale[axis]) / (2048 if axis else 20)


def _first_of(factors: tuple[int, ...], axes: int, latent: int, causal_offset: int) -> int:
    """Return the first frame of a latent one.

    Raises InvalidParameters unless there is a positive factor for each axis.
    """
    if len(factors) != axes or not 1 <= min(factors) <= max(factors) <= _MAX_FACTOR:
        rule = f"scale_factors must be {axes} from 1 to {_MAX_FACTOR}"
        raise impossible("scale_factors", factors, rule)
    return max(latent * factors[0] + causal_offset - factors[0], 0)


class ScaledVideo(VideoFractions):
    """Base of the conventions of pixels, and of frames of which the first latent has fewer."""

    fps: FrameRate | None = None
    scale_factors: ScaleFactors = (8, 32, 32)
    causal_offset: CausalOffset = 1

    def at(self, axis: int, step: int) -> Fraction | int:
        frame = _first_of(self.scale_factors, 3, step, self.causal_offset)
        return step * self.scale_factors[axis] if axis else frame / Fraction(self.fps or 1)


class LtxCondition(ScaledVideo, name="ltx_condition"):
    """The positions of LTX-Video's tokens and conditions, in seconds and pixels.

    Formula: axes t,h,w: ((max(8k + 1 − 8, 0) + frame_index)/fps, 32·y, 32·x) with the default
        scale_factors and causal_offset; without fps t is a frame.
    Source: diffusers 0.42.1 ``LTXConditionPipeline._prepare_video_ids``, ``_scale_video_ids``.
    Bound: the float64 nearest to the fraction; the library's float32 is within 2^-22 of it.
    Trap: the first latent frame is one frame, all others are 8: frames are 0, 1, 9, 17.
    """

    example: ClassVar[Mapping[str, Any]] = {"grids": [[3, 1, 2]], "fps": 25}

    frame_index: FrameIndex = 0

    def at(self, axis: int, step: int) -> Fraction | int:
        return super().at(axis, step) + (0 if axis else self.frame_index / Fraction(self.fps or 1))


class Ltx2(ScaledVideo, name="ltx2"):
    """The positions of LTX-2's video tokens: the middles of patches, their starts and ends.

    Formula: axes t,h,w: a patch from latent frame k to k + patch_size_t begins and ends at
        max(8k + 1 − 8, 0)/fps seconds, rows and columns at 32 times their number, with the default
        scale_factors and causal_offset; position_ids are the middles, which the rotation uses.
    Source: diffusers 0.42.1 ``LTX2AudioVideoRotaryPosEmbed.prepare_video_coords``.
    Bound: the float64 nearest to the fraction; the library's float32 is within 2^-22 of it.
    Trap: the first patch ends after one frame, so its middle is half a frame.
    """

    arrays: ClassVar[tuple[str, ...]] = (*Fractions.arrays, "starts", "ends")
    example: ClassVar[Mapping[str, Any]] = {"grids": [[3, 1, 2]]}

    fps: FrameRate = 24.0
    patch_size_t: TemporalPatch = 1
    patch_size: PatchSize = 1

    @property
    def widths(self) -> tuple[int, ...]:
        return self.patch_size_t, self.patch_size, self.patch_size


class Ltx2Audio(Fractions, name="ltx2_audio"):
    """The positions of LTX-2's audio tokens, in seconds: middles, starts and ends.

    Formula: frame k, from shift on, begins at max(4k + 1 − 4, 0)·hop_length/sampling_rate seconds
        with the default scale_factors and causal_offset, and ends where k + patch_size_t begins;
        position_ids, (1, frames), are the middles.
    Source: diffusers 0.42.1 ``LTX2AudioVideoRotaryPosEmbed.prepare_audio_coords``.
    Bound: the float64 nearest to the fraction; the library's float32 is within 2^-22 of it.
    Trap: the first frame is a quarter as long as the others.
    """

    arrays: ClassVar[tuple[str, ...]] = Ltx2.arrays
    axis_names: ClassVar[str] = "t"
    example: ClassVar[Mapping[str, Any]] = {"num_frames": 5}

    num_frames: Annotated[Integer, about("Latent frames of audio.", 5, ge=1, le=4096)]
    shift: Annotated[Integer, about("The number of the first frame.", 0, ge=0, le=10**6)] = 0
    scale_factors: ScaleFactors = (4,)
    causal_offset: CausalOffset = 1
    patch_size_t: TemporalPatch = 1
    hop_length: Annotated[Integer, about("Samples of a mel frame.", 160, ge=1, le=10**6)] = 160
    sampling_rate: Annotated[Integer, about("Samples of a second.", 16000, ge=1, le=10**9)] = 16000

    @property
    def sides(self) -> tuple[int, ...]:
        return (self.num_frames,)

    @property
    def widths(self) -> tuple[int, ...]:
        return (self.patch_size_t,)

    def at(self, axis: int, step: int) -> Fraction:  # noqa: ARG002
        frame = _first_of(self.scale_factors, 1, self.shift + step, self.causal_offset)
        return Fraction(frame * self.hop_length, self.sampling_rate)


class V2pe(MediaConvention, name="v2pe"):
    """The positions of V2PE, where visual tokens advance by less than one.

    Formula: the first token, text unless delta is 1, has 0; text has the position before it plus 1,
        a visual token plus delta; masked tokens have ``masked``. An image of the grid t,h,w has
        t·h·w tokens.
    Source: "V2PE: Improving Multimodal Long-Context Capability of Vision-Language Models with
        Variable Visual Position Encoding" (Ge et al. 2024), §3.2; its code ``get_rope_pos_id``,
        whose delta is rope_pos_id_stride/256.
    Bound: exact in float64, and in the numerators of 1/delta.
    Trap: the code rounds the last position of an image up, the paper does not: images whose tokens
        are no whole number of steps are refused.
    """

    arrays: ClassVar[tuple[str, ...]] = (
        "position_ids",
        "numerator",
        "denominator",
        "attention_mask",
        "decode_position_ids",
    )
    marks: ClassVar[tuple[str, ...]] = ("image", "pad")
    kinds: ClassVar[tuple[str, ...]] = ("text", "pad", "image")
    inputs: ClassVar[tuple[InputArray, ...]] = MediaConvention.inputs[:-1]
    example: ClassVar[Mapping[str, Any]] = {
        "delta": 0.5,
        "rows": [[{"text": 2}, {"image": [1, 2, 2]}, {"text": 2}]],
    }

    delta: Annotated[Real, about("The step of visual tokens.", 0.0625, ge=2**-16, le=1)]
    masked: Masked = 1

    def count(self, segment: Segment) -> int:
        count = prod(segment.grid) if segment.kind == "image" else super().count(segment)
        if segment.kind == "image" and count * self.delta % 1:
            raise ValueError(
                f"{count} visual tokens are no multiple of 1/delta = {1 / self.delta:g}"
            )
        return count

    def answer(self, arrays: Mapping[str, StoredTable]) -> NamedTables:
        if frexp(self.delta)[0] != 0.5:
            raise impossible("delta", self.delta, "delta must be 1, 1/2, 1/4, … or 1/65536")
        units, prompts, skipped = int(1 / self.delta), self.prompts(arrays), self.past_length
        rows = [self._numbered(prompt, units, 1) for prompt in prompts]
        if max(row.following for row in rows) > _MAX_UNITS:
            raise InvalidBody("positions are beyond 2^53 steps of delta", "/rows")
        divided = [self._numbered(prompt, 1.0, self.delta) for prompt in prompts]
        of_units = [Row((Piece(row.count, (constant(units),)),)) for row in rows]
        tables: dict[str, Table] = {
            "position_ids": PiecesTable(divided, dtype=FLOAT64, skipped=skipped),
            "numerator": PiecesTable(rows, skipped=skipped),
            "denominator": PiecesTable(of_units, skipped=skipped),
            "attention_mask": PiecesTable([row.mask() for row in rows]),
        }
        if self.steps is not None:
            decoded = [Row((one_run(self.steps, row.following // units + 1),)) for row in rows]
            tables["decode_position_ids"] = PiecesTable(decoded)
        return NamedTables(tables, {})

    def _numbered(self, prompt: Prompt, text: float, visual: float) -> Row:
        """Return the positions of a row, of which text and visual tokens are so far apart."""
        pieces, last = [], -text
        for number, segment in enumerate(prompt.padded(), -1):
            count, step = self.count(segment), text if segment.kind == "text" else visual
            if segment.kind == "pad":
                pieces.append(Piece(count, (constant(self.masked * text),), is_masked=True))
                continue
            if count and last + step < 0:
                rule = "an image has text before it with delta below 1: its code has a marker there"
                raise prompt.refusal(number, rule)
            pieces.append(Piece(count, (Progress(last + step, ramp=partial(mul, step)),)))
            last += count * step
        return Row(joined(pieces), following=last)
