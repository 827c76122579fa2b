"""Queries and keys that ONNX, flash-attn, torchtune and others turned."""

from typing import Any

import numpy as np

from tests.parity.applied_hf import batch_turned
from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params
from tests.parity.rotary_angles import rescaled
from tests.parity.rotary_xpos import scale


def _layout(is_interleaved: Any) -> Query:
    return {"layout": "interleaved" if is_interleaved else "half"}


def onnx(case: Case, answers: Answers) -> Arrays:
    """Ask for ``RotaryEmbedding-23``; x has heads as an axis, or within the last one."""
    params, x, positions = Params(case.params), case.inputs["x"], case.inputs["positions"]
    head_size, heads = params.require("head_size"), params.take("num_heads", 0)
    query: Query = {
        "rope_theta": params.require("rope_theta_of_the_caches"),
        "rotary_dim": params.take("rotary_embedding_dim", 0) or head_size,
        **_layout(params.take("interleaved", 0)),
    }
    params.ignore("position_ids_given")
    params.finish()
    if x.ndim == 4:
        return {"y": batch_turned(x, positions, query, answers)}
    split = x.reshape(*x.shape[:2], heads, head_size).swapaxes(1, 2)
    turned = batch_turned(split, positions, query, answers)
    return {"y": turned.swapaxes(1, 2).reshape(x.shape)}


def flash_attn(case: Case, answers: Answers) -> Arrays:
    """Ask for the PyTorch path of flash-attn; x is [batch, seq, heads, head_dim]."""
    params, x = Params(case.params), case.inputs["x"]
    params.ignore("head_dim", "pos_idx_in_fp32")
    query: Query = {
        "rotary_dim": params.require("dim"),
        "rope_theta": params.take("base", 10000.0),
    }
    layout, seq_len = _layout(params.take("interleaved", False)), params.require("seqlen")
    params.finish()
    kept = answers.tables("/rope", query | {"seq_len": seq_len, "pack": "flash_attn"})
    turned = answers.turned(x.swapaxes(1, 2), query | layout)
    return {**kept, "y": turned.swapaxes(1, 2)}


_TORCHTUNE_PACKS = {
    "RotaryPositionalEmbeddings": "torchtune",
    "Llama3ScaledRoPE": "torchtune",
    "Phi3RotaryPositionalEmbeddings": "torchtune_phi3",
    "Qwen2RotaryPositionalEmbeddings": "torchtune_qwen2",
}


def torchtune(case: Case, answers: Answers) -> Arrays:
    """Ask for the caches of torchtune, and what its modules make of x, [batch, seq, heads, dim]."""
    params, x = Params(case.params), case.inputs["x"].swapaxes(1, 2)
    params.ignore("max_seq_len")
    name = params.require("class")
    if name not in _TORCHTUNE_PACKS:
        raise NotUnderstoodError(f"params: class = {name!r}")
    query = _torchtune_rule(name, params)
    params.finish()
    positions = case.inputs.get("positions", np.arange(x.shape[2]))
    pack = _TORCHTUNE_PACKS[name]
    kept = answers.tables("/rope", query | {"positions": case.inputs["rows"], "pack": pack})
    turned = batch_turned(x, positions, query | _layout(pack == "torchtune"), answers)
    return {"cache": kept["rope"], "y": turned.swapaxes(1, 2)}


def _torchtune_rule(name: str, params: Params) -> Query:
    theta = 1_000_000.0 if name.startswith("Qwen2") else 10_000
    query: Query = {
        "rotary_dim": params.require("dim"),
        "rope_theta": params.take("base", theta),
    }
    if name != "Llama3ScaledRoPE":
        return query
    return query | {
        "rope_type": "llama3",
        "factor": params.take("scale_factor", 8),
        "low_freq_factor": params.take("low_freq_factor", 1),
        "high_freq_factor": params.take("high_freq_factor", 4),
        "original_max_position_embeddings": params.take("old_context_len", 8192),
    }


def rotary_embedding_torch(case: Case, answers: Answers) -> Arrays:
    """Ask for ``rotate_queries_or_keys`` and, with xPos, ``rotate_queries_and_keys``."""
    params = Params(case.params)
    params.ignore("head_dim")
    params.only("freqs_for", "lang")
    interpolation = params.take("interpolate_factor", 1.0)
    rescale = params.take("theta_rescale_factor", 1.0)
    query = rescaled(params.require("dim"), params.take("theta", 10000), rescale, interpolation) | {
        "start": params.take("offset", 0)
    }
    is_xpos, base = params.take("use_xpos", False), params.take("xpos_scale_base", 512)
    params.finish()
    if not is_xpos:
        return {"y": answers.turned(case.inputs["x"], query)}
    return {
        f"{name}_out": answers.turned(
            case.inputs[name],
            query | {"xpos": said} | _interpolated(case.inputs[name], base, interpolation),
        )
        for name, said in (("q", "query"), ("k", "key"))
    }


def _interpolated(x: Array, base: float, interpolation: float) -> Query:
    """Say (p/f − L//2)/b as (p − f·(L//2))/(f·b): xPos sees the position that was divided."""
    centre = interpolation * (x.shape[-2] // 2)
    if centre != int(centre):
        raise NotUnderstoodError(f"params: interpolate_factor = {interpolation} with use_xpos")
    return {"xpos_centre": int(centre), "xpos_scale_base": interpolation * base}


def x_transformers(case: Case, answers: Answers) -> Arrays:
    """Ask for ``RotaryEmbedding`` and what ``apply_rotary_pos_emb`` makes of it."""
    params, positions = Params(case.params), case.inputs["positions"]
    params.ignore("head_dim")
    dim = params.require("dim")
    rescale = params.take("base_rescale_factor", 1.0)
    query = rescaled(
        dim, params.take("base", 10000), rescale, params.take("interpolation_factor", 1.0)
    ) | {"positions": positions}
    is_xpos, base = params.take("use_xpos", False), params.take("scale_base", 512)
    params.finish()
    angles = answers.tables("/rope", query | {"pack": "angle"})["rope"]
    found = {"freqs": np.repeat(angles, 2, axis=1)}
    if not is_xpos:
        return found | {"y": answers.turned(case.inputs["x"], query)}
    said = {"xpos_centre": (int(positions.max()) + 1) // 2, "xpos_scale_base": base}
    found["scale"] = scale(answers, dim, {"positions": positions} | said)
    return found | {"y": answers.turned(case.inputs["x"], query | said | {"xpos": "query"})}
