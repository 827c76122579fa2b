"""Sinusoids along one axis: of Keras, fairseq, tensor2tensor and models of transformers."""

from typing import Any

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import Params

# The number of no row: no table begins before 0.
_NO_PADDING = -1


def _rows(query: Query, answers: Answers) -> Arrays:
    return {"out": answers.tables("/encoding", query)["encoding"]}


def _positions(case: Case, count: int, start: int = 0) -> Query:
    """Say which of the first rows were kept, or that all were."""
    if "rows" in case.inputs:
        return {"positions": [start + row for row in case.inputs["rows"].tolist()]}
    return {"seq_len": count, "start": start}


def _given_positions(case: Case, name: str, said: Any) -> Query:
    """Say positions as they went in, which need not be the decimals that were said."""
    given = np.asarray(case.inputs.get(name, said))
    return {"positions": given.reshape(-1).tolist()}


def keras(case: Case, answers: Answers) -> Arrays:
    """Ask for ``SinePositionEncoding``."""
    params = Params(case.params)
    query: Query = {"convention": "keras", "base": float(params.take("max_wavelength", 10000))}
    query["d_model"] = params.require("hidden_size")
    start, count = params.take("start_index", 0), params.require("sequence_length")
    positions = params.take("positions")
    params.ignore("dtype")
    params.finish()
    along: Query = {"seq_len": count, "start": start}
    if positions is not None:
        along = _given_positions(case, "positions", positions)
    return _rows(query | along, answers)


def positional_encodings(case: Case, answers: Answers) -> Arrays:
    """Ask for ``PositionalEncoding1D``, and its twin with the channels first."""
    params = Params(case.params)
    (count,) = params.require("axes")
    query: Query = {"convention": "positional-encodings", "d_model": params.require("channels")}
    is_turned = params.take("permute", False)
    params.finish()
    out = _rows(query | {"seq_len": count}, answers)["out"]
    return {"out": out.T if is_turned else out}


def diffusers(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_1d_sincos_pos_embed_from_grid``."""
    params = Params(case.params)
    query: Query = {"convention": "diffusers", "d_model": params.require("embed_dim")}
    query |= _given_positions(case, "pos", params.take("pos", []))
    query["flip_sin_to_cos"] = params.take("flip_sin_to_cos", False)
    params.ignore("output_type", "dtype")
    params.finish()
    return _rows(query, answers)


def by_length(case: Case, answers: Answers) -> Arrays:
    """Ask for Marian's and XLM's tables, and those of their kin."""
    name = {"hf_marian_sinusoid": "marian", "hf_xlm_sinusoid": "xlm"}[case.family]
    params = Params(case.params)
    count = params.take("num_positions") or params.require("n_pos")
    width = params.take("embedding_dim") or params.require("dim")
    # Their tables have no row of padding, though they take one.
    params.ignore("padding_idx")
    params.finish()
    query: Query = {"convention": name, "d_model": width}
    return _rows(query | _positions(case, count), answers)


def whisper(case: Case, answers: Answers) -> Arrays:
    """Ask for ``sinusoids``."""
    params = Params(case.params)
    query: Query = {"convention": "whisper", "d_model": params.require("channels")}
    query["max_timescale"] = float(params.take("max_timescale", 10000))
    along = _positions(case, params.require("length"))
    params.finish()
    return _rows(query | along, answers)


def tensor2tensor(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_timing_signal_1d``."""
    params = Params(case.params)
    query: Query = {"convention": "tensor2tensor", "d_model": params.require("channels")}
    query["min_timescale"] = params.take("min_timescale", 1.0)
    query["max_timescale"] = params.take("max_timescale", 1.0e4)
    along = _positions(case, params.require("length"), params.take("start_index", 0))
    params.finish()
    return _rows(query | along, answers)


def fairseq(case: Case, answers: Answers) -> Arrays:
    """Ask for the weights, and for the rows of them that ids of tokens or positions have."""
    params = Params(case.params)
    width, padding_idx = params.require("embedding_dim"), params.take("padding_idx", _NO_PADDING)
    count, past = params.require("num_positions"), params.take("past_key_values_length", 0)
    params.finish()
    query: Query = {"d_model": width, "padding_idx": padding_idx}
    table = query | {"convention": "fairseq"}
    found = {"weights": answers.tables("/encoding", table | {"seq_len": count + 2})["encoding"]}
    if "inputs_embeds" in case.inputs:
        batch, length = case.inputs["inputs_embeds"].shape[:2]
        asked: Query = {"start": padding_idx + 1 + past, "seq_len": length}
        rows = answers.tables("/encoding", table | asked)["encoding"]
        found["out"] = np.repeat(rows[np.newaxis], batch, axis=0)
    elif "out" in case.outputs:
        asked, sent = _tokens(case.inputs, past)
        found["out"] = answers.composed("/encoding/tokens", query | asked, sent)["encoding"]
    return {name: found[name] for name in case.outputs}


def _tokens(inputs: Arrays, past: int) -> tuple[Query, dict[str, Array]]:
    query: dict[str, Any] = {"dtype": "float64"}
    if "input_ids" in inputs:
        counted = {"convention": "m2m100", "past": past}
        return query | counted, {"input_ids": inputs["input_ids"]}
    return query | {"convention": "xglm"}, {"position_ids": np.asarray(inputs["position_ids"])}
