"""The file of configs: tables by a whole config.json, whose keys an implementation has to find.

The keys are those that are published; the widths are smaller, and values differ from defaults.
"""

from collections.abc import Iterator
from typing import Any

from service.conformance.files.vector_file import Asked, VectorFile, ask
from service.conformance.questions import Question

_SIZES = {"hidden_size": 512, "num_attention_heads": 32, "num_hidden_layers": 4}
_LLAMA = {
    "model_type": "llama",
    **_SIZES,
    "max_position_embeddings": 131072,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}
_GEMMA = {
    "model_type": "gemma3_text",
    "hidden_size": 96,
    "num_attention_heads": 4,
    "num_hidden_layers": 12,
    "head_dim": 16,
    "max_position_embeddings": 131072,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 20000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    "sliding_window": 1024,
    "sliding_window_pattern": 6,
}
_PHI = {
    "model_type": "phi3",
    **_SIZES,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "rope_theta": 10000.0,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0, 1.05, 1.1, 1.25, 1.4, 1.75, 2.25, 2.75],
        "long_factor": [1.0, 1.5, 2.25, 4.5, 11.0, 27.25, 47.5, 64.75],
    },
}
_GPT_OSS = {
    "model_type": "gpt_oss",
    **_SIZES,
    "head_dim": 32,
    "max_position_embeddings": 131072,
    "rope_theta": 150000.0,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
}
_QWEN_VL = {
    "model_type": "qwen2_5_vl_text",
    **_SIZES,
    "max_position_embeddings": 128000,
    "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
}
_NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "max_position_embeddings": 2048,
    "rotary_pct": 0.5,
    "rotary_emb_base": 500000,
}


def _core() -> Iterator[Asked]:
    def model(config: dict[str, Any], *rows: int, **parameters: Any) -> Question:
        return ask("/rope/config", {"config": config, **parameters}, (0, 1, *rows))

    yield "Llama 3.1: rope_scaling of the type llama3", model(_LLAMA, 257, 8191, 8193, 131071)
    for comment, layers in (
        ("Gemma 3: layers with a sliding window", "sliding_attention"),
        ("Gemma 3: layers with full attention, which alone are scaled", "full_attention"),
    ):
        yield comment, model(_GEMMA, 257, 1025, 131071, layer_type=layers)
    yield "Phi-3: a long context", model(_PHI, 257, 4095, 4097, 131071, context_length=131072)
    yield "gpt-oss: YaRN, the ends of whose ramp are not rounded", model(_GPT_OSS, 257, 4095, 4097)
    comment = "Qwen2.5-VL: a text, whose positions are the same along all axes"
    yield comment, model(_QWEN_VL, 257, 32769)
    yield (
        "GPT-NeoX: rotary_pct and rotary_emb_base, neither with its default",
        model(_NEOX, 257, 2047),
    )


FILE = VectorFile("rope/config", _core)
