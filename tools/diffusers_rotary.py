# ruff: noqa: D103, INP001, SLF001
"""The rotary tables of the transformer classes of diffusers, computed by their own modules.

Each function takes a model and yields the id of an encoding, the parameters that no config has,
and the arrays of the library by name. ``library_diffusers`` has the classes that each is for.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from diffusers.models import embeddings as library
from diffusers.models.transformers import transformer_wan_animate_2 as wan_animate
from diffusers.pipelines.cogvideo.pipeline_cogvideox import get_resize_crop_region_for_grid

TIMES = [0.0, 0.25, 1.0, 17.0, 999.0]
SHARES = [0.0, 0.001, 0.25, 1.0]
VIDEOS = [(1, 4, 6), (3, 5, 7)]
PICTURES = [(4, 6), (7, 5)]
CPU = torch.device("cpu")
Arrays = dict[str, Any]
Asked = dict[str, Any]
Found = Iterator[tuple[str, Asked, Any]]


def flat(cos: Any, sin: Any) -> Arrays:
    width = cos.shape[-1]
    return {"cos": cos.reshape(-1, width), "sin": sin.reshape(-1, width)}


def complexes(rope: Any) -> Arrays:
    return {"rope": rope.reshape(-1, rope.shape[-1])}


def matrices(rope: Any) -> Arrays:
    """Return (cos, sin) of the matrices [[cos, -sin], [sin, cos]]."""
    pairs = torch.stack([rope[..., 0, 0], rope[..., 1, 0]], dim=-1)
    return {"rope": pairs.reshape(-1, *pairs.shape[-2:])}


def ids(grid: Any, offset: Any = None) -> Any:
    axes = [torch.arange(n) + (offset[k] if offset else 0) for k, n in enumerate(grid)]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(grid))


def same(positions: list[int]) -> tuple[Asked, Any]:
    """Return text positions that are equal along three axes, as parameters and as ids."""
    asked = {f"positions_{axis}": positions for axis in "thw"}
    return asked, torch.tensor([positions] * 3).T


def video_latents(model: Any, grid: Any) -> Any:
    config = model.config
    patch = getattr(config, "patch_size", 1)
    if isinstance(patch, int):
        patch = (getattr(config, "patch_size_t", None) or 1, patch, patch)
    if len(patch) == 2:
        patch = (1, *patch)
    return torch.zeros(1, 1, *(n * p for n, p in zip(grid, patch, strict=True)))


def learned(model: Any, at: str, name: str = "learned") -> Found:
    yield name, {}, list(dict(model.named_parameters(), **dict(model.named_buffers()))[at].shape)


def timesteps(model: Any, at: str, name: str = "timestep", *, shares: bool = False) -> Found:
    values = SHARES if shares else TIMES
    out = model.get_submodule(at)(torch.tensor(values))
    yield name, {"timesteps": values}, {"timesteps": out}


def of_ids(
    at: str,
    grids: Any,
    name: str = "rotary",
    *,
    convert: Any = None,
    offset: Any = None,
    batched: bool = False,
) -> Callable[[Any], Found]:
    def found(model: Any) -> Found:
        for grid in grids:
            places = ids(grid, offset)
            places = places[None] if batched else places
            out = model.get_submodule(at)(places)
            asked = {"grid": list(grid)} | ({"grid_offset": list(offset)} if offset else {})
            yield name, asked, convert(out) if convert else flat(*out)

    return found


def of_video(at: str = "rope", convert: Any = None, name: str = "rotary") -> Callable[[Any], Found]:
    def found(model: Any) -> Found:
        for grid in VIDEOS:
            out = model.get_submodule(at)(video_latents(model, grid))
            yield name, {"grid": list(grid)}, convert(out) if convert else flat(*out)

    return found


def of_picture(at: str = "rope") -> Callable[[Any], Found]:
    def found(model: Any) -> Found:
        for grid in PICTURES:
            latents = video_latents(model, (1, *grid))[:, :, 0]
            yield "rotary", {"grid": list(grid)}, flat(*model.get_submodule(at)(latents))

    return found


def of_one_row(at: str) -> Callable[[Any], Found]:
    """Text whose first axis is 0, and the others equal."""

    def found(model: Any) -> Found:
        places = torch.tensor([[0, i, i] for i in range(5)])
        asked = {"positions_t": [0] * 5, "positions_h": [*range(5)], "positions_w": [*range(5)]}
        yield "rotary.text", asked, flat(*model.get_submodule(at)(places))

    return found


def z_image(text: str, offset: Any) -> Callable[[Any], Found]:
    def found(model: Any) -> Found:
        for name, grid, start in (
            ("rotary", (1, 4, 6), offset(model)),
            (text, (5, 1, 1), (1, 0, 0)),
        ):
            asked = {"grid": list(grid)} | (
                {"grid_offset": list(start)} if name == "rotary" else {}
            )
            if text == "rotary.gist":
                asked.pop("grid_offset", None)
            yield name, asked, complexes(model.rope_embedder(ids(grid, start)))

    return found


def lumina2(model: Any) -> Found:
    length, grid = 5, (4, 6)
    latents = video_latents(model, (1, *grid))[:, :, 0]
    out = model.rope_embedder(latents, torch.ones(1, length, dtype=torch.bool))
    yield "rotary", {"grid": [1, *grid], "grid_offset": [length, 0, 0]}, complexes(out[2])
    yield "rotary.text", {"grid": [length, 1, 1]}, complexes(out[1])


def ernie(model: Any) -> Found:
    angles = model.pos_embed(ids((1, 4, 6), (9, 0, 0))[None].float())
    asked = {"grid": [1, 4, 6], "grid_offset": [9, 0, 0]}
    yield "rotary", asked, flat(angles.cos(), angles.sin())
    angles = model.pos_embed(ids((5, 1, 1))[None].float())
    yield "rotary.text", {"grid": [5, 1, 1]}, flat(angles.cos(), angles.sin())


def qwen(model: Any) -> Found:
    for grid in VIDEOS:
        if getattr(model.config, "use_layer3d_rope", False):
            out = model.pos_embed([[grid, (1, 4, 5)]], 4, device=CPU)
            count = grid[0] * grid[1] * grid[2]
            asked = {"grid": list(grid), "grid_offset": [0, 0, 0]}
            yield "rotary", asked, complexes(out[0][:count])
            asked = {"grid": [1, 4, 5], "grid_offset": [-1, 0, 0]}
            yield "rotary", asked, complexes(out[0][count:])
        else:
            out = model.pos_embed(grid, device=CPU, max_txt_seq_len=4)
            yield "rotary", {"grid": list(grid), "grid_offset": [0, 0, 0]}, complexes(out[0])
        first = max(grid[1] // 2, grid[2] // 2)
        if getattr(model.config, "use_layer3d_rope", False):
            first = max(first, 2, 1)
        asked, _ = same([*range(first, first + 4)])
        yield "rotary.text", asked, complexes(out[1])


def qwen21(model: Any) -> Found:
    mask = torch.tensor([False] * 3 + [True] * 20 + [False] * 2)
    out = model.pos_embed([(1, 4, 5)], mask, CPU)
    yield "rotary", {"grid": [1, 4, 5], "grid_offset": [3, 0, 0]}, complexes(out[mask])
    asked, _ = same([0, 1, 2, 8, 9])
    yield "rotary.text", asked, complexes(out[~mask])


def any_flow(model: Any) -> Found:
    for grid in VIDEOS:
        out = model.rope._forward_full_frame(*grid, CPU)
        yield "rotary", {"grid": list(grid)}, complexes(out)
        if hasattr(model.rope, "_forward_compressed_frame"):
            out = model.rope._forward_compressed_frame(*grid, CPU)
            yield "rotary.compressed", {"grid": list(grid)}, complexes(out)


def sana_wm(model: Any) -> Found:
    if hasattr(model, "rope") and model.config.use_pe:
        for grid in VIDEOS:
            yield "rotary", {"grid": list(grid)}, complexes(model.rope(grid))


def _turned(model: Any, grid: Any, freqs: Any, stride: int = 1) -> Arrays:
    """Turn ones: the results are the complex numbers of the table."""
    width = model.config.dim // model.config.num_heads
    ones = torch.stack([torch.ones(width // 2), torch.zeros(width // 2)], -1).reshape(width)
    rows = ones.expand(1, int(np.prod(grid)), 1, width)
    out = wan_animate.rope_apply(rows, torch.tensor([grid]), freqs, stride)
    return complexes(torch.view_as_complex(out.reshape(-1, width // 2, 2).contiguous()))


def wan_animate_2(model: Any) -> Found:
    config = model.config
    for grid in VIDEOS:
        yield (
            "rotary",
            {"grid": list(grid)},
            _turned(model, grid, model._rope_freqs((0, 0, 0), CPU)),
        )
        kept = (config.refer_offset_t, config.refer_offset_h, config.refer_offset_w)
        offsets = tuple(o if o >= 0 else n for o, n in zip(kept, grid, strict=True))
        rows = _turned(model, grid, model._rope_freqs(offsets, CPU), config.refer_stride)
        yield "rotary.reference", {"grid": list(grid), "grid_offset": list(offsets)}, rows


def chrono_edit(model: Any) -> Found:
    for grid in VIDEOS:
        out = model.rope(video_latents(model, grid))
        yield "rotary", {"grid": list(grid), "grid_step": [1, 1, 1]}, flat(*out)
    out = model.rope(video_latents(model, (2, 4, 6)))
    step = model.config.rope_temporal_skip_len - 1
    yield "rotary", {"grid": [2, 4, 6], "grid_step": [step, 1, 1]}, flat(*out)


def helios(model: Any) -> Found:
    for frames, rows, columns in VIDEOS:
        out = model.rope(torch.arange(7, 7 + frames)[None], rows, columns, CPU)
        out = out.flatten(2).transpose(1, 2)[0]
        cos, sin = out.chunk(2, dim=-1)
        yield "rotary", {"grid": [frames, rows, columns], "grid_offset": [7, 0, 0]}, flat(cos, sin)


def framepack(model: Any) -> Found:
    patch = model.config.patch_size
    for frames, rows, columns in VIDEOS:
        out = model.rope(torch.arange(7, 7 + frames), rows * patch, columns * patch, CPU)
        yield "rotary", {"grid": [frames, rows, columns], "grid_offset": [7, 0, 0]}, flat(*out)


def hunyuan_image(model: Any) -> Found:
    axes = len(model.config.rope_axes_dim)
    for grid in VIDEOS:
        own = grid[-axes:]
        sizes = [n * p for n, p in zip(own, model.config.patch_size, strict=True)]
        yield "rotary", {"grid": list(own)}, flat(*model.rope(torch.zeros(1, 1, *sizes)))


def joy(model: Any) -> Found:
    for grid in VIDEOS:
        picture, text = model.get_rotary_pos_embed(list(grid), 4)
        yield "rotary", {"grid": list(grid)}, flat(*picture)
        if model.config.rope_type == "mrope":
            first = max(grid)
            yield "rotary.text", same([*range(first, first + 4)])[0], flat(*text)


def joy_plus(model: Any) -> Found:
    for frames, rows, columns in VIDEOS:
        out = model._get_rotary_pos_embed_for_range((3, 0, 0), (3 + frames, rows, columns))
        yield "rotary", {"grid": [frames, rows, columns], "grid_offset": [3, 0, 0]}, flat(*out)


def cosmos(model: Any) -> Found:
    for grid, fps in itertools.product(VIDEOS, (None, 16, 30)):
        out = model.rope(video_latents(model, grid), fps=fps)
        yield "rotary", {"grid": list(grid), "fps": fps or 24}, flat(*out)
    if model.config.extra_pos_embed_type == "learnable":
        for axis in "thw":
            yield from learned(model, f"learnable_pos_embed.pos_emb_{axis}", f"patches.{axis}")


def ltx(model: Any) -> Found:
    patch_t, patch = model.config.patch_size_t, model.config.patch_size
    nothing = torch.zeros(1, 1, 1)
    for grid, fps in itertools.product(VIDEOS, (25, 24)):
        out = model.rope(nothing, *grid, rope_interpolation_scale=(8 / fps, 32, 32))
        yield "rotary", {"grid": list(grid), "fps": fps, "grid_offset": [0, 0, 0]}, flat(*out)
    places = ids(VIDEOS[1]).T[None].float()
    step = torch.tensor([8 * patch_t, 32 * patch, 32 * patch]).reshape(1, 3, 1)
    coordinates = places * step
    coordinates[:, 0] = (coordinates[:, 0] - 7).clamp(min=0) / 24
    out = model.rope(nothing, video_coords=coordinates)
    yield "rotary", {"grid": list(VIDEOS[1]), "fps": 24, "grid_offset": [-7, 0, 0]}, flat(*out)


def ltx2(model: Any) -> Found:
    config = model.config

    def rows(pair: Any) -> Arrays:
        cos, sin = pair
        if cos.ndim == 4:
            cos, sin = (each.swapaxes(1, 2).flatten(2) for each in (cos, sin))
        return flat(cos, sin)

    for grid, fps in ((VIDEOS[0], 24.0), (VIDEOS[1], 30.0)):
        sizes = (
            grid[0] * config.patch_size_t,
            grid[1] * config.patch_size,
            grid[2] * config.patch_size,
        )
        places = model.rope.prepare_video_coords(1, *sizes, CPU, fps=fps)
        yield "rotary", {"grid": list(grid), "fps": fps}, rows(model.rope(places))
        every = rows(model.cross_attn_rope(places[:, 0:1]))
        per_frame = {name: each[:: grid[1] * grid[2]] for name, each in every.items()}
        yield "rotary.cross", {"grid": [grid[0]], "fps": fps}, per_frame
    places = model.audio_rope.prepare_audio_coords(1, 6 * config.audio_patch_size_t, CPU)
    yield "rotary.audio", {"grid": [6]}, rows(model.audio_rope(places))
    yield "rotary.cross.audio", {"grid": [6]}, rows(model.cross_attn_audio_rope(places[:, 0:1]))


def kandinsky5(model: Any) -> Found:
    for grid, scale in itertools.product(VIDEOS, ((1.0, 2.0, 2.0), (1.0, 3.16, 3.16))):
        along = [torch.arange(n) for n in grid]
        out = model.visual_rope_embeddings((1, *grid), along, scale)
        yield "rotary", {"grid": list(grid), "interpolation_scale": list(scale)}, matrices(out)
    yield "rotary.text", {"seq_len": 6}, matrices(model.text_rope_embeddings(torch.arange(6)))
    args = torch.outer(torch.tensor(TIMES), model.time_embeddings.freqs)
    out = torch.cat([args.cos(), args.sin()], dim=-1)
    yield "timestep", {"timesteps": TIMES}, {"timesteps": out}


def kandinsky6(model: Any) -> Found:
    scale = tuple(model.config.scale_factor)
    for grid in VIDEOS:
        out = model.visual_rope_embeddings([torch.arange(n) for n in grid], scale)
        yield "rotary", {"grid": list(grid)}, matrices(out)
    if hasattr(model, "audio_rope_embeddings"):
        for name, at in (
            ("audio", "audio_rope"),
            ("text", "video_text_rope"),
            ("text.audio", "audio_text_rope"),
        ):
            out = getattr(model, f"{at}_embeddings")(torch.arange(6))
            yield f"rotary.{name}", {"seq_len": 6}, matrices(out)


def mrope(at: str) -> Callable[[Any], Found]:
    def found(model: Any) -> Found:
        module = model.get_submodule(at)
        for grid in VIDEOS:
            places = ids(grid)
            if at == "rotary_emb" and hasattr(module, "rope_axes_dim"):
                out = module(places.T[:, None], CPU, torch.float32)
                yield "rotary", {"grid": list(grid)}, flat(*out)
            else:
                asked = {f"positions_{a}": places[:, k].tolist() for k, a in enumerate("thw")}
                yield "rotary", asked, flat(*module(places[None]))

    return found


def one_axis(rows: Callable[[Any, int], Arrays]) -> Callable[[Any], Found]:
    def found(model: Any) -> Found:
        for length in (3, 9):
            yield "rotary", {"seq_len": length}, rows(model, length)

    return found


def cog(model: Any) -> Found:
    config = model.config
    rows, columns = (
        config.sample_height // config.patch_size,
        config.sample_width // config.patch_size,
    )
    if not config.use_rotary_positional_embeddings:
        embed, text = model.patch_embed, config.max_text_seq_length
        ratio = config.temporal_compression_ratio
        frames = (config.sample_frames - 1) // ratio + 1
        asked = {"depth": frames, "height": rows, "width": columns}
        yield "sinusoidal", asked, {"encoding": embed.pos_embedding[0, text:]}
        out = embed._get_positional_embeddings(
            4 * config.patch_size, 6 * config.patch_size, 2 * ratio + 1
        )
        yield "sinusoidal", {"depth": 3, "height": 4, "width": 6}, {"encoding": out[0, text:]}
        return
    if config.use_learned_positional_embeddings:
        yield from learned(model, "patch_embed.pos_embedding", "patches.learned")
    for grid in (*VIDEOS, (2, rows, columns), (2, rows + 7, columns - 3)):
        if getattr(config, "patch_size_t", None) is None:
            crops = get_resize_crop_region_for_grid(grid[1:], columns, rows)
            out = library.get_3d_rotary_pos_embed(
                config.attention_head_dim, crops, grid[1:], grid[0]
            )
        else:
            size = (max(rows, grid[1]), max(columns, grid[2]))
            out = library.get_3d_rotary_pos_embed(
                config.attention_head_dim, None, grid[1:], grid[0], grid_type="slice", max_size=size
            )
        yield "rotary", {"grid": list(grid)}, flat(*out)


def easy(model: Any) -> Found:
    for grid in (*VIDEOS, (2, 30, 45), (2, 24, 45), (1, 33, 20)):
        out = model.rope_embedding(video_latents(model, grid)[:, :, : grid[0]])
        yield "rotary", {"grid": list(grid)}, flat(*out)


def allegro(model: Any) -> Found:
    config = model.config
    scales = (
        config.interpolation_scale_t,
        config.interpolation_scale_h,
        config.interpolation_scale_w,
    )
    for grid in VIDEOS:
        freqs = library.get_3d_rotary_pos_embed_allegro(
            config.attention_head_dim, ((0, 0), grid[1:]), grid[1:], grid[0], scales
        )
        places = [each[None] for each in ids(grid).T]
        # What the attention turns: ones in the first half of each axis show the cosines and sines.
        width = config.attention_head_dim
        third = torch.cat([torch.ones(width // 6), torch.zeros(width // 6)])
        ones = third.repeat(3).expand(1, 1, places[0].shape[1], width)
        out = library.apply_rotary_emb_allegro(ones, freqs[:3], places)[0, 0]
        halves = out.reshape(-1, 3, 2, width // 6)
        cos, sin = (halves[:, :, [k, k]].reshape(-1, width) for k in (0, 1))
        yield "rotary", {"grid": list(grid)}, flat(cos, sin)


def lumina_next(model: Any) -> Found:
    head = model.config.hidden_size // model.config.num_attention_heads
    for grid, (linear, ntk) in itertools.product(PICTURES, ((1.0, 1.0), (1.5, 1.0), (1.0, 1.5))):
        out = library.get_2d_rotary_pos_embed_lumina(
            head, 12, 12, linear_factor=linear, ntk_factor=ntk
        )
        asked = {"grid": list(grid), "rope_theta": 10000.0 * ntk, "interpolation_scale": [linear]}
        yield "rotary", asked, complexes(out[: grid[0], : grid[1]])
