"""Rotary tables in the packings that consumers expect, and the rotation itself.

"RoFormer" (Su et al. 2021), §3.2.2: a pair of channels turns by the angle position·ω. Every cosine
and sine is within 5·2^-53 of the formula before it is rounded once to its element type.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np

from service.tables.angle import Float64s
from service.tables.channels import Channels, Component
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import (
    COMPLEX64,
    COMPLEX128,
    FLOAT64,
    DType,
    Elements,
    all_finite,
    round_results,
    widened,
)
from service.tables.phasor import PhasorTable
from service.tables.positions import Positions
from service.tables.scaling import FrequencyRule, Geometric, Given
from service.tables.table import StoredTable, Table, steps


@dataclass(frozen=True)
class Pack:
    """Lay out cosines and sines the way a consumer expects.

    Attributes:
        parts: for each array by name, the components a row holds.
        interleaved: whether they alternate channel by channel.
        paired: whether the row is an array of (cos, sin) pairs, shape (S, r/2, 2).
        complex: whether such pairs are complex numbers, shape (S, r/2).
        description: shape and content, for documentation.
    """

    parts: Mapping[str, tuple[Component, ...]]
    interleaved: bool
    description: str
    paired: bool = False
    complex: bool = False

    def tables(self, rule: FrequencyRule, positions: Positions, dtype: DType) -> dict[str, Table]:
        """Describe the arrays of this pack."""
        return {
            name: self._table(rule, positions, dtype, components)
            for name, components in self.parts.items()
        }

    def _table(
        self,
        rule: FrequencyRule,
        positions: Positions,
        dtype: DType,
        components: tuple[Component, ...],
    ) -> Table:
        width = rule.count * len(components)
        shape = (positions.count, *((rule.count, 2) if self.paired else (width,)))
        channels = Channels(components, self.interleaved, width)
        table = PhasorTable(rule, channels, positions, dtype, shape)
        return ComplexTable(table) if self.complex else table


@dataclass(frozen=True, eq=False)
class ComplexTable:
    """Pairs (cos, sin) read as the complex numbers cos + i·sin."""

    pairs: PhasorTable

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the pairs without their axis of two."""
        return self.pairs.shape[:-1]

    @property
    def dtype(self) -> DType:
        """The complex type of two such elements."""
        return COMPLEX128 if self.pairs.dtype is FLOAT64 else COMPLEX64

    @property
    def work_per_element(self) -> int:
        """A cosine and a sine."""
        return 2

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        return self.pairs.read(2 * start, 2 * stop).view(self.dtype.storage)


def _single(*components: Component, interleaved: bool, description: str, **kind: bool) -> Pack:
    return Pack(MappingProxyType({"rope": components}), interleaved, description, **kind)


def _twin(repeats: int, *, interleaved: bool, description: str) -> Pack:
    cos: Component = "cos"
    sin: Component = "sin"
    parts = {"cos": (cos,) * repeats, "sin": (sin,) * repeats}
    return Pack(MappingProxyType(parts), interleaved, description)


PACKS: Mapping[str, Pack] = MappingProxyType(
    {
        "pair": _single(
            "cos", "sin", interleaved=True, paired=True, description="(S, r/2, 2): cos, sin"
        ),
        "complex": _single(
            "cos",
            "sin",
            interleaved=True,
            paired=True,
            complex=True,
            description="(S, r/2) complex numbers cos + i·sin",
        ),
        "flat": _single("cos", "sin", interleaved=True, description="(S, r): c0, s0, c1, s1, …"),
        "concat": _single("cos", "sin", interleaved=False, description="(S, r): cos ‖ sin"),
        "sin_concat": _single("sin", "cos", interleaved=False, description="(S, r): sin ‖ cos"),
        "compact": _twin(1, interleaved=False, description="cos and sin, each (S, r/2)"),
        "half": _twin(2, interleaved=False, description="cos and sin, each (S, r) as [f, f]"),
        "interleaved": _twin(
            2, interleaved=True, description="cos and sin, each (S, r) as [f0, f0, f1, f1, …]"
        ),
    }
)


def rule_parameters(rule: Geometric | Given) -> dict[str, ParameterValue]:
    """Spell a frequency rule under the names of published configs."""
    if isinstance(rule, Given):
        return {"rotary_dim": 2 * rule.count, "inv_freq": rule.inv_freq}
    return {"rotary_dim": rule.dim, "rope_type": "default", "rope_theta": rule.base}


def rope(*, rule: Geometric | Given, positions: Positions, pack: str, dtype: DType) -> Document:
    """Describe the cosines and sines of positions, in a packing.

    Args:
        rule: r/2 frequencies.
        positions: S of them.
        pack: a key of PACKS.
        dtype: a real element type; for the complex pack the type of the two parts.
    """
    parameters = {**rule_parameters(rule), **positions.parameters(), "pack": pack}
    tables = PACKS[pack].tables(rule, positions, dtype)
    return Document("rope", parameters, tables, has_parts=len(tables) > 1)


# Arrays of float64 that a rotation goes through.
_ARRAYS = 8


@dataclass(frozen=True)
class Rotation:
    """The rotation of queries or keys by their positions.

    ``interleaved`` pairs channels 2k and 2k+1 (RoFormer, Meta's Llama), ``half`` pairs k and
    k + r/2 (GPT-NeoX, transformers 5.23 ``rotate_half``); channels past r pass through. Computed
    in float64 and rounded once to x's type: before that, an output of the pair (x0, x1) is within
    7·2^-53·(|x0| + |x1|), 5 for cosine and sine, 1 for the products and 1 for the sum. A pair with
    NaN or infinity turns into NaN or infinity; what is too large becomes infinite.
    """

    rule: Geometric | Given
    positions: Positions
    layout: str
    inverse: bool

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell what turns, and which way."""
        return {
            **rule_parameters(self.rule),
            **self.positions.parameters(),
            "layout": self.layout,
            "inverse": self.inverse,
        }

    def of(self, x: StoredTable) -> StoredTable:
        """Rotate x, of shape (…, S, head_dim)."""
        *leading, rows, head_dim = x.shape
        width = 2 * self.rule.count
        source = x.elements.reshape(prod(leading), rows, head_dim)
        result = np.empty_like(source)
        result[..., width:] = source[..., width:]
        is_finite = all_finite(result[..., width:], x.dtype)
        cosines, sines = self._table("cos", rows), self._table("sin", rows)
        for part in steps(rows, _ARRAYS * width):
            cos, sin = (
                table.read(part.start * width, part.stop * width).reshape(-1, width)
                for table in (cosines, sines)
            )
            self._sign(sin)
            for group in steps(len(source), _ARRAYS * cos.size):
                turned = self._turned(widened(source[group, part, :width], x.dtype), cos, sin)
                is_finite &= round_results(turned, result[group, part, :width], x.dtype)
        return StoredTable(result.reshape(x.shape), x.dtype, is_finite)

    def _table(self, name: Component, rows: int) -> PhasorTable:
        width = 2 * self.rule.count
        channels = Channels((name, name), self.layout == "interleaved", width)
        return PhasorTable(self.rule, channels, self.positions, FLOAT64, (rows, width))

    def _sign(self, sin: Float64s) -> None:
        """Turn sines into what multiplies the other channel of each pair."""
        if self.inverse:
            np.subtract(0.0, sin, out=sin)
        first, _ = self._pair_channels()
        np.negative(sin[:, first], out=sin[:, first])

    def _turned(self, x: Float64s, cos: Float64s, sin: Float64s) -> Float64s:
        first, second = self._pair_channels()
        with np.errstate(over="ignore", invalid="ignore"):
            turned = x * cos
            others = np.empty_like(turned)
            others[..., first], others[..., second] = x[..., second], x[..., first]
            others *= sin
            turned += others
        return turned

    def _pair_channels(self) -> tuple[slice, slice]:
        pairs = self.rule.count
        if self.layout == "half":
            return slice(0, pairs), slice(pairs, 2 * pairs)
        return slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
