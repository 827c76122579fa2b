# ruff: noqa: D103, INP001, SLF001
"""Random cases of ids of one axis and of pictures, and of temperatures of queries.

Imported by library_positions.py.
"""

import importlib
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import transformers
from diffusers.models.transformers import transformer_hunyuan_video as hunyuan
from diffusers.models.transformers.transformer_cosmos import CosmosRotaryPosEmbed
from diffusers.models.transformers.transformer_ltx import LTXVideoRotaryPosEmbed
from diffusers.models.transformers.transformer_ltx2 import LTX2AudioVideoRotaryPosEmbed
from diffusers.models.transformers.transformer_qwenimage import QwenEmbedRope
from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed
from diffusers.pipelines.flux.pipeline_flux import FluxPipeline
from diffusers.pipelines.flux2.pipeline_flux2 import Flux2Pipeline
from diffusers.pipelines.krea2.pipeline_krea2 import Krea2Pipeline
from diffusers.pipelines.ltx.pipeline_ltx_condition import LTXConditionPipeline
from library_positions import Called, Random, Values, chosen, family, model_class, named, stub
from transformers import vision_utils
from transformers.generation.utils import GenerationMixin
from transformers.models.gemma4 import image_processing_pil_gemma4 as gemma4
from transformers.models.llama4 import modeling_llama4 as llama4

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


@family("sequence.arange", "BartLearnedPositionalEmbedding or its like, of which row i is i")
def arange(random: Random) -> Called:
    model, name = chosen(random, ("bart", "Bart"), ("mbart", "MBart"), ("plbart", "PLBart"))
    own = model_class(model, f"{name}LearnedPositionalEmbedding")(64, 1)
    own.weight.data = torch.arange(66.0, dtype=torch.float64)[:, None]
    ids, past = torch.zeros(*numbers(random, 1, 12, 2), dtype=torch.int64), chosen(random, 0, 1, 9)
    params = {"offset": 2, "past_key_values_length": past}
    return Called(params, {"input_ids": ids}, {"position_ids": own(ids, past)[..., 0].long()})


@family("generation.wan", "WanRotaryPosEmbed of tables whose row i is i")
def wan(random: Random) -> Called:
    video, _ = _video(random)
    own = WanRotaryPosEmbed(12, (1, 2, 2), 16)
    own.freqs_cos = torch.arange(16)[:, None].expand(16, 12)
    frames, height, width = video.values()
    found = own(torch.zeros(1, 1, frames, 2 * height, 2 * width))[0][0, :, 0]
    return Called(video, {}, {"coords": found[:, [0, own.t_dim, own.t_dim + own.h_dim]]})


@family("generation.hunyuan_video", "HunyuanVideoRotaryPosEmbed of positions")
def hunyuan_video(random: Random) -> Called:
    video, _ = _video(random)
    with patch.object(
        hunyuan, "get_1d_rotary_pos_embed", lambda _, at, *__, **___: [at[:, None]] * 2
    ):
        own = hunyuan.HunyuanVideoRotaryPosEmbed(1, 1, [2, 2, 2])
        found = own(torch.zeros(1, 1, *video.values()))[0]
    return Called(video, {}, {"coords": found.long()})


@family("temperature.llama4", "Llama4TextAttention.forward: the queries that attention gets")
def llama4_temperature(random: Random) -> Called:
    params = {"floor_scale": chosen(random, 8192, 100, 7), "attn_scale": chosen(random, 0.1, 0.3)}
    past, length = int(random.integers(0, 2**20)), int(random.integers(1, 40))
    found: list[torch.Tensor] = []
    own = stub(
        model_class("llama4", "Llama4TextAttention"),
        **{f"{name}_proj": torch.ones_like for name in "qkv"},
        **params,
        o_proj=torch.ones_like,
        use_rope=False,
        attn_temperature_tuning=True,
        training=False,
        layer_idx=0,
        head_dim=1,
        scaling=1.0,
        config=SimpleNamespace(_attn_implementation="eager"),
    )
    cache = SimpleNamespace(
        get_seq_length=lambda _: past, update=lambda key, value, _: (key, value)
    )
    with patch.object(
        llama4, "eager_attention_forward", lambda _, q, *__, **___: (found.append(q) or q, None)
    ):
        own(torch.ones(1, length, 1), None, None, cache)
    inputs = {"positions": torch.arange(past, past + length)}
    return Called(params, inputs, {"temperature": found[0][0, 0, :, 0]}, FLOAT32)


@family("temperature.ministral3", "get_llama_4_attn_scale of Ministral 3 or Mistral 4")
def ministral_temperature(random: Random) -> Called:
    names = "original_max_position_embeddings", "llama_4_scaling_beta"
    params = dict(zip(names, (chosen(random, 8192, 100, 7), chosen(random, 0.1, 0.3)), strict=True))
    positions = torch.tensor(random.integers(0, 2**23, numbers(random, 1, 9, 2)))
    scale = model_class(chosen(random, "ministral3", "mistral4"), "get_llama_4_attn_scale")
    found = scale(positions, *reversed(params.values()))[:, 0, :, 0]
    return Called(params, {"positions": positions}, {"temperature": found}, FLOAT32)


@family("temperature.beam", "compute_attention_scaling of Beam")
def beam_temperature(random: Random) -> Called:
    positions = torch.tensor(random.integers(0, 2**23, numbers(random, 1, 9, 2)))
    found = model_class("beam", "compute_attention_scaling")(positions)[:, 0, :, 0]
    return Called({}, {"positions": positions}, {"temperature": found}, FLOAT32)
