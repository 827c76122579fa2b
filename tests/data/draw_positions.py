"""The pictures of position ids: each is a request, or several, to ``/positions``."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from service.app import create_app
from service.formats.drawing import draw
from service.formats.png import AxisLabels, Picture
from service.settings import default_settings
from tests.client import Client, client_of

Array = NDArray[Any]
Ask = Callable[..., Mapping[str, Array]]

PROMPT = json.loads((Path(__file__).parents[2] / "examples/prompt.json").read_text())
VIDEO = {"text": 4}, {"video": [6, 4, 4], "seconds_per_grid": 1.5}, {"text": 8}


@contextmanager
def asking() -> Iterator[Ask]:
    """Ask an application in this process for arrays of positions."""
    with client_of(create_app(default_settings())) as client:
        yield lambda **body: _arrays(client, body)


def _arrays(client: Client, body: Mapping[str, Any]) -> Mapping[str, Array]:
    answer = client.post("/positions.safetensors", json=body)
    assert answer.status_code == 200, answer.text
    return safetensors.numpy.load(answer.content)


def _lines(*arrays: Array) -> Array:
    """Return arrays of which the last axis is that of tokens, one below the other."""
    rows = [row for array in arrays for row in array.reshape(-1, array.shape[-1])]
    lines = np.full((len(rows), max(map(len, rows))), np.nan)
    for line, row in zip(lines, rows, strict=True):
        line[: len(row)] = row
    return lines


def _shown(ids: Array, mask: Array) -> Array:
    """Return ids (axes, rows, tokens), row by row and axis by axis, without those of padding."""
    return _lines(np.where(mask == 0, np.nan, ids).swapaxes(0, 1))


def _multimodal(ask: Ask) -> tuple[str, str, str, Array]:
    found = ask(**PROMPT)
    lines = _shown(found["position_ids"], found["attention_mask"])
    return "qwen2_5_vl", "t, h, w of row 0, then of row 1", "token", lines


def _rules(ask: Ask) -> tuple[str, str, str, Array]:
    names = "transformers-5", "transformers-4", "vllm"
    own = {"convention": "qwen2_5_vl", "part": "position_ids", "rows": [VIDEO]}
    ids = [ask(**own, rules=name)["position_ids"][0] for name in names]
    title = "t of a video of 6 frames, 1.5 seconds apart, by rules"
    return title, "transformers-5, transformers-4, vllm", "token", _lines(*ids)


def _cache(ask: Ask) -> tuple[str, str, str, Array]:
    rows = {"convention": "qwen2_vl", "rows": [[{"text": 6}, {"image": [1, 4, 8]}, {"text": 6}]]}
    whole = ask(**rows, steps=6)
    late = ask(**rows, past_length=10, part="position_ids")["position_ids"]
    lines = _lines(whole["position_ids"], late, whole["decode_position_ids"])
    first = whole["position_ids"].shape[-1]
    shifted = np.full((9, first + 6), np.nan)
    shifted[:3, :first], shifted[3:6, 10:first] = lines[:3, :first], late[:, 0]
    shifted[6:, first:] = whole["decode_position_ids"][:, 0]
    return "qwen2_vl", "t, h, w: prompt; from past_length=10; decoded", "token", shifted


DRAWN: Mapping[str, Callable[[Ask], tuple[str, str, str, Array]]] = MappingProxyType(
    {
        "positions_multimodal": _multimodal,
        "positions_rules": _rules,
        "positions_cache": _cache,
    }
)
"""What each picture shows: title, the names of both axes, ids."""


def served(name: str) -> bytes:
    """Draw a picture."""
    with asking() as ask:
        title, down, across, ids = DRAWN[name](ask)
    labels = [AxisLabels(*each) for each in ((down, np.arange(len(ids))), (across, np.arange(ids.shape[1])))]
    return draw(Picture(f"/positions: {title}", *labels, ids, "position"))
