"""Rotary rules by ``rope_type``: what fixes the frequencies, by the keys of published configs.

What a rule makes of its keys, the functions of ``scaling`` do.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from service.tables import scaling
from service.tables.angle import exact_context
from service.tables.decimals import DecimalTable
from service.tables.rotary_rule import NamedRule
from service.tables.scaling import Decimals


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
