"""``/relative`` through HTTP."""

import numpy as np
import pytest

from service.local import find_body
from tests.client import Client


def table(client: Client, url: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_operator_moves_one_row_of_the_table_to_another(client: Client, layout: str) -> None:
    query = f"d_model=6&base=100&layout={layout}&dtype=float64"
    here, there = table(client, f"/encoding?positions=11,16&{query}")

    operator = table(client, f"/relative?offset=5&{query}")

    assert np.abs(operator @ here - there).max() < 1e-15


def test_one_offset_gives_a_matrix_and_several_a_stack(client: Client) -> None:
    one = table(client, "/relative?d_model=4&offset=2")
    several = table(client, "/relative?d_model=4&offsets=-1:3")

    assert (one.shape, several.shape) == ((4, 4), (4, 4, 4))
    assert several[3].tolist() == one.tolist()


def test_similarity_is_largest_at_no_offset_and_even(client: Client) -> None:
    values = table(client, "/relative/similarity?d_model=8&offsets=-50:51&dtype=float64")

    assert values[50] == 4.0 == values.max()
    assert values.tolist() == values[::-1].tolist()


@pytest.mark.parametrize(
    ("url", "parameter"),
    [
        ("/relative?d_model=5&offset=1", "d_model"),
        ("/relative?d_model=4", "offset"),
        ("/relative?d_model=4&offset=1&offsets=1", "offset"),
        ("/relative/similarity?d_model=5&offsets=1", "d_model"),
        ("/relative/similarity?d_model=4", "offsets"),
        (f"/relative?d_model=4&offset={2**62 + 1}", "offset"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, url: str, parameter: str) -> None:
    answer = client.get(url)

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


def test_a_sum_of_many_cosines_is_made_in_small_blocks_while_it_is_sent(client: Client) -> None:
    builds = client.app.state.delivery.cache.builds
    body = find_body("/relative/similarity.npy?d_model=65536&offsets=0:1000000")

    blocks = body.blocks()
    header, first = next(blocks), next(blocks)

    assert len(header) + len(first) < 300
    answer = client.get("/relative/similarity.npy?d_model=65536&offsets=0:600")
    assert answer.status_code == 200
    assert client.app.state.delivery.cache.builds == builds
