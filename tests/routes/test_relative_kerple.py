"""``/relative/kerple`` and ``POST /relative/kerple/bias`` through HTTP."""

from math import log, log1p
from typing import Any

import numpy as np
import pytest

from tests.client import Client


def table(client: Client, query: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    answer = client.get(f"/relative/kerple?dtype=float64&{query}")
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


def posted(client: Client, query: str, **body: Any) -> Any:
    answer = client.post(f"/relative/kerple/bias?{query}", json=body)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


NEAR = 1e-15


def test_each_kernel_is_its_formula(client: Client) -> None:
    numbers = "a=3,0.5&p=2,1.5&query_positions=4&key_positions=0&head=0"

    assert table(client, numbers)[0, 0] == pytest.approx(-2 * log1p(12), rel=NEAR)
    assert table(client, f"{numbers}&convention=power")[0, 0] == -48
    nemo = table(client, f"{numbers}&convention=nemo&b=7")
    assert nemo[0, 0] == pytest.approx(-7 * log(49), rel=NEAR)


def test_b_of_nemo_has_either_sign(client: Client) -> None:
    query = "convention=nemo&query_positions=4&key_positions=0,4"
    found = table(client, f"{query}&a=3&b=-7,7,0,-1e-100,-1e9&num_heads=5")

    assert found[0, 0, 0] == pytest.approx(7 * log(13), rel=NEAR)
    assert (found[0] == 0.0 - found[1]).all()
    assert found[2].tolist() == [[0, 0]]
    assert (found[3, 0, 0], found[4, 0, 0]) == pytest.approx((1e-100 * log(13), 1e9 * log(13)))
    assert not np.signbit(found[:, 0, 1]).any()
    learned = [np.array([number] * 2) for number in (3.0, -7.0, 1.0)]
    body = {name: values.tolist() for name, values in zip("abp", learned, strict=True)}
    assert posted(client, f"{query}&dtype=float64", **body)[1].tolist() == found[0].tolist()


def test_nemo_needs_no_numbers(client: Client) -> None:
    found = table(client, "convention=nemo&num_heads=8&query_positions=1&key_positions=0")

    assert found[:, 0, 0] == pytest.approx([-log(2) * 0.5**k for k in range(1, 9)], rel=NEAR)


def test_the_future_has_the_bias_of_distance_nothing_by_true_positions(client: Client) -> None:
    """A block of the last queries keeps every key before them, on whichever side of its diagonal.

    NeMo's does not.
    """
    found = table(client, "a=1&p=1&query_start=3&query_len=2&key_len=6&head=0")

    assert (found[0, :3] < 0).all()
    assert found[0, 3:].tolist() == [0, 0, 0]
    assert (found[1, :4] < 0).all()
    whole = table(client, "a=1&p=1&query_start=3&query_len=2&key_len=6&head=0&causal=false")
    assert (whole[0, 4:] < 0).all()


def test_one_number_is_for_all_heads(client: Client) -> None:
    one, each = (table(client, f"a={a}&p=2,1&query_len=3") for a in ("0.5", "0.5,0.5"))

    assert one.tolist() == each.tolist()


def test_clamped_numbers_are_spelled_as_what_they_became(client: Client) -> None:
    clamped = client.get("/relative/kerple?convention=power&a=-1,2&p=3,0&clamp=true&query_len=2")
    spelled = client.get("/relative/kerple?convention=power&a=0.01,2&p=2,0.01&query_len=2")

    assert clamped.status_code == 200, clamped.text
    assert clamped.content == spelled.content
    assert clamped.json()["parameters"]["p"] == [2, 0.01]


def test_arrays_make_what_numbers_make(client: Client) -> None:
    query = "query_len=3&key_len=5&convention=nemo&dtype=float64"

    got = posted(client, query, a=[0.5, 2.0], b=[1.0, 3.0], p=[1.5, 1.0])

    assert got.tolist() == table(client, f"{query[:-14]}&a=0.5,2&b=1,3&p=1.5,1").tolist()


def test_arrays_are_clamped_where_that_is_wanted(client: Client) -> None:
    query = "query_len=3&dtype=float64"

    clamped = posted(client, f"{query}&clamp=true", a=[0.001], p=[1.0])

    assert clamped.tolist() == posted(client, query, a=[0.01], p=[1.0]).tolist()


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("query_len=2", "num_heads"),
        ("a=1&query_len=2", "p"),
        ("a=1&b=1&p=1&query_len=2", "b"),
        ("a=1,2,3&p=1,2&query_len=2", "p"),
        ("a=-1&p=1&query_len=2", "a"),
        ("a=1&p=2.5&convention=power&query_len=2", "p"),
        ("a=1&p=0&convention=power&query_len=2", "p"),
        ("a=1&p=9&convention=nemo&query_len=2", "p"),
        ("a=1e10&p=1&query_len=2", "a"),
        ("a=-1&convention=nemo&query_len=2", "a"),
        ("p=-1&convention=nemo&query_len=2", "p"),
        ("p=0&convention=nemo&query_len=2", "p"),
        ("b=-1e10&convention=nemo&query_len=2", "b"),
        ("b=-1e-101&convention=nemo&query_len=2", "b"),
        ("a=1&p=1&head=1&query_len=2", "head"),
        ("num_heads=2&convention=nemo&clamp=true&query_len=2", "clamp"),
        ("a=1&p=1", "query_len"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"/relative/kerple?{query}")

    assert answer.status_code == 422, answer.text
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


def test_the_bound_of_b_is_that_of_its_size(client: Client) -> None:
    answer = client.get("/relative/kerple?b=-2e9&convention=nemo&query_len=2")

    (error,) = answer.json()["errors"]
    assert error["detail"] == "b must be 0, or 1e-100 to 1e+09 in size with nemo"
    assert error["value"] == "-2000000000"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, ""),
        ({"a": [1.0] * 65537, "p": [1.0] * 65537}, ""),
        ({"a": [1.0]}, "/p"),
        ({"a": [1.0], "p": [1.0, 2.0]}, ""),
        ({"a": [1.0], "p": [-1.0]}, "/p"),
        ({"a": [1.0], "p": [1.0], "b": [1.0]}, "/b"),
        ({"a": [[1.0]], "p": [1.0]}, "/a"),
    ],
)
def test_what_cannot_be_of_arrays_points_at_one(
    client: Client, body: dict[str, Any], where: str
) -> None:
    answer = client.post("/relative/kerple/bias?query_len=2", json=body)

    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == where
