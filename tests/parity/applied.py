"""Queries and keys rotated by ONNX, flash-attn, torchtune and others."""

from typing import Any

import numpy as np

from tests.parity.backend import Backend, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params
from tests.parity.rotary import rescaled, xpos_scale
from tests.parity.transformers_rotary import batch_rotated


def _layout(is_interleaved: Any) -> Query:
    return {"layout": "interleaved" if is_interleaved else "half"}


def onnx(case: Case, backend: Backend) -> Arrays:
    """Map ``RotaryEmbedding-23``; the heads of x are an axis, or within the last one."""
    query = Params(case.params).query(
        "position_ids_given",
        rope_theta="rope_theta_of_the_caches",
        rotary_dim=("rotary_embedding_dim", 0),
        head_size="head_size",
        heads=("num_heads", 0),
        interleaved=("interleaved", 0),
    )
    head_size, heads = query.pop("head_size"), query.pop("heads")
    query |= _layout(query.pop("interleaved"))
    query["rotary_dim"] = query["rotary_dim"] or head_size
    x, positions = case.inputs["x"], case.inputs["positions"]
    if x.ndim == 4:
        return {"y": batch_rotated(x, positions, query, backend)}
    split = x.reshape(*x.shape[:2], heads, head_size).swapaxes(1, 2)
    rotated = batch_rotated(split, positions, query, backend)
    return {"y": rotated.swapaxes(1, 2).reshape(x.shape)}


def flash_attn(case: Case, backend: Backend) -> Arrays:
    """Map the PyTorch path of flash-attn; x is [batch, seq, heads, head_dim]."""
    query = Params(case.params).query(
        "head_dim pos_idx_in_fp32",
        rotary_dim="dim",
        rope_theta=("base", 10000.0),
        interleaved=("interleaved", False),
        seq_len="seqlen",
    )
    layout, along = _layout(query.pop("interleaved")), {"seq_len": query.pop("seq_len")}
    tables = backend.tables("/rope", query | along | {"pack": "flash_attn"})
    rotated = backend.rotated(case.inputs["x"].swapaxes(1, 2), query | layout)
    return {**tables, "y": rotated.swapaxes(1, 2)}


_TORCHTUNE_PACKS = {
    "RotaryPositionalEmbeddings": "torchtune",
    "Llama3ScaledRoPE": "torchtune",
    "Phi3RotaryPositionalEmbeddings": "torchtune_phi3",
    "Qwen2RotaryPositionalEmbeddings": "torchtune_qwen2",
}


def torchtune(case: Case, backend: Backend) -> Arrays:
    """Map the caches of torchtune, and its rotation of x, [batch, seq, heads, dim]."""
    params, x = Params(case.params), case.inputs["x"].swapaxes(1, 2)
    name = params.require("class")
    if name not in _TORCHTUNE_PACKS:
        raise NotUnderstoodError(f"params: class = {name!r}")
    theta = 1_000_000.0 if name.startswith("Qwen2") else 10_000
    sources: dict[str, str | tuple[str, Any]] = {"rotary_dim": "dim", "rope_theta": ("base", theta)}
    rule: Query = {}
    if name == "Llama3ScaledRoPE":
        rule["rope_type"] = "llama3"
        sources |= {
            "factor": ("scale_factor", 8),
            "low_freq_factor": ("low_freq_factor", 1),
            "high_freq_factor": ("high_freq_factor", 4),
            "original_max_position_embeddings": ("old_context_len", 8192),
        }
    query = rule | params.query("max_seq_len", **sources)
    positions = case.inputs.get("positions", np.arange(x.shape[2]))
    pack = _TORCHTUNE_PACKS[name]
    cache = backend.tables("/rope", query | {"positions": case.inputs["rows"], "pack": pack})
    rotated = batch_rotated(x, positions, query | _layout(pack == "torchtune"), backend)
    return {"cache": cache["rope"], "y": rotated.swapaxes(1, 2)}


def rotary_embedding_torch(case: Case, backend: Backend) -> Arrays:
    """Map ``rotate_queries_or_keys`` and, with xPos, ``rotate_queries_and_keys``."""
    params = Params(case.params)
    params.only("freqs_for", "lang")
    query = params.query(
        "head_dim",
        dim="dim",
        theta=("theta", 10000),
        rescale=("theta_rescale_factor", 1.0),
        interpolation=("interpolate_factor", 1.0),
        start=("offset", 0),
        use_xpos=("use_xpos", False),
        xpos_base=("xpos_scale_base", 512),
    )
    interpolation = query["interpolation"]
    rule = rescaled(query["dim"], query["theta"], query["rescale"], interpolation)
    rule["start"] = query["start"]
    if not query["use_xpos"]:
        return {"y": backend.rotated(case.inputs["x"], rule)}
    return {
        f"{name}_out": backend.rotated(
            case.inputs[name],
            rule
            | {"xpos": xpos}
            | _interpolated(case.inputs[name], query["xpos_base"], interpolation),
        )
        for name, xpos in (("q", "query"), ("k", "key"))
    }


def _interpolated(x: Array, base: float, interpolation: float) -> Query:
    """Express (p/f − L//2)/b as (p − f·(L//2))/(f·b): xPos scales by the divided position."""
    centre = interpolation * (x.shape[-2] // 2)
    if centre != int(centre):
        raise NotUnderstoodError(f"params: interpolate_factor = {interpolation} with use_xpos")
    return {"xpos_centre": int(centre), "xpos_scale_base": interpolation * base}


def x_transformers(case: Case, backend: Backend) -> Arrays:
    """Map ``RotaryEmbedding`` and ``apply_rotary_pos_emb``."""
    positions = case.inputs["positions"]
    query = Params(case.params).query(
        "head_dim",
        dim="dim",
        base=("base", 10000),
        rescale=("base_rescale_factor", 1.0),
        interpolation=("interpolation_factor", 1.0),
        use_xpos=("use_xpos", False),
        xpos_base=("scale_base", 512),
    )
    dim = query["dim"]
    rule = rescaled(dim, query["base"], query["rescale"], query["interpolation"])
    rule["positions"] = positions
    angles = backend.tables("/rope", rule | {"pack": "angle"})["rope"]
    found = {"freqs": np.repeat(angles, 2, axis=1)}
    if query["use_xpos"]:
        centre = (int(positions.max()) + 1) // 2
        xpos = {"xpos_centre": centre, "xpos_scale_base": query["xpos_base"]}
        found["scale"] = xpos_scale(backend, dim, {"positions": positions} | xpos)
        rule |= xpos | {"xpos": "query"}
    return found | {"y": backend.rotated(case.inputs["x"], rule)}
