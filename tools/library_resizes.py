# ruff: noqa: D103, INP001, SLF001
"""Random cases of ids of one axis and of pictures, of resizes and of rotations.

Imported by library_positions.py.
"""

import importlib
import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import transformers
from diffusers.models.transformers.transformer_cosmos import CosmosRotaryPosEmbed
from diffusers.models.transformers.transformer_ltx import LTXVideoRotaryPosEmbed
from diffusers.models.transformers.transformer_ltx2 import LTX2AudioVideoRotaryPosEmbed
from diffusers.models.transformers.transformer_qwenimage import QwenEmbedRope
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline
from diffusers.pipelines.flux2.pipeline_flux2 import Flux2Pipeline
from diffusers.pipelines.krea2.pipeline_krea2 import Krea2Pipeline
from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXConditionPipeline
from library_positions import Called, Random, Values, chosen, family, model_class, named, stub
from torch.nn import functional
from transformers import vision_utils
from transformers.generation.utils import GenerationMixin
from transformers.models.gemma4 import image_processing_pil_gemma4 as gemma4
from transformers.models.qwen2_vl.modeling_qwen2_vl import apply_rotary_pos_emb

for _name in ("timm", "timm.layers"):  # Their own modules import torchvision.
    sys.modules[_name] = ModuleType(_name)
    sys.modules[_name].__path__ = [f"{folder}/{_name.replace('.', '/')}" for folder in sys.path]
timm = importlib.import_module("timm.layers.pos_embed")
timm_rel = importlib.import_module("timm.layers.pos_embed_rel")

Sizes = list[list[int]]
FLOAT32 = {"note": "float32 of a rational, within 2^-22 relative."}


def numbers(random: Random, least: int, stop: int, count: int) -> list[int]:
    found: list[int] = random.integers(least, stop, count).tolist()
    return found


def sizes(random: Random, most: int = 12, merge: int = 1) -> Sizes:
    found: Sizes = (merge * random.integers(1, most + 1, (random.integers(1, 4), 2))).tolist()
    return found


def grids(random: Random, merge: int) -> Sizes:
    return [[int(random.integers(1, 4)), *size] for size in sizes(random, 9, merge)]


def masks(random: Random) -> torch.Tensor:
    """Return random masks: padded left or right, or with holes."""
    batch, length = random.integers(1, 5), random.integers(1, 12)
    ends = np.sort(random.integers(0, length + 1, (batch, 2)), 1)
    at = np.arange(length)
    mask = (at >= ends[:, :1]) & (at < ends[:, 1:]) | (random.random((batch, length)) < 0.2)
    return torch.tensor(mask.astype(np.int64))


@family("sequence.attention_mask", "GenerationMixin._prepare_position_ids_for_generation")
def attention_mask(random: Random) -> Called:
    mask = masks(random)
    options = {"attention_mask": mask}
    ids = GenerationMixin._prepare_position_ids_for_generation(None, mask, options)
    return Called({"masked": 0}, options, {"position_ids": ids})


_OF_TABLE = ("m2m_100", "kosmos2", "nllb_moe", "speech_to_text", "trocr")
_OF_MODEL = ("roberta", "xlm_roberta", "camembert", "data2vec", "xmod", "longformer", "luke", "esm")


@family("sequence.padding_idx", "create_position_ids_from_input_ids of the model")
def padding_idx(random: Random) -> Called:
    model = chosen(random, *_OF_TABLE, *_OF_MODEL)
    file = "data2vec_text" if model == "data2vec" else model
    module = importlib.import_module(f"transformers.models.{model}.modeling_{file}")
    name = "create_position_ids_from_input_ids"
    places = (each for each in vars(module).values() if name in getattr(each, "__dict__", ()))
    place = next(places, module)
    function = getattr(place, name)
    pad, past = int(random.integers(0, 5)), chosen(random, 0, 0, 1, 7)
    mask = masks(random).numpy()
    ids = torch.tensor(np.where(mask, pad + 1 + random.integers(0, 9, mask.shape), pad))
    takes = function.__code__.co_varnames[: function.__code__.co_argcount]
    past = past if "past_key_values_length" in takes else 0
    own = (stub(place, padding_idx=pad),) if takes[0] == "self" else ()
    params = {"padding_idx": pad, "past_key_values_length": past, "model_type": model}
    made = function(*own, ids, pad, **({"past_key_values_length": past} if past else {}))
    return Called(params, {"input_ids": ids}, {"position_ids": made})


@family("sequence.opt", "OPTLearnedPositionalEmbedding, of which row i is i")
def opt(random: Random) -> Called:
    mask = masks(random)
    past = int(random.integers(0, mask.shape[1]))
    own = model_class("opt", "OPTLearnedPositionalEmbedding")(64, 1)
    own.weight.data = torch.arange(66.0, dtype=torch.float64)[:, None]
    params = {"offset": 2, "past_key_values_length": past}
    ids = own(mask, past)[..., 0].long().detach()
    return Called(params, {"attention_mask": mask}, {"position_ids": ids})


def collated(lengths: list[int]) -> list[torch.Tensor]:
    """Return the ids, the ends and the numbers of sequences in one row."""
    options = {"return_flash_attn_kwargs": True, "return_seq_idx": True}
    collator = transformers.DataCollatorWithFlattening(**options)
    made = collator([{"input_ids": [1] * length} for length in lengths])
    return [made[name] for name in ("position_ids", "cu_seq_lens_q", "seq_idx")]


@family("sequence.packed", "DataCollatorWithFlattening")
def packed(random: Random) -> Called:
    lengths = numbers(random, 1, 20, random.integers(1, 9))
    outputs = named("position_ids cu_seqlens seq_idx", collated(lengths))
    return Called({"lengths": lengths}, {}, outputs)


@family("sequence.cell", "TapasEmbeddings.forward: the ids given to position_embeddings")
def cell(random: Random) -> Called:
    most, found = int(random.integers(2, 12)), []
    config = transformers.TapasConfig(
        vocab_size=2,
        hidden_size=2,
        num_attention_heads=1,
        max_position_embeddings=most,
        reset_position_index_per_cell=True,
    )
    own = model_class("tapas", "TapasEmbeddings")(config)
    del own.position_embeddings
    own.position_embeddings = lambda ids: found.append(ids) or torch.zeros(*ids.shape, 2)
    types = np.zeros((random.integers(1, 4), random.integers(1, 30), 7), np.int64)
    # Column, then row; those of the question are 0.
    types[..., 1:3] = random.integers(0, 4, (*types.shape[:2], 2))
    own(torch.zeros(types.shape[:2], dtype=torch.int64), torch.tensor(types))
    params = {"max_position_embeddings": most}
    return Called(params, {"token_type_ids": types}, {"position_ids": found[0]})


@family("vision.vision", "vision_utils.get_vision_position_ids")
def vision(random: Random) -> Called:
    merge = int(random.integers(1, 4))
    options = {"spatial_merge_size": merge, "include_temporal": bool(random.integers(2))}
    given = grids(random, merge)
    ids = vision_utils.get_vision_position_ids(torch.tensor(given), **options)
    return Called({"grids": given, **options}, {}, {"position_ids": ids})


@family("vision.windows", "vision_utils.get_vision_window_index")
def windows(random: Random) -> Called:
    merge, patch_size = int(random.integers(1, 4)), chosen(random, 14, 16)
    window = patch_size * merge * int(random.integers(1, 6)) + chosen(random, 0, 0, 3)
    options = {"spatial_merge_size": merge, "window_size": window, "patch_size": patch_size}
    given = [[t, h * merge, w * merge] for t, h, w in grids(random, 2)]
    outputs = vision_utils.get_vision_window_index(torch.tensor(given), **options)
    return Called({"grids": given, **options}, {}, named("window_index cu_window_seqlens", outputs))


def _buckets(side: int, height: int, width: int) -> Any:
    rows, columns = (np.arange(size) * side // size for size in (height, width))
    return rows[:, None] * side + columns


def _rounded(params: Values, ids: Any, exact: Any) -> Called:
    """Return a case of buckets of float32, beside the floor where they differ."""
    outputs = {"position_ids": np.asarray(ids)}
    if (outputs["position_ids"] == exact).all():
        return Called(params, {}, outputs)
    defect = "float32 fractions and bounds: some buckets are not the floor of i·side/n."
    return Called(params, {}, outputs | {"exact": exact}, known_defect=defect)


SIDES = (7, 14, 16, 24, 27, 32, 70)


@family("vision.idefics2", "Idefics2VisionEmbeddings.forward: the ids of position_embedding")
def idefics2(random: Random) -> Called:
    side = chosen(random, *SIDES)
    given, found = random.integers(1, side + 1, (random.integers(1, 4), 2)).tolist(), []
    mask = np.zeros((len(given), side, side), bool)
    exact = np.zeros(mask.shape, np.int64)
    for image, (h, w) in enumerate(given):
        mask[image, :h, :w] = True
        exact[image, :h, :w] = _buckets(side, h, w)
    own = stub(
        model_class("idefics2", "Idefics2VisionEmbeddings"),
        patch_size=1,
        num_patches_per_side=side,
        patch_embedding=lambda pixels: pixels,
        position_embedding=lambda ids: found.append(ids) or 0,
    )
    own(torch.zeros(len(given), 1, side, side), torch.tensor(mask))
    params = {"sizes": given, "num_patches_per_side": side, "canvas": [side, side]}
    return _rounded(params, found[0], exact.reshape(len(given), -1))


@family("vision.nearest", "vision_utils.get_vision_nearest_position_ids")
def nearest(random: Random) -> Called:
    side = chosen(random, *SIDES)
    given = random.integers(1, side + 20, (random.integers(1, 4), 2)).tolist()
    ids = vision_utils.get_vision_nearest_position_ids(torch.tensor(given), side)
    exact = np.concatenate([_buckets(side, h, w).ravel() for h, w in given])
    return _rounded({"sizes": given, "num_patches_per_side": side}, ids, exact)


@family("vision.gemma4", "image_processing_pil_gemma4.pad_along_first_dim of a meshgrid")
def gemma(random: Random) -> Called:
    h, w, more = numbers(random, 1, 9, 3)
    ids = np.stack(np.meshgrid(np.arange(w), np.arange(h), indexing="xy"), -1).reshape(-1, 2)
    length = h * w + more - 1
    ids = gemma4.pad_along_first_dim(np.zeros((h * w, 1)), ids, length)[1]
    return Called({"height": h, "width": w, "length": length}, {}, {"position_ids": ids})


def _flux_ids(height: int, width: int, image: int) -> torch.Tensor:
    ids = FluxPipeline._prepare_latent_image_ids(1, height, width, "cpu", torch.float32)
    ids[..., 0] = image
    return ids


@family("generation.flux", "FluxPipeline._prepare_latent_image_ids")
def flux(random: Random) -> Called:
    text, h, w = numbers(random, 1, 9, 3)
    references = chosen(random, [], sizes(random, 6)[:1])
    ids = [torch.zeros(text, 3), _flux_ids(h, w, 0), *(_flux_ids(*size, 1) for size in references)]
    params = {"text": text, "height": h, "width": w, "references": references}
    return Called(params, {}, {"ids": torch.cat(ids)})


@family("generation.krea2", "Krea2Pipeline.prepare_position_ids")
def krea2(random: Random) -> Called:
    text, h, w = numbers(random, 1, 9, 3)
    ids = Krea2Pipeline.prepare_position_ids(text, h, w, "cpu")
    return Called({"text": text, "height": h, "width": w}, {}, {"ids": ids})


@family("generation.flux2", "Flux2Pipeline._prepare_text_ids, _latent_ids, _image_ids")
def flux2(random: Random) -> Called:
    text, h, w = numbers(random, 1, 9, 3)
    references, scale = sizes(random, 6), chosen(random, 10, 10, 3)
    latents = [torch.zeros(1, 1, *size) for size in references]
    outputs = {
        "text_ids": Flux2Pipeline._prepare_text_ids(torch.zeros(1, text, 1))[0],
        "latent_ids": Flux2Pipeline._prepare_latent_ids(torch.zeros(1, 1, h, w))[0],
        "image_ids": Flux2Pipeline._prepare_image_ids(latents, scale)[0],
    }
    params = {"text": text, "height": h, "width": w, "references": references, "scale": scale}
    return Called(params, {}, outputs)


@family("generation.qwen_image", "QwenEmbedRope of indices")
def qwen_image(random: Random) -> Called:
    given, text = grids(random, 1), int(random.integers(1, 9))
    with patch.object(QwenEmbedRope, "rope_params", lambda _, index, *__: index[:, None].float()):
        rope = QwenEmbedRope(10000, [2, 2, 2], scale_rope=True)
        found = rope([[tuple(each) for each in given]], max_txt_seq_len=text)
    outputs = named("image_ids text_ids", [each.long() for each in found])
    return Called({"grids": given, "text": text}, {}, outputs)


def _video(random: Random) -> tuple[Values, float]:
    shape = named("frames height width", numbers(random, 1, 7, 3))
    return shape, chosen(random, 24.0, 25.0, 30.0, 16.0, 29.97)


@family("generation.ltx_condition", "LTXConditionPipeline._prepare_video_ids, _scale_video_ids")
def ltx_condition(random: Random) -> Called:
    video, fps = _video(random)
    scale, scale_t = chosen(random, 32, 16), chosen(random, 8, 4)
    at = int(random.integers(0, 3)) * scale_t
    ids = LTXConditionPipeline._prepare_video_ids(1, *video.values())
    ids = LTXConditionPipeline._scale_video_ids(ids, scale, scale_t, at)
    coords = ids.float()
    coords[:, 0] *= 1.0 / fps
    video |= {"frame_index": at, "fps": fps, "scale_factor": scale, "scale_factor_t": scale_t}
    return Called(video, {}, {"ids": ids, "coords": coords}, FLOAT32)


@family("generation.ltx", "LTXVideoRotaryPosEmbed._prepare_video_coords")
def ltx(random: Random) -> Called:
    video, _ = _video(random)
    scale = [round(float(random.uniform(0.1, 2)), 3), 32.0, 32.0]
    own = LTXVideoRotaryPosEmbed(dim=6)
    coords = own._prepare_video_coords(1, *video.values(), tuple(scale), "cpu")[0]
    return Called(video | {"rope_interpolation_scale": scale}, {}, {"coords": coords}, FLOAT32)


@family("generation.cosmos", "CosmosRotaryPosEmbed.forward: the factors of its frequencies")
def cosmos(random: Random) -> Called:
    video, fps = _video(random)
    found: list[torch.Tensor] = []
    outer = torch.outer
    with patch.object(torch, "outer", lambda *given: found.append(given[0]) or outer(*given)):
        CosmosRotaryPosEmbed(24, patch_size=(1, 1, 1))(torch.zeros(1, 1, *video.values()), fps)
    h, w, t = found
    coords = torch.stack(torch.meshgrid(t, h, w, indexing="ij"), -1).reshape(-1, 3)
    return Called(video | {"fps": fps, "base_fps": 24}, {}, {"coords": coords}, FLOAT32)


@family("generation.ltx2_video", "LTX2AudioVideoRotaryPosEmbed.prepare_video_coords")
def ltx2_video(random: Random) -> Called:
    video, fps = _video(random)
    options = {
        "scale_factors": [chosen(random, 8, 4), 32, 32],
        "causal_offset": 1,
        "patch_size_t": chosen(random, 1, 1, 2),
        "patch_size": chosen(random, 1, 1, 2),
    }
    own = stub(LTX2AudioVideoRotaryPosEmbed, **options)
    coords = own.prepare_video_coords(1, *video.values(), "cpu", fps)
    return Called(video | {"fps": fps} | options, {}, {"coords": coords}, FLOAT32)


@family("generation.ltx2_audio", "LTX2AudioVideoRotaryPosEmbed.prepare_audio_coords")
def ltx2_audio(random: Random) -> Called:
    frames, shift = int(random.integers(1, 20)), int(random.integers(0, 4))
    hop, rate = chosen(random, 160, 256), chosen(random, 16000, 24000)
    options = {"causal_offset": 1, "hop_length": hop, "sampling_rate": rate}
    own = stub(LTX2AudioVideoRotaryPosEmbed, patch_size_t=1, scale_factors=(4,), **options)
    coords = own.prepare_audio_coords(1, frames, "cpu", shift)
    params = {"num_frames": frames, "shift": shift, "scale_factor": 4, **options}
    return Called(params, {}, {"coords": coords}, FLOAT32)


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
    out = apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=at)[0]
    # float32 angles, and what is left of the rotation's own arithmetic.
    atol = max(1.0, float(x.abs().max())) * (1e-6 + float(positions.max()) * 2.0**-22)
    params |= {"axes": axes, "layout": "half"}
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
