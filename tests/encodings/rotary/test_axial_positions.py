"""Answers of ``/positions`` as the coordinates of axial tables."""

from typing import Any

import httpx
import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load, save

from tests.client import Client, load_npy, npy_bytes

URL = "/rope/axial.npy?dtype=float64"
FOLLOWED = {"Content-Type": "application/vnd.safetensors"}


def piped(client: Client, url: str, **body: Any) -> httpx.Response:
    """Return the answer to the whole answer of /positions."""
    ids = client.post("/positions.safetensors", json=body)
    assert ids.status_code == 200, ids.text
    return client.post(url, content=ids.content, headers=FOLLOWED)


def sent(client: Client, url: str, positions: Any) -> httpx.Response:
    content = npy_bytes(np.asarray(positions))
    return client.post(url, content=content, headers={"Content-Type": "application/x-npy"})


VIDEO = "head_dim=14&grid=3,2,4&grid_step=8,32,32"
CONDITION = {"grids": [[3, 2, 4]], "fps": 25}


@pytest.mark.parametrize(
    ("query", "body", "grid"),
    [
        (
            "convention=ltx&reference_grid=1",
            {"convention": "ltx", "grids": [[3, 2, 4]], "rope_interpolation_scale": "0.32,32,32"},
            f"convention=ltx&fps=25&{VIDEO}",
        ),
        (
            "convention=ltx&reference_grid=1",
            {"convention": "ltx", "grids": [[3, 2, 4]]},
            "convention=ltx&head_dim=14&grid=3,2,4&reference_grid=1",
        ),
        (
            "convention=ltx&reference_grid=20,2048,2048",
            {"convention": "ltx_condition", **CONDITION},
            f"convention=ltx&fps=25&grid_offset=-7,0,0&{VIDEO}",
        ),
        (
            "convention=ltx2",
            {"convention": "ltx2", **CONDITION},
            f"convention=ltx2&fps=25&grid_offset=-7,0,0&{VIDEO}",
        ),
        (
            "convention=ltx2",
            {"convention": "ltx2_audio", "num_frames": 9},
            "convention=ltx2&head_dim=14&grid=9&grid_step=4&grid_offset=-3&fps=100",
        ),
    ],
)
def test_ids_of_ltx_lead_to_the_table_of_its_grid(
    client: Client, query: str, body: dict[str, Any], grid: str
) -> None:
    answer = piped(client, f"{URL}&head_dim=14&{query}", **body)
    expected = client.get(f"{URL}&{grid}")

    assert (answer.status_code, expected.status_code) == (200, 200), answer.text + expected.text
    # Ids are rounded to float64, and the fastest frequency is 31416.
    assert np.abs(load_npy(answer) - load_npy(expected)).max() < 1e-10


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_no_coordinate_is_rounded(client: Client, kind: type) -> None:
    numbers = np.random.default_rng(5).uniform(-1, 1, (3, 12)) * 2.0 ** np.arange(12)
    positions: NDArray[Any] = numbers.astype(kind)
    query = "convention=ltx&head_dim=24&reference_grid=20,2048,1&pack=compact"
    answer = sent(client, f"/rope/axial.safetensors?dtype=float64&{query}", positions)

    assert answer.status_code == 200, answer.text
    table = load(answer.content)
    with mpmath.workdps(60):
        for (token, channel), cosine in np.ndenumerate(table["cos"]):
            axis, k = channel % 3, channel // 3
            place = mpmath.mpf(positions[axis, token].item()) / (20, 2048, 1)[axis]
            angle = mpmath.pi * mpmath.mpf(10000) ** (mpmath.mpf(k) / 3) * (place - 0.5)
            assert abs(cosine - mpmath.cos(angle)) <= 4 * 2.0**-53
            assert abs(table["sin"][token, channel] - mpmath.sin(angle)) <= 4 * 2.0**-53


def test_repeated_fractions_have_the_rows_that_they_have_alone(client: Client) -> None:
    positions = np.random.default_rng(2).integers(0, 5, (3, 2, 40)) / 7
    url = f"{URL}&convention=ltx2&head_dim=14"

    batch = load_npy(sent(client, url, positions))
    one = load_npy(sent(client, url, positions[:, 1, 7:8]))
    assert batch.shape == (2, 40, 7, 2)
    assert batch[1, 7:8].tobytes() == one.tobytes()


@pytest.mark.parametrize("convention", ["llama4", "efficientloftr"])
def test_the_convention_that_counts_from_1_needs_to_know_where_ids_begin(
    client: Client, convention: str
) -> None:
    url = f"/rope/axial.bin?convention={convention}&head_dim=8"
    body = {"convention": "vision_grid", "grids": [[1, 2, 3]], "spatial_merge_size": 1}
    grid = client.get(f"{url}&grid=2,3")

    (fault,) = piped(client, url, **body).json()["errors"]
    assert fault["parameter"] == "grid_offset"
    assert "1 for those that count from 0" in fault["detail"]
    assert piped(client, f"{url}&grid_offset=1", **body).content == grid.content
    coordinates = np.indices((2, 3)).reshape(2, 6) + 1
    assert sent(client, f"{url}&grid_offset=0", coordinates).content == grid.content


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("convention=ltx", "reference_grid"),
        ("convention=ltx&reference_grid=1&pack=angle", "pack"),
        ("convention=ltx&reference_grid=1&angle=float32", "angle"),
        ("convention=ltx&reference_grid=1,2", "reference_grid"),
        ("convention=ltx2&grid_step=8", "grid_step"),
        ("convention=ltx2&fps=24", "fps"),
        ("convention=cogvideox", "grid"),
        ("convention=dinov3", "grid"),
        ("convention=wan&grid=2,2,2&spatial_merge_size=2", "spatial_merge_size"),
        ("convention=wan&grid=2,2,2&class_token=first", "class_token"),
        ("convention=qwen2_vl&grid=2,2", "positions"),
        ("convention=minimax_m3&grid_offset=1", "grid_offset"),
    ],
)
def test_what_leaves_coordinates_open_is_refused(
    client: Client, query: str, parameter: str
) -> None:
    answer = sent(client, f"/rope/axial?head_dim=14&{query}", np.ones((3, 5)))

    assert answer.status_code == 422
    assert [each["parameter"] for each in answer.json()["errors"]] == [parameter]


GRIDS = {
    "dinov3": "grid=3,5&normalize_coords=max&dtype=float64",
    "timm_pixels": "grid=3,5",
    "timm": "grid=3,5&reference_grid=4,4&grid_indexing=xy",
    "rotary_embedding_torch_pixel": "grid=3,1,5&head_dim=12",
    "diffusers_2d": "grid=3,5&grid_start=1,0&grid_stop=9,7",
    "cogvideox": "grid=3,2,5&reference_grid=4,4",
    "allegro": "grid=3,2,5&interpolation_scale=2,1,3&head_dim=12",
    "cogview4": "grid=3,5",
    "llama4": "grid=2,3,5",
    "qwen_image": "grid=2,3,5&axes_dim=4,6,6",
    "cosmos": "grid=2,3,5&fps=30",
    "ltx": "grid=2,3,5&grid_step=8,32,32&fps=25&pack=angle",
    "ltx2": "grid=2,3,5&grid_step=8,32,32&grid_offset=-7,0,0&fps=24",
    "sam2": "grid=3,5&angle=float32",
}


@pytest.mark.parametrize("convention", GRIDS)
def test_cells_of_a_grid_have_its_rows(client: Client, convention: str) -> None:
    query = f"convention={convention}&{GRIDS[convention]}"
    query += "" if "_dim" in query else "&head_dim=16"
    sides = [int(side) for side in query.partition("grid=")[2].partition("&")[0].split(",")]
    tokens = np.random.default_rng(1).integers(0, np.prod(sides), (2, 9))
    cells = np.stack(np.unravel_index(tokens, sides))

    answer, whole = (
        sent(client, f"/rope/axial.npy?{query}", cells),
        client.get(f"/rope/axial.npy?{query}"),
    )
    assert (answer.status_code, whole.status_code) == (200, 200), answer.text + whole.text
    assert load_npy(answer).tobytes() == load_npy(whole)[tokens].tobytes()


@pytest.mark.parametrize(("cell", "shown"), [(-1, "-1"), (5, "5"), (0.5, "0.5")])
def test_a_number_of_no_cell_is_refused(client: Client, cell: float, shown: str) -> None:
    cells = [[[0, 1]], [[4, cell]]]
    url = "/rope/axial?convention=dinov3&head_dim=8&grid=3,5"
    (fault,) = client.post(url, json={"positions": cells}).json()["errors"]

    assert (fault["pointer"], fault["value"]) == ("/positions/1/0/1", shown)
    assert "integers from 0 to 4" in fault["detail"]


def test_cells_of_merged_blocks_come_from_their_ids(client: Client) -> None:
    url = "/rope/axial.bin?convention=qwen2_vl&head_dim=8&grid=4,6"
    answer = piped(client, url, convention="vision_grid", grids=[[1, 4, 6]])

    assert answer.status_code == 200, answer.text
    assert answer.content == client.get(f"{url}&spatial_merge_size=2").content


@pytest.mark.parametrize(("offset", "ids"), [(0.5, 1), (1, 0.5), (1, 2**62)])
def test_an_offset_is_added_to_integers_only(client: Client, offset: float, ids: float) -> None:
    url = f"/rope/axial?head_dim=8&convention=llama4&grid_offset={offset}"
    (fault,) = sent(client, url, np.full((2, 3), ids)).json()["errors"]

    assert fault["parameter"] == "grid_offset"


def test_applied_rotations_have_the_same_coordinates(client: Client) -> None:
    positions, x = np.ones((3, 4)) / 3, np.ones((4, 14))
    query = "convention=ltx&reference_grid=1&head_dim=14"
    cosines, sines = (
        load_npy(sent(client, f"{URL}&{query}&pack=interleaved&part={part}", positions))
        for part in ("cos", "sin")
    )
    url = f"/rope/axial/apply.npy?{query}&layout=interleaved"
    answer = client.post(url, content=save({"x": x, "positions": positions}), headers=FOLLOWED)

    assert answer.status_code == 200, answer.text
    turned = cosines + sines * np.tile([-1, 1], 7)
    assert np.abs(load_npy(answer) - turned).max() < 1e-15


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("/rope/axial?convention=pixtral&head_dim=8", "grid_indexing swaps the first two"),
        ("/rope/axial?convention=sam2&head_dim=8", "axes x,y, and the table those of h,w"),
        ("/rope?head_dim=8", "rows, which have one position each"),
        ("/encoding?d_model=8", "rows, which have one position each"),
        ("/rope?head_dim=8&mrope_section=2,1,1", "those of t,h,w"),
    ],
)
def test_a_file_of_positions_tells_its_axes(client: Client, url: str, said: str) -> None:
    (fault,) = piped(client, url, convention="gemma4", sizes=[[2, 3]]).json()["errors"]

    assert fault["parameter"] == "positions"
    assert said in fault["detail"]


def test_columns_first_go_with_grid_indexing_xy(client: Client) -> None:
    url = "/rope/axial.bin?convention=sam2&head_dim=8"
    columns_first = piped(client, f"{url}&grid_indexing=xy", convention="gemma4", sizes=[[2, 3]])
    rows_first = {"convention": "vision_grid", "grids": [[1, 2, 3]], "spatial_merge_size": 1}

    assert columns_first.content == client.get(f"{url}&grid=2,3").content
    assert piped(client, url, **rows_first).content == columns_first.content
    assert piped(client, f"{url}&grid_indexing=xy", **rows_first).status_code == 422
