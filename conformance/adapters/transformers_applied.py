"""transformers: the resized table of ViT, sums of SpeechT5, and ALiBi of MPT."""

from loop import Unsupported, parameters_of, serve

import torch
import transformers
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.speecht5.modeling_speecht5 import SpeechT5ScaledPositionalEncoding
from transformers.models.vit.modeling_vit import ViTEmbeddings


def vit(case):
    given = parameters_of(case, "size", "convention", "num_prefix_tokens")
    if (given.get("convention"), given.get("num_prefix_tokens")) != ("vit", 1):
        raise Unsupported("a table with a class row alone")
    table, (height, width) = torch.tensor([case["x"]]), given["size"]
    sizes = {"image_size": 2, "patch_size": 1, "hidden_size": table.shape[-1]}
    embeddings = ViTEmbeddings(transformers.ViTConfig(**sizes, num_attention_heads=1))
    embeddings.position_embeddings.data = table
    patches = torch.zeros(1, 1 + height * width, table.shape[-1])
    return embeddings.interpolate_pos_encoding(patches, height, width)[0]


def speecht5(case):
    parameters_of(case)
    x, positions = torch.tensor(case["x"]), case["positions"]
    rows = torch.zeros(1, max(positions) + 1, x.shape[-1])
    rows[0, positions] = x  # It takes embeddings of all positions from 0 on.
    return SpeechT5ScaledPositionalEncoding(0.0, x.shape[-1])(rows)[0, positions]


def mpt(case):
    given = parameters_of(case, "convention", "num_heads", "key_len")
    if given.get("convention") != "mpt":
        raise Unsupported(given.get("convention", "slope times key - query"))
    return build_mpt_alibi_tensor(given["num_heads"], given["key_len"])


MADE = {"/resize/apply": vit, "/encoding/apply": speecht5, "/relative/alibi": mpt}


def answer(case):
    array = MADE[case["resource"]](case).detach()
    return {"dtype": "float32", "arrays": {"array": array}}


offers = {"kinds": ["array", "resize"], "resources": [*MADE]}
serve("transformers", transformers.__version__, answer, **offers)
