# ruff: noqa: INP001
"""Write the ids of a prompt and its rotated queries, as the code of Qwen2.5-VL has them.

    python tools/rotated_prompt.py examples/prompt.json EXPECTED.npz

Needs transformers and torch, and nothing of this project, and no weights: get_rope_index, the
rotary embedding and its application of modeling_qwen2_5_vl.py run one after another, on
queries (2, 2, S, 128) of which element i is ((7919·i mod 2048) − 1024)/1024.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as model
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLTextConfig

HEADS, CHANNELS, MERGED = 2, 128, 4
MEDIA = {"text": 0, "image": 1, "video": 2}
ROPE = {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]}


def types_of(row: list[dict[str, Any]]) -> list[int]:
    """Return the type of each token of a row."""
    types = []
    for segment in row:
        name = next(iter(segment))
        size = segment[name]
        types += [MEDIA[name]] * (size if name == "text" else int(np.prod(size)) // MERGED)
    return types


def main(prompt: Path, expected: Path) -> None:
    """Run the code of the model and write its arrays."""
    asked = json.loads(prompt.read_text())
    rows = [types_of(row) for row in asked["rows"]]
    length = max(map(len, rows))
    pads = [length - len(row) for row in rows]
    types = torch.tensor([[0] * pad + row for pad, row in zip(pads, rows, strict=True)])
    mask = torch.tensor([[0] * pad + [1] * (length - pad) for pad in pads])
    segments = [segment for row in asked["rows"] for segment in row]
    images = torch.tensor([each["image"] for each in segments if "image" in each])
    videos = [each for each in segments if "video" in each]
    vision = SimpleNamespace(spatial_merge_size=2, tokens_per_second=asked["tokens_per_second"])
    own: Any = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    own.get_vision_position_ids = model.Qwen2_5_VLModel.get_vision_position_ids.__get__(own)
    ids, deltas = model.Qwen2_5_VLModel.get_rope_index(
        own,
        input_ids=torch.zeros_like(types),
        mm_token_type_ids=types,
        image_grid_thw=images,
        video_grid_thw=torch.tensor([each["video"] for each in videos]),
        second_per_grid_ts=torch.tensor([each["seconds_per_grid"] for each in videos]),
        attention_mask=mask,
    )
    shape = len(rows), HEADS, length, CHANNELS
    numbers = 7919 * torch.arange(int(np.prod(shape))) % 2048 - 1024
    queries = (numbers.float() / 1024).reshape(shape)
    config = Qwen2_5_VLTextConfig(
        hidden_size=HEADS * CHANNELS, num_attention_heads=HEADS, rope_parameters=ROPE
    )
    cos, sin = model.Qwen2_5_VLRotaryEmbedding(config)(queries, ids)
    rotated, _ = model.apply_rotary_pos_emb(queries, queries, cos, sin)
    arrays = {"position_ids": ids, "rope_deltas": deltas, "attention_mask": mask, "q": rotated}
    np.savez(expected, **{name: array.numpy() for name, array in arrays.items()})


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
