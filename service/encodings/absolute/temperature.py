"""The temperature of attention: the factor of a query, which grows with its position."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np

from service.encodings.family import (
    RealDType,
    TableFamily,
    about,
    exclusion_faults,
    impossible,
    optional,
    refuse,
)
from service.encodings.meaning import NamedVariant
from service.encodings.position_parameters import PositionParameters, check_rank
from service.grammar import Integer, Real
from service.numerics.double_double import (
    DoubleDouble,
    evaluate_integers,
    exp,
    from_decimal,
    from_floats,
    from_integers,
    ln,
    ln_1p,
    multiply,
    two_sum,
)
from service.numerics.limits import MAX_LENGTH, MAX_MSCALE
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import (
    ELEMENT_SECONDS,
    Curves,
    FormulaTable,
    ParameterValue,
    Table,
    distinct_integers,
)

_KEYS: Mapping[str, Mapping[str, float | None]] = MappingProxyType(
    {
        "llama4": {"floor_scale": 8192, "attn_scale": 0.1},
        "ministral3": {"original_max_position_embeddings": None, "llama_4_scaling_beta": 0.1},
        "beam": {},
    }
)
"""The keys of each convention, and their defaults; None is required."""

_BEAM_LENGTH, _BEAM_POWER = 2048, from_decimal(Decimal("0.1"))


class AttentionTemperature(PositionParameters, TableFamily, path="/attention/temperature"):
    """The factor by which a model multiplies the query at each position.

    Formula: ``llama4`` 1 + attn_scale·ln(1 + ⌊(p + 1)/floor_scale⌋) at position p, on layers
        without rotary embedding; ``ministral3`` 1 + llama_4_scaling_beta·ln(1 +
        ⌊p/original_max_position_embeddings⌋), on all layers, after the rotation; ``beam`` (1 +
        (p + 1)/2048)^0.1, on layers without rotary embedding.
    Source: transformers 5.23.0 ``Llama4TextAttention``; ``get_llama_4_attn_scale`` of Ministral 3
        and Mistral 4; ``compute_attention_scaling`` of Beam. "Scalable-Softmax Is Superior for
        Attention" (Nakanishi 2025) multiplies by a logarithm of the length.
    Bound: 1.01·2^-53 relative, for beam 1.2·2^-53, then rounded once to the element type.
        Libraries compute in float32: within 2^-22 of these numbers up to position 2^24; their
        quotients are rounded beyond it.
    Trap: the first step of llama4 is at position floor_scale − 1, that of ministral3 at
        original_max_position_embeddings: Llama 4 counts from 1. transformers' Llama 4 counts the
        columns of a left-padded batch, Ministral 3 and Beam take the position ids.
    """

    example: ClassVar[str] = "positions=0,8190,8191,24575"
    array: ClassVar[str] = "temperature"
    curves: ClassVar[Curves | None] = "columns"

    convention: Literal["llama4", "ministral3", "beam"] = about(
        "The model whose formula it is; Mistral 4 is ministral3.", "llama4", default="llama4"
    )
    floor_scale: Integer | None = optional(
        "For llama4: positions of one step; 8192 unless given.", 8192, ge=1, le=MAX_LENGTH
    )
    attn_scale: Real | None = optional(
        "For llama4: the factor of the logarithm; 0.1 unless given.", 0.1, ge=0, le=MAX_MSCALE
    )
    original_max_position_embeddings: Integer | None = optional(
        "For ministral3: positions of one step; required.", 16384, ge=1, le=MAX_LENGTH
    )
    llama_4_scaling_beta: Real | None = optional(
        "For ministral3: the factor of the logarithm; 0.1 unless given.", 0.1, ge=0, le=MAX_MSCALE
    )
    dtype: RealDType = "float32"

    @classmethod
    def variants(cls) -> Iterator[NamedVariant]:
        for name, keys in _KEYS.items():
            needed = [f"&{key}=16384" for key, default in keys.items() if default is None]
            # So many positions have several steps.
            yield NamedVariant.of(name, f"seq_len=50{''.join(needed)}", keys, "seq_len=131072")

    @property
    def axes(self) -> tuple[str, ...]:
        return ("batch", "position")[-len(self.resolved_positions().shape) :]

    @property
    def keys(self) -> Mapping[str, float]:
        """The keys of the convention; raises InvalidParameters for those of another one."""
        own = f"convention={self.convention}"
        others = {name for keys in _KEYS.values() for name in keys} - _KEYS[self.convention].keys()
        refuse(exclusion_faults(self, dict.fromkeys(sorted(others), own)))
        keys: dict[str, float] = {}
        for name, default in _KEYS[self.convention].items():
            value = getattr(self, name)
            value = default if value is None else value
            if value is None:
                raise impossible(name, None, f"{name} is required for {own}")
            keys[name] = value
        return keys

    def canonical(self) -> dict[str, ParameterValue]:
        positions = self.resolved_positions()
        return {"convention": self.convention, **self.keys, **positions.parameters()}

    def table(self) -> Table:
        positions, keys = self.resolved_positions(), list(self.keys.values())
        check_rank(positions)
        if not positions.is_whole or positions.least < 0:
            rule = "positions must be integers from 0 on: a query counts the keys before it"
            name = "start" if self.positions is None else "positions"
            raise impossible(name, self.start if self.positions is None else positions, rule)

        def evaluate(rows: range, _: range) -> Float64s:
            at = positions.at(rows.start, rows.stop)
            if not keys:
                return evaluate_integers(_beam, at)[:, np.newaxis]
            length, factor = keys
            steps = (at + (self.convention == "llama4")) // int(length)
            distinct, index = distinct_integers(steps)
            values = evaluate_integers(lambda part: _stepped(part, factor), distinct)
            return values[index][:, np.newaxis]

        return FormulaTable(
            positions.shape,
            self.element_type,
            1,
            evaluate,
            element_seconds=(5 if keys and positions.is_contiguous else 30) * ELEMENT_SECONDS,
        )


def _stepped(steps: Int64s, factor: float) -> Float64s:
    """Return 1 + factor·ln(1 + steps)."""
    logarithms = multiply(ln(steps + 1), from_floats(np.array([factor])))
    total = two_sum(np.ones(len(steps)), logarithms.high)
    return total.high + (total.low + logarithms.low)


def _beam(positions: Int64s) -> Float64s:
    """Return the factors of Beam; (p + 1)/2048 is exact."""
    share = DoubleDouble(*(part / _BEAM_LENGTH for part in from_integers(positions + 1)))
    return exp(multiply(ln_1p(share), _BEAM_POWER)).high
