"""The keys of configs, and how their values are read: with origins, faults and warnings.

A reader raises ValueError with the rule that a value breaks. Canonical names are those of
transformers 5.23.0 ``RopeParameters`` and ``PreTrainedConfig``; the keys of frequency rules are
those of ``encodings/rotary/rules``. Aliases are those of remote-code models, of Meta's and
Mistral's params.json, of gpt-oss's original config.json, of litgpt and of vLLM 0.33.0.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from importlib.resources import files
from math import inf, isfinite
from typing import Any, Literal, TypeAlias

from service.encodings.rotary.rules import ROPE_TYPES, RULES
from service.errors import Fault, InvalidBody, shortened
from service.numerics.limits import MAX_CHANNELS, MAX_MSCALE

MAX_COUNT = 2**53
MAX_LAYERS = 4096

Reader = Callable[[Any], Any]


def count(value: Any) -> int:
    """Return an integer from 1 to 2^53; 4096.0 is one."""
    if isinstance(value, float) and value.is_integer() and value <= MAX_COUNT:
        value = int(value)
    if type(value) is not int or not 1 <= value <= MAX_COUNT:
        rule = "must be an integer from 1 to 2^53"
        raise ValueError(f"{rule}, not text" if isinstance(value, str) else rule)
    return value


def _count_up_to(limit: int, value: Any) -> int:
    if count(value) > limit:
        raise ValueError(f"must be at most {limit}")
    return count(value)


channels = partial(_count_up_to, MAX_CHANNELS)
layers = partial(_count_up_to, MAX_LAYERS)


def size(value: Any) -> int:
    """Return the size of a section: 0, or an integer up to 2^53."""
    return 0 if value == 0 and type(value) in {int, float} else count(value)


def real(value: Any) -> float:
    """Return a number within the range of binary64."""
    if type(value) not in {int, float}:
        raise ValueError("must be a number" + (", not text" if isinstance(value, str) else ""))
    try:
        number = float(value)
    except OverflowError:
        number = inf
    if not isfinite(number):
        raise ValueError("must be a number within the range of binary64")
    return number


def share(value: Any) -> float:
    """Return a number above 0 and up to 1."""
    number = real(value)
    if not 0 < number <= 1:
        raise ValueError("must be more than 0 and at most 1")
    return number


def mscale(value: Any) -> float:
    """Return a coefficient of the formula of an attention factor."""
    number = real(value)
    if not 0 <= number <= MAX_MSCALE:
        raise ValueError(f"must be from 0 to {MAX_MSCALE:g}")
    return number


def flag(value: Any) -> bool:
    """Return a truth value; 0 and 1 are truth values, too."""
    if type(value) not in {bool, int} or value not in {0, 1}:
        raise ValueError("must be true or false")
    return bool(value)


def name(value: Any) -> str:
    """Return a text."""
    if type(value) is not str:
        raise ValueError("must be text")
    return value


_PERIODS: Mapping[str, Mapping[object, str]] = {
    "the letters L and G": {"L": "sliding_attention", "G": "full_attention"},
    "a list of attention and recurrent": {
        "attention": "sliding_attention",
        "recurrent": "linear_attention",
    },
}


def period(value: Any) -> tuple[str, ...]:
    """Return the types of layers that repeat, of letters (EXAONE) or a list (RecurrentGemma)."""
    rule, kinds = list(_PERIODS.items())[isinstance(value, list)]
    if not value or len(value) > MAX_LAYERS or not all(map(kinds.__contains__, map(str, value))):
        raise ValueError(f"must be an integer, or {rule}, one for each layer")
    return tuple(kinds[each] for each in value)


def indices(value: Any) -> tuple[int, ...]:
    """Return the layers of a list, counted from 0; the list may be empty."""
    items = _by_layer(lambda item: item, "integers", value)
    if not all(type(item) is int for item in items):
        raise ValueError("must be a list of integers")
    return items


def _by_layer(read: Reader, kind: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list) or len(value) > MAX_LAYERS:
        raise ValueError(f"must be a list of at most {MAX_LAYERS} {kind}")
    return _items(read, value)


def _by_channel(read: Reader, kind: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"must be a list of {kind}, not empty")
    if len(value) > MAX_CHANNELS:
        raise ValueError(f"must be a list of at most {MAX_CHANNELS}")
    return _items(read, value)


def _items(read: Reader, items: list[Any]) -> tuple[Any, ...]:
    numbers = []
    for index, item in enumerate(items):
        try:
            numbers.append(read(item))
        except ValueError as error:
            raise ValueError(f"has item {index}, which {error}") from error
    return tuple(numbers)


reals = partial(_by_channel, real, "numbers")
sizes = partial(_by_channel, size, "integers")
# Lists with one item for each layer may be empty; a base of null is 0.
bases = partial(_by_layer, lambda item: real(item or 0), "numbers")
shares = partial(_by_layer, share, "numbers")
flags = partial(_by_layer, flag, "0 and 1")
names = partial(_by_layer, name, "texts")


@dataclass(frozen=True)
class Key:
    """A key of configs.

    Attributes:
        read: returns its value; raises ValueError with the rule that is broken.
        aliases: its other names, the most common first.
    """

    read: Reader
    aliases: tuple[str, ...] = ()


_BASES = (
    "rotary_emb_base",
    "rotary_base",
    "rope_base",
    "rope_embedding_base",
    "rope_freq_constant",
)

TOP: Mapping[str, Key] = {
    "head_dim": Key(channels, ("kv_channels", "head_size", "attention_head_dim")),
    "hidden_size": Key(count, ("n_embd", "d_model", "dim")),
    "num_attention_heads": Key(count, ("n_head", "n_heads", "num_heads")),
    "num_hidden_layers": Key(layers, ("n_layer", "n_layers", "num_layers")),
    "max_position_embeddings": Key(
        count,
        (
            "n_positions",
            "max_sequence_length",
            "max_seq_length",
            "max_seq_len",
            "seq_length",
            "n_ctx",
            "block_size",
            "model_max_length",
        ),
    ),
    "original_max_position_embeddings": Key(count),
    "initial_context_length": Key(count),
    "rope_theta": Key(real, _BASES),
    "rope_ratio": Key(real),
    "partial_rotary_factor": Key(
        share,
        ("rotary_pct", "rotary_percent", "rotary_percentage", "rotary_emb_fraction", "rope_pct"),
    ),
    "rotary_dim": Key(channels, ("rope_dim", "rope_n_elem", "rotary_ndims")),
    "layer_types": Key(names),
    "rope_interleave": Key(
        flag,
        ("rope_interleaved", "rotary_emb_interleaved", "rope_traditional", "rotary_interleaved"),
    ),
    "rope_condense_ratio": Key(real),
    "rope_scaling_factor": Key(real),
    "rope_high_freq_factor": Key(real),
    "rope_ntk_alpha": Key(real),
    "rope_ntk_beta": Key(real),
    "use_scaled_rope": Key(flag),
    "attn_temperature_tuning": Key(flag),
    "attn_scale": Key(real),
    "floor_scale": Key(count),
}
"""The keys at the top of a config."""

_READERS: Mapping[type, Reader] = {float: real, int: count, bool: flag, tuple[float, ...]: reals}
_RULE_ALIASES: Mapping[str, tuple[str, ...]] = {
    "factor": ("scaling_factor",),
    "original_max_position_embeddings": ("original_max_seq_len", "original_max_position_embedding"),
    "attention_factor": ("attn_factor",),
}
# The attention factor is computed from these before the bounds of all keys are checked.
_RULE_READERS: Mapping[str, Reader] = {"mscale": mscale, "mscale_all_dim": mscale}

OF_EVERY_RULE: Mapping[str, Key] = {
    "rope_type": Key(name, ("type",)),
    "rope_theta": Key(real, ("rope_base", "base")),
    "partial_rotary_factor": Key(share),
    "rotary_dim": Key(channels, ("rope_dim",)),
    "mrope_section": Key(sizes, ("xdrope_section",)),
    "mrope_interleaved": Key(flag),
    "llama_4_scaling_beta": Key(real),
}
"""Keys of all frequency rules."""

RULE_TYPES: Mapping[str, frozenset[str]] = {
    name: frozenset(key for rule in RULES if rule.rope_type == name for key in rule.config_keys())
    for name in ROPE_TYPES
}
"""The frequency rules, each with the keys that it reads in addition to those of every rule."""

RULE: Mapping[str, Key] = {
    **OF_EVERY_RULE,
    **{
        key: Key(_RULE_READERS.get(key, _READERS[kind]), _RULE_ALIASES.get(key, ()))
        for rule in RULES
        for key, kind in rule.config_keys().items()
        if key not in OF_EVERY_RULE
    },
}
"""The keys among the parameters of a frequency rule."""

RULE_SPELLINGS: Mapping[str, str] = {
    spelling: name for name, key in RULE.items() for spelling in (name, *key.aliases)
}
"""The canonical names of these keys, by each of their names."""

YARN_OF_MISTRAL: Mapping[str, Key] = {
    "factor": RULE["factor"],
    "original_max_position_embeddings": RULE["original_max_position_embeddings"],
    "beta_fast": Key(real, ("beta",)),
    "beta_slow": Key(real, ("alpha",)),
    "apply_scale": Key(flag),
}
"""The keys under ``yarn`` in Mistral's params.json."""

LLAMA4_OF_MISTRAL: Mapping[str, Key] = {
    "llama_4_scaling_beta": Key(real, ("beta",)),
    "llama_4_scaling_length": Key(count, ("original_max_position_embeddings",)),
}
"""The keys under ``llama_4_scaling`` in Mistral's params.json."""

RULE_TYPE_ALIASES: Mapping[str, str] = {
    "su": "longrope",
    "mrope": "default",
    "none": "default",
    "deepseek_yarn": "yarn",
    "deepseek_llama_scaling": "yarn",
    "telechat3-yarn": "yarn",
    "xdrope": "dynamic",
}
"""Other names of the frequency rules."""

TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys under which multimodal configs of any type hold the config of the text model."""


_WARNINGS = tomllib.loads(files("service.models").joinpath("warnings.toml").read_text("utf-8"))
MEANINGS: Mapping[str, str] = _WARNINGS["configs"]
"""The codes of warnings about configs, each with its meaning."""

CODES: Mapping[str, str] = {**MEANINGS, **_WARNINGS["documents"]}
"""All codes of warnings."""

_MAX_UNKNOWN = 20


@dataclass(frozen=True)
class ConfigWarning:
    """A warning: a value of a config is assumed, ignored, or read differently elsewhere.

    Attributes:
        code: a key of CODES.
        detail: the sentence for this config.
        pointer: the JSON pointer of the value, even if it is missing.
    """

    code: str
    detail: str
    pointer: str

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise ValueError(f"{self.code} is not a code of a warning")


def fault(pointer: str, value: object, rule: str, near: str | None = None) -> Fault:
    """Return a fault whose detail begins with the name of the key and ends with the near word."""
    name = pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~") or "the body"
    sent = None if value is None else shortened(value)
    detail = f"{shortened(name)} {rule}{asking(near)}"
    return Fault(pointer, sent, detail, in_body=True, suggestion=near)


@dataclass
class ReadingReport:
    """The faults and warnings of reading a config, each once, in the order of reading."""

    faults: dict[Fault, None] = field(default_factory=dict)
    warnings: dict[ConfigWarning, None] = field(default_factory=dict)

    def fault(self, pointer: str, value: object, rule: str, near: str | None = None) -> None:
        """Add a fault, as ``fault`` returns it."""
        self.faults[fault(pointer, value, rule, near)] = None

    def warn(self, code: str, detail: str, pointer: str) -> None:
        self.warnings[ConfigWarning(code, detail, pointer)] = None

    def check(self) -> None:
        """Raise InvalidBody with all faults, if there are any."""
        if self.faults:
            raise InvalidBody.at(*self.faults)


Origin: TypeAlias = Literal[
    "config", "class default", "computed", "assumed", "fixed in code", "request", "example"
]


@dataclass(frozen=True)
class ResolvedValue:
    """A value and its origin.

    Attributes:
        sources: JSON pointers, parameters of the request, or a class with the version of its
            library.
        pointer: the JSON pointer of the value, even if it is missing in the body.
        formula: what a computed value is computed by, with the origins of its terms.
        is_alias: whether the config has it under another name.
    """

    value: Any
    origin: Origin
    sources: tuple[str, ...] = ()
    pointer: str = ""
    formula: str = ""
    is_alias: bool = False

    def __str__(self) -> str:
        """Return its origin as text."""
        if self.formula:
            return f"computed: {self.formula}"
        sources = ", ".join(self.sources) or self.origin
        return f"alias {sources}" if self.is_alias else sources

    @property
    def is_default(self) -> bool:
        """True for the default of a class, and for what is computed from such defaults alone."""
        is_computed = self.origin == "computed" and bool(self.sources)
        is_from_class = is_computed and not any(each[0] in "/?" for each in self.sources)
        return is_from_class or self.origin == "class default"

    def alias(self) -> "ResolvedValue":
        """Return this value as one that the config has under another name."""
        return replace(self, is_alias=True)

    def as_example(self) -> "ResolvedValue":
        """Return this value as an example, which no class has if it is a number alone."""
        sources = () if self.origin == "fixed in code" else self.sources
        return replace(self, origin="example", sources=sources)


def computed(value: Any, formula: str, *terms: ResolvedValue) -> ResolvedValue:
    """Return a value by a formula, with {} for the origin of each term; it stands at the first."""
    sources = tuple(dict.fromkeys(source for term in terms for source in term.sources))
    text = formula.format(*terms)
    return ResolvedValue(value, "computed", sources, terms[0].pointer, text)


Values = Mapping[str, ResolvedValue]


def under(pointer: str, name: str) -> str:
    """Return the JSON pointer to a member."""
    return f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"


@dataclass(frozen=True)
class KeyPlace:
    """An object in the body, the JSON pointer to it, and the report of its faults and warnings."""

    content: Mapping[str, Any]
    pointer: str
    report: ReadingReport

    def at(self, key: str) -> str:
        """Return the JSON pointer to a member."""
        return under(self.pointer, key)

    def has(self, *keys: str) -> bool:
        """Return whether any of these members is present and not null."""
        return any(self.content.get(key) is not None for key in keys)

    def read(self, name: str | None, key: Key) -> ResolvedValue | None:
        """Return a member; None if it is absent or null, None and a fault if it is invalid."""
        value = None if name is None else self.content.get(name)
        if name is None or value is None:
            return None
        try:
            pointer = self.at(name)
            return ResolvedValue(key.read(value), "config", (pointer,), pointer)
        except ValueError as error:
            self.report.fault(self.at(name), value, str(error))
            return None

    def read_all(
        self, keys: Mapping[str, Key], names: Mapping[str, str] | None = None
    ) -> dict[str, ResolvedValue]:
        """Return members by canonical name, without those that are null or invalid.

        Args:
            keys: the keys by canonical name, which takes precedence over all others.
            names: the class's own names, which take precedence over aliases.
        """
        values: dict[str, ResolvedValue] = {}
        for name, key in keys.items():
            spellings = (name, (names or {}).get(name, name), *key.aliases)
            spelling = next(filter(self.has, spellings), name)
            value = self.read(spelling, key)
            if value is not None:
                values[name] = value if spelling == name else value.alias()
                if name != "rope_type":
                    self._warn_others(spelling, spellings)
        return values

    def _warn_others(self, used: str, spellings: Iterable[str]) -> None:
        """Warn of other names of a member that have another value."""
        for other in dict.fromkeys(spellings):
            if self.has(other) and self.content[other] != self.content[used]:
                said = shortened(self.content[other])
                self.warn("said-twice", f"{used} is used, and {other} is {said}", other)

    def inner(self, name: str) -> "KeyPlace | None":
        """Return a nested object; None if absent or empty, None and a fault if it is no object."""
        value = self.content.get(name)
        if value is not None and not isinstance(value, dict):
            self.report.fault(self.at(name), value, "must be an object")
            return None
        return KeyPlace(value, self.at(name), self.report) if value else None

    def of_type(self, name: str, around: str) -> "KeyPlace":
        """Return the config of a part whose type its class has fixed, with a warning of another."""
        own = self.content.get("model_type")
        if own == name or not isinstance(own, str):
            return self
        if own not in {around, ""}:
            detail = f"{around} has {name} there, whatever type its config names"
            self.warn("key-not-read", detail, "model_type")
        # A copy of noted keys shares the notes.
        content: Any = copy(self.content)
        content["model_type"] = name
        return replace(self, content=content)

    def absent(self, pointer: str) -> "KeyPlace":
        """Return an empty object at a pointer that is not in the body."""
        return KeyPlace({}, pointer, self.report)

    def warn(self, code: str, detail: str, name: str) -> None:
        """Warn of a member."""
        self.report.warn(code, detail, self.at(name))

    def warn_unknown(self, keys: Sequence[str], detail: Callable[[str], str], others: str) -> None:
        """Warn of each of the first members that are not read, and of the number of the others.

        Args:
            keys: the names of the members.
            detail: returns the detail of the warning of a member.
            others: the detail of the warning of the others, with {} for their number.
        """
        for key in keys[:_MAX_UNKNOWN]:
            self.warn("unknown-rope-key", detail(key), key)
        if len(keys) > _MAX_UNKNOWN:
            pointer = self.pointer or self.at("model_type")
            count = len(keys) - _MAX_UNKNOWN
            self.report.warn("unknown-rope-key", others.format(count), pointer)


def differ(one: object, other: object) -> bool:
    """Return whether two values differ; those that are nested too deeply to compare do."""
    try:
        return one != other
    except RecursionError:
        return True


def nearest_word(word: str, known: Iterable[str], cutoff: float = 0.75) -> str | None:
    """Return the nearest known word, or None."""
    return next(iter(get_close_matches(word[:64].lower(), known, n=1, cutoff=cutoff)), None)


def asking(near: str | None) -> str:
    """Return "; did you mean …?", or nothing."""
    return f"; did you mean {near}?" if near else ""


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.75) -> str:
    """Return "; did you mean …?" with the nearest known word, or nothing."""
    return asking(nearest_word(word, known, cutoff))
