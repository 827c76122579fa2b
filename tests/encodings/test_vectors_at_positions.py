"""Vectors at sent positions: which axes of an array they count."""

from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from tests.client import Client

Body = dict[str, NDArray[Any]]

_ROPE = "/rope/apply.safetensors?rope_theta=100"
_SUM = "/encoding/apply.safetensors?"
_RNG = np.random.default_rng(3)
X = _RNG.standard_normal((2, 5, 3, 8))
IDS = np.array([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])


def sent(client: Client, url: str, body: Body) -> Any:
    tensors = {name: np.ascontiguousarray(array) for name, array in body.items()}
    headers = {"Content-Type": "application/vnd.safetensors"}
    return client.post(url, content=safetensors.numpy.save(tensors), headers=headers)


def transformed(client: Client, url: str, body: Body) -> Body:
    answer = sent(client, url, body)
    assert answer.status_code == 200, answer.text
    return dict(safetensors.numpy.load(answer.content))


@pytest.mark.parametrize("url", [_ROPE, _SUM])
@pytest.mark.parametrize(
    ("axes", "order"),
    [
        ("batch,seq,head,channel", (0, 1, 2, 3)),
        ("batch,head,seq,channel", (0, 2, 1, 3)),
        ("head,seq,batch,channel", (2, 1, 0, 3)),
        ("channel,seq,head,batch", (3, 1, 2, 0)),
        ("seq,channel,batch,head", (1, 3, 0, 2)),
    ],
)
def test_each_sequence_has_its_own_positions_in_any_order_of_axes(
    client: Client, url: str, axes: str, order: tuple[int, ...]
) -> None:
    body = {"x": X.transpose(order), "positions": IDS}
    found = transformed(client, f"{url}&axes={axes}", body)["x"].transpose(np.argsort(order))

    for row, ids in enumerate(IDS):
        listed = f"{url}&axes=seq,head,channel&positions={','.join(map(str, ids))}"
        assert (found[row] == transformed(client, listed, {"x": X[row]})["x"]).all()


@pytest.mark.parametrize("name", ["positions", "position_ids"])
@pytest.mark.parametrize("ids", [IDS[0], IDS[:1]])
def test_positions_of_one_sequence_are_those_of_all(
    client: Client, name: str, ids: NDArray[Any]
) -> None:
    url = f"{_ROPE}&axes=batch,seq,head,channel"

    found = transformed(client, url, {"x": X, name: ids})
    each = transformed(client, url, {"x": X, "positions": np.stack([IDS[0]] * 2)})

    assert (found["x"] == each["x"]).all()


def test_queries_and_keys_of_other_head_counts_share_positions(client: Client) -> None:
    url = f"{_ROPE}&axes=batch,seq,head,channel"
    found = transformed(client, url, {"q": X, "k": X[:, :, :1], "position_ids": IDS})

    assert set(found) == {"q", "k"}
    assert (found["q"][:, :, :1] == found["k"]).all()


def test_several_axes_of_ids_rotate_by_section(client: Client) -> None:
    url = f"{_ROPE}&mrope_section=1,1,2&layout=half&axes=batch,seq,head,channel"
    ids = np.stack([IDS, IDS * 2, IDS + 3])

    found = transformed(client, url, {"x": X, "position_ids": ids})["x"]

    for row in range(2):
        lists = [
            f"positions_{axis}={','.join(map(str, ids[k, row]))}" for k, axis in enumerate("thw")
        ]
        listed = f"{_ROPE}&mrope_section=1,1,2&layout=half&axes=seq,head,channel&{'&'.join(lists)}"
        assert (found[row] == transformed(client, listed, {"x": X[row]})["x"]).all()


def test_packed_tokens_restart_at_the_ends_of_sequences(client: Client) -> None:
    url = f"{_ROPE}&axes=token,head,channel"
    ends = np.array([0, 2, 5], dtype=np.int32)

    found = transformed(client, url, {"x": X[0], "cu_seqlens": ends})["x"]

    assert (found == transformed(client, f"{url}&positions=0,1,0,1,2", {"x": X[0]})["x"]).all()


def test_fractions_rotate_by_the_exact_angle(client: Client) -> None:
    found = transformed(
        client, f"{_ROPE}&axes=seq,head,channel", {"x": X[0], "positions": np.arange(5) / 4}
    )["x"]
    pairs = X[0].view(np.complex128)
    angles = np.arange(5)[:, None, None] / 4 * 100.0 ** (-np.arange(4) / 4)

    assert np.abs(found.view(np.complex128) - pairs * np.exp(1j * angles)).max() < 1e-14


@pytest.mark.parametrize(
    ("axes", "ids", "said"),
    [
        ("batch,seq,head,channel", IDS[:, :4], "4 positions, and the axis seq has 5"),
        ("batch,head,seq,channel", IDS, "5 positions, and the axis seq has 3"),
        ("batch,seq,head,channel", np.stack([IDS[0]] * 3), "the axis batch has 2"),
        ("head,seq,any,channel", IDS, "and seq: send axes=head,seq,batch,channel"),
        ("batch,token,head,channel", IDS, "and seq: send axes=batch,seq,head,channel"),
        ("batch,seq,head,channel", np.stack([IDS] * 3), "mrope_section or an axial convention"),
    ],
)
def test_positions_that_do_not_fit_the_axes_are_refused(
    client: Client, axes: str, ids: NDArray[Any], said: str
) -> None:
    answer = sent(client, f"{_ROPE}&axes={axes}", {"x": X, "positions": ids})

    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_channels_with_angles_of_their_own_are_turned_as_hunyuan_does(client: Client) -> None:
    ids = np.random.default_rng(4).integers(0, 90, (4, 2, 5))
    own = "mrope_layout=hunyuan_vl&mrope_section=1,1,1,1&rope_theta=100"
    url = f"/rope/apply.safetensors?{own}&layout=half&axes=batch,seq,head,channel"

    found = transformed(client, url, {"x": X, "positions": ids})["x"]

    cos, sin = (
        transformed(
            client, f"/rope.safetensors?{own}&head_dim=8&pack=half&part={part}", {"positions": ids}
        )
        for part in ("cos", "sin")
    )
    turned = np.concatenate([-X[..., 4:], X[..., :4]], -1)
    expected = X * cos["cos"][:, :, None] + turned * sin["sin"][:, :, None]
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-7)
