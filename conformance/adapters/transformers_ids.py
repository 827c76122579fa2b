"""transformers: position ids of RoBERTa and OPT, and indices and coordinates of Swin's windows."""

from loop import Unsupported, parameters_of, serve

import torch
import transformers
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention


def ids(convention, attention_mask=(), input_ids=(), padding_idx=1):
    mask, tokens = torch.tensor(attention_mask), torch.tensor(input_ids)
    if convention == "padding_idx":
        return RobertaEmbeddings.create_position_ids_from_input_ids(tokens, padding_idx)
    if convention != "opt":
        raise Unsupported(convention)
    learned = OPTLearnedPositionalEmbedding(64, 1)
    learned.weight.data = torch.arange(66.0)[:, None]  # So a row's content is its number.
    return learned(mask)[..., 0].to(torch.int64)


def swin(resource, window_size, pretrained_window_size=(0, 0)):
    config = transformers.Swinv2Config()
    attention = Swinv2SelfAttention(config, 8, 1, window_size, pretrained_window_size)
    coordinates, indices = attention.create_coords_table_and_index()
    return indices if resource == "/relative/swin" else coordinates


def answer(case):
    if case["kind"] == "positions":
        known = ("convention", "attention_mask", "input_ids", "padding_idx")
        return {"dtype": "int64", "arrays": {"array": ids(**parameters_of(case, *known))}}
    given = parameters_of(case, "window_size", "pretrained_window_size")
    array = swin(case["resource"], **given)
    return {"dtype": "float32", "arrays": {"array": array}}


paths = ["/positions", "/relative/swin", "/relative/swin-v2"]
kinds = ["positions", "array"]
serve("transformers", transformers.__version__, answer, kinds=kinds, resources=paths)
