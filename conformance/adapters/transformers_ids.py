"""transformers: position ids of RoBERTa, of OPT, and of packed rows."""

from loop import Unsupported, serve

import torch
import transformers
from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings


def roberta(input_ids, padding_idx):
    return RobertaEmbeddings.create_position_ids_from_input_ids(
        torch.tensor(input_ids), padding_idx
    )


def opt(attention_mask):
    learned = OPTLearnedPositionalEmbedding(64, 1)
    learned.weight.data = torch.arange(66.0)[:, None]  # So a row's content is its number.
    return learned(torch.tensor(attention_mask))[..., 0].to(torch.int64)


def packed(lengths):
    rows = [{"input_ids": [0] * length} for length in lengths]
    return transformers.DataCollatorWithFlattening()(rows, return_tensors="pt")["position_ids"]


MADE = {"padding_idx": roberta, "opt": opt, "packed": packed}


def answer(case):
    given = dict(case["parameters"])
    convention = given.pop("convention")
    if convention not in MADE:
        raise Unsupported(convention)
    return {"dtype": "int64", "arrays": {"array": MADE[convention](**given)}}


paths = ["/positions"]
serve("transformers", transformers.__version__, answer, kinds=["positions"], resources=paths)
