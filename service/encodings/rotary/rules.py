"""What every rotary rule is: frequencies, what multiplies their cosines, and its own spelling.

Rotary rules by ``rope_type``: what fixes the frequencies, by the keys of published configs.

What a rule makes of its keys, the functions of ``scaling`` do.

From the keys that a request names to a rotary rule: which are required, taken, left out.

Parameters that say how many channels of a head turn.

Parameters that say how fast each pair of rotary channels turns, by their published names.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from pydantic import Field

from service.encodings.fields import Parameters, Reals, impossible
from service.errors import Fault, InvalidParameters
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics import frequencies as scaling
from service.numerics.document import ParameterValue
from service.numerics.frequencies import Decimals, FrequencyRule
from service.numerics.limits import (
    MAX_ATTENTION_FACTOR,
    MAX_BASE,
    MAX_CHANNELS,
    MAX_FACTOR,
    MAX_LENGTH,
    MAX_MIXED_CHANNELS,
    MAX_MSCALE,
    MAX_SCALED_BASE,
    MIN_FACTOR,
)
from service.numerics.phase import MAX_FREQUENCY, MIN_FREQUENCY, exact_context, is_valid_frequency
from service.numerics.tables import DecimalTable


class RotaryRule(FrequencyRule, Protocol):
    """Frequencies of the channels that turn, and what fixes them."""

    @property
    def scale(self) -> float:
        """The attention factor: what cosines and sines are multiplied by."""

    def beside(self) -> Mapping[str, DecimalTable]:
        """Give the numbers met on the way to the frequencies, by name."""

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell the rule as canonical parameters; what it leaves to a default is spelled, too."""


@dataclass(frozen=True)
class NamedRule(ABC):
    """Base of the rules that a ``rope_type`` names; their fields are keys of published configs.

    Attributes:
        rotary_dim: channels that turn, r, an even number.
        rope_theta: base of the frequencies.
    """

    rope_type: ClassVar[str]

    rotary_dim: int
    rope_theta: float

    @property
    def count(self) -> int:
        """How many frequencies there are."""
        return self.rotary_dim // 2

    @property
    def scale(self) -> float:
        """The attention factor: what cosines and sines are multiplied by."""
        return 1.0

    @abstractmethod
    def exact(self) -> Decimals:
        """Evaluate the frequencies, in radians per position."""

    def beside(self) -> Mapping[str, DecimalTable]:
        """Give the numbers met on the way to the frequencies, by name."""
        return {}

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell the rule as canonical parameters; what it leaves to a default is spelled, too."""
        spelled: dict[str, ParameterValue] = {
            "rotary_dim": self.rotary_dim,
            "rope_type": self.rope_type,
            "rope_theta": self.rope_theta,
        }
        own = (field.name for field in fields(self) if field.name not in spelled)
        values = {name: getattr(self, name) for name in own}
        return spelled | {name: value for name, value in values.items() if value not in {None, ()}}

    def _unscaled(self) -> Decimals:
        return scaling.default(Decimal(self.rope_theta), self.rotary_dim, self.count)


@dataclass(frozen=True)
class Given:
    """Frequencies given outright: an engine's own inv_freq, as the binary64 numbers they are.

    Attributes:
        inv_freq: r/2 of them.
        attention_factor: what multiplies cosines and sines.
    """

    inv_freq: tuple[float, ...]
    attention_factor: float = 1.0

    @property
    def count(self) -> int:
        """How many frequencies there are."""
        return len(self.inv_freq)

    @property
    def scale(self) -> float:
        """The attention factor."""
        return self.attention_factor

    def exact(self) -> Decimals:
        """Give them as decimals, exactly."""
        return [Decimal(frequency) for frequency in self.inv_freq]

    def beside(self) -> Mapping[str, DecimalTable]:
        """Give nothing: there was no way to them."""
        return {}

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell them."""
        given: dict[str, ParameterValue] = {"rotary_dim": 2 * self.count, "inv_freq": self.inv_freq}
        is_scaled = self.attention_factor != 1.0
        return given | ({"attention_factor": self.attention_factor} if is_scaled else {})


@dataclass(frozen=True)
class Default(NamedRule):
    """Frequencies b^(−2k/r), each divided by a factor of its own where freq_factors has any."""

    rope_type = "default"

    freq_factors: tuple[float, ...] = ()

    def exact(self) -> Decimals:
        """Evaluate the frequencies, in radians per position."""
        return _divided(self._unscaled(), self.freq_factors)


@dataclass(frozen=True)
class Linear(NamedRule):
    """Position interpolation: every frequency divided by one factor."""

    rope_type = "linear"

    factor: float
    freq_factors: tuple[float, ...] = ()

    def exact(self) -> Decimals:
        """Evaluate the frequencies, in radians per position."""
        frequencies = _divided(self._unscaled(), self.freq_factors)
        return scaling.linear(frequencies, Decimal(self.factor))


@dataclass(frozen=True)
class _Rescaled(NamedRule):
    """Base of the rules that only change the base."""

    def exact(self) -> Decimals:
        """Evaluate the frequencies, in radians per position."""
        return scaling.default(self._base(), self.rotary_dim, self.count)

    def beside(self) -> Mapping[str, DecimalTable]:
        """Give the base after scaling."""
        return {"effective_base": DecimalTable((), lambda: [self._base()])}

    def _base(self) -> Decimal:
        return scaling.rescaled_base(Decimal(self.rope_theta), self._alpha(), self.rotary_dim)

    @abstractmethod
    def _alpha(self) -> Decimal:
        """Give what the base is rescaled by."""


@dataclass(frozen=True)
class Dynamic(_Rescaled):
    """NTK scaling by the length that the model runs at."""

    rope_type = "dynamic"

    factor: float
    original_max_position_embeddings: int
    context_length: int

    def _alpha(self) -> Decimal:
        original = self.original_max_position_embeddings
        return scaling.dynamic_alpha(Decimal(self.factor), self.context_length, original)


@dataclass(frozen=True)
class DynamicAlpha(_Rescaled):
    """NTK scaling by a fixed alpha, whatever the length."""

    rope_type = "dynamic"

    alpha: float

    def _alpha(self) -> Decimal:
        return Decimal(self.alpha)


@dataclass(frozen=True)
class Ntk(NamedRule):
    """NTK scaling by a fixed factor, shared by all frequencies or mixed by mixed_b."""

    rope_type = "ntk"

    factor: float
    mixed_b: float | None = None

    def exact(self) -> Decimals:
        """Evaluate the frequencies, in radians per position."""
        theta, factor = Decimal(self.rope_theta), Decimal(self.factor)
        if self.mixed_b is None:
            return scaling.ntk(theta, self.rotary_dim, factor)
        return scaling.ntk_mixed(theta, self.rotary_dim, factor, Decimal(self.mixed_b))

    def beside(self) -> Mapping[str, DecimalTable]:
        """Give the base after scaling, where it is scaled."""
        if self.mixed_b is not None:
            return {}
        base = exact_context().multiply(Decimal(self.rope_theta), Decimal(self.factor))
        return {"effective_base": DecimalTable((), lambda: [base])}


@dataclass(frozen=True)
class Yarn(NamedRule):
    """YaRN: slow frequencies divided, fast ones kept, a ramp between."""

    rope_type = "yarn"

    factor: float
    original_max_position_embeddings: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    @property
    def scale(self) -> float:
        """The attention factor."""
        return self.attention_factor

    def exact(self) -> Decimals:
        """Evaluate the frequencies, in radians per position."""
        return scaling.yarn(self._unscaled(), self._ramp(), Decimal(self.factor))

    def beside(self) -> Mapping[str, DecimalTable]:
        """Give the ramp, 1 where a frequency is divided, and the pairs between which it rises."""
        return {
            "ramp": DecimalTable((self.count,), self._ramp),
            "range_raw": DecimalTable((2,), lambda: self._range().raw),
            "range_used": DecimalTable((2,), lambda: self._range().used),
        }

    def _ramp(self) -> Decimals:
        return scaling.yarn_ramp(self._range().used, self.count)

    def _range(self) -> scaling.YarnRange:
        return scaling.yarn_range(
            Decimal(self.rope_theta),
            self.rotary_dim,
            self.original_max_position_embeddings,
            (Decimal(self.beta_fast), Decimal(self.beta_slow)),
            truncate=self.truncate,
        )


@dataclass(frozen=True)
class LongRope(NamedRule):
    """LongRoPE: each frequency divided by its factor of the list for the length it runs at."""

    rope_type = "longrope"

    original_max_position_embeddings: int
    context_length: int
    attention_factor: float
    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]

    @property
    def scale(self) -> float:
        """The attention factor."""
        return self.attention_factor

    def exact(self) -> Decimals:
        """Evaluate the frequencies, in radians per position."""
        return scaling.divided(self._unscaled(), self._factors())

    def beside(self) -> Mapping[str, DecimalTable]:
        """Give the factors that hold."""
        return {"rescale_factor": DecimalTable((self.count,), self._factors)}

    def _factors(self) -> Decimals:
        is_long = self.context_length > self.original_max_position_embeddings
        return list(map(Decimal, self.long_factor if is_long else self.short_factor))


@dataclass(frozen=True)
class Llama3(NamedRule):
    """Llama 3: long wavelengths divided, short ones kept, smoothed between."""

    rope_type = "llama3"

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def exact(self) -> Decimals:
        """Evaluate the frequencies, in radians per position."""
        return scaling.llama3(self._unscaled(), self._smooth(), Decimal(self.factor))

    def beside(self) -> Mapping[str, DecimalTable]:
        """Give the smooth factors, 1 where a frequency is kept."""
        return {"smooth_factor": DecimalTable((self.count,), self._smooth)}

    def _smooth(self) -> Decimals:
        low, high = Decimal(self.low_freq_factor), Decimal(self.high_freq_factor)
        length = self.original_max_position_embeddings
        return scaling.llama3_smooth(self._unscaled(), length, low, high)


@dataclass(frozen=True)
class Proportional(NamedRule):
    """Gemma 4: all channels in pairs across the head, of which only the first turn."""

    rope_type = "proportional"

    partial_rotary_factor: float = 1.0
    factor: float = 1.0

    def exact(self) -> Decimals:
        """Evaluate the frequencies, in radians per position."""
        turning = int(self.partial_rotary_factor * self.rotary_dim // 2)
        theta, factor = Decimal(self.rope_theta), Decimal(self.factor)
        return scaling.proportional(theta, self.rotary_dim, turning, factor)


def _divided(frequencies: Decimals, factors: tuple[float, ...]) -> Decimals:
    return scaling.divided(frequencies, list(map(Decimal, factors))) if factors else frequencies


Keys: TypeAlias = Mapping[str, Any]

_LENGTH = "max_position_embeddings"
_ORIGINAL = "original_max_position_embeddings"

SHARED = frozenset({_LENGTH, "partial_rotary_factor"})
"""Keys that mean something whatever the rule: how long a table is, how much of a head turns."""


@dataclass(frozen=True)
class _Maker:
    """How a rule is made.

    Attributes:
        make: of rotary_dim, rope_theta and keys.
        required: the keys without which it cannot be.
        optional: the others that it takes.
    """

    make: Callable[[int, float, Keys], RotaryRule]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def taken_by(rope_type: str, keys: Keys) -> frozenset[str]:
    """Name the keys that a rule takes."""
    maker = _maker(rope_type, keys)
    return SHARED.union(maker.required, maker.optional)


def chosen_by(rope_type: str, keys: Keys) -> str:
    """Name what chose a rule: its type, or the key that makes it another of that type."""
    return "alpha" if _maker(rope_type, keys) is _ALPHA else f"rope_type={rope_type}"


def make_rule(rope_type: str, rotary_dim: int, rope_theta: float, keys: Keys) -> RotaryRule:
    """Make a rule of the keys that it takes; raises InvalidParameters for what cannot be."""
    maker = _maker(rope_type, keys)
    for name in maker.required:
        if name not in keys:
            raise impossible(name, None, f"{name} is required with rope_type={rope_type}")
    if (rope_type != "default" or "freq_factors" in keys) and rope_theta > MAX_SCALED_BASE:
        rule = f"rope_theta must be at most {MAX_SCALED_BASE:g} where frequencies are scaled"
        raise impossible("rope_theta", rope_theta, rule)
    return maker.make(rotary_dim, rope_theta, keys)


def _maker(rope_type: str, keys: Keys) -> _Maker:
    return _ALPHA if rope_type == "dynamic" and "alpha" in keys else _MAKERS[rope_type]


def _default(dim: int, theta: float, keys: Keys) -> RotaryRule:
    return Default(dim, theta, _list_of("freq_factors", dim, keys))


def _linear(dim: int, theta: float, keys: Keys) -> RotaryRule:
    return Linear(dim, theta, keys["factor"], _list_of("freq_factors", dim, keys))


def _dynamic(dim: int, theta: float, keys: Keys) -> RotaryRule:
    _check_rescalable("dynamic", dim)
    original = keys.get(_ORIGINAL, keys.get(_LENGTH))
    if original is None:
        raise impossible(_LENGTH, None, f"{_LENGTH} is required with rope_type=dynamic")
    return Dynamic(dim, theta, keys["factor"], original, keys.get("context_length", original))


def _dynamic_alpha(dim: int, theta: float, keys: Keys) -> RotaryRule:
    _check_rescalable("dynamic", dim)
    return DynamicAlpha(dim, theta, keys["alpha"])


def _check_rescalable(rope_type: str, dim: int) -> None:
    if dim == 2:
        rule = f"rope_type={rope_type} rescales by r/(r - 2): it needs more than 2 rotary channels"
        raise impossible("rope_type", rope_type, rule)


def _ntk(dim: int, theta: float, keys: Keys) -> RotaryRule:
    mixed_b = keys.get("mixed_b")
    if mixed_b is not None and dim > MAX_MIXED_CHANNELS:
        rule = f"mixed_b is for at most {MAX_MIXED_CHANNELS} rotary channels"
        raise impossible("mixed_b", mixed_b, rule)
    return Ntk(dim, theta, keys["factor"], mixed_b)


def _yarn(dim: int, theta: float, keys: Keys) -> RotaryRule:
    if theta == 1:
        raise impossible("rope_theta", theta, "rope_theta must be more than 1 with rope_type=yarn")
    factor = _stretch("yarn", keys)
    fast, slow = keys.get("beta_fast", Yarn.beta_fast), keys.get("beta_slow", Yarn.beta_slow)
    if fast < slow:
        rule = f"beta_fast must be at least beta_slow, {slow:g}"
        raise impossible("beta_fast", fast, rule)
    return Yarn(
        dim,
        theta,
        factor,
        keys[_ORIGINAL],
        keys.get("attention_factor") or _yarn_attention_factor(factor, keys),
        fast,
        slow,
        keys.get("truncate", Yarn.truncate),
    )


def _yarn_attention_factor(factor: float, keys: Keys) -> float:
    mscales = (Decimal(keys.get(name, 0)) for name in ("mscale", "mscale_all_dim"))
    return float(scaling.yarn_attention_factor(Decimal(factor), *mscales))


def _longrope(dim: int, theta: float, keys: Keys) -> RotaryRule:
    original = keys[_ORIGINAL]
    if original == 1:
        rule = f"{_ORIGINAL} must be more than 1 with rope_type=longrope"
        raise impossible(_ORIGINAL, original, rule)
    return LongRope(
        dim,
        theta,
        original,
        keys.get("context_length", original),
        keys.get("attention_factor") or _longrope_attention_factor(original, keys),
        _list_of("short_factor", dim, keys),
        _list_of("long_factor", dim, keys),
    )


def _longrope_attention_factor(original: int, keys: Keys) -> float:
    factor = Decimal(_stretch("longrope", keys))
    return float(scaling.longrope_attention_factor(factor, original))


def _stretch(rope_type: str, keys: Keys) -> float:
    """Give the factor, or how much longer the model is than it was, as transformers does."""
    if "factor" in keys:
        return float(keys["factor"])
    if _LENGTH not in keys:
        rule = f"factor is required with rope_type={rope_type}, unless {_LENGTH} is given"
        raise impossible("factor", None, rule)
    factor = float(keys[_LENGTH] / keys[_ORIGINAL])
    if not MIN_FACTOR <= factor <= MAX_FACTOR:
        bounds = f"from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
        rule = f"{_LENGTH}/{_ORIGINAL} is the factor, and must be {bounds}"
        raise impossible(_LENGTH, keys[_LENGTH], rule)
    return factor


def _llama3(dim: int, theta: float, keys: Keys) -> RotaryRule:
    low, high = keys["low_freq_factor"], keys["high_freq_factor"]
    if high < low:
        rule = f"high_freq_factor must be at least low_freq_factor, {low:g}"
        raise impossible("high_freq_factor", high, rule)
    return Llama3(dim, theta, keys["factor"], low, high, keys[_ORIGINAL])


def _proportional(dim: int, theta: float, keys: Keys) -> RotaryRule:
    share = keys.get("partial_rotary_factor", Proportional.partial_rotary_factor)
    return Proportional(dim, theta, share, keys.get("factor", Proportional.factor))


def _list_of(name: str, dim: int, keys: Keys) -> tuple[float, ...]:
    factors: tuple[float, ...] = keys.get(name, ())
    if factors and len(factors) != dim // 2:
        rule = f"{name} must have {dim // 2} numbers, one for each pair of rotary channels"
        raise impossible(name, len(factors), f"{rule}, and has {len(factors)}")
    for factor in factors:
        if not MIN_FACTOR <= factor <= MAX_FACTOR:
            rule = f"{name} must be numbers from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
            raise impossible(name, factor, rule)
    return factors


_MAKERS: Mapping[str, _Maker] = MappingProxyType(
    {
        "default": _Maker(_default, optional=("freq_factors",)),
        "linear": _Maker(_linear, required=("factor",), optional=("freq_factors",)),
        "dynamic": _Maker(_dynamic, required=("factor",), optional=(_ORIGINAL, "context_length")),
        "ntk": _Maker(_ntk, required=("factor",), optional=("mixed_b",)),
        "yarn": _Maker(
            _yarn,
            required=(_ORIGINAL,),
            optional=(
                "factor",
                "attention_factor",
                "beta_fast",
                "beta_slow",
                "mscale",
                "mscale_all_dim",
                "truncate",
            ),
        ),
        "longrope": _Maker(
            _longrope,
            required=(_ORIGINAL, "short_factor", "long_factor"),
            optional=("factor", "attention_factor", "context_length"),
        ),
        "llama3": _Maker(
            _llama3, required=("factor", "low_freq_factor", "high_freq_factor", _ORIGINAL)
        ),
        "proportional": _Maker(_proportional, optional=("factor",)),
    }
)
_ALPHA = _Maker(_dynamic_alpha, required=("alpha",))

TAKEN = SHARED.union(*((*maker.required, *maker.optional) for maker in (*_MAKERS.values(), _ALPHA)))
"""Every key that some rule takes."""


class WidthParameters(Parameters):
    """Parameters that say how wide a head is, and how much of it turns."""

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

    def turning_channels(self, head_dim: int | None) -> int | None:
        """Give how many channels turn, an even number; None where nothing says it.

        Args:
            head_dim: channels of a head, if they are known.
        """
        if self.partial_rotary_factor is not None:
            return self._share_of(head_dim, self.partial_rotary_factor)
        if self.rotary_dim is None:
            return paired("head_dim", head_dim, head_dim)
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
        return paired("partial_rotary_factor", factor, int(head_dim * factor))


def paired(origin: str, value: object, rotary_dim: int | None) -> int | None:
    """Refuse a number of channels that do not go in pairs, naming the parameter it came from."""
    if rotary_dim is not None and (rotary_dim % 2 or rotary_dim < 2):
        rule = f"channels turn in pairs: {origin} gives {rotary_dim}, not an even number from 2 on"
        raise impossible(origin, value, rule)
    return rotary_dim


def rotary_offset_field() -> int:
    """Make the field of the channels of a head before the first that turns."""
    field: int = Field(
        default=0,
        ge=0,
        le=MAX_CHANNELS,
        description="Channels of a head before the first that turns.",
        examples=[0],
    )
    return field


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
            Fault(name, to_query(value), f"{name} does not go with {chooser}")
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
