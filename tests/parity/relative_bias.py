"""Biases that are real numbers: ALiBi, KERPLE, Sandwich, and what networks of positions take in."""

import numpy as np

from tests.parity.asking import Answers, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params


def _bias(answers: Answers, path: str, query: Query) -> Array:
    (found,) = answers.tables(path, query).values()
    return found


def _last(queries: int, keys: int) -> Query:
    """Name the last queries and the last keys of one range that starts at 0."""
    longest = max(queries, keys)
    return {
        "query_start": longest - queries,
        "query_len": queries,
        "key_start": longest - keys,
        "key_len": keys,
    }


def slopes(case: Case, answers: Answers) -> Arrays:
    """Ask for ``get_slopes``."""
    params = Params(case.params)
    query = {"num_heads": params.require("num_heads")}
    params.finish()
    return {"slopes": _bias(answers, "/relative/alibi/slopes", query)}


def bloom(case: Case, answers: Answers) -> Arrays:
    """Ask for ``build_alibi_tensor`` with its axes apart, and for its slopes."""
    params = Params(case.params)
    query = {"num_heads": params.require("num_heads"), "convention": "bloom"}
    params.ignore("dtype")
    params.finish()
    mask = {"attention_mask": case.inputs["attention_mask"]}
    asked = query | {"dtype": "float64"}
    found = {
        "bias": answers.composed("/relative/alibi/bias", asked, mask)["bias"],
        "slopes": _bias(answers, "/relative/alibi/slopes", query),
    }
    return {name: found[name] for name in case.outputs}


def mpt(case: Case, answers: Answers) -> Arrays:
    """Ask for ``build_mpt_alibi_tensor``."""
    params = Params(case.params)
    query = {
        "convention": "mpt",
        "num_heads": params.require("num_heads"),
        "key_len": params.require("sequence_length"),
        "alibi_bias_max": params.take("alibi_bias_max", 8),
    }
    params.ignore("device")
    params.finish()
    return {"bias": _bias(answers, "/relative/alibi", query)}


def x_transformers_alibi(case: Case, answers: Answers) -> Arrays:
    """Ask for ``AlibiPositionalBias``, whose positions are counted, or listed."""
    params = Params(case.params)
    query: Query = {"convention": "x-transformers", "total_heads": params.take("total_heads")}
    heads, sent = params.require("heads"), params.take("slopes", case.inputs.get("slopes"))
    counts = [params.take("i"), params.take("j")]
    params.finish()

    def ask(pairs: Query) -> Array:
        if sent is None:
            asked = query | pairs | {"num_heads": heads}
            return _bias(answers, "/relative/alibi", asked)
        asked = query | pairs | {"dtype": "float64"}
        arrays = {"slopes": np.asarray(sent, dtype=np.float32)}
        return answers.composed("/relative/alibi/bias", asked, arrays)["bias"]

    if None not in counts:
        return {"bias": ask(_last(*counts))}
    queries = case.inputs["pos_i"]
    keys = case.inputs.get("pos_j", queries)
    if queries.ndim == 1:
        return {"bias": ask(_listed(queries, keys))}
    return {"bias": np.stack([ask(_listed(*each)) for each in zip(queries, keys, strict=True)])}


def _listed(queries: Array, keys: Array) -> Query:
    return {"query_positions": queries, "key_positions": keys}


def kerple(case: Case, answers: Answers) -> Arrays:
    """Ask for NeMo's ``KERPLERelativePositionEmbedding``, or for a kernel of KERPLE's own code."""
    return _nemo_kerple(case, answers) if "nemo" in case.library else _own_kerple(case, answers)


def _nemo_kerple(case: Case, answers: Answers) -> Arrays:
    params = Params(case.params)
    lengths, is_whole, heads = _nemo_block(params)
    own = params.take("num_attention_heads_kerple", heads)
    params.finish()
    query: Query = {"convention": "nemo", "causal": False, **_last(*lengths)}
    names = {"kerple_a": "a", "kerple_b": "b", "kerple_p": "p"}
    arrays = {names[name]: array for name, array in case.inputs.items()}
    if arrays:
        asked = query | {"dtype": "float64"}
        found = answers.composed("/relative/kerple/bias", asked, arrays)["bias"]
    else:
        found = _untrained(answers, query, heads, own if own > 0 else heads)
    return {"bias": _below_diagonal(found, lengths, is_whole=is_whole)[np.newaxis]}


def _untrained(answers: Answers, query: Query, heads: int, own: int) -> Array:
    """Ask for heads of which the first have the slopes of as many, and the others the factor 0."""
    first = _bias(answers, "/relative/kerple", query | {"num_heads": own})
    if own == heads:
        return first
    others = query | {"num_heads": heads - own, "b": [0.0]}
    return np.concatenate([first, _bias(answers, "/relative/kerple", others)])


def _nemo_block(params: Params) -> tuple[tuple[int, int], bool, int]:
    heads, is_whole = params.require("heads"), params.take("bidirectional", True)
    lengths = params.require("query_seq_length"), params.require("key_seq_length")
    # How much is computed before the first call, and which group of processors shares the heads.
    params.ignore("max_seq_len", "layer_type")
    return lengths, is_whole, heads


def _below_diagonal(found: Array, lengths: tuple[int, int], *, is_whole: bool) -> Array:
    """Take what is on or below a block's own diagonal, and the value of distance 0 above it.

    NeMo's block is cut there whether or not its diagonal is where queries meet their own keys.
    """
    if is_whole:
        return found
    row, column = np.indices(lengths)
    meeting = next(place for place in np.ndindex(lengths) if _distance(place, lengths) == 0)
    is_above = column > row
    rows = np.where(is_above, meeting[0], row)
    return found[:, rows, np.where(is_above, meeting[1], column)]


def _distance(place: tuple[int, ...], lengths: tuple[int, int]) -> int:
    return (place[1] - lengths[1]) - (place[0] - lengths[0])


def _own_kerple(case: Case, answers: Answers) -> Arrays:
    params = Params(case.params)
    kernel = params.require("kernel")
    if kernel not in {"log", "power"}:
        raise NotUnderstoodError(f"params: kernel = {kernel!r}")
    lengths = params.require("query_length"), params.require("key_length")
    heads = params.take("heads", 1)
    # It names which of the two are learned; the other is 1.
    params.ignore("pos_emb")
    params.finish()
    fixed = np.ones(heads)
    arrays = {name: case.inputs.get(f"bias_{name}", fixed) for name in ("a", "p")}
    query = {"convention": kernel, "clamp": True, "causal": True, "dtype": "float64"}
    found = answers.composed("/relative/kerple/bias", query | _last(*lengths), arrays)["bias"]
    return {"bias": found[np.newaxis]}


def sandwich(case: Case, answers: Answers) -> Arrays:
    """Ask for NeMo's ``SandwichRelativePositionEmbedding``."""
    params = Params(case.params)
    lengths, is_whole, heads = _nemo_block(params)
    query = {
        "num_heads": heads,
        "head_dim": params.require("hidden_size_per_head"),
        "causal": False,
        **_last(*lengths),
    }
    params.finish()
    found = _bias(answers, "/relative/sandwich", query)
    return {"bias": _below_diagonal(found, lengths, is_whole=is_whole)[np.newaxis]}


def swin_v2(case: Case, answers: Answers) -> Arrays:
    """Ask for timm's ``gen_relative_log_coords``, or for the table of Swin V2's own code."""
    params = Params(case.params)
    window = params.take("win_size") or params.require("window_size")
    trained = params.take("pretrained_win_size", params.take("pretrained_window_size"))
    mode = params.take("mode", "swin")
    params.ignore("dtype", "device")
    params.finish()
    # The first side says whether there is one at all, and plain logarithms have no use for it.
    is_used = trained is not None and trained[0] > 0 and mode == "swin"
    query = {
        "window_size": window,
        "pretrained_window_size": trained if is_used else None,
        "mode": mode,
    }
    return {"table": _bias(answers, "/relative/swin-v2", query)}


def dynamic(case: Case, answers: Answers) -> Arrays:
    """Ask for what the network of ``DynamicPositionBias`` takes in."""
    params = Params(case.params)
    query = {
        "seq_len": params.require("j"),
        "log_distance": params.take("log_distance", False),
    }
    params.ignore("dim", "heads", "depth", "norm", "i")
    params.finish()
    return {"mlp_input": _bias(answers, "/relative/dynamic", query)}
