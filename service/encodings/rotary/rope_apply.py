"""Rotation of queries and keys, and reordering of weights, in the two layouts of channel pairs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np

from service.encodings.family import (
    IndexDType,
    TableFamily,
    about,
    impossible,
    optional,
)
from service.encodings.position_parameters import StartParameters
from service.encodings.rotary.angles import RotaryAngles
from service.encodings.rotary.axial import AxialAngles
from service.encodings.rotary.rope import AngleParameters, WidthParameters, even_channels
from service.encodings.transforms import TransformFamily, Vectors
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Boolean, Integer
from service.numerics.dtypes import (
    FLOAT64,
    INT32,
    DType,
    Elements,
    round_results,
    to_float64,
)
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels
from service.numerics.tables import (
    ELEMENT_SECONDS,
    Document,
    ParameterValue,
)
from service.numerics.transformed import TransformedTable

Layout: TypeAlias = Literal["interleaved", "half"]
AxialLayout: TypeAlias = Literal["interleaved", "half", "half_by_axis"]
RotaryOffset = Annotated[
    Integer,
    about("Number of channels of a head before the rotary ones.", 0, ge=0, le=MAX_CHANNELS - 2),
]

_MAX_INT32_ROWS = 2**31


@dataclass(frozen=True)
class PairRotation:
    """The rotation of pairs of channels, by the cosines and sines of their vectors' positions.

    Attributes:
        dtype: the type of the channels.
        offset: the first rotary channel.
        parts: the angles of each part of the rotary channels; a part has pairs of its own.
        layout: which channels of a part are pairs.
        output_layout: that of the result.
        inverse: whether angles are negative.
        apart: the place of the angle of the first second channel; 0 if pairs have one angle.
    """

    dtype: DType
    offset: int
    parts: tuple[tuple[int, ...], ...]
    layout: Layout
    output_layout: Layout
    inverse: bool
    apart: int

    def __call__(
        self,
        source: Callable[[range], Elements],
        factors: Float64s,
        columns: range,
        block: Elements,
    ) -> None:
        """Fill a block (…, columns) with rotated vectors; factors are their cosines and sines."""
        stop = self.offset + 2 * sum(map(len, self.parts))
        before = range(columns.start, min(self.offset, columns.stop))
        after = range(max(stop, columns.start), columns.stop)
        for copied in filter(None, (before, after)):
            block[..., _slice_of(copied, columns)] = source(copied)
        first = self.offset
        for places in self.parts:
            rotary = range(first, first + 2 * len(places))
            own = factors if len(self.parts) == 1 else factors[..., places]
            self._rotate(source, own, columns, block, rotary)
            first = rotary.stop

    def _rotate(
        self,
        source: Callable[[range], Elements],
        factors: Float64s,
        columns: range,
        block: Elements,
        rotary: range,
    ) -> None:
        """Fill a block with the channels of a part."""
        targets = _pair_channels(self.output_layout, rotary)
        wanted = [_overlap(channels, columns) for channels in targets]
        low = min((pairs.start for pairs in wanted if pairs), default=0)
        high = max((pairs.stop for pairs in wanted if pairs), default=0)
        if low == high:
            return
        cos, sin = factors[..., low:high]
        if self.inverse:
            sin = 0.0 - sin
        first, second = (
            to_float64(source(channels[low:high]), self.dtype)
            for channels in _pair_channels(self.layout, rotary)
        )
        with np.errstate(over="ignore", invalid="ignore"):
            results = first * cos
            results -= second * sin
            for channels, pairs in zip(targets, wanted, strict=True):
                if pairs:
                    rotated = block[..., _slice_of(channels[pairs.start : pairs.stop], columns)]
                    some = results[..., pairs.start - low : pairs.stop - low]
                    round_results(some, rotated, self.dtype)
                if channels is targets[0]:
                    if self.apart:
                        cos, sin = factors[..., self.apart + low : self.apart + high]
                    np.multiply(second, cos, out=results)
                    results += first * sin


class RotatedFamily(TransformFamily):
    """Base class of the families that rotate queries and keys."""

    rotary_offset: RotaryOffset = 0
    inverse: Boolean = about(
        "Whether to rotate by the negative angles, which inverts the rotation unless there is an "
        "attention factor or xPos.",
        example=False,
        default=False,
    )

    def rotated(
        self,
        x: Vectors,
        angles: RotaryAngles,
        layout: AxialLayout,
        output_layout: Layout | None = None,
    ) -> tuple[TransformedTable, dict[str, ParameterValue]]:
        """Return rotated vectors, and the parameters of the rotation.

        Raises InvalidParameters or InvalidBody if the angles are not those of the vectors.
        """
        self.check_angles(angles, x.width)
        places = tuple(range(angles.width // 2))
        parts: tuple[tuple[int, ...], ...] = (places,)
        if layout == "half_by_axis":
            parts = tuple(axis.places for axis in angles.along())
        inner: Layout = "half" if layout == "half_by_axis" else layout
        layouts = inner, output_layout or inner
        apart = angles.count - angles.width // 2
        rotation = PairRotation(x.dtype, self.rotary_offset, parts, *layouts, self.inverse, apart)
        channels = Channels(("cos", "sin"), interleaved=False, width=2 * angles.count)
        factors = angles.table(channels, FLOAT64, (angles.rows, channels.width))
        seconds = 2 * ELEMENT_SECONDS
        table = x.transformed(
            factors, angles.row_shape, rotation, transform_seconds=seconds, parts=2
        )
        parameters = {**angles.parameters(), "layout": layout}
        if output_layout not in {None, layout}:
            parameters["output_layout"] = output_layout
        if self.rotary_offset:
            parameters["rotary_offset"] = self.rotary_offset
        return table, {**parameters, "inverse": self.inverse}

    def check_angles(self, angles: RotaryAngles, head_dim: int) -> None:
        """Raise InvalidParameters or InvalidBody if vectors are too short for the angles."""
        width = angles.width
        if width > MAX_CHANNELS:
            rule = f"{width} channels are rotary, but at most {MAX_CHANNELS} are possible"
            raise InvalidBody(rule)
        if self.rotary_offset + width > head_dim:
            rule = f"rotary_offset leaves fewer than {width} of {head_dim} channels"
            raise impossible("rotary_offset", self.rotary_offset, rule)


class RopeApply(RotatedFamily, StartParameters, AngleParameters, path="/rope/apply"):
    """Queries or keys, rotated by their positions.

    Formula: (x0·cos − x1·sin, x1·cos + x0·sin) for each pair (x0, x1) of channels, with the
        cosines and sines of ``/rope``; channels before and after the r rotary ones are copied.
        With mrope_layout=hunyuan_vl, x1 has a cosine and a sine of its own, as in its pack=half.
    Source: "RoFormer" (Su et al. 2021), §3.2.2; transformers 5.23.0 ``rotate_half``, and
        ``apply_rotary_pos_emb_interleave`` of DeepSeek-V3 for an output_layout.
    Bound: computed in float64 and rounded once to the type of x: before that rounding, the error is
        at most 7·2^-53·(|x0| + |x1|) times the attention factor: 6 for cosine and sine, 1/2 for the
        products and 1/2 for the sum. A pair with NaN or infinity becomes NaN or infinity; a result
        beyond the range of the type becomes infinite.
    Trap: the layout must be that of the model's weights: with the other one the result is wrong
        without any error; ``/rope/permutation`` converts weights.
    """

    operation: ClassVar[str] = "RopeApply"
    summary: ClassVar[str] = "Queries or keys rotated by their positions"
    example: ClassVar[str] = "start=1"
    hints: ClassVar = {
        **StartParameters.hints,
        "convention": "the conventions of images and videos are those of /rope/axial/apply",
    }

    layout: Layout = about(
        "Which channels are pairs: interleaved 2k and 2k+1, half k and k + rotary_dim/2.",
        "half",
        default="interleaved",
    )
    output_layout: Layout | None = optional(
        "Layout of the result; that of layout unless given. DeepSeek-V3 in transformers reads "
        "interleaved pairs and writes half pairs.",
        "half",
    )

    def apply(self, x: Vectors) -> tuple[TransformedTable, Mapping[str, ParameterValue]]:
        return self.rotated(x, self.angles_of(x.rows, x.width), self.layout, self.output_layout)

    def angles_of(self, rows: int, head_dim: int) -> RotaryAngles:
        """Return the angles of an array's vectors; raises InvalidParameters or InvalidBody."""
        if self.head_dim not in {None, head_dim}:
            rule = f"it has {head_dim} channels, but head_dim is {self.head_dim}"
            raise InvalidBody(rule)
        angles = self.angles(head_dim, lambda: self.positions_of(rows))
        if angles.by_channel and (self.inverse or self.layout != "half"):
            name = "inverse" if self.inverse else "layout"
            rule = "channels k and k + r/2 (layout=half) have angles of their own, and no inverse"
            raise impossible(name, getattr(self, name), f"with {self.mrope_layout}, {rule}")
        self.check_angles(angles, head_dim)
        return angles


class AxialApply(RotatedFamily, AxialAngles, path="/rope/axial/apply"):
    """Queries or keys of an image or a video, rotated by the coordinates of their tokens.

    Formula: that of ``/rope/apply``, with the cosines and sines of ``/rope/axial``. head_dim, or
        the sum of axes_dim, is the number of rotary channels; all channels unless given.
    Source: the library version in the description of each convention.
    Bound: that of ``/rope/apply``, without an attention factor.
    Trap: no convention determines the layout, because several models share each of them: it is that
        of the model. V-JEPA 2 multiplies the two channels of a pair by different cosines, which is
        no rotation.
    """

    operation: ClassVar[str] = "RopeAxialApply"
    summary: ClassVar[str] = "Queries or keys rotated by the convention of a library or a model"
    example: ClassVar[str] = "convention=qwen2_vl&grid=1,2&layout=half"
    hints: ClassVar = StartParameters.hints

    layout: AxialLayout = about(
        "Which channels are pairs: interleaved 2k and 2k+1, half k and k + head_dim/2, "
        "half_by_axis the halves of the channels of each axis.",
        "half",
    )

    def apply(self, x: Vectors) -> tuple[TransformedTable, Mapping[str, ParameterValue]]:
        known = self
        if self.head_dim is None and self.axes_dim is None:
            if x.width % 2:
                rule = f"head_dim is required, because {x.width} channels are no pairs"
                raise impossible("head_dim", None, rule)
            known = self.model_copy(update={"head_dim": x.width})
        if self.recipe.halves_axes and self.layout == "half":
            rule = f"convention={self.convention} has the halves of each axis: layout=half_by_axis"
            raise impossible("layout", self.layout, rule)
        if self.recipe.is_padded and "head" in x.axes:
            rule = f"convention={self.convention} has one table for the channels of all heads"
            raise InvalidParameters(Fault("axes", ",".join(x.axes), f"{rule}: leave out head"))
        return self.rotated(x, known.angles(), self.layout)


def _pair_channels(layout: Layout, rotary: range) -> tuple[range, range]:
    """Return the first channels of all pairs, and the second channels.

    ``interleaved`` pairs channels 2k and 2k+1 (RoFormer, Meta's Llama), ``half`` pairs k and
    k + r/2 (GPT-NeoX, transformers).
    """
    if layout == "half":
        return rotary[: len(rotary) // 2], rotary[len(rotary) // 2 :]
    return rotary[::2], rotary[1::2]


def _overlap(channels: range, columns: range) -> range:
    """Return the places in channels that are columns."""
    first, last = (
        -((channels.start - end) // channels.step) for end in (columns.start, columns.stop)
    )
    return range(len(channels))[max(first, 0) : max(last, 0)]


def _slice_of(channels: range, columns: range) -> slice:
    """Return the slice of columns that are channels."""
    first = channels.start - columns.start
    return slice(first, channels.stop - columns.start, channels.step)


class RopePermutation(TableFamily, WidthParameters, path="/rope/permutation"):
    """The row permutation that converts query and key weights to the other rotary layout.

    Formula: new = old[index], with an index of shape (heads·head_dim,). Within each head, output
        layout half has the rows 2k, then the rows 2k+1; interleaved has rows k and k + r/2 in turn;
        channels that are not rotary (rotary_dim, rotary_offset) stay. With num_key_value_heads
        there are two arrays, q and k.
    Source: the conversion of Llama from Meta's to transformers' weights, by view and transpose.
    Trap: the biases of these projections, and the weights of a norm of q and k, need the same
        permutation.
    """

    operation: ClassVar[str] = "RopePermutation"
    summary: ClassVar[str] = (
        "The row permutation that converts query and key weights to the other rotary layout"
    )
    example: ClassVar[str] = "head_dim=8&num_attention_heads=2"

    rotary_offset: RotaryOffset = 0
    layout: Layout = about(
        "Layout of the existing weights: interleaved, as Meta's, or half, as those of "
        "transformers.",
        "interleaved",
        default="interleaved",
    )
    output_layout: Layout | None = optional(
        "Layout of the new weights; the other one unless given.", "half"
    )
    num_attention_heads: Integer = about(
        "Number of query heads.", 32, ge=1, le=MAX_CHANNELS, default=1
    )
    num_key_value_heads: Integer | None = optional(
        "Number of key heads; if given, the answer has two arrays, q and k.",
        8,
        ge=1,
        le=MAX_CHANNELS,
    )
    part: Literal["q", "k"] | None = optional("Return only this array; both unless given.", "k")
    dtype: IndexDType = "int32"

    def document(self) -> Document:
        order, dtype = self.order(), self.element_type
        query_heads, key_heads = self.num_attention_heads, self.num_key_value_heads
        rows = max(query_heads, key_heads or 1) * order.head_dim
        if dtype is INT32 and rows > _MAX_INT32_ROWS:
            raise impossible("dtype", "int32", "more than 2^31 rows need dtype=int64")
        parameters = {**order.parameters(), "num_attention_heads": query_heads}
        table = PermutationTable(order, query_heads, dtype)
        if key_heads is None:
            return self.describe({"permutation": table}, parameters)
        arrays = {"q": table, "k": PermutationTable(order, key_heads, dtype)}
        parameters["num_key_value_heads"] = key_heads
        return self.describe(arrays, parameters, has_parts=True)

    def order(self) -> "HeadOrder":
        """Return the channel permutation of a head; raises InvalidParameters."""
        head_dim, offset = self.head_dim, self.rotary_offset
        if head_dim is None:
            raise impossible("head_dim", None, "head_dim is required")
        if offset and offset > head_dim - 2:
            rule = f"rotary_offset must leave at least 2 of the {head_dim} channels of a head"
            raise impossible("rotary_offset", offset, rule)
        if self.rotary_dim or self.partial_rotary_factor:
            rotary_dim = self.rotary_channels(head_dim)
        else:
            origin = ("rotary_offset", offset) if offset else ("head_dim", head_dim)
            rotary_dim = even_channels(*origin, head_dim - offset)
        assert rotary_dim is not None
        if offset + rotary_dim > head_dim:
            rule = f"{rotary_dim} rotary channels from {offset} on do not fit into {head_dim}"
            raise impossible("rotary_offset", offset, rule)
        other = "half" if self.layout == "interleaved" else "interleaved"
        return HeadOrder(head_dim, rotary_dim, offset, self.layout, self.output_layout or other)


@dataclass(frozen=True)
class HeadOrder:
    """The permutation of a head's channels that converts one rotary layout to another.

    Attributes:
        head_dim: the number of channels of a head.
        rotary_dim: the number of rotary channels; the others stay in place.
        rotary_offset: the number of channels before the rotary ones.
        layout: the layout of the existing weights, ``interleaved`` or ``half``.
        output_layout: the layout of the new weights.
    """

    head_dim: int
    rotary_dim: int
    rotary_offset: int
    layout: str
    output_layout: str

    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters."""
        return dict(vars(self))

    def sources(self, channels: Elements) -> Elements:
        """Return the old channel of each new channel (n,), shape (n,)."""
        rotary = channels - self.rotary_offset
        is_rotary = (rotary >= 0) & (rotary < self.rotary_dim)
        pairs = self.rotary_dim // 2
        moved = rotary
        if self.layout != self.output_layout:
            # New channel k is old channel 2k in half layout, and 2k is old k in interleaved.
            second, pair = np.divmod(rotary, pairs)
            if self.output_layout == "half":
                moved = 2 * pair + second
            else:
                pair, second = np.divmod(rotary, 2)
                moved = pair + second * pairs
        return np.where(is_rotary, moved + self.rotary_offset, channels)


@dataclass(frozen=True, eq=False)
class PermutationTable:
    """The old row of each new row of the weights: new = old[index].

    Attributes:
        order: the permutation of a head's channels.
        heads: the number of heads.
        dtype: the element type, an integer type.
    """

    order: HeadOrder
    heads: int
    dtype: DType

    element_seconds = 8 * ELEMENT_SECONDS

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.heads * self.order.head_dim,)

    def read(self, start: int, stop: int) -> Elements:
        head, channel = np.divmod(np.arange(start, stop, dtype=np.int64), self.order.head_dim)
        index = head * self.order.head_dim + self.order.sources(channel)
        return index.astype(self.dtype.storage)
