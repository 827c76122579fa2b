"""The parameters of a rotary rule in requests: the width of a head, the rule, and its keys."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import create_model

from service.encodings.family import Parameters, Reals, about, impossible
from service.encodings.rotary.rules import (
    DEFAULT_ROPE_THETA,
    ROPE_TYPES,
    RULE_KEYS,
    SHARE_FIELD,
    SHARED,
    Default,
    GivenFrequencies,
    Keys,
    RotaryFrequencies,
    rule_of,
)
from service.errors import Fault, InvalidParameters
from service.grammar import Integer, Real, to_query
from service.numerics.limits import MAX_BASE, MAX_CHANNELS
from service.numerics.phase import MAX_FREQUENCY, MIN_FREQUENCY, is_valid_frequency


class WidthParameters(Parameters):
    """The width of a head, and of its rotary part."""

    head_dim: Annotated[
        Integer | None,
        about(
            "Channels of a head; required unless rotary_dim or inv_freq is given.",
            128,
            ge=1,
            le=MAX_CHANNELS,
        ),
    ] = None
    rotary_dim: Annotated[
        Integer | None,
        about(
            "Rotary channels, the first ones of a head; all unless given.",
            64,
            ge=2,
            le=MAX_CHANNELS,
            multiple_of=2,
        ),
    ] = None
    partial_rotary_factor: Annotated[Real | None, SHARE_FIELD] = None

    def rotary_channels(self, head_dim: int | None) -> int | None:
        """Return the number of rotary channels, even; None where no parameter gives it.

        Args:
            head_dim: channels of a head, if they are known.
        """
        factor = self.partial_rotary_factor
        if factor is None:
            if self.rotary_dim is None:
                return even_channels("head_dim", head_dim, head_dim)
            if head_dim is not None and self.rotary_dim > head_dim:
                rule = f"rotary_dim must be at most head_dim, {head_dim}"
                raise impossible("rotary_dim", self.rotary_dim, rule)
            return self.rotary_dim
        if self.rotary_dim is not None:
            rule = "partial_rotary_factor does not go with rotary_dim"
            raise impossible("partial_rotary_factor", factor, rule)
        if head_dim is None:
            rule = "head_dim is required with partial_rotary_factor"
            raise impossible("head_dim", None, rule)
        return even_channels("partial_rotary_factor", factor, int(head_dim * factor))


def even_channels(origin: str, value: object, rotary_dim: int | None) -> int | None:
    """Refuse a number of channels that do not go in pairs; the error names its origin."""
    if rotary_dim is not None and (rotary_dim % 2 or rotary_dim < 2):
        rule = (
            f"channels rotate in pairs: {origin} gives {rotary_dim}, not an even number from 2 on"
        )
        raise impossible(origin, value, rule)
    return rotary_dim


RotaryOffset = Annotated[
    Integer, about("Channels of a head before the rotary ones.", 0, ge=0, le=MAX_CHANNELS)
]

Model = TypeVar("Model", bound=Parameters)

if TYPE_CHECKING:
    RopeType: TypeAlias = str
else:
    RopeType: TypeAlias = Literal[ROPE_TYPES]


def with_rule_keys(model: type[Model]) -> type[Model]:
    """Add the keys of all rules to a model, each optional."""
    annotated: Any = Annotated
    added: Any = {}
    for name, kind in RULE_KEYS.items():
        *others, field = kind.__metadata__
        key_type = annotated[(kind.__origin__, *others)] if others else kind.__origin__
        added[name] = (annotated[key_type | None, field], None)
    made: type[Model] = create_model(
        model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **added
    )
    return made


@with_rule_keys
class RuleKeyParameters(WidthParameters):
    """A rule and its keys."""

    rope_theta: Annotated[
        Real | None,
        about(
            "Base of the frequencies rope_theta^(-2k/rotary_dim); 10000 unless given.",
            10000,
            ge=1,
            le=MAX_BASE,
        ),
    ] = None
    rope_type: Annotated[
        RopeType | None, about("Rule of the frequencies; default unless given.", "yarn")
    ] = None
    if TYPE_CHECKING:
        max_position_embeddings: Integer | None = None


class RuleParameters(RuleKeyParameters):
    """The frequency of each pair of channels, by a rule or listed."""

    inv_freq: Annotated[
        Reals | None,
        about(
            "The frequencies themselves, in place of rope_theta and rope_type.",
            "1,0.1,0.01,0.001",
            max_length=MAX_CHANNELS // 2,
        ),
    ] = None

    def rule(self, head_dim: int | None) -> RotaryFrequencies:
        """Return the frequencies for heads of a width; raises InvalidParameters.

        Args:
            head_dim: channels of a head, if they are known.
        """
        keys = self._keys()
        if self.inv_freq is not None:
            self._check_given(self.inv_freq, head_dim)
            return GivenFrequencies(self.inv_freq, keys.get("attention_factor", 1.0))
        rule = rule_of(self.rope_type or Default.rope_type, keys)
        if rule.is_whole_head:
            rotary_dim = self._whole_head(head_dim)
        else:
            rotary_dim = self.rotary_channels(head_dim)
        if rotary_dim is None:
            explained = "head_dim is required, unless rotary_dim or inv_freq is given"
            raise impossible("head_dim", None, explained)
        chooser = rule.variant or f"rope_type={rule.rope_type}"
        faults = [
            Fault(name, to_query(value), f"{name} does not go with {chooser}")
            for name, value in keys.items()
            if name not in SHARED and name not in rule.key_types()
        ]
        if faults:
            raise InvalidParameters(*faults)
        return rule.from_keys(rotary_dim, self.rope_theta or DEFAULT_ROPE_THETA, keys)

    def _whole_head(self, head_dim: int | None) -> int | None:
        """Return the channels of a head, all of which are in pairs."""
        if head_dim is None:
            return self.rotary_dim
        if self.rotary_dim not in {None, head_dim}:
            rule = f"with rope_type={self.rope_type} all of a head is rotary: leave rotary_dim out"
            raise impossible("rotary_dim", self.rotary_dim, rule)
        return even_channels("head_dim", head_dim, head_dim)

    def _keys(self) -> Keys:
        """Return the keys of rules that were given."""
        names = ("partial_rotary_factor", *RULE_KEYS)
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def _check_given(self, inv_freq: tuple[float, ...], head_dim: int | None) -> None:
        others = {"rope_theta": self.rope_theta, "rope_type": self.rope_type, **self._keys()}
        for name, value in others.items():
            if value is not None and name not in {*SHARED, "attention_factor"}:
                raise impossible(name, value, f"{name} does not go with inv_freq")
        check_frequencies(inv_freq)
        width = 2 * len(inv_freq)
        named = self.rotary_dim or self.partial_rotary_factor
        rotary_dim = None if named is None else self.rotary_channels(head_dim)
        if rotary_dim not in {None, width}:
            rule = f"{len(inv_freq)} inv_freq rotate {width} channels, not {rotary_dim}"
            raise impossible("inv_freq", len(inv_freq), rule)
        if head_dim is not None and width > head_dim:
            rule = f"{len(inv_freq)} inv_freq rotate {width} channels, and a head has {head_dim}"
            raise impossible("inv_freq", len(inv_freq), rule)


def check_frequencies(inv_freq: tuple[float, ...]) -> None:
    """Refuse frequencies for which phases are not exact."""
    for frequency in inv_freq:
        if not is_valid_frequency(frequency):
            rule = f"inv_freq must be 0 or from {MIN_FREQUENCY:g} to {MAX_FREQUENCY:g}"
            raise impossible("inv_freq", frequency, rule)
