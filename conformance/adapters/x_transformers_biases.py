"""x-transformers: biases of ALiBi and T5, distances of its dynamic bias, and scaled sinusoids."""

from loop import Unsupported, called, parameters_of, serve

from importlib.metadata import version

import torch
from x_transformers import x_transformers as of


def slopes(num_heads):
    return of.AlibiPositionalBias(num_heads).slopes.flatten()


def alibi(num_heads, convention="", query_len=0, key_len=0, **others):
    if convention != "x-transformers" or others:
        raise Unsupported("its own convention alone")
    sizes = torch.arange(query_len), torch.arange(key_len)
    return of.AlibiPositionalBias(num_heads).forward_custom_pos(*sizes)


def buckets(query_positions=None, key_positions=None, query_len=0, key_len=0, **options):
    options["causal"] = not options.pop("bidirectional", True)
    rows = torch.tensor(query_positions or range(query_len))[:, None]
    keys = torch.tensor(key_positions or range(key_len))[None]
    return of.RelativePositionBias._relative_position_bucket(keys - rows, **options)


def learned(weight, query_len, key_len, query_start, max_distance, *, bidirectional=True):
    if query_start != key_len - query_len:
        raise Unsupported("queries that are not the last ones")
    bias = of.RelativePositionBias(1, not bidirectional, len(weight), max_distance, len(weight[0]))
    bias.relative_attention_bias.weight.data = torch.tensor(weight)
    return bias(query_len, key_len)


def dynamic(seq_len, *, log_distance=False):
    bias, read = of.DynamicPositionBias(8, heads=1, depth=1, log_distance=log_distance), []
    bias.mlp[0].register_forward_pre_hook(lambda _, inputs: read.extend(inputs))
    bias(seq_len, seq_len)
    return read[0]


def sinusoid(case):
    given, places = parameters_of(case, "convention", "d_model"), torch.tensor(case["positions"])
    if given["convention"] != "x-transformers":
        raise Unsupported("its own convention alone")
    return of.ScaledSinusoidalEmbedding(given["d_model"])(places[None], pos=places)


def answer(case):
    made = MADE[case["resource"]]
    array = made(case) if made is sinusoid else called(made, **case["parameters"])
    return {"dtype": "float32", "arrays": {"array": array.detach()}}


MADE = {"/relative/alibi": alibi, "/relative/alibi/slopes": slopes, "/encoding": sinusoid}
MADE |= {"/relative/t5": buckets, "/relative/t5/bias": learned, "/relative/dynamic": dynamic}
serve("x-transformers", version("x-transformers"), answer, kinds=["array"], resources=[*MADE])
