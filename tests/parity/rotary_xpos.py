"""The scale of xPos, and tables and rotations that hold it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params
from tests.parity.rotary_angles import rescaled


def scale(answers: Answers, dim: int, said: Query) -> Array:
    """Ask for the scale alone, each value twice: the cosines of what does not turn."""
    still = {"inv_freq": [0.0] * (dim // 2), "xpos": "query", "pack": "interleaved"}
    return answers.tables("/rope", still | said)["cos"]


def case_of_scale(case: Case, answers: Answers) -> Arrays:
    """Ask for what a library's class of xPos gives."""
    for name, mapping in _LIBRARIES.items():
        if name in case.library:
            params = Params(case.params)
            found = mapping(params, case, answers)
            params.finish()
            return found
    raise NotUnderstoodError(f"library = {case.library!r}")


def _rotary_embedding_torch(params: Params, _: Case, answers: Answers) -> Arrays:
    base = params.take("xpos_scale_base", 512)
    said = {"seq_len": params.require("length"), "xpos_scale_base": base}
    params.ignore("theta", "use_xpos")
    return {"scale": scale(answers, params.require("dim"), said)}


def _x_transformers(params: Params, _: Case, answers: Answers) -> Arrays:
    dim, length = params.require("dim"), params.require("length")
    params.ignore("use_xpos")
    said = {"seq_len": length, "xpos_scale_base": params.take("scale_base", 512)}
    turning = rescaled(
        dim,
        params.take("base", 10000),
        params.take("base_rescale_factor", 1.0),
        params.take("interpolation_factor", 1.0),
    )
    angles = answers.tables("/rope", turning | {"seq_len": length, "pack": "angle"})["rope"]
    found = {"freqs": np.repeat(angles, 2, axis=1)}
    return found | {"scale": scale(answers, dim, said)}


def _flash_attn(params: Params, _: Case, answers: Answers) -> Arrays:
    query: Query = {
        "head_dim": params.require("dim"),
        "rope_theta": params.take("base", 10000.0),
        "seq_len": params.require("length"),
        "xpos_scale_base": params.require("scale_base"),
        "pack": "flash_attn",
    }
    params.ignore("interleaved")
    queries = answers.tables("/rope", query | {"xpos": "query"})
    keys = answers.tables("/rope", query | {"xpos": "key"})
    return {**queries, "cos_k": keys["cos"], "sin_k": keys["sin"]}


def _torchscale(params: Params, case: Case, answers: Answers) -> Arrays:
    params.ignore("length", "head_dim")
    offset, x = params.take("offset", 0), case.inputs["x"]
    query: Query = {
        "start": offset,
        "xpos_scale_base": params.take("scale_base", 512),
        "xpos_centre": (x.shape[1] + offset + 1) // 2,
    }
    return {
        "q": answers.turned(x, query | {"xpos": "query"}),
        "k": answers.turned(x, query | {"xpos": "key"}),
    }


_LIBRARIES: Mapping[str, Callable[[Params, Case, Answers], Arrays]] = MappingProxyType(
    {
        "rotary-embedding-torch": _rotary_embedding_torch,
        "x-transformers": _x_transformers,
        "flash-attn": _flash_attn,
        "torchscale": _torchscale,
    }
)
