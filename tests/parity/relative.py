"""Relative encodings of libraries: bucket numbers, biases, coordinates and sinusoids."""

from typing import Any

import numpy as np

from tests.parity.backend import Backend, Query
from tests.parity.golden import Array, Arrays, Case
from tests.parity.params import NotUnderstoodError, Params

_MAX_LIST_LENGTH = 4000


def _table(backend: Backend, path: str, query: Query) -> Array:
    (found,) = backend.tables(path, query).values()
    return found


def _index(backend: Backend, path: str, query: Query) -> Array:
    fields = {name: value for name, value in query.items() if value is not None}
    return _table(backend, path, fields | {"dtype": "int64"})


def _of_distances(
    backend: Backend, path: str, query: Query, distances: Array, *, of_keys: bool
) -> Array:
    """Request the numbers of distances of any shape, from or to the position 0."""
    far, near = ("key", "query") if of_keys else ("query", "key")
    flat = distances.reshape(-1)
    parts = [
        _index(
            backend,
            path,
            query | {f"{far}_positions": flat[first : first + _MAX_LIST_LENGTH], f"{near}_len": 1},
        )
        for first in range(0, len(flat), _MAX_LIST_LENGTH)
    ]
    return np.concatenate([part.reshape(-1) for part in parts]).reshape(distances.shape)


_T5: dict[str, Any] = {"num_buckets": ("num_buckets", 32), "max_distance": ("max_distance", 128)}


def t5_bucket(case: Case, backend: Backend) -> Arrays:
    """Map ``_relative_position_bucket`` of T5, and x-transformers', which is causal by default."""
    params = Params(case.params)
    if case.family.startswith("xt_"):
        is_bidirectional = not params.take("causal", True)
    else:
        is_bidirectional = params.take("bidirectional", True)
    query = params.query(**_T5) | {"bidirectional": is_bidirectional}
    distances = case.inputs["rel"]
    return {"bucket": _of_distances(backend, "/relative/t5", query, distances, of_keys=True)}


def t5_bias(case: Case, backend: Backend) -> Arrays:
    """Map ``T5Attention.compute_bias``, which has a leading axis of one batch."""
    query = Params(case.params).query(
        "heads device",
        **_T5,
        bidirectional=("bidirectional", True),
        query_start=("past_seen_tokens", 0),
        query_len="query_length",
        key_len="key_length",
    )
    found = backend.composed("/relative/t5/bias", query, {"weight": case.inputs["weight"]})
    return {"bias": found["bias"][np.newaxis]}


def deberta_bucket(case: Case, backend: Backend) -> Arrays:
    """Map ``make_log_bucket_position`` and ``build_relative_position``."""
    params, distances = Params(case.params), case.inputs.get("rel")
    if distances is not None:
        query = params.query(bucket_size="bucket_size", max_position="max_position")
    else:
        query = params.query(
            bucket_size=("bucket_size", -1),
            max_position=("max_position", -1),
            query_len="query_size",
            key_len="key_size",
        )
    # The library has no buckets unless both sizes are positive.
    if min(query["bucket_size"], query["max_position"]) <= 0:
        query |= {"bucket_size": -1, "max_position": -1}
    path = "/relative/deberta"
    if distances is not None:
        return {"bucket": _of_distances(backend, path, query, distances, of_keys=False)}
    return {"out": _index(backend, path, query)[np.newaxis]}


def shaw_clipped(case: Case, backend: Backend) -> Arrays:
    """Map ``_generate_relative_positions_matrix``, whose queries are the last of the keys."""
    query = Params(case.params).query(
        key_len="length_k",
        query_len=("length_q", 1),
        cache=("cache", False),
        max_relative_position="max_relative_position",
    )
    query["query_len"] = 1 if query.pop("cache") else min(query["query_len"], query["key_len"])
    query["query_start"] = query["key_len"] - query["query_len"]
    return {"out": _index(backend, "/relative/shaw", query)}


def swin_index(case: Case, backend: Backend) -> Arrays:
    """Map ``relative_position_index`` of Swin, and timm's for keys of the same window."""
    params = Params(case.params)
    params.only("k_size", None)
    query = params.query(
        "device", window_size="window_size|q_size", class_token=("class_token", False)
    )
    size = query["window_size"]
    query["window_size"] = [size, size] if isinstance(size, int) else list(size)
    return {"index": _index(backend, "/relative/swin", query)}


def _last(queries: int, keys: int) -> Query:
    """Request the last queries and the last keys of one range that starts at 0."""
    longest = max(queries, keys)
    return {
        "query_start": longest - queries,
        "query_len": queries,
        "key_start": longest - keys,
        "key_len": keys,
    }


def alibi_slopes(case: Case, backend: Backend) -> Arrays:
    """Map ``get_slopes``."""
    query = Params(case.params).query(num_heads="num_heads")
    return {"slopes": _table(backend, "/relative/alibi/slopes", query)}


def bloom(case: Case, backend: Backend) -> Arrays:
    """Map ``build_alibi_tensor`` with separate axes, and its slopes."""
    query = Params(case.params).query("dtype", num_heads="num_heads") | {"convention": "bloom"}
    mask = {"attention_mask": case.inputs["attention_mask"]}
    found = {
        **backend.composed("/relative/alibi/bias", query | {"dtype": "float64"}, mask),
        "slopes": _table(backend, "/relative/alibi/slopes", query),
    }
    return {name: found[name] for name in case.outputs}


def mpt(case: Case, backend: Backend) -> Arrays:
    """Map ``build_mpt_alibi_tensor``."""
    query = Params(case.params).query(
        "device",
        num_heads="num_heads",
        key_len="sequence_length",
        alibi_bias_max=("alibi_bias_max", 8),
    )
    return {"bias": _table(backend, "/relative/alibi", query | {"convention": "mpt"})}


def x_transformers_alibi(case: Case, backend: Backend) -> Arrays:
    """Map ``AlibiPositionalBias``, whose positions are counted or listed."""
    query = Params(case.params).query(
        total_heads=("total_heads", None),
        num_heads="heads",
        slopes=("slopes", case.inputs.get("slopes")),
        i=("i", None),
        j=("j", None),
    )
    slopes, counts = query.pop("slopes", None), [query.pop(name, None) for name in "ij"]
    query["convention"] = "x-transformers"

    def bias(pairs: Query) -> Array:
        if slopes is None:
            return _table(backend, "/relative/alibi", query | pairs)
        fields = {"total_heads": query.get("total_heads"), "convention": query["convention"]}
        arrays = {"slopes": np.asarray(slopes, dtype=np.float32)}
        fields |= pairs | {"dtype": "float64"}
        return backend.composed("/relative/alibi/bias", fields, arrays)["bias"]

    if None not in counts:
        return {"bias": bias(_last(*counts))}
    queries = case.inputs["pos_i"]
    keys = case.inputs.get("pos_j", queries)
    if queries.ndim == 1:
        return {"bias": bias({"query_positions": queries, "key_positions": keys})}
    pairs = zip(queries, keys, strict=True)
    return {"bias": np.stack([bias({"query_positions": q, "key_positions": k}) for q, k in pairs])}


def kerple(case: Case, backend: Backend) -> Arrays:
    """Map NeMo's ``KERPLERelativePositionEmbedding``, and a kernel of KERPLE's own code."""
    return _nemo_kerple(case, backend) if "nemo" in case.library else _own_kerple(case, backend)


def _nemo_kerple(case: Case, backend: Backend) -> Arrays:
    params = Params(case.params)
    lengths, is_whole, heads = _nemo_block(params)
    own = params.take("num_attention_heads_kerple", heads)
    params.finish()
    query: Query = {"convention": "nemo", "causal": False, **_last(*lengths)}
    arrays = {name.removeprefix("kerple_"): array for name, array in case.inputs.items()}
    if arrays:
        fields = query | {"dtype": "float64"}
        found = backend.composed("/relative/kerple/bias", fields, arrays)["bias"]
    else:
        found = _untrained(backend, query, heads, own if own > 0 else heads)
    return {"bias": _below_diagonal(found, lengths, is_whole=is_whole)[np.newaxis]}


def _untrained(backend: Backend, query: Query, heads: int, own: int) -> Array:
    """Request heads of which the first ``own`` have ALiBi's slopes, the others the factor 0."""
    first = _table(backend, "/relative/kerple", query | {"num_heads": own})
    if own == heads:
        return first
    others = query | {"num_heads": heads - own, "b": [0.0]}
    return np.concatenate([first, _table(backend, "/relative/kerple", others)])


def _nemo_block(params: Params) -> tuple[tuple[int, int], bool, int]:
    heads, is_whole = params.require("heads"), params.take("bidirectional", True)
    lengths = params.require("query_seq_length"), params.require("key_seq_length")
    # The length that is precomputed, and how heads are split over GPUs.
    params.ignore("max_seq_len", "layer_type")
    return lengths, is_whole, heads


def _below_diagonal(found: Array, lengths: tuple[int, int], *, is_whole: bool) -> Array:
    """Return a block with the value of distance 0 above its own diagonal.

    NeMo cuts a block there even where queries meet their own keys on another diagonal.
    """
    if is_whole:
        return found
    row, column = np.indices(lengths)
    distance = (column - lengths[1]) - (row - lengths[0])
    own_row, own_column = np.argwhere(distance == 0)[0]
    is_above = column > row
    return found[:, np.where(is_above, own_row, row), np.where(is_above, own_column, column)]


def _own_kerple(case: Case, backend: Backend) -> Arrays:
    # pos_emb names which of the two numbers are learned; the other is 1.
    query = Params(case.params).query(
        "pos_emb",
        convention="kernel",
        query_len="query_length",
        key_len="key_length",
        heads=("heads", 1),
    )
    if query["convention"] not in {"log", "power"}:
        raise NotUnderstoodError(f"params: kernel = {query['convention']!r}")
    fixed = np.ones(query.pop("heads"))
    arrays = {name: case.inputs.get(f"bias_{name}", fixed) for name in ("a", "p")}
    query |= _last(query["query_len"], query["key_len"])
    query |= {"clamp": True, "causal": True, "dtype": "float64"}
    return {"bias": backend.composed("/relative/kerple/bias", query, arrays)["bias"][np.newaxis]}


def sandwich(case: Case, backend: Backend) -> Arrays:
    """Map NeMo's ``SandwichRelativePositionEmbedding``."""
    params = Params(case.params)
    lengths, is_whole, heads = _nemo_block(params)
    query = params.query(head_dim="hidden_size_per_head")
    query |= {"num_heads": heads, "causal": False, **_last(*lengths)}
    found = _table(backend, "/relative/sandwich", query)
    return {"bias": _below_diagonal(found, lengths, is_whole=is_whole)[np.newaxis]}


def swin_v2(case: Case, backend: Backend) -> Arrays:
    """Map timm's ``gen_relative_log_coords``, and the table of Swin V2's own code."""
    params = Params(case.params)
    trained = params.take("pretrained_win_size", params.take("pretrained_window_size"))
    query = params.query("dtype device", window_size="win_size|window_size", mode=("mode", "swin"))
    # A first side of 0 means that there is none; plain logarithms do not use it.
    if trained is not None and trained[0] > 0 and query["mode"] == "swin":
        query["pretrained_window_size"] = trained
    return {"table": _table(backend, "/relative/swin-v2", query)}


def dynamic(case: Case, backend: Backend) -> Arrays:
    """Map the input of the network of ``DynamicPositionBias``."""
    query = Params(case.params).query(
        "dim heads depth norm i", seq_len="j", log_distance=("log_distance", False)
    )
    return {"mlp_input": _table(backend, "/relative/dynamic", query)}


def transformer_xl(case: Case, backend: Backend) -> Arrays:
    """Map ``PositionalEmbedding`` of the distances to all keys, and ``_rel_shift``."""
    params = Params(case.params)
    if "x" in case.inputs:
        query = params.query("qlen klen bsz n_head", zero_triu=("zero_triu", False))
        x = {"x": case.inputs["x"]}
        query["axes"] = "query,key,batch,head"
        return {"y": backend.composed("/relative/transformer-xl/shift", query, x)["shift"]}
    batch = params.take("bsz")
    query = params.query(d_model="demb", key_len="klen", clamp_len=("clamp_len", -1))
    rows = _table(backend, "/relative/transformer-xl", query)
    return {"out": rows if batch is None else _batched(rows, batch)}


def xlnet(case: Case, backend: Backend) -> Arrays:
    """Map ``relative_positional_encoding``: rows by batch by channels."""
    params = Params(case.params)
    batch = params.take("bsz")
    query = params.query(
        "device",
        d_model=("d_model", 1024),
        query_len="qlen",
        key_len="klen",
        attn_type=("attn_type", "bi"),
        bi_data=("bi_data", False),
        clamp_len=("clamp_len", -1),
    )
    if query["attn_type"] != "bi":
        del query["query_len"]
    rows = _table(backend, "/relative/xlnet", query)
    if not query["bi_data"]:
        return {"out": _batched(rows, 1 if batch is None else batch)}
    # The first half of a batch goes forward, the second backward.
    return {"out": np.repeat(rows, 1 if batch is None else batch // 2, axis=1)}


def conformer(case: Case, backend: Backend) -> Arrays:
    """Map ``Wav2Vec2ConformerRelPositionalEmbedding``; the ignored length is precomputed."""
    query = Params(case.params).query(
        "max_source_positions", d_model="hidden_size", seq_len="sequence_length"
    )
    return {"out": _table(backend, "/relative/conformer", query)}


def _batched(rows: Array, batch: int) -> Array:
    return np.repeat(rows[:, np.newaxis], batch, axis=1)
