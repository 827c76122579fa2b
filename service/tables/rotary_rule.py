"""What every rotary rule is: frequencies, what multiplies their cosines, and its own spelling."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import ClassVar, Protocol

from service.tables import scaling
from service.tables.decimals import DecimalTable
from service.tables.document import ParameterValue
from service.tables.frequencies import FrequencyRule
from service.tables.scaling import Decimals


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
