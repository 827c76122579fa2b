"""Numbers of relative positions, of T5, DeBERTa, Shaw, Swin and what follows them."""

from collections.abc import Mapping

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import Params

_LONGEST_LIST = 4000


def _index(answers: Answers, path: str, query: Query) -> Array:
    said = {name: value for name, value in query.items() if value is not None}
    (found,) = answers.tables(path, said | {"dtype": "int64"}).values()
    return found


def _of_distances(answers: Answers, path: str, query: Query, rel: Array, *, of_keys: bool) -> Array:
    """Ask for the numbers of distances of any shape, from or to the position 0."""
    far, near = ("key", "query") if of_keys else ("query", "key")
    flat = rel.reshape(-1)
    parts = [
        _index(
            answers,
            path,
            query | {f"{far}_positions": flat[first : first + _LONGEST_LIST], f"{near}_len": 1},
        )
        for first in range(0, len(flat), _LONGEST_LIST)
    ]
    return np.concatenate([part.reshape(-1) for part in parts]).reshape(rel.shape)


def t5_bucket(case: Case, answers: Answers) -> Arrays:
    """Ask for ``_relative_position_bucket`` of T5 and its kin."""
    params = Params(case.params)
    query = _t5(params, is_bidirectional=params.take("bidirectional", True))
    params.finish()
    rel = case.inputs["rel"]
    return {"bucket": _of_distances(answers, "/relative/t5", query, rel, of_keys=True)}


def x_transformers_bucket(case: Case, answers: Answers) -> Arrays:
    """Ask for ``RelativePositionBias._relative_position_bucket``, causal unless it says other."""
    params = Params(case.params)
    query = _t5(params, is_bidirectional=not params.take("causal", True))
    params.finish()
    rel = case.inputs["rel"]
    return {"bucket": _of_distances(answers, "/relative/t5", query, rel, of_keys=True)}


def _t5(params: Params, *, is_bidirectional: bool) -> Query:
    return {
        "bidirectional": is_bidirectional,
        "num_buckets": params.take("num_buckets", 32),
        "max_distance": params.take("max_distance", 128),
    }


def t5_bias(case: Case, answers: Answers) -> Arrays:
    """Ask for ``T5Attention.compute_bias``, which has a leading axis of one batch."""
    params = Params(case.params)
    query = _t5(params, is_bidirectional=params.take("bidirectional", True))
    query |= {
        "query_start": params.take("past_seen_tokens", 0),
        "query_len": params.require("query_length"),
        "key_len": params.require("key_length"),
    }
    params.ignore("heads", "device")
    params.finish()
    found = answers.composed("/relative/t5/bias", query, {"weight": case.inputs["weight"]})
    return {"bias": found["bias"][np.newaxis]}


def deberta_bucket(case: Case, answers: Answers) -> Arrays:
    """Ask for ``make_log_bucket_position`` or for ``build_relative_position``."""
    params = Params(case.params)
    rel, names = case.inputs.get("rel"), ("bucket_size", "max_position")
    if rel is not None:
        said: Query = _sizes({name: params.require(name) for name in names})
        params.finish()
        return {"bucket": _of_distances(answers, "/relative/deberta", said, rel, of_keys=False)}
    query: Query = _sizes({name: params.take(name, -1) for name in names})
    query |= {"query_len": params.require("query_size"), "key_len": params.require("key_size")}
    params.finish()
    return {"out": _index(answers, "/relative/deberta", query)[np.newaxis]}


def _sizes(said: Mapping[str, int]) -> Query:
    """Say the sizes of buckets; the library has none unless both are positive."""
    return dict(said) if min(said.values()) > 0 else dict.fromkeys(said, -1)


def shaw_clipped(case: Case, answers: Answers) -> Arrays:
    """Ask for ``_generate_relative_positions_matrix``, whose queries are the last of the keys."""
    params = Params(case.params)
    keys = params.require("length_k")
    queries = min(params.take("length_q", 1), keys)
    if params.take("cache", False):
        queries = 1
    query = {
        "query_start": keys - queries,
        "query_len": queries,
        "key_len": keys,
        "max_relative_position": params.require("max_relative_position"),
    }
    params.finish()
    return {"out": _index(answers, "/relative/shaw", query)}


def swin_index(case: Case, answers: Answers) -> Arrays:
    """Ask for ``relative_position_index`` of Swin's WindowAttention."""
    params = Params(case.params)
    query = {"window_size": _pair(params.require("window_size"))}
    params.finish()
    return {"index": _index(answers, "/relative/swin", query)}


def timm_index(case: Case, answers: Answers) -> Arrays:
    """Ask for ``gen_relative_position_index``, whose keys are the same window as its queries."""
    params = Params(case.params)
    query = {
        "window_size": _pair(params.require("q_size")),
        "class_token": params.take("class_token", False),
    }
    params.only("k_size", None)
    params.ignore("device")
    params.finish()
    return {"index": _index(answers, "/relative/swin", query)}


def _pair(size: int | list[int]) -> list[int]:
    return [size, size] if isinstance(size, int) else list(size)
