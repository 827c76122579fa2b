# ruff: noqa: D103, INP001, SLF001, T201
"""Write the tables that the transformer classes of diffusers compute, for chosen configs.

    python tools/library_diffusers.py EXPECTED.npz [CLASS …]

Runs where torch and diffusers 0.42.1 are installed, not the service. Each class is built with its
weights on torch's meta device, with the configs of tools/diffusers_configs.toml; its own modules
then compute rows. A case is a config, the id of an encoding, the parameters that no config has, and
arrays by name, or a shape. ``tests.models.diffusers_sweep`` compares the service's answers with
them.
"""

import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import torch
from diffusers.models import embeddings as library
from diffusers.models.transformers import ace_step_transformer, t5_film_transformer
from diffusers.models.transformers import transformer_ideogram4 as ideogram
from diffusers.models.transformers import transformer_rfd4_proteina as proteina
from diffusers.pipelines.hunyuandit.pipeline_hunyuandit import get_resize_crop_region_for_grid
from diffusers_rotary import (
    CPU,
    PICTURES,
    SHARES,
    TIMES,
    VIDEOS,
    Found,
    allegro,
    any_flow,
    chrono_edit,
    cog,
    cosmos,
    easy,
    ernie,
    flat,
    framepack,
    helios,
    hunyuan_image,
    joy,
    joy_plus,
    kandinsky5,
    kandinsky6,
    learned,
    ltx,
    ltx2,
    lumina2,
    lumina_next,
    matrices,
    mrope,
    of_ids,
    of_one_row,
    of_picture,
    of_video,
    one_axis,
    qwen,
    qwen21,
    sana_wm,
    timesteps,
    wan_animate_2,
    z_image,
)

Check = Callable[[Any], Found]
CONFIGS = tomllib.loads(Path(__file__).with_name("diffusers_configs.toml").read_text())


def without_weights() -> None:
    """Make the layers that have weights create them on the meta device."""
    for layer in (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d):
        layer.__init__ = _on_meta(layer.__init__)
    torch.nn.Embedding.__init__ = _on_meta(torch.nn.Embedding.__init__)


def _on_meta(init: Any) -> Any:
    @wraps(init)
    def created(self: Any, *args: Any, **options: Any) -> None:
        init(self, *args, **options | {"device": "meta"})

    return created


def ideogram_time(model: Any) -> Found:
    width = model.config.attention_head_dim * model.config.num_attention_heads
    out = ideogram._sinusoidal_embedding(1e4 * torch.tensor(SHARES), width)
    yield "timestep", {"timesteps": SHARES}, {"timesteps": out}


def omnigen(model: Any) -> Found:
    for length in (3, 9):
        out = model.rope(torch.zeros(1, 1), torch.arange(length)[None])
        yield "rotary", {"seq_len": length, "context_length": length}, flat(*out)
    yield "sinusoidal", {}, {"encoding": model.patch_embedding.pos_embed[0]}


def hunyuan_dit(model: Any) -> Found:
    base = 512 // 8 // model.config.patch_size
    for grid in (*PICTURES, (64, 64), (40, 96)):
        crops = get_resize_crop_region_for_grid(grid, base)
        out = library.get_2d_rotary_pos_embed(
            model.inner_dim // model.num_heads, crops, grid, device=CPU, output_type="pt"
        )
        yield "rotary", {"grid": list(grid)}, flat(*out)
    yield from timesteps(model, "time_extra_emb.time_proj")
    if model.config.use_style_cond_and_image_meta_size:
        yield from timesteps(model, "time_extra_emb.size_proj", "size")
    yield from learned(model, "time_extra_emb.pooler.positional_embedding", "pooler")


def patches(at: str = "pos_embed", name: str = "sinusoidal") -> Callable[[Any], Found]:
    def found(model: Any) -> Found:
        embed = model.get_submodule(at)
        if getattr(embed, "pos_embed", None) is None:
            return
        if embed.pos_embed_max_size:
            yield name, {}, {"encoding": embed.pos_embed[0]}
            return
        yield name, {"height": embed.height, "width": embed.width}, {"encoding": embed.pos_embed[0]}
        for grid in PICTURES:
            out = library.get_2d_sincos_pos_embed(
                embed.pos_embed.shape[-1],
                grid,
                base_size=embed.base_size,
                interpolation_scale=embed.interpolation_scale,
                output_type="pt",
            )
            yield name, {"height": grid[0], "width": grid[1]}, {"encoding": out}

    return found


def cogview3(model: Any) -> Found:
    yield "sinusoidal", {}, {"encoding": model.patch_embed.pos_embed.flatten(0, 1)}


def latte(model: Any) -> Found:
    yield from patches()(model)
    yield "frames", {}, {"encoding": model.temp_pos_embed[0]}


def temporal(model: Any) -> Found:
    if model.config.positional_embeddings is not None:
        yield "sinusoidal", {}, {"encoding": model.transformer_blocks[0].pos_embed.pe[0]}


def transformer_2d(model: Any) -> Found:
    if hasattr(model, "pos_embed"):
        yield from patches()(model)
    if hasattr(model, "latent_image_embedding"):
        yield from learned(model, "latent_image_embedding.height_emb.weight", "rows")
        yield from learned(model, "latent_image_embedding.width_emb.weight", "columns")
    for at, name in (
        ("transformer_blocks.0.norm1.emb.time_proj", "timestep"),
        ("adaln_single.emb.time_proj", "timestep"),
        ("adaln_single.emb.additional_condition_proj", "resolution"),
    ):
        if at in dict(model.named_modules()):
            yield from timesteps(model, at, name)


def through(function: Any, name: str = "timestep", values: Any = SHARES) -> Callable[[Any], Found]:
    def found(model: Any) -> Found:
        yield name, {"timesteps": values}, {"timesteps": function(model, torch.tensor(values))}

    return found


def times(*named: Any, shares: bool = False) -> Callable[[Any], Found]:
    """Timesteps of modules, each a path or a path and an id; those that a config lacks are left."""

    def found(model: Any) -> Found:
        modules = dict(model.named_modules())
        for each in named:
            at, name = each if isinstance(each, tuple) else (each, "timestep")
            if modules.get(at) is not None:
                yield from timesteps(model, at, name, shares=shares)

    return found


def tables(*named: Any) -> Callable[[Any], Found]:
    """Learned tables, by path and id; those that a config lacks are left out."""

    def found(model: Any) -> Found:
        there = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        for at, name in named:
            if at in there:
                yield from learned(model, at, name)

    return found


def chroma_modulations(model: Any) -> Found:
    yield "modulations", {}, {"timesteps": model.time_text_embed.mod_proj}


def first_linear(model: Any, at: str, call: Any) -> Any:
    """Return the input of a linear layer during a call."""
    kept: list[Any] = []

    class SeenError(Exception):
        pass

    def hook(_module: Any, args: Any) -> None:
        kept.append(args[0])
        raise SeenError

    handle = model.get_submodule(at).register_forward_pre_hook(hook)
    with suppress(SeenError):
        call()
    handle.remove()
    return kept[0].squeeze(1) if kept[0].ndim == 3 else kept[0]


def guided(at: str) -> Check:
    def found(model: Any) -> Found:
        if model.config.guidance_embeds:
            yield from timesteps(model, at, "guidance")

    return found


def resolutions(model: Any) -> Found:
    if model.config.resolution_embeds:
        seen = partial(model.resolution_embedder, dtype=torch.float32)
        sizes = torch.tensor(TIMES)
        rows = first_linear(model, "resolution_embedder.mlp.in_layer", lambda: seen(sizes, sizes))
        yield "resolution", {"timesteps": TIMES}, {"timesteps": rows[:, :128]}


TTE = "time_text_embed.time_proj"
WAN = "condition_embedder.timesteps_proj"
IMAGE = ("condition_embedder.image_embedder.pos_embed", "image")
FLUX = of_ids("pos_embed", [(1, 4, 6), (3, 5, 7)])
FLUX2 = of_ids("pos_embed", [(1, 4, 6, 1), (2, 3, 5, 1)])

# What checks the encodings of each class.
CHECKS: Mapping[str, list[Check]] = {
    "FluxTransformer2DModel": [FLUX, times(TTE), guided(TTE)],
    "ChromaTransformer2DModel": [
        FLUX,
        times(TTE, ("time_text_embed.guidance_proj", "guidance")),
        chroma_modulations,
    ],
    "BriaTransformer2DModel": [FLUX, times("time_embed.time_proj")],
    "BriaFiboTransformer2DModel": [
        FLUX,
        times("time_embed.time_proj", ("guidance_embed.time_proj", "guidance")),
    ],
    "OvisImageTransformer2DModel": [FLUX, of_one_row("pos_embed"), times("time_proj")],
    "LongCatImageTransformer2DModel": [
        of_ids("pos_embed", [(1, 4, 6)], offset=(1, 512, 512)),
        of_one_row("pos_embed"),
        times("time_embed.time_proj"),
    ],
    "Flux2Transformer2DModel": [
        FLUX2,
        of_ids("pos_embed", [(1, 1, 1, 5)], "rotary.text"),
        times("time_guidance_embed.time_proj"),
        guided("time_guidance_embed.time_proj"),
    ],
    "Flux3Transformer2DModel": [FLUX2, times("time_proj")],
    "Krea2Transformer2DModel": [
        of_ids("rotary_emb", [(1, 4, 6)]),
        through(
            lambda m, t: first_linear(
                m, "time_embed.linear_1", lambda: m.time_embed(t, torch.float32)
            )
        ),
    ],
    "HiDreamImageTransformer2DModel": [
        of_ids("pe_embedder", [(1, 4, 6)], convert=matrices, batched=True),
        times("t_embedder.time_proj"),
    ],
    "PRXTransformer2DModel": [
        of_ids("pe_embedder", PICTURES, convert=matrices, batched=True),
        through(
            lambda m, t: library.get_timestep_embedding(
                t,
                256,
                max_period=m.time_max_period,
                scale=m.time_factor,
                flip_sin_to_cos=True,
                downscale_freq_shift=0.0,
            )
        ),
        resolutions,
    ],
    "ErnieImageTransformer2DModel": [ernie, times("time_proj")],
    "Lumina2Transformer2DModel": [lumina2, times("time_caption_embed.time_proj", shares=True)],
    "ZImageTransformer2DModel": [
        z_image("rotary.text", lambda _: (33, 0, 0)),
        through(
            lambda m, t: m.t_embedder.timestep_embedding(
                t * m.t_scale, m.t_embedder.frequency_embedding_size
            )
        ),
    ],
    "BriaFibo2Transformer2DModel": [
        z_image("rotary.gist", lambda m: (m.config.max_num_gist_tokens + 1, 0, 0)),
        through(
            lambda m, t: m.t_embedder.timestep_embedding(
                t * m.config.t_scale, m.t_embedder.frequency_embedding_size
            )
        ),
    ],
    "HunyuanVideoTransformer3DModel": [
        of_video(),
        times(TTE, ("context_embedder.time_text_embed.time_proj", "timestep.text")),
        guided(TTE),
    ],
    "HunyuanVideo15Transformer3DModel": [
        of_video(),
        times(
            "time_embed.time_proj",
            ("time_embed.time_proj_r", "timestep.r"),
            ("context_embedder.time_text_embed.time_proj", "timestep.text"),
        ),
    ],
    "HunyuanVideoFramepackTransformer3DModel": [
        framepack,
        times(TTE, ("context_embedder.time_text_embed.time_proj", "timestep.text")),
        guided(TTE),
    ],
    "HunyuanImageTransformer2DModel": [
        hunyuan_image,
        times(
            "time_guidance_embed.time_proj",
            ("time_guidance_embed.time_proj_r", "timestep.r"),
            ("context_embedder.time_text_embed.time_proj", "timestep.text"),
        ),
        guided("time_guidance_embed.time_proj"),
    ],
    "MotifVideoTransformer3DModel": [of_video(), times(TTE)],
    "JoyImageEditTransformer3DModel": [joy, times(WAN)],
    "JoyImageEditPlusTransformer3DModel": [joy_plus, times(WAN)],
    "QwenImageTransformer2DModel": [qwen, times(TTE, shares=True)],
    "NucleusMoEImageTransformer2DModel": [qwen, times(TTE, shares=True)],
    "QwenImage21Transformer2DModel": [qwen21, times(TTE, shares=True)],
    "WanTransformer3DModel": [of_video(), times(WAN), tables(IMAGE)],
    "WanVACETransformer3DModel": [of_video(), times(WAN), tables(IMAGE)],
    "WanAnimateTransformer3DModel": [of_video(), times(WAN), tables(IMAGE)],
    "SkyReelsV2Transformer3DModel": [
        of_video(),
        times(WAN),
        tables(IMAGE, ("fps_embedding.weight", "fps")),
    ],
    "ChronoEditTransformer3DModel": [chrono_edit, times(WAN)],
    "SanaVideoTransformer3DModel": [
        of_video(),
        times(
            "time_embed.emb.time_proj",
            "time_embed.time_proj",
            ("time_embed.guidance_condition_proj", "guidance"),
        ),
    ],
    "AnyFlowTransformer3DModel": [any_flow, times(WAN)],
    "AnyFlowFARTransformer3DModel": [any_flow, times(WAN)],
    "SanaWMTransformer3DModel": [sana_wm, times("time_proj")],
    "WanAnimate2Transformer3DModel": [wan_animate_2, times("timesteps_proj")],
    "HeliosTransformer3DModel": [helios, times(WAN)],
    "CogVideoXTransformer3DModel": [cog, times("time_proj", ("ofs_proj", "ofs"))],
    "ConsisIDTransformer3DModel": [cog, times("time_proj")],
    "EasyAnimateTransformer3DModel": [easy, times("time_proj")],
    "HunyuanDiT2DModel": [hunyuan_dit],
    "AllegroTransformer3DModel": [allegro, times("adaln_single.emb.time_proj")],
    "CogView4Transformer2DModel": [
        of_picture(),
        times("time_condition_embed.time_proj", ("time_condition_embed.condition_proj", "size")),
    ],
    "GlmImageTransformer2DModel": [
        of_picture(),
        times("time_condition_embed.time_proj", ("time_condition_embed.condition_proj", "size")),
    ],
    "CogView3PlusTransformer2DModel": [
        cogview3,
        times("time_condition_embed.time_proj", ("time_condition_embed.condition_proj", "size")),
    ],
    "CosmosTransformer3DModel": [cosmos, times("time_embed.time_proj")],
    "LTXVideoTransformer3DModel": [ltx, times("time_embed.emb.time_proj")],
    "LTX2VideoTransformer3DModel": [
        ltx2,
        times(
            "time_embed.emb.time_proj",
            ("audio_time_embed.emb.time_proj", "timestep.audio"),
            ("av_cross_attn_video_scale_shift.emb.time_proj", "timestep.cross"),
        ),
    ],
    "SanaWMLTX2RefinerTransformer3DModel": [
        ltx2,
        times(
            "time_embed.emb.time_proj",
            ("audio_time_embed.emb.time_proj", "timestep.audio"),
            ("av_cross_attn_video_scale_shift.emb.time_proj", "timestep.cross"),
        ),
    ],
    "Kandinsky5Transformer3DModel": [kandinsky5],
    "Kandinsky6Transformer3DModel": [
        kandinsky6,
        times(
            "video_time_embeddings.time_proj", ("audio_time_embeddings.time_proj", "timestep.audio")
        ),
    ],
    "Kandinsky6SRTransformer3DModel": [kandinsky6, times("time_embeddings.time_proj")],
    "Ideogram4Transformer2DModel": [mrope("rotary_emb"), ideogram_time],
    "Cosmos3OmniTransformer": [mrope("rotary_emb"), times("time_proj", shares=True)],
    "MiniMaxH3Transformer3DModel": [of_ids("rope", VIDEOS), times("time_proj")],
    "OmniGenTransformer2DModel": [omnigen, times("time_proj")],
    "AceStepTransformer1DModel": [
        one_axis(
            lambda m, n: flat(
                *ace_step_transformer._ace_step_rotary_freqs(
                    n, m.head_dim, m.rope_theta, CPU, torch.float32
                )
            )
        ),
        times("time_embed.time_sinusoid", ("time_embed_r.time_sinusoid", "timestep.r")),
    ],
    "StableAudioDiTModel": [
        one_axis(
            lambda m, n: flat(
                *library.get_1d_rotary_pos_embed(
                    m.config.attention_head_dim // 2, n, use_real=True, repeat_interleave_real=False
                )
            )
        ),
        tables(("time_proj.weight", "timestep")),
    ],
    "StableAudio3DiTModel": [
        one_axis(lambda m, n: flat(m.rotary_pos_emb(n, CPU).cos(), m.rotary_pos_emb(n, CPU).sin())),
        times("timestep_features", shares=True),
    ],
    "MiniMaxMusic3Transformer1DModel": [
        one_axis(lambda m, n: flat(*m.rotary_emb(n, CPU))),
        tables(("time_proj.weight", "timestep")),
    ],
    "MiniMaxMusic3RVQDepthDecoder": [tables(("pos_embedding.weight", "learned"))],
    "LongCatAudioDiTTransformer": [
        one_axis(lambda m, n: flat(*m.rotary_embed(torch.zeros(1, n, 1)))),
        times("time_embed.time_embed", shares=True),
    ],
    "MochiTransformer3DModel": [
        tables(("pos_frequencies", "rotary")),
        times("time_embed.time_proj"),
    ],
    "LuminaNextDiT2DModel": [lumina_next, times("time_caption_embed.time_proj", shares=True)],
    "DiTTransformer2DModel": [
        patches(),
        times(("transformer_blocks.0.norm1.emb.time_proj", "timestep")),
    ],
    "PixArtTransformer2DModel": [
        patches(),
        times(
            "adaln_single.emb.time_proj",
            ("adaln_single.emb.additional_condition_proj", "resolution"),
        ),
    ],
    "LatteTransformer3DModel": [latte, times("adaln_single.emb.time_proj")],
    "SanaTransformer2DModel": [
        patches("patch_embed"),
        times(
            "time_embed.emb.time_proj",
            "time_embed.time_proj",
            ("time_embed.guidance_condition_proj", "guidance"),
        ),
    ],
    "SD3Transformer2DModel": [patches(), times(TTE)],
    "AuraFlowTransformer2DModel": [
        tables(("pos_embed.pos_embed", "learned")),
        times("time_step_embed", shares=True),
    ],
    "PriorTransformer": [tables(("positional_embedding", "learned")), times("time_proj")],
    "T5FilmDecoder": [
        tables(("position_encoding.weight", "learned")),
        through(
            lambda m, t: t5_film_transformer.get_timestep_embedding(
                t * m.config.max_decoder_noise_time,
                embedding_dim=m.config.d_model,
                max_period=m.config.max_decoder_noise_time,
            )
        ),
    ],
    "Transformer2DModel": [transformer_2d],
    "TransformerTemporalModel": [temporal],
    "DreamLiteTransformer2DModel": [],
    "RFD4ProteinaTransformer": [
        through(lambda m, t: proteina.get_rfd4_time_embedding(t, m.config.t_emb_dim))
    ],
}

# One layer is enough.
FEWER = (
    "num_layers",
    "num_single_layers",
    "num_refiner_layers",
    "num_hidden_layers",
    "depth",
    "n_layers",
    "num_visual_blocks",
    "num_text_blocks",
    "dit_depth",
    "nlayers",
    "num_mmdit_layers",
    "num_single_dit_layers",
    "mmdit_layers",
    "n_refiner_layers",
    "num_decoder_layers",
)


def main() -> None:
    without_weights()
    arrays: dict[str, Any] = {}
    cases, failed = [], []
    for name in sys.argv[2:] or CHECKS:
        cls = getattr(diffusers, name, None) or getattr(diffusers.models.transformers, name)
        known, own = inspect.signature(cls.__init__).parameters, CONFIGS[name]
        for listed in [{}, *own["changes"]]:
            change = {key: None if each == "none" else each for key, each in listed.items()}
            fewer = {key: 1 for key in FEWER if key in known and name not in MODULATED}
            config = fewer | own.get("needed", {}) | change
            try:
                with torch.no_grad():
                    model = cls(**config)
                    found = [each for check in CHECKS[name] for each in check(model)]
            except Exception as error:  # noqa: BLE001
                failed.append(f"{name} {change}: {type(error).__name__}: {error}"[:200])
                cases.append({"config": {"_class_name": name, **change}, "unbuilt": failed[-1]})
                continue
            sent = {"_class_name": name, **config}
            cases += [{"config": sent, "nothing": True}] * (not found)
            for id_, asked, expected in found:
                case = {"config": sent, "id": id_, "asked": asked}
                if isinstance(expected, list):
                    case["shape"] = expected
                else:
                    case["arrays"] = {part: f"{len(cases)}.{part}" for part in expected}
                    arrays |= {
                        f"{len(cases)}.{part}": np.asarray(each) for part, each in expected.items()
                    }
                cases.append(case)
    np.savez_compressed(sys.argv[1], cases=json.dumps(cases), **arrays)
    print(len(cases), "cases;", len(failed), "configs were not built", *failed, sep="\n")


# The layers of these are counted in a table.
MODULATED = {"ChromaTransformer2DModel"}

if __name__ == "__main__":
    main()
