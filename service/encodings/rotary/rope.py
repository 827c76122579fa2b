"""Rotary embeddings along one sequence: tables, frequencies, rotated arrays, reordered weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import prod
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import numpy as np

from service.encodings.family import (
    PositionParameters,
    StartParameters,
    TableFamily,
    TransformFamily,
    about,
    impossible,
)
from service.encodings.rotary.angles import AngleParameters, RotaryAngles
from service.encodings.rotary.packs import PackedTable
from service.encodings.rotary.rule_parameters import (
    RotaryOffset,
    RuleParameters,
    WidthParameters,
    even_channels,
)
from service.encodings.rotary.rules import INTERMEDIATES, RotaryFrequencies
from service.errors import InvalidBody
from service.grammar import Boolean, Integer
from service.numerics.dtypes import (
    FLOAT64,
    INT32,
    DType,
    Elements,
    all_finite,
    largest_finite,
    round_results,
    to_float64,
)
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s, wavelengths
from service.numerics.phasors import Channels, Component
from service.numerics.tables import (
    DecimalTable,
    Document,
    ParameterValue,
    StoredTable,
    Table,
    row_steps,
)

Layout: TypeAlias = Literal["interleaved", "half"]

# Arrays of float64 that a rotation goes through.
_ARRAYS = 8
_MAX_INT32_ROWS = 2**31

if TYPE_CHECKING:
    FrequencyArray: TypeAlias = str
else:
    FrequencyArray: TypeAlias = Literal[
        ("inv_freq", "wavelength", "attention_factor", *INTERMEDIATES)
    ]


class Rope(PackedTable, PositionParameters, AngleParameters, path="/rope"):
    """Rotary tables: the cosines and sines by which queries and keys are rotated.

    M-RoPE: mrope_section=16,24,24 makes that many frequencies turn with the positions t, h and w,
    one axis after the other (Qwen2-VL), or frequency by frequency with mrope_interleaved=true
    (Qwen3-VL): h where k mod 3 is 1 and k < 3·section[1], w where it is 2 and k < 3·section[2],
    else t. Positions are positions_t, positions_h and positions_w, or grid=t,h,w; plain positions
    are those of text, the same for all three.

    angle=float32 rounds frequencies, positions and their products to float32, as engines do, and
    returns sines and cosines of that angle. With an engine's own inv_freq it is the engine's table,
    to an ulp or two. ``Array-Error-Bound`` (``error_bound`` in JSON and safetensors) bounds its
    distance from the exact formula over these positions, the rounding to the element type included.

    A rule refuses keys of other rules, except max_position_embeddings, which is also the number of
    rows where no other parameter gives it. inv_freq replaces the rule; attention_factor may go with
    it. JSON and safetensors hold a table of two arrays; formats of one array need part=cos or
    part=sin.

    Formula: cos(p·ω_k) and sin(p·ω_k) times the attention factor, for the frequencies ω_k of a
        rule, k = 0 … r/2 − 1. r is rotary_dim: head_dim unless rotary_dim, partial_rotary_factor or
        the number of inv_freq (one for two channels) says otherwise. With xpos also times ζ_k^±((p
        − centre)/scale_base), + for queries and − for keys, ζ_k = (2k + 0.4r)/(1.4r); the centre is
        half the rows (flash-attn) and the scale base 512 unless given.
    Source: "RoFormer" (Su et al. 2021), §3.2.2.
    Bound: every cosine and sine is within 4u, u = 2^-53, of the formula; times an attention factor
        within 6u of that factor. While |p·ω| < 1, also within 6u of the value's own size, 8u with
        an attention factor. xpos adds 2u of the value for each digit of p − centre to the base 64.
        An angle (pack=angle) is within 8u of its own size. All are rounded once to the element
        type.
    Trap: engines disagree on the packing: ``pack`` takes the name of a packing or of a consumer.
    """

    operation: ClassVar[str] = "Rope"
    summary: ClassVar[str] = "The rotary table of positions, in the packing that a consumer expects"
    example: ClassVar[str] = "head_dim=4&seq_len=2"

    def rotary_angles(self) -> RotaryAngles:
        angles = self.angles(
            self.head_dim, lambda: self.resolved_positions(self.max_position_embeddings)
        )
        if angles.peak > largest_finite(self.element_type):
            rule = f"positions are so far from xpos_centre that {self.dtype} has no room"
            raise impossible("xpos_scale_base", self.xpos_scale_base, rule)
        return angles


class RopeFrequencies(TableFamily, RuleParameters, path="/rope/frequencies"):
    """The frequencies of a rule and the numbers on the way to them, all float64.

    Formula: ``inv_freq`` (r/2,) in radians per position, by the rule; ``wavelength`` 2π/ω (r/2,)
        in positions, infinite where a frequency is 0; ``attention_factor`` (); the intermediates
        of the rule.
    Source: that of the rule.
    Bound: each number is the nearest to the formula; an infinite wavelength is null in JSON and inf
        in CSV.
    Trap: engines compute frequencies in float32, up to 2^-22 of their size away.
    """

    operation: ClassVar[str] = "RopeFrequencies"
    summary: ClassVar[str] = "The frequency of each pair of rotary channels, and how it came about"
    example: ClassVar[str] = "head_dim=4"

    part: Annotated[FrequencyArray | None, about("Answer one of the arrays alone.", "inv_freq")] = (
        None
    )

    def document(self) -> Document:
        return self.of(self.rule(self.head_dim))

    @classmethod
    def of(cls, rule: RotaryFrequencies) -> Document:
        """Return the document of a rule."""
        arrays: dict[str, Table] = {
            "inv_freq": DecimalTable((rule.count,), rule.exact),
            "wavelength": DecimalTable((rule.count,), lambda: wavelengths(rule.exact())),
            "attention_factor": DecimalTable((), lambda: [Decimal(rule.scale)]),
        }
        arrays |= rule.intermediates()
        return cls.describe(arrays, rule.parameters(), has_parts=True)


class RopeApply(TransformFamily, StartParameters, AngleParameters, path="/rope/apply"):
    """Queries or keys, rotated by their positions.

    Formula: (x0·cos − x1·sin, x1·cos + x0·sin) for each pair (x0, x1) of channels, with the
        cosines and sines of /rope; channels before and after the r rotary ones pass through.
    Source: "RoFormer" (Su et al. 2021), §3.2.2; transformers 5.23.0 ``rotate_half``.
    Bound: computed in float64 and rounded once to the type of x: before that, an output of the
        pair is within 7·2^-53·(|x0| + |x1|) times the attention factor, 6 for cosine and sine,
        1/2 for the products and 1/2 for the sum. A pair with NaN or infinity becomes NaN or
        infinity; what is too large becomes infinite.
    Trap: the same weights in the other layout give other numbers; see /rope/permutation.
    """

    operation: ClassVar[str] = "RopeApply"
    summary: ClassVar[str] = "Queries or keys rotated by their positions"
    example: ClassVar[str] = "start=1"

    layout: Annotated[
        Layout,
        about("Which channels are pairs: 2k and 2k+1, or k and k + rotary_dim/2.", "half"),
    ] = "interleaved"
    output_layout: Annotated[
        Layout | None,
        about(
            "Layout of the result: as layout unless given. DeepSeek-V3 in transformers "
            "reads interleaved pairs and writes half ones.",
            "half",
        ),
    ] = None
    rotary_offset: RotaryOffset = 0
    inverse: Annotated[
        Boolean,
        about("Rotate by the negative angles: the inverse unless scaled.", example=False),
    ] = False

    def apply(self, x: StoredTable) -> tuple[StoredTable, Mapping[str, ParameterValue]]:
        rotation = self.rotation(x.shape)
        return rotation.rotated(x), rotation.parameters()

    def rotation(self, shape: tuple[int, ...]) -> "Rotation":
        """Return the rotation of arrays of a shape; raises InvalidParameters or InvalidBody."""
        *_, rows, head_dim = shape
        if self.head_dim not in {None, head_dim}:
            raise InvalidBody(
                f"the last axis has {head_dim} channels, and head_dim is {self.head_dim}"
            )
        angles = self.angles(head_dim, lambda: self.positions_of(rows))
        width = 2 * angles.count
        if width > MAX_CHANNELS:
            raise InvalidBody(
                f"{width} channels are rotary, and at most {MAX_CHANNELS} are possible"
            )
        if angles.rows != rows:
            raise InvalidBody(
                f"there are positions of {angles.rows} rows, and the array has {rows}"
            )
        if self.rotary_offset + width > head_dim:
            rule = f"rotary_offset leaves fewer than {width} of {head_dim} channels"
            raise impossible("rotary_offset", self.rotary_offset, rule)
        return Rotation(angles, self.layout, self.inverse, self.output_layout, self.rotary_offset)


@dataclass(frozen=True)
class Rotation:
    """The rotation of queries or keys by angles.

    ``interleaved`` pairs channels 2k and 2k+1 (RoFormer, Meta's Llama), ``half`` pairs k and k +
    r/2 (GPT-NeoX, transformers).

    Attributes:
        angles: one for each pair of channels of a row.
        layout: which channels are pairs.
        inverse: whether to rotate by the negative angles.
        output_layout: the layout of the result, as layout unless given: DeepSeek-V3 in transformers
            5.23.0 (``apply_rotary_pos_emb_interleave``) reads interleaved pairs, writes half ones.
        rotary_offset: channels before the rotary ones.
    """

    angles: RotaryAngles
    layout: str
    inverse: bool
    output_layout: str | None = None
    rotary_offset: int = 0

    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters."""
        parameters = {**self.angles.parameters(), "layout": self.layout}
        if self._output_layout != self.layout:
            parameters["output_layout"] = self._output_layout
        if self.rotary_offset:
            parameters["rotary_offset"] = self.rotary_offset
        return {**parameters, "inverse": self.inverse}

    def rotated(self, x: StoredTable) -> StoredTable:
        """Rotate x, of shape (…, S, head_dim)."""
        *leading, rows, head_dim = x.shape
        width = 2 * self.angles.count
        rotary = slice(self.rotary_offset, self.rotary_offset + width)
        source = x.elements.reshape(prod(leading), rows, head_dim)
        result = np.empty_like(source)
        is_finite = True
        for passing in (slice(0, rotary.start), slice(rotary.stop, None)):
            result[..., passing] = source[..., passing]
            is_finite &= all_finite(result[..., passing], x.dtype)
        cosines, sines = self._table("cos", rows), self._table("sin", rows)
        for part in row_steps(rows, _ARRAYS * width):
            cos, sin = (
                table.read(part.start * width, part.stop * width).reshape(-1, width)
                for table in (cosines, sines)
            )
            self._sign(sin)
            for group in row_steps(len(source), _ARRAYS * cos.size):
                rotated = self._rotated(to_float64(source[group, part, rotary], x.dtype), cos, sin)
                is_finite &= round_results(rotated, result[group, part, rotary], x.dtype)
        return StoredTable(result.reshape(x.shape), x.dtype, is_finite)

    def _table(self, name: Component, rows: int) -> Table:
        width = 2 * self.angles.count
        channels = Channels((name, name), self.layout == "interleaved", width)
        return self.angles.table(channels, FLOAT64, (rows, width))

    def _sign(self, sin: Float64s) -> None:
        """Change sines, in place, into the multipliers of the other channel of each pair."""
        if self.inverse:
            np.subtract(0.0, sin, out=sin)
        first, _ = self._pair_channels(self.layout)
        np.negative(sin[:, first], out=sin[:, first])

    def _rotated(self, x: Float64s, cos: Float64s, sin: Float64s) -> Float64s:
        first, second = self._pair_channels(self.layout)
        with np.errstate(over="ignore", invalid="ignore"):
            rotated = x * cos
            others = np.empty_like(rotated)
            others[..., first], others[..., second] = x[..., second], x[..., first]
            others *= sin
            rotated += others
        if self._output_layout != self.layout:
            to_first, to_second = self._pair_channels(self._output_layout)
            others[..., to_first], others[..., to_second] = (
                rotated[..., first],
                rotated[..., second],
            )
            return others
        return rotated

    @property
    def _output_layout(self) -> str:
        return self.output_layout or self.layout

    def _pair_channels(self, layout: str) -> tuple[slice, slice]:
        pairs = self.angles.count
        if layout == "half":
            return slice(0, pairs), slice(pairs, 2 * pairs)
        return slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)


class RopePermutation(TableFamily, WidthParameters, path="/rope/permutation"):
    """The order of the rows of query and key weights that have the other rotary layout.

    Formula: new = old[index], an index of shape (heads·head_dim,). Within each head, to half: from
        2k and 2k+1; to interleaved: from k and k + r/2; channels that do not turn (rotary_dim,
        rotary_offset) stay. num_key_value_heads makes two arrays, q and k.
    Source: the conversion of Llama from Meta's to transformers' weights, by view and transpose.
    Trap: biases of these projections, and weights of a norm of q and k, move along.
    """

    operation: ClassVar[str] = "RopePermutation"
    summary: ClassVar[str] = (
        "The order in which weights of queries and keys have the other rotary layout"
    )
    example: ClassVar[str] = "head_dim=8&num_attention_heads=2"

    rotary_offset: RotaryOffset = 0
    layout: Annotated[
        Layout,
        about(
            "Layout of the weights there are: interleaved, as Meta's, or half, as those of "
            "transformers.",
            "interleaved",
        ),
    ] = "interleaved"
    output_layout: Annotated[
        Layout | None, about("Layout of the weights wanted; the other one unless given.", "half")
    ] = None
    num_attention_heads: Annotated[
        Integer, about("Heads of queries.", 32, ge=1, le=MAX_CHANNELS)
    ] = 1
    num_key_value_heads: Annotated[
        Integer | None, about("Heads of keys, for two vectors q and k.", 8, ge=1, le=MAX_CHANNELS)
    ] = None
    part: Annotated[
        Literal["q", "k"] | None, about("Answer one of the two vectors alone.", "k")
    ] = None
    dtype: Annotated[Literal["int32", "int64"], about("Type of the elements.", "int32")] = "int32"

    def document(self) -> Document:
        order, dtype = self.order(), self.element_type
        query_heads, key_heads = self.num_attention_heads, self.num_key_value_heads
        rows = max(query_heads, key_heads or 1) * order.head_dim
        if dtype is INT32 and rows > _MAX_INT32_ROWS:
            raise impossible("dtype", "int32", "so many rows need dtype=int64")
        parameters = {**order.parameters(), "num_attention_heads": query_heads}
        table = PermutationTable(order, query_heads, dtype)
        if key_heads is None:
            return self.describe({"permutation": table}, parameters)
        arrays = {"q": table, "k": PermutationTable(order, key_heads, dtype)}
        parameters["num_key_value_heads"] = key_heads
        return self.describe(arrays, parameters, has_parts=True)

    def order(self) -> "HeadOrder":
        """Return the order of the channels of a head; raises InvalidParameters."""
        head_dim, offset = self.head_dim, self.rotary_offset
        if head_dim is None:
            raise impossible("head_dim", None, "head_dim is required")
        if offset and offset > head_dim - 2:
            rule = f"rotary_offset must leave a pair of the {head_dim} channels of a head"
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
    """The order of the channels of a head in one layout, by their places in the other.

    Attributes:
        head_dim: channels of a head.
        rotary_dim: rotary channels of a head; the others stay in place.
        rotary_offset: channels before the rotary ones.
        layout: of the weights there are, ``interleaved`` or ``half``.
        output_layout: of the weights wanted.
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
        """Return the channel of the old layout for each of the new one, shape (n,)."""
        rotary = channels - self.rotary_offset
        is_rotary = (rotary >= 0) & (rotary < self.rotary_dim)
        pairs = self.rotary_dim // 2
        moved = rotary
        if self.layout != self.output_layout:
            # To half: from 2k and 2k+1; to interleaved: from k and k + r/2.
            second, pair = np.divmod(rotary, pairs)
            if self.output_layout == "half":
                moved = 2 * pair + second
            else:
                pair, second = np.divmod(rotary, 2)
                moved = pair + second * pairs
        return np.where(is_rotary, moved + self.rotary_offset, channels)


@dataclass(frozen=True, eq=False)
class PermutationTable:
    """The row of the old weights for each row of the new ones: new = old[index].

    Attributes:
        order: the order of the channels of a head.
        heads: how many heads the rows are of.
        dtype: an integer type.
    """

    order: HeadOrder
    heads: int
    dtype: DType

    work_per_element = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.heads * self.order.head_dim,)

    def read(self, start: int, stop: int) -> Elements:
        head, channel = np.divmod(np.arange(start, stop, dtype=np.int64), self.order.head_dim)
        index = head * self.order.head_dim + self.order.sources(channel)
        return index.astype(self.dtype.storage)
