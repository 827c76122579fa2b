from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from tests.client import Client

RESIZE = "/resize/apply?size=8,5&mode=bilinear"
LEARNED = np.random.default_rng(5).standard_normal((4, 6, 3)).astype(np.float32)
VIDEO = {
    "input_ids": [[1, 7, *[9] * 8, 2, 3]],
    "video_grids": [[2, 4, 4]],
    "seconds_per_grid": [0.6],
}
IDS = "/positions?convention=qwen2_5_vl&tokens=video:9"


def diagnose(client: Client, to: str, body: Mapping[str, Any]) -> Any:
    answer = client.post("/diagnose", params={"to": to}, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def aligned_at_corners(table: np.ndarray, size: tuple[int, int]) -> Any:
    """Interpolate linearly between rows and columns, the first and the last of which stay."""
    for axis, new in enumerate(size):
        place = np.linspace(0, table.shape[axis] - 1, new)
        low = np.minimum(place.astype(int), table.shape[axis] - 2)
        share = (place - low).reshape([-1 if each == axis else 1 for each in range(3)])
        table = table.take(low, axis) * (1 - share) + table.take(low + 1, axis) * share
    return table.astype(np.float32).tolist()


def resized(client: Client, url: str) -> Any:
    return client.post(url, json={"x": LEARNED.tolist()}).json()["data"]


def test_right_resized_table_is_equal(client: Client) -> None:
    body = {"x": LEARNED.tolist(), "have": resized(client, RESIZE)}

    assert diagnose(client, RESIZE, body)["verdict"] == "equal"


def test_table_resized_with_its_corners_aligned_is_named(client: Client) -> None:
    body = {"x": LEARNED.tolist(), "have": aligned_at_corners(LEARNED.astype(np.float64), (8, 5))}

    (wrong,) = diagnose(client, RESIZE, body)["mistakes"]

    assert (wrong["name"], wrong["key"], wrong["have"]) == (
        "wrong-parameter",
        "align_corners",
        True,
    )


@pytest.mark.parametrize(
    ("asked", "key"), [("size=3,3&antialias=true", "antialias"), ("size=3,3", "mode")]
)
def test_another_way_to_resize_is_named(client: Client, asked: str, key: str) -> None:
    mode = "bicubic" if key == "mode" else "bilinear"
    have = resized(client, f"/resize/apply?{asked}&mode={mode}")

    report = diagnose(
        client, "/resize/apply?size=3,3&mode=bilinear", {"x": LEARNED.tolist(), "have": have}
    )

    assert [(each["name"], each["key"]) for each in report["mistakes"]] == [
        ("wrong-parameter", key)
    ]


def test_height_and_width_of_the_new_grid_exchanged_are_named(client: Client) -> None:
    have = resized(client, RESIZE.replace("8,5", "5,8"))

    report = diagnose(client, RESIZE, {"x": LEARNED.tolist(), "have": have})

    assert [each["name"] for each in report["mistakes"]] == ["axes-swapped"]


def test_position_ids_by_the_rules_of_another_library_are_named(client: Client) -> None:
    have = client.post(f"{IDS}&rules=transformers-4", json=VIDEO).json()["data"]["position_ids"]

    (wrong,) = diagnose(client, f"{IDS}&rules=transformers-5", {**VIDEO, "have": have})["mistakes"]

    assert (wrong["key"], wrong["have"]) == ("rules", "transformers-4")


def test_position_ids_without_the_delta_of_media_are_named(client: Client) -> None:
    data = client.post(IDS, json=VIDEO).json()["data"]
    delta = data["rope_deltas"][0][0]
    have = (np.array(data["position_ids"]) - delta).tolist()

    (wrong,) = diagnose(client, IDS, {**VIDEO, "have": have})["mistakes"]

    assert (wrong["name"], wrong["rows"]) == ("position-offset", -delta)


def test_axes_of_position_ids_in_another_order_are_named(client: Client) -> None:
    data = client.post(IDS, json=VIDEO).json()["data"]
    have = [data["position_ids"][axis] for axis in (0, 2, 1)]

    (wrong,) = diagnose(client, IDS, {**VIDEO, "have": have})["mistakes"]

    assert (wrong["name"], wrong["have"]) == ("sections-exchanged", [0, 2, 1])


@pytest.mark.parametrize(
    ("to", "body", "rule"),
    [
        (RESIZE, {"have": [[1.0]]}, "x is missing"),
        (RESIZE, {"x": [[1.0]], "boxes": [[1.0]], "have": [[1.0]]}, "boxes is no array here"),
        (RESIZE.replace("8,5", "2000,2000"), {"x": LEARNED.tolist(), "have": [[1.0]]}, "elements"),
        (f"{RESIZE}&size=3", {"x": LEARNED.tolist(), "have": [[1.0]]}, "size"),
    ],
    ids=str,
)
def test_arrays_that_determine_no_table_are_refused(
    client: Client, to: str, body: Mapping[str, Any], rule: str
) -> None:
    answer = client.post("/diagnose", params={"to": to}, json=body)

    assert answer.status_code == 422
    assert rule in answer.json()["detail"]


def test_positions_of_rows_do_not_go_with_a_table_that_arrays_determine(client: Client) -> None:
    body = {"x": LEARNED.tolist(), "have": LEARNED.tolist()}

    answer = client.post("/diagnose", params={"to": RESIZE, "positions": "1,2"}, json=body)

    assert answer.status_code == 422
    assert "positions" in answer.json()["detail"]


def test_numbers_that_are_not_finite_are_refused(client: Client) -> None:
    arrays = {"x": LEARNED, "have": np.full((8, 5, 3), np.nan, np.float32)}
    headers = {"Content-Type": "application/vnd.safetensors"}

    answer = client.post("/diagnose", params={"to": RESIZE}, content=save(arrays), headers=headers)

    assert (answer.status_code, "NaN" in answer.json()["detail"]) == (422, True)


def test_array_that_is_missing_or_of_another_shape_is_refused(client: Client) -> None:
    for body in ({"x": LEARNED.tolist()}, {"x": LEARNED.tolist(), "have": [[1.0, 2.0]]}):
        answer = client.post("/diagnose", params={"to": RESIZE}, json=body)
        assert answer.status_code == 422
        assert "have" in answer.json()["detail"]
