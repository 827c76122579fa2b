"""diffusers: rotary tables and rotations, sinusoids, timesteps, and grids of patches."""

from loop import Unsupported, parameters_of, serve, width_of

import diffusers
import torch
from diffusers.models import embeddings as of


def table(case, positions):
    given = parameters_of(case, "head_dim", "rope_theta", "rope_type", "factor", "layout")
    if case["resource"] not in {"/rope", "/rope/apply"}:
        raise Unsupported(case["resource"])
    keys = {"theta": given["rope_theta"], "linear_factor": given.get("factor", 1.0)}
    keys |= {"use_real": True, "repeat_interleave_real": given.get("layout") != "half"}
    return of.get_1d_rotary_pos_embed(width_of(given), positions, **keys)


def array(resource, positions, d_model, convention="diffusers", **given):
    if convention != "diffusers":
        raise Unsupported(convention)
    if resource == "/encoding/timesteps":
        return of.get_timestep_embedding(torch.tensor(given.pop("timesteps")), d_model, **given)
    if resource == "/encoding":
        return of.get_1d_sincos_pos_embed_from_grid(d_model, positions, **given)
    size = (given.pop("height"), given.pop("width"))
    if "depth" in given:  # It takes width before height.
        return of.get_3d_sincos_pos_embed(d_model, size[::-1], given.pop("depth"), **given)
    return of.get_2d_sincos_pos_embed(d_model, size, output_type="pt", **given)


def answer(case):
    positions = torch.tensor(case.get("positions", ()))
    if case["kind"] == "array":
        keys = {"d_model": 0} | case["parameters"]
        return {"dtype": "float32", "arrays": {"array": array(case["resource"], positions, **keys)}}
    cos, sin = table(case, positions)
    if case["kind"] == "table":
        return {"dtype": "float32", "pack": "interleaved", "arrays": {"cos": cos, "sin": sin}}
    x, dim = torch.tensor(case["x"]), -2 if case["parameters"]["layout"] == "half" else -1
    rotated = of.apply_rotary_emb(x.reshape(1, -1, *x.shape[-2:]), (cos, sin), True, dim)
    return {"dtype": "float32", "arrays": {"rotated": rotated.reshape(x.shape)}}


offers = {"kinds": ["table", "rotate", "array"], "rope_types": ["default", "linear"]}
offers["resources"] = ["/encoding", "/encoding/timesteps", "/encoding/grid"]
serve("diffusers", diffusers.__version__, answer, **offers)
