"""``/rope``: rotary tables, and queries and keys rotated by them."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from service.delivery.parameters import Parameters
from service.delivery.resource import Resource, Transform
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import (
    MAX_BASE,
    MAX_CHANNELS,
    PositionParameters,
    RealDType,
    Reals,
    StartParameters,
    dtype_field,
    impossible,
)
from service.tables import rotary
from service.tables.angle import MAX_FREQUENCY, MIN_FREQUENCY, is_valid_frequency
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.scaling import Geometric, Given
from service.tables.table import StoredTable

DEFAULT_ROPE_THETA = 10000.0

PackName = Literal[
    "pair", "complex", "flat", "concat", "sin_concat", "compact", "half", "interleaved"
]


class RuleParameters(Parameters):
    """Parameters that say how fast each pair of channels turns."""

    head_dim: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_CHANNELS,
        description="Channels of a head; required unless rotary_dim or inv_freq is given.",
        examples=[128],
    )
    rotary_dim: Integer | None = Field(
        default=None,
        ge=2,
        le=MAX_CHANNELS,
        multiple_of=2,
        description="Channels that turn, the first ones of a head; all unless given.",
        examples=[64],
    )
    partial_rotary_factor: Real | None = Field(
        default=None,
        gt=0,
        le=1,
        description="In place of rotary_dim: its share of head_dim, cut to an integer.",
        examples=[0.5],
    )
    rope_theta: Real | None = Field(
        default=None,
        ge=1,
        le=MAX_BASE,
        description="Base of the frequencies rope_theta^(-2k/rotary_dim); 10000 unless given.",
        examples=[10000],
    )
    rope_type: Literal["default"] | None = Field(
        default=None,
        description="Rule of the frequencies.",
        examples=["default"],
    )
    inv_freq: Reals | None = Field(
        default=None,
        max_length=MAX_CHANNELS // 2,
        description="The frequencies outright, in place of rope_theta and rope_type.",
        examples=["1,0.1,0.01,0.001"],
    )

    def rule(self, head_dim: int | None) -> Geometric | Given:
        """Give the frequencies, for heads of a known width or of that which is asked for."""
        rotary_dim = self._rotary_dim(head_dim)
        if self.inv_freq is None:
            if rotary_dim is None:
                rule = "head_dim is required, unless rotary_dim or inv_freq is given"
                raise impossible("head_dim", None, rule)
            return Geometric(self.rope_theta or DEFAULT_ROPE_THETA, rotary_dim, rotary_dim // 2)
        self._check_given(rotary_dim, head_dim)
        return Given(self.inv_freq)

    def _rotary_dim(self, head_dim: int | None) -> int | None:
        if self.partial_rotary_factor is not None:
            return self._share_of(head_dim, self.partial_rotary_factor)
        if self.rotary_dim is None:
            return None if self.inv_freq is not None else _paired("head_dim", head_dim, head_dim)
        if head_dim is not None and self.rotary_dim > head_dim:
            rule = f"rotary_dim must be at most head_dim, {head_dim}"
            raise impossible("rotary_dim", self.rotary_dim, rule)
        return self.rotary_dim

    def _share_of(self, head_dim: int | None, factor: float) -> int | None:
        if self.rotary_dim is not None:
            rule = "partial_rotary_factor does not go with rotary_dim"
            raise impossible("partial_rotary_factor", factor, rule)
        if head_dim is None:
            rule = "head_dim is required with partial_rotary_factor"
            raise impossible("head_dim", None, rule)
        return _paired("partial_rotary_factor", factor, int(head_dim * factor))

    def _check_given(self, rotary_dim: int | None, head_dim: int | None) -> None:
        assert self.inv_freq is not None
        for name in ("rope_theta", "rope_type"):
            value = getattr(self, name)
            if value is not None:
                raise impossible(name, value, f"{name} does not go with inv_freq")
        for frequency in self.inv_freq:
            if not is_valid_frequency(frequency):
                rule = f"inv_freq must be 0 or from {MIN_FREQUENCY:g} to {MAX_FREQUENCY:g}"
                raise impossible("inv_freq", frequency, rule)
        turning = 2 * len(self.inv_freq)
        if rotary_dim not in {None, turning}:
            rule = f"{len(self.inv_freq)} inv_freq turn {turning} channels, not {rotary_dim}"
            raise impossible("inv_freq", len(self.inv_freq), rule)
        if head_dim is not None and turning > head_dim:
            rule = (
                f"{len(self.inv_freq)} inv_freq turn {turning} channels, and a head has {head_dim}"
            )
            raise impossible("inv_freq", len(self.inv_freq), rule)


def _paired(origin: str, value: object, rotary_dim: int | None) -> int | None:
    """Refuse a number of channels that do not go in pairs, naming the parameter it came from."""
    if rotary_dim is not None and (rotary_dim % 2 or rotary_dim < 2):
        rule = f"channels turn in pairs: {origin} gives {rotary_dim}, not an even number from 2 on"
        raise impossible(origin, value, rule)
    return rotary_dim


class RopeParameters(PositionParameters, RuleParameters):
    """Parameters of a rotary table."""

    pack: PackName = Field(
        default="pair",
        description="How cosines and sines are laid out: "
        + "; ".join(f"{name} {pack.description}" for name, pack in rotary.PACKS.items()),
        examples=["pair"],
    )
    part: Literal["cos", "sin"] | None = Field(
        default=None,
        description="Answer one of the two arrays of compact, half or interleaved alone.",
        examples=["cos"],
    )
    dtype: RealDType = dtype_field()

    def chosen_part(self) -> str | None:
        """Name the one of the two arrays that is wanted alone."""
        return self.part


class ApplyParameters(StartParameters, RuleParameters):
    """Parameters of a rotation."""

    layout: Literal["interleaved", "half"] = Field(
        default="interleaved",
        description="Which channels turn together: 2k and 2k+1, or k and k + rotary_dim/2.",
        examples=["half"],
    )
    inverse: Boolean = Field(
        default=False, description="Turn the other way, which undoes it.", examples=[False]
    )


def _rope(parameters: RopeParameters) -> Document:
    complex_dtypes = {"float32", "float64"}
    if parameters.pack == "complex" and parameters.dtype not in complex_dtypes:
        rule = "pack=complex needs dtype float32 (complex64) or float64 (complex128)"
        raise impossible("dtype", parameters.dtype, rule)
    return rotary.rope(
        rule=parameters.rule(parameters.head_dim),
        positions=parameters.resolved_positions(),
        pack=parameters.pack,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _apply(parameters: ApplyParameters, x: StoredTable) -> tuple[StoredTable, Mapping[str, Any]]:
    head_dim = x.shape[-1]
    if parameters.head_dim not in {None, head_dim}:
        raise InvalidBody(
            f"the last axis has {head_dim} channels, and head_dim is {parameters.head_dim}"
        )
    rotation = rotary.Rotation(
        rule=parameters.rule(head_dim),
        positions=parameters.positions_of(x.shape[-2]),
        layout=parameters.layout,
        inverse=parameters.inverse,
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
APPLY = Transform(
    path="/rope/apply",
    operation="RopeApply",
    summary="Queries or keys rotated by their positions",
    parameters=ApplyParameters,
    kind="rope-apply",
    apply=_apply,
    example="start=1",
)
