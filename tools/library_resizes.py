# ruff: noqa: D103, INP001
"""Random cases of resizes and of rotations.

Imported by library_positions.py.
"""

import importlib
import inspect
import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from library_ids import collated, grids, numbers, sizes
from library_positions import Called, Random, Values, chosen, family, model_class, named, stub
from torch.nn import functional
from transformers import vision_utils

for _name in ("timm", "timm.layers"):  # Their own modules import torchvision.
    sys.modules[_name] = ModuleType(_name)
    sys.modules[_name].__path__ = [f"{folder}/{_name.replace('.', '/')}" for folder in sys.path]
timm = importlib.import_module("timm.layers.pos_embed")
timm_rel = importlib.import_module("timm.layers.pos_embed_rel")


def table(random: Random, *shape: int) -> torch.Tensor:
    return torch.tensor(random.standard_normal(shape, np.float32))


def bound(given: torch.Tensor, *lengths: int) -> Values:
    """Return the tolerance of float32 weights and sums, which grows with the old length."""
    atol = (max(lengths) + 8) * float(given.abs().max()) * 2.0**-23 + 2.0**-22
    note = "float32 arithmetic of the library against exact rational weights."
    return {"note": note, "suggested_atol_against_exact": atol}


def resized(given: torch.Tensor, size: Any, scale: Any = None, **options: Any) -> torch.Tensor:
    picture = given.permute(2, 0, 1)[None]
    return functional.interpolate(picture, size, scale, **options)[0].permute(1, 2, 0)


@family("resize.torch_interpolate", "F.interpolate")
def torch_interpolate(random: Random) -> Called:
    given = table(random, *numbers(random, 2, 20, 2), 3)
    size, factor, offset = numbers(random, 2, 40, 2), None, None
    corners, smooth = chosen(random, None, False, True), bool(random.integers(2))
    if random.random() < 0.2:
        size, corners, smooth, offset = None, None, False, chosen(random, 0.1, 0.1, None)
        given = table(random, len(given), len(given), 3)
        factor = [(int(random.integers(2, 40)) + (offset or 0)) / len(given)] * 2
    mode = chosen(random, "bilinear", "bicubic")
    options = {"mode": mode, "align_corners": corners, "antialias": smooth}
    out = resized(given, size, factor and tuple(factor), **options)
    params = {"size": size, "scale_factor": factor, "offset": offset, **options}
    return Called(params, {"table": given}, {"out": out}, bound(given, *given.shape[:2]))


@family("resize.torch_interpolate_width_one", "F.interpolate; exact: row by row in float64")
def width_one(random: Random) -> Called:
    given = table(random, *numbers(random, 2, 12, 2), 2)
    height, mode = int(random.integers(2, 12)), chosen(random, "bilinear", "bicubic")
    options = {"mode": mode, "align_corners": None, "antialias": True}
    rows = resized(given.double(), (height, given.shape[1]), **options)
    exact = torch.cat([resized(row[None], (1, 1), **options) for row in rows])
    return Called(
        {"size": [height, 1], "scale_factor": None, "offset": None, **options},
        {"table": given},
        {"out": resized(given, (height, 1), **options), "exact": exact},
        {"note": "exact is the weights applied in float64: an answer must be within 1e-12 of it."},
        "torch 2.13.0: antialias, width 1 and height above 1 repeat the first row.",
    )


@family("resize.timm_abs_pos_embed", "resample_abs_pos_embed")
def timm_abs(random: Random) -> Called:
    params = {
        "old_size": numbers(random, 2, 15, 2),
        "new_size": numbers(random, 2, 15, 2),
        "num_prefix_tokens": int(random.integers(0, 3)),
        "interpolation": chosen(random, "bicubic", "bilinear"),
        "antialias": bool(random.integers(2)),
        "align_corners": chosen(random, None, True, False),
    }
    old = params["old_size"]
    given = table(random, 1, params["num_prefix_tokens"] + math.prod(old), 3)
    out = timm.resample_abs_pos_embed(given, **params)
    return Called(params, {"posemb": given}, {"out": out}, bound(given, *old))


@family("resize.timm_rel_pos_bias", "resize_rel_pos_bias_table, _simple, _levit")
def timm_bias(random: Random) -> Called:
    kind = chosen(random, "simple", "levit", "beit")
    old, new = numbers(random, 2, 8, 2), numbers(random, 2, 8, 2)
    old[1] = old[1] if kind == "beit" else old[0]
    new[1] = new[0] if kind == "levit" else new[1]
    extra = 0 if kind == "levit" else chosen(random, 0, 3)
    count, target = (math.prod(2 * each - 1 for each in window) + extra for window in (old, new))
    given = table(random, count, 2)
    tolerance = bound(given, *(2 * each - 1 for each in old))
    if kind == "levit":
        out = timm_rel.resize_rel_pos_bias_table_levit(given, (target, 2))
    elif kind == "simple":
        out = timm_rel.resize_rel_pos_bias_table_simple(given, new, [target, 2])
    else:
        out = timm_rel.resize_rel_pos_bias_table(given, new, [target, 2], old)
        tolerance = {"note": "knots from a bisection to 1e-6: 1e-4 relative to the largest value."}
    params = {"old_window": old, "new_window": new, "extra_tokens": extra, "kind": kind}
    return Called(params, {"table": given}, {"out": out}, tolerance)


@family("resize.sam_rel_pos", "SamVisionAttention.get_rel_pos")
def sam(random: Random) -> Called:
    (q, k), rows = numbers(random, 1, 15, 2), int(random.integers(2, 40))
    given = table(random, rows, 3)
    out = model_class("sam", "SamVisionAttention").get_rel_pos(None, q, k, given)
    return Called({"q_size": q, "k_size": k}, {"rel_pos": given}, {"out": out}, bound(given, rows))


@family("resize.siglip2", "Siglip2VisionEmbeddings.resize_positional_embeddings")
def siglip2(random: Random) -> Called:
    given = table(random, *numbers(random, 2, 12, 2), 3)
    # Of width 1 and height above 1, torch is wrong: see width_one.
    shapes = [[h, w + (w == 1 < h)] for h, w in sizes(random)]
    length = max(map(math.prod, shapes)) + int(random.integers(0, 9))
    kind = model_class("siglip2", "Siglip2VisionEmbeddings")
    out = kind.resize_positional_embeddings(given, torch.tensor(shapes), length)
    params = {"spatial_shapes": shapes, "max_length": length}
    return Called(params, {"table": given}, {"out": out}, bound(given, *given.shape[:2]))


@family("resize.gather_operator", "vision_utils.get_vision_interpolation_indices_and_weights")
def gather(random: Random) -> Called:
    side, merge = int(random.integers(2, 20)), int(random.integers(1, 4))
    options = {
        "mode": chosen(random, "bilinear", "bicubic"),
        "align_corners": bool(random.integers(2)),
        "spatial_merge_size": merge,
        "padding": chosen(random, "border", "border", "zeros"),
    }
    given = grids(random, merge)
    function = vision_utils.get_vision_interpolation_indices_and_weights
    outputs = named("indices weights", function(torch.tensor(given), side, **options))
    # Positions are float32 numbers up to side; the slope of the cubic kernel is below 2.
    tolerance = {"note": "", "error_vs_exact_of_dense_operator": (side + 4) * 2.0**-22}
    params = {"grids": given, "num_grid_per_side": side, **options}
    return Called(params, {}, outputs, tolerance)


@family("resize.glm4v", "Glm4vVisionEmbeddings.forward")
def glm4v(random: Random) -> Called:
    side, grid = int(random.integers(2, 15)), [1, *sizes(random, 9)[0]]
    given = table(random, side * side, 3)
    own = stub(
        model_class("glm4v", "Glm4vVisionEmbeddings"),
        position_embedding=SimpleNamespace(weight=given),
        interpolated_method="bicubic",
    )
    coords = [torch.tensor(each).float() for each in np.divmod(np.arange(math.prod(grid)), grid[2])]
    count = len(coords[0])
    out = own(torch.zeros(count, 3), [count], torch.tensor([grid]), *coords)
    # grid_sample takes coordinates from −1 to 1, and so rounds positions more often.
    tolerance = bound(given, side + 4)
    return Called({"side": side, "grid": grid}, {"table": given}, {"out": out}, tolerance)


@family("resize.beit_bias", "BeitRelativePositionBias.forward")
def beit(random: Random) -> Called:
    # A window that is not square is read as width by height, though its table is height by width.
    old, new = [int(random.integers(2, 7))] * 2, numbers(random, 2, 9, 2)
    config = SimpleNamespace(image_size=old, patch_size=1, num_attention_heads=2)
    own = model_class("beit", "BeitRelativePositionBias")(config)
    given = table(random, *own.relative_position_bias_table.shape)
    own.relative_position_bias_table.data = given
    params = {"old_window": old, "new_window": new}
    out = own(tuple(new)).detach()
    return Called(params, {"table": given}, {"out": out}, bound(given, 2 * old[0] - 1))


def _rotated(
    random: Random, rope: Any, params: Values, shape: tuple[int, ...], positions: torch.Tensor
) -> Called:
    x, at, axes = table(random, *shape, params["head_dim"]), 2, "batch,seq,head,channel"
    if random.integers(2):
        x, at, axes = x.transpose(1, 2).contiguous(), 1, "batch,head,seq,channel"
    cos, sin = rope(x, positions)
    own = sys.modules[type(rope).__module__]
    out = own.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=at)[0]
    # float32 angles, and what is left of the rotation's own arithmetic.
    atol = max(1.0, float(x.abs().max())) * (1e-6 + float(positions.max()) * 2.0**-22)
    params |= {"axes": axes, "layout": params.get("layout", "half")}
    tolerance = {"note": "", "suggested_atol_against_exact": atol}
    return Called(params, {"x": x, "positions": positions}, {"out": out, "cos": cos}, tolerance)


def _llama(params: Values) -> Any:
    parameters = {"rope_type": "default", "rope_theta": params["rope_theta"]}
    width = params["head_dim"]
    config = transformers.LlamaConfig(hidden_size=width, head_dim=width, num_attention_heads=1)
    config.rope_parameters = parameters
    return model_class("llama", "LlamaRotaryEmbedding")(config)


@family("rotation.rope_batch", "LlamaRotaryEmbedding, apply_rotary_pos_emb")
def rope_batch(random: Random) -> Called:
    theta = chosen(random, 10000.0, 500000.0, 1000000.0)
    params = {"head_dim": 2 * int(random.integers(2, 17)), "rope_theta": theta}
    shape = tuple(numbers(random, 1, 7, 3))
    positions = torch.tensor(random.integers(0, chosen(random, 9, 300), shape[:2]))
    return _rotated(random, _llama(params), params, shape, positions)


@family("rotation.mrope_batch", "Qwen2VLRotaryEmbedding or Qwen3VLTextRotaryEmbedding")
def mrope_batch(random: Random) -> Called:
    sections, is_interleaved = numbers(random, 1, 5, 3), bool(random.integers(2))
    width, theta = 2 * sum(sections), chosen(random, 10000.0, 1000000.0)
    model, kind, text = (
        ("qwen3_vl", "Qwen3VLTextRotaryEmbedding", transformers.Qwen3VLTextConfig)
        if is_interleaved
        else ("qwen2_vl", "Qwen2VLRotaryEmbedding", type(transformers.Qwen2VLConfig().text_config))
    )
    parameters = {"rope_type": "default", "rope_theta": theta, "mrope_section": sections}
    options = {"head_dim": width, "hidden_size": width, "num_attention_heads": 1}
    rope = model_class(model, kind)(text(rope_parameters=parameters, **options))
    params = {"head_dim": width, "rope_theta": theta, "mrope_section": sections}
    params["mrope_interleaved"] = is_interleaved
    shape = tuple(numbers(random, 1, 7, 3))
    positions = torch.tensor(random.integers(0, 60, (3, *shape[:2])))
    made = _rotated(random, rope, params, shape, positions)
    del made.outputs["cos"]
    return made


@family("rotation.mrope_layouts", "apply_rotary_pos_emb of HunYuan-VL and ERNIE 4.5 VL")
def mrope_layouts(random: Random) -> Called:
    sections, layout = numbers(random, 1, 5, chosen(random, 3, 4)), "hunyuan_vl"
    model, prefix, axes = "hunyuan_vl", "HunYuanVL", len(sections)
    if random.integers(2):
        # h and w alternate, so they have as many frequencies.
        sections, layout, axes = [sections[0], *sections[:2]], "ernie4_5_vl", 3
        model, prefix = "ernie4_5_vl_moe", "Ernie4_5_VLMoeText"
    width, theta = 2 * sum(sections), chosen(random, 10000.0, 500000.0)
    text = prefix.removesuffix("Text") + "TextConfig"
    parameters = {"rope_type": "default", "rope_theta": theta, "mrope_section": sections}
    options = {"head_dim": width, "hidden_size": width, "num_attention_heads": 1}
    config = getattr(transformers, text)(rope_parameters=parameters, **options)
    rope = model_class(model, f"{prefix}RotaryEmbedding")(config)
    params = {"head_dim": width, "rope_theta": theta, "mrope_section": sections}
    params |= {"mrope_layout": layout, "layout": "half" if model == layout else "interleaved"}
    shape = tuple(numbers(random, 1, 7, 3))
    positions = torch.tensor(random.integers(0, 60, (axes, *shape[:2])))
    made = _rotated(random, rope, params, shape, positions)
    del made.outputs["cos"]
    return made


@family("rotation.rope_partial", "GPTNeoXRotaryEmbedding, its apply_rotary_pos_emb")
def rope_partial(random: Random) -> Called:
    rotary, rest = 2 * int(random.integers(2, 9)), 2 * int(random.integers(0, 9))
    width = rotary + rest
    parameters = {"rope_theta": 10000.0, "partial_rotary_factor": rotary / width}
    config = transformers.GPTNeoXConfig(hidden_size=width, num_attention_heads=1)
    config.rope_parameters = {"rope_type": "default", **parameters}
    rope = model_class("gpt_neox", "GPTNeoXRotaryEmbedding")(config)
    params = {"head_dim": width, "rotary_dim": rotary, "rope_theta": 10000.0}
    shape = tuple(numbers(random, 1, 7, 3))
    positions = torch.tensor(random.integers(0, chosen(random, 9, 300), shape[:2]))
    return _rotated(random, rope, params, shape, positions)


@family("rotation.rope_packed", "apply_rotary_pos_emb, with ids of DataCollatorWithFlattening")
def rope_packed(random: Random) -> Called:
    ids, ends, _ = collated(numbers(random, 1, 9, random.integers(1, 5)))
    params = {"head_dim": 2 * int(random.integers(2, 17)), "rope_theta": 10000.0}
    made = _rotated(random, _llama(params), params, (1, ids.shape[1], 2), ids)
    x, out = (each[0] for each in (made.inputs["x"], made.outputs["out"]))
    if params["axes"] == "batch,head,seq,channel":
        x, out = x.transpose(0, 1), out.transpose(0, 1)
    params["axes"] = "token,head,channel"
    return Called(params, {"x": x, "cu_seqlens": ends}, {"out": out}, made.tolerance)


@family("resize.vit", "interpolate_pos_encoding of ViT, DeiT or DINOv2")
def vit(random: Random) -> Called:
    prefix, model, name = chosen(
        random, (1, "vit", "ViT"), (2, "deit", "DeiT"), (1, "dinov2", "Dinov2")
    )
    side, (h, w) = int(random.integers(2, 15)), numbers(random, 1, 20, 2)
    given = table(random, 1, prefix + side**2, 3)
    own = stub(
        model_class(model, f"{name}Embeddings"),
        position_embeddings=given,
        patch_size=1,
        patch_embeddings=SimpleNamespace(patch_size=(1, 1)),
    )
    out = own.interpolate_pos_encoding(torch.zeros(1, prefix + h * w, 3), h, w)
    params = {"size": [h, w], "num_prefix_tokens": prefix}
    return Called(params, {"posemb": given}, {"out": out}, bound(given, side))


@family("resize.dino", "F.interpolate with the factor of DINO, whose code is in no package")
def dino(random: Random) -> Called:
    side, (h, w) = int(random.integers(2, 15)), numbers(random, 1, 20, 2)
    given = table(random, 1, 1 + side**2, 3)
    grid, factor = given[0, 1:].reshape(side, side, 3), ((h + 0.1) / side, (w + 0.1) / side)
    new = grid if h == w == side else resized(grid, None, factor, mode="bicubic")
    out = torch.cat([given[:, :1], new.reshape(1, -1, 3)], 1)
    params = {"size": [h, w], "num_prefix_tokens": 1}
    return Called(params, {"posemb": given}, {"out": out}, bound(given, side))


@family("resize.muse", "MuseGlimmerVisionPatchEmbedder.forward, without its patches")
def muse(random: Random) -> Called:
    side, grid = int(random.integers(2, 15)), [1, *sizes(random, 20)[0]]
    given, patches = table(random, side * side, 3), torch.nn.Linear(1, 3, bias=False)
    patches.weight.data.zero_()
    own = stub(
        model_class("muse_glimmer", "MuseGlimmerVisionPatchEmbedder"),
        patch_embedding=patches,
        position_embedding_table=torch.nn.Embedding.from_pretrained(given),
        num_grid_per_side=side,
        interpolation_mode="bilinear",
        interpolation_align_corners=False,
        interpolation_padding="zeros",
    )
    out = own(torch.zeros(math.prod(grid), 1), torch.tensor([grid])).detach()
    return Called({"side": side, "grid": grid}, {"table": given}, {"out": out}, bound(given, side))


@family("resize.qwen3_vl", "Qwen3VLVisionModel.forward: what its rotation gets, without patches")
def qwen3_vl(random: Random) -> Called:
    side, merge = int(random.integers(2, 15)), chosen(random, 1, 2, 2, 3)
    grid, found = [1, *sizes(random, 8, merge)[0]], []
    given = table(random, side * side, 3)
    kind = model_class("qwen3_vl", "Qwen3VLVisionModel")
    own = stub(
        kind,
        pos_embed=torch.nn.Embedding.from_pretrained(given),
        patch_embed=torch.zeros_like,
        num_grid_per_side=side,
        spatial_merge_size=merge,
        interpolation_mode="bilinear",
        interpolation_align_corners=True,
        config=SimpleNamespace(spatial_merge_size=merge, _attn_implementation="eager"),
        rotary_pos_emb=lambda hidden, _: found.append(hidden),
        blocks=(),
        merger=lambda hidden: hidden,
        deepstack_visual_indexes=(),
    )
    inspect.unwrap(kind.forward)(own, torch.zeros(math.prod(grid), 3), torch.tensor([grid]))
    params = {"side": side, "grid": grid, "spatial_merge_size": merge}
    return Called(params, {"table": given}, {"out": found[0]}, bound(given, side))
