"""Rotary tables of libraries along one axis: diffusers, vLLM, and those of xPos."""

import re
from collections.abc import Callable, Mapping, Sequence
from math import log
from types import MappingProxyType

import numpy as np

from tests.parity.backend import Backend, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params

_MAX_FACTOR = 2.0**27


def diffusers(case: Case, backend: Backend) -> Arrays:
    """Map ``get_1d_rotary_pos_embed``."""
    query = Params(case.params).query(
        "pos freqs_dtype",
        head_dim="dim",
        rope_theta=("theta", 10000.0),
        ntk_factor=("ntk_factor", 1.0),
        factor=("linear_factor", 1.0),
        is_real=("use_real", False),
        is_repeated=("repeat_interleave_real", True),
    )
    query["rope_theta"] *= query.pop("ntk_factor")
    is_real, is_repeated = query.pop("is_real"), query.pop("is_repeated")
    query |= _fractional(case.inputs["positions"], query["factor"], query["head_dim"] // 2)
    if not is_real:
        return {"out": backend.tables("/rope", query | {"pack": "complex"})["rope"]}
    pack = "diffusers" if is_repeated else "stable_audio"
    return backend.tables("/rope", query | {"pack": pack})


def _fractional(positions: Array, factor: float, count: int) -> Query:
    """Express float64 positions divided by a factor with integers: p/f = (p·2^s)/(f·2^s), exactly.

    The power of two is split between ``factor`` and ``freq_factors``, both of limited size.
    """
    power = 1.0
    while not np.equal(positions * power, np.rint(positions * power)).all():
        power *= 2
    excess = power / min(power, _MAX_FACTOR)
    query: Query = {
        "rope_type": "linear",
        "factor": factor * (power / excess),
        "positions": [int(position) for position in positions * power],
    }
    return query if excess == 1 else query | {"freq_factors": [excess] * count}


def vllm(case: Case, backend: Backend) -> Arrays:
    """Map rows of a ``cos_sin_cache``, class by class."""
    params, rows = Params(case.params), case.inputs["rows"]
    head_size, dtype = params.require("head_size"), params.take("dtype", "float32")
    query: Query = {
        "head_dim": head_size,
        "rotary_dim": params.take("rotary_dim", head_size),
        "rope_theta": params.require("base"),
        "dtype": dtype if dtype in {"bfloat16", "float16"} else "float64",
        "pack": "vllm",
    }
    params.ignore("type", "is_neox_style", "cache_rows", "max_position")
    length = params.require("max_position_embeddings")
    match = re.match(r"\w+", case.call)
    name = match[0] if match else ""
    if name == "LinearScalingRotaryEmbedding":
        found = _linear_caches(params, length, rows, backend, query)
    elif name == "DeepseekScalingRotaryEmbedding":
        query |= _deepseek(params, length) | {"positions": rows}
        found = backend.tables("/rope", query)["rope"]
    elif name in _VLLM_RULES:
        rope_type, lengths, sources = _VLLM_RULES[name]
        query |= {"rope_type": rope_type, "positions": rows}
        query |= dict.fromkeys(lengths, length) | params.query(**sources)
        found = backend.tables("/rope", query)["rope"]
    else:
        raise NotUnderstoodError(f"call = {case.call!r}")
    params.finish()
    return {"cos_sin_cache": found}


def _optional(*names: str) -> dict[str, str | tuple[str, None]]:
    return {name: (name, None) for name in names}


_VLLM_RULES: Mapping[str, tuple[str, Sequence[str], Mapping[str, str | tuple[str, None]]]] = (
    MappingProxyType(
        {
            "RotaryEmbedding": ("default", (), {}),
            "Llama3RotaryEmbedding": (
                "llama3",
                (),
                {
                    "factor": "scaling_factor",
                    "low_freq_factor": "low_freq_factor",
                    "high_freq_factor": "high_freq_factor",
                    "original_max_position_embeddings": "orig_max_position",
                },
            ),
            "YaRNScalingRotaryEmbedding": (
                "yarn",
                ("original_max_position_embeddings",),
                {
                    "factor": "scaling_factor",
                    **_optional("beta_fast", "beta_slow", "truncate"),
                    **_optional("mscale", "mscale_all_dim", "attention_factor"),
                },
            ),
            "DynamicNTKScalingRotaryEmbedding": (
                "dynamic",
                ("original_max_position_embeddings", "context_length"),
                {
                    "factor": "scaling_factor",
                    "original_max_position_embeddings": ("max_trained_positions", None),
                },
            ),
            "DynamicNTKAlphaRotaryEmbedding": ("dynamic", (), {"alpha": "scaling_alpha"}),
            "NTKScalingRotaryEmbedding": (
                "ntk",
                (),
                {"factor": "scaling_factor", **_optional("mixed_b")},
            ),
        }
    )
)
"""Of each class: the rope_type, the keys that are max_position_embeddings, the other keys."""


def _linear_caches(
    params: Params, length: int, rows: Array, backend: Backend, query: Query
) -> Array:
    """Read rows of the caches of several factors, which follow each other."""
    factors = params.require("scaling_factors")
    factors = factors if isinstance(factors, list) else [factors]
    starts = np.cumsum([0, *(int(np.ceil(length * factor)) for factor in factors)])
    caches = np.searchsorted(starts, rows, side="right") - 1
    found = []
    for row, cache in zip(rows, caches, strict=True):
        scaled = {
            "rope_type": "linear",
            "factor": factors[cache],
            "positions": row - starts[[cache]],
        }
        found.append(backend.tables("/rope", query | scaled)["rope"])
    return np.concatenate(found)


def _deepseek(params: Params, length: int) -> Query:
    """Return YaRN's keys; mscale is 1 and mscale_all_dim 0 by default."""
    query = params.query(
        factor="scaling_factor",
        mscale=("mscale", 1),
        mscale_all_dim=("mscale_all_dim", 0),
        attention_factor=("attn_factor", 1.0),
        **_optional("beta_fast", "beta_slow"),
    )
    above, below = (
        0.1 * query.pop(name) * log(max(query["factor"], 1)) + 1.0
        for name in ("mscale", "mscale_all_dim")
    )
    query["attention_factor"] *= above / below
    return query | {"rope_type": "yarn", "original_max_position_embeddings": length}


def rescaled(dim: int, theta: float, rescale: float, interpolation: float) -> Query:
    """Request frequencies (θ·rescale^(d/(d−2)))^(−2k/d) at positions divided by a number."""
    query: Query = {"rotary_dim": dim, "rope_theta": theta}
    if rescale == 1:
        return query | {"rope_type": "linear", "factor": interpolation}
    if interpolation == 1:
        return query | {"rope_type": "dynamic", "alpha": rescale}
    query["rope_theta"] = theta * rescale ** (dim / (dim - 2))
    return query | {"rope_type": "linear", "factor": interpolation}


def xpos_scale(backend: Backend, dim: int, query: Query) -> Array:
    """Request the scale of xPos alone, each value twice: the cosines of zero frequencies."""
    still = {"inv_freq": [0.0] * (dim // 2), "xpos": "query", "pack": "interleaved"}
    return backend.tables("/rope", still | query)["cos"]


def xpos(case: Case, backend: Backend) -> Arrays:
    """Map the xPos classes of several libraries."""
    for name, mapping in _XPOS.items():
        if name in case.library:
            return mapping(Params(case.params), case, backend)
    raise NotUnderstoodError(f"library = {case.library!r}")


def _rotary_embedding_torch(params: Params, _: Case, backend: Backend) -> Arrays:
    query = params.query(
        "theta use_xpos", dim="dim", seq_len="length", xpos_scale_base=("xpos_scale_base", 512)
    )
    return {"scale": xpos_scale(backend, query.pop("dim"), query)}


def _x_transformers(params: Params, _: Case, backend: Backend) -> Arrays:
    query = params.query(
        "use_xpos",
        dim="dim",
        seq_len="length",
        xpos_scale_base=("scale_base", 512),
        base=("base", 10000),
        rescale=("base_rescale_factor", 1.0),
        interpolation=("interpolation_factor", 1.0),
    )
    dim, seq_len = query.pop("dim"), query["seq_len"]
    rule = rescaled(dim, *(query.pop(name) for name in ("base", "rescale", "interpolation")))
    angles = backend.tables("/rope", rule | {"seq_len": seq_len, "pack": "angle"})["rope"]
    return {"freqs": np.repeat(angles, 2, axis=1), "scale": xpos_scale(backend, dim, query)}


def _flash_attn(params: Params, _: Case, backend: Backend) -> Arrays:
    query = params.query(
        "interleaved",
        head_dim="dim",
        rope_theta=("base", 10000.0),
        seq_len="length",
        xpos_scale_base="scale_base",
    )
    queries, keys = (
        backend.tables("/rope", query | {"pack": "flash_attn", "xpos": xpos})
        for xpos in ("query", "key")
    )
    return {**queries, "cos_k": keys["cos"], "sin_k": keys["sin"]}


def _torchscale(params: Params, case: Case, backend: Backend) -> Arrays:
    query = params.query(
        "length head_dim", start=("offset", 0), xpos_scale_base=("scale_base", 512)
    )
    x = case.inputs["x"]
    query["xpos_centre"] = (x.shape[1] + query["start"] + 1) // 2
    return {
        name: backend.rotated(x, query | {"xpos": xpos})
        for name, xpos in (("q", "query"), ("k", "key"))
    }


_XPOS: Mapping[str, Callable[[Params, Case, Backend], Arrays]] = MappingProxyType(
    {
        "rotary-embedding-torch": _rotary_embedding_torch,
        "x-transformers": _x_transformers,
        "flash-attn": _flash_attn,
        "torchscale": _torchscale,
    }
)
