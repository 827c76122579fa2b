"""``/relative/transformer-xl`` and its shift through HTTP."""

from io import BytesIO

import numpy as np
import pytest

from tests.client import Client

SHIFT = "/relative/transformer-xl/shift"


def test_rows_are_distances_from_the_farthest_to_none(client: Client) -> None:
    answer = client.get("/relative/transformer-xl?d_model=6&key_len=4&clamp_len=2&dtype=float64")
    query = "positions=2,2,1,0&d_model=6&layout=concatenated&dtype=float64"

    assert answer.headers["Array-Axes"] == "position, channel"
    assert answer.json()["data"] == client.get(f"/encoding?{query}").json()["data"]


def test_canonical_parameters_ask_for_it_again(client: Client) -> None:
    said = client.get("/relative/transformer-xl?d_model=6&key_len=4&clamp_len=2").json()

    query = "&".join(f"{name}={value}" for name, value in said["parameters"].items())

    assert client.get(f"/relative/transformer-xl?{query}").json() == said


def test_an_odd_d_model_has_one_channel_more(client: Client) -> None:
    answer = client.get("/relative/transformer-xl?d_model=5&key_len=2")

    assert answer.headers["Array-Shape"] == "2, 6"


def test_scores_are_shifted_to_the_bit_in_their_own_format(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 2, 4)).astype(np.float16)
    stream = BytesIO()
    np.save(stream, x)
    headers = {"Content-Type": "application/x-npy"}

    answer = client.post(SHIFT, content=stream.getvalue(), headers=headers)

    assert answer.headers["Array-Axes"] == "query, key, batch, head"
    found = np.load(BytesIO(answer.content))
    assert found.dtype == x.dtype
    assert (found[0, :3] == x[0, 2:]).all()
    assert (found[2] == x[2]).all()


def test_the_two_conventions_differ_by_the_column_of_zeros(client: Client) -> None:
    x = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]

    plain = client.post(SHIFT, json={"x": x}).json()
    xlnet = client.post(SHIFT, json={"x": x, "convention": "xlnet"}).json()
    cut = client.post(f"{SHIFT}?convention=xlnet&key_len=1", json={"x": x}).json()

    assert plain["data"] == [[2.0, 3.0, 0.0], [4.0, 5.0, 6.0]]
    assert xlnet["data"] == [[3.0, 4.0], [5.0, 6.0]]
    assert cut["data"] == [[3.0], [5.0]]
    assert xlnet["parameters"] == {"convention": "xlnet", "key_len": 2}


def test_what_a_causal_mask_hides_may_be_zero(client: Client) -> None:
    x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]

    plain = client.post(SHIFT, json={"x": x}).json()["data"]
    zeroed = client.post(SHIFT, json={"x": x, "zero_triu": True}).json()["data"]

    assert zeroed == np.tril(plain, -1).tolist()


@pytest.mark.parametrize(
    ("url", "parameter"),
    [
        ("/relative/transformer-xl?d_model=4", "key_len"),
        ("/relative/transformer-xl?d_model=4&key_len=0", "key_len"),
        (f"/relative/transformer-xl?d_model=4&key_len={2**62 + 1}", "key_len"),
        ("/relative/transformer-xl?d_model=4&key_len=4&clamp_len=-2", "clamp_len"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, url: str, parameter: str) -> None:
    answer = client.get(url)

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


@pytest.mark.parametrize(
    ("x", "query", "where"),
    [
        ([[1.0, 2.0]], "key_len=1", "key_len"),
        ([[1.0, 2.0]], "convention=xlnet&key_len=2", "key_len"),
        ([[1.0, 2.0]], "convention=xlnet&zero_triu=true", "zero_triu"),
        ([[1.0]], "convention=xlnet", "/x"),
        ([1.0, 2.0], "", "/x"),
    ],
)
def test_what_cannot_be_shifted_is_refused(
    client: Client, x: list[object], query: str, where: str
) -> None:
    answer = client.post(f"{SHIFT}?{query}", json={"x": x})

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert where in {error.get("parameter"), error.get("pointer")}
