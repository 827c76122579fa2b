"""Queries and keys of images and videos, rotated by the tables of ``/rope/axial``."""

from collections import Counter
from urllib.parse import parse_qsl

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from service.encodings.rotary.axial_conventions import CONVENTIONS
from tests.client import Client, load_npy, npy_bytes

NPY = {"Content-Type": "application/x-npy"}
APPLY = "/rope/axial/apply"


def rotated_by_hand(
    x: NDArray[np.float64], table: dict[str, NDArray[np.float64]], layout: str, blocks: list[int]
) -> NDArray[np.float64]:
    """Rotate the channels of x, (tokens, channels), by a table in the pack of the layout."""
    turned = np.empty_like(x)
    if layout == "interleaved":
        turned[:, 0::2], turned[:, 1::2] = -x[:, 1::2], x[:, 0::2]
    else:
        first = 0
        for width in blocks if layout == "half_by_axis" else [x.shape[1]]:
            middle, last = first + width // 2, first + width
            turned[:, first:middle] = -x[:, middle:last]
            turned[:, middle:last] = x[:, first:middle]
            first = last
    return np.asarray(x * table["cos"] + turned * table["sin"])


@pytest.mark.parametrize("layout", ["interleaved", "half", "half_by_axis"])
@pytest.mark.parametrize("name", list(CONVENTIONS))
def test_the_rotation_is_that_of_the_table(client: Client, name: str, layout: str) -> None:
    known = CONVENTIONS[name]
    query = f"convention={name}&{known.example}"
    if layout == "half" and known.halves_axes:
        pytest.skip("the halves are those of each axis")
    packed = client.get(f"/rope/axial.safetensors?{query}&pack={layout}&dtype=float64")
    if packed.status_code != 200:
        packed = client.get(f"/rope/axial.safetensors?{query}&pack=half&dtype=float64")
    table = safetensors.numpy.load(packed.content)
    of_pairs = client.get(f"/rope/axial/frequencies.json?{frequencies(query)}").json()["data"]
    x = np.random.default_rng(0).standard_normal(table["cos"].shape)

    answer = client.post(f"{APPLY}.npy?{query}&layout={layout}", content=npy_bytes(x), headers=NPY)

    # Pairs that rest come first, as an axis of their own.
    axes = [
        -1 if rate == 0 else axis
        for rate, axis in zip(of_pairs["inv_freq"], of_pairs["axis"], strict=True)
    ]
    blocks = [2 * count for count in Counter(axes).values()]
    assert answer.status_code == 200, answer.text
    assert np.abs(load_npy(answer) - rotated_by_hand(x, table, layout, blocks)).max() < 1e-15


def frequencies(query: str) -> str:
    """Return the part of a query that determines frequencies, with the number of its axes."""
    given = dict(parse_qsl(query))
    axes = len(given["grid"].split(",")) if "grid" in given else 3
    names = ("convention", "head_dim", "axes_dim")
    kept = [f"{name}={given[name]}" for name in names if name in given]
    return "&".join([*kept, f"num_axes={axes}"])


def test_patches_of_heads_are_rotated_in_any_order_of_axes(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((2, 6, 3, 8)).astype(np.float32)
    url = f"{APPLY}.npy?convention=qwen2_vl&layout=half&grid=2,3"

    by_token, by_head = (
        load_npy(client.post(f"{url}&axes={axes}", content=npy_bytes(sent), headers=NPY))
        for axes, sent in (
            ("batch,seq,head,channel", x),
            ("batch,head,seq,channel", x.swapaxes(1, 2)),
        )
    )
    inverse = f"{url}&axes=batch,seq,head,channel&inverse=true"
    back = load_npy(client.post(inverse, content=npy_bytes(by_token), headers=NPY))

    assert (by_token == by_head.swapaxes(1, 2)).all()
    assert np.abs(back - x).max() < 1e-6
    assert np.abs(by_token - x).max() > 0.1


def test_channels_beside_the_rotary_ones_pass(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((6, 16))
    url = f"{APPLY}.npy?convention=pixtral&layout=half&grid=2,3"

    whole = load_npy(client.post(url, content=npy_bytes(x[:, 3:11]), headers=NPY))
    part = f"{url}&head_dim=8&rotary_offset=3"
    partial = load_npy(client.post(part, content=npy_bytes(x), headers=NPY))

    assert (partial[:, 3:11] == whole).all()
    assert (np.delete(partial, np.s_[3:11], 1) == np.delete(x, np.s_[3:11], 1)).all()


def test_other_numbers_of_tokens_are_refused(client: Client) -> None:
    url = f"{APPLY}?convention=qwen2_vl&layout=half&grid=2,3"

    answer = client.post(url, content=npy_bytes(np.ones((5, 8))), headers=NPY)

    assert answer.status_code == 422
    assert "6 positions, and the axis seq has 5" in answer.json()["detail"]


def test_rope_apply_names_the_rotation_of_conventions(client: Client) -> None:
    answer = client.post("/rope/apply", json={"x": [[1.0, 2.0]], "convention": "qwen2_vl"})

    assert answer.status_code == 422
    assert "/rope/axial/apply" in answer.json()["errors"][0]["detail"]
