"""What a caller should know about how a config was read: stable codes, and what each means.

Values with where they came from, and what is wrong or worth a warning on the way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from service.errors import Fault, InvalidBody, shortened
from service.models.keys import Key

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "attention-factor-and-mscale": "attention_factor is given and wins over mscale and "
        "mscale_all_dim, which are given too",
        "attn-factor-alias": "attn_factor is read as attention_factor, which not all engines do",
        "class-default-used": "a value that is not in the config is the default of the model's "
        "class",
        "context-length-unused": "a context_length was asked for, and no frequency rule depends on "
        "it",
        "deepseek-mscale-ambiguity": "mscale without mscale_all_dim: transformers and DeepSeek's "
        "own code derive other attention factors of it",
        "dynamic-is-stateful": "the base grows with the length, and engines differ on which length "
        "that is",
        "factor-below-one": "a factor below 1 speeds frequencies up",
        "frequencies-per-axis": "the table is that of one axis of several",
        "head-dim-computed": "the width of a head of an unknown model type was computed",
        "heads-do-not-divide": "hidden_size is no multiple of num_attention_heads, of which the "
        "width of a head was computed",
        "implicit-factor-differs": "factor is not max_position_embeddings / "
        "original_max_position_embeddings",
        "key-not-read": "the model's class does not read a key, whatever it says",
        "last-channels-turn": "the last channels of a head turn, not the first",
        "layer-count-differs": "a list by layer is not as long as num_hidden_layers",
        "layers-unknown": "which layers an entry is for cannot be told",
        "layers-without-rule": "some layers are of a type that no frequency rule is for",
        "layout-assumed": "which channels turn together is not in the config, and was assumed",
        "longrope-regimes": "one list of factors holds up to the original length, another beyond",
        "low-equals-high-freq-factor": "nothing lies between the wavelengths kept and those "
        "divided",
        "max-length-assumed": "the config says no maximal length: the table's URL has a number of "
        "rows of our own",
        "mixed-layout": "the rotation reads one layout and writes the other",
        "model-type-missing": "without a model_type, no class defaults are known",
        "model-type-unknown": "no class defaults are known for this model_type",
        "mrope-axes": "sections for several position axes that the table's URL does not name",
        "no-rotary-embedding": "models of this type have no rotary embedding",
        "nope-layers": "some layers have no rotary embedding",
        "original-length-assumed": "original_max_position_embeddings is not in the config, and "
        "max_position_embeddings was taken",
        "original-length-in-two-places": "two original_max_position_embeddings differ",
        "partial-rotary-ignored": "models of this class turn whole heads, whatever "
        "partial_rotary_factor says",
        "per-layer-rope": "layers of different types have rotary embeddings of their own",
        "rope-scaling-and-rope-parameters-both": "rope_scaling is given and replaces "
        "rope_parameters, which differs",
        "rotary-dim-and-factor-disagree": "partial_rotary_factor and rotary_dim name different "
        "numbers of channels",
        "scaled-rope-assumed": "use_scaled_rope names no numbers: those of Llama 3.1 were taken",
        "softmax-scale-unknown": "whether a class of which nothing is known multiplies the scale "
        "of the softmax by mscale_all_dim cannot be told",
        "table-incomplete": "the angles depend on what no config says",
        "telechat-yarn": "the attention factor of TeleChat3's YaRN is not that of YaRN",
        "theta-assumed": "rope_theta is not in the config of an unknown model type, and 10000 was "
        "taken",
        "theta-default-changed": "the class default of rope_theta is another one in transformers "
        "4.57.1",
        "theta-not-everywhere": "transformers keeps a class default of rope_theta, for some layers "
        "or for all",
        "truncate-ignored-when-nested": "transformers 5.23.0 ignores truncate: false within "
        "parameters by layer type",
        "truncate-not-representable": "some engines always round the range of YaRN outwards",
        "turns-inversely": "models of this class turn by the negative angle",
        "type-and-rope-type-disagree": "rope_type is given and wins over type, which differs",
        "unknown-rope-key": "a key of rotary settings that nothing reads",
        "zero-ignored": "a number that may not be 0 is 0, and was read as if it were not given",
    }
)
"""Every code, with what it means."""


@dataclass(frozen=True)
class ConfigWarning:
    """Something in a config, or missing from it, that can go wrong elsewhere.

    Attributes:
        code: a key of MEANINGS.
        detail: what it is about in this config.
        pointer: a JSON pointer to where it is, or would be given.
    """

    code: str
    detail: str
    pointer: str

    def __post_init__(self) -> None:
        if self.code not in MEANINGS:
            raise ValueError(f"{self.code} is not a code of a warning")


@dataclass(frozen=True)
class ResolvedValue:
    """A value.

    Attributes:
        origin: where it came from: a JSON pointer, "alias" and one, "class default of …" or
            "computed: …".
        pointer: a JSON pointer to where it is in the body, or would be given.
    """

    value: Any
    origin: str
    pointer: str

    def computed(self, value: Any, formula: str) -> "ResolvedValue":
        """Return a value that was made of this one."""
        return ResolvedValue(value, f"computed: {formula}", self.pointer)


Values = Mapping[str, ResolvedValue]


@dataclass(frozen=True)
class KeyPlace:
    """An object in the body, and the JSON pointer to it."""

    content: Mapping[str, Any]
    pointer: str = ""

    def at(self, key: str) -> str:
        """Point at a member."""
        return f"{self.pointer}/{key.replace('~', '~0').replace('/', '~1')}"

    def has(self, *keys: str) -> bool:
        """Return whether any of these members is there, and not null."""
        return any(self.content.get(key) is not None for key in keys)


@dataclass
class ReadingReport:
    """What was noticed while a config was read: each thing once, in the order it was noticed."""

    faults: dict[Fault, None] = field(default_factory=dict)
    warnings: dict[ConfigWarning, None] = field(default_factory=dict)

    def fault(self, pointer: str, value: object, rule: str) -> None:
        """Note something that is wrong; the name of what it is about begins the detail."""
        name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~") or "the body"
        sent = None if value is None else shortened(value)
        self.faults[Fault(pointer, sent, f"{shortened(name)} {rule}", in_body=True)] = None

    def warn(self, code: str, detail: str, pointer: str) -> None:
        """Note a warning."""
        self.warnings[ConfigWarning(code, detail, pointer)] = None

    def check(self) -> None:
        """Raise InvalidBody with every fault there is."""
        if self.faults:
            raise InvalidBody.at(*self.faults)


def read_values(
    place: KeyPlace, keys: Mapping[str, Key], names: Mapping[str, str], report: ReadingReport
) -> dict[str, ResolvedValue]:
    """Find each key under its canonical name, the class's own, then its aliases; null is nothing.

    Args:
        place: the object to look in.
        keys: what to look for, by canonical name.
        names: the class's own names.
        report: takes a fault for each value that is not what it must be.
    """
    found: dict[str, ResolvedValue] = {}
    for name, key in keys.items():
        spelling = _spelling(place, (name, names.get(name, name), *key.aliases))
        if spelling is not None:
            value = read_value(place, spelling, key, report)
            if value is not None:
                origin = value.pointer if spelling == name else f"alias {value.pointer}"
                found[name] = ResolvedValue(value.value, origin, value.pointer)
    return found


def _spelling(place: KeyPlace, spellings: Iterable[str]) -> str | None:
    return next((spelling for spelling in spellings if place.has(spelling)), None)


def read_value(place: KeyPlace, name: str, key: Key, report: ReadingReport) -> ResolvedValue | None:
    """Read a member that may be absent or null; logs a fault if it is not what it must be."""
    sent = place.content.get(name)
    if sent is None:
        return None
    try:
        return ResolvedValue(key.read(sent), place.at(name), place.at(name))
    except ValueError as error:
        report.fault(place.at(name), sent, str(error))
        return None


def read_object(place: KeyPlace, name: str, report: ReadingReport) -> KeyPlace | None:
    """Find an object within; None if it is not there, or empty, and a fault if it is no object."""
    sent = place.content.get(name)
    if sent is None:
        return None
    if not isinstance(sent, dict):
        report.fault(place.at(name), sent, "must be an object")
        return None
    return KeyPlace(sent, place.at(name)) if sent else None


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """Ask whether the nearest word that is known was meant; nothing if none is near."""
    near = get_close_matches(word[:64].lower(), known, n=1, cutoff=cutoff)
    return f"; did you mean {near[0]}?" if near else ""
