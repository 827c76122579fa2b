"""transformers: sinusoids of M2M100, XGLM, FSMT and DETR, of positions, tokens and grids."""

from loop import Unsupported, called, parameters_of, serve

import torch
import transformers
from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding
from transformers.models.fsmt.modeling_fsmt import SinusoidalPositionalEmbedding as Fsmt
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding as M2m
from transformers.models.xglm.modeling_xglm import XGLMSinusoidalPositionalEmbedding as Xglm


def tokens(convention, d_model, part, *, past=0, padding_idx=1, input_ids=(), position_ids=()):
    ids, places = torch.tensor(input_ids), torch.tensor(position_ids)
    if part == "position_ids":
        return M2m.create_position_ids_from_input_ids(ids, padding_idx, past)
    if convention == "xglm":
        return Xglm(16, d_model, padding_idx)(places)
    table = Fsmt(16, d_model, padding_idx)
    table.make_weight(16, d_model, padding_idx)
    return table(ids, past_key_values_length=past)


def rows(positions, convention, d_model, padding_idx=1):
    if convention not in {"fairseq", "m2m100", "tensor2tensor"}:
        raise Unsupported(convention)
    seq_len = max(positions) + 1
    if convention == "m2m100":
        table = M2m(seq_len, d_model, padding_idx)
        return table(inputs_embeds=torch.zeros(1, seq_len, d_model))[0, positions]
    padding = padding_idx if convention == "fairseq" else None
    return Fsmt.get_embedding(seq_len, d_model, padding)[positions]


def answer(case):
    if case["resource"] == "/encoding/tokens":
        return {"dtype": "float32", "arrays": {"array": called(tokens, **case["parameters"])}}
    if case["resource"] == "/encoding":
        given = parameters_of(case, "convention", "d_model", "padding_idx")
        return {"dtype": "float32", "arrays": {"array": rows(case["positions"], **given)}}
    given = parameters_of(case, "convention", "d_model", "height", "width", "normalize")
    if given["convention"] != "detr":
        raise Unsupported(given["convention"])
    grid = DetrSinePositionEmbedding(given["d_model"] // 2, normalize=given["normalize"])
    shape = torch.Size([1, 3, given["height"], given["width"]])
    return {"dtype": "float32", "arrays": {"array": grid(shape, "cpu", torch.float32)}}


paths = ["/encoding", "/encoding/tokens", "/encoding/grid"]
serve("transformers", transformers.__version__, answer, kinds=["array"], resources=paths)
