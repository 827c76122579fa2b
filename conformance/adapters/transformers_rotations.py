"""transformers: rotations of GPT-NeoX, whose heads turn in part, and of DeepSeek-V3."""

from loop import Unsupported, parameters_of, serve, width_of

import torch
import transformers as of
from transformers.models.deepseek_v3.modeling_deepseek_v3 import apply_rotary_pos_emb_interleave
from transformers.models.gpt_neox import modeling_gpt_neox as neox

OWN = ("head_dim", "rotary_dim", "layout", "output_layout", "start", "seqlen_offsets", "axes")
RULE = ("rope_theta", "rope_type", "factor", "original_max_position_embeddings")
TURNS = {
    ("half", "half"): neox.apply_rotary_pos_emb,
    ("interleaved", "half"): apply_rotary_pos_emb_interleave,
}


def rope_of(given):
    width, rule = given["head_dim"], {name: given[name] for name in RULE if name in given}
    rule = {"rope_type": "default", "partial_rotary_factor": width_of(given) / width} | rule
    sizes = {"hidden_size": width, "num_attention_heads": 1, "max_position_embeddings": 131072}
    return neox.GPTNeoXRotaryEmbedding(of.GPTNeoXConfig(rope_parameters=rule, **sizes))


def answer(case):
    given = parameters_of(case, *OWN, *RULE)
    layouts = (given["layout"], given.get("output_layout", given["layout"]))
    if layouts not in TURNS:
        raise Unsupported("pairs that stay interleaved")
    x = torch.tensor(case["x"])
    x = x.reshape(-1, *x.shape[-2:])
    starts = given.get("seqlen_offsets", [given.get("start", 0)])
    rows = case.get("positions", range(x.shape[1]))
    positions = torch.tensor([[start + row for row in rows] for start in starts])
    cos, sin = rope_of(given)(x, positions)
    rotated, _ = TURNS[layouts](x[:, None], x[:, None], cos, sin)
    return {"dtype": "float32", "arrays": {"rotated": rotated.reshape(case["shape"])}}


offers = {"kinds": ["rotate"], "rope_types": ["default", "yarn"], "resources": []}
serve("transformers", of.__version__, answer, **offers)
