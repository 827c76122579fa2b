"""``/relative/swin-v2`` and ``/relative/dynamic`` through HTTP."""

from math import log, log2

import numpy as np
import pytest

from tests.client import Client


def table(client: Client, url: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


def test_coordinates_go_down_first_and_reach_the_window(client: Client) -> None:
    both = table(client, "/relative/swin-v2?window_size=2,3&dtype=float64")

    assert both.shape == (3, 5, 2)
    assert both[:, 0, 0] == pytest.approx([-log2(9) / 3, 0, log2(9) / 3])
    assert both[0, :, 1] == pytest.approx([-log2(9) / 3, -log2(5) / 3, 0, log2(5) / 3, log2(9) / 3])
    for index, axis in enumerate("yx"):
        alone = table(client, f"/relative/swin-v2?window_size=2,3&dtype=float64&axis={axis}")
        assert alone.tolist() == both[:, :, index].tolist()


def test_a_window_of_training_measures_distances(client: Client) -> None:
    query = "/relative/swin-v2?window_size=2,3&axis=x&dtype=float64"

    assert table(client, f"{query}&pretrained_window_size=9,9")[0, 4] == pytest.approx(log2(3) / 3)
    own = client.get(query)
    for same in ("0,0", "2,3"):
        assert client.get(f"{query}&pretrained_window_size={same}").content == own.content


def test_plain_logarithms_need_no_window_to_measure_by(client: Client) -> None:
    found = table(client, "/relative/swin-v2?window_size=1,3&mode=cr&axis=x&dtype=float64")

    assert found[0] == pytest.approx([-log(3), -log(2), 0, log(2), log(3)], rel=1e-15)


def test_distances_are_a_column(client: Client) -> None:
    plain = table(client, "/relative/dynamic?seq_len=3")
    logs = table(client, "/relative/dynamic?seq_len=3&log_distance=true&dtype=float64")

    assert plain.tolist() == [[-2], [-1], [0], [1], [2]]
    assert logs[:, 0] == pytest.approx([-log(3), -log(2), 0, log(2), log(3)], rel=1e-15)


@pytest.mark.parametrize(
    ("url", "parameter"),
    [
        ("/relative/swin-v2", "window_size"),
        ("/relative/swin-v2?window_size=8", "window_size"),
        ("/relative/swin-v2?window_size=8,0", "window_size"),
        ("/relative/swin-v2?window_size=8,1", "window_size"),
        ("/relative/swin-v2?window_size=8,8&pretrained_window_size=6,1", "pretrained_window_size"),
        ("/relative/swin-v2?window_size=8,8&pretrained_window_size=6,0", "pretrained_window_size"),
        (
            "/relative/swin-v2?window_size=8,8&pretrained_window_size=6,6&mode=cr",
            "pretrained_window_size",
        ),
        ("/relative/swin-v2?window_size=8,8&axis=z", "axis"),
        ("/relative/dynamic", "seq_len"),
        ("/relative/dynamic?seq_len=0", "seq_len"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, url: str, parameter: str) -> None:
    answer = client.get(url)

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


def test_a_window_one_patch_wide_is_refused_with_the_reason(client: Client) -> None:
    answer = client.get("/relative/swin-v2?window_size=8,1")

    assert "divided by each side less one" in answer.json()["detail"]
