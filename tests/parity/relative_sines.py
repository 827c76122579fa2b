"""Sinusoids of relative positions: Transformer-XL, XLNet, Conformer."""

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import Params


def transformer_xl(case: Case, answers: Answers) -> Arrays:
    """Ask for ``PositionalEmbedding`` of the distances to all keys, or for ``_rel_shift``."""
    params = Params(case.params)
    if "x" in case.inputs:
        params.ignore("qlen", "klen", "bsz", "n_head")
        query: Query = {"zero_triu": params.take("zero_triu", False)}
        params.finish()
        x = {"x": case.inputs["x"]}
        return {"y": answers.composed("/relative/transformer-xl/shift", query, x)["shift"]}
    query = {"d_model": params.require("demb"), "key_len": params.require("klen")}
    query["clamp_len"], bsz = params.take("clamp_len", -1), params.take("bsz")
    params.finish()
    rows = answers.tables("/relative/transformer-xl", query)["transformer_xl"]
    return {"out": rows if bsz is None else _batched(rows, bsz)}


def xlnet(case: Case, answers: Answers) -> Arrays:
    """Ask for ``relative_positional_encoding``: rows by batch by channels."""
    params = Params(case.params)
    queries = params.require("qlen")
    query: Query = {
        "d_model": params.take("d_model", 1024),
        "key_len": params.require("klen"),
        "attn_type": params.take("attn_type", "bi"),
        "bi_data": params.take("bi_data", False),
        "clamp_len": params.take("clamp_len", -1),
    }
    if query["attn_type"] == "bi":
        query["query_len"] = queries
    bsz = params.take("bsz")
    params.ignore("device")
    params.finish()
    rows = answers.tables("/relative/xlnet", query)["xlnet"]
    if not query["bi_data"]:
        return {"out": _batched(rows, 1 if bsz is None else bsz)}
    # The first half of a batch goes forward, the second backward.
    return {"out": np.repeat(rows, 1 if bsz is None else bsz // 2, axis=1)}


def conformer(case: Case, answers: Answers) -> Arrays:
    """Ask for ``Wav2Vec2ConformerRelPositionalEmbedding``."""
    params = Params(case.params)
    query: Query = {
        "d_model": params.require("hidden_size"),
        "seq_len": params.require("sequence_length"),
    }
    # It only says how much is computed before the first call.
    params.ignore("max_source_positions")
    params.finish()
    return {"out": answers.tables("/relative/conformer", query)["conformer"]}


def _batched(rows: Array, bsz: int) -> Array:
    return np.repeat(rows[:, np.newaxis], bsz, axis=1)
