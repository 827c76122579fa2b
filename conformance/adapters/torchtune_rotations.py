"""torchtune: rotations of interleaved pairs; a table is the rotation of pairs (1, 0)."""

from loop import Unsupported, parameters_of, serve, width_of, without_imports

from importlib.metadata import version

import torch

without_imports("torchtune", "torchtune.modules", "torchtune.models", "torchtune.models.llama3_1")
from torchtune.models.llama3_1._position_embeddings import Llama3ScaledRoPE
from torchtune.modules.position_embeddings import RotaryPositionalEmbeddings

BAND = ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings", "factor")
ITS_BAND = ("low_freq_factor", "high_freq_factor", "old_context_len", "scale_factor")
MOST = 2**18  # Its tables have a row for each position.


def answer(case):
    known = ("head_dim", "rope_theta", "rope_type", "layout", *BAND)
    given, positions = parameters_of(case, *known), torch.tensor(case["positions"])
    if case["resource"] not in {"/rope", "/rope/apply"} or given.get("layout") == "half":
        raise Unsupported("interleaved pairs of one axis alone")
    if not 0 <= min(case["positions"]) <= max(case["positions"]) < MOST:
        raise Unsupported("positions that are rows of a table")
    keys = {"dim": width_of(given), "base": given["rope_theta"], "max_seq_len": MOST}
    if given.get("rope_type") == "llama3":
        rope = Llama3ScaledRoPE(
            **keys, **{k: given[n] for k, n in zip(ITS_BAND, BAND, strict=True)}
        )
    else:
        rope = RotaryPositionalEmbeddings(**keys)
    x = torch.tensor(case.get("x", [[1.0, 0.0] * (keys["dim"] // 2)] * len(positions)))
    heads = x.reshape(1, -1, *x.shape[-2:]).transpose(1, 2)
    rotated = rope(heads, input_pos=positions[None]).transpose(1, 2).reshape(x.shape)
    if case["kind"] == "rotate":
        return {"dtype": "float32", "arrays": {"rotated": rotated}}
    arrays = {"cos": rotated[:, 0::2], "sin": rotated[:, 1::2]}
    return {"dtype": "float32", "pack": "compact", "arrays": arrays}


offers = {"kinds": ["table", "rotate"], "rope_types": ["default", "llama3"]}
serve("torchtune", version("torchtune"), answer, **offers)
