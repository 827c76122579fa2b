"""Under which names configs hold the same thing, and what each must be.

The canonical names are those of transformers 5.23.0 ``RopeParameters`` and ``PreTrainedConfig``.
Aliases are those of remote-code models, of Meta's and Mistral's params.json, of gpt-oss's original
config.json, of litgpt and of vLLM 0.33.0.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from service.configs import values


@dataclass(frozen=True)
class Key:
    """Something that a config says.

    Attributes:
        read: makes its value of what is there; raises ValueError with the rule that is broken.
        aliases: its other names, the most common first.
    """

    read: Callable[[Any], Any]
    aliases: tuple[str, ...] = ()


TOP: Mapping[str, Key] = MappingProxyType(
    {
        "head_dim": Key(values.channels, ("kv_channels", "head_size", "attention_head_dim")),
        "hidden_size": Key(values.count, ("n_embd", "d_model", "dim")),
        "num_attention_heads": Key(values.count, ("n_head", "n_heads", "num_heads")),
        "num_hidden_layers": Key(values.layers, ("n_layer", "n_layers", "num_layers")),
        "max_position_embeddings": Key(
            values.count,
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
        "original_max_position_embeddings": Key(values.count),
        "initial_context_length": Key(values.count),
        "rope_theta": Key(
            values.real, ("rotary_emb_base", "rotary_base", "rope_base", "rope_embedding_base")
        ),
        "rope_ratio": Key(values.real),
        "partial_rotary_factor": Key(
            values.share,
            (
                "rotary_pct",
                "rotary_percent",
                "rotary_percentage",
                "rotary_emb_fraction",
                "rope_pct",
            ),
        ),
        "rotary_dim": Key(values.channels, ("rope_dim", "rope_n_elem", "rotary_ndims")),
        "layer_types": Key(values.names),
        "rope_interleave": Key(
            values.flag, ("rope_interleaved", "rotary_emb_interleaved", "rope_traditional")
        ),
        "rope_condense_ratio": Key(values.real),
        "rope_scaling_factor": Key(values.real),
        "rope_high_freq_factor": Key(values.real),
        "rope_ntk_alpha": Key(values.real),
        "rope_ntk_beta": Key(values.real),
        "use_scaled_rope": Key(values.flag),
        "attn_temperature_tuning": Key(values.flag),
        "attn_scale": Key(values.real),
        "floor_scale": Key(values.real),
    }
)
"""What is looked for at the top of a config."""

RULE: Mapping[str, Key] = MappingProxyType(
    {
        "rope_type": Key(values.name, ("type",)),
        "rope_theta": Key(values.real, ("rope_base", "base")),
        "partial_rotary_factor": Key(values.share),
        "rotary_dim": Key(values.channels, ("rope_dim",)),
        "factor": Key(values.real, ("scaling_factor",)),
        "original_max_position_embeddings": Key(
            values.count, ("original_max_seq_len", "original_max_position_embedding")
        ),
        "alpha": Key(values.real),
        "mixed_b": Key(values.real),
        "beta_fast": Key(values.real),
        "beta_slow": Key(values.real),
        "truncate": Key(values.flag),
        "mscale": Key(values.mscale),
        "mscale_all_dim": Key(values.mscale),
        "attention_factor": Key(values.real, ("attn_factor",)),
        "short_factor": Key(values.reals),
        "long_factor": Key(values.reals),
        "short_mscale": Key(values.real),
        "long_mscale": Key(values.real),
        "low_freq_factor": Key(values.real),
        "high_freq_factor": Key(values.real),
        "mrope_section": Key(values.sizes, ("xdrope_section",)),
        "mrope_interleaved": Key(values.flag),
        "llama_4_scaling_beta": Key(values.real),
    }
)
"""What is looked for among the parameters of a frequency rule."""

RULE_SPELLINGS: Mapping[str, str] = MappingProxyType(
    {spelling: name for name, key in RULE.items() for spelling in (name, *key.aliases)}
)
"""The canonical names of these, by every name that they have."""

YARN_OF_MISTRAL: Mapping[str, Key] = MappingProxyType(
    {
        "factor": RULE["factor"],
        "original_max_position_embeddings": RULE["original_max_position_embeddings"],
        "beta_fast": Key(values.real, ("beta",)),
        "beta_slow": Key(values.real, ("alpha",)),
        "apply_scale": Key(values.flag),
    }
)
"""What is looked for under ``yarn`` in Mistral's params.json."""

LLAMA4_OF_MISTRAL: Mapping[str, Key] = MappingProxyType(
    {
        "llama_4_scaling_beta": Key(values.real, ("beta",)),
        "original_max_position_embeddings": RULE["original_max_position_embeddings"],
    }
)
"""What is looked for under ``llama_4_scaling`` in Mistral's params.json."""

RULE_TYPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "default": (),
        "linear": ("factor",),
        "dynamic": ("factor", "alpha"),
        "ntk": ("factor", "mixed_b"),
        "yarn": (
            "factor",
            "original_max_position_embeddings",
            "beta_fast",
            "beta_slow",
            "truncate",
            "mscale",
            "mscale_all_dim",
            "attention_factor",
        ),
        "longrope": (
            "factor",
            "original_max_position_embeddings",
            "short_factor",
            "long_factor",
            "short_mscale",
            "long_mscale",
            "attention_factor",
        ),
        "llama3": (
            "factor",
            "original_max_position_embeddings",
            "low_freq_factor",
            "high_freq_factor",
        ),
        "proportional": ("factor",),
    }
)
"""The frequency rules, each with the keys that it reads beside those of every rule."""

EVERY_RULE = frozenset(
    {
        "rope_type",
        "rope_theta",
        "partial_rotary_factor",
        "rotary_dim",
        "mrope_section",
        "mrope_interleaved",
        "llama_4_scaling_beta",
    }
)
"""Keys that say something beside any rule."""

RULE_TYPE_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "su": "longrope",
        "mrope": "default",
        "none": "default",
        "deepseek_yarn": "yarn",
        "deepseek_llama_scaling": "yarn",
        "telechat3-yarn": "yarn",
        "xdrope": "dynamic",
    }
)
"""Other names of the frequency rules."""

TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal configs hold that of the text model, whatever their type."""
