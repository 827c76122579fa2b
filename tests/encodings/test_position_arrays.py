"""Positions sent as an array: shapes, bytes, what is computed once, and what is refused."""

import tracemalloc
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from safetensors.numpy import load, save

from service.encodings.rotary.angles import SequenceAngles
from service.encodings.rotary.rules import Default
from service.numerics.axes import AxesTable, Axis, simplified
from service.numerics.dtypes import FLOAT32, FLOAT64
from service.numerics.phase import Picked
from service.numerics.phasors import Channels, sinusoid_table
from service.numerics.positions import PositionArray, Positions
from service.numerics.repeated_rows import RepeatedRows
from service.numerics.setups import setup_of
from service.numerics.tables import seconds
from tests.client import Client, load_npy, npy_bytes

RULE = Default(8, 10000.0)
CHANNELS = Channels(("cos", "sin"), interleaved=False, width=8)
SECTION = "mrope_section=2,1,1"

WHOLE = arrays.arrays(np.int64, (3, 2, 5), elements=st.integers(-(2**62), 2**62) | st.just(7))
FRACTIONS = arrays.arrays(
    np.float64, (3, 2, 5), elements=st.floats(-1e18, 1e18).filter(lambda x: abs(x) > 1e-30)
)


def post(client: Client, url: str, array: NDArray[Any]) -> httpx.Response:
    return client.post(url, content=npy_bytes(array), headers={"Content-Type": "application/x-npy"})


def post_tensors(client: Client, url: str, **tensors: NDArray[Any]) -> httpx.Response:
    headers = {"Content-Type": "application/vnd.safetensors"}
    return client.post(url, content=save(tensors), headers=headers)


def listed(row: NDArray[Any]) -> str:
    return ",".join(map(repr, row.tolist()))


def rows_by_list(client: Client, url: str, positions: NDArray[Any], names: str = "") -> list[bytes]:
    """Return the bytes of each sequence of a batch, of the lists of its positions."""
    bodies = []
    for row in np.moveaxis(positions, -2, 0):
        along = [f"positions_{name}={listed(each)}" for name, each in zip(names, row, strict=False)]
        query = "&".join(along or [f"positions={listed(row)}"])
        answer = client.get(f"{url}&{query}")
        assert answer.status_code == 200, answer.text
        bodies.append(answer.content)
    return bodies


@pytest.mark.parametrize("url", ["/rope?head_dim=8", "/encoding?d_model=8"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_fraction_may_be_all_positions(client: Client, url: str, count: int) -> None:
    sent = post(client, url.replace("?", ".npy?") + "&dtype=float64", np.full(count, 0.5))
    listed_once = client.get(url.replace("?", ".npy?") + "&dtype=float64&positions=0.5")

    assert sent.status_code == 200, sent.text
    assert (load_npy(sent) == load_npy(listed_once)).all()


@pytest.mark.parametrize("step", [1, 2**40, 0.375])
@pytest.mark.parametrize(
    "url",
    [
        "/rope.bin?head_dim=8",
        "/rope.bin?head_dim=8&pack=half&part=sin&dtype=bfloat16",
        "/rope.bin?head_dim=8&rope_type=yarn&factor=3&original_max_position_embeddings=64&angle=float32",
        "/rope.bin?head_dim=8&pack=angle&dtype=float64",
        "/rope.bin?head_dim=8&pack=complex&dtype=float64",
        "/encoding.bin?d_model=7&convention=tensor2tensor&dtype=float64",
        "/encoding.bin?d_model=8",
    ],
)
def test_rows_of_a_batch_have_the_bytes_of_lists(client: Client, url: str, step: float) -> None:
    positions = np.arange(40).reshape(2, 20) % 9 * step

    answer = post(client, url, positions)

    assert answer.status_code == 200, answer.text
    assert answer.headers["Array-Shape"].startswith("2, 20, ")
    assert answer.headers["Array-Axes"].startswith("batch, position, ")
    assert answer.content == b"".join(rows_by_list(client, url, positions))


@pytest.mark.parametrize(
    ("layout", "names"),
    [
        ("&mrope_interleaved=true", "thw"),
        ("&angle=float32", "thw"),
        ("&pack=half&part=cos&dtype=float16", "thw"),
        ("&pack=angle", "thw"),
        ("&mrope_layout=hunyuan_vl&pack=half&part=sin", "wht"),
    ],
)
@pytest.mark.parametrize("distinct", [5, 2**50])
def test_axes_come_first_in_the_order_of_position_ids(
    client: Client, layout: str, names: str, distinct: int
) -> None:
    positions = np.random.default_rng(3).integers(0, distinct, (3, 2, 30))
    url = f"/rope.bin?head_dim=8&{SECTION}{layout}"

    answer = post(client, url, positions)

    assert answer.status_code == 200, answer.text
    assert answer.content == b"".join(rows_by_list(client, url, positions, names))


def test_ernie_sends_t_first_though_its_section_has_it_last(client: Client) -> None:
    positions = np.array([[5, 6], [1, 2], [3, 4]])
    url = "/rope.bin?head_dim=8&mrope_section=1,1,2&mrope_layout=ernie4_5_vl"

    along = "positions_t=5,6&positions_h=1,2&positions_w=3,4"
    assert post(client, url, positions).content == client.get(f"{url}&{along}").content


def test_axial_positions_are_in_the_order_of_the_grid(client: Client) -> None:
    url = "/rope/axial.bin?convention=sam2&head_dim=8"
    positions = np.indices((2, 3)).reshape(2, 1, 6)

    assert post(client, url, positions).content == client.get(f"{url}&grid=2,3").content
    swapped = post(client, f"{url}&grid_indexing=xy", positions[::-1])
    assert swapped.content == client.get(f"{url}&grid=2,3").content


@pytest.mark.parametrize("numbers", [[0.5], [0.5, 2.0**40, 0.5], [7], [0.5, 0.5]])
def test_distinct_positions_are_half_of_all_at_most(numbers: list[float]) -> None:
    found = PositionArray.of(np.array(numbers)).distinct

    if len(numbers) < 2 * len(set(numbers)):
        assert found is None
    else:
        assert found is not None
        every, index = found.positions.at(0, found.count), found.index.at(0, len(numbers))
        assert every[index].tolist() == numbers


@given(WHOLE | FRACTIONS)
def test_tables_without_repeats_have_the_same_bytes(numbers: NDArray[Any]) -> None:
    axes = tuple(
        Axis(Picked(RULE, (place,)), PositionArray.of(each), (place,))
        for place, each in enumerate(np.concatenate([numbers, numbers[:1]]))
    )
    every = AxesTable(axes, "float32", CHANNELS, FLOAT32, (2, 5, 8))
    plain, copied = every.read(0, 80), simplified(every)

    assert copied.read(0, 80).tobytes() == plain.tobytes()
    assert copied.read(13, 41).tobytes() == plain[13:41].tobytes()


def test_a_repeated_position_is_computed_once() -> None:
    numbers = np.arange(1000) % 10
    table = sinusoid_table(RULE, CHANNELS, PositionArray.of(numbers), FLOAT64, (1000, 8))
    angles = SequenceAngles(RULE, PositionArray.of(numbers), "float32")

    assert isinstance(table, RepeatedRows)
    assert table.parts[0].rows.shape == (10, 8)
    assert isinstance(angles.table(CHANNELS, FLOAT64, (1000, 8)), RepeatedRows)
    alone = sinusoid_table(RULE, CHANNELS, PositionArray.of(np.arange(1000)), FLOAT64, (1000, 8))
    assert not isinstance(alone, RepeatedRows)


def test_an_answer_of_positions_is_taken_as_it_is(client: Client) -> None:
    ids, mask = np.arange(30).reshape(3, 2, 5), np.ones((2, 5), dtype=np.int64)
    url = f"/rope.safetensors?head_dim=8&{SECTION}&pack=half"

    answer = post_tensors(
        client, url, position_ids=ids, rope_deltas=mask[:, :1].copy(), attention_mask=mask
    )

    plain = post_tensors(client, url, positions=ids)
    assert answer.content == plain.content
    assert load(answer.content)["cos"].shape == (2, 5, 8)


def test_lists_of_json_raw_bytes_and_safetensors_are_the_same_array(client: Client) -> None:
    ids = np.array([[0, 5, 2**30], [1, 1, 7]], dtype=np.int32)
    url = "/rope.npy?head_dim=8"
    sent = post(client, url, ids)

    raw = f"{url}&shape=2,3&x_dtype=int32"
    octets = {"Content-Type": "application/octet-stream"}
    assert client.post(raw, content=ids.tobytes(), headers=octets).content == sent.content
    for name in ("positions", "position_ids"):
        assert client.post(url, json={name: ids.tolist()}).content == sent.content
        assert post_tensors(client, url, **{name: ids}).content == sent.content


def test_parameters_tell_arrays_apart_without_their_numbers(client: Client) -> None:
    ids = np.arange(12).reshape(2, 6)
    answers = [
        post(client, "/rope.json?head_dim=8", each).json()
        for each in (ids, ids.astype(float), -ids)
    ]

    same, real, other = (answer["parameters"] for answer in answers)
    assert same["positions_shape"] == [2, 6]
    assert same == real != other
    assert answers[0]["axes"] == ["batch", "position", "pair", "component"]


@pytest.mark.parametrize(
    ("query", "positions"),
    [
        ("cu_seqlens=0,3,3,7", "0:3,0:4"),
        ("cu_seqlens=0,3,7&seqlen_offsets=10,0", "10:13,0:4"),
    ],
)
def test_positions_restart_in_each_packed_sequence(
    client: Client, query: str, positions: str
) -> None:
    for url in ("/rope.npy?head_dim=8", "/encoding.npy?d_model=8"):
        packed = client.get(f"{url}&{query}")
        assert packed.content == client.get(f"{url}&positions={positions}").content
        assert packed.status_code == 200


def test_sequences_of_a_batch_begin_at_their_offsets(client: Client) -> None:
    url = "/rope.bin?head_dim=8"
    answer = client.get(f"{url}&seq_len=4&seqlen_offsets=0,9")

    assert answer.headers["Array-Shape"] == "2, 4, 4, 2"
    assert answer.content == client.get(f"{url}&positions=0:4,9:13").content


def test_lengths_may_be_arrays_and_go_beside_the_positions_that_they_are_of(client: Client) -> None:
    ends, ids = np.array([0, 3, 7], dtype=np.int32), np.array([[0, 1, 2, 0, 1, 2, 3]])
    packed = post_tensors(client, "/rope.bin?head_dim=8", cu_seqlens=ends)
    both = post_tensors(client, "/rope.bin?head_dim=8", cu_seqlens=ends, position_ids=ids)

    assert packed.content == both.content
    refused = post_tensors(
        client, "/rope.bin?head_dim=8", cu_seqlens=ends, positions=ids[:, ::-1].copy()
    )
    assert refused.json()["errors"][0]["parameter"] == "cu_seqlens"


@pytest.mark.parametrize("ids", [[0, 0, 1, 2**40], [3, 0, 1, 2], [0.5, 1.5, 2.5, 0.25]])
def test_sequences_are_checked_alike_in_lists_and_arrays(client: Client, ids: list[float]) -> None:
    for ends in ([0, 1, 1, 3, 4], [0, 1, 4], [0, 3, 4], [0, 3]):
        flat, nested = (
            client.post("/rope.bin?head_dim=8", json={"positions": each, "cu_seqlens": ends})
            for each in (ids, [ids])
        )
        assert flat.status_code == nested.status_code
        if flat.status_code == 200:
            assert flat.content == nested.content
        else:
            assert fault(flat) == fault(nested)


def test_ids_of_pictures_need_no_cu_seqlens(client: Client) -> None:
    ids, url = np.array([[[0, 1, 1, 0]]] * 3), f"/rope.bin?head_dim=8&{SECTION}"
    alone = post(client, url, ids)
    for ends in ([0, 4], [0, 3, 4]):
        body = {"positions": ids.tolist(), "cu_seqlens": ends}
        assert client.post(url, json=body).content == alone.content
    for wrong, ends in ((ids, [0, 3]), (ids[:, 0], [0, 4])):
        body = {"positions": wrong.tolist(), "cu_seqlens": ends}
        where, detail = fault(client.post(url, json=body))
        assert where == "cu_seqlens"
        assert "leave it out" in detail


def test_a_decode_step_is_taken_as_it_is(client: Client) -> None:
    steps = {"convention": "qwen2_vl", "steps": 4, "rows": [[{"text": 2}, {"image": [1, 4, 6]}]]}
    ids = {
        part: client.post("/positions.safetensors", json={**steps, "part": part}).content
        for part in ("position_ids", "decode_position_ids")
    }
    headers = {"Content-Type": "application/vnd.safetensors"}
    url = f"/rope.npy?head_dim=8&{SECTION}"
    decoded = load(ids["decode_position_ids"])["decode_position_ids"]
    expected = post(client, url, decoded)

    assert expected.status_code == 200
    answer = client.post(url, content=ids["decode_position_ids"], headers=headers)
    assert answer.content == expected.content
    x = np.ones((1, 4, 8))
    both = {"x": x, "decode_position_ids": decoded}
    turned = f"/rope/apply.npy?head_dim=8&layout=half&{SECTION}"
    answers = [
        post_tensors(client, turned, **each)
        for each in (both, {"x": x, "positions": decoded}, {**both, "position_ids": decoded - 4})
    ]
    assert [each.status_code for each in answers] == [200] * 3
    assert answers[0].content == answers[1].content != answers[2].content


def fault(answer: httpx.Response) -> tuple[str, str]:
    assert answer.status_code == 422, answer.text
    (first,) = answer.json()["errors"]
    return first.get("parameter") or first["pointer"], first["detail"]


@pytest.mark.parametrize(
    ("url", "shape", "hint"),
    [
        ("/rope?head_dim=8", (3, 2, 5), "mrope_section"),
        (f"/rope?head_dim=8&{SECTION}", (4, 2, 5), r"send positions[1:]"),
        (f"/rope?head_dim=8&{SECTION}", (2, 5), "(3, S) or (3, B, S)"),
        (f"/rope?head_dim=8&{SECTION}", (5,), "t, h, w"),
        (f"/rope?head_dim=8&{SECTION}", (2, 5), "once for each"),
        ("/rope/axial?head_dim=8&convention=sam2", (3, 5), "(2, S)"),
        ("/encoding?d_model=8", (1, 2, 5), "must have (S,) or (B, S)"),
    ],
)
def test_rank_and_rule_decide_the_shape(
    client: Client, url: str, shape: tuple[int, ...], hint: str
) -> None:
    where, detail = fault(post(client, url, np.zeros(shape, dtype=np.int64)))

    assert where == "positions"
    assert hint in detail
    assert ("mrope_section" in detail) == (hint == "mrope_section")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 2.0**63, 1e-40])
def test_a_position_without_exact_angles_is_named(client: Client, wrong: float) -> None:
    positions = np.array([[0.5, 1.0], [2.0, wrong]])

    assert fault(post(client, "/rope?head_dim=8", positions))[0] == "positions/1/1"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"positions": [[0, 2**53]]}, "/positions/0/1"),
        ({"positions": [[0]], "position_ids": [[0]]}, "/position_ids"),
        ({"positions": [[0]], "seq_len": 1}, "seq_len"),
        ({"positions": [[True]]}, "/positions"),
        ({"positions": [[0], [1, 2]]}, "/positions"),
        ({"attention_mask": [[1]]}, "/attention_mask"),
        ({"positions": [[0]], "batch": True}, "batch"),
        ({"positions": [[0]], "seqlen_offsets": [0]}, "seqlen_offsets"),
        ({"positions": [[0]], "xpos": "query"}, "xpos_centre"),
        ({"positions": [[0.5]], "xpos": "query", "xpos_centre": 0}, "xpos"),
        ({"cu_seqlens": [0, 3, 2]}, "cu_seqlens"),
        ({"cu_seqlens": [1, 3]}, "cu_seqlens"),
        ({"cu_seqlens": [0, 3], "seqlen_offsets": [1, 2]}, "seqlen_offsets"),
        ({"cu_seqlens": [0, 3], "positions": "0:4"}, "cu_seqlens"),
        ({"cu_seqlens": [0, 3], "positions": [0, 1, 1]}, "cu_seqlens"),
        ({"cu_seqlens": [0, 3], "positions": [0, 1.5, 2.5]}, "cu_seqlens"),
        ({"cu_seqlens": [0, 2**61], "positions": f"5:{2**61}:2"}, "cu_seqlens"),
        ({"starts": [[0.0]]}, "/starts"),
        ({"seqlen_offsets": [1, 2]}, "seq_len"),
        ({"seqlen_offsets": [-1, 2], "seq_len": 2}, "seqlen_offsets"),
    ],
)
def test_a_contradiction_is_refused_where_it_is(
    client: Client, body: dict[str, Any], where: str
) -> None:
    assert fault(client.post("/rope", json={"head_dim": 8, **body}))[0] == where


@pytest.mark.parametrize("query", ["", "&dimensions=1,2"])
def test_curves_are_of_one_sequence(client: Client, query: str) -> None:
    url = f"/encoding/curves?d_model=8{query}"

    assert fault(post(client, url, np.zeros((2, 3), dtype=np.int64)))[0] == "positions"
    assert (
        post(client, url, np.arange(3)).content
        == client.get(f"{url.replace('curves', 'curves.npy')}&seq_len=3").content
    )


def test_the_scale_of_xpos_needs_a_centre_where_sequences_restart(client: Client) -> None:
    for lengths in ("cu_seqlens=0,2,5", "seqlen_offsets=0,2&seq_len=3"):
        assert fault(client.get(f"/rope?head_dim=8&xpos=query&{lengths}"))[0] == "xpos_centre"


def test_positions_of_the_query_are_refused_beside_an_array(client: Client) -> None:
    where, detail = fault(post(client, "/rope?head_dim=8&positions=1", np.array([1])))

    assert (where, "in the query and in the body" in detail) == ("positions", True)


def test_another_array_is_refused_with_the_right_name(client: Client) -> None:
    where, detail = fault(post_tensors(client, "/rope?head_dim=8", pos=np.array([1])))

    assert (where, "positions" in detail) == ("pos", True)


def test_an_answer_in_json_is_refused_as_a_body(client: Client) -> None:
    numbered = client.post("/positions", json={"convention": "arange", "rows": [[{"text": 3}]]})

    for path in ("/rope?head_dim=8", "/rope/apply?layout=half"):
        where, detail = fault(client.post(path, json=numbered.json()))

        assert (where, "safetensors" in detail) == ("/data", True)


def test_cosines_of_a_batch_are_those_of_transformers(client: Client) -> None:
    """LlamaRotaryEmbedding of transformers 5.23.0, with float32 arithmetic, of two positions."""
    url = "/rope.npy?head_dim=4&rope_theta=10000&pack=transformers&part=cos"

    cos = load_npy(post(client, url, np.array([[1], [100]])))

    expected = np.cos(np.array([[1, 0.01], [100, 1]]))
    assert np.allclose(cos[:, 0], np.tile(expected, 2), atol=1e-6)


def test_scattered_positions_take_little_memory() -> None:
    numbers = np.random.default_rng(4).integers(-(2**60), 2**60, 300_000)
    tracemalloc.start()
    table = sinusoid_table(RULE, CHANNELS, PositionArray(numbers), FLOAT32, (len(numbers), 8))
    setup_of(table)
    seconds(table)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    # Runs would take 16 times as much as the numbers.
    assert most_bytes < 6 * numbers.nbytes
    expected = sinusoid_table(RULE, CHANNELS, Positions.of_integers(numbers[-9:]), FLOAT32, (9, 8))
    assert table.read(8 * len(numbers) - 72, 8 * len(numbers)).tolist() == (
        expected.read(0, 72).tolist()
    )
