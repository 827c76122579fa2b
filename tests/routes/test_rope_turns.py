"""What turns with which position: one for all frequencies, three of a grid, rounded, growing."""

import io
import json
import struct
from typing import Any

import httpx
import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from service.tables.angle import MAX_POSITION
from tests.client import Client
from tests.exact import UNIT, frequency

NPY = {"Content-Type": "application/x-npy"}
MROPE = "head_dim=16&mrope_section=2,3,3"


def npy(answer: httpx.Response) -> NDArray[Any]:
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


def saved(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def table(client: Client, query: str) -> NDArray[Any]:
    return npy(client.get(f"/rope.npy?{query}&pack=concat&dtype=float64"))


def refused(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["parameter"] for error in answer.json()["errors"]]


@pytest.mark.parametrize("interleaved", ["false", "true"])
@pytest.mark.parametrize("angle", ["exact", "float32"])
def test_text_in_mrope_is_the_plain_table(client: Client, interleaved: str, angle: str) -> None:
    more = f"angle={angle}&positions=0,5,131071"

    ours = table(client, f"{MROPE}&mrope_interleaved={interleaved}&{more}")

    assert ours.tobytes() == table(client, f"head_dim=16&{more}").tobytes()


def test_a_grid_is_its_tokens_one_by_one(client: Client) -> None:
    t, h, w = (",".join(map(str, axis.ravel())) for axis in np.indices((2, 3, 2)))

    for interleaved in ("false", "true"):
        query = f"{MROPE}&mrope_interleaved={interleaved}"
        by_grid = table(client, f"{query}&grid=2,3,2")
        by_lists = table(client, f"{query}&positions_t={t}&positions_h={h}&positions_w={w}")
        assert by_grid.tobytes() == by_lists.tobytes()


@pytest.mark.parametrize(
    ("interleaved", "named"), [("false", "tthhhwww"), ("true", "thwthwhw"), ("true", "thwthwtw")]
)
def test_each_frequency_turns_with_the_position_of_its_axis(
    client: Client, interleaved: str, named: str
) -> None:
    section = ",".join(str(named.count(axis)) for axis in "thw")
    if interleaved == "true":
        # A cycle of three, as far as the sections go.
        counts = {axis: named.count(axis) for axis in "thw"}
        named = "".join("thw"[k % 3] if k < 3 * counts["thw"[k % 3]] else "t" for k in range(8))
    positions = {"t": (3, 100), "h": (7, -5), "w": (0, 4096)}
    lists = "&".join(f"positions_{a}={p[0]},{p[1]}" for a, p in positions.items())

    rows = table(
        client, f"head_dim=16&mrope_section={section}&mrope_interleaved={interleaved}&{lists}"
    )

    for row in range(2):
        for pair, axis in enumerate(named):
            angle = positions[axis][row] * frequency(10000.0, 16, pair)
            assert abs(rows[row, pair] - mpmath.cos(angle)) <= 6 * UNIT
            assert abs(rows[row, 8 + pair] - mpmath.sin(angle)) <= 6 * UNIT


@pytest.mark.parametrize(
    "more",
    [
        "seq_len=3&start=5",
        "grid=2,1,3",
        "positions_t=0:4&positions_h=1,1,2,2&positions_w=0,1,0,1",
        "grid=1,2,2&angle=float32&mrope_interleaved=true",
    ],
)
def test_the_parameters_of_an_answer_ask_for_it_again(client: Client, more: str) -> None:
    answer = client.get(f"/rope?{MROPE}&{more}")

    again = client.post("/rope", json=answer.json()["parameters"])

    assert again.content == answer.content
    assert answer.json()["parameters"]["mrope_section"] == [2, 3, 3]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("head_dim=16&seq_len=1&mrope_interleaved=true", ["mrope_interleaved"]),
        ("head_dim=16&grid=1,2,3", ["grid"]),
        ("head_dim=16&seq_len=1&positions_h=1", ["positions_h"]),
        (f"{MROPE}&positions_t=1&positions_w=1", ["positions_h"]),
        (f"{MROPE}&positions_t=1,2&positions_h=1,2&positions_w=1", ["positions_w"]),
        (f"{MROPE}&grid=1,2,3&seq_len=6", ["seq_len"]),
        (f"{MROPE}&grid=1,2,3&start=6&positions=1", ["start", "positions"]),
        (f"{MROPE}&grid=1,2,3&positions_w=1", ["positions_w"]),
        (f"{MROPE}&positions_t=1&positions_h=1&positions_w=1&seq_len=1", ["seq_len"]),
        (f"{MROPE}&grid=0,2,3", ["grid"]),
        (f"{MROPE}&grid=2,2", ["grid"]),
        (f"{MROPE}&grid=4194304,2097152,2097152", ["grid"]),
        (f"{MROPE}", ["seq_len"]),
        ("head_dim=16&seq_len=1&mrope_section=2,3,4", ["mrope_section"]),
        ("head_dim=16&seq_len=1&mrope_section=-1,5,4", ["mrope_section"]),
        ("head_dim=16&seq_len=1&mrope_section=4,4", ["mrope_section"]),
        (f"{MROPE}&seq_len=1&xpos=query", ["xpos"]),
        (f"{MROPE}&seq_len=1&xpos_centre=4", ["xpos_centre"]),
        ("head_dim=16&seq_len=1&xpos_centre=4", ["xpos_centre"]),
        ("head_dim=16&seq_len=1&xpos_scale_base=4&xpos_centre=4", None),
        ("head_dim=16&seq_len=1&xpos=key&angle=float32", ["angle"]),
        ("head_dim=16&seq_len=1&xpos=key&xpos_scale_base=0.5", ["xpos_scale_base"]),
        ("head_dim=16&seq_len=1&xpos=both", ["xpos"]),
        ("head_dim=16&seq_len=1&angle=float16", ["angle"]),
        (f"head_dim=16&positions={MAX_POSITION}&xpos=key&xpos_centre=0", ["xpos_scale_base"]),
        ("head_dim=16&positions=9000&xpos=key&xpos_centre=0&dtype=float16", ["xpos_scale_base"]),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    client: Client, query: str, named: list[str] | None
) -> None:
    assert refused(client.get(f"/rope?{query}")) == (named or ["xpos_scale_base", "xpos_centre"])


def test_the_value_of_a_fault_is_spelled_as_it_was_sent(client: Client) -> None:
    answer = client.get("/rope?head_dim=16&grid=1,2,3&seq_len=1")

    assert answer.json()["errors"][0]["value"] == "1,2,3"


def test_float32_angles_are_those_of_an_engine(client: Client) -> None:
    """NumPy's float32 arithmetic on frequencies that an engine keeps."""
    inv_freq = (10000.0 ** (-np.arange(0, 16, 2) / 16)).astype(np.float32)
    positions = np.array([1, 4095, 131071, 2**24 + 1], dtype=np.int64)
    given = ",".join(repr(float(value)) for value in inv_freq)
    listed = ",".join(map(str, positions))

    rows = table(client, f"inv_freq={given}&positions={listed}&angle=float32")

    angles = positions.astype(np.float32)[:, np.newaxis] * inv_freq
    for row in range(4):
        for pair in range(8):
            angle = float(angles[row, pair])
            assert abs(rows[row, pair] - mpmath.cos(angle)) <= 6 * UNIT
            assert abs(rows[row, 8 + pair] - mpmath.sin(angle)) <= 6 * UNIT


def test_the_distance_of_float32_angles_is_stated_everywhere(client: Client) -> None:
    url = "head_dim=64&positions=0:3,4090:4096&angle=float32&pack=concat&dtype=float64"
    in_json = client.get(f"/rope.json?{url}")
    in_npy = client.get(f"/rope.npy?{url}")
    in_safetensors = client.get(f"/rope.safetensors?{url}")

    bound = in_json.json()["error_bound"]
    (length,) = struct.unpack("<Q", in_safetensors.content[:8])
    metadata = json.loads(in_safetensors.content[8 : 8 + length])["__metadata__"]

    assert float(metadata["error_bound"]) == bound
    for answer in (in_json, in_npy, in_safetensors, client.head(f"/rope.npy?{url}")):
        assert float(answer.headers["Array-Error-Bound"]) == bound
    exact = npy(client.get(f"/rope.npy?{url}".replace("float32", "exact")))
    assert bound / 10 < np.abs(npy(in_npy) - exact).max() <= bound


def test_the_distance_grows_with_positions_and_includes_the_element_type(client: Client) -> None:
    def bound(query: str) -> float:
        answer = client.get(f"/rope.bin?head_dim=64&angle=float32&{query}")
        return float(answer.headers["Array-Error-Bound"])

    near, far = bound("positions=1&dtype=float64"), bound("positions=100000&dtype=float64")
    assert far > 1e4 * near
    assert bound("positions=1&dtype=bfloat16") > 2.0**-8
    assert bound(f"positions={MAX_POSITION}&dtype=float64") <= 2.0001


@pytest.mark.parametrize("query", ["angle=exact", "xpos=query", "pack=angle"])
def test_only_rounded_sines_are_at_a_distance(client: Client, query: str) -> None:
    answer = client.get(f"/rope?head_dim=8&seq_len=2&{query}")

    assert "Array-Error-Bound" not in answer.headers
    assert "error_bound" not in answer.json()


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("xpos=query", "xpos"),
        ("mrope_section=1024,1024,1", "mrope_section"),
        ("rope_type=ntk&factor=2&mixed_b=0.5", "mixed_b"),
    ],
)
def test_what_costs_more_by_channel_has_fewer(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"/rope.bin?head_dim=4098&seq_len=1&{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


def test_there_is_but_one_zero(client: Client) -> None:
    """Equal parameters name one table, whichever of two equal numbers came first."""
    url = "/rope.bin?angle=float32&pack=angle&seq_len=2&inv_freq="

    negative, positive = client.get(f"{url}-0.0,1"), client.get(f"{url}0,1")

    assert negative.content == positive.content == client.get(f"{url}-0,1").content
    assert negative.headers["ETag"] == positive.headers["ETag"]
    assert negative.content[:4] == bytes(4)


def test_angles_are_at_a_distance_of_their_own(client: Client) -> None:
    url = "/rope?head_dim=8&positions=1099511627777&angle=float32&dtype=float64"

    angles, sines = client.get(f"{url}&pack=angle").json(), client.get(url).json()

    assert sines["error_bound"] < 2.1
    assert angles["error_bound"] > 10_000


def test_only_so_many_angles_are_rounded_as_an_engine_may_have(client: Client) -> None:
    for channels, status in ((1024, 200), (1026, 422)):
        answer = client.get(f"/rope.bin?head_dim={channels}&seq_len=1&angle=float32")
        assert answer.status_code == status
    assert answer.json()["errors"][0]["parameter"] == "angle"


def test_the_distance_of_mrope_is_that_of_all_axes(client: Client) -> None:
    near = "positions_t=0,1&positions_h=0,1&positions_w="
    url = f"/rope.bin?{MROPE}&angle=float32&dtype=float64&{near}"

    bounds = [
        float(client.get(url + positions).headers["Array-Error-Bound"])
        for positions in ("0,1", "0,-100000")
    ]

    assert bounds[1] > 100 * bounds[0]


def test_exact_is_the_angle_unless_given(client: Client) -> None:
    plain = client.get("/rope?head_dim=8&seq_len=2")
    named = client.get("/rope?head_dim=8&seq_len=2&angle=exact")

    assert plain.headers["ETag"] == named.headers["ETag"]
    assert "angle" not in plain.json()["parameters"]


def test_xpos_is_a_growth_around_its_centre(client: Client) -> None:
    url = "head_dim=8&seq_len=5&xpos_centre=2&xpos_scale_base=4"
    plain = table(client, "head_dim=8&seq_len=5")

    query, key = (table(client, f"{url}&xpos={side}") for side in ("query", "key"))

    zeta = (np.arange(0, 8, 2) + 0.4 * 8) / (1.4 * 8)
    growth = np.tile(zeta ** ((np.arange(5)[:, np.newaxis] - 2) / 4), 2)
    assert np.abs(query - plain * growth).max() < 1e-14
    assert np.abs(key - plain / growth).max() < 1e-14
    assert (query[2] == plain[2]).all()


def test_the_centre_of_xpos_is_half_of_the_rows_unless_given(client: Client) -> None:
    parameters = client.get("/rope?head_dim=8&seq_len=7&xpos=query").json()["parameters"]

    assert (parameters["xpos"], parameters["xpos_scale_base"]) == ("query", 512.0)
    assert parameters["xpos_centre"] == 3


@pytest.mark.parametrize("side", ["query", "key"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_growth_past_all_numbers_is_refused_for_arrays_too(
    client: Client, side: str, sign: int
) -> None:
    x = saved(np.ones((1, 8)))
    far = f"xpos={side}&positions={sign * MAX_POSITION}"

    for centre in (0, -sign * MAX_POSITION):
        answer = client.post(f"/rope/apply?{far}&xpos_centre={centre}", content=x, headers=NPY)
        assert refused(answer) == ["xpos_scale_base"]
    near = f"/rope/apply?{far}&xpos_centre={sign * MAX_POSITION}"
    assert np.isfinite(npy(client.post(near, content=x, headers=NPY))).all()


@pytest.mark.parametrize("interleaved", ["false", "true"])
def test_arrays_are_turned_along_three_axes(client: Client, interleaved: str) -> None:
    x = np.random.default_rng(2).standard_normal((2, 6, 20))
    query = f"rotary_dim=16&mrope_section=2,3,3&mrope_interleaved={interleaved}&grid=1,2,3"
    halves = npy(client.get(f"/rope.npy?{query}&pack=compact&part=cos&dtype=float64"))
    sines = npy(client.get(f"/rope.npy?{query}&pack=compact&part=sin&dtype=float64"))

    out = npy(client.post(f"/rope/apply?{query}&layout=half", content=saved(x), headers=NPY))

    first, second = x[..., :8], x[..., 8:16]
    assert np.abs(out[..., :8] - (first * halves - second * sines)).max() < 1e-14
    assert np.abs(out[..., 8:16] - (second * halves + first * sines)).max() < 1e-14
    assert (out[..., 16:] == x[..., 16:]).all()


def test_an_array_has_as_many_rows_as_there_are_tokens(client: Client) -> None:
    x = saved(np.ones((5, 16)))

    answer = client.post(f"/rope/apply?{MROPE}&grid=1,2,3", content=x, headers=NPY)

    assert answer.status_code == 422
    assert "6 rows" in answer.json()["detail"]
