"""rotary-embedding-torch: tables and rotations of xPos."""

from loop import Unsupported, parameters_of, serve

from importlib.metadata import version

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

KEYS = ("head_dim", "rope_theta", "layout", "xpos", "xpos_centre", "xpos_scale_base")


def answer(case):
    given = parameters_of(case, *KEYS)
    if "xpos" not in given:
        raise Unsupported("xPos alone")
    base = given.get("xpos_scale_base", 512)
    keys = {"theta": given["rope_theta"], "use_xpos": True, "xpos_scale_base": base}
    rope, positions = RotaryEmbedding(given["head_dim"], **keys), torch.tensor(case["positions"])
    centred = torch.zeros(2 * given["xpos_centre"])  # Half its length is the centre.
    centred[: len(positions)] = positions
    scale = rope.get_scale(centred)[: len(positions)]
    scale = scale if given["xpos"] == "query" else scale**-1
    angles = rope(positions.float()).detach()
    if case["kind"] == "rotate":
        rotated = apply_rotary_emb(angles, torch.tensor(case["x"]), scale=scale)
        return {"dtype": "float32", "arrays": {"rotated": rotated}}
    arrays = {"cos": angles.cos() * scale, "sin": angles.sin() * scale}
    return {"dtype": "float32", "pack": "interleaved", "arrays": arrays}


offers = {"kinds": ["table", "rotate"], "rope_types": ["default"], "resources": []}
serve("rotary-embedding-torch", version("rotary-embedding-torch"), answer, **offers)
