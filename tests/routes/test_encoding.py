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


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_fractions_of_positions_lie_between_their_neighbours(client: Client, layout: str) -> None:
    query = f"d_model=6&layout={layout}&dtype=float64"
    between = npy(client.get(f"/encoding.npy?positions=0,0.25,1&{query}"))
    whole = npy(client.get(f"/encoding.npy?positions=0,1&{query}"))

    assert between[[0, 2]].tobytes() == whole.tobytes()
    assert abs(between[1, 0] - np.sin(0.25)) < 1e-15


def test_canonical_fractions_are_a_list_of_numbers(client: Client) -> None:
    answer = client.get("/encoding?positions=0.50,3,1e-3&d_model=2").json()

    assert answer["parameters"]["positions"] == [0.5, 3.0, 0.001]
    assert answer["shape"] == [3, 2]


def test_a_fraction_with_ranges_is_refused(client: Client) -> None:
    answer = client.get("/encoding?positions=0.5,3:7&d_model=2")

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"], fault["value"]) == (
        *(422, "positions"),
        "0.5,3:7",
    )
    assert "without ranges where some are fractions" in fault["detail"]


def test_embeddings_have_whole_positions(client: Client) -> None:
    answer = client.post("/encoding/apply?positions=0.5", json={"x": [[0.0, 1.0]]})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "positions"


@pytest.mark.parametrize(
    ("text", "length"), [("positions=0,0.5,7", 3), (f"positions={2**62},0.5", 2), ("seq_len=3", 3)]
)
def test_a_table_is_known_by_its_head_and_read_by_ranges(
    client: Client, text: str, length: int
) -> None:
    url = f"/encoding.npy?{text}&d_model=4&convention=mlx"
    whole = client.get(url)

    assert client.head(url).headers["Content-Length"] == str(len(whole.content))
    assert len(whole.content) == 128 + length * 4 * 4
    for first, last in [(0, 5), (127, 140), (len(whole.content) - 7, len(whole.content) - 1)]:
        part = client.get(url, Range=f"bytes={first}-{last}")
        assert (part.status_code, part.content) == (206, whole.content[first : last + 1])


def test_rows_of_perceiver_are_spread_evenly_however_many_there_are(client: Client) -> None:
    url = "/encoding.npy?convention=perceiver&d_model=7&max_resolution=8&dtype=float64&seq_len="
    five, one = npy(client.get(f"{url}5")), npy(client.get(f"{url}1"))

    assert five[:, 0].tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert (
        five[:, 1:4].round(12).tolist()
        == np.sin(np.pi * np.array([1, 2.5, 4]) * five[:, :1]).round(12).tolist()
    )
    assert one[0].tolist() == five[0].tolist()


def test_what_is_a_parameter_of_images_is_said_to_be(client: Client) -> None:
    answer = client.get("/encoding?convention=mae&height=14&seq_len=1&d_model=4")

    assert answer.json()["detail"].endswith("height is a parameter of /encoding/grid")
    other = client.get("/encoding?convention=detr&seq_len=1&d_model=4")
    assert other.json()["detail"].endswith("detr is one of /encoding/grid")


def test_embeddings_have_as_many_channels_as_an_encoding_may(client: Client) -> None:
    widest, wider = ({"x": [[0.0] * width]} for width in (65_536, 65_537))

    assert client.post("/encoding/apply.bin", json=widest).status_code == 200
    refused = client.post("/encoding/apply", json=wider)

    assert (refused.status_code, refused.json()["type"]) == (422, "urn:posref:problem:invalid-body")
    assert refused.json()["detail"] == "x: it has 65537 channels, and at most 65536 are possible"
