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
Shown = tuple[str, str, str, Array]
"""The content of a picture: its title, the names of both axes, and ids."""

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


def _multimodal(ask: Ask) -> Shown:
    found = ask(**PROMPT)
    lines = _shown(found["position_ids"], found["attention_mask"])
    return "qwen2_5_vl", "t, h, w of row 0, then of row 1", "token", lines


def _rules(ask: Ask) -> Shown:
    names = "transformers-5", "transformers-4", "vllm"
    own = {"convention": "qwen2_5_vl", "part": "position_ids", "rows": [VIDEO]}
    ids = [ask(**own, rules=name)["position_ids"][0] for name in names]
    title = "t of a video of 6 frames, 1.5 seconds apart, by rules"
    return title, "transformers-5, transformers-4, vllm", "token", _lines(*ids)


def _cache(ask: Ask) -> Shown:
    rows = {"convention": "qwen2_vl", "rows": [[{"text": 6}, {"image": [1, 4, 8]}, {"text": 6}]]}
    whole = ask(**rows, steps=6)
    late = ask(**rows, past_length=10, part="position_ids")["position_ids"]
    lines = _lines(whole["position_ids"], late, whole["decode_position_ids"])
    first = whole["position_ids"].shape[-1]
    shifted = np.full((9, first + 6), np.nan)
    shifted[:3, :first], shifted[3:6, 10:first] = lines[:3, :first], late[:, 0]
    shifted[6:, first:] = whole["decode_position_ids"][:, 0]
    return "qwen2_vl", "t, h, w: prompt; from past_length=10; decoded", "token", shifted


def _padding(ask: Ask) -> Shown:
    rows = [[{"pad": 4}, {"text": 8}], [{"text": 8}, {"pad": 4}]]
    names = "mask", "arange", "padding_idx", "opt"
    keys = {"padding_idx": {"padding_idx": 1}}
    ids = [ask(convention=each, rows=rows, **keys.get(each, {}))["position_ids"] for each in names]
    title = "a row padded on the left, and one padded on the right"
    return title, "mask, arange, padding_idx, opt: two rows each", "token", _lines(*ids)


def _packed(ask: Ask) -> Shown:
    found = ask(convention="packed", lengths=[5, 3, 8])
    lines = _lines(found["position_ids"], found["seq_idx"])
    return "packed", "position_ids, seq_idx", "token", lines


def _merged(ask: Ask) -> Shown:
    rows, columns = ask(convention="vision_grid", grids=[[1, 8, 12]])["position_ids"]
    order = np.empty((8, 12))
    order[rows, columns] = np.arange(96)
    return "vision_grid: the number of each patch", "row of patches", "column of patches", order


def _windows(ask: Ask) -> Shown:
    index = ask(convention="vision_windows", grids=[[1, 18, 26]])["window_index"]
    order = np.empty(9 * 13)
    order[index] = np.arange(9 * 13)
    title = "vision_windows: the number of each merged patch, window by window"
    return title, "row of merged patches", "column of merged patches", order.reshape(9, 13)


def _buckets(ask: Ask) -> Shown:
    ids = ask(convention="buckets", num_patches_per_side=16, sizes=[[20, 30]])["position_ids"]
    title = "buckets: the row of a table of 16 by 16 for each patch"
    return title, "row of patches", "column of patches", ids.reshape(20, 30).astype(float)


def _generated(ask: Ask) -> Shown:
    sizes = [[4, 6], [2, 3]]
    found = [ask(convention=each, text=4, sizes=sizes) for each in ("flux", "flux2")]
    found.append(ask(convention="qwen_image", text=4, grids=[[1, *each] for each in sizes]))
    lines = _lines(*(each["position_ids"] for each in found))
    title = "text, a picture of 4 by 6 and a reference of 2 by 3"
    return title, "flux: t, h, w; flux2: t, h, w, l; qwen_image: t, h, w", "token", lines


def _seconds(ask: Ask) -> Shown:
    found = ask(convention="ltx2", grids=[[6, 2, 2]])
    lines = _lines(*(found[name][0] for name in ("starts", "position_ids", "ends")))
    return "ltx2: seconds of the patches of a video", "starts, middles, ends", "patch", lines


def _woven(ask: Ask) -> Shown:
    video = {"video": [4, 4, 4], "seconds_per_grid": 1, "audio": 200}
    rows = [[{"text": 2}, video, {"text": 4}]]
    names = "qwen2_5_omni", "qwen3_omni"
    ids = [ask(convention=each, rows=rows, part="position_ids")["position_ids"] for each in names]
    title = "a video of 4 frames, a second apart, woven with 2 seconds of audio"
    return title, "qwen2_5_omni: t, h, w; qwen3_omni: t, h, w", "token", _lines(*ids)


def _hunyuan(ask: Ask) -> Shown:
    images = {"image": [1, 4, 8]}, {"text": 3}, {"image": [1, 6, 4]}, {"text": 2}
    found = ask(convention="hunyuan_vl", rows=[[{"text": 3}, *images]])
    title = "hunyuan_vl: two images, of 2 by 4 and of 3 by 2 merged patches"
    return title, "p, w, h, t", "token", _lines(found["position_ids"])


def _decoded(ask: Ask) -> Shown:
    row = [{"text": 4}, {"image": [1, 3, 4]}, {"text": 3}, {"generate": [2, 3]}]
    found = ask(convention="glm_image", rows=[[*row, {"generate": [4, 6]}]])
    first, steps = (found[name][:, 0] for name in ("position_ids", "decode_position_ids"))
    lines = _lines(first, np.hstack([np.full(first.shape, np.nan), steps]))
    title = "glm_image: a prompt with an image, then images of 4 by 6 and of 2 by 3"
    return title, "t, h, w: prompt; decoded", "token", lines


def _canvas(ask: Ask) -> Shown:
    picture = {"image": [1, 24, 32], "slices": [[[16, 20]] * 2] * 2}
    rows = [[{"text": 4}, picture, {"text": 4}]]
    found = ask(convention="minicpmv4_7", rows=rows)
    title = "minicpmv4_7: a thumbnail of 6 by 8 merged patches, and 2 by 2 slices of 4 by 5"
    return title, "t, h, w", "token", _lines(found["position_ids"])


def _cells(ask: Ask) -> Shown:
    # A question of 5 tokens, then three cells of each row.
    cells = [(0, 0)] * 5
    for row, lengths in enumerate(((2, 3, 1), (4, 1, 3)), 1):
        cells += [(column, row) for column, length in enumerate(lengths, 1) for _ in range(length)]
    types = np.zeros((1, len(cells), 7), dtype=np.int64)
    types[0, :, 1:3] = cells
    most = {"convention": "cell", "max_position_embeddings": 512}
    ids = ask(**most, token_type_ids=types.tolist())["position_ids"]
    title = "cell: a question and the cells of two rows of a table"
    return title, "position_ids, column, row", "token", _lines(ids, types[0, :, 1:3].T)


def _steps(ask: Ask) -> Shown:
    rows = [[{"text": 4}, {"image": [1, 4, 4]}, {"text": 4}]]
    ids = [
        ask(convention="v2pe", rows=rows, delta=delta, part="position_ids")["position_ids"]
        for delta in (1, 0.5, 0.25, 0.0625)
    ]
    return "v2pe: an image of 16 tokens", "delta = 1, 1/2, 1/4, 1/16", "token", _lines(*ids)


DRAWN: Mapping[str, Callable[[Ask], Shown]] = MappingProxyType(
    {
        "positions_padding": _padding,
        "positions_packed": _packed,
        "positions_multimodal": _multimodal,
        "positions_rules": _rules,
        "positions_woven": _woven,
        "positions_hunyuan": _hunyuan,
        "positions_canvas": _canvas,
        "positions_cells": _cells,
        "positions_steps": _steps,
        "positions_cache": _cache,
        "positions_decoded": _decoded,
        "positions_merged": _merged,
        "positions_windows": _windows,
        "positions_buckets": _buckets,
        "positions_generated": _generated,
        "positions_seconds": _seconds,
    }
)


def served(name: str) -> bytes:
    """Draw a picture."""
    with asking() as ask:
        title, down, across, ids = DRAWN[name](ask)
    rows, columns = map(np.arange, ids.shape)
    labels = AxisLabels(down, rows), AxisLabels(across, columns)
    return draw(Picture(f"/positions: {title}", *labels, ids[..., np.newaxis], "position"))
