"""x-transformers: rotary angles and rotations of interleaved pairs, and ALiBi."""

from loop import Unsupported, parameters_of, serve, width_of

from importlib.metadata import version

import torch
from x_transformers.x_transformers import AlibiPositionalBias, RotaryEmbedding, apply_rotary_pos_emb

KEYS = ("head_dim", "rotary_dim", "partial_rotary_factor", "rope_theta", "rope_type", "factor")


def alibi(case):
    given = parameters_of(case, "num_heads", "convention", "query_len", "key_len")
    bias = AlibiPositionalBias(given["num_heads"])
    if case["resource"] == "/relative/alibi/slopes":
        return bias.slopes.flatten()
    if given.get("convention") != "x-transformers":
        raise Unsupported("its own convention alone")
    return bias.forward_custom_pos(*(torch.arange(given[n]) for n in ("query_len", "key_len")))


def answer(case):
    if case["kind"] == "array":
        return {"dtype": "float32", "arrays": {"array": alibi(case)}}
    given = parameters_of(case, *KEYS, "layout")
    if case["resource"] not in {"/rope", "/rope/apply"} or given.get("layout") == "half":
        raise Unsupported("interleaved pairs of one axis alone")
    scale = {"interpolation_factor": given.get("factor", 1.0), "base": given["rope_theta"]}
    angles, _ = RotaryEmbedding(width_of(given), **scale)(torch.tensor(case["positions"]))
    if case["kind"] == "rotate":
        rotated = apply_rotary_pos_emb(torch.tensor(case["x"])[None], angles)[0]
        return {"dtype": "float32", "arrays": {"rotated": rotated}}
    arrays = {"cos": angles[0].cos(), "sin": angles[0].sin()}
    return {"dtype": "float32", "pack": "interleaved", "arrays": arrays}


offers = {"kinds": ["table", "rotate", "array"], "rope_types": ["default", "linear"]}
offers["resources"] = ["/relative/alibi", "/relative/alibi/slopes"]
serve("x-transformers", version("x-transformers"), answer, **offers)
