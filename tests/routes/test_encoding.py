"""``/encoding`` through HTTP: the worked numbers."""

import io
import json

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.client import Client

ROBOT = [
    [0, 1, 0, 1],
    [0.84147098, 0.54030231, 0.09983342, 0.99500417],
    [0.90929743, -0.41614684, 0.19866933, 0.98006658],
    [0.14112001, -0.9899925, 0.29552021, 0.95533649],
]


def npy(answer: httpx.Response) -> NDArray[np.float64]:
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


def test_i_am_a_robot_as_json_and_as_npy(client: Client) -> None:
    url = "/encoding{}?seq_len=4&d_model=4&base=100&dtype=float64"

    data = np.array(client.get(url.format("")).json()["data"])

    assert data.round(8).tolist() == ROBOT
    assert npy(client.get(url.format(".npy"))).tolist() == data.tolist()


def test_i_am_good_plus_its_embeddings(client: Client) -> None:
    """L = 3, d = 4, n = 10000: the matrix P that is added element by element to X."""
    x = [[0.1, 0.2, 0.3, 0.4], [1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 1.0, 0.5]]
    p = np.array(client.get("/encoding?seq_len=3&d_model=4&dtype=float64").json()["data"])

    total = client.post("/encoding/apply", json={"x": x}).json()

    assert p[1].round(8).tolist() == [0.84147098, 0.54030231, 0.00999983, 0.99995000]
    assert total["data"] == (np.array(x) + p).tolist()
    assert total["dtype"] == "float64"


@pytest.mark.parametrize(
    ("query", "shape", "dtype"),
    [
        ("seq_len=50&d_model=512", (50, 512), "float32"),
        ("seq_len=100&d_model=512", (100, 512), "float32"),
        ("seq_len=100&d_model=512&batch=true", (1, 100, 512), "float32"),
        ("seq_len=512&d_model=768&dtype=float16", (512, 768), "float16"),
        ("positions=5,0,9:20:2&d_model=7&dtype=float64", (8, 7), "float64"),
    ],
)
def test_shapes_and_types_are_those_asked_for(
    client: Client, query: str, shape: tuple[int, ...], dtype: str
) -> None:
    answer = client.get(f"/encoding.npy?{query}")

    assert (npy(answer).shape, npy(answer).dtype.name) == (shape, dtype)
    assert answer.headers["Array-Shape"] == ", ".join(map(str, shape))
    assert answer.headers["Array-Dtype"] == dtype


def test_a_curve_of_one_dimension_is_a_column_and_of_one_position_a_row(client: Client) -> None:
    whole = npy(client.get("/encoding.npy?seq_len=40&d_model=16&dtype=float64"))
    row = npy(client.get("/encoding.npy?positions=17&d_model=16&dtype=float64"))

    assert row[0].tolist() == whole[17].tolist()
    assert np.abs(whole[:, 0] - np.sin(np.arange(40))).max() < 1e-14


def test_a_far_position_is_as_good_as_a_near_one(client: Client) -> None:
    (row,) = npy(client.get(f"/encoding.npy?start={2**62}&seq_len=1&d_model=2&dtype=float64"))

    assert row.tolist() == [-0.7029224436192089, -0.7112665029764864]


def test_frequencies_and_wavelengths_come_together_or_alone(client: Client) -> None:
    both = client.get("/encoding/frequencies?d_model=4&base=100").json()
    alone = client.get("/encoding/frequencies.npy?d_model=4&base=100&part=wavelength")

    assert both["data"]["frequency"] == [1.0, 0.1]
    assert both["data"]["wavelength"] == [6.283185307179586, 62.83185307179586]
    assert npy(alone).tolist() == both["data"]["wavelength"]


def test_the_answer_names_the_convention(client: Client) -> None:
    parameters = client.get("/encoding?seq_len=1&d_model=3").json()["parameters"]

    assert parameters == {
        "convention": "vaswani",
        "d_model": 3,
        "base": 10000.0,
        "layout": "interleaved",
        "start": 0,
        "seq_len": 1,
        "batch": False,
    }


def test_embeddings_of_any_format_keep_their_type_and_shape(client: Client) -> None:
    x = np.linspace(-1, 1, 2 * 5 * 8, dtype=np.float32).reshape(2, 5, 8)
    stream = io.BytesIO()
    np.save(stream, x)

    answer = client.post(
        "/encoding/apply?start=3&scale_embeddings=true",
        content=stream.getvalue(),
        headers={"Content-Type": "application/x-npy"},
    )

    table = npy(client.get("/encoding.npy?start=3&seq_len=5&d_model=8&dtype=float64"))
    expected = (x.astype(np.float64) * 8**0.5 + table).astype(np.float32)
    assert npy(answer).tobytes() == expected.tobytes()
    assert answer.headers["Content-Type"] == "application/x-npy"


def test_json_answers_are_documents(client: Client) -> None:
    content = json.loads(client.get("/encoding.json?seq_len=2&d_model=2").content)

    assert list(content) == ["kind", "parameters", "shape", "dtype", "data"]


@pytest.mark.parametrize("positions", [f"{-(2**62)},{2**62}", f"{2**62},{-(2**62)}"])
def test_the_farthest_positions_go_together(client: Client, positions: str) -> None:
    rows = npy(client.get(f"/encoding.npy?positions={positions}&d_model=2&dtype=float64"))

    assert rows[0, 0] == -rows[1, 0]


def test_results_that_json_cannot_say_are_refused_with_what_can(client: Client) -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([[np.nan, 1.0], [np.inf, 2.0]]))
    headers = {"Content-Type": "application/x-npy"}

    as_json = client.post("/encoding/apply.json", content=stream.getvalue(), headers=headers)
    as_npy = client.post("/encoding/apply", content=stream.getvalue(), headers=headers)

    assert as_json.status_code == 422
    assert "these formats can: npy, safetensors, bin" in as_json.json()["detail"]
    assert np.isnan(npy(as_npy)[0, 0])
