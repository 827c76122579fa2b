"""Values of a config with their origins, and the report of faults and warnings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from service.errors import Fault, InvalidBody, shortened
from service.models.keys import Key

MEANINGS: Mapping[str, str] = {
    "attention-factor-and-mscale": "attention_factor, mscale and mscale_all_dim are given; "
    "attention_factor is used",
    "attn-factor-alias": "attn_factor is read as attention_factor; some engines ignore it",
    "class-default-used": "a value is missing from the config; the default of the model's "
    "class is used",
    "context-length-unused": "context_length is given, and no frequency rule depends on it",
    "deepseek-mscale-ambiguity": "mscale is given without mscale_all_dim: transformers and "
    "DeepSeek's own code compute different attention factors",
    "dynamic-is-stateful": "the base grows with the sequence length, and engines disagree on "
    "which length",
    "factor-below-one": "a factor below 1 increases the frequencies",
    "frequencies-per-axis": "the table is for one of several position axes",
    "head-dim-computed": "the head_dim of an unknown model type is computed",
    "heads-do-not-divide": "head_dim is computed, and num_attention_heads does not divide "
    "hidden_size",
    "implicit-factor-differs": "factor is not max_position_embeddings / "
    "original_max_position_embeddings",
    "key-not-read": "the model's class ignores a key of the config",
    "last-channels-turn": "the last channels of a head turn, not the first",
    "layer-count-differs": "the length of a list by layer is not num_hidden_layers",
    "layers-unknown": "the config does not tell which layers an entry is for",
    "layers-without-rule": "no frequency rule is given for some layers",
    "layout-assumed": "the config does not name the layout of pairs; it is assumed",
    "longrope-regimes": "short_factor is used up to the original length, long_factor beyond",
    "low-equals-high-freq-factor": "low_freq_factor equals high_freq_factor: no frequency is "
    "smoothed",
    "max-length-assumed": "the config has no maximum length; the table's URL has an assumed "
    "number of rows",
    "mixed-layout": "the rotation reads pairs of one layout and writes the other",
    "model-type-missing": "there is no model_type, so no class defaults are known",
    "model-type-unknown": "no class defaults are known for this model_type",
    "mrope-axes": "the sections are for position axes that the table's URL cannot name",
    "no-rotary-embedding": "models of this type have no rotary embedding",
    "nope-layers": "some layers have no rotary embedding",
    "original-length-assumed": "original_max_position_embeddings is missing; "
    "max_position_embeddings is used",
    "original-length-in-two-places": "two values of original_max_position_embeddings differ",
    "partial-rotary-ignored": "models of this class turn whole heads and ignore "
    "partial_rotary_factor",
    "per-layer-rope": "layers of different types have different rotary embeddings",
    "rope-scaling-and-rope-parameters-both": "rope_scaling and rope_parameters differ; "
    "rope_scaling is used",
    "rotary-dim-and-factor-disagree": "partial_rotary_factor and rotary_dim give different "
    "numbers of channels",
    "scaled-rope-assumed": "use_scaled_rope has no numbers; those of Llama 3.1 are used",
    "softmax-scale-unknown": "whether this unknown class multiplies the softmax scale by "
    "mscale_all_dim cannot be determined",
    "table-incomplete": "the angles depend on values that no config has",
    "telechat-yarn": "the attention factor of TeleChat3's YaRN differs from that of YaRN",
    "theta-assumed": "rope_theta of an unknown model type is missing; 10000 is used",
    "theta-default-changed": "the class default of rope_theta differs in transformers 4.57.1",
    "theta-not-everywhere": "transformers uses a class default of rope_theta for some layers, "
    "or for all",
    "truncate-ignored-when-nested": "transformers 5.23.0 ignores truncate: false within "
    "parameters by layer type",
    "truncate-not-representable": "some engines always round the range of YaRN",
    "turns-inversely": "models of this class rotate by the negative angle",
    "type-and-rope-type-disagree": "rope_type and type differ; rope_type is used",
    "unknown-rope-key": "nothing reads a key that looks like a rotary setting",
    "zero-ignored": "a number that may not be 0 is 0; it counts as missing",
}
"""The codes of warnings, each with its meaning."""

_MAX_UNKNOWN = 20


@dataclass(frozen=True)
class ConfigWarning:
    """A doubt about a value of a config: assumed, ignored, or read differently elsewhere.

    Attributes:
        code: a key of MEANINGS.
        detail: the warning for this config.
        pointer: a JSON pointer to the value, or to where it would be.
    """

    code: str
    detail: str
    pointer: str

    def __post_init__(self) -> None:
        if self.code not in MEANINGS:
            raise ValueError(f"{self.code} is not a code of a warning")


@dataclass
class ReadingReport:
    """The faults and warnings of reading a config, each once, in the order of reading."""

    faults: dict[Fault, None] = field(default_factory=dict)
    warnings: dict[ConfigWarning, None] = field(default_factory=dict)

    def fault(self, pointer: str, value: object, rule: str) -> None:
        """Add a fault; its detail begins with the name of the key."""
        name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~") or "the body"
        sent = None if value is None else shortened(value)
        self.faults[Fault(pointer, sent, f"{shortened(name)} {rule}", in_body=True)] = None

    def warn(self, code: str, detail: str, pointer: str) -> None:
        self.warnings[ConfigWarning(code, detail, pointer)] = None

    def check(self) -> None:
        """Raise InvalidBody with all faults, if there are any."""
        if self.faults:
            raise InvalidBody.at(*self.faults)


@dataclass(frozen=True)
class ResolvedValue:
    """A value and its origin.

    Attributes:
        origin: a JSON pointer, "alias" and a JSON pointer, "class default of …" or "computed: …".
        pointer: a JSON pointer to where it is in the body, or would be given.
    """

    value: Any
    origin: str
    pointer: str

    def computed(self, value: Any, formula: str) -> "ResolvedValue":
        """Return a value computed from this one."""
        return ResolvedValue(value, f"computed: {formula}", self.pointer)

    def alias(self) -> "ResolvedValue":
        """Return this value with the origin of one that has another name in the config."""
        return ResolvedValue(self.value, f"alias {self.pointer}", self.pointer)


Values = Mapping[str, ResolvedValue]


@dataclass(frozen=True)
class KeyPlace:
    """An object in the body, the JSON pointer to it, and the report of its faults and warnings."""

    content: Mapping[str, Any]
    pointer: str
    report: ReadingReport

    def at(self, key: str) -> str:
        """Return the JSON pointer to a member."""
        return f"{self.pointer}/{key.replace('~', '~0').replace('/', '~1')}"

    def has(self, *keys: str) -> bool:
        """Return whether any of these members is present and not null."""
        return any(self.content.get(key) is not None for key in keys)

    def read(self, name: str, key: Key) -> ResolvedValue | None:
        """Return a member; None if it is absent or null, None and a fault if it is invalid."""
        value = self.content.get(name)
        if value is None:
            return None
        try:
            return ResolvedValue(key.read(value), self.at(name), self.at(name))
        except ValueError as error:
            self.report.fault(self.at(name), value, str(error))
            return None

    def read_all(
        self, keys: Mapping[str, Key], names: Mapping[str, str] | None = None
    ) -> dict[str, ResolvedValue]:
        """Return members by canonical name, without those that are null or invalid.

        Args:
            keys: the canonical names, each of which wins over all others.
            names: the class's own names, which win over aliases.
        """
        values: dict[str, ResolvedValue] = {}
        for name, key in keys.items():
            spellings = (name, (names or {}).get(name, name), *key.aliases)
            spelling = next((each for each in spellings if self.has(each)), name)
            value = self.read(spelling, key)
            if value is not None:
                values[name] = value if spelling == name else value.alias()
        return values

    def inner(self, name: str) -> "KeyPlace | None":
        """Return a nested object; None if absent or empty, None and a fault if it is no object."""
        value = self.content.get(name)
        if value is not None and not isinstance(value, dict):
            self.report.fault(self.at(name), value, "must be an object")
            return None
        return KeyPlace(value, self.at(name), self.report) if value else None

    def absent(self, pointer: str) -> "KeyPlace":
        """Return the place of an object that is not in the body."""
        return KeyPlace({}, pointer, self.report)

    def warn(self, code: str, detail: str, name: str) -> None:
        """Warn of a member."""
        self.report.warn(code, detail, self.at(name))

    def warn_unknown(self, keys: Sequence[str], detail: Callable[[str], str], others: str) -> None:
        """Warn of members that are not read: each of the first ones, and the count of the others.

        Args:
            keys: their names.
            detail: returns the detail of the warning of one of them.
            others: the detail of the warning of the others, with {} for their number.
        """
        for key in keys[:_MAX_UNKNOWN]:
            self.warn("unknown-rope-key", detail(key), key)
        if len(keys) > _MAX_UNKNOWN:
            pointer = self.pointer or self.at("model_type")
            count = len(keys) - _MAX_UNKNOWN
            self.report.warn("unknown-rope-key", others.format(count), pointer)


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """Return "; did you mean …?" with the nearest known word, or nothing."""
    near = get_close_matches(word[:64].lower(), known, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""
