"""``/encoding/timesteps`` through HTTP."""

import numpy as np
import pytest

from tests.client import Client

URL = "/encoding/timesteps"


def test_without_a_shift_whole_timesteps_are_positions(client: Client) -> None:
    found = client.get(f"{URL}?timesteps=0,7,999&d_model=8&downscale_freq_shift=0").json()
    query = "positions=0,7,999&d_model=8&layout=concatenated"

    assert found["data"] == client.get(f"/encoding?{query}").json()["data"]
    assert found["axes"] == ["timestep", "channel"]


def test_all_timesteps_may_be_asked_for_by_their_number(client: Client) -> None:
    listed = client.get(f"{URL}?timesteps=0,1,2&d_model=6&scale=0.5").json()
    numbered = client.get(f"{URL}?num_timesteps=3&d_model=6&scale=0.5").json()

    assert listed["data"] == numbered["data"]


def test_a_scale_multiplies_the_timestep(client: Client) -> None:
    query = "d_model=8&dtype=float64"
    scaled = client.get(f"{URL}?timesteps=0.25,1&scale=1000&{query}").json()["data"]
    plain = client.get(f"{URL}?timesteps=250,1000&{query}").json()["data"]

    assert np.abs(np.array(scaled) - plain).max() < 1e-15


def test_a_negative_scale_turns_the_sines(client: Client) -> None:
    query = "timesteps=0,2.5,999&d_model=8"
    plain = np.array(client.get(f"{URL}?{query}").json()["data"])

    found = client.get(f"{URL}?{query}&scale=-1").json()

    assert found["parameters"]["scale"] == -1
    assert found["data"] == (plain * ([-1] * 4 + [1] * 4) + 0.0).tolist()


def test_a_scale_of_nothing_turns_nothing(client: Client) -> None:
    zero, negative = (
        client.get(f"{URL}?timesteps=7,0.5&d_model=4&scale={scale}") for scale in ("0", "-0")
    )

    assert zero.json()["data"] == [[0.0, 0.0, 1.0, 1.0]] * 2
    assert zero.content == negative.content


def test_a_period_below_one_makes_later_channels_faster(client: Client) -> None:
    query = "d_model=4&dtype=float64"

    (rising,) = client.get(f"{URL}?timesteps=3&max_period=0.125&{query}").json()["data"]

    near, far = client.get(f"{URL}?timesteps=3,24&{query}").json()["data"]
    assert rising == [near[0], far[0], near[2], far[2]]


def test_flipped_the_cosines_come_first_and_an_odd_channel_is_zero(client: Client) -> None:
    plain = client.get(f"{URL}?timesteps=2.5&d_model=7").json()["data"][0]
    flipped = client.get(f"{URL}?timesteps=2.5&d_model=7&flip_sin_to_cos=true").json()["data"][0]

    assert flipped == plain[3:6] + plain[:3] + [0.0]


def test_a_long_list_may_be_sent(client: Client) -> None:
    times = [index / 7 for index in range(2000)]

    answer = client.post(f"{URL}.json", json={"timesteps": times, "d_model": 4})

    assert answer.json()["shape"] == [2000, 4]
    assert answer.json()["parameters"]["timesteps"] == times


def test_canonical_parameters_ask_for_it_again(client: Client) -> None:
    said = client.get(f"{URL}?timesteps=0.5,2e0&d_model=6&flip_sin_to_cos=true").json()

    assert client.post(f"{URL}.json", json=said["parameters"]).json() == said


def test_a_shift_by_all_frequencies_is_refused_with_its_reason(client: Client) -> None:
    answer = client.get(f"{URL}?timesteps=1&d_model=2")

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["parameter"] == "downscale_freq_shift"
    assert "divides by zero" in error["detail"]
    assert client.get(f"{URL}?timesteps=1&d_model=1&downscale_freq_shift=0").status_code == 200


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("d_model=4", "timesteps"),
        ("d_model=4&timesteps=1&num_timesteps=3", "num_timesteps"),
        ("d_model=4&timesteps=1,2e19", "timesteps"),
        ("d_model=4&timesteps=1e-40", "timesteps"),
        ("d_model=4&timesteps=", "timesteps"),
        ("d_model=4&timesteps=1&scale=1e-10", "scale"),
        ("d_model=4&timesteps=1&scale=-1e-10", "scale"),
        ("d_model=4&timesteps=1&scale=-1e10", "scale"),
        ("d_model=4&timesteps=1&max_period=0", "max_period"),
        ("d_model=4&timesteps=1&max_period=-2", "max_period"),
        ("d_model=4&timesteps=1&max_period=1e-19", "max_period"),
        ("d_model=4&timesteps=1&max_period=1e-17&scale=20", "scale"),
        ("d_model=4&timesteps=1&max_period=1e-17&downscale_freq_shift=1.5", "max_period"),
        ("d_model=4&timesteps=1&downscale_freq_shift=1.9999999999999998", "downscale_freq_shift"),
        ("d_model=4&timesteps=1&downscale_freq_shift=2.0000000000000004", "downscale_freq_shift"),
        ("timesteps=1", "d_model"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"{URL}?{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]
