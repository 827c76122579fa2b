"""mlx, or mlx-lm if that is the argument: rotations; a table is that of pairs (1, 0)."""

from loop import Unsupported, config_of, parameters_of, serve, width_of

import sys
from importlib.metadata import version

import mlx.core as mx
from mlx import nn
from mlx_lm.models.rope_utils import initialize_rope

NAME = sys.argv[1] if len(sys.argv) > 1 else "mlx"
RULES = ["default", "linear", "dynamic", "llama3", "yarn", "longrope", "proportional"]
KEYS = ("head_dim", "rotary_dim", "partial_rotary_factor", "rope_theta", "rope_type", "factor")


def rope_of(given, width, *, pairs):
    base, most = given["rope_theta"], given.get("max_position_embeddings", 131072)
    if NAME == "mlx":
        return nn.RoPE(width, traditional=pairs, base=base, scale=1 / given.get("factor", 1))
    if given.get("rope_type") == "yarn" and "factor" not in given:
        raise Unsupported("yarn without a factor")
    return initialize_rope(width, base, pairs, given, most)


def answer(case):
    given = parameters_of(case, *KEYS, "layout") if NAME == "mlx" else config_of(case)
    if case["resource"] not in {"/rope", "/rope/apply"} or "positions" not in case:
        raise Unsupported(case["resource"])
    rule, positions = given.get("rope_type", "default"), case["positions"]
    width = given["head_dim"] if rule == "proportional" else width_of(given)
    x = mx.array(case.get("x", [[1.0] * (width // 2) + [0.0] * (width // 2)] * len(positions)))
    rope = rope_of(given, width, pairs=given.get("layout") == "interleaved")
    if rule == "dynamic":  # It depends on the length of what is rotated.
        rotated = rope(mx.repeat(x[None, :1], max(positions) + 1, axis=1))[0][mx.array(positions)]
    else:
        rows = [rope(x[None, ..., s : s + 1, :], offset=at)[0] for s, at in enumerate(positions)]
        rotated = mx.concatenate(rows, axis=-2)
    if case["kind"] == "rotate":
        return {"dtype": "float32", "arrays": {"rotated": rotated}}
    arrays = {"cos": rotated[:, : width // 2], "sin": rotated[:, width // 2 :]}
    return {"dtype": "float32", "arrays": arrays}


offers = {"kinds": ["table", "rotate"], "rope_types": RULES[:2] if NAME == "mlx" else RULES}
serve(NAME, version(NAME), answer, **offers)
