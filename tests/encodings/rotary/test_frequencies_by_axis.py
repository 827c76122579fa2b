"""The frequencies of each axis, and the axis of each pair of channels."""

import numpy as np
import pytest

from tests.client import Client, load_npy

URL = "/rope/axial/frequencies"


@pytest.mark.parametrize(
    "query",
    [
        "convention=qwen2_vl&head_dim=16",
        "convention=pixtral&head_dim=16",
        "convention=llama4&head_dim=16",
        "convention=kimi_k25&head_dim=16&rope_theta=100",
        "convention=efficientloftr&head_dim=16&grid_indexing=xy",
        "convention=timm&head_dim=24&num_axes=3&grid_indexing=xy",
        "convention=cogvideox&head_dim=16",
        "convention=flux&axes_dim=2,4,4",
        "convention=timm_pixels&head_dim=16&max_freq=64&linear_bands=true",
        "convention=rotary_embedding_torch_constant&head_dim=8",
        "convention=timm&head_dim=8&inv_freq=1,0.25",
    ],
)
def test_an_axis_and_a_frequency_of_each_pair_give_the_angles_of_the_table(
    client: Client, query: str
) -> None:
    shared, _, axes = query.partition("&num_axes=")
    data = client.get(f"{URL}?{query}").json()["data"]
    order = np.array(data["axis"])
    lengths = (2, 3, 5)[-(order.max() + 1) :]
    grid = ",".join(map(str, lengths))
    rest = axes.partition("&")[2]
    table = f"/rope/axial.npy?{shared}{'&' if rest else ''}{rest}&grid={grid}&pack=angle"
    angles = load_npy(client.get(f"{table}&dtype=float64"))

    rows = angles.reshape(*lengths, -1)
    for pair, (axis, frequency) in enumerate(zip(order, data["inv_freq"], strict=True)):
        along = np.diff(np.moveaxis(rows[..., pair], axis, 0).reshape(lengths[axis], -1)[:, 0])
        step = 2 / (lengths[axis] - 1) if "pixels" in query else 1
        assert along == pytest.approx(step * frequency, rel=1e-12)
        others = np.delete(np.arange(len(lengths)), axis)
        assert np.ptp(rows[..., pair], axis=tuple(others)) == pytest.approx(0, abs=1e-12)
    assert data["wavelength"] == pytest.approx(2 * np.pi / np.array(data["inv_freq"]))


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("convention=cogvideox&head_dim=16&num_axes=2", "num_axes"),
        ("convention=pixtral&head_dim=16&max_freq=10", "max_freq"),
        ("convention=qwen2_vl&head_dim=10", "head_dim"),
        ("convention=dinov3&head_dim=16&min_period=2", "max_period"),
        ("convention=timm&head_dim=8&inv_freq=1,0.5&rope_theta=100", "rope_theta"),
        ("convention=timm&head_dim=8&grid=2,3", "grid"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    client: Client, query: str, parameter: str
) -> None:
    response = client.get(f"{URL}?{query}")

    assert response.status_code == 422
    assert [fault["parameter"] for fault in response.json()["errors"]] == [parameter]
