"""transformers: buckets of T5 and DeBERTa, and ALiBi of BLOOM."""

from loop import Unsupported, parameters_of, serve

import torch
import transformers
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.t5.modeling_t5 import T5Attention

BOTH = ("query_positions", "key_positions", "query_len", "key_len")


def distances(given):
    rows = given.get("query_positions", range(given.get("query_len", 0)))
    keys = given.get("key_positions", range(given.get("key_len", 0)))
    return torch.tensor([*keys])[None] - torch.tensor([*rows])[:, None]


def alibi(num_heads, convention="bloom", **given):
    if convention != "bloom":
        raise Unsupported(convention)
    is_whole = "attention_mask" not in given
    mask = torch.tensor([[1] * given["key_len"]] if is_whole else given["attention_mask"])
    bias = build_alibi_tensor(mask, num_heads, torch.float32).reshape(len(mask), num_heads, 1, -1)
    return bias[0] if is_whole else bias


def answer(case):
    if case["resource"].startswith("/relative/alibi"):
        given = parameters_of(case, "num_heads", "convention", "attention_mask", "key_len")
        return {"dtype": "float32", "arrays": {"array": alibi(**given)}}
    own = ("bidirectional", "num_buckets", "max_distance", "bucket_size", "max_position")
    given = parameters_of(case, *BOTH, *own)
    buckets, keys = distances(given), {name: given[name] for name in own if name in given}
    if case["resource"] == "/relative/t5":
        buckets = T5Attention._relative_position_bucket(buckets, **keys)
    else:
        buckets = -buckets
        if keys["bucket_size"] > 0:
            buckets = make_log_bucket_position(buckets, **keys)
    return {"dtype": "int64", "arrays": {"array": buckets.to(torch.int64)}}


paths = ("alibi", "alibi/bias", "t5", "deberta")
offers = {"kinds": ["array"], "resources": [f"/relative/{each}" for each in paths]}
serve("transformers", transformers.__version__, answer, **offers)
