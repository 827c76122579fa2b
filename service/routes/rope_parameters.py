"""Parameters that say how fast each pair of rotary channels turns, by their published names."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pydantic import Field

from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real, spelled
from service.routes.parameters import Reals, impossible
from service.routes.rope_rules import SHARED, TAKEN, chosen_by, make_rule, taken_by
from service.routes.rope_widths import WidthParameters, paired
from service.tables.angle import MAX_FREQUENCY, MIN_FREQUENCY, is_valid_frequency
from service.tables.limits import (
    MAX_ATTENTION_FACTOR,
    MAX_BASE,
    MAX_CHANNELS,
    MAX_FACTOR,
    MAX_LENGTH,
    MAX_MSCALE,
    MIN_FACTOR,
)
from service.tables.rotary_rule import Given, RotaryRule

DEFAULT_ROPE_THETA = 10000.0

RopeType: TypeAlias = Literal[
    "default", "linear", "dynamic", "ntk", "yarn", "longrope", "llama3", "proportional"
]


def _positive(
    description: str, example: float, *, least: float = MIN_FACTOR, most: float = MAX_FACTOR
) -> Any:
    return Field(default=None, ge=least, le=most, description=description, examples=[example])


def _length(description: str, example: int) -> Any:
    return Field(default=None, ge=1, le=MAX_LENGTH, description=description, examples=[example])


def _factors(description: str) -> Any:
    return Field(
        default=None,
        max_length=MAX_CHANNELS // 2,
        description=description,
        examples=["1,1.5,2,4"],
    )


class RuleParameters(WidthParameters):
    """Parameters that say how fast each pair of channels turns."""

    rope_theta: Real | None = Field(
        default=None,
        ge=1,
        le=MAX_BASE,
        description="Base of the frequencies rope_theta^(-2k/rotary_dim); 10000 unless given.",
        examples=[10000],
    )
    rope_type: RopeType | None = Field(
        default=None,
        description="Rule of the frequencies; default unless given.",
        examples=["yarn"],
    )
    factor: Real | None = _positive(
        "By how much a model is stretched. For yarn and longrope "
        "max_position_embeddings/original_max_position_embeddings unless given.",
        8,
    )
    max_position_embeddings: Integer | None = _length(
        "Longest sequence of the model; also the length of a table, unless that is given.", 131072
    )
    original_max_position_embeddings: Integer | None = _length(
        "Longest sequence that the model was first trained with.", 8192
    )
    context_length: Integer | None = _length(
        "For dynamic and longrope: the length that the model runs at; the original one unless "
        "given. It is never taken from seq_len.",
        16384,
    )
    alpha: Real | None = _positive("For dynamic, in place of factor: a fixed NTK scaling.", 1000)
    mixed_b: Real | None = _positive(
        "For ntk: how the scaling is mixed over the frequencies.", 0.625, most=16
    )
    beta_fast: Real | None = _positive(
        "For yarn: pairs that turn more often than this over the original length are kept; 32 "
        "unless given.",
        32,
    )
    beta_slow: Real | None = _positive(
        "For yarn: pairs that turn less often than this are divided by factor; 1 unless given.", 1
    )
    truncate: Boolean | None = Field(
        default=None,
        description="For yarn: whether the range between the two is rounded; true unless given.",
        examples=[False],
    )
    mscale: Real | None = Field(
        default=None,
        ge=0,
        le=MAX_MSCALE,
        description="For yarn, with mscale_all_dim: what the attention factor is made of.",
        examples=[1],
    )
    mscale_all_dim: Real | None = Field(
        default=None, ge=0, le=MAX_MSCALE, description="For yarn, with mscale.", examples=[1]
    )
    attention_factor: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=MAX_ATTENTION_FACTOR,
        description="For yarn, longrope and inv_freq: what cosines and sines are multiplied by; "
        "by the rule's own formula unless given.",
        examples=[1],
    )
    short_factor: Reals | None = _factors(
        "For longrope: divides each frequency, up to the original length."
    )
    long_factor: Reals | None = _factors("For longrope: divides each frequency past that length.")
    low_freq_factor: Real | None = _positive(
        "For llama3: pairs that turn less often than this over the original length are divided by "
        "factor.",
        1,
    )
    high_freq_factor: Real | None = _positive(
        "For llama3: pairs that turn more often than this are kept.", 4
    )
    freq_factors: Reals | None = _factors(
        "For default and linear: divides each frequency, as in ggml."
    )
    inv_freq: Reals | None = Field(
        default=None,
        max_length=MAX_CHANNELS // 2,
        description="The frequencies outright, in place of rope_theta and rope_type.",
        examples=["1,0.1,0.01,0.001"],
    )

    def rule(self, head_dim: int | None) -> RotaryRule:
        """Give the frequencies, for heads of a known width or of that which is asked for."""
        if self.inv_freq is not None:
            self._check_given(self.inv_freq, head_dim)
            return Given(self.inv_freq, self.attention_factor or 1.0)
        rope_type, keys = self.rope_type or "default", self._keys()
        if rope_type == "proportional":
            rotary_dim = self._whole_head(head_dim)
        else:
            rotary_dim = self.turning_channels(head_dim)
        if rotary_dim is None:
            rule = "head_dim is required, unless rotary_dim or inv_freq is given"
            raise impossible("head_dim", None, rule)
        self._refuse(taken_by(rope_type, keys), chosen_by(rope_type, keys))
        return make_rule(rope_type, rotary_dim, self.rope_theta or DEFAULT_ROPE_THETA, keys)

    def _whole_head(self, head_dim: int | None) -> int | None:
        """Give the channels of a head, all of which are in pairs whatever share of them turns."""
        if head_dim is None:
            return self.rotary_dim
        if self.rotary_dim not in {None, head_dim}:
            rule = "with rope_type=proportional all of a head is rotary: leave rotary_dim out"
            raise impossible("rotary_dim", self.rotary_dim, rule)
        return paired("head_dim", head_dim, head_dim)

    def _keys(self) -> Mapping[str, Any]:
        """Give the keys that were set and that some rules take."""
        return {name: value for name, value in self if name in TAKEN and value is not None}

    def _refuse(self, taken: frozenset[str], chooser: str) -> None:
        faults = [
            Fault(name, spelled(value), f"{name} does not go with {chooser}")
            for name, value in self._keys().items()
            if name not in taken
        ]
        if faults:
            raise InvalidParameters(*faults)

    def _check_given(self, inv_freq: tuple[float, ...], head_dim: int | None) -> None:
        beside = {"rope_theta": self.rope_theta, "rope_type": self.rope_type, **self._keys()}
        for name, value in beside.items():
            if value is not None and name not in SHARED | {"attention_factor"}:
                raise impossible(name, value, f"{name} does not go with inv_freq")
        check_frequencies(inv_freq)
        turning = 2 * len(inv_freq)
        named = self.rotary_dim or self.partial_rotary_factor
        rotary_dim = None if named is None else self.turning_channels(head_dim)
        if rotary_dim not in {None, turning}:
            rule = f"{len(inv_freq)} inv_freq turn {turning} channels, not {rotary_dim}"
            raise impossible("inv_freq", len(inv_freq), rule)
        if head_dim is not None and turning > head_dim:
            rule = f"{len(inv_freq)} inv_freq turn {turning} channels, and a head has {head_dim}"
            raise impossible("inv_freq", len(inv_freq), rule)


def check_frequencies(inv_freq: tuple[float, ...]) -> None:
    """Refuse frequencies that phases are not exact for."""
    for frequency in inv_freq:
        if not is_valid_frequency(frequency):
            rule = f"inv_freq must be 0 or from {MIN_FREQUENCY:g} to {MAX_FREQUENCY:g}"
            raise impossible("inv_freq", frequency, rule)
