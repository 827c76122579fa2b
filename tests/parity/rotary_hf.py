"""Tables of transformers: what its rotary modules keep, and what they answer."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Arrays, Case
from tests.parity.params import NotUnderstoodError, Params

_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "default": (),
        "linear": ("factor",),
        "dynamic": ("factor",),
        "yarn": (
            "factor",
            "attention_factor",
            "beta_fast",
            "beta_slow",
            "truncate",
            "mscale",
            "mscale_all_dim",
        ),
        "longrope": ("factor", "attention_factor", "short_factor", "long_factor"),
        "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
        "proportional": ("factor",),
    }
)
_WITH_ORIGINAL = {"yarn", "longrope", "llama3"}
_ALIASES = {"su": "longrope", "mrope": "default"}


def rule(rope_parameters: Mapping[str, Any], longest: int, params: Params) -> Query:
    """Turn ``rope_parameters`` into what says the same in a query; the head's share is left out.

    Args:
        rope_parameters: of a config.
        longest: position of the last token, which dynamic and longrope depend on.
        params: of the case, for what stands beside them in the config.
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
    query |= {key: given.take(key) for key in _KEYS[rope_type]}
    original = given.take("original_max_position_embeddings", trained)
    original = params.take("original_max_position_embeddings", original)
    if rope_type in _WITH_ORIGINAL:
        query["original_max_position_embeddings"] = original
    if rope_type == "longrope":
        query["context_length"] = max(longest + 1, 1)
        query["max_position_embeddings"] = trained
    if rope_type == "dynamic":
        query["original_max_position_embeddings"] = trained
        query["context_length"] = max(longest + 1, trained)
    given.finish()
    return {key: value for key, value in query.items() if value is not None}


def rotary_share(case: Case, head_dim: int, rope_type: str, partial: float | None) -> Query:
    """Say how many channels turn: the Llama class and its kin ignore partial_rotary_factor."""
    stated = re.search(r"r = (\d+) channels", case.conventions)
    if stated is None:
        raise NotUnderstoodError(f"conventions do not say how many channels turn: {case.id}")
    if rope_type == "proportional" or int(stated[1]) != head_dim:
        return {"head_dim": head_dim, "partial_rotary_factor": partial}
    return {"head_dim": head_dim}


def pack_of(case: Case) -> str:
    """Say which consumer has the columns of a case."""
    if "duplicated pairs" in case.conventions:
        return "cohere"
    if "[f, f]" in case.conventions:
        return "transformers"
    raise NotUnderstoodError(f"conventions do not say how columns lie: {case.id}")


def request(case: Case) -> Query:
    """Say which frequencies a case has, and how long its tokens reach."""
    params = Params(case.params)
    rope_parameters = params.require("rope_parameters")
    params.ignore("model_type")
    head_dim, partial = params.require("head_dim"), rope_parameters.get("partial_rotary_factor")
    partial = params.take("partial_rotary_factor", partial)
    query = rule(rope_parameters, int(case.inputs["positions"].max()), params)
    params.finish()
    share = rotary_share(case, head_dim, query["rope_type"], partial)
    return {key: value for key, value in (query | share).items() if value is not None}


def table(case: Case, answers: Answers) -> Arrays:
    """Ask for what a rotary module of transformers keeps, and answers to positions."""
    query = request(case)
    kept = answers.tables("/rope/frequencies", query)
    positions = {"positions": case.inputs["positions"], "pack": pack_of(case)}
    scaling = kept["attention_factor"]
    return {
        "inv_freq": kept["inv_freq"],
        "attention_scaling": scaling,
        **answers.tables("/rope", query | positions),
    }


def of_its_own_frequencies(case: Case, answers: Answers) -> Arrays:
    """Ask for the float32 table of the frequencies that the library computed itself."""
    query = {
        "inv_freq": case.outputs["inv_freq"].astype(np.float64),
        "attention_factor": case.outputs["attention_scaling"],
        "positions": case.inputs["positions"],
        "pack": pack_of(case),
        "angle": "float32",
        "dtype": "float32",
    }
    return answers.tables("/rope", query)


def multimodal_table(case: Case, answers: Answers) -> Arrays:
    """Ask for M-RoPE's table of every row of a batch."""
    params = Params(case.params)
    rope_parameters = params.take("rope_parameters", {"rope_type": "default"})
    params.ignore("model_type")
    query = {"head_dim": params.require("head_dim")}
    query["mrope_section"] = params.require("mrope_section")
    query["mrope_interleaved"] = params.take("mrope_interleaved", False)
    unsaid = {"mrope_section", "mrope_interleaved"}
    kept = {key: value for key, value in rope_parameters.items() if key not in unsaid}
    if kept.get("partial_rotary_factor"):
        raise NotUnderstoodError("rope_parameters: partial_rotary_factor beside mrope_section")
    position_ids = case.inputs["position_ids"]
    query |= rule(kept, int(position_ids.max()), params)
    params.finish()
    rows = [
        answers.tables("/rope", query | _along_axes(axes) | {"pack": pack_of(case)})
        for axes in position_ids.swapaxes(0, 1)
    ]
    stacked = {name: np.stack([row[name] for row in rows]) for name in ("cos", "sin")}
    has_batch = case.outputs["cos"].ndim == 3
    return stacked if has_batch else {name: array[0] for name, array in stacked.items()}


def _along_axes(axes: Any) -> Query:
    return {f"positions_{name}": list(along) for name, along in zip("thw", axes, strict=True)}
