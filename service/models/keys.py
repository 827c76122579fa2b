"""The keys of configs: their names and aliases, and the readers of their values.

A reader raises ValueError with the rule that a value breaks. The canonical names are those of
transformers 5.23.0 ``RopeParameters`` and ``PreTrainedConfig``; the keys of frequency rules are
those of ``encodings/rotary/rules``. Aliases are those of remote-code models, of Meta's and
Mistral's params.json, of gpt-oss's original config.json, of litgpt and of vLLM 0.33.0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, isfinite
from typing import Any

from service.encodings.rotary.rules import ROPE_TYPES, RULES
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


def channels(value: Any) -> int:
    """Return a number of channels."""
    return _at_most(MAX_CHANNELS, count(value))


def layers(value: Any) -> int:
    """Return a number of layers."""
    return _at_most(MAX_LAYERS, count(value))


def _at_most(limit: int, value: int) -> int:
    if value > limit:
        raise ValueError(f"must be at most {limit}")
    return value


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
    """Return a number of the formula of an attention factor."""
    number = real(value)
    if not 0 <= number <= MAX_MSCALE:
        raise ValueError(f"must be from 0 to {MAX_MSCALE:g}")
    return number


def flag(value: Any) -> bool:
    """Return a truth value; an integer is true unless it is 0."""
    if type(value) not in {bool, int}:
        raise ValueError("must be true or false")
    return bool(value)


def name(value: Any) -> str:
    """Return text."""
    if type(value) is not str:
        raise ValueError("must be text")
    return value


def letters(value: Any) -> str:
    """Return a pattern of layers: L for a sliding window, G for full attention."""
    pattern = name(value)
    if not pattern or len(pattern) > MAX_LAYERS or set(pattern) - {"L", "G"}:
        raise ValueError("must be an integer, or the letters L and G, one for each layer")
    return pattern


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
sizes = partial(_by_channel, lambda item: item and count(item), "integers")
# The lists with one item for each layer may be empty; a base of null is 0.
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
    "rope_theta": Key(real, ("rotary_emb_base", "rotary_base", "rope_base", "rope_embedding_base")),
    "rope_ratio": Key(real),
    "partial_rotary_factor": Key(
        share,
        ("rotary_pct", "rotary_percent", "rotary_percentage", "rotary_emb_fraction", "rope_pct"),
    ),
    "rotary_dim": Key(channels, ("rope_dim", "rope_n_elem", "rotary_ndims")),
    "layer_types": Key(names),
    "rope_interleave": Key(
        flag, ("rope_interleaved", "rotary_emb_interleaved", "rope_traditional")
    ),
    "rope_condense_ratio": Key(real),
    "rope_scaling_factor": Key(real),
    "rope_high_freq_factor": Key(real),
    "rope_ntk_alpha": Key(real),
    "rope_ntk_beta": Key(real),
    "use_scaled_rope": Key(flag),
    "attn_temperature_tuning": Key(flag),
    "attn_scale": Key(real),
    "floor_scale": Key(real),
}
"""The keys at the top of a config."""

_READERS: Mapping[type, Reader] = {float: real, int: count, bool: flag, tuple[float, ...]: reals}
_RULE_ALIASES: Mapping[str, tuple[str, ...]] = {
    "factor": ("scaling_factor",),
    "original_max_position_embeddings": ("original_max_seq_len", "original_max_position_embedding"),
    "attention_factor": ("attn_factor",),
}
# The attention factor is computed of these before the bounds of all keys are checked.
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
"""Keys that go with any frequency rule."""

RULE_TYPES: Mapping[str, frozenset[str]] = {
    name: frozenset(key for rule in RULES if rule.rope_type == name for key in rule.config_keys())
    for name in ROPE_TYPES
}
"""The frequency rules, each with the keys that it reads beside those of every rule."""

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
"""The canonical names of these, by every name that they have."""

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
    "original_max_position_embeddings": RULE["original_max_position_embeddings"],
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
