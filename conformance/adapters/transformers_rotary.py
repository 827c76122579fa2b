"""transformers: the rotary class of Llama, and of a model's config that of its own type."""

from loop import Unsupported, config_of, serve

import importlib

import torch
import transformers
from transformers.models.llama import modeling_llama as llama

OWN = ("head_dim", "layout", "context_length", "max_position_embeddings")
RULES = ["default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"]


def llama_of(given):
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    rope |= {name: each for name, each in given.items() if name not in OWN}
    sizes = {"head_dim": given["head_dim"], "num_attention_heads": 1}
    sizes["max_position_embeddings"] = given.get("max_position_embeddings", 131072)
    return llama.LlamaRotaryEmbedding(transformers.LlamaConfig(rope_parameters=rope, **sizes))


def of_model(config):
    config = transformers.AutoConfig.for_model(**config).get_text_config()
    kind = config.model_type.removesuffix("_text")
    module = importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")
    names = [each for each in dir(module) if each.endswith("RotaryEmbedding")]
    return getattr(module, next(each for each in names if "Vision" not in each))(config)


def answer(case):
    given = config_of(case)
    if case["resource"] not in {"/rope", "/rope/apply", "/rope/config"} or "positions" not in case:
        raise Unsupported(case["resource"])
    positions = torch.tensor([case["positions"]])
    if given.get("rope_type") == "yarn" and "factor" not in given:
        raise Unsupported("yarn without a factor")
    layer = [given["layer_type"]] if "layer_type" in given else []
    rope = of_model(given["config"]) if case["kind"] == "model" else llama_of(given)
    cos, sin = rope(torch.zeros(1, dtype=torch.float32), positions, *layer)
    if case["kind"] != "rotate":
        pack = "compact" if given.get("config", {}).get("model_type") == "gpt_oss" else "half"
        return {"dtype": "float32", "pack": pack, "arrays": {"cos": cos[0], "sin": sin[0]}}
    if given["layout"] != "half":
        raise Unsupported("the halves of a head alone")
    x = torch.tensor(case["x"])
    heads = x.reshape(1, -1, *x.shape[-2:])
    rotated, _ = llama.apply_rotary_pos_emb(heads, heads, cos, sin)
    return {"dtype": "float32", "arrays": {"rotated": rotated.reshape(x.shape)}}


serve("transformers", transformers.__version__, answer, rope_types=RULES, resources=[])
