"""diffusers: rotary tables of several axes, of CogVideoX, Lumina, Flux and Wan."""

from loop import Unsupported, parameters_of, serve

import diffusers
import torch
from diffusers.models import embeddings as of
from diffusers.models.transformers.transformer_flux import FluxPosEmbed
from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed

IDS = ("positions_t", "positions_h", "positions_w")
THETA = 10000


def cogvideox(head_dim, grid):
    frames, *sizes = grid
    return of.get_3d_rotary_pos_embed(head_dim, ((0, 0), sizes), sizes, frames)


def lumina(head_dim, grid):
    turns = of.get_2d_rotary_pos_embed_lumina(head_dim, *grid).flatten(0, 1)
    return turns.real, turns.imag


def flux(axes_dim, **ids):
    return FluxPosEmbed(THETA, axes_dim)(torch.tensor([ids[name] for name in IDS]).T)


def wan(head_dim, grid):
    cos, sin = WanRotaryPosEmbed(head_dim, (1, 1, 1), 1024)(torch.zeros(1, 1, *grid))
    return cos[0, :, 0], sin[0, :, 0]


def answer(case):
    given = dict(parameters_of(case, "convention", "head_dim", "grid", "axes_dim", *IDS))
    made = {each.__name__: each for each in (cogvideox, lumina, flux, wan)}
    convention = given.pop("convention", "")
    if convention not in made:
        raise Unsupported(convention or case["resource"])
    cos, sin = made[convention](**given)
    pack = "compact" if convention == "lumina" else "interleaved"
    return {"dtype": "float32", "pack": pack, "arrays": {"cos": cos, "sin": sin}}


offers = {"kinds": ["table"], "rope_types": [], "resources": ["/rope/axial"]}
serve("diffusers", diffusers.__version__, answer, **offers)
