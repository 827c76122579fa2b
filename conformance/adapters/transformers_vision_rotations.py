"""transformers: rotations of pictures, of Qwen-VL and SAM 2."""

from loop import Unsupported, parameters_of, serve

import torch
import transformers as of
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.sam2_video import modeling_sam2_video as sam2


def qwen2_vl(x, height, width):
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width)).T[None]
    config = type(of.Qwen2VLConfig().vision_config)(embed_dim=x.shape[-1], num_heads=1)
    cos, sin = qwen2.Qwen2VLVisionRotaryEmbedding(config)(x, places)
    return qwen2.apply_rotary_pos_emb_vision(x[None, :, None], x[None, :, None], cos, sin)


def of_sam2(x, height, width):
    sizes = {"hidden_size": x.shape[-1], "rope_feat_sizes": [width, height]}
    sizes |= {"downsample_rate": 1, "num_attention_heads": 1}
    config = of.Sam2VideoConfig(**{f"memory_attention_{name}": it for name, it in sizes.items()})
    places = sam2.Sam2VideoMemoryAttention.precompute_positions(config)
    cos, sin = sam2.Sam2VideoVisionRotaryEmbedding(config)(x, places)
    return sam2.apply_rotary_pos_emb_2d(x[None, None], x[None, None], cos, sin)


MADE = {"qwen2_vl": qwen2_vl, "sam2": of_sam2}


def answer(case):
    given = parameters_of(case, "convention", "grid", "layout")
    if given.get("convention") not in MADE:
        raise Unsupported(given.get("convention", case["resource"]))
    rotated, _ = MADE[given["convention"]](torch.tensor(case["x"]), *given["grid"])
    return {"dtype": "float32", "arrays": {"rotated": rotated.reshape(case["shape"])}}


offers = {"kinds": ["rotate"], "rope_types": [], "resources": ["/rope/axial/apply"]}
serve("transformers", of.__version__, answer, **offers)
