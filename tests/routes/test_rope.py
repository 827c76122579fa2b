"""``/rope`` through HTTP: tables in every packing, and applied results."""

import io
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from tests.client import Client

NPY = {"Content-Type": "application/x-npy"}
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}


def npy(answer: httpx.Response) -> NDArray[Any]:
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


def saved(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_every_packing_has_its_shape(client: Client) -> None:
    shapes = {
        "pair": (6, 4, 2),
        "complex": (6, 4),
        "flat": (6, 8),
        "concat": (6, 8),
        "sin_concat": (6, 8),
        "compact": (6, 4),
        "half": (6, 8),
        "interleaved": (6, 8),
    }
    for pack, shape in shapes.items():
        part = "&part=cos" if pack in {"compact", "half", "interleaved"} else ""
        answer = client.get(f"/rope.npy?head_dim=8&seq_len=6&pack={pack}{part}")
        assert npy(answer).shape == shape


def test_two_arrays_come_whole_as_safetensors(client: Client) -> None:
    answer = client.get("/rope.safetensors?head_dim=8&seq_len=6&pack=half")

    loaded = safetensors.numpy.load(answer.content)

    assert set(loaded) == {"cos", "sin"}
    assert loaded["cos"][:, :4].tolist() == loaded["cos"][:, 4:].tolist()


def test_a_format_for_one_array_says_how_to_ask_for_one(client: Client) -> None:
    answer = client.get("/rope.npy?head_dim=8&seq_len=6&pack=half")

    assert answer.status_code == 422
    assert "part=cos|sin" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "rotary_dim"),
    [
        ("head_dim=128", 128),
        ("head_dim=128&rotary_dim=64", 64),
        ("head_dim=80&partial_rotary_factor=0.4", 32),
        ("rotary_dim=16", 16),
        ("inv_freq=1,0.5,0.25", 6),
        ("head_dim=64&inv_freq=1,0.5", 4),
    ],
)
def test_the_rotary_part_is_named_in_the_answer(
    client: Client, query: str, rotary_dim: int
) -> None:
    content = client.get(f"/rope?{query}&seq_len=1").json()

    assert content["parameters"]["rotary_dim"] == rotary_dim
    assert content["shape"] == [1, rotary_dim // 2, 2]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("", "head_dim"),
        ("partial_rotary_factor=0.5", "head_dim"),
        ("head_dim=7", "head_dim"),
        ("head_dim=8&rotary_dim=16", "rotary_dim"),
        ("head_dim=8&rotary_dim=3", "rotary_dim"),
        ("head_dim=10&partial_rotary_factor=0.5", "partial_rotary_factor"),
        ("head_dim=8&rotary_dim=4&partial_rotary_factor=0.5", "partial_rotary_factor"),
        ("head_dim=8&partial_rotary_factor=0", "partial_rotary_factor"),
        ("inv_freq=1,0.5&rope_theta=10000", "rope_theta"),
        ("inv_freq=1,0.5&rope_type=default", "rope_type"),
        ("inv_freq=-1", "inv_freq"),
        ("inv_freq=1e19", "inv_freq"),
        ("inv_freq=1,0.5&rotary_dim=6", "inv_freq"),
        ("inv_freq=1,0.5&head_dim=2", "inv_freq"),
        ("head_dim=8&pack=complex&dtype=bfloat16", "dtype"),
        ("head_dim=8&part=cos", "part"),
        ("head_dim=8&rope_type=yarn", "rope_type"),
        ("head_dim=8&rope_theta=0.5", "rope_theta"),
    ],
)
def test_impossible_combinations_name_the_parameter(
    client: Client, query: str, parameter: str
) -> None:
    answer = client.get(f"/rope?{query}&seq_len=1")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_queries_of_any_leading_axes_are_rotated(client: Client, dtype: str, layout: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(dtype)
    angle = np.arange(9, 14)[:, np.newaxis] * 10000.0 ** (-np.arange(0, 8, 2) / 8)
    pairs = {
        "interleaved": (np.s_[..., 0:8:2], np.s_[..., 1:8:2]),
        "half": (np.s_[..., 0:4:1], np.s_[..., 4:8:1]),
    }
    first, second = pairs[layout]
    wide = x.astype(np.float64)
    expected = np.empty_like(wide)
    expected[first] = wide[first] * np.cos(angle) - wide[second] * np.sin(angle)
    expected[second] = wide[second] * np.cos(angle) + wide[first] * np.sin(angle)

    out = npy(client.post(f"/rope/apply?start=9&layout={layout}", content=saved(x), headers=NPY))

    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    assert np.abs(out - expected).max() <= np.finfo(dtype).eps * 4


def test_queries_and_keys_are_sent_together_in_bfloat16(client: Client) -> None:
    q = np.linspace(-1, 1, 4 * 2 * 8).reshape(4, 2, 8).astype(ml_dtypes.bfloat16)
    k = np.linspace(1, 2, 1 * 2 * 8).reshape(1, 2, 8).astype(ml_dtypes.bfloat16)
    body = safetensors.numpy.save({"q": q, "k": k})

    answer = client.post("/rope/apply?positions=7,100", content=body, headers=SAFETENSORS)

    assert answer.status_code == 200, answer.text
    views = dict(safetensors.deserialize(answer.content))  # type: ignore[no-untyped-call]
    assert {name: view["dtype"] for name, view in views.items()} == {"q": "BF16", "k": "BF16"}
    alone = client.post(
        "/rope/apply?positions=7,100",
        content=safetensors.numpy.save({"k": k}),
        headers=SAFETENSORS,
    )
    (single,) = safetensors.deserialize(alone.content)  # type: ignore[no-untyped-call]
    assert bytes(single[1]["data"]) == bytes(views["k"]["data"])


def test_the_inverse_returns_the_input(client: Client) -> None:
    x = np.random.default_rng(1).standard_normal((6, 12))
    url = "/rope/apply?rotary_dim=8&layout=half&start=1000"

    there = npy(client.post(url, content=saved(x), headers=NPY))
    back = npy(client.post(f"{url}&inverse=true", content=saved(there), headers=NPY))

    assert np.abs(back - x).max() < 1e-14
    assert there[:, 8:].tobytes() == x[:, 8:].tobytes()


def test_json_takes_parameters_beside_the_array(client: Client) -> None:
    body = {"x": [[1, 2, 3, 4], [1, 2, 3, 4]], "positions": [5, 3], "layout": "half"}

    content = client.post("/rope/apply", json=body).json()

    assert content["parameters"]["positions"] == "5,3"
    assert content["parameters"]["layout"] == "half"
    assert content["shape"] == [2, 4]


def test_a_parameter_in_query_and_body_is_given_twice(client: Client) -> None:
    answer = client.post("/rope/apply?start=1", json={"x": [[1, 2]], "start": 1})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "start"


def test_the_answer_comes_in_the_format_asked_for(client: Client) -> None:
    x = saved(np.ones((2, 4), dtype=np.float32))

    by_accept = client.post("/rope/apply", content=x, headers={**NPY, "Accept": "application/json"})
    by_extension = client.post("/rope/apply.safetensors", content=x, headers=NPY)

    assert by_accept.headers["Content-Type"] == "application/json"
    assert by_extension.headers["Content-Type"] == "application/vnd.safetensors"


def test_a_head_that_is_not_as_said_is_refused(client: Client) -> None:
    answer = client.post("/rope/apply?head_dim=8", content=saved(np.ones((2, 4))), headers=NPY)

    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "")


def test_several_arrays_in_a_format_for_one_get_no_advice_that_fails(client: Client) -> None:
    body = safetensors.numpy.save({"q": np.ones((1, 2)), "k": np.ones((1, 2))})

    answer = client.post("/rope/apply.npy", content=body, headers=SAFETENSORS)

    assert answer.status_code == 422
    assert "part" not in answer.json()["detail"]
    assert "safetensors" in answer.json()["detail"]


def test_the_tensor_that_does_not_fit_is_named(client: Client) -> None:
    body = safetensors.numpy.save({"q": np.ones((1, 8)), "k": np.ones((1, 16))})

    answer = client.post("/rope/apply?head_dim=8", content=body, headers=SAFETENSORS)

    assert answer.json()["detail"].startswith("k: the last axis has 16 channels")


@pytest.mark.parametrize(
    ("query", "value"),
    [("head_dim=10&partial_rotary_factor=0.5", "0.5"), ("head_dim=7", "7")],
)
def test_the_value_of_a_fault_is_what_was_sent(client: Client, query: str, value: str) -> None:
    answer = client.get(f"/rope?{query}&seq_len=1")

    assert answer.json()["errors"][0]["value"] == value


@pytest.mark.parametrize("query", ["head_dim=65537", "rotary_dim=65538", "rope_theta=1e301"])
def test_bounds_hold(client: Client, query: str) -> None:
    assert client.get(f"/rope?{query}&seq_len=1").status_code == 422


def test_a_list_of_frequencies_is_bounded(client: Client) -> None:
    answer = client.post("/rope", json={"seq_len": 1, "inv_freq": [0.5] * 32_769})

    assert answer.status_code == 422
    assert "no longer than 32768" in answer.json()["detail"]
