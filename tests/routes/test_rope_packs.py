"""Packings and their consumers, as parameters of every rotary table."""

import io
from typing import Any, get_args

import httpx
import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray

from service.routes.rope_packs import PackName, PackParameters
from service.tables.packs import CONSUMERS, PACKS
from tests.client import Client

TABLES = pytest.mark.parametrize(
    "url", ["/rope?head_dim=8&seq_len=6", "/rope/axial?convention=qwen2_vl&head_dim=8&grid=2,3"]
)


def arrays(answer: httpx.Response) -> dict[str, NDArray[Any]]:
    assert answer.status_code == 200, answer.text
    return dict(safetensors.numpy.load(answer.content))


def asked(client: Client, url: str, **parameters: object) -> httpx.Response:
    query = "".join(f"&{name}={str(value).lower()}" for name, value in parameters.items())
    return client.get(url.replace("?", ".safetensors?") + query)


def test_every_pack_and_every_consumer_can_be_asked_for_and_is_described() -> None:
    description = PackParameters.model_fields["pack"].description or ""

    assert list(get_args(PackName)) == [*PACKS, *CONSUMERS]
    for name, pack in PACKS.items():
        assert f"{name} {pack.description}" in description
    for consumer, pack_name in CONSUMERS.items():
        assert f"{consumer} ({pack_name})" in description


@TABLES
def test_every_pack_is_made_of_the_same_cosines_and_sines(client: Client, url: str) -> None:
    both = arrays(asked(client, url, pack="compact"))
    cos, sin = both["cos"], both["sin"]
    cos2, sin2 = np.tile(cos, 2), np.tile(sin, 2)
    pairs = np.stack([cos, sin], axis=-1)
    expected = {
        "pair": {"rope": pairs},
        "flat": {"rope": pairs.reshape(6, 8)},
        "concat": {"rope": np.hstack([cos, sin])},
        "sin_concat": {"rope": np.hstack([sin, cos])},
        "compact": both,
        "half": {"cos": cos2, "sin": sin2},
        "interleaved": {"cos": np.repeat(cos, 2, axis=1), "sin": np.repeat(sin, 2, axis=1)},
        "half_concat": {"rope": np.hstack([cos2, sin2])},
        "sin_half_concat": {"rope": np.hstack([sin2, cos2])},
        "sin_interleaved_concat": {"rope": np.repeat(np.hstack([sin, cos]), 2, axis=1)},
    }

    assert {*expected, "complex", "angle"} == set(PACKS)
    for pack, named in expected.items():
        found = arrays(asked(client, url, pack=pack))
        assert {name: array.tolist() for name, array in found.items()} == {
            name: array.tolist() for name, array in named.items()
        }


@TABLES
def test_complex_numbers_and_angles_are_those_of_the_cosines(client: Client, url: str) -> None:
    both = arrays(asked(client, url, pack="compact", dtype="float64"))
    angles = arrays(asked(client, url, pack="angle", dtype="float64"))["rope"]
    answer = client.get(url.replace("?", ".npy?") + "&pack=complex&dtype=float64")
    complexes = np.load(io.BytesIO(answer.content), allow_pickle=False)

    assert complexes.tolist() == (both["cos"] + 1j * both["sin"]).tolist()
    assert np.abs(np.cos(angles) - both["cos"]).max() < 1e-15
    assert np.abs(np.sin(angles) - both["sin"]).max() < 1e-15


@TABLES
@pytest.mark.parametrize(("consumer", "pack"), CONSUMERS.items())
def test_a_consumer_is_another_name_of_its_pack(
    client: Client, url: str, consumer: str, pack: str
) -> None:
    """The same document: its parameters say the pack, and its tag is the same."""
    extension = ".npy?" if pack == "complex" else ".safetensors?"
    by_consumer = client.get(url.replace("?", extension) + f"&pack={consumer}")
    by_pack = client.get(url.replace("?", extension) + f"&pack={pack}")

    assert by_consumer.status_code == 200
    assert by_consumer.content == by_pack.content
    assert by_consumer.headers["ETag"] == by_pack.headers["ETag"]


@TABLES
def test_a_batch_has_a_leading_axis_of_one(client: Client, url: str) -> None:
    for pack in PACKS:
        extension = ".npy?" if pack == "complex" else ".safetensors?"
        asked_for = url.replace("?", extension) + f"&pack={pack}"
        plain, batch = client.head(asked_for), client.head(f"{asked_for}&batch=true")
        assert batch.headers["Array-Shape"] == f"1, {plain.headers['Array-Shape']}"


@TABLES
@pytest.mark.parametrize("pack", ["compact", "half", "interleaved"])
def test_one_of_two_arrays_may_be_asked_for_alone(client: Client, url: str, pack: str) -> None:
    both = arrays(asked(client, url, pack=pack))

    for part in ("cos", "sin"):
        (alone,) = arrays(asked(client, url, pack=pack, part=part)).values()
        assert alone.tolist() == both[part].tolist()


@TABLES
@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("pack=complex&dtype=float16", "dtype", "float16"),
        ("pack=llama&dtype=bfloat16", "dtype", "bfloat16"),
        ("pack=angle&dtype=float16", "dtype", "float16"),
        ("pack=pair&part=cos", "part", "cos"),
        ("pack=angle&part=sin", "part", "sin"),
        ("pack=half&part=tan", "part", "tan"),
        ("pack=pairs", "pack", "pairs"),
        ("batch=1", "batch", "1"),
        ("dtype=int32", "dtype", "int32"),
    ],
)
def test_what_a_pack_cannot_be_is_named(
    client: Client, url: str, query: str, parameter: str, value: str
) -> None:
    answer = client.get(f"{url}&{query}")

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value)]


def test_a_misspelled_pack_is_told_the_nearest(client: Client) -> None:
    answer = client.get("/rope?head_dim=8&seq_len=6&pack=interleave")

    assert "did you mean interleaved?" in answer.json()["detail"]
