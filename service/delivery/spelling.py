"""Names that were meant: what others call the same thing, and what is spelled alike."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import chain

_MAX_NAME_LENGTH = 64

# What the field calls the same things elsewhere.
_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "base": ("rope_theta", "max_period", "temperature"),
    "bf16": ("bfloat16",),
    "cache_position": ("query_positions",),
    "candle": ("compact",),
    "causal": ("masked",),
    "channels": ("d_model",),
    "class_token": ("cls_token",),
    "cls_token": ("class_token",),
    "d": ("d_model", "head_dim"),
    "demb": ("d_model",),
    "dim": ("d_model", "head_dim"),
    "dims": ("dimensions", "d_model"),
    "double": ("float64",),
    "embed_dim": ("d_model", "embed_dim"),
    "embedding_dim": ("d_model",),
    "feat_shape": ("height",),
    "float": ("float32",),
    "fp16": ("float16",),
    "fp32": ("float32",),
    "fp64": ("float64",),
    "frames": ("depth",),
    "freq_base": ("rope_theta",),
    "gguf": ("ggml",),
    "gptj": ("interleaved",),
    "grid": ("height",),
    "grid_size": ("height",),
    "h": ("height",),
    "half": ("float16",),
    "heads": ("num_heads", "num_attention_heads"),
    "hidden_size": ("d_model",),
    "k": ("offset",),
    "key_length": ("key_len",),
    "klen": ("key_len",),
    "length": ("seq_len", "query_len"),
    "length_k": ("key_len",),
    "length_q": ("query_len",),
    "library": ("convention",),
    "llama.cpp": ("ggml",),
    "llamacpp": ("ggml",),
    "max_len": ("seq_len",),
    "max_period": ("base",),
    "max_relative_positions": ("max_position",),
    "max_timescale": ("base",),
    "max_wavelength": ("base",),
    "meta": ("interleaved",),
    "model": ("convention",),
    "n": ("base",),
    "n_ctx": ("seq_len",),
    "n_heads": ("num_attention_heads", "num_heads"),
    "n_state": ("d_model",),
    "neox": ("half",),
    "num_attention_heads": ("num_heads",),
    "num_heads": ("num_attention_heads",),
    "num_kv_heads": ("num_key_value_heads",),
    "numpy": ("npy",),
    "past": ("query_start",),
    "past_key_values_length": ("past", "query_start"),
    "past_seen_tokens": ("query_start",),
    "position": ("positions",),
    "position_buckets": ("bucket_size",),
    "qlen": ("query_len",),
    "query_length": ("query_len",),
    "relative_attention_max_distance": ("max_distance",),
    "relative_attention_num_buckets": ("num_buckets",),
    "rope_parameters": ("rope_type",),
    "rope_scaling": ("rope_type",),
    "rotate_half": ("half",),
    "scaling_factor": ("factor",),
    "seq_len": ("query_len", "key_len"),
    "su": ("longrope",),
    "t": ("timesteps",),
    "temperature": ("base", "temperature"),
    "theta": ("rope_theta", "base"),
    "time": ("depth",),
    "timestep": ("timesteps",),
    "type": ("rope_type",),
    "w": ("width",),
    "window": ("window_size",),
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that means, or is spelled most like, this one, if any does."""
    if len(name) > _MAX_NAME_LENGTH:
        return None
    names = list(known)
    meant = (synonym for synonym in _SYNONYMS.get(name.lower(), ()) if synonym in names)
    return next(chain(meant, similar(name, names)), None)


def similar(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """List the known names that are spelled like this one, the likest first, but not its opposite.

    Args:
        name: the name.
        known: those there are.
        cutoff: how much alike they must be, up to 1.
    """
    matches = get_close_matches(name[:_MAX_NAME_LENGTH].lower(), list(known), cutoff=cutoff)
    return [match for match in matches if not _is_opposite(name, match)]


def _is_opposite(name: str, other: str) -> bool:
    """Tell whether one name denies the other: as it stands, its value would mean the reverse."""
    one, two = (each.lower().replace("_", "").replace("-", "") for each in (name, other))
    denied = any(one == no + two or two == no + one for no in ("no", "non", "not", "un", "in"))
    return denied or (one != two and one.replace("uni", "bi", 1) == two.replace("uni", "bi", 1))


def likest(name: str, known: Iterable[str], count: int) -> list[str]:
    """List some of the known names, those first that are spelled most like this one."""
    return get_close_matches(name[:_MAX_NAME_LENGTH].lower(), list(known), count, cutoff=0.0)
