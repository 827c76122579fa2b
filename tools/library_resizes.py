# ruff: noqa: D103, INP001, SLF001
"""Random cases of ids of one axis and of pictures, of resizes and of rotations.

Imported by library_positions.py.
"""

import importlib
import math
import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from diffusers.models.transformers.transformer_cosmos import CosmosRotaryPosEmbed
from diffusers.models.transformers.transformer_ltx import LTXVideoRotaryPosEmbed
from diffusers.models.transformers.transformer_ltx2 import LTX2AudioVideoRotaryPosEmbed
from diffusers.models.transformers.transformer_qwenimage import QwenEmbedRope
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline
from diffusers.pipelines.flux2.pipeline_flux2 import Flux2Pipeline
from diffusers.pipelines.krea2.pipeline_krea2 import Krea2Pipeline
from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXConditionPipeline
from library_positions import Called, Random, Values, chosen, family, model_class, stub
from torch.nn import functional
from transformers import DataCollatorWithFlattening, LlamaConfig, Qwen2VLConfig, vision_utils
from transformers.generation.utils import GenerationMixin
from transformers.models.gemma4 import image_processing_pil_gemma4 as gemma4
from transformers.models.llama import modeling_llama as llama
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl

for _name in ("timm", "timm.layers"):  # Their own modules import torchvision.
    sys.modules[_name] = ModuleType(_name)
    sys.modules[_name].__path__ = [
        f"{folder}/{_name.replace('.', '/')}" for folder in sys.path if "site-packages" in folder
    ]
timm = importlib.import_module("timm.layers.pos_embed")
timm_rel = importlib.import_module("timm.layers.pos_embed_rel")

Sizes = list[list[int]]


def sizes(random: Random, most: int = 12, axes: int = 2, merge: int = 1) -> Sizes:
    found = merge * random.integers(1, most + 1, (random.integers(1, 4), axes))
    return found.tolist()


def grids(random: Random, merge: int) -> Sizes:
    return [[int(random.integers(1, 4)), *size] for size in sizes(random, 9, merge=merge)]


def masks(random: Random) -> torch.Tensor:
    """Return random masks: padded left or right, or with holes."""
    batch, length = random.integers(1, 5), random.integers(1, 12)
    ends = np.sort(random.integers(0, length + 1, (batch, 2)), 1)
    at = np.arange(length)
    mask = (at >= ends[:, :1]) & (at < ends[:, 1:]) | (random.random((batch, length)) < 0.2)
    return torch.tensor(mask.astype(np.int64))


@family("sequence.attention_mask")
def attention_mask(random: Random) -> Called:
    mask = masks(random)
    ids = GenerationMixin._prepare_position_ids_for_generation(
        None, torch.zeros_like(mask), {"attention_mask": mask}
    )
    return Called(
        "GenerationMixin._prepare_position_ids_for_generation",
        {"masked": 0},
        {"attention_mask": mask},
        {"position_ids": ids},
    )


_PADDED = {
    "roberta": "RobertaEmbeddings",
    "xlm_roberta": "XLMRobertaEmbeddings",
    "camembert": "CamembertEmbeddings",
    "layoutlmv3": "LayoutLMv3TextEmbeddings",
    "xmod": "XmodEmbeddings",
    "lilt": "",
    "longformer": "",
    "luke": "",
    "mpnet": "",
    "ibert": "",
    "m2m_100": "M2M100SinusoidalPositionalEmbedding",
    "kosmos2": "Kosmos2TextSinusoidalPositionalEmbedding",
    "nllb_moe": "NllbMoeSinusoidalPositionalEmbedding",
    "speech_to_text": "Speech2TextSinusoidalPositionalEmbedding",
    "trocr": "TrOCRSinusoidalPositionalEmbedding",
    "esm": "",
}


@family("sequence.padding_idx")
def padding_idx(random: Random) -> Called:
    model, name = chosen(random, *_PADDED.items())
    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    made = getattr(module, name) if name else module
    function = getattr(made, "create_position_ids_from_input_ids", None)
    pad, past = int(random.integers(0, 5)), chosen(random, 0, 0, 1, 7)
    mask = masks(random).numpy()
    ids = torch.tensor(np.where(mask, pad + 1 + random.integers(0, 9, mask.shape), pad))
    if function is None:
        return padding_idx(random)
    takes = function.__code__.co_varnames[: function.__code__.co_argcount]
    past = past if "past_key_values_length" in takes else 0
    own = (stub(made, padding_idx=pad),) if "self" in takes else ()
    options = {"past_key_values_length": past} if past else {}
    return Called(
        f"{model}: {name}.create_position_ids_from_input_ids",
        {"padding_idx": pad, "past_key_values_length": past, "model_type": model},
        {"input_ids": ids},
        {"position_ids": function(*own, ids, pad, **options)},
    )


@family("sequence.opt")
def opt(random: Random) -> Called:
    mask = masks(random)
    past = int(random.integers(0, mask.shape[1]))
    own = model_class("opt", "OPTLearnedPositionalEmbedding")(64, 1)
    own.weight.data = torch.arange(66.0, dtype=torch.float64)[:, None]
    return Called(
        "OPTLearnedPositionalEmbedding, of which row i is i",
        {"offset": 2, "past_key_values_length": past},
        {"attention_mask": mask},
        {"position_ids": own(mask, past)[..., 0].long().detach()},
    )


@family("sequence.packed")
def packed(random: Random) -> Called:
    lengths = random.integers(1, 20, random.integers(1, 9)).tolist()
    collator = DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True)
    made = collator([{"input_ids": [1] * length} for length in lengths])
    return Called(
        "DataCollatorWithFlattening(return_flash_attn_kwargs=True, return_seq_idx=True)",
        {"lengths": lengths},
        {},
        {
            "position_ids": made["position_ids"],
            "cu_seqlens": made["cu_seq_lens_q"],
            "seq_idx": made["seq_idx"],
        },
    )


@family("sequence.cell")
def cell(random: Random) -> Called:
    tapas = importlib.import_module("transformers.models.tapas")
    most = int(random.integers(2, 12))
    config = tapas.TapasConfig(
        vocab_size=2,
        hidden_size=2,
        num_attention_heads=1,
        max_position_embeddings=most,
        reset_position_index_per_cell=True,
    )
    own = model_class("tapas", "TapasEmbeddings")(config)
    found = []

    def position_embeddings(ids: torch.Tensor) -> torch.Tensor:
        found.append(ids)
        return torch.zeros(*ids.shape, 2)

    del own.position_embeddings
    own.position_embeddings = position_embeddings
    batch, length = (int(each) for each in random.integers(1, (4, 30)))
    types = np.zeros((batch, length, 7), np.int64)
    # Column, then row; those of the question are 0.
    types[..., 1:3] = random.integers(0, 4, (batch, length, 2))
    own(torch.zeros(batch, length, dtype=torch.int64), torch.tensor(types))
    return Called(
        "TapasEmbeddings.forward: the ids given to position_embeddings",
        {"max_position_embeddings": most},
        {"token_type_ids": types},
        {"position_ids": found[0]},
    )


@family("vision.vision")
def vision(random: Random) -> Called:
    merge = int(random.integers(1, 4))
    options = {"spatial_merge_size": merge, "include_temporal": bool(random.integers(2))}
    given = grids(random, merge)
    ids = vision_utils.get_vision_position_ids(torch.tensor(given), **options)
    return Called(
        "vision_utils.get_vision_position_ids",
        {"grids": given, **options},
        {},
        {"position_ids": ids},
    )


@family("vision.windows")
def windows(random: Random) -> Called:
    merge, patch = int(random.integers(1, 4)), chosen(random, 14, 16)
    options = {
        "spatial_merge_size": merge,
        "window_size": patch * merge * int(random.integers(1, 6)) + chosen(random, 0, 0, 3),
        "patch_size": patch,
    }
    given = [[t, h * merge, w * merge] for t, h, w in grids(random, 2)]
    outputs = vision_utils.get_vision_window_index(torch.tensor(given), **options)
    names = ("window_index", "cu_window_seqlens")
    return Called(
        "vision_utils.get_vision_window_index",
        {"grids": given, **options},
        {},
        dict(zip(names, outputs, strict=True)),
    )


def _buckets(side: int, height: int, width: int) -> Any:
    rows, columns = (np.arange(size) * side // size for size in (height, width))
    return rows[:, None] * side + columns


def _rounded(call: str, params: Values, ids: Any, exact: Any) -> Called:
    """Return a call whose buckets are of float32, beside the floor where they differ."""
    outputs = {"position_ids": np.asarray(ids)}
    if (outputs["position_ids"] == exact).all():
        return Called(call, params, {}, outputs)
    defect = "float32 fractions and bounds: some buckets are not the floor of i·side/n."
    return Called(call, params, {}, outputs | {"exact": exact}, known_defect=defect)


@family("vision.idefics2")
def idefics2(random: Random) -> Called:
    side = chosen(random, 7, 14, 16, 24, 27, 32, 70)
    given = random.integers(1, side + 1, (random.integers(1, 4), 2)).tolist()
    mask = np.zeros((len(given), side, side), bool)
    exact = np.zeros((len(given), side, side), np.int64)
    for image, (h, w) in enumerate(given):
        mask[image, :h, :w] = True
        exact[image, :h, :w] = _buckets(side, h, w)
    found = []
    own = stub(
        model_class("idefics2", "Idefics2VisionEmbeddings"),
        patch_size=1,
        num_patches_per_side=side,
        patch_embedding=lambda pixels: pixels,
        position_embedding=lambda ids: found.append(ids) or 0,
    )
    own(torch.zeros(len(given), 1, side, side), torch.tensor(mask))
    params = {"sizes": given, "num_patches_per_side": side, "canvas": [side, side]}
    call = "Idefics2VisionEmbeddings.forward: the ids given to position_embedding"
    return _rounded(call, params, found[0], exact.reshape(len(given), -1))


@family("vision.nearest")
def nearest(random: Random) -> Called:
    side = chosen(random, 7, 14, 16, 24, 27, 32, 70)
    given = random.integers(1, side + 20, (random.integers(1, 4), 2)).tolist()
    ids = vision_utils.get_vision_nearest_position_ids(torch.tensor(given), side)
    exact = np.concatenate([_buckets(side, h, w).ravel() for h, w in given])
    params = {"sizes": given, "num_patches_per_side": side}
    return _rounded("vision_utils.get_vision_nearest_position_ids", params, ids, exact)


@family("vision.gemma4")
def gemma(random: Random) -> Called:
    h, w, more = (int(each) for each in random.integers(1, 9, 3))
    x, y = np.meshgrid(np.arange(w), np.arange(h), indexing="xy")
    ids = np.stack([x, y], -1).reshape(-1, 2)
    length = h * w + more - 1
    ids = gemma4.pad_along_first_dim(np.zeros((h * w, 1)), ids, length)[1]
    params = {"height": h, "width": w, "length": length}
    return Called("gemma4.pad_along_first_dim of meshgrid", params, {}, {"position_ids": ids})


def _flux_ids(height: int, width: int, image: int) -> torch.Tensor:
    ids = FluxPipeline._prepare_latent_image_ids(1, height, width, "cpu", torch.float32)
    ids[..., 0] = image
    return ids


@family("generation.flux")
def flux(random: Random) -> Called:
    text, h, w = (int(each) for each in random.integers((0, 1, 1), 9))
    references = chosen(random, [], sizes(random, 6)[:1])
    ids = [torch.zeros(text, 3), _flux_ids(h, w, 0), *(_flux_ids(*size, 1) for size in references)]
    params = {"text": text, "height": h, "width": w, "references": references}
    return Called("FluxPipeline._prepare_latent_image_ids", params, {}, {"ids": torch.cat(ids)})


@family("generation.krea2")
def krea2(random: Random) -> Called:
    text, h, w = (int(each) for each in random.integers((0, 1, 1), 9))
    ids = Krea2Pipeline.prepare_position_ids(text, h, w, "cpu")
    params = {"text": text, "height": h, "width": w}
    return Called("Krea2Pipeline.prepare_position_ids", params, {}, {"ids": ids})


@family("generation.flux2")
def flux2(random: Random) -> Called:
    text, h, w = (int(each) for each in random.integers(1, 9, 3))
    references, scale = sizes(random, 6), chosen(random, 10, 10, 3)
    latents = [torch.zeros(1, 1, *size) for size in references]
    outputs = {
        "text_ids": Flux2Pipeline._prepare_text_ids(torch.zeros(1, text, 1))[0],
        "latent_ids": Flux2Pipeline._prepare_latent_ids(torch.zeros(1, 1, h, w))[0],
        "image_ids": Flux2Pipeline._prepare_image_ids(latents, scale)[0],
    }
    params = {"text": text, "height": h, "width": w, "references": references, "scale": scale}
    return Called("Flux2Pipeline._prepare_text_ids and others", params, {}, outputs)


@family("generation.qwen_image")
def qwen_image(random: Random) -> Called:
    with patch.object(QwenEmbedRope, "rope_params", lambda _, index, *__: index[:, None].float()):
        rope = QwenEmbedRope(10000, [2, 2, 2], scale_rope=True)
        given, text = grids(random, 1), int(random.integers(1, 9))
        image_ids, text_ids = rope([[tuple(each) for each in given]], max_txt_seq_len=text)
    outputs = {"image_ids": image_ids.long(), "text_ids": text_ids.long()}
    return Called("QwenEmbedRope of indices", {"grids": given, "text": text}, {}, outputs)


def _video(random: Random) -> tuple[dict[str, int], float]:
    names = ("frames", "height", "width")
    sizes_of = {name: int(random.integers(1, 7)) for name in names}
    return sizes_of, chosen(random, 24.0, 25.0, 30.0, 16.0, 29.97)


@family("generation.ltx_condition")
def ltx_condition(random: Random) -> Called:
    video, fps = _video(random)
    scale, scale_t = chosen(random, 32, 16), chosen(random, 8, 4)
    at = int(random.integers(0, 3)) * scale_t
    ids = LTXConditionPipeline._prepare_video_ids(1, *video.values())
    ids = LTXConditionPipeline._scale_video_ids(ids, scale, scale_t, at)
    coords = ids.float()
    coords[:, 0] *= 1.0 / fps
    options = {"frame_index": at, "fps": fps, "scale_factor": scale, "scale_factor_t": scale_t}
    tolerance = {"note": "coords: float32, within 2^-22 relative of the rational."}
    return Called(
        "LTXConditionPipeline._prepare_video_ids, ._scale_video_ids",
        video | options,
        {},
        {"ids": ids, "coords": coords},
        tolerance,
    )


@family("generation.ltx")
def ltx(random: Random) -> Called:
    video, _ = _video(random)
    scale = [float(each) for each in (*np.round(random.uniform(0.1, 2, 1), 3), 32.0, 32.0)]
    own = LTXVideoRotaryPosEmbed(dim=6)
    coords = own._prepare_video_coords(1, *video.values(), tuple(scale), "cpu")
    return Called(
        "LTXVideoRotaryPosEmbed._prepare_video_coords",
        video | {"rope_interpolation_scale": scale},
        {},
        {"coords": coords[0]},
        {"note": "float32 of a rational, within 2^-22 relative."},
    )


@family("generation.cosmos")
def cosmos(random: Random) -> Called:
    video, fps = _video(random)
    factors: list[torch.Tensor] = []
    outer = torch.outer
    with patch.object(torch, "outer", lambda *given: factors.append(given[0]) or outer(*given)):
        own = CosmosRotaryPosEmbed(24, patch_size=(1, 1, 1))
        own(torch.zeros(1, 1, *video.values()), fps)
    h, w, t = factors
    coords = torch.stack(torch.meshgrid(t, h, w, indexing="ij"), -1).reshape(-1, 3)
    return Called(
        "CosmosRotaryPosEmbed.forward: the factors of frequencies",
        video | {"fps": fps, "base_fps": 24},
        {},
        {"coords": coords},
        {"note": "float32 of a rational, within 2^-22 relative."},
    )


@family("generation.ltx2_video")
def ltx2_video(random: Random) -> Called:
    video, fps = _video(random)
    options = {"scale_factors": [chosen(random, 8, 4), 32, 32], "causal_offset": 1}
    patches = {"patch_size_t": chosen(random, 1, 1, 2), "patch_size": chosen(random, 1, 1, 2)}
    own = stub(
        LTX2AudioVideoRotaryPosEmbed,
        **patches,
        scale_factors=tuple(options["scale_factors"]),
        causal_offset=1,
    )
    coords = own.prepare_video_coords(1, *video.values(), "cpu", fps)
    return Called(
        "LTX2AudioVideoRotaryPosEmbed.prepare_video_coords",
        video | {"fps": fps} | options | patches,
        {},
        {"coords": coords},
        {"note": "float32 of a rational, within 2^-22 relative."},
    )


@family("generation.ltx2_audio")
def ltx2_audio(random: Random) -> Called:
    frames, shift = int(random.integers(1, 20)), int(random.integers(0, 4))
    options = {
        "scale_factor": 4,
        "causal_offset": 1,
        "hop_length": chosen(random, 160, 256),
        "sampling_rate": chosen(random, 16000, 24000),
    }
    own = stub(LTX2AudioVideoRotaryPosEmbed, patch_size_t=1, scale_factors=(4,), **options)
    return Called(
        "LTX2AudioVideoRotaryPosEmbed.prepare_audio_coords",
        {"num_frames": frames, "shift": shift, **options},
        {},
        {"coords": own.prepare_audio_coords(1, frames, "cpu", shift)},
        {"note": "float32 of a rational, within 2^-22 relative."},
    )


def table(random: Random, *shape: int) -> torch.Tensor:
    return torch.tensor(random.standard_normal(shape, np.float32))


def bound(given: torch.Tensor, *lengths: int) -> Values:
    """Return the tolerance of float32 weights and sums, which grows with the old length."""
    atol = (max(lengths) + 4) * float(given.abs().max()) * 2.0**-23 + 2.0**-22
    note = "float32 arithmetic of the library against exact rational weights."
    return {"note": note, "suggested_atol_against_exact": atol}


def _interpolated(given: torch.Tensor, **options: Any) -> torch.Tensor:
    picture = given.permute(2, 0, 1)[None]
    return functional.interpolate(picture, **options)[0].permute(1, 2, 0)


@family("resize.torch_interpolate")
def torch_interpolate(random: Random) -> Called:
    old = tuple(int(each) for each in random.integers(2, 20, 2))
    given = table(random, *old, 3)
    size, factor, offset = [int(each) for each in random.integers(2, 40, 2)], None, None
    mode, corners = chosen(random, "bilinear", "bicubic"), chosen(random, None, False, True)
    smooth = bool(random.integers(2))
    if random.random() < 0.2:
        given, size, smooth = table(random, old[0], old[0], 3), None, False
        corners, offset = None, chosen(random, 0.1, 0.1, None)
        new = int(random.integers(2, 40))
        factor = [(new + (offset or 0)) / old[0]] * 2
    options = {"mode": mode, "align_corners": corners, "antialias": smooth}
    scale = None if factor is None else tuple(factor)
    out = _interpolated(given, size=size, scale_factor=scale, **options)
    params = {"size": size, "scale_factor": factor, "offset": offset, **options}
    tolerance = bound(given, *given.shape[:2])
    return Called("F.interpolate", params, {"table": given}, {"out": out}, tolerance)


@family("resize.torch_interpolate_width_one")
def width_one(random: Random) -> Called:
    given = table(random, *random.integers(2, 12, 2), 2)
    height, mode = int(random.integers(2, 12)), chosen(random, "bilinear", "bicubic")
    options = {"mode": mode, "align_corners": None, "antialias": True}
    rows = _interpolated(given.double(), size=(height, given.shape[1]), **options)
    exact = torch.cat([_interpolated(row[None], size=(1, 1), **options) for row in rows])
    return Called(
        "F.interpolate to the width 1, and for its rows one by one in float64",
        {"size": [height, 1], "scale_factor": None, "offset": None, **options},
        {"table": given},
        {"out": _interpolated(given, size=(height, 1), **options), "exact": exact},
        {"note": "exact is the weights applied in float64: an answer must be within 1e-12 of it."},
        "torch 2.13.0: antialias, width 1 and height above 1 repeat the first row.",
    )


@family("resize.timm_abs_pos_embed")
def timm_abs(random: Random) -> Called:
    old, new = (random.integers(2, 15, 2).tolist() for _ in range(2))
    prefix, mode = int(random.integers(0, 3)), chosen(random, "bicubic", "bilinear")
    smooth = bool(random.integers(2))
    corners = chosen(random, None, True, False)
    given = table(random, 1, prefix + math.prod(old), 3)
    out = timm.resample_abs_pos_embed(given, new, old, prefix, mode, smooth, align_corners=corners)
    params = {
        "old_size": old,
        "new_size": new,
        "num_prefix_tokens": prefix,
        "interpolation": mode,
        "antialias": smooth,
        "align_corners": corners,
    }
    tolerance = bound(given, *old)
    return Called("resample_abs_pos_embed", params, {"posemb": given}, {"out": out}, tolerance)


@family("resize.timm_rel_pos_bias")
def timm_bias(random: Random) -> Called:
    kind = chosen(random, "simple", "levit", "beit")
    square = kind == "levit"
    old, new = (random.integers(2, 8, 2).tolist() for _ in range(2))
    old[1] = old[1] if kind == "beit" else old[0]
    new[1] = new[0] if square else new[1]
    extra = 0 if square else chosen(random, 0, 3)
    count, target = (math.prod(2 * each - 1 for each in window) + extra for window in (old, new))
    given = table(random, count, 2)
    if square:
        out = timm_rel.resize_rel_pos_bias_table_levit(given, (target, 2))
    elif kind == "simple":
        out = timm_rel.resize_rel_pos_bias_table_simple(given, new, [target, 2])
    else:
        out = timm_rel.resize_rel_pos_bias_table(given, new, [target, 2], old)
    params = {"old_window": old, "new_window": new, "extra_tokens": extra, "kind": kind}
    knots = "float32; knots from a bisection to 1e-6: 1e-4 relative to the largest value."
    tolerance = {"note": knots} if kind == "beit" else bound(given, *(2 * n - 1 for n in old))
    call = {"levit": "resize_rel_pos_bias_table_levit", "beit": "resize_rel_pos_bias_table"}
    name = call.get(kind, "resize_rel_pos_bias_table_simple")
    return Called(name, params, {"table": given}, {"out": out}, tolerance)


@family("resize.sam_rel_pos")
def sam(random: Random) -> Called:
    q, k, rows = (int(each) for each in random.integers((1, 1, 2), (15, 15, 40)))
    given = table(random, rows, 3)
    out = model_class("sam", "SamVisionAttention").get_rel_pos(None, q, k, given)
    params, arrays = {"q_size": q, "k_size": k}, {"rel_pos": given}
    return Called(
        "SamVisionAttention.get_rel_pos", params, arrays, {"out": out}, bound(given, rows)
    )


@family("resize.siglip2")
def siglip2(random: Random) -> Called:
    given = table(random, *random.integers(2, 12, 2), 3)
    shapes = [[h, w + (w == 1 < h)] for h, w in sizes(random)]
    length = max(map(math.prod, shapes)) + int(random.integers(0, 9))
    resized = model_class("siglip2", "Siglip2VisionEmbeddings").resize_positional_embeddings
    out = resized(given, torch.tensor(shapes), length)
    params = {"spatial_shapes": shapes, "max_length": length}
    tolerance = bound(given, *given.shape[:2])
    call = "Siglip2VisionEmbeddings.resize_positional_embeddings"
    return Called(call, params, {"table": given}, {"out": out}, tolerance)


@family("resize.gather_operator")
def gather(random: Random) -> Called:
    side, merge = int(random.integers(2, 20)), int(random.integers(1, 4))
    options = {
        "mode": chosen(random, "bilinear", "bicubic"),
        "align_corners": bool(random.integers(2)),
        "spatial_merge_size": merge,
        "padding": chosen(random, "border", "border", "zeros"),
    }
    given = grids(random, merge)
    found = vision_utils.get_vision_interpolation_indices_and_weights(
        torch.tensor(given), side, **options
    )
    # Positions in float32 of up to side; the cubic kernel's slope is below 2.
    note = "indices exact; weights float32 of rationals."
    return Called(
        "vision_utils.get_vision_interpolation_indices_and_weights",
        {"grids": given, "num_grid_per_side": side, **options},
        {},
        dict(zip(("indices", "weights"), found, strict=True)),
        {"note": note, "error_vs_exact_of_dense_operator": (side + 4) * 2.0**-22},
    )


@family("resize.glm4v")
def glm4v(random: Random) -> Called:
    side, (grid,) = int(random.integers(2, 15)), grids(random, 1)[:1]
    grid[0] = 1
    given = table(random, side * side, 3)
    own = stub(
        model_class("glm4v", "Glm4vVisionEmbeddings"),
        position_embedding=SimpleNamespace(weight=given),
        interpolated_method="bicubic",
    )
    rows, columns = np.divmod(np.arange(math.prod(grid)), grid[2])
    coords = (torch.tensor(each).float() for each in (rows, columns))
    count = len(rows)
    out = own(torch.zeros(count, 3), [count], torch.tensor([grid]), *coords)
    tolerance = bound(given, 4 * side)
    params, arrays = {"side": side, "grid": grid}, {"table": given}
    return Called("Glm4vVisionEmbeddings.forward", params, arrays, {"out": out}, tolerance)


@family("resize.beit_bias")
def beit(random: Random) -> Called:
    old, new = [int(random.integers(2, 7))] * 2, random.integers(2, 9, 2).tolist()
    config = SimpleNamespace(image_size=old, patch_size=1, num_attention_heads=2)
    own = model_class("beit", "BeitRelativePositionBias")(config)
    given = table(random, *own.relative_position_bias_table.shape)
    own.relative_position_bias_table.data = given
    params = {"old_window": old, "new_window": new}
    tolerance = bound(given, 2 * old[0] - 1)
    out = own(tuple(new)).detach()
    return Called("BeitRelativePositionBias", params, {"table": given}, {"out": out}, tolerance)


def _turned(x: torch.Tensor, farthest: float) -> Values:
    atol = float(x.abs().max()) * (1e-6 + farthest * 2.0**-22)
    note = "float32 arithmetic of the library against the exact rotation."
    return {"note": note, "suggested_atol_against_exact": atol}


def _axes(random: Random, x: torch.Tensor) -> tuple[str, torch.Tensor, int]:
    if random.integers(2):
        return "batch,seq,head,channel", x, 2
    return "batch,head,seq,channel", x.transpose(1, 2).contiguous(), 1


@family("rotation.rope_batch")
def rope_batch(random: Random) -> Called:
    batch, seq, heads = (int(each) for each in random.integers(1, 7, 3))
    dim, theta = 2 * int(random.integers(2, 17)), chosen(random, 10000.0, 500000.0, 1000000.0)
    config = LlamaConfig(head_dim=dim, rope_theta=theta, hidden_size=dim, num_attention_heads=1)
    config.rope_parameters = {"rope_type": "default", "rope_theta": theta}
    positions = torch.tensor(random.integers(0, chosen(random, 9, 300), (batch, seq)))
    axes, x, at = _axes(random, table(random, batch, seq, heads, dim))
    cos, sin = llama.LlamaRotaryEmbedding(config)(x, positions)
    out = llama.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=at)[0]
    params = {"head_dim": dim, "rope_theta": theta, "axes": axes, "layout": "half"}
    tolerance = _turned(torch.cat([x.flatten(), torch.ones(1)]), float(positions.max()))
    arrays = {"x": x, "positions": positions}
    return Called("llama.apply_rotary_pos_emb", params, arrays, {"out": out, "cos": cos}, tolerance)


@family("rotation.mrope_batch")
def mrope_batch(random: Random) -> Called:
    sections = random.integers(1, 5, 3).tolist()
    batch, seq, heads = (int(each) for each in random.integers(1, 7, 3))
    positions = torch.tensor(random.integers(0, 60, (3, batch, seq)))
    theta = chosen(random, 10000.0, 1000000.0)
    axes, x, at = _axes(random, table(random, batch, seq, heads, 2 * sum(sections)))
    is_interleaved = bool(random.integers(2))
    cos, sin, call = _mrope_table(sections, theta, x, positions, is_interleaved=is_interleaved)
    out = qwen2_vl.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=at)[0]
    params = {
        "head_dim": 2 * sum(sections),
        "rope_theta": theta,
        "mrope_section": sections,
        "mrope_interleaved": is_interleaved,
        "axes": axes,
        "layout": "half",
    }
    tolerance = _turned(x, float(positions.max()))
    return Called(call, params, {"x": x, "positions": positions}, {"out": out}, tolerance)


def _mrope_table(
    sections: Sequence[int],
    theta: float,
    x: torch.Tensor,
    positions: torch.Tensor,
    *,
    is_interleaved: bool,
) -> tuple[torch.Tensor, torch.Tensor, str]:
    parameters = {"rope_type": "default", "rope_theta": theta, "mrope_section": [*sections]}
    options = {"head_dim": 2 * sum(sections), "hidden_size": 2 * sum(sections)}
    model, kind = (
        ("qwen3_vl", "Qwen3VLTextRotaryEmbedding")
        if is_interleaved
        else ("qwen2_vl", "Qwen2VLRotaryEmbedding")
    )
    if is_interleaved:
        text = importlib.import_module("transformers").Qwen3VLTextConfig
    else:
        text = type(Qwen2VLConfig().text_config)
    config = text(num_attention_heads=1, rope_parameters=parameters, **options)
    rope = model_class(model, kind)(config)
    return *rope(x, positions), f"{kind}, apply_rotary_pos_emb"


@family("rotation.rope_packed")
def rope_packed(random: Random) -> Called:
    lengths = random.integers(1, 9, random.integers(1, 5)).tolist()
    dim, heads = 2 * int(random.integers(2, 17)), int(random.integers(1, 4))
    config = LlamaConfig(head_dim=dim, hidden_size=dim, num_attention_heads=1)
    config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
    made = DataCollatorWithFlattening()([{"input_ids": [1] * length} for length in lengths])
    x = table(random, sum(lengths), heads, dim)
    cos, sin = llama.LlamaRotaryEmbedding(config)(x, made["position_ids"])
    out = llama.apply_rotary_pos_emb(x[None], x[None], cos, sin, unsqueeze_dim=2)[0][0]
    params = {
        "head_dim": dim,
        "rope_theta": 10000.0,
        "axes": "token,head,channel",
        "layout": "half",
    }
    arrays = {"x": x, "cu_seqlens": np.cumsum([0, *lengths], dtype=np.int32)}
    return Called(
        "apply_rotary_pos_emb with the ids of DataCollatorWithFlattening",
        params,
        arrays,
        {"out": out},
        _turned(x, float(max(lengths))),
    )
