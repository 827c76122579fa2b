"""transformers: windows of Swin V2 and BEiT, and the biases that Swin and T5 learn."""

from loop import Unsupported, serve

import torch
import transformers
from transformers.models.beit.modeling_beit import BeitRelativePositionBias
from transformers.models.swin.modeling_swin import SwinRelativePositionBias
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention
from transformers.models.t5.modeling_t5 import T5Attention


def index(window_size, *, class_token=False):
    if class_token:
        return BeitRelativePositionBias.generate_relative_position_index(tuple(window_size))
    return swin_v2(window_size)[1]


def swin_v2(window_size, pretrained_window_size=(0, 0)):
    config = transformers.Swinv2Config()
    attention = Swinv2SelfAttention(config, 8, 1, window_size, pretrained_window_size)
    return attention.create_coords_table_and_index()


def coordinates(mode="swin", **sizes):
    if mode != "swin":
        raise Unsupported(mode)
    return swin_v2(**sizes)[0]


def swin(window_size, weight):
    module = SwinRelativePositionBias(len(weight[0]), window_size)
    module.relative_position_bias_table.data = torch.tensor(weight)
    return module()[0]


def t5(query_len, key_len, max_distance, weight, query_start=0, *, bidirectional=True):
    sizes = {"num_heads": len(weight[0]), "relative_attention_num_buckets": len(weight)}
    sizes["is_decoder"] = not bidirectional
    config = transformers.T5Config(relative_attention_max_distance=max_distance, **sizes)
    attention = T5Attention(config, has_relative_attention_bias=True)
    attention.relative_attention_bias.weight.data = torch.tensor(weight)
    return attention.compute_bias(query_len, key_len, past_seen_tokens=query_start)[0]


def answer(case):
    array = MADE[case["resource"].removeprefix("/relative/")](**case["parameters"])
    return {"dtype": "float32", "arrays": {"array": array.detach()}}


MADE = {"swin": index, "swin-v2": coordinates, "swin/bias": swin, "t5/bias": t5}
paths = [f"/relative/{name}" for name in MADE]
serve("transformers", transformers.__version__, answer, kinds=["array"], resources=paths)
