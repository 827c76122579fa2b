"""``/relative/alibi`` and ``/relative/alibi/slopes`` through HTTP."""

import numpy as np
import pytest

from tests.client import Client

SLOPES = "/relative/alibi/slopes?dtype=float64&num_heads="


def table(client: Client, url: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["data"])


def parameters(client: Client, url: str) -> dict[str, object]:
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()["parameters"]
    return found


def test_slopes_are_those_of_the_code_unless_the_paper_is_named(client: Client) -> None:
    original, paper = (table(client, f"{SLOPES}12&convention={n}") for n in ("original", "paper"))

    assert original[:8].tolist() == [0.5**k for k in range(1, 9)]
    assert np.abs(original - paper).max() == pytest.approx(0.69, abs=0.01)


@pytest.mark.parametrize("name", ["bloom", "mpt", "keras-hub", "x-transformers", "mlx"])
def test_libraries_with_the_same_slopes_have_one_table(client: Client, name: str) -> None:
    own, original = (client.get(f"{SLOPES}12&convention={n}") for n in (name, "original"))

    assert own.content == original.content
    assert own.headers["ETag"] == original.headers["ETag"]


def test_the_largest_exponent_moves_every_slope(client: Client) -> None:
    assert table(client, f"{SLOPES}4&alibi_bias_max=16").tolist() == [
        2.0**-4,
        2.0**-8,
        2.0**-12,
        2.0**-16,
    ]


LINEAR = [[0, 0.5, 1], [-0.5, 0, 0.5], [-1, -0.5, 0]]
SYMMETRIC = [[0, -0.5, -1], [-0.5, 0, -0.5], [-1, -0.5, 0]]


@pytest.mark.parametrize(
    ("name", "asked", "expected"),
    [
        ("original", "query_len=3", LINEAR),
        ("paper", "query_len=3", LINEAR),
        ("x-transformers", "query_len=3", SYMMETRIC),
        ("mlx", "query_len=3", SYMMETRIC),
        ("bloom", "key_len=3", [[0, 0.5, 1]]),
        ("mpt", "key_len=3", [[-1, -0.5, 0]]),
        ("keras-hub", "key_len=3", [[-1, -0.5, 0]]),
        ("mpt", "key_positions=4,2,9", [[-2.5, -3.5, 0]]),
        ("original", "key_len=3&form=key", [[0, 0.5, 1]]),
        ("bloom", "query_len=3&form=symmetric", SYMMETRIC),
    ],
)
def test_a_name_does_what_its_library_does(
    client: Client, name: str, asked: str, expected: list[list[float]]
) -> None:
    url = f"/relative/alibi?num_heads=8&convention={name}&{asked}"

    assert table(client, f"{url}&head=0").tolist() == expected
    assert table(client, url)[0].tolist() == expected


def test_masked_keys_are_null_and_minus_infinity(client: Client) -> None:
    query = "num_heads=8&head=0&query_len=2&masked=true"

    assert client.get(f"/relative/alibi?{query}").json()["data"] == [[0, None], [-0.5, 0]]
    raw = np.frombuffer(client.get(f"/relative/alibi.bin?{query}").content, dtype=np.float32)
    assert raw.tolist() == [0, -np.inf, -0.5, 0]


def test_heads_beyond_those_with_a_slope_have_no_bias(client: Client) -> None:
    query = "num_heads=6&total_heads=8&convention=x-transformers&query_len=2"

    assert not table(client, f"/relative/alibi?{query}")[6:].any()
    assert not table(client, f"/relative/alibi?{query}&head=7").any()
    assert "total_heads" not in parameters(client, f"/relative/alibi?{query.replace('8', '6')}")


def test_the_answer_says_its_form_and_asks_for_itself(client: Client) -> None:
    first = client.get("/relative/alibi?num_heads=8&convention=bloom&key_len=3&head=1")

    said = first.json()["parameters"]
    assert said == {
        "convention": "original",
        "num_heads": 8,
        "alibi_bias_max": 8.0,
        "form": "key",
        "key_start": 0,
        "key_len": 3,
        "head": 1,
    }
    again = client.get("/relative/alibi?" + "&".join(f"{k}={v}" for k, v in said.items()))
    assert again.content == first.content


def test_far_positions_are_as_good_as_near_ones(client: Client) -> None:
    query = "num_heads=8&head=7&query_positions=4611686018427387904&key_positions=0"

    assert table(client, f"/relative/alibi?{query}&dtype=float64").tolist() == [[-(2.0**54)]]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("query_len=2", "num_heads"),
        ("num_heads=0&query_len=2", "num_heads"),
        ("num_heads=8", "query_len"),
        ("num_heads=8&query_len=2&head=8", "head"),
        ("num_heads=8&query_len=2&total_heads=7", "total_heads"),
        ("num_heads=8&query_len=2&alibi_bias_max=0", "alibi_bias_max"),
        ("num_heads=8&query_len=2&convention=alibi", "convention"),
        ("num_heads=8&convention=bloom", "key_len"),
        ("num_heads=8&convention=bloom&key_len=2&query_len=2", "query_len"),
        ("num_heads=8&convention=bloom&key_len=2&masked=true", "masked"),
        (f"num_heads=8&form=last-key&key_positions={-(2**62)},{2**62}", "key_positions"),
    ],
)
def test_what_is_impossible_names_the_parameter(client: Client, query: str, parameter: str) -> None:
    answer = client.get(f"/relative/alibi?{query}")

    assert answer.status_code == 422
    assert [error["parameter"] for error in answer.json()["errors"]] == [parameter]


FAR = "num_heads=8&head=0&query_len=1&key_positions=131040"


def test_json_refuses_biases_that_may_be_too_large_for_their_type(client: Client) -> None:
    """Null is a key that is masked, and nothing else."""
    near = FAR.replace("131040", "131038")
    refused = client.get(f"/relative/alibi.json?{FAR}&dtype=float16")

    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:posref:problem:unsupported-by-format"
    assert "too large for float16" in refused.json()["detail"]
    assert "npy, safetensors, bin, csv, png" in refused.json()["detail"]
    assert client.get(f"/relative/alibi.json?{near}&dtype=float16").json()["data"] == [[65504]]
    assert client.get(f"/relative/alibi.json?{FAR}&dtype=float32").json()["data"] == [[65520]]


def test_csv_has_infinity_for_biases_that_are_too_large(client: Client) -> None:
    assert client.get(f"/relative/alibi.csv?{FAR}&dtype=float16").text == "inf\n"


def test_keys_that_are_masked_are_null_however_far_they_are(client: Client) -> None:
    answer = client.get(f"/relative/alibi.json?{FAR}&dtype=float16&masked=true")

    assert answer.json()["data"] == [[None]]
