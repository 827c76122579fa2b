"""Queries and keys turned by their positions.

"RoFormer" (Su et al. 2021), §3.2.2: a pair of channels turns by the angle position·ω.

``/rope``: rotary tables and their frequencies, and queries and keys turned by them.

Index vectors that turn the weights of queries and keys of one layout into those of another.

A rotation pairs channels 2k and 2k+1 (``interleaved``: RoFormer, Meta's Llama) or k and k + r/2
(``half``: GPT-NeoX, transformers). The same model in the other layout has the rows of its query and
key projections (and their biases, and the weights of a norm of q and k) in another order within
each head: what conversions of Llama from Meta's to transformers' weights do by view and transpose.

``/rope/permutation``: the order of weights whose rotation has another layout.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from service.delivery.resources import Resource, Transform
from service.encodings.fields import (
    ArrayParameters,
    PositionParameters,
    StartParameters,
    impossible,
)
from service.encodings.rotary import packs as rotary
from service.encodings.rotary.angles import RotaryAngles, TurnParameters
from service.encodings.rotary.packs import PackParameters
from service.encodings.rotary.rules import (
    INTERMEDIATES,
    RotaryOffset,
    RuleParameters,
    WidthParameters,
    even_channels,
)
from service.errors import InvalidBody
from service.grammar import Boolean, Integer
from service.numerics.document import Document, ParameterValue
from service.numerics.dtypes import (
    FLOAT64,
    INDEX_DTYPES,
    INT32,
    REAL_DTYPES,
    DType,
    Elements,
    all_finite,
    largest_finite,
    round_results,
    to_float64,
)
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels, Component
from service.numerics.positions import Positions
from service.numerics.tables import StoredTable, Table, row_steps

# Arrays of float64 that a rotation goes through.
_ARRAYS = 8


@dataclass(frozen=True)
class Rotation:
    """The rotation of queries or keys by their positions.

    ``interleaved`` pairs channels 2k and 2k+1 (RoFormer, Meta's Llama), ``half`` pairs k and
    k + r/2 (GPT-NeoX, transformers 5.23.0 ``rotate_half``); channels before and after the r pass
    through. Computed in float64 and rounded once to x's type: before that, an output of the pair
    (x0, x1) is within 7·2^-53·(|x0| + |x1|) times the attention factor, 6 for cosine and sine, 1/2
    for the products and 1/2 for the sum. A pair with NaN or infinity turns into NaN or infinity;
    what is too large becomes infinite.

    Attributes:
        turns: the angles.
        layout: which channels are pairs.
        inverse: whether they turn the other way.
        output_layout: where they are put, as layout unless given: DeepSeek-V3 in transformers
            5.23.0 (``apply_rotary_pos_emb_interleave``) reads interleaved pairs, writes half ones.
        rotary_offset: channels before the first that turns.
    """

    turns: RotaryAngles
    layout: str
    inverse: bool
    output_layout: str | None = None
    rotary_offset: int = 0

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell what turns, and which way."""
        spelled = {**self.turns.parameters(), "layout": self.layout}
        if self._output_layout != self.layout:
            spelled["output_layout"] = self._output_layout
        if self.rotary_offset:
            spelled["rotary_offset"] = self.rotary_offset
        return {**spelled, "inverse": self.inverse}

    def of(self, x: StoredTable) -> StoredTable:
        """Rotate x, of shape (…, S, head_dim)."""
        *leading, rows, head_dim = x.shape
        width = 2 * self.turns.count
        turning = slice(self.rotary_offset, self.rotary_offset + width)
        source = x.elements.reshape(prod(leading), rows, head_dim)
        result = np.empty_like(source)
        is_finite = True
        for passing in (slice(0, turning.start), slice(turning.stop, None)):
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
                turned = self._turned(to_float64(source[group, part, turning], x.dtype), cos, sin)
                is_finite &= round_results(turned, result[group, part, turning], x.dtype)
        return StoredTable(result.reshape(x.shape), x.dtype, is_finite)

    def _table(self, name: Component, rows: int) -> Table:
        width = 2 * self.turns.count
        channels = Channels((name, name), self.layout == "interleaved", width)
        return self.turns.table(channels, FLOAT64, (rows, width))

    def _sign(self, sin: Float64s) -> None:
        """Turn sines into what multiplies the other channel of each pair."""
        if self.inverse:
            np.subtract(0.0, sin, out=sin)
        first, _ = self._pair_channels(self.layout)
        np.negative(sin[:, first], out=sin[:, first])

    def _turned(self, x: Float64s, cos: Float64s, sin: Float64s) -> Float64s:
        first, second = self._pair_channels(self.layout)
        with np.errstate(over="ignore", invalid="ignore"):
            turned = x * cos
            others = np.empty_like(turned)
            others[..., first], others[..., second] = x[..., second], x[..., first]
            others *= sin
            turned += others
        if self._output_layout != self.layout:
            to_first, to_second = self._pair_channels(self._output_layout)
            others[..., to_first], others[..., to_second] = turned[..., first], turned[..., second]
            return others
        return turned

    @property
    def _output_layout(self) -> str:
        return self.output_layout or self.layout

    def _pair_channels(self, layout: str) -> tuple[slice, slice]:
        pairs = self.turns.count
        if layout == "half":
            return slice(0, pairs), slice(pairs, 2 * pairs)
        return slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)


if TYPE_CHECKING:
    FrequencyArray: TypeAlias = str
else:
    FrequencyArray: TypeAlias = Literal[
        ("inv_freq", "wavelength", "attention_factor", *INTERMEDIATES)
    ]


class FrequenciesParameters(ArrayParameters, RuleParameters):
    """Parameters of the frequencies of a rotary embedding."""

    part: FrequencyArray | None = Field(
        default=None, description="Answer one of the arrays alone.", examples=["inv_freq"]
    )

    def chosen_part(self) -> str | None:
        """Name the one array that is wanted alone."""
        return self.part


class RopeParameters(PackParameters, PositionParameters, TurnParameters):
    """Parameters of a rotary table."""


class ApplyParameters(StartParameters, TurnParameters):
    """Parameters of a rotation."""

    layout: Literal["interleaved", "half"] = Field(
        default="interleaved",
        description="Which channels turn together: 2k and 2k+1, or k and k + rotary_dim/2.",
        examples=["half"],
    )
    output_layout: Literal["interleaved", "half"] | None = Field(
        default=None,
        description="Where turned channels are put: as layout unless given. DeepSeek-V3 in "
        "transformers reads interleaved pairs and writes half ones.",
        examples=["half"],
    )
    rotary_offset: RotaryOffset = 0
    inverse: Boolean = Field(
        default=False,
        description="Turn the other way, which undoes it where nothing is scaled.",
        examples=[False],
    )


def _rope(parameters: RopeParameters) -> Document:
    def sequence() -> Positions:
        return parameters.resolved_positions(parameters.max_position_embeddings)

    turns = parameters.turns(parameters.head_dim, sequence)
    if turns.peak > largest_finite(REAL_DTYPES[parameters.dtype]):
        rule = f"positions are so far from xpos_centre that {parameters.dtype} has no room"
        raise impossible("xpos_scale_base", parameters.xpos_scale_base, rule)
    return parameters.packed("rope", turns)


def _frequencies(parameters: FrequenciesParameters) -> Document:
    return rotary.frequencies(parameters.rule(parameters.head_dim))


def _apply(parameters: ApplyParameters, x: StoredTable) -> tuple[StoredTable, Mapping[str, Any]]:
    *_, rows, head_dim = x.shape
    if parameters.head_dim not in {None, head_dim}:
        raise InvalidBody(
            f"the last axis has {head_dim} channels, and head_dim is {parameters.head_dim}"
        )
    turns = parameters.turns(head_dim, lambda: parameters.positions_of(rows))
    if 2 * turns.count > MAX_CHANNELS:
        rule = f"{2 * turns.count} channels turn, and at most {MAX_CHANNELS} are possible"
        raise InvalidBody(rule)
    if turns.rows != rows:
        raise InvalidBody(f"there are positions of {turns.rows} rows, and the array has {rows}")
    turning = parameters.rotary_offset + 2 * turns.count
    if turning > head_dim:
        rule = f"rotary_offset leaves fewer than {2 * turns.count} of {head_dim} channels"
        raise impossible("rotary_offset", parameters.rotary_offset, rule)
    rotation = Rotation(
        turns=turns,
        layout=parameters.layout,
        inverse=parameters.inverse,
        output_layout=parameters.output_layout,
        rotary_offset=parameters.rotary_offset,
    )
    return rotation.of(x), rotation.parameters()


ROPE = Resource(
    path="/rope",
    operation="Rope",
    summary="The rotary table of positions, in the packing that a consumer expects",
    parameters=RopeParameters,
    document=_rope,
    example="head_dim=4&seq_len=2",
)
FREQUENCIES = Resource(
    path="/rope/frequencies",
    operation="RopeFrequencies",
    summary="The frequency of each pair of rotary channels, and how it came about",
    parameters=FrequenciesParameters,
    document=_frequencies,
    example="head_dim=4",
)
APPLY = Transform(
    path="/rope/apply",
    operation="RopeApply",
    summary="Queries or keys rotated by their positions",
    parameters=ApplyParameters,
    kind="rope-apply",
    apply=_apply,
    example="start=1",
)


@dataclass(frozen=True)
class HeadOrder:
    """The order of the channels of a head in one layout, by their places in the other.

    Attributes:
        head_dim: channels of a head.
        rotary_dim: how many of them turn; the others stay where they are.
        rotary_offset: channels before the first that turns.
        layout: of the weights there are, ``interleaved`` or ``half``.
        output_layout: of the weights wanted.
    """

    head_dim: int
    rotary_dim: int
    rotary_offset: int
    layout: str
    output_layout: str

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {
            "head_dim": self.head_dim,
            "rotary_dim": self.rotary_dim,
            "rotary_offset": self.rotary_offset,
            "layout": self.layout,
            "output_layout": self.output_layout,
        }

    def sources(self, channels: Elements) -> Elements:
        """Give the channel of the old layout for each of the new one, shape (n,)."""
        turning = channels - self.rotary_offset
        is_turning = (turning >= 0) & (turning < self.rotary_dim)
        pairs = self.rotary_dim // 2
        moved = turning
        if self.layout != self.output_layout:
            # To half: from 2k and 2k+1; to interleaved: from k and k + r/2.
            second, pair = np.divmod(turning, pairs)
            if self.output_layout == "half":
                moved = 2 * pair + second
            else:
                pair, second = np.divmod(turning, 2)
                moved = pair + second * pairs
        return np.where(is_turning, moved + self.rotary_offset, channels)


@dataclass(frozen=True, eq=False)
class PermutationTable:
    """The row of the old weights for each row of the new ones: new = old[index].

    Attributes:
        order: that of the channels of a head.
        heads: how many heads the rows are of.
        dtype: an integer type.
    """

    order: HeadOrder
    heads: int
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """A row for each channel of each head."""
        return (self.heads * self.order.head_dim,)

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        head, channel = np.divmod(np.arange(start, stop, dtype=np.int64), self.order.head_dim)
        index = head * self.order.head_dim + self.order.sources(channel)
        return index.astype(self.dtype.storage)


def permutation(
    *, order: HeadOrder, query_heads: int, key_heads: int | None, dtype: DType
) -> Document:
    """Describe the index vectors of the weights of queries, and of keys where they have others.

    Args:
        order: that of the channels of a head.
        query_heads: how many heads queries have.
        key_heads: how many keys have, where both are wanted.
        dtype: an integer type.
    """
    parameters = {**order.parameters(), "num_attention_heads": query_heads}
    if key_heads is None:
        table = PermutationTable(order, query_heads, dtype)
        return Document("rope-permutation", parameters, {"permutation": table})
    arrays = {
        "q": PermutationTable(order, query_heads, dtype),
        "k": PermutationTable(order, key_heads, dtype),
    }
    parameters["num_key_value_heads"] = key_heads
    return Document("rope-permutation", parameters, arrays, has_parts=True)


_MAX_INT32_ROWS = 2**31


class PermutationParameters(ArrayParameters, WidthParameters):
    """Parameters of an index vector of weights."""

    rotary_offset: RotaryOffset = 0
    layout: Literal["interleaved", "half"] = Field(
        default="interleaved",
        description="Layout of the weights there are: interleaved, as Meta's, or half, as those of "
        "transformers.",
        examples=["interleaved"],
    )
    output_layout: Literal["interleaved", "half"] | None = Field(
        default=None,
        description="Layout of the weights wanted; the other one unless given.",
        examples=["half"],
    )
    num_attention_heads: Integer = Field(
        default=1, ge=1, le=MAX_CHANNELS, description="Heads of queries.", examples=[32]
    )
    num_key_value_heads: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="Heads of keys, for two vectors q and k.",
        examples=[8],
    )
    part: Literal["q", "k"] | None = Field(
        default=None, description="Answer one of the two vectors alone.", examples=["k"]
    )
    dtype: Literal["int32", "int64"] = Field(
        default="int32", description="Type of the elements.", examples=["int32"]
    )

    def chosen_part(self) -> str | None:
        """Name the one of the two arrays that is wanted alone."""
        return self.part


def _permutation(parameters: PermutationParameters) -> Document:
    order = _order(parameters)
    heads = max(parameters.num_attention_heads, parameters.num_key_value_heads or 1)
    dtype = INDEX_DTYPES[parameters.dtype]
    if dtype is INT32 and heads * order.head_dim > _MAX_INT32_ROWS:
        raise impossible("dtype", "int32", "so many rows need dtype=int64")
    return permutation(
        order=order,
        query_heads=parameters.num_attention_heads,
        key_heads=parameters.num_key_value_heads,
        dtype=dtype,
    )


def _order(parameters: PermutationParameters) -> HeadOrder:
    head_dim, offset = parameters.head_dim, parameters.rotary_offset
    if head_dim is None:
        raise impossible("head_dim", None, "head_dim is required")
    if offset and offset > head_dim - 2:
        rule = f"rotary_offset must leave a pair of the {head_dim} channels of a head"
        raise impossible("rotary_offset", offset, rule)
    named = parameters.rotary_dim or parameters.partial_rotary_factor
    if named is None:
        origin = ("rotary_offset", offset) if offset else ("head_dim", head_dim)
        rotary_dim = even_channels(*origin, head_dim - offset)
    else:
        rotary_dim = parameters.turning_channels(head_dim)
    assert rotary_dim is not None
    if offset + rotary_dim > head_dim:
        rule = f"{rotary_dim} rotary channels from {offset} on do not fit into {head_dim}"
        raise impossible("rotary_offset", offset, rule)
    other = {"interleaved": "half", "half": "interleaved"}[parameters.layout]
    layouts = parameters.layout, parameters.output_layout or other
    return HeadOrder(head_dim, rotary_dim, offset, *layouts)


PERMUTATION = Resource(
    path="/rope/permutation",
    operation="RopePermutation",
    summary="The order in which weights of queries and keys have the other rotary layout",
    parameters=PermutationParameters,
    document=_permutation,
    example="head_dim=8&num_attention_heads=2",
)
