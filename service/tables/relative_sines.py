"""Sinusoids of relative positions: the R of Transformer-XL, XLNet and Conformer.

All are sin(r·ω_k) and cos(r·ω_k) with ω_k = base^(−2k/d_model), for the relative positions r of a
convention, the farthest key to the left first. Where d_model is odd, Transformer-XL and XLNet make
a sine and a cosine of every k up to ⌈d_model/2⌉, one channel more than asked for.

Every value is within 5·2^-53 of these formulas before it is rounded once to its element type.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from service.tables.channels import Channels
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType, Elements, round_into
from service.tables.frequencies import Geometric
from service.tables.phasor import PhasorTable, sines_and_cosines
from service.tables.positions import Positions, Run
from service.tables.sinusoidal import geometric
from service.tables.table import FREQUENCY_WORK, RowTable, steps

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
        for part in steps(len(rows), _ARRAYS * self.rule.count):
            positions = self.positions.at(first + part.start, first + part.stop)
            both = sines_and_cosines(self.rule, positions)
            opposite = 0.0 - both[:, : self.rule.count], both[:, self.rule.count :]
            exact = np.concatenate([both, *opposite], axis=1)
            round_into(exact, rows[part], self.dtype)
