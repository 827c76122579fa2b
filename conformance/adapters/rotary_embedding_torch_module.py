"""rotary-embedding-torch: rotary angles, and rotations of interleaved pairs."""

from loop import Unsupported, parameters_of, serve, width_of

from importlib.metadata import version

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

KEYS = ("head_dim", "rotary_dim", "partial_rotary_factor", "rope_theta", "rope_type", "factor")


def answer(case):
    given = parameters_of(case, *KEYS, "layout")
    if case["resource"] not in {"/rope", "/rope/apply"} or given.get("layout") == "half":
        raise Unsupported("interleaved pairs of one axis alone")
    factor = given.get("factor", 1.0)
    rope = RotaryEmbedding(width_of(given), theta=given["rope_theta"], interpolate_factor=factor)
    # What its own get_seq_pos does with consecutive positions.
    positions = torch.tensor(case["positions"], dtype=torch.float32) / rope.interpolate_factor
    angles = rope(positions).detach()
    if case["kind"] == "rotate":
        rotated = apply_rotary_emb(angles, torch.tensor(case["x"]))
        return {"dtype": "float32", "arrays": {"rotated": rotated}}
    arrays = {"cos": angles.cos(), "sin": angles.sin()}
    return {"dtype": "float32", "pack": "interleaved", "arrays": arrays}


offers = {"kinds": ["table", "rotate"], "rope_types": ["default", "linear"]}
serve("rotary-embedding-torch", version("rotary-embedding-torch"), answer, **offers)
