"""transformers: rotary tables of pictures, of Qwen-VL, Pixtral, Llama 4 and EfficientLoFTR."""

from loop import Unsupported, parameters_of, serve

import torch
import transformers as of
from transformers.models.efficientloftr import modeling_efficientloftr as loftr
from transformers.models.llama4.modeling_llama4 import Llama4VisionRotaryEmbedding
from transformers.models.pixtral.modeling_pixtral import PixtralVisionRotaryEmbedding
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2

ANY = torch.zeros(1)
PACKS = {"llama4": "compact", "efficientloftr": "interleaved"}


def table(convention, width, height, columns):
    places = torch.cartesian_prod(torch.arange(height), torch.arange(columns)).T[None]
    if convention == "qwen2_vl":
        config = type(of.Qwen2_5_VLConfig().vision_config)(hidden_size=width, num_heads=1)
        return qwen2.Qwen2_5_VLVisionRotaryEmbedding(config)(ANY, places)
    if convention == "pixtral":
        return PixtralVisionRotaryEmbedding(of.PixtralVisionConfig(head_dim=width))(ANY, places)
    if convention == "llama4":  # Its picture is a square, whose first rows these are.
        sizes = {"image_size": columns, "patch_size": 1, "num_attention_heads": 1}
        rope = Llama4VisionRotaryEmbedding(of.Llama4VisionConfig(hidden_size=width, **sizes))
        turns = rope(ANY)[None, : height * columns, 0]
        return turns.real, turns.imag
    config = of.EfficientLoFTRConfig()
    config.hidden_size, stride = width, config.q_aggregation_stride
    picture = torch.zeros(stride * height, stride * columns)
    return [each.flatten(1, 2) for each in loftr.EfficientLoFTRRotaryEmbedding(config)(picture)]


def answer(case):
    given = parameters_of(case, "convention", "head_dim", "grid")
    if given.get("convention") not in {"qwen2_vl", "pixtral", *PACKS}:
        raise Unsupported(given.get("convention", case["resource"]))
    cos, sin = table(given["convention"], given["head_dim"], *given["grid"])
    pack = PACKS.get(given["convention"], "half")
    return {"dtype": "float32", "pack": pack, "arrays": {"cos": cos[0], "sin": sin[0]}}


offers = {"kinds": ["table"], "rope_types": [], "resources": ["/rope/axial"]}
serve("transformers", of.__version__, answer, **offers)
