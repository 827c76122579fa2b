"""x-transformers: rotary angles, and rotations of interleaved pairs."""

from loop import Unsupported, parameters_of, serve, width_of

from importlib.metadata import version

import torch
from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

KEYS = ("head_dim", "rotary_dim", "partial_rotary_factor", "rope_theta", "rope_type", "factor")
KEYS += ("alpha",)


def answer(case):
    given = parameters_of(case, *KEYS, "layout")
    if case["resource"] not in {"/rope", "/rope/apply"} or given.get("layout") == "half":
        raise Unsupported("interleaved pairs of one axis alone")
    scale = {"interpolation_factor": given.get("factor", 1.0), "base": given["rope_theta"]}
    if given.get("rope_type") == "dynamic":
        if "alpha" not in given:
            raise Unsupported("a fixed alpha alone")
        scale["base_rescale_factor"] = given["alpha"]
    angles, _ = RotaryEmbedding(width_of(given), **scale)(torch.tensor(case["positions"]))
    if case["kind"] == "rotate":
        rotated = apply_rotary_pos_emb(torch.tensor(case["x"])[None], angles)[0]
        return {"dtype": "float32", "arrays": {"rotated": rotated}}
    arrays = {"cos": angles[0].cos(), "sin": angles[0].sin()}
    return {"dtype": "float32", "pack": "interleaved", "arrays": arrays}


offers = {
    "kinds": ["table", "rotate"],
    "rope_types": ["default", "linear", "dynamic"],
    "resources": [],
}
serve("x-transformers", version("x-transformers"), answer, **offers)
