"""Axial and M-RoPE tables against the numbers of transformers' own modules.

``modules.json`` has the cosines and sines that the rotary modules of transformers 5.23.0 return for
small configurations and grids, in float32, under the names of the modules; those of V-JEPA 2, which
returns none, were read out by rotating unit vectors.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client import Client, load_npy

MODULES: dict[str, Any] = json.loads(Path(__file__).with_name("modules.json").read_text())


@pytest.mark.parametrize("module", MODULES)
def test_a_table_has_the_cosines_and_sines_of_its_module(client: Client, module: str) -> None:
    expected = MODULES[module]

    for part in ("cos", "sin"):
        url = f"{expected['url']}&part={part}&dtype=float64"
        assert load_npy(client.get(url)) == pytest.approx(np.array(expected[part]), abs=3e-6)


HUNYUAN = "head_dim=16&mrope_layout=hunyuan_vl&mrope_section=2,2,2,2"


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        (f"{HUNYUAN}&seq_len=4", "pack"),
        (f"{HUNYUAN}&seq_len=4&pack=interleaved", "pack"),
        (f"{HUNYUAN}&grid=1,2,2&pack=half", "grid"),
        (f"{HUNYUAN}&positions_t=1&positions_h=1&positions_w=1&pack=half", "positions_p"),
        ("head_dim=16&mrope_section=4,2,2&mrope_layout=ernie4_5_vl&seq_len=4", "mrope_section"),
        ("head_dim=16&mrope_section=4,4&seq_len=4", "mrope_section"),
        ("head_dim=16&mrope_section=4,4&mrope_layout=neomme&grid=1,2,3", "grid"),
        ("head_dim=16&mrope_section=4,4&mrope_layout=neomme&positions_t=1", "positions_t"),
        ("head_dim=16&mrope_layout=neomme&seq_len=4", "mrope_layout"),
        ("head_dim=16&mrope_section=4,2,2&positions_p=1", "positions_p"),
    ],
)
def test_what_a_layout_cannot_have_is_refused_by_name(
    client: Client, query: str, parameter: str
) -> None:
    response = client.get(f"/rope?{query}")

    assert response.status_code == 422
    assert [fault["parameter"] for fault in response.json()["errors"]] == [parameter]


@pytest.mark.parametrize(
    ("query", "parameter"), [("", "layout"), ("&layout=half&inverse=true", "inverse")]
)
def test_channels_with_angles_of_their_own_have_halves_and_no_inverse(
    client: Client, query: str, parameter: str
) -> None:
    response = client.post(f"/rope/apply?{HUNYUAN}{query}", json={"x": [[1.0] * 16]})

    assert response.status_code == 422
    assert [fault["parameter"] for fault in response.json()["errors"]] == [parameter]


def test_a_grid_has_the_axes_of_its_layout(client: Client) -> None:
    url = "/rope.npy?head_dim=16&mrope_section=4,4&mrope_layout=neomme&pack=half&part=cos"

    grid = client.get(f"{url}&grid=2,3").content

    listed = client.get(f"{url}&positions_h=0,0,0,1,1,1&positions_w=0,1,2,0,1,2").content
    assert load_npy(client.get(f"{url}&grid=2,3")).shape == (6, 16)
    assert grid == listed


def test_text_has_the_plain_table_in_every_layout(client: Client) -> None:
    plain = client.get("/rope.npy?head_dim=16&seq_len=9&pack=half&part=sin").content

    sections = {"ernie4_5_vl": "3,3,2", "neomme": "4,4", "hunyuan_vl": "2,2,2,2"}
    for layout, section in sections.items():
        url = f"/rope.npy?head_dim=16&mrope_layout={layout}&mrope_section={section}"
        assert client.get(f"{url}&seq_len=9&pack=half&part=sin").content == plain


def test_half_by_axis_holds_the_channels_of_each_axis_together(client: Client) -> None:
    url = "/rope/axial.npy?convention=cogvideox&head_dim=16&grid=2,2,3&part=sin&pack"

    compact = load_npy(client.get(f"{url}=compact"))
    by_axis = load_npy(client.get(f"{url}=half_by_axis"))

    t, h, w = compact[:, :2], compact[:, 2:5], compact[:, 5:]
    assert (by_axis == np.concatenate([t, t, h, h, w, w], axis=1)).all()
    flat = "/rope.npy?head_dim=8&seq_len=5&part=cos&pack"
    half = client.get(f"{flat}=half").content
    assert client.get(f"{flat}=half_by_axis").content == half
    axes = "/rope.npy?head_dim=8&mrope_section=1,1,2&grid=2,2,2&part=cos&pack"
    compact = load_npy(client.get(f"{axes}=compact"))
    t, h, w = compact[:, :1], compact[:, 1:2], compact[:, 2:]
    by_axis = load_npy(client.get(f"{axes}=half_by_axis"))
    assert (by_axis == np.concatenate([t, t, h, h, w, w], axis=1)).all()
