"""transformers: encodings and shifts of XLNet, Conformer and Parakeet, and query temperatures."""

from loop import Unsupported, called, serve

import torch
import transformers as of
from transformers.models.beam.modeling_beam import compute_attention_scaling
from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale
from transformers.models.parakeet.modeling_parakeet import ParakeetEncoderAttention
from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as conformer
from transformers.models.xlnet.modeling_xlnet import XLNetRelativeAttention

SMALL = {"vocab_size": 8, "n_layer": 1, "n_head": 1, "d_inner": 8}


def xlnet(d_model, key_len, query_len=1, **options):
    if "base" in options:
        raise Unsupported("another base")
    model = of.XLNetModel(of.XLNetConfig(d_model=d_model, **SMALL, **options))
    return model.relative_positional_encoding(query_len, key_len).squeeze(1)


def relative(d_model, seq_len):
    config = of.Wav2Vec2ConformerConfig(hidden_size=d_model, max_source_positions=64)
    embedding = conformer.Wav2Vec2ConformerRelPositionalEmbedding(config)
    return embedding(torch.zeros(1, seq_len, d_model))[0]


def shift(x, convention="transformer-xl", key_len=None):
    if convention == "xlnet":
        return XLNetRelativeAttention.rel_shift_bnij(torch.tensor([[x]]), key_len)[0, 0]
    return ParakeetEncoderAttention._rel_shift(None, torch.tensor([[x]]))[0, 0]


def temperature(positions, convention="llama4", llama_4_scaling_beta=0.1, **length):
    ids = torch.tensor([positions])
    if convention == "beam":
        return compute_attention_scaling(ids).flatten()
    if convention != "ministral3":
        raise Unsupported(convention)
    return get_llama_4_attn_scale(ids, llama_4_scaling_beta, *length.values()).flatten()


def answer(case):
    given, made = dict(case["parameters"]), PATHS[case["resource"]]
    array = called(made, case["x"], **given) if "x" in case else called(made, **given)
    return {"dtype": "float32", "arrays": {"array": array.detach()}}


PATHS = {"/relative/xlnet": xlnet, "/relative/conformer": relative}
PATHS |= {"/relative/transformer-xl/shift": shift, "/attention/temperature": temperature}
serve("transformers", of.__version__, answer, kinds=["array"], resources=[*PATHS])
