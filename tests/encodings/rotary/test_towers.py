"""Axial tables against the numbers of transformers' own modules.

``towers.json`` has the cosines and sines that the rotary modules of transformers 5.23.0 return for
small configurations and grids, in float32, under the names of the modules; those of V-JEPA 2, which
returns none, were read out by rotating unit vectors.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client import Client, load_npy

TOWERS: dict[str, Any] = json.loads(Path(__file__).with_name("towers.json").read_text())


@pytest.mark.parametrize("module", TOWERS)
def test_a_tower_has_the_cosines_and_sines_of_its_module(client: Client, module: str) -> None:
    tower = TOWERS[module]

    for part in ("cos", "sin"):
        url = f"/rope/axial.npy?{tower['query']}&part={part}&dtype=float64"
        assert load_npy(client.get(url)) == pytest.approx(np.array(tower[part]), abs=3e-6)


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
