"""Queries and keys turned by their positions.

"RoFormer" (Su et al. 2021), §3.2.2: a pair of channels turns by the angle position·ω.
"""

from dataclasses import dataclass
from math import prod

import numpy as np

from service.tables.angle import Float64s
from service.tables.channels import Channels, Component
from service.tables.document import ParameterValue
from service.tables.dtypes import FLOAT64, all_finite, round_results, widened
from service.tables.table import StoredTable, Table, steps
from service.tables.turns import Turns

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

    turns: Turns
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
        for part in steps(rows, _ARRAYS * width):
            cos, sin = (
                table.read(part.start * width, part.stop * width).reshape(-1, width)
                for table in (cosines, sines)
            )
            self._sign(sin)
            for group in steps(len(source), _ARRAYS * cos.size):
                turned = self._turned(widened(source[group, part, turning], x.dtype), cos, sin)
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
