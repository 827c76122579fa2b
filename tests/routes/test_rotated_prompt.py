"""From a prompt with pictures to rotated queries: the numbers are those of the model's own code."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from tests.client import Client

ROOT = Path(__file__).parents[2]
PROMPT = json.loads((ROOT / "examples/prompt.json").read_text())
EXPECTED = np.load(ROOT / "tests/data/rotated_prompt.npz")
ROPE = {"head_dim": 128, "rope_theta": 1000000, "mrope_section": "16,24,24"}
AXES = "batch,head,seq,channel"
BINARY = {"Content-Type": "application/vnd.safetensors"}
# The angles of the library are float32, and lie below 21.
TOLERANCE = 4e-6


def posted(client: Client, path: str, **options: Any) -> tuple[bytes, dict[str, Any]]:
    answer = client.post(f"{path}.safetensors", **options)
    assert answer.status_code == 200, answer.text
    return answer.content, safetensors.numpy.load(answer.content)


def test_ids_of_a_prompt_rotate_queries_as_the_model_does(client: Client) -> None:
    file, ids = posted(client, "/positions", json=PROMPT)
    for name in ("position_ids", "rope_deltas", "attention_mask"):
        np.testing.assert_array_equal(ids[name], EXPECTED[name])

    shape = EXPECTED["q"].shape
    q = (7919 * np.arange(np.prod(shape)) % 2048 - 1024).astype(np.float32).reshape(shape) / 1024
    _, table = posted(client, "/rope", params=ROPE | {"pack": "half"}, content=file, headers=BINARY)
    body = safetensors.numpy.save(ids | {"q": q})
    _, answer = posted(
        client,
        "/rope/apply",
        params=ROPE | {"axes": AXES, "layout": "half"},
        content=body,
        headers=BINARY,
    )

    half = np.concatenate((-q[..., 64:], q[..., :64]), axis=-1)
    cos, sin = table["cos"][:, None], table["sin"][:, None]
    np.testing.assert_allclose(q * cos + half * sin, EXPECTED["q"], rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(answer["q"], EXPECTED["q"], rtol=0, atol=TOLERANCE)
