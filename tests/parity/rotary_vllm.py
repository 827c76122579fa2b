"""The ``cos_sin_cache`` of vLLM, class by class."""

import re
from collections.abc import Callable, Mapping
from math import log
from types import MappingProxyType

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params


def cache(case: Case, answers: Answers) -> Arrays:
    """Ask for rows of a cache."""
    params, rows = Params(case.params), case.inputs["rows"]
    head_size = params.require("head_size")
    query: Query = {
        "head_dim": head_size,
        "rotary_dim": params.take("rotary_dim", head_size),
        "rope_theta": params.require("base"),
        "dtype": _dtype(params.take("dtype", "float32")),
        "pack": "vllm",
    }
    params.ignore("type", "is_neox_style", "cache_rows", "max_position")
    length = params.require("max_position_embeddings")
    name = re.match(r"\w+", case.call)
    if name is not None and name[0] == "LinearScalingRotaryEmbedding":
        found = _linear(params, length, rows, answers, query)
    elif name is not None and name[0] in _RULES:
        found = _cached(answers, query | _RULES[name[0]](params, length), rows)
    else:
        raise NotUnderstoodError(f"call = {case.call!r}")
    params.finish()
    return {"cos_sin_cache": found}


def _dtype(name: str) -> str:
    """Say in which type the service answers: as exactly as it can, unless they are few bits."""
    return name if name in {"bfloat16", "float16"} else "float64"


def _cached(answers: Answers, query: Query, positions: Array) -> Array:
    wanted = {key: value for key, value in query.items() if value is not None}
    return answers.tables("/rope", wanted | {"positions": positions})["rope"]


def _linear(params: Params, length: int, rows: Array, answers: Answers, query: Query) -> Array:
    """Read rows of the caches of several factors, which lie one after the other."""
    factors = params.require("scaling_factors")
    factors = factors if isinstance(factors, list) else [factors]
    firsts = np.cumsum([0, *(int(np.ceil(length * factor)) for factor in factors)])
    whose = np.searchsorted(firsts, rows, side="right") - 1
    found = [
        _cached(
            answers,
            query | {"rope_type": "linear", "factor": factors[which]},
            rows[place : place + 1] - firsts[which],
        )
        for place, which in enumerate(whose)
    ]
    return np.concatenate(found)


def _default(_: Params, length: int) -> Query:
    del length
    return {"rope_type": "default"}


def _llama3(params: Params, _: int) -> Query:
    return {
        "rope_type": "llama3",
        "factor": params.require("scaling_factor"),
        "low_freq_factor": params.require("low_freq_factor"),
        "high_freq_factor": params.require("high_freq_factor"),
        "original_max_position_embeddings": params.require("orig_max_position"),
    }


def _yarn(params: Params, length: int) -> Query:
    keys = ("beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim", "attention_factor")
    return {
        "rope_type": "yarn",
        "factor": params.require("scaling_factor"),
        "original_max_position_embeddings": length,
        **{key: params.take(key) for key in keys},
    }


def _deepseek(params: Params, length: int) -> Query:
    """Give DeepSeek's attention factor, of mscale 1 and mscale_all_dim 0 where neither is named."""
    factor = params.require("scaling_factor")
    mscales = params.take("mscale", 1), params.take("mscale_all_dim", 0)
    above, below = (0.1 * mscale * log(max(factor, 1)) + 1.0 for mscale in mscales)
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": length,
        "beta_fast": params.take("beta_fast"),
        "beta_slow": params.take("beta_slow"),
        "attention_factor": above / below * params.take("attn_factor", 1.0),
    }


def _dynamic(params: Params, length: int) -> Query:
    return {
        "rope_type": "dynamic",
        "factor": params.require("scaling_factor"),
        "original_max_position_embeddings": params.take("max_trained_positions", length),
        "context_length": length,
    }


def _alpha(params: Params, _: int) -> Query:
    return {"rope_type": "dynamic", "alpha": params.require("scaling_alpha")}


def _ntk(params: Params, _: int) -> Query:
    factor, mixed_b = params.require("scaling_factor"), params.take("mixed_b")
    return {"rope_type": "ntk", "factor": factor, "mixed_b": mixed_b}


_RULES: Mapping[str, Callable[[Params, int], Query]] = MappingProxyType(
    {
        "RotaryEmbedding": _default,
        "Llama3RotaryEmbedding": _llama3,
        "YaRNScalingRotaryEmbedding": _yarn,
        "DeepseekScalingRotaryEmbedding": _deepseek,
        "DynamicNTKScalingRotaryEmbedding": _dynamic,
        "DynamicNTKAlphaRotaryEmbedding": _alpha,
        "NTKScalingRotaryEmbedding": _ntk,
    }
)
