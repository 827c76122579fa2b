"""Parameters that say how fast each pair of rotary channels turns, by their published names."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from pydantic import Field

from service.delivery.parameters import Parameters
from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import MAX_BASE, MAX_CHANNELS, Reals, impossible
from service.routes.rope_rules import MAX_FACTOR, MIN_FACTOR, SHARED, TAKEN, make_rule, taken_by
from service.tables.angle import MAX_FREQUENCY, MIN_FREQUENCY, is_valid_frequency
from service.tables.rotary_rule import Given, RotaryRule

DEFAULT_ROPE_THETA = 10000.0

RopeType: TypeAlias = Literal[
    "default", "linear", "dynamic", "ntk", "yarn", "longrope", "llama3", "proportional"
]

_MAX_ATTENTION_FACTOR = 10_000
_MAX_LENGTH = 2**62


def _positive(
    description: str, example: float, *, least: float = MIN_FACTOR, most: float = MAX_FACTOR
) -> Any:
    return Field(default=None, ge=least, le=most, description=description, examples=[example])


def _length(description: str, example: int) -> Any:
    return Field(default=None, ge=1, le=_MAX_LENGTH, description=description, examples=[example])


def _factors(description: str) -> Any:
    return Field(
        default=None,
        max_length=MAX_CHANNELS // 2,
        description=description,
        examples=["1,1.5,2,4"],
    )


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
        description="In place of rotary_dim: its share of head_dim, cut to an integer. With "
        "rope_type=proportional the share of the pairs that turn, in heads that are all rotary.",
        examples=[0.5],
    )
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
        le=1000,
        description="For yarn, with mscale_all_dim: what the attention factor is made of.",
        examples=[1],
    )
    mscale_all_dim: Real | None = Field(
        default=None, ge=0, le=1000, description="For yarn, with mscale.", examples=[1]
    )
    attention_factor: Real | None = Field(
        default=None,
        ge=MIN_FACTOR,
        le=_MAX_ATTENTION_FACTOR,
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
        rotary_dim = self._rotary_dim(head_dim)
        if self.inv_freq is not None:
            self._check_given(self.inv_freq, rotary_dim, head_dim)
            return Given(self.inv_freq, self.attention_factor or 1.0)
        if rotary_dim is None:
            rule = "head_dim is required, unless rotary_dim or inv_freq is given"
            raise impossible("head_dim", None, rule)
        keys = self._keys()
        self._refuse(taken_by(self.rope_type or "default", keys), self.rope_type or "default")
        theta = self.rope_theta or DEFAULT_ROPE_THETA
        return make_rule(self.rope_type or "default", rotary_dim, theta, keys)

    def _keys(self) -> Mapping[str, Any]:
        """Give the keys that were set and that some rules take."""
        return {name: value for name, value in self if name in TAKEN and value is not None}

    def _refuse(self, taken: frozenset[str], rope_type: str) -> None:
        faults = [
            Fault(name, spelled(value), f"{name} does not go with rope_type={rope_type}")
            for name, value in self._keys().items()
            if name not in taken
        ]
        if faults:
            raise InvalidParameters(*faults)

    def _rotary_dim(self, head_dim: int | None) -> int | None:
        if self.partial_rotary_factor is not None and self.rope_type != "proportional":
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

    def _check_given(
        self, inv_freq: tuple[float, ...], rotary_dim: int | None, head_dim: int | None
    ) -> None:
        beside = {"rope_theta": self.rope_theta, "rope_type": self.rope_type, **self._keys()}
        for name, value in beside.items():
            if value is not None and name not in SHARED | {"attention_factor"}:
                raise impossible(name, spelled(value), f"{name} does not go with inv_freq")
        for frequency in inv_freq:
            if not is_valid_frequency(frequency):
                rule = f"inv_freq must be 0 or from {MIN_FREQUENCY:g} to {MAX_FREQUENCY:g}"
                raise impossible("inv_freq", frequency, rule)
        turning = 2 * len(inv_freq)
        if rotary_dim not in {None, turning}:
            rule = f"{len(inv_freq)} inv_freq turn {turning} channels, not {rotary_dim}"
            raise impossible("inv_freq", len(inv_freq), rule)
        if head_dim is not None and turning > head_dim:
            rule = f"{len(inv_freq)} inv_freq turn {turning} channels, and a head has {head_dim}"
            raise impossible("inv_freq", len(inv_freq), rule)


def spelled(value: Any) -> str:
    """Spell a value the way that it is sent."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _paired(origin: str, value: object, rotary_dim: int | None) -> int | None:
    """Refuse a number of channels that do not go in pairs, naming the parameter it came from."""
    if rotary_dim is not None and (rotary_dim % 2 or rotary_dim < 2):
        rule = f"channels turn in pairs: {origin} gives {rotary_dim}, not an even number from 2 on"
        raise impossible(origin, value, rule)
    return rotary_dim
