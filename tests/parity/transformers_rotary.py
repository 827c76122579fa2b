"""Rotary tables and rotations of transformers."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.parity.backend import Backend, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params

_YARN = "factor attention_factor beta_fast beta_slow truncate mscale mscale_all_dim"
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "default": "",
        "linear": "factor",
        "dynamic": "factor",
        "yarn": _YARN,
        "longrope": "factor attention_factor short_factor long_factor",
        "llama3": "factor low_freq_factor high_freq_factor",
        "proportional": "factor",
    }
)
_WITH_ORIGINAL = {"yarn", "longrope", "llama3"}
_ALIASES = {"su": "longrope", "mrope": "default"}


def rule_query(rope_parameters: Mapping[str, Any], last_position: int, params: Params) -> Query:
    """Translate ``rope_parameters``, but for the rotary dimension.

    Args:
        rope_parameters: of a config.
        last_position: on which dynamic and longrope depend.
        params: of the case, for the keys beside rope_parameters in the config.
    """
    given = Params(rope_parameters, "rope_parameters")
    name = given.take("rope_type") or given.take("type", "default")
    given.ignore("type", "partial_rotary_factor")
    rope_type = _ALIASES.get(name, name)
    if rope_type not in _KEYS:
        raise NotUnderstoodError(f"rope_parameters: rope_type = {name!r}")
    trained = params.take("max_position_embeddings")
    theta = given.take("rope_theta", params.take("rope_theta"))
    if theta is None:
        raise NotUnderstoodError("rope_parameters has no rope_theta")
    query: Query = {"rope_type": rope_type, "rope_theta": theta}
    query |= {key: given.take(key) for key in _KEYS[rope_type].split()}
    original = given.take("original_max_position_embeddings", trained)
    original = params.take("original_max_position_embeddings", original)
    if rope_type in _WITH_ORIGINAL:
        query["original_max_position_embeddings"] = original
    if rope_type == "longrope":
        query["context_length"] = max(last_position + 1, 1)
    if rope_type == "longrope" or (rope_type == "yarn" and query["factor"] is None):
        query["max_position_embeddings"] = trained
    if rope_type == "dynamic":
        query["original_max_position_embeddings"] = trained
        query["context_length"] = max(last_position + 1, trained)
    given.finish()
    return {key: value for key, value in query.items() if value is not None}


def _rotary_share(case: Case, head_dim: int, rope_type: str, partial: float | None) -> Query:
    """Request as many rotary channels as the case has.

    The Llama class and its relatives ignore partial_rotary_factor.
    """
    stated = re.search(r"r = (\d+) channels", case.conventions)
    if stated is None:
        raise NotUnderstoodError(f"conventions have no number of rotary channels: {case.id}")
    if rope_type == "proportional" or int(stated[1]) != head_dim:
        return {"head_dim": head_dim, "partial_rotary_factor": partial}
    return {"head_dim": head_dim}


def _pack(case: Case) -> str:
    """Return the pack that has the columns of a case."""
    if "duplicated pairs" in case.conventions:
        return "cohere"
    if "[f, f]" in case.conventions:
        return "transformers"
    raise NotUnderstoodError(f"conventions have no order of columns: {case.id}")


def table(case: Case, backend: Backend) -> Arrays:
    """Map the buffers of a rotary module, and its cosines and sines for positions."""
    params, positions = Params(case.params), case.inputs["positions"]
    rope_parameters = params.require("rope_parameters")
    params.ignore("model_type")
    head_dim, partial = params.require("head_dim"), rope_parameters.get("partial_rotary_factor")
    partial = params.take("partial_rotary_factor", partial)
    query = rule_query(rope_parameters, int(positions.max()), params)
    params.finish()
    query |= _rotary_share(case, head_dim, query["rope_type"], partial)
    query = {key: value for key, value in query.items() if value is not None}
    buffers = backend.tables("/rope/frequencies", query)
    along = {"positions": positions, "pack": _pack(case)}
    return {
        "inv_freq": buffers["inv_freq"],
        "attention_scaling": buffers["attention_factor"],
        **backend.tables("/rope", query | along),
    }


def from_own_frequencies(case: Case, backend: Backend) -> Arrays:
    """Request the float32 table of the frequencies that the library computed itself."""
    query = {
        "inv_freq": case.outputs["inv_freq"].astype(np.float64),
        "attention_factor": case.outputs["attention_scaling"],
        "positions": case.inputs["positions"],
        "pack": _pack(case),
        "angle": "float32",
        "dtype": "float32",
    }
    return backend.tables("/rope", query)


def multimodal_table(case: Case, backend: Backend) -> Arrays:
    """Map M-RoPE's tables, one for each row of a batch."""
    params = Params(case.params)
    rope_parameters = params.take("rope_parameters", {"rope_type": "default"})
    params.ignore("model_type")
    query = {"head_dim": params.require("head_dim"), "pack": _pack(case)}
    query["mrope_section"] = params.require("mrope_section")
    query["mrope_interleaved"] = params.take("mrope_interleaved", False)
    rule = {
        key: value
        for key, value in rope_parameters.items()
        if key not in {"mrope_section", "mrope_interleaved"}
    }
    if rule.get("partial_rotary_factor"):
        raise NotUnderstoodError("rope_parameters: partial_rotary_factor beside mrope_section")
    position_ids = case.inputs["position_ids"]
    query |= rule_query(rule, int(position_ids.max()), params)
    params.finish()
    rows = [
        backend.tables("/rope", query | _axis_positions(axes))
        for axes in position_ids.swapaxes(0, 1)
    ]
    stacked = {name: np.stack([row[name] for row in rows]) for name in ("cos", "sin")}
    has_batch = case.outputs["cos"].ndim == 3
    return stacked if has_batch else {name: array[0] for name, array in stacked.items()}


def _axis_positions(axes: Array) -> Query:
    return {f"positions_{name}": list(along) for name, along in zip("thw", axes, strict=True)}


def queries_and_keys(case: Case, backend: Backend) -> Arrays:
    """Map queries and keys, [batch, heads, token, head_dim], rotated by their positions."""
    params, positions = Params(case.params), case.inputs["positions"]
    params.ignore("model_type", "heads")
    rope_parameters = params.take("rope_parameters", {"rope_type": "default"})
    query = rule_query(rope_parameters, int(positions.max()), params)
    query |= {"rotary_dim": params.require("rotary_dim"), **_layout(case)}
    head_dim = params.require("head_dim")
    params.finish()
    assert case.inputs["q"].shape[-1] == head_dim
    return {
        f"{name}_out": batch_rotated(case.inputs[name], positions, query, backend) for name in "qk"
    }


def batch_rotated(x: Array, positions: Array, query: Query, backend: Backend) -> Array:
    """Rotate x, [batch, …, token, head_dim], row by row of positions [batch, token]."""
    rows = zip(x, np.broadcast_to(positions, (len(x), positions.shape[-1])), strict=True)
    return np.stack([backend.rotated(row, query | {"positions": along}) for row, along in rows])


def _layout(case: Case) -> Query:
    """Return the layout; GLM's tables are [f, f], and its pairs are interleaved."""
    if "READS interleaved" in case.conventions and "WRITES half" in case.conventions:
        return {"layout": "interleaved", "output_layout": "half"}
    if "INTERLEAVED pairing" in case.conventions:
        return {"layout": "interleaved"}
    if "HALF pairing" in case.conventions:
        return {"layout": "half"}
    raise NotUnderstoodError(f"conventions have no layout: {case.id}")
