"""Sinusoids of relative positions: the R of Transformer-XL, XLNet and Conformer.

All are sin(r·ω_k) and cos(r·ω_k) with ω_k = base^(−2k/d_model), for the relative positions r of a
convention, the farthest key to the left first. Where d_model is odd, Transformer-XL and XLNet make
a sine and a cosine of every k up to ⌈d_model/2⌉, one channel more than asked for.

Every value is within 5·2^-53 of these formulas before it is rounded once to its element type.

The relative shift: scores by relative position to scores by key, by moving data alone.

``/relative/transformer-xl``: the sinusoids of distances, and the shift of scores by them.

``/relative/xlnet``: the sinusoids of XLNet's relative positions.

``/relative/conformer``: the sinusoids of differences between frames.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from pydantic import Field

from service.delivery.resources import Composition, Resource
from service.encodings.absolute.sinusoidal import geometric
from service.encodings.family import InputArray
from service.encodings.fields import (
    ArrayParameters,
    Parameters,
    RealDType,
    base_field,
    d_model_field,
    dtype_field,
    impossible,
)
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real
from service.numerics.document import Document, ParameterValue
from service.numerics.dtypes import REAL_DTYPES, DType, Elements, all_finite, round_into
from service.numerics.frequencies import Geometric
from service.numerics.limits import MAX_LENGTH
from service.numerics.phasors import Channels, PhasorTable, sines_and_cosines
from service.numerics.positions import Positions, Run
from service.numerics.tables import FREQUENCY_WORK, RowTable, StoredTable, row_steps

AttentionType: TypeAlias = Literal["bi", "uni"]

# Arrays of a sine's width that a step of two directions goes through.
_ARRAYS = 6


def transformer_xl(
    *, d_model: int, base: float, key_len: int, clamp_len: int, dtype: DType
) -> Document:
    """Describe the rows of the distances key_len − 1, …, 1, 0, each [sines, cosines].

    "Transformer-XL" (Dai et al. 2019), appendix B; kimiyoung/transformer-xl, commit 44781ed,
    ``PositionalEmbedding`` and ``MemTransformerLM._forward``.

    Args:
        d_model: channels, at least 1.
        base: of the frequencies.
        key_len: memory and segment together.
        clamp_len: the farthest distance that is told from those beyond; none unless positive.
        dtype: a real element type.
    """
    distances = _descending(key_len - 1, 0, clamp_len)
    parameters: dict[str, ParameterValue] = {"d_model": d_model, "base": base, "key_len": key_len}
    parameters |= _clamped(clamp_len)
    return _document("transformer-xl", parameters, distances, dtype)


def xlnet(
    *,
    d_model: int,
    base: float,
    query_len: int | None,
    key_len: int,
    attn_type: AttentionType,
    bi_data: bool,
    clamp_len: int,
    dtype: DType,
) -> Document:
    """Describe the rows of the positions key_len, …, 1 − query_len, each [sines, cosines].

    "XLNet" (Yang et al. 2019); transformers 5.23.0 ``XLNetModel.relative_positional_encoding``.

    Args:
        d_model: channels, at least 1.
        base: of the frequencies.
        query_len: queries; of no matter where the attention is ``uni``.
        key_len: memory and segment together.
        attn_type: ``bi``, or ``uni`` for rows that end with position 0.
        bi_data: whether there is a second direction, of the opposite positions: the shape is
            (rows, 2, channels) then.
        clamp_len: as far as positions are told apart, to both sides; none unless positive.
        dtype: a real element type.
    """
    parameters: dict[str, ParameterValue] = {"d_model": d_model, "base": base, "key_len": key_len}
    parameters |= {"attn_type": attn_type, "bi_data": bi_data, **_clamped(clamp_len)}
    last = 0
    if attn_type == "bi":
        assert query_len is not None
        parameters["query_len"], last = query_len, 1 - query_len
    positions = _descending(key_len, last, clamp_len)
    if not bi_data:
        return _document("xlnet", parameters, positions, dtype)
    table = MirroredTable(geometric(d_model, base), positions, dtype)
    axes = ("position", "direction", "channel")
    return Document("relative-xlnet", parameters, {"xlnet": table}, axes=axes, states_axes=True)


def conformer(*, d_model: int, base: float, seq_len: int, dtype: DType) -> Document:
    """Describe the rows of the positions seq_len − 1, …, −(seq_len − 1), sine and cosine in turn.

    "Conformer" (Gulati et al. 2020); ``Wav2Vec2ConformerRelPositionalEmbedding`` of transformers
    5.23.0 and, with the same numbers, ``RelPositionalEncoding`` of ESPnet and fairseq.

    Args:
        d_model: channels, an even number.
        base: of the frequencies.
        seq_len: frames; a row for each of their differences, those of keys to the left first.
        dtype: a real element type.
    """
    parameters: dict[str, ParameterValue] = {"d_model": d_model, "base": base, "seq_len": seq_len}
    positions = _descending(seq_len - 1, 1 - seq_len, 0)
    return _document("conformer", parameters, positions, dtype)


def _document(
    family: str, parameters: dict[str, ParameterValue], positions: Positions, dtype: DType
) -> Document:
    d_model, base = parameters["d_model"], parameters["base"]
    assert isinstance(d_model, int)
    assert isinstance(base, float)
    rule = geometric(d_model, base)
    channels = Channels(("sin", "cos"), interleaved=family == "conformer", width=2 * rule.count)
    table = PhasorTable(rule, channels, positions, dtype, (positions.count, channels.width))
    name = family.replace("-", "_")
    axes = ("position", "channel")
    return Document(
        f"relative-{family}",
        parameters,
        {name: table},
        axes=axes,
        states_axes=True,
        places={"position": positions},
    )


def _clamped(clamp_len: int) -> dict[str, ParameterValue]:
    return {"clamp_len": clamp_len} if clamp_len > 0 else {}


def _descending(first: int, last: int, clamp_len: int) -> Positions:
    """Give first, first − 1, …, last, those beyond ±clamp_len moved there where it is positive."""
    limit = clamp_len if clamp_len > 0 else max(first, -last)
    highest, lowest = min(first, limit), max(last, -limit)
    runs = (
        Run(highest, 0, first - highest),
        Run(highest, -1, highest - lowest + 1),
        Run(lowest, 0, lowest - last),
    )
    return Positions.of_runs(run for run in runs if run.count)


@dataclass(frozen=True, eq=False)
class MirroredTable(RowTable):
    """Sines and cosines of positions, and beside them those of the opposite positions.

    Attributes:
        rule: the frequencies.
        positions: the position of each row in the first direction.
        dtype: a real element type.
    """

    rule: Geometric
    positions: Positions
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Positions by directions by channels."""
        return self.positions.count, 2, 2 * self.rule.count

    @property
    def setup_work(self) -> int:
        """Its frequencies."""
        return FREQUENCY_WORK * self.rule.count

    @property
    def row_width(self) -> int:
        """Channels of both directions."""
        return 4 * self.rule.count

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on; a sine of −r is minus that of r."""
        for part in row_steps(len(rows), _ARRAYS * self.rule.count):
            positions = self.positions.at(first + part.start, first + part.stop)
            both = sines_and_cosines(self.rule, positions)
            opposite = 0.0 - both[:, : self.rule.count], both[:, self.rule.count :]
            exact = np.concatenate([both, *opposite], axis=1)
            round_into(exact, rows[part], self.dtype)


ShiftConvention: TypeAlias = Literal["transformer-xl", "xlnet"]

AXES = ("query", "key", "batch", "head")


def shift_transformer_xl(x: StoredTable, *, zero_triu: bool) -> Document:
    """Shift scores x (query, row of R, …) so that column j of query i is of its distance to key j.

    A column of zeros goes before x, the result is read as rows of as many elements as there are
    queries, and the first of them dropped: element (i, j) is x[i, j + q − 1 − i] while that column
    exists. Later ones hold what comes next in memory, a zero and then numbers of query i + 1, which
    a causal mask hides. kimiyoung/transformer-xl, commit 44781ed, ``RelMultiHeadAttn._rel_shift``.

    Args:
        x: a row for each query, a column for each row of R, any further axes.
        zero_triu: whether what a causal mask hides, keys j > i + k − q, is 0 instead.
    """
    queries, keys, *others = x.shape
    padded = np.zeros((queries, keys + 1, *others), dtype=x.elements.dtype)
    padded[:, 1:] = x.elements
    shifted = _dropped(padded).reshape(x.shape)
    if zero_triu:
        query, key = np.ogrid[:queries, :keys]
        shifted[key > query + keys - queries] = 0
    return _shift_document(shifted, x, {"convention": "transformer-xl", "zero_triu": zero_triu})


def shift_xlnet(x: StoredTable, *, key_len: int) -> Document:
    """Shift scores x (query, row of R, …), whose last rows are of keys to the right, to key_len.

    Element (i, j) is x[i, j + q − i], and where no such column exists what comes next in memory.
    transformers 5.23.0 ``XLNetRelativeAttention.rel_shift``.

    Args:
        x: a row for each query, a column for each row of R, any further axes.
        key_len: keys that are kept, below the number of columns of x.
    """
    queries, columns, *others = x.shape
    shifted = _dropped(x.elements).reshape(queries, columns - 1, *others)[:, :key_len]
    return _shift_document(shifted, x, {"convention": "xlnet", "key_len": key_len})


def _dropped(scores: Elements) -> Elements:
    """Read scores (q, c, …) as (c, q, …) without moving any, and drop the first row."""
    queries, columns, *others = scores.shape
    return scores.reshape(columns, queries, *others)[1:]


def _shift_document(
    shifted: Elements, x: StoredTable, parameters: dict[str, ParameterValue]
) -> Document:
    kept = np.ascontiguousarray(shifted)
    table = StoredTable(kept, x.dtype, all_finite(kept, x.dtype))
    return Document(
        "relative-transformer-xl-shift",
        parameters,
        {"shift": table},
        axes=AXES[: len(x.shape)],
        states_axes=True,
    )


def relative_key_len_field() -> int:
    """Make the field of the number of keys that relative positions are counted from."""
    field: int = Field(
        ge=1,
        le=MAX_LENGTH,
        description="Number of keys: those of the memory and of the segment.",
        examples=[6],
    )
    return field


def clamp_len_field() -> int:
    """Make the field of the farthest relative position."""
    field: int = Field(
        default=-1,
        ge=-1,
        le=MAX_LENGTH,
        description="Relative positions beyond this one, to either side, are taken for it; none "
        "are unless it is positive.",
        examples=[3],
    )
    return field


class TransformerXLParameters(ArrayParameters):
    """Parameters of the sinusoids of distances."""

    d_model: Integer = d_model_field()
    key_len: Integer = relative_key_len_field()
    clamp_len: Integer = clamp_len_field()
    base: Real = base_field()
    dtype: RealDType = dtype_field()


class ShiftParameters(Parameters):
    """Parameters of a relative shift."""

    convention: ShiftConvention = Field(
        default="transformer-xl",
        description="Whose shift: transformer-xl puts a column of zeros first, xlnet does not, "
        "as its rows of R have one position more.",
        examples=["transformer-xl"],
    )
    zero_triu: Boolean = Field(
        default=False,
        description="With transformer-xl: put zeros where a causal mask hides the key.",
        examples=[False],
    )
    key_len: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_LENGTH,
        description="With xlnet: how many columns are kept; all that are shifted unless given.",
        examples=[2],
    )


def _transformer_xl(parameters: TransformerXLParameters) -> Document:
    return transformer_xl(
        d_model=parameters.d_model,
        base=parameters.base,
        key_len=parameters.key_len,
        clamp_len=parameters.clamp_len,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _shift(parameters: ShiftParameters, arrays: Mapping[str, StoredTable]) -> Document:
    x = arrays["x"]
    if parameters.convention == "transformer-xl":
        if parameters.key_len is not None:
            rule = "key_len goes with convention=xlnet: transformer-xl keeps all columns"
            raise impossible("key_len", parameters.key_len, rule)
        return shift_transformer_xl(x, zero_triu=parameters.zero_triu)
    if parameters.zero_triu:
        raise impossible("zero_triu", True, "zero_triu goes with convention=transformer-xl")
    kept = x.shape[1] - 1
    if kept < 1:
        raise InvalidBody("x has one column, and xlnet's shift leaves none of it", "/x")
    if (parameters.key_len or kept) > kept:
        rule = f"x has {kept + 1} columns, of which the shift leaves {kept}"
        raise impossible("key_len", parameters.key_len, rule)
    return shift_xlnet(x, key_len=parameters.key_len or kept)


TRANSFORMER_XL = Resource(
    path="/relative/transformer-xl",
    operation="RelativeTransformerXL",
    summary="The sinusoids of the distances to all keys, the farthest first",
    parameters=TransformerXLParameters,
    document=_transformer_xl,
    example="d_model=4&key_len=3&base=100",
)
SHIFT = Composition(
    path="/relative/transformer-xl/shift",
    operation="RelativeTransformerXLShift",
    summary="Scores by relative position moved to the keys they are for",
    parameters=ShiftParameters,
    inputs=(
        InputArray(
            "x",
            "scores by query and row of R, and by batch and head where there are such axes",
            ranks=(2, 3, 4),
            example=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        ),
    ),
    document=_shift,
    example="",
)


class XLNetParameters(ArrayParameters):
    """Parameters of the sinusoids of XLNet."""

    d_model: Integer = d_model_field()
    query_len: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_LENGTH,
        description="Number of queries: positions end with 1 - query_len. Required with "
        "attn_type=bi; with uni there is none.",
        examples=[2],
    )
    key_len: Integer = relative_key_len_field()
    attn_type: AttentionType = Field(
        default="bi",
        description="Attention to both sides, or to keys on the left only: positions end with 0.",
        examples=["bi"],
    )
    bi_data: Boolean = Field(
        default=False,
        description="Add a second direction, of the opposite positions: (rows, 2, channels).",
        examples=[False],
    )
    clamp_len: Integer = clamp_len_field()
    base: Real = base_field()
    dtype: RealDType = dtype_field()

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the second direction."""
        return {"direction": "leave out bi_data"}


def _xlnet(parameters: XLNetParameters) -> Document:
    if parameters.attn_type == "bi" and parameters.query_len is None:
        raise impossible("query_len", None, "query_len is required with attn_type=bi")
    if parameters.attn_type == "uni" and parameters.query_len is not None:
        rule = "query_len does not go with attn_type=uni, whose positions end with 0"
        raise impossible("query_len", parameters.query_len, rule)
    return xlnet(
        d_model=parameters.d_model,
        base=parameters.base,
        query_len=parameters.query_len,
        key_len=parameters.key_len,
        attn_type=parameters.attn_type,
        bi_data=parameters.bi_data,
        clamp_len=parameters.clamp_len,
        dtype=REAL_DTYPES[parameters.dtype],
    )


XLNET = Resource(
    path="/relative/xlnet",
    operation="RelativeXLNet",
    summary="The sinusoids of XLNet's relative positions, the farthest to the left first",
    parameters=XLNetParameters,
    document=_xlnet,
    example="d_model=4&query_len=2&key_len=3&base=100",
)


class ConformerParameters(ArrayParameters):
    """Parameters of the sinusoids of Conformer."""

    d_model: Integer = d_model_field(even=True)
    seq_len: Integer = Field(
        ge=1,
        le=MAX_LENGTH,
        description="Number of frames; there are 2·seq_len - 1 rows.",
        examples=[3],
    )
    base: Real = base_field()
    dtype: RealDType = dtype_field()


def _conformer(parameters: ConformerParameters) -> Document:
    return conformer(
        d_model=parameters.d_model,
        base=parameters.base,
        seq_len=parameters.seq_len,
        dtype=REAL_DTYPES[parameters.dtype],
    )


CONFORMER = Resource(
    path="/relative/conformer",
    operation="RelativeConformer",
    summary="The sinusoids of all differences between frames, those to the left first",
    parameters=ConformerParameters,
    document=_conformer,
    example="d_model=4&seq_len=2&base=100",
)
