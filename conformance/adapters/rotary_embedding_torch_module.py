"""rotary-embedding-torch: angles and rotations; with the argument bfloat16, of such queries."""

from loop import Unsupported, parameters_of, serve, width_of

import sys
from importlib.metadata import version

import torch
from rotary_embedding_torch import RotaryEmbedding

DTYPE = sys.argv[1] if len(sys.argv) > 1 else "float32"
KEYS = ("head_dim", "rotary_dim", "partial_rotary_factor", "rope_theta", "rope_type", "factor")
KEYS += ("layout", "alpha")


def answer(case):
    given, positions = parameters_of(case, *KEYS), case["positions"]
    if case["resource"] not in {"/rope", "/rope/apply"} or given.get("layout") == "half":
        raise Unsupported("interleaved pairs of one axis alone")
    if given.get("rope_type") == "dynamic" and "alpha" not in given:
        raise Unsupported("a fixed alpha alone")
    factors = {"interpolate_factor": given.get("factor", 1.0)}
    factors["theta_rescale_factor"] = given.get("alpha", 1.0)
    rope = RotaryEmbedding(width_of(given), theta=given["rope_theta"], **factors)
    if case["kind"] == "rotate":
        x = torch.zeros(1, max(positions) + 1, given["head_dim"], dtype=getattr(torch, DTYPE))
        x[0, positions] = torch.tensor(case["x"], dtype=x.dtype)
        rotated = rope.rotate_queries_or_keys(x)[0, positions]
        return {"dtype": DTYPE, "arrays": {"rotated": rotated.detach()}}
    # What its own get_seq_pos does with consecutive positions.
    angles = rope(torch.tensor(positions, dtype=torch.float32) / rope.interpolate_factor).detach()
    arrays = {"cos": angles.cos(), "sin": angles.sin()}
    return {"dtype": "float32", "pack": "interleaved", "arrays": arrays}


kinds = ["table", "rotate"] if DTYPE == "float32" else ["rotate"]
name = " ".join(["rotary-embedding-torch", *sys.argv[1:]])
offers = {"kinds": kinds, "rope_types": ["default", "linear", "dynamic"], "resources": []}
serve(name, version("rotary-embedding-torch"), answer, **offers)
