"""Sinusoids of relative positions (Transformer-XL, XLNet, Conformer), and the relative shift.

The sinusoids are the rows of the matrix R in the papers: sin(r·ω_k) and cos(r·ω_k) with
ω_k = base^(−2k/d_model), for descending relative positions r; the first row is the farthest key on
the left. The relative shift rearranges scores by relative position as scores by key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from service.encodings.family import (
    ChannelCount,
    ChannelTable,
    ComposedFamily,
    EvenChannelCount,
    InputArray,
    RealDType,
    SeriesBase,
    about,
    impossible,
    optional,
)
from service.encodings.meaning import ChannelColumns, Meaning
from service.encodings.transforms import AxisNames
from service.errors import InvalidBody
from service.grammar import Boolean, Integer
from service.numerics.dtypes import DType, Elements
from service.numerics.limits import MAX_LENGTH
from service.numerics.phase import Float64s, Geometric, geometric
from service.numerics.phasors import (
    Channels,
    PhasorTable,
    both_phasors,
    phasor_seconds,
    sines_and_cosines,
)
from service.numerics.positions import Positions, Run
from service.numerics.tables import (
    ELEMENT_SECONDS,
    Document,
    FormulaTable,
    ParameterValue,
    StoredTable,
    Table,
    all_read_finite,
    read_blocks,
)

_KeyLen = Annotated[
    Integer,
    about("Number of keys, in the memory and the segment together.", 6, ge=1, le=MAX_LENGTH),
]
_ClampLen = Annotated[
    Integer,
    about(
        "Relative positions are limited to -clamp_len … clamp_len; no limit unless positive.",
        3,
        ge=-1,
        le=MAX_LENGTH,
    ),
]


_DIRECTIONS = ("position", "negated position")


class RelativeSines(ChannelTable):
    """Base class of tables of sinusoids with a row for each of descending relative positions."""

    is_interleaved: ClassVar[bool] = False

    if TYPE_CHECKING:
        d_model: int
        base: float

    def positions(self) -> Positions:
        """Return the relative position of each row."""
        raise NotImplementedError

    @property
    def rule(self) -> Geometric:
        """The ⌈d_model/2⌉ frequencies."""
        return geometric(self.d_model, self.base)

    @property
    def axes(self) -> tuple[str, ...]:
        return "position", "channel"

    @property
    def places(self) -> Mapping[str, Positions]:
        return {"position": self.positions()}

    @property
    def row_channels(self) -> Channels:
        """The order of sines and cosines in a row."""
        return Channels(("sin", "cos"), self.is_interleaved, width=2 * self.rule.count)

    def meaning(self) -> Meaning:
        channels, has_directions = self.row_channels, "direction" in self.axes
        columns = tuple(
            replace(each, axis=axis)
            for number, axis in enumerate(_DIRECTIONS if has_directions else (None,))
            for each in ChannelColumns.of(channels, number * channels.width)
        )
        if has_directions and self.channels is not None:
            # The columns that are selected are not those of one series of places.
            columns = ()
        return Meaning(columns, (-1, 1), is_steady=True, frequencies="/encoding/frequencies")

    def table(self) -> Table:
        channels, positions = self.row_channels, self.positions()
        shape = (positions.count, channels.width)
        return PhasorTable(self.rule, channels, positions, self.element_type, shape)

    def canonical(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters, without clamp_len if it sets no limit."""
        parameters = super().canonical()
        if getattr(self, "clamp_len", 1) <= 0:
            del parameters["clamp_len"]
        return parameters


class TransformerXL(RelativeSines, path="/relative/transformer-xl"):
    """Transformer-XL's sinusoids of the distances r = key_len − 1, …, 1, 0: [sines, cosines].

    Formula: sin(r·ω_k), then cos(r·ω_k), ω_k = base^(−2k/d_model), k = 0 … ⌈d_model/2⌉ − 1.
    Source: "Transformer-XL" (Dai et al. 2019), appendix B; kimiyoung/transformer-xl, commit
        44781ed, ``PositionalEmbedding`` and ``MemTransformerLM._forward``.
    Bound: 5·2^-53.
    Trap: the first row is for the farthest key, not for distance 0: with the rows in the other
        order, the relative shift runs without error but assigns scores to wrong keys. For an odd
        d_model the table has d_model + 1 channels, as in the library.
    """

    operation: ClassVar[str] = "RelativeTransformerXL"
    example: ClassVar[str] = "d_model=4&key_len=3&base=100"
    array: ClassVar[str] = "transformer_xl"

    d_model: ChannelCount
    base: SeriesBase = 10000.0
    key_len: _KeyLen
    clamp_len: _ClampLen = -1
    dtype: RealDType = "float32"

    def positions(self) -> Positions:
        return descending(self.key_len - 1, 0, self.clamp_len)


class XLNet(RelativeSines, path="/relative/xlnet"):
    """XLNet's sinusoids of the positions r = key_len, …, 1 − query_len: [sines, cosines].

    Formula: sin(r·ω_k), then cos(r·ω_k), with Transformer-XL's ω_k. With attn_type=uni the
        positions end with 0; a positive clamp_len limits them to ±clamp_len; bi_data adds a second
        direction with the positions −r: (rows, 2, channels).
    Source: "XLNet" (Yang et al. 2019); transformers 5.23.0
        ``XLNetModel.relative_positional_encoding``.
    Bound: 5·2^-53.
    Trap: the first position is key_len, Transformer-XL's is key_len − 1, because XLNet's shift
        drops a column of scores. With Transformer-XL's shift every distance is off by one. For an
        odd d_model the table has d_model + 1 channels.
    """

    operation: ClassVar[str] = "RelativeXLNet"
    example: ClassVar[str] = "d_model=4&query_len=2&key_len=3&base=100"
    array: ClassVar[str] = "xlnet"
    models: ClassVar[str] = "funnel"

    d_model: ChannelCount
    base: SeriesBase = 10000.0
    key_len: _KeyLen
    attn_type: Literal["bi", "uni"] = about(
        "bi: attention to both sides; uni: to keys on the left only, so positions end with 0.",
        "bi",
        default="bi",
    )
    bi_data: Boolean = about(
        "Whether to add a second direction with the negated positions: (rows, 2, channels).",
        False,
        default=False,
    )
    clamp_len: _ClampLen = -1
    query_len: Integer | None = optional(
        "Number of queries: positions end with 1 - query_len. Required with attn_type=bi, "
        "refused with uni.",
        2,
        ge=1,
        le=MAX_LENGTH,
    )
    dtype: RealDType = "float32"

    def removable_axes(self) -> Mapping[str, str]:
        return {"direction": "leave out bi_data"}

    @property
    def axes(self) -> tuple[str, ...]:
        return ("position", "direction", "channel") if self.bi_data else super().axes

    @property
    def places(self) -> Mapping[str, Positions]:
        return {} if self.bi_data else super().places

    def positions(self) -> Positions:
        if self.attn_type == "bi" and self.query_len is None:
            raise impossible("query_len", None, "query_len is required with attn_type=bi")
        if self.attn_type == "uni" and self.query_len is not None:
            rule = "query_len does not go with attn_type=uni, whose positions end with 0"
            raise impossible("query_len", self.query_len, rule)
        return descending(self.key_len, 1 - (self.query_len or 1), self.clamp_len)

    def table(self) -> Table:
        return self._of_both_directions() if self.bi_data else super().table()

    def _of_both_directions(self) -> Table:
        rule, positions = self.rule, self.positions()

        def evaluate(rows: range, columns: range) -> Float64s:
            """Return some rows of both directions; sin(−r·ω) is −sin(r·ω)."""
            sine, cosine = sines_and_cosines(rule, positions.at(rows.start, rows.stop))
            both = np.concatenate([sine, cosine, 0.0 - sine, cosine], axis=1)
            return both[:, columns.start : columns.stop]

        return FormulaTable(
            (positions.count, 2, 2 * rule.count),
            self.element_type,
            4 * rule.count,
            evaluate,
            element_seconds=phasor_seconds(2 * rule.count, positions),
            setup=both_phasors(rule),
        )


class Conformer(RelativeSines, path="/relative/conformer"):
    """Conformer's alternating sines and cosines of r = seq_len − 1, …, −(seq_len − 1).

    Formula: sin(r·ω_k), cos(r·ω_k) in channels 2k and 2k + 1, ω_k = base^(−2k/d_model); r is
        positive for keys to the left. d_model is even: the libraries fail for an odd d_model.
    Source: "Conformer" (Gulati et al. 2020); transformers 5.23.0
        ``Wav2Vec2ConformerRelPositionalEmbedding`` and, with the same numbers,
        ``RelPositionalEncoding`` of ESPnet and fairseq.
    Bound: 5·2^-53.
    Trap: sine and cosine alternate here; Transformer-XL, which has the same relative shift, and
        XLNet have all sines first. Keys to the left and to the right differ in the sign of the
        sines.
    """

    example: ClassVar[str] = "d_model=4&seq_len=2&base=100"
    array: ClassVar[str] = "conformer"
    models: ClassVar[str] = "wav2vec2-conformer parakeet_ctc"
    is_interleaved: ClassVar[bool] = True

    d_model: EvenChannelCount
    base: SeriesBase = 10000.0
    seq_len: Integer = about(
        "Number of frames; there are 2·seq_len - 1 rows.", 3, ge=1, le=MAX_LENGTH
    )
    dtype: RealDType = "float32"

    def positions(self) -> Positions:
        return descending(self.seq_len - 1, 1 - self.seq_len)


def descending(first: int, last: int, clamp_len: int = -1) -> Positions:
    """Return the positions first, first − 1, …, last, limited to ±clamp_len if it is positive."""
    limit = clamp_len if clamp_len > 0 else max(first, -last)
    highest, lowest = min(first, limit), max(last, -limit)
    runs = (
        Run(highest, 0, first - highest),
        Run(highest, -1, highest - lowest + 1),
        Run(lowest, 0, lowest - last),
    )
    return Positions.of_runs(run for run in runs if run.count)


_SCORE_NAMES = AxisNames(
    required=("query", "key"),
    others=("batch", "head"),
    defaults=(("query", "key"), ("query", "key", "batch")),
    usual={
        "query,key,batch,head": "Transformer-XL",
        "batch,head,query,key": "XLNet in transformers",
    },
)


class RelativeShift(ComposedFamily, path="/relative/transformer-xl/shift"):
    """Relative shift of scores x (query, row of R, …): column j of a row is its score for key j.

    Formula: ``transformer-xl`` puts a column of zeros before x, reads the memory of (queries,
        columns) as (columns, queries) and drops the first row: for q queries, element (i, j) is
        x[i, j + q − 1 − i]. ``xlnet`` adds no zeros: element (i, j) is x[i, j + q − i], and the
        first key_len columns are kept.
    Source: kimiyoung/transformer-xl, commit 44781ed, ``RelMultiHeadAttn._rel_shift``; transformers
        5.23.0 ``XLNetRelativeAttention.rel_shift``.
    Bound: exact; elements are copied.
    Trap: where x has no such column, the result has the next element in memory (with
        ``transformer-xl`` a zero, then scores of query i + 1), so the scores still need a causal
        mask. zero_triu=true puts 0 there (for k keys, where j > i + k − q); 0 is not a mask
        either: use −∞.
    """

    operation: ClassVar[str] = "RelativeTransformerXLShift"
    example: ClassVar[str] = ""
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "x",
            "scores (query, row of R), or with further axes, named by axes",
            ranks=(2, 3, 4),
            example=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        ),
    )

    convention: Literal["transformer-xl", "xlnet"] = about(
        "The library whose shift is used: transformer-xl puts a column of zeros first, xlnet does "
        "not, because its R has an additional row.",
        "transformer-xl",
        default="transformer-xl",
    )
    zero_triu: Boolean = about(
        "Only with transformer-xl: whether scores that a causal mask hides are 0.",
        False,
        default=False,
    )
    key_len: Integer | None = optional(
        "Only with xlnet: the number of columns to keep; all shifted columns unless given.",
        2,
        ge=1,
        le=MAX_LENGTH,
    )
    axes: Annotated[
        tuple[str, ...] | None,
        BeforeValidator(_SCORE_NAMES.parse),
        _SCORE_NAMES.schema,
        _SCORE_NAMES.field,
    ] = None

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        x = arrays["x"]
        axes = _SCORE_NAMES.of(self.axes, len(x.shape), "x")
        query, key = axes.index("query"), axes.index("key")
        parameters: dict[str, ParameterValue] = {"convention": self.convention}
        if self.convention == "transformer-xl":
            self._refuse_key_len()
            parameters["zero_triu"] = self.zero_triu
            table = ShiftedTable(x, query, key, 1, x.shape[key], self.zero_triu)
        else:
            parameters["key_len"] = key_len = self._checked_key_len(x.shape[key] - 1)
            table = ShiftedTable(x, query, key, 0, key_len)
        parameters["axes"] = ",".join(axes)
        return self.describe({"shift": table}, parameters, axes=axes, states_axes=True)

    def _refuse_key_len(self) -> None:
        if self.key_len is not None:
            rule = "key_len goes with convention=xlnet: transformer-xl keeps all columns"
            raise impossible("key_len", self.key_len, rule)

    def _checked_key_len(self, most: int) -> int:
        if self.zero_triu:
            raise impossible("zero_triu", True, "zero_triu goes with convention=transformer-xl")
        if most < 1:
            raise InvalidBody("x must have at least 2 columns: xlnet's shift drops one", "/x")
        if (self.key_len or most) > most:
            rule = f"key_len must be at most {most}: x has {most + 1} columns, the shift drops one"
            raise impossible("key_len", self.key_len, rule)
        return self.key_len or most


@dataclass(frozen=True, eq=False)
class ShiftedTable:
    """Scores of queries for rows of R, shifted to scores for keys.

    Attributes:
        scores: with axes of queries, of rows of R and any others.
        query: the axis of queries.
        key: the axis of rows of R, and of keys in the result.
        zeros: the number of columns of zeros before the scores, 0 or 1.
        keys: the number of columns of the result.
        is_masked: whether scores that a causal mask hides are 0.
    """

    scores: StoredTable
    query: int
    key: int
    zeros: int
    keys: int
    is_masked: bool = False

    @property
    def element_seconds(self) -> float:
        # Where the last axis is another one, a place is found once for all of it.
        others = 1 if len(self.shape) - 1 in {self.query, self.key} else self.shape[-1]
        return ELEMENT_SECONDS * (4 + 8 / others)

    @property
    def shape(self) -> tuple[int, ...]:
        before, after = self.scores.shape[: self.key], self.scores.shape[self.key + 1 :]
        return (*before, self.keys, *after)

    @property
    def dtype(self) -> DType:
        return self.scores.dtype

    @property
    def is_finite(self) -> bool:
        """True if all scores that the result has are finite."""
        return all_read_finite(self)

    def read(self, start: int, stop: int) -> Elements:
        return read_blocks(start, stop, self.shape[-1], self.dtype, self._fill)

    def _fill(self, rows: range, last: range, block: Elements) -> None:
        """Fill a block with the scores of some places, counted along all axes but the last."""
        queries, columns = self.scores.shape[self.query], self.scores.shape[self.key]
        leading = np.unravel_index(np.arange(rows.start, rows.stop), self.shape[:-1])
        places = [*(place[:, np.newaxis] for place in leading), np.arange(last.start, last.stop)]
        query, key = places[self.query], places[self.key]
        # (query, column) is read as (column, query), and the first row dropped: one query more, and
        # a column less in each row.
        width = columns + self.zeros
        row, column = np.divmod(queries + query * (width - 1) + key, width)
        is_zero = column < self.zeros
        if self.is_masked:
            is_zero |= key > query + columns - queries
        places[self.query], places[self.key] = row, np.maximum(column - self.zeros, 0)
        found = self.scores.elements[tuple(places)]
        block[...] = np.where(is_zero, found.dtype.type(0), found)
