"""transformers: tables and rotations of several axes, of the text of Qwen2.5-VL and Qwen3-VL."""

from loop import Unsupported, parameters_of, serve

import torch
import transformers as of
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

IDS = ("positions_t", "positions_h", "positions_w")
RULE = ("rope_theta", "rope_type", "factor", "mrope_section", "mrope_interleaved")


def text(given):
    keys = {"rope_type": "default"} | {name: given[name] for name in RULE if name in given}
    sizes = {"head_dim": given["head_dim"], "rope_parameters": keys}
    if given.get("mrope_interleaved"):
        return Qwen3VLTextRotaryEmbedding(of.Qwen3VLTextConfig(**sizes))
    sizes |= {"hidden_size": given["head_dim"], "num_attention_heads": 1}
    return qwen2.Qwen2_5_VLRotaryEmbedding(of.Qwen2_5_VLTextConfig(**sizes))


def answer(case):
    given = parameters_of(case, "head_dim", "layout", *RULE, *IDS)
    if "mrope_section" not in given:
        raise Unsupported("several axes alone")
    rope, places = text(given), torch.tensor([[given[name]] for name in IDS])
    cos, sin = rope(torch.zeros(1), places)
    if case["kind"] == "table":
        return {"dtype": "float32", "pack": "half", "arrays": {"cos": cos[0], "sin": sin[0]}}
    x = torch.tensor(case["x"])
    rotated, _ = qwen2.apply_rotary_pos_emb(x[None, None], x[None, None], cos, sin)
    return {"dtype": "float32", "arrays": {"rotated": rotated[0, 0]}}


offers = {"kinds": ["table", "rotate"], "rope_types": ["default", "linear"]}
serve("transformers", of.__version__, answer, resources=[], **offers)
