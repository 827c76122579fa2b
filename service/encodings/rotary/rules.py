"""Rotary rules: the frequency of each pair of channels, by the keys of published configs.

A rule is one class: its fields are its keys, with bounds and descriptions, ``exact()`` is its
formula, ``check()`` refuses impossible combinations. From ``RULES`` follow the values of
``rope_type``, the query parameters, the refusal of keys of other rules, the keys that
``service.models`` looks for, and the schema of ``/rope/config``.

Notation: r is rotary_dim, b is rope_theta, k = 0 … r/2 − 1 numbers the pairs of channels, ω_k =
b^(−2k/r), f is factor, O is original_max_position_embeddings, L is context_length. In sources,
"transformers" is 5.23.0 and its ``modeling_rope_utils``, "vLLM" is 0.33.0 and its
``layers/rotary_embedding``. Every frequency is evaluated in decimal arithmetic of
PRECISION_DIGITS digits, from the exact values of binary64 keys.

This module is long because it contains all rules.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cache, partial
from itertools import chain, repeat
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from service.encodings.family import Reals, about, impossible
from service.grammar import Boolean, Integer, Real
from service.numerics.limits import (
    MAX_ATTENTION_FACTOR,
    MAX_CHANNELS,
    MAX_FACTOR,
    MAX_LENGTH,
    MAX_MIXED_CHANNELS,
    MAX_MSCALE,
    MAX_SCALED_BASE,
    MIN_FACTOR,
)
from service.numerics.phase import (
    FREQUENCY_SECONDS,
    TWO_PI,
    Decimals,
    exact_arithmetic,
    exact_series,
    geometric_series,
)
from service.numerics.tables import DecimalTable, ParameterValue, Table

Keys: TypeAlias = Mapping[str, Any]

DEFAULT_ROPE_THETA = 10000.0

_LENGTH = "max_position_embeddings"
_ORIGINAL = "original_max_position_embeddings"
_ZERO, _ONE = Decimal(0), Decimal(1)
_YARN_SLOPE = Decimal("0.1")

_MORE_ROTATIONS = "pairs with more full rotations over the original length"
_FEWER_ROTATIONS = "pairs with fewer full rotations over the original length"

_factor = partial(about, ge=MIN_FACTOR, le=MAX_FACTOR)
_length = partial(about, ge=1, le=MAX_LENGTH)
_mscale = partial(about, example=1, ge=0, le=MAX_MSCALE)
_list = partial(about, example="1,1.5,2,4", max_length=MAX_CHANNELS // 2)

# Keys that several rules have.
Factor = Annotated[
    Real,
    _factor(
        "The ratio of the extended to the original context length. For yarn and longrope "
        "max_position_embeddings/original_max_position_embeddings unless given.",
        8,
    ),
]
OriginalLength = Annotated[
    Integer, _length("Longest sequence of the original training, before extension.", 8192)
]
Length = Annotated[
    Integer,
    _length(
        "Longest sequence of the model; also the number of rows of a table unless given.", 131072
    ),
]
ContextLength = Annotated[
    Integer,
    _length(
        "For dynamic and longrope: the sequence length that the model runs with; the original "
        "length unless given. seq_len does not change it.",
        16384,
    ),
]
AttentionFactor = Annotated[
    Real,
    _factor(
        "For yarn, longrope and inv_freq: the factor of cosines and sines; that of the rule's "
        "formula, or 1 with inv_freq, unless given.",
        1,
        le=MAX_ATTENTION_FACTOR,
    ),
]
SHARE_FIELD = about(
    "In place of rotary_dim: rotary_dim/head_dim, the product rounded down. With "
    "rope_type=proportional all channels are rotary, and this is the share of pairs whose "
    "frequency is not 0.",
    0.5,
    gt=0,
    le=1,
)
Share = Annotated[Real, SHARE_FIELD]
FreqFactors = Annotated[
    Reals, _list("For default and linear: the divisor of each frequency, as in ggml.")
]


class RotaryFrequencies(ABC):
    """Base class of the frequencies of rotary channels; hashable, as every FrequencyRule."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of frequencies, r/2."""

    @property
    def scale(self) -> float:
        """The attention factor, by which cosines and sines are multiplied."""
        factor: float = getattr(self, "attention_factor", 1.0)
        return factor

    @abstractmethod
    def exact(self) -> Iterator[Decimal]:
        """Return the frequencies, in radians per position."""

    def intermediates(self) -> Mapping[str, Table]:
        """Return the intermediate numbers of the formula, by name."""
        return {}

    @abstractmethod
    def parameters(self) -> dict[str, ParameterValue]:
        """Return the canonical parameters, defaults included."""


@dataclass(frozen=True)
class GivenFrequencies(RotaryFrequencies):
    """The frequencies that a request lists as inv_freq, as exact binary64 numbers."""

    inv_freq: tuple[float, ...]
    attention_factor: float = 1.0

    @property
    def count(self) -> int:
        return len(self.inv_freq)

    def exact(self) -> Iterator[Decimal]:
        return map(Decimal, self.inv_freq)

    def parameters(self) -> dict[str, ParameterValue]:
        given: dict[str, ParameterValue] = {"rotary_dim": 2 * self.count, "inv_freq": self.inv_freq}
        is_scaled = self.attention_factor != 1.0
        return given | ({"attention_factor": self.attention_factor} if is_scaled else {})


@dataclass(frozen=True)
class RotaryRule(RotaryFrequencies):
    """Base class of the rules that ``rope_type`` names; the fields of a rule are its keys.

    Attributes:
        rope_type: the name of the rule.
        variant: the key that selects this rule among those of the same rope_type; or None.
        derived: the keys without a default that ``complete`` adds unless given.
        other_keys: the types of keys, by name, that only ``complete`` reads; they are not canonical
            parameters.
        intermediate_names: the methods that return intermediate numbers of the formula.
        is_whole_head: whether all channels of a head are rotary.
        not_in_configs: the keys that are table parameters but occur in no config.
        only_in_configs: the numeric config keys that are not table parameters.
        example: an example query of ``/rope/frequencies`` for this rule, without rope_type.
        published: the sizes of a published model, in place of those of the example.
        models: names of models whose published configs have this rule.
        rotary_dim: the number of rotary channels, r, which is even.
        rope_theta: the base of the frequencies, b.
    """

    registered: ClassVar[list[type["RotaryRule"]]] = []

    rope_type: ClassVar[str]
    variant: ClassVar[str | None] = None
    derived: ClassVar[tuple[str, ...]] = ()
    other_keys: ClassVar[Mapping[str, Any]] = {}
    intermediate_names: ClassVar[tuple[str, ...]] = ()
    is_whole_head: ClassVar[bool] = False
    not_in_configs: ClassVar[tuple[str, ...]] = ()
    only_in_configs: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[str]
    published: ClassVar[str] = ""
    models: ClassVar[str] = ""

    rotary_dim: int
    rope_theta: float

    def __init_subclass__(
        cls, *, name: str | None = None, variant: str | None = None, **options: Any
    ) -> None:
        """Register the class if it has a name; a class without one is a base class."""
        super().__init_subclass__(**options)
        if name is not None:
            cls.rope_type = name
            cls.variant = variant
            RotaryRule.registered.append(cls)

    @classmethod
    @cache
    def key_types(cls) -> Mapping[str, Any]:
        """Return the annotated type of each key of this rule, by name; derived keys come last."""
        hints = get_type_hints(cls, include_extras=True)
        types = {field.name: hints[field.name] for field in cls._key_fields()}
        # The type of a key that may be None is the first of the union.
        own = {
            name: get_args(kind)[0] if get_origin(kind) is Union else kind
            for name, kind in types.items()
        }
        chosen = {name: kind for name, kind in own.items() if name not in cls.derived}
        return {**chosen, **cls.other_keys, **own}

    @classmethod
    def _key_fields(cls) -> list[Field[Any]]:
        return [field for field in fields(cls) if field.name not in {"rotary_dim", "rope_theta"}]

    @classmethod
    def required_keys(cls) -> tuple[str, ...]:
        """Return the keys that the rule requires."""
        required = (field.name for field in cls._key_fields() if field.default is MISSING)
        return tuple(name for name in required if name not in cls.derived)

    @classmethod
    def config_keys(cls) -> dict[str, Any]:
        """Return the types of this rule's keys in configs, by name."""
        own = {name: kind.__origin__ for name, kind in cls.key_types().items()}
        others = {*cls.not_in_configs, _LENGTH}
        own = {name: kind for name, kind in own.items() if name not in others}
        return own | dict.fromkeys(cls.only_in_configs, float)

    @classmethod
    def complete(cls, keys: Keys) -> Keys:
        """Return the keys with derived ones added; all required keys must be present.

        Raises InvalidParameters if a key that another one needs is missing or has a wrong value.
        """
        return keys

    @classmethod
    def from_keys(cls, rotary_dim: int, rope_theta: float, keys: Keys) -> Self:
        """Return the rule with these keys; raises InvalidParameters if they do not fit."""
        for name in cls.required_keys():
            if name not in keys:
                explained = f"{name} is required with rope_type={cls.rope_type}"
                raise impossible(name, None, explained)
        known = {field.name for field in cls._key_fields()}
        values = {name: value for name, value in cls.complete(keys).items() if name in known}
        rule = cls(rotary_dim, rope_theta, **values)
        rule.check()
        return rule

    def check(self) -> None:
        """Refuse impossible combinations of keys; raises InvalidParameters."""
        if self.rope_theta > MAX_SCALED_BASE:
            rule = f"rope_theta must be at most {MAX_SCALED_BASE:g} if frequencies are scaled"
            raise impossible("rope_theta", self.rope_theta, rule)
        for name, factors in vars(self).items():
            if factors and isinstance(factors, tuple):
                self._check_list(name, factors)

    def _check_list(self, name: str, factors: tuple[float, ...]) -> None:
        if len(factors) != self.count:
            rule = f"{name} must have {self.count} numbers, one for each pair of rotary channels"
            raise impossible(name, len(factors), f"{rule}, and has {len(factors)}")
        for factor in factors:
            if not MIN_FACTOR <= factor <= MAX_FACTOR:
                rule = f"{name} must be numbers from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
                raise impossible(name, factor, rule)

    @property
    def count(self) -> int:
        return self.rotary_dim // 2

    def parameters(self) -> dict[str, ParameterValue]:
        named = {"rotary_dim": self.rotary_dim, "rope_type": self.rope_type, **vars(self)}
        return {name: value for name, value in named.items() if value not in {None, ()}}

    def intermediates(self) -> Mapping[str, Table]:
        shapes = {"effective_base": (), "range_raw": (2,), "range_used": (2,)}
        return {
            name: DecimalTable(shapes.get(name, (self.count,)), getattr(self, name))
            for name in self.intermediate_names
        }

    def unscaled(self) -> Iterator[Decimal]:
        """Return ω_k = b^(−2k/r): "RoFormer" (Su et al. 2021), §3.2.2."""
        return geometric_series(Decimal(self.rope_theta), self.rotary_dim, self.count)


@dataclass(frozen=True)
class Default(RotaryRule, name="default"):
    """The unscaled frequencies, each divided by its own factor if freq_factors is given.

    Formula: ω_k, or ω_k/F_k with F = freq_factors.
    Source: "RoFormer" (Su et al. 2021), §3.2.2; ``freq_factors`` of ggml (``rope_custom``).
    """

    example: ClassVar[str] = "head_dim=4"
    models: ClassVar[str] = (
        "llama mistral mixtral qwen2 qwen3 gemma gemma2 gemma3 phi gpt_neox gptj codegen falcon "
        "cohere cohere2 glm glm4 chatglm olmo olmo2 granite stablelm starcoder2 smollm3 nemotron "
        "ernie4_5 seed_oss dbrx modernbert roformer pythia"
    )
    not_in_configs: ClassVar[tuple[str, ...]] = ("freq_factors",)

    freq_factors: FreqFactors = ()

    def check(self) -> None:
        if self.freq_factors:
            super().check()

    def exact(self) -> Iterator[Decimal]:
        return divided(self.unscaled(), self.freq_factors)


@dataclass(frozen=True)
class Linear(RotaryRule, name="linear"):
    """Linear scaling, or position interpolation: every frequency is divided by the same factor.

    Formula: ω_k/f, or ω_k/(F_k·f) with F = freq_factors.
    Source: "Extending Context Window of Large Language Models via Positional Interpolation" (Chen
        et al. 2023), §3.2; transformers ``_compute_linear_scaling_rope_parameters``.
    """

    example: ClassVar[str] = "head_dim=4&factor=4"
    not_in_configs: ClassVar[tuple[str, ...]] = ("freq_factors",)

    factor: Factor
    freq_factors: FreqFactors = ()

    def exact(self) -> Iterator[Decimal]:
        return divided(divided(self.unscaled(), self.freq_factors), self.factor)


@dataclass(frozen=True)
class RescaledBase(RotaryRule):
    """Base class of the rules that only change rope_theta.

    Formula: B^(−2k/r) with B = b·α^(r/(r − 2)), so the last frequency is divided by α.
    Source: NTK-aware scaling (bloc97 2023) as in "YaRN" (Peng et al. 2023), §3.1.
    """

    intermediate_names: ClassVar[tuple[str, ...]] = ("effective_base",)

    def check(self) -> None:
        super().check()
        if self.rotary_dim == 2:
            rule = f"rope_type={self.rope_type} rescales by r/(r - 2): it needs r above 2"
            raise impossible("rope_type", self.rope_type, rule)

    def exact(self) -> Iterator[Decimal]:
        (base,) = self.effective_base()
        return geometric_series(base, self.rotary_dim, self.count)

    @exact_arithmetic
    def effective_base(self) -> Decimals:
        """Return the rescaled base B, as a list of one number."""
        exponent = Decimal(self.rotary_dim) / (self.rotary_dim - 2)
        return [Decimal(self.rope_theta) * self.base_scale() ** exponent]

    @abstractmethod
    def base_scale(self) -> Decimal:
        """Return α."""


@dataclass(frozen=True)
class Dynamic(RescaledBase, name="dynamic"):
    """Dynamic NTK-aware scaling by the sequence length that the model runs with.

    Formula: B^(−2k/r) with B = b·α^(r/(r − 2)) (``effective_base``), α = f·max(L, O)/O − (f − 1),
        which is 1 for L ≤ O. O is max_position_embeddings unless
        original_max_position_embeddings is given.
    Source: "YaRN" (Peng et al. 2023), §3.3; transformers ``_compute_dynamic_ntk_parameters``.
    Trap: the base grows with the sequence length, and engines differ on which length they use.
    """

    example: ClassVar[str] = "head_dim=4&factor=2&max_position_embeddings=8&context_length=16"
    published: ClassVar[str] = (
        "head_dim=128&factor=2&max_position_embeddings=4096&context_length=8192"
    )
    derived: ClassVar[tuple[str, ...]] = (_ORIGINAL, "context_length")
    other_keys: ClassVar[Mapping[str, Any]] = {_LENGTH: Length}
    # A config gives the original length as max_position_embeddings.
    not_in_configs: ClassVar[tuple[str, ...]] = (_ORIGINAL, "context_length")

    factor: Factor
    original_max_position_embeddings: OriginalLength
    context_length: ContextLength

    @classmethod
    def complete(cls, keys: Keys) -> Keys:
        """Return the keys with the defaults of the original length and of context_length."""
        original = keys.get(_ORIGINAL, keys.get(_LENGTH))
        if original is None:
            rule = f"{_LENGTH} is required with rope_type={cls.rope_type}"
            raise impossible(_LENGTH, None, rule)
        return {_ORIGINAL: original, "context_length": original, **keys}

    @exact_arithmetic
    def base_scale(self) -> Decimal:
        factor, original = Decimal(self.factor), self.original_max_position_embeddings
        return factor * max(self.context_length, original) / original - (factor - 1)


@dataclass(frozen=True)
class DynamicAlpha(RescaledBase, name="dynamic", variant="alpha"):
    """NTK-aware scaling by a fixed alpha, independent of the sequence length.

    Formula: B^(−2k/r) with B = b·alpha^(r/(r − 2)) (``effective_base``).
    Source: transformers ``compute_ntk_alpha_rope_parameters`` (HunYuan).
    """

    example: ClassVar[str] = "head_dim=4&alpha=1000"
    models: ClassVar[str] = "hunyuan_v1_dense"

    alpha: Annotated[Real, _factor("For dynamic, in place of factor: a fixed NTK scaling.", 1000)]

    def base_scale(self) -> Decimal:
        return Decimal(self.alpha)


@dataclass(frozen=True)
class Ntk(RotaryRule, name="ntk"):
    """NTK-aware scaling by a fixed factor; mixed_b distributes it over the frequencies.

    Formula: (b·f)^(−2k/r)/f^(2/r); with mixed_b, ω_k/exp(a·(k + 1)^mixed_b) with a =
        ln f/(r/2)^mixed_b. Without mixed_b, ``effective_base`` is b·f.
    Source: Su 2023, kexue.fm 9706 ("NTK-RoPE-mixed" with mixed_b); vLLM
        ``NTKScalingRotaryEmbedding``.
    """

    example: ClassVar[str] = "head_dim=4&factor=4"
    intermediate_names: ClassVar[tuple[str, ...]] = ("effective_base",)

    factor: Factor
    mixed_b: (
        Annotated[
            Real,
            _factor("For ntk: the exponent mixed_b of the NTK-RoPE-mixed formula.", 0.625, le=16),
        ]
        | None
    ) = None

    @property
    def frequency_seconds(self) -> float:
        return FREQUENCY_SECONDS * (1 if self.mixed_b is None else 40)

    def check(self) -> None:
        super().check()
        if self.mixed_b is not None and self.rotary_dim > MAX_MIXED_CHANNELS:
            rule = f"mixed_b is for at most {MAX_MIXED_CHANNELS} rotary channels"
            raise impossible("mixed_b", self.mixed_b, rule)

    @exact_series
    def exact(self) -> Iterator[Decimal]:
        factor, count = Decimal(self.factor), self.count
        if self.mixed_b is not None:
            mixed_b = Decimal(self.mixed_b)
            a = factor.ln() / count**mixed_b
            for k, frequency in enumerate(self.unscaled(), 1):
                yield frequency / (a * k**mixed_b).exp()
            return
        share = factor ** (Decimal(2) / self.rotary_dim)
        (base,) = self.effective_base()
        yield from divided(geometric_series(base, self.rotary_dim, count), share)

    def intermediates(self) -> Mapping[str, Table]:
        return super().intermediates() if self.mixed_b is None else {}

    @exact_arithmetic
    def effective_base(self) -> Decimals:
        """Return b·f."""
        return [Decimal(self.rope_theta) * Decimal(self.factor)]


@dataclass(frozen=True)
class Yarn(RotaryRule, name="yarn"):
    """YaRN scaling: low frequencies are divided, high ones kept, with a linear ramp in between.

    Formula: (1 − γ_k)·ω_k + γ_k·ω_k/f with γ_k = (k − low)/(high − low), clipped to 0 … 1; if high
        equals low, the denominator is 0.001. low and high are the pair indices
        r·ln(O/(2πβ))/(2·ln b) for β = beta_fast and β = beta_slow; with truncate=true low is
        rounded down and high up; then low is at least 0 and high at most r − 1. The attention
        factor is g(f, mscale)/g(f, mscale_all_dim) if neither is 0, else g(f, 1), with
        g(f, m) = 0.1·m·ln f + 1, or 1 if f ≤ 1. f is max_position_embeddings/O unless given.
        ``ramp`` is γ; ``range_raw`` is (low, high) before rounding and clipping, ``range_used``
        after.
    Source: "YaRN" (Peng et al. 2023), §3.2 and §3.4; transformers ``_compute_yarn_parameters``.
    Trap: gpt-oss has truncate=false. mscale without mscale_all_dim has no effect here, but
        multiplies the attention factor in DeepSeek's own code.
    """

    example: ClassVar[str] = "head_dim=8&factor=4&original_max_position_embeddings=64"
    published: ClassVar[str] = (
        "head_dim=128&rope_theta=1000000&factor=4&original_max_position_embeddings=32768"
    )
    models: ClassVar[str] = "deepseek_v2 deepseek_v3 gpt_oss"
    derived: ClassVar[tuple[str, ...]] = ("factor", "attention_factor")
    other_keys: ClassVar[Mapping[str, Any]] = {
        "mscale": Annotated[
            Real,
            _mscale("For yarn, with mscale_all_dim: both determine the attention factor."),
        ],
        "mscale_all_dim": Annotated[
            Real, _mscale("For yarn, with mscale: both determine the attention factor.")
        ],
    }
    intermediate_names: ClassVar[tuple[str, ...]] = ("ramp", "range_raw", "range_used")

    factor: Factor
    original_max_position_embeddings: OriginalLength
    attention_factor: AttentionFactor
    beta_fast: Annotated[
        Real, _factor(f"For yarn: {_MORE_ROTATIONS} keep their frequency; 32 unless given.", 32)
    ] = 32.0
    beta_slow: Annotated[
        Real, _factor(f"For yarn: {_FEWER_ROTATIONS} are divided by factor; 1 unless given.", 1)
    ] = 1.0
    truncate: Annotated[
        Boolean,
        about(
            "For yarn: whether the ends of the ramp are rounded to whole pairs; true unless given.",
            example=False,
        ),
    ] = True

    @classmethod
    def complete(cls, keys: Keys) -> Keys:
        """Return the keys with factor and attention_factor added unless given.

        factor is then max_position_embeddings/original_max_position_embeddings.
        """
        factor = _scaling_factor(cls.rope_type, keys)
        mscale, all_dim = (Decimal(keys.get(name, 0)) for name in ("mscale", "mscale_all_dim"))
        attention = yarn_attention_factor(Decimal(factor), mscale, all_dim)
        return {"factor": factor, "attention_factor": float(attention), **keys}

    def check(self) -> None:
        super().check()
        if self.rope_theta == 1:
            rule = "rope_theta must be more than 1 with rope_type=yarn"
            raise impossible("rope_theta", self.rope_theta, rule)
        if self.beta_fast < self.beta_slow:
            rule = f"beta_fast must be at least beta_slow, {self.beta_slow:g}"
            raise impossible("beta_fast", self.beta_fast, rule)

    def exact(self) -> Iterator[Decimal]:
        return blended(divided(self.unscaled(), self.factor), self.unscaled(), self.ramp())

    @exact_series
    def ramp(self) -> Iterator[Decimal]:
        """Return γ_k for each pair: 0 if its frequency is kept, 1 if it is divided by factor."""
        low, high = self.range_used()
        width = high - low or Decimal("0.001")
        yield from (clipped((k - low) / width) for k in range(self.count))

    @exact_arithmetic
    def range_raw(self) -> Decimals:
        """Return the fractional indices of the pairs with beta_fast and beta_slow rotations.

        Rotations are counted over the original length.
        """
        length, twice_ln = self.original_max_position_embeddings, 2 * Decimal(self.rope_theta).ln()
        spans = [length / (Decimal(beta) * TWO_PI) for beta in (self.beta_fast, self.beta_slow)]
        return [self.rotary_dim * span.ln() / twice_ln for span in spans]

    def range_used(self) -> Decimals:
        """Return low and high, the pair indices where the ramp begins and ends."""
        low, high = self.range_raw()
        if self.truncate:
            low = low.to_integral_value(ROUND_FLOOR)
            high = high.to_integral_value(ROUND_CEILING)
        return [max(low, _ZERO), min(high, Decimal(self.rotary_dim - 1))]


@dataclass(frozen=True)
class LongRope(RotaryRule, name="longrope"):
    """LongRoPE scaling: each frequency is divided by its factor in the list for the context length.

    Formula: ω_k/F_k with F = short_factor if L ≤ O, else long_factor. The attention factor is
        √(1 + ln f/ln O), or 1 if f ≤ 1; f is max_position_embeddings/O unless given.
        ``rescale_factor`` is F.
    Source: "LongRoPE" (Ding et al. 2024), §3, as Phi-3 has it; transformers
        ``_compute_longrope_parameters``.
    """

    example: ClassVar[str] = (
        "head_dim=4&short_factor=1,2&long_factor=2,4&factor=4&original_max_position_embeddings=16"
    )
    published: ClassVar[str] = (
        "head_dim=8&short_factor=1,1.1,1.3,1.5&long_factor=1,4,16,32&factor=32"
        "&original_max_position_embeddings=4096&context_length=131072"
    )
    models: ClassVar[str] = "phi3 phimoe minicpm3"
    derived: ClassVar[tuple[str, ...]] = ("context_length", "attention_factor")
    other_keys: ClassVar[Mapping[str, Any]] = {"factor": Factor}
    intermediate_names: ClassVar[tuple[str, ...]] = ("rescale_factor",)
    not_in_configs: ClassVar[tuple[str, ...]] = ("context_length",)
    only_in_configs: ClassVar[tuple[str, ...]] = ("short_mscale", "long_mscale")

    original_max_position_embeddings: OriginalLength
    context_length: ContextLength
    attention_factor: AttentionFactor
    short_factor: Annotated[
        Reals,
        _list("For longrope: the divisor of each frequency up to the original context length."),
    ]
    long_factor: Annotated[
        Reals,
        _list("For longrope: the divisor of each frequency beyond the original context length."),
    ]

    @classmethod
    def complete(cls, keys: Keys) -> Keys:
        """Return the keys with context_length and attention_factor added unless given."""
        original = keys[_ORIGINAL]
        if original == 1:
            rule = f"{_ORIGINAL} must be more than 1 with rope_type=longrope"
            raise impossible(_ORIGINAL, original, rule)
        completed = {"context_length": original, **keys}
        if "attention_factor" in keys:
            return completed
        factor = Decimal(_scaling_factor(cls.rope_type, keys))
        attention = longrope_attention_factor(factor, original)
        return {**completed, "attention_factor": float(attention)}

    def exact(self) -> Iterator[Decimal]:
        return divided(self.unscaled(), self.rescale_factor())

    def rescale_factor(self) -> Decimals:
        """Return F, the divisor of each frequency."""
        is_long = self.context_length > self.original_max_position_embeddings
        return list(map(Decimal, self.long_factor if is_long else self.short_factor))


@dataclass(frozen=True)
class Llama3(RotaryRule, name="llama3"):
    """Llama 3 scaling: low frequencies are divided, high ones kept, with a smooth transition.

    Formula: (1 − t_k)·ω_k/f + t_k·ω_k with t_k = (O·ω_k/2π − low)/(high − low), clipped to 0 … 1,
        low = low_freq_factor, high = high_freq_factor. If low equals high, t_k is 1 for wavelengths
        below O/low, else 0. ``smooth_factor`` is t; where it is 1, the frequency is kept.
    Source: "The Llama 3 Herd of Models" (2024); transformers ``_compute_llama3_parameters``; vLLM
        ``Llama3RotaryEmbedding`` for low equal to high.
    """

    example: ClassVar[str] = (
        "head_dim=8&factor=8&low_freq_factor=1&high_freq_factor=4"
        "&original_max_position_embeddings=64"
    )
    published: ClassVar[str] = (
        "head_dim=128&rope_theta=500000&factor=8&low_freq_factor=1&high_freq_factor=4"
        "&original_max_position_embeddings=8192"
    )
    models: ClassVar[str] = "exaone4"
    intermediate_names: ClassVar[tuple[str, ...]] = ("smooth_factor",)

    factor: Factor
    low_freq_factor: Annotated[
        Real, _factor(f"For llama3: {_FEWER_ROTATIONS} are divided by factor.", 1)
    ]
    high_freq_factor: Annotated[
        Real, _factor(f"For llama3: {_MORE_ROTATIONS} keep their frequency.", 4)
    ]
    original_max_position_embeddings: OriginalLength

    def check(self) -> None:
        super().check()
        if self.high_freq_factor < self.low_freq_factor:
            rule = f"high_freq_factor must be at least low_freq_factor, {self.low_freq_factor:g}"
            raise impossible("high_freq_factor", self.high_freq_factor, rule)

    def exact(self) -> Iterator[Decimal]:
        divisions = divided(self.unscaled(), self.factor)
        return blended(self.unscaled(), divisions, self.smooth_factor())

    @exact_series
    def smooth_factor(self) -> Iterator[Decimal]:
        """Return t_k for each pair: 1 if its frequency is kept, 0 if it is divided by factor."""
        low, high = Decimal(self.low_freq_factor), Decimal(self.high_freq_factor)
        width = high - low
        for frequency in self.unscaled():
            excess = self.original_max_position_embeddings * frequency / TWO_PI - low
            yield clipped(excess / width if width else Decimal(excess > 0))


@dataclass(frozen=True)
class Proportional(RotaryRule, name="proportional"):
    """Gemma 4: all channels of a head are rotary, but only the first frequencies are not 0.

    Formula: ω_k/f for k < ⌊partial_rotary_factor·r/2⌋, otherwise 0; r is head_dim.
    Source: transformers ``_compute_proportional_rope_parameters``.
    """

    example: ClassVar[str] = "head_dim=8&partial_rotary_factor=0.5"
    published: ClassVar[str] = "head_dim=512&rope_theta=1000000&partial_rotary_factor=0.25"
    models: ClassVar[str] = "gemma4"
    is_whole_head: ClassVar[bool] = True

    partial_rotary_factor: Share = 1.0
    factor: Factor = 1.0

    def exact(self) -> Iterator[Decimal]:
        rotated = int(self.partial_rotary_factor * self.rotary_dim // 2)
        series = geometric_series(Decimal(self.rope_theta), self.rotary_dim, rotated)
        return chain(divided(series, self.factor), repeat(_ZERO, self.count - rotated))


@exact_series
def divided(
    frequencies: Iterator[Decimal], factors: float | Decimal | Sequence[float | Decimal]
) -> Iterator[Decimal]:
    """Return frequencies divided by one factor, or each by its own; no factors divide by 1."""
    if isinstance(factors, int | float | Decimal):
        divisor = Decimal(factors)
        yield from (frequency / divisor for frequency in frequencies)
    elif factors:
        yield from (w / Decimal(factor) for w, factor in zip(frequencies, factors, strict=True))
    else:
        yield from frequencies


def clipped(value: Decimal) -> Decimal:
    """Return the value clipped to 0 … 1."""
    return min(max(value, _ZERO), _ONE)


@exact_series
def blended(
    ones: Iterator[Decimal], others: Iterator[Decimal], shares: Iterator[Decimal]
) -> Iterator[Decimal]:
    """Return share·one + (1 − share)·other, elementwise."""
    for one, other, share in zip(ones, others, shares, strict=True):
        yield share * one + (1 - share) * other


@exact_arithmetic
def yarn_mscale(factor: Decimal, mscale: Decimal = _ONE, slope: Decimal = _YARN_SLOPE) -> Decimal:
    """Return g(f, m) = slope·m·ln f + 1, or 1 if f ≤ 1.

    "YaRN" (Peng et al. 2023), §3.4, with a slope of 0.1 and m = 1; transformers ``get_mscale``.
    """
    return _ONE if factor <= 1 else slope * mscale * factor.ln() + 1


@exact_arithmetic
def yarn_attention_factor(factor: Decimal, mscale: Decimal, mscale_all_dim: Decimal) -> Decimal:
    """Return the attention factor of YaRN: g(f, mscale)/g(f, mscale_all_dim), or g(f, 1)."""
    if not (mscale and mscale_all_dim):
        return yarn_mscale(factor)
    return yarn_mscale(factor, mscale) / yarn_mscale(factor, mscale_all_dim)


@exact_arithmetic
def longrope_attention_factor(factor: Decimal, length: int) -> Decimal:
    """Return the attention factor of LongRoPE, for an original length above 1."""
    return _ONE if factor <= 1 else (1 + factor.ln() / Decimal(length).ln()).sqrt()


def _scaling_factor(rope_type: str, keys: Keys) -> float:
    """Return the factor, or max_position_embeddings/original_max_position_embeddings."""
    if "factor" in keys:
        return float(keys["factor"])
    if _LENGTH not in keys:
        rule = f"factor is required with rope_type={rope_type} unless {_LENGTH} is given"
        raise impossible("factor", None, rule)
    factor = float(keys[_LENGTH] / keys[_ORIGINAL])
    if not MIN_FACTOR <= factor <= MAX_FACTOR:
        bounds = f"from {MIN_FACTOR:g} to {MAX_FACTOR:g}"
        rule = f"{_LENGTH}/{_ORIGINAL} is the factor, which must be {bounds}"
        raise impossible(_LENGTH, keys[_LENGTH], rule)
    return factor


RULES: tuple[type[RotaryRule], ...] = tuple(RotaryRule.registered)
"""Every rule, in the order of definition."""

ROPE_TYPES = tuple(dict.fromkeys(rule.rope_type for rule in RULES))

SHARED = (_LENGTH, "partial_rotary_factor")
"""The keys that every rule accepts: the length of a table, and the rotary share of a head."""

RULE_KEYS: Mapping[str, Any] = {
    name: kind
    for rule in RULES
    for name, kind in rule.key_types().items()
    if name != "partial_rotary_factor"
}
"""The annotated type of each key of a rule."""

INTERMEDIATES = tuple(dict.fromkeys(name for rule in RULES for name in rule.intermediate_names))


def rule_of(rope_type: str, keys: Keys) -> type[RotaryRule]:
    """Return the rule of a rope_type; a key such as alpha selects a variant of that type."""
    rules = [rule for rule in RULES if rule.rope_type == rope_type]
    return next((rule for rule in rules if rule.variant in keys), rules[0])
