"""x-transformers: ALiBi, buckets of T5, and scaled sinusoids."""

from loop import Unsupported, parameters_of, serve

from importlib.metadata import version

import torch
from x_transformers import x_transformers as of


def alibi(case):
    given = parameters_of(case, "num_heads", "convention", "query_len", "key_len")
    bias = of.AlibiPositionalBias(given["num_heads"])
    if case["resource"] == "/relative/alibi/slopes":
        return bias.slopes.flatten()
    if given.get("convention") != "x-transformers":
        raise Unsupported("its own convention alone")
    return bias.forward_custom_pos(*(torch.arange(given[n]) for n in ("query_len", "key_len")))


def buckets(query_positions=None, key_positions=None, query_len=0, key_len=0, **options):
    options["causal"] = not options.pop("bidirectional", True)
    rows = torch.tensor(query_positions or range(query_len))[:, None]
    keys = torch.tensor(key_positions or range(key_len))[None]
    return of.RelativePositionBias._relative_position_bucket(keys - rows, **options)


def answer(case):
    return {"dtype": "float32", "arrays": {"array": array(case)}}


def array(case):
    if case["resource"] == "/relative/t5":
        return buckets(**case["parameters"])
    if case["resource"] != "/encoding":
        return alibi(case)
    given, positions = parameters_of(case, "convention", "d_model"), torch.tensor(case["positions"])
    if given["convention"] != "x-transformers":
        raise Unsupported("its own convention alone")
    return of.ScaledSinusoidalEmbedding(given["d_model"])(positions[None], pos=positions).detach()


paths = ["/relative/alibi", "/relative/alibi/slopes", "/relative/t5", "/encoding"]
about = ("x-transformers", version("x-transformers"))
serve(*about, answer, kinds=["array"], resources=paths)
