"""``/rope/permutation`` through HTTP: every format, and the promise that q·k stays as it was."""

import io
from typing import Any

import httpx
import numpy as np
import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.client import Client

URL = "/rope/permutation"
GROUPED = "head_dim=8&num_attention_heads=4&num_key_value_heads=2"
DTYPES = pytest.mark.parametrize(("dtype", "code"), [("int32", "I32"), ("int64", "I64")])


def npy(answer: httpx.Response) -> NDArray[Any]:
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


def tensors(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return dict(safetensors.deserialize(answer.content))  # type: ignore[no-untyped-call]


def turned(client: Client, x: NDArray[Any], query: str) -> NDArray[Any]:
    stream = io.BytesIO()
    np.save(stream, x)
    headers = {"Content-Type": "application/x-npy"}
    return npy(client.post(f"/rope/apply?{query}", content=stream.getvalue(), headers=headers))


@DTYPES
def test_integers_are_the_same_in_every_format(client: Client, dtype: str, code: str) -> None:
    query = f"head_dim=8&dtype={dtype}"
    expected = np.array([0, 2, 4, 6, 1, 3, 5, 7], dtype)

    whole = npy(client.get(f"{URL}.npy?{query}"))
    tensor = tensors(client.get(f"{URL}.safetensors?{query}"))["permutation"]
    as_json = client.get(f"{URL}.json?{query}").json()

    assert (whole.dtype, whole.tolist()) == (expected.dtype, expected.tolist())
    assert (tensor["dtype"], tensor["shape"]) == (code, [8])
    assert bytes(tensor["data"]) == expected.tobytes()
    assert client.get(f"{URL}.bin?{query}").content == expected.tobytes()
    assert (as_json["dtype"], as_json["data"]) == (dtype, expected.tolist())
    assert client.get(f"{URL}.csv?{query}").text.split() == list("02461357")


def test_json_numbers_of_an_index_are_integers(client: Client) -> None:
    assert '"data":[0,2,1,3]' in client.get(f"{URL}?head_dim=4").text


@DTYPES
def test_queries_and_keys_come_together_or_alone(client: Client, dtype: str, code: str) -> None:
    query = f"{GROUPED}&dtype={dtype}"

    both = tensors(client.get(f"{URL}.safetensors?{query}"))

    assert {name: (view["dtype"], view["shape"]) for name, view in both.items()} == {
        "q": (code, [32]),
        "k": (code, [16]),
    }
    for part in ("q", "k"):
        alone = npy(client.get(f"{URL}.npy?{query}&part={part}"))
        assert alone.tobytes() == bytes(both[part]["data"])


def test_one_array_formats_say_how_to_ask_for_one_of_two(client: Client) -> None:
    answer = client.get(f"{URL}.npy?{GROUPED}")

    assert answer.status_code == 422
    assert "part=q|k" in answer.json()["detail"]


HEADS = pytest.mark.parametrize(
    ("head_dim", "rotary"),
    [(8, ""), (10, "rotary_dim=6"), (80, "partial_rotary_factor=0.4"), (128, "")],
)


@HEADS
def test_permuted_channels_turned_as_half_are_the_interleaved_ones_permuted(
    client: Client, head_dim: int, rotary: str
) -> None:
    index = npy(client.get(f"{URL}.npy?head_dim={head_dim}&{rotary}"))
    x = np.random.default_rng(0).standard_normal((3, 5, head_dim))

    half = turned(client, x[..., index], f"{rotary}&layout=half&start=17")
    interleaved = turned(client, x, f"{rotary}&layout=interleaved&start=17")

    assert half.tobytes() == interleaved[..., index].tobytes()


@HEADS
def test_products_of_queries_and_keys_stay_as_they_were(
    client: Client, head_dim: int, rotary: str
) -> None:
    """The rows of grouped weights are put in the other order, and nothing else is."""
    rng = np.random.default_rng(1)
    hidden = rng.standard_normal((5, 6))
    weights = {"q": rng.standard_normal((4 * head_dim, 6)), "k": rng.standard_normal((head_dim, 6))}
    query = f"head_dim={head_dim}&{rotary}&num_attention_heads=4&num_key_value_heads=1"
    scores = []
    for layout in ("interleaved", "half"):
        heads = {}
        for name, matrix in weights.items():
            order = npy(client.get(f"{URL}.npy?{query}&output_layout={layout}&part={name}"))
            projected = (hidden @ matrix[order].T).reshape(5, -1, head_dim).swapaxes(0, 1)
            heads[name] = turned(client, projected, f"{rotary}&layout={layout}")
        scores.append(heads["q"] @ heads["k"].swapaxes(1, 2))

    assert np.abs(scores[0] - scores[1]).max() <= 1e-13 * np.abs(scores[0]).max()


def test_offset_channels_of_a_head_are_those_that_turn(client: Client) -> None:
    index = npy(client.get(f"{URL}.npy?head_dim=12&rotary_dim=8&rotary_offset=4"))

    assert index.tolist() == [0, 1, 2, 3, 4, 6, 8, 10, 5, 7, 9, 11]
    rest = npy(client.get(f"{URL}.npy?head_dim=12&rotary_offset=4"))
    assert rest.tolist() == index.tolist()


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("", "head_dim", None),
        ("head_dim=1", "head_dim", "1"),
        ("head_dim=7", "head_dim", "7"),
        ("head_dim=65537", "head_dim", "65537"),
        ("head_dim=8&rotary_dim=3", "rotary_dim", "3"),
        ("head_dim=8&rotary_dim=10", "rotary_dim", "10"),
        ("head_dim=8&rotary_dim=4&partial_rotary_factor=0.5", "partial_rotary_factor", "0.5"),
        ("head_dim=10&partial_rotary_factor=0.5", "partial_rotary_factor", "0.5"),
        ("head_dim=8&partial_rotary_factor=0.1", "partial_rotary_factor", "0.1"),
        ("head_dim=8&partial_rotary_factor=1.5", "partial_rotary_factor", "1.5"),
        ("head_dim=8&rotary_offset=3", "rotary_offset", "3"),
        ("head_dim=8&rotary_offset=8", "rotary_offset", "8"),
        ("head_dim=8&rotary_offset=100", "rotary_offset", "100"),
        ("head_dim=8&rotary_offset=-1", "rotary_offset", "-1"),
        ("head_dim=8&rotary_dim=6&rotary_offset=4", "rotary_offset", "4"),
        ("head_dim=8&layout=neox", "layout", "neox"),
        ("head_dim=8&num_attention_heads=0", "num_attention_heads", "0"),
        ("head_dim=8&num_key_value_heads=65537", "num_key_value_heads", "65537"),
        ("head_dim=8&part=q", "part", "q"),
        ("head_dim=8&dtype=float32", "dtype", "float32"),
        ("head_dim=65536&num_attention_heads=32769", "dtype", "int32"),
        ("head_dim=65536&num_key_value_heads=32769", "dtype", "int32"),
    ],
)
def test_what_is_wrong_is_named(
    client: Client, query: str, parameter: str, value: str | None
) -> None:
    answer = client.get(f"{URL}?{query}")

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value)]


def test_rows_past_32_bits_are_counted_in_64(client: Client) -> None:
    most = client.head(f"{URL}.npy?head_dim=65536&num_attention_heads=32768")
    more = client.head(f"{URL}.npy?head_dim=65536&num_attention_heads=32769&dtype=int64")

    assert (most.headers["Array-Shape"], most.headers["Array-Dtype"]) == (str(2**31), "int32")
    assert (more.headers["Array-Shape"], more.headers["Array-Dtype"]) == (
        str(2**31 + 65_536),
        "int64",
    )
    tail = client.get(
        f"{URL}.bin?head_dim=65536&num_attention_heads=32768", range=f"bytes={2**33 - 4}-"
    )
    assert np.frombuffer(tail.content, "<i4").tolist() == [2**31 - 1]


@given(
    st.fixed_dictionaries(
        {"head_dim": st.integers(0, 40)},
        optional={
            "rotary_dim": st.integers(0, 40),
            "rotary_offset": st.integers(-1, 20),
            "partial_rotary_factor": st.floats(0, 1.1),
            "layout": st.sampled_from(["interleaved", "half"]),
            "output_layout": st.sampled_from(["interleaved", "half"]),
            "num_attention_heads": st.integers(0, 5),
            "num_key_value_heads": st.integers(0, 5),
            "dtype": st.sampled_from(["int32", "int64", "float32"]),
        },
    )
)
def test_any_parameters_give_a_permutation_or_a_named_fault(
    client: Client, parameters: dict[str, Any]
) -> None:
    answer = client.post(URL, json=parameters)

    if answer.status_code == 422:
        assert {error["parameter"] for error in answer.json()["errors"]} <= set(parameters)
        return
    assert answer.status_code == 200, answer.text
    data = answer.json()["data"]
    for vector in data.values() if isinstance(data, dict) else [data]:
        assert sorted(vector) == list(range(len(vector)))
