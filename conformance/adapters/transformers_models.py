"""transformers: tables and rotations of GPT-J, and tables of HunYuan."""

from loop import Unsupported, parameters_of, serve

import torch
import transformers as of
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.hunyuan_v1_dense import modeling_hunyuan_v1_dense as hunyuan

KEYS = ("head_dim", "rope_theta", "rope_type", "alpha", "rotary_dim", "layout")


def of_hunyuan(positions, head_dim, **rope):
    rope |= {"factor": 1.0}  # As in its published configs, which it is checked for.
    config = of.HunYuanDenseV1Config(head_dim=head_dim, rope_parameters=rope)
    cos, sin = hunyuan.HunYuanDenseV1RotaryEmbedding(config)(torch.zeros(1), positions)
    arrays = {"cos": cos[0], "sin": sin[0]}
    return {"dtype": "float32", "pack": "half", "arrays": arrays}


def answer(case):
    given = parameters_of(case, *KEYS)
    if "alpha" in given:
        return of_hunyuan(torch.tensor([case["positions"]]), **given)
    if "rotary_dim" not in given or given["rope_theta"] != 10000 or "rope_type" in given:
        raise Unsupported("a number of channels, and one base")
    positions, width = case["positions"], given["rotary_dim"]
    table = gptj.create_sinusoidal_positions(max(positions) + 1, width)[positions]
    sin, cos = table.split(width // 2, -1)
    if case["kind"] == "table":
        return {"dtype": "float32", "pack": "compact", "arrays": {"cos": cos, "sin": sin}}
    if given["layout"] != "interleaved":
        raise Unsupported("interleaved pairs alone")
    x = torch.tensor(case["x"])
    turned = gptj.apply_rotary_pos_emb(x[None, :, None, :width], sin[None], cos[None])[0, :, 0]
    rotated = torch.cat([turned, x[:, width:]], -1)
    return {"dtype": "float32", "arrays": {"rotated": rotated}}


offers = {"kinds": ["table", "rotate"], "rope_types": ["default", "dynamic"], "resources": []}
serve("transformers", of.__version__, answer, **offers)
