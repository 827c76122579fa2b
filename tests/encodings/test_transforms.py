"""Named axes: arrays in any order of axes are transformed alike, and no order is guessed."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.encodings.absolute.sinusoidal import SinusoidSum
from service.encodings.rotary.rope_apply import RopeApply
from service.encodings.transforms import TransformFamily
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.tables import StoredTable, size
from tests.client import Client, load_npy, npy_bytes

NPY = {"Content-Type": "application/x-npy"}
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}
USUAL = ("batch", "head", "seq", "channel")
PARTIAL = {"rotary_dim": 4, "rotary_offset": 2}


def transformed(family: TransformFamily, x: NDArray[Any], dtype: DType) -> NDArray[Any]:
    table = family.resolve({"x": StoredTable(x, dtype)}).arrays["x"]
    return table.read(0, size(table)).reshape(table.shape)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16, FLOAT32, FLOAT64], ids=lambda each: each.name)
@given(
    order=st.permutations(USUAL),
    family=st.sampled_from([RopeApply, SinusoidSum]),
    given_too=st.sampled_from(
        [{}, {"layout": "half"}, {"output_layout": "half"}, PARTIAL, PARTIAL | {"layout": "half"}]
    ),
    cut=st.integers(1, 500),
)
def test_every_order_of_axes_gives_the_same_bits(
    dtype: DType,
    order: list[str],
    family: type[TransformFamily],
    given_too: dict[str, Any],
    cut: int,
) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(np.float32)
    x[0, 1, 2, :3] = np.nan, np.inf, -np.inf
    sent = (
        x.astype(ml_dtypes.bfloat16).view("<u2") if dtype is BFLOAT16 else x.astype(dtype.storage)
    )
    moved = [USUAL.index(name) for name in order]
    own = given_too if family is RopeApply else {}

    usual = transformed(family.model_validate({"axes": ",".join(USUAL), **own}), sent, dtype)
    other = family.model_validate({"axes": ",".join(order), **own})
    table = other.resolve({"x": StoredTable(sent.transpose(moved), dtype)}).arrays["x"]
    parts = [table.read(at, min(at + cut, sent.size)) for at in range(0, sent.size, cut)]

    assert np.concatenate(parts).tobytes() == usual.transpose(moved).tobytes()


def test_heads_of_one_position_are_rotated_alike(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 8)).astype(np.float32)

    answers = [
        client.post(
            f"/rope/apply.npy?layout=half&axes={axes}", content=npy_bytes(sent), headers=NPY
        )
        for axes, sent in (
            ("batch,seq,head,channel", x),
            ("batch,head,seq,channel", x.swapaxes(1, 2)),
        )
    ]

    by_token, by_head = map(load_npy, answers)
    assert (by_token == by_head.swapaxes(1, 2)).all()
    assert (by_token[:, 0] == x[:, 0]).all()
    assert (by_token[:, 1] != x[:, 1]).any()


@pytest.mark.parametrize(
    "path", ["/rope/apply", "/encoding/apply", "/relative/transformer-xl/shift"]
)
def test_four_axes_without_names_are_refused_with_calls_that_work(
    client: Client, path: str
) -> None:
    x = npy_bytes(np.ones((2, 2, 2, 2), np.float32))

    refused = client.post(path, content=x, headers=NPY)

    (error,) = refused.json()["errors"]
    ways = [word for word in error["detail"].split() if word.startswith("axes=")]
    assert (refused.status_code, error["parameter"], len(ways)) == (422, "axes", 2)
    for way in ways:
        answer = client.post(f"{path}.json?{way}", content=x, headers=NPY).json()
        assert f"axes={answer['parameters']['axes']}" == way


def test_the_calls_that_work_have_as_many_axes_as_the_array(client: Client) -> None:
    x = npy_bytes(np.ones((1, 1, 2, 2, 2, 2), np.float32))

    detail = client.post("/rope/apply", content=x, headers=NPY).json()["detail"]

    assert "axes=any,any,batch,seq,head,channel" in detail


def test_up_to_three_axes_have_a_default_that_the_answer_names(client: Client) -> None:
    two = client.post("/rope/apply", json={"x": [[1, 2], [3, 4]]}).json()
    three = client.post("/rope/apply", json={"x": [[[1, 2], [3, 4]]]}).json()
    packed = client.post(
        "/rope/apply", json={"x": [[[1, 2]], [[3, 4]]], "axes": ["token", "head", "channel"]}
    ).json()

    assert two["parameters"]["axes"] == "seq,channel"
    assert three["parameters"]["axes"] == "any,seq,channel"
    assert packed["parameters"]["axes"] == "token,head,channel"
    assert [row[0] for row in packed["data"]] == three["data"][0] == two["data"]


@pytest.mark.parametrize(
    ("axes", "detail"),
    [
        ("batch,length,head,channel", "length is not; did you mean seq?"),
        ("batch,seqs,head,channel", "seqs is not; did you mean seq?"),
        ("b,s,h,d", "b is not; did you mean batch?"),
        ("batch,seq,head,head_dim", "head_dim is not; did you mean channel?"),
        ("batch,batch,seq,channel", "must have one batch, and has 2: further axes are any"),
        ("batch,any,head,channel", "must have one seq or token, and has"),
        ("batch,seq,token,channel", "must have one seq or token, and has"),
        ("batch,seq,head,any", "must have one channel, and has"),
        ("seq,channel", "axes names 2 axes, and k has 4: send axes=batch,seq,head,channel"),
        ("any,,seq,channel", "and one is not"),
    ],
)
def test_the_problem_says_which_names_axes_have(client: Client, axes: str, detail: str) -> None:
    body = safetensors.numpy.save({"k": np.ones((1, 2, 2, 4), np.float32)})

    answer = client.post(f"/rope/apply?axes={axes}", content=body, headers=SAFETENSORS)

    assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (422, "axes")
    assert detail in answer.json()["errors"][0]["detail"]


def test_queries_and_keys_of_different_head_counts_share_axes(client: Client) -> None:
    noise = np.random.default_rng(0)
    q = noise.standard_normal((2, 5, 4, 8)).astype(np.float32)
    k = noise.standard_normal((2, 5, 1, 8)).astype(np.float32)
    url = "/rope/apply.safetensors?axes=batch,seq,head,channel&positions=3,1,4,1,5"

    both = client.post(url, content=safetensors.numpy.save({"q": q, "k": k}), headers=SAFETENSORS)
    alone = client.post(url, content=safetensors.numpy.save({"k": k}), headers=SAFETENSORS)

    assert (
        safetensors.numpy.load(both.content)["k"].tobytes()
        == safetensors.numpy.load(alone.content)["k"].tobytes()
    )


def test_diagnose_takes_rotated_arrays_in_the_axes_of_the_url(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((1, 6, 3, 8))
    to = "/rope/apply?layout=half&axes=batch,seq,head,channel"
    rotated = load_npy(client.post(to, content=npy_bytes(x), headers=NPY))

    body = {"x": x.tolist(), "rotated": rotated.tolist()}
    right = client.post("/diagnose", json={"to": to, **body}).json()
    unnamed = client.post("/diagnose", json={"to": "/rope/apply?layout=half", **body})

    assert (right["verdict"], right["mistakes"]) == ("equal", [])
    assert unnamed.status_code == 200
    assert unnamed.json()["verdict"] != "equal"


def test_packed_rows_restart_and_axial_positions_have_a_batch(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((7, 2, 8))
    packed, listed = (
        load_npy(
            client.post(
                f"/rope/apply?axes=token,head,channel&{way}", content=npy_bytes(x), headers=NPY
            )
        )
        for way in ("cu_seqlens=0,3,7", "positions=0,1,2,0,1,2,3")
    )
    assert packed.tobytes() == listed.tobytes()

    grid = np.indices((2, 3)).reshape(2, 1, 6).repeat(2, axis=1)
    batch = np.random.default_rng(1).standard_normal((2, 6, 8))
    url = "/rope/axial/apply?convention=qwen2_vl&layout=half&axes=batch,seq,channel"
    body = safetensors.numpy.save({"x": batch, "positions": grid})
    sent = safetensors.numpy.load(client.post(url, content=body, headers=SAFETENSORS).content)
    by_grid = client.post(f"{url}&grid=2,3", content=npy_bytes(batch), headers=NPY)
    assert sent["x"].tobytes() == load_npy(by_grid).tobytes()


def test_one_row_of_positions_and_one_offset_are_those_of_every_sequence(client: Client) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 8))
    body = {"x": x.tolist(), "axes": "batch,seq,channel"}

    of_row, of_offset, of_start = (
        client.post("/rope/apply", json=body | way).json()["data"]
        for way in ({"positions": [[4, 5, 6]]}, {"seqlen_offsets": [4]}, {"start": 4})
    )
    offsets = client.post("/rope/apply", json=body | {"seqlen_offsets": [4, 0]}).json()["data"]

    assert of_row == of_offset == of_start
    assert offsets[0] == of_start[0]
    assert offsets[1] != of_start[1]


def test_positions_of_the_wrong_rank_are_named_and_not_the_array(client: Client) -> None:
    body = {"x": [[1.0] * 16] * 2, "mrope_section": "2,3,3", "positions": [[[0, 1]]] * 4}

    answer = client.post("/rope/apply", json=body)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/positions"
    assert "positions[1:]" in answer.json()["detail"]


def test_positions_of_several_sequences_are_not_diagnosed(client: Client) -> None:
    to = "/rope/apply?axes=batch,seq,channel&seqlen_offsets=0,4"
    x = [[[1.0, 2.0]], [[3.0, 4.0]]]

    answer = client.post("/diagnose", json={"to": to, "x": x, "rotated": x})

    assert answer.status_code == 422
    assert "to gives 2 positions, and x has 1 rows" in answer.json()["detail"]
