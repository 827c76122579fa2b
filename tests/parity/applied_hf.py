"""Queries and keys that transformers turned."""

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params
from tests.parity.rotary_hf import rule


def queries_and_keys(case: Case, answers: Answers) -> Arrays:
    """Ask for queries and keys, [batch, heads, token, head_dim], turned by their positions."""
    params, positions = Params(case.params), case.inputs["positions"]
    params.ignore("model_type", "heads")
    plain = {"rope_type": "default"}
    query = rule(params.take("rope_parameters", plain), int(positions.max()), params)
    query |= {"rotary_dim": params.require("rotary_dim"), **_layout(case)}
    head_dim = params.require("head_dim")
    params.finish()
    assert case.inputs["q"].shape[-1] == head_dim
    return {
        f"{name}_out": batch_turned(case.inputs[name], positions, query, answers) for name in "qk"
    }


def batch_turned(x: Array, positions: Array, query: Query, answers: Answers) -> Array:
    """Ask for x, [batch, …, token, head_dim], turned row by row of positions [batch, token]."""
    rows = zip(x, np.broadcast_to(positions, (len(x), positions.shape[-1])), strict=True)
    return np.stack([answers.turned(row, query | {"positions": along}) for row, along in rows])


def _layout(case: Case) -> Query:
    """Say which channels are pairs: GLM's tables are [f, f], and its pairs are interleaved."""
    said = case.conventions
    if "READS interleaved" in said and "WRITES half" in said:
        return {"layout": "interleaved", "output_layout": "half"}
    if "INTERLEAVED pairing" in said:
        return {"layout": "interleaved"}
    if "HALF pairing" in said:
        return {"layout": "half"}
    raise NotUnderstoodError(f"conventions do not say which channels are pairs: {case.id}")
