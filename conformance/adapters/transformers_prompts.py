"""transformers: position ids of prompts with pictures and videos, of Qwen2-VL and Qwen2.5-VL."""

from loop import Unsupported, parameters_of, serve

import math

import torch
import transformers as of

MODELS = {"qwen2_vl": of.Qwen2VLModel, "qwen2_5_vl": of.Qwen2_5_VLModel}
TYPES = ("text", "image", "video")


def model_of(convention):
    if convention not in MODELS:
        raise Unsupported(convention)
    config = MODELS[convention].config_class()
    config.vision_config.tokens_per_second = 2  # As in the published configs.
    with torch.device("meta"):  # It needs no weights.
        return MODELS[convention](config)


def answer(case):
    model = model_of(case["parameters"]["convention"])
    merged, types, given = model.config.vision_config.spatial_merge_size**2, [], {}
    for row in parameters_of(case, "convention", "rows")["rows"]:
        types.append([])
        for segment in row:
            kind = next(name for name in TYPES if name in segment)
            size = segment[kind]
            if kind != "text":
                given.setdefault(f"{kind}_grid_thw", []).append(size)
                size = math.prod(size) // merged
            if "seconds_per_grid" in segment:
                given.setdefault("second_per_grid_ts", []).append(segment["seconds_per_grid"])
            types[-1] += [TYPES.index(kind)] * size
    types = torch.tensor(types)
    grids = {name: torch.tensor(each) for name, each in given.items()}
    ids, _ = model.get_rope_index(torch.zeros_like(types), types, **grids)
    return {"dtype": "int64", "arrays": {"array": ids}}


paths = ["/positions"]
serve("transformers", of.__version__, answer, kinds=["positions"], resources=paths)
