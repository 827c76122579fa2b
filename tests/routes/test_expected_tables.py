"""``POST /diagnose`` expects the table of a URL, or as many of its first rows as were sent."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from service.analysis.explanation.numeric_tables import Numbers
from service.errors import InvalidParameters
from service.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64
from service.routes.another_table import other_settings
from service.routes.expected_tables import Expected, expected_at, numbers_of
from service.routes.table_urls import table_request
from tests.client import Client, load_npy, npy_bytes
from tests.routes.test_diagnose import (
    ENCODING,
    LLAMA3,
    MAE,
    ROPE,
    SCALED,
    SCHEMA,
    diagnose,
    names,
    table,
)

LONG = "/rope?head_dim=16&seq_len=131072"


@pytest.mark.parametrize(
    ("to", "rows", "correct"),
    [
        (f"{LONG}&pack=half&part=cos", 64, "/rope?head_dim=16&seq_len=64&pack=half&part=cos"),
        (f"{LONG}&pack=complex", 2, "/rope.npy?head_dim=16&seq_len=2&pack=complex"),
        (f"{LONG}&pack=vllm&batch=true", 1, "/rope?head_dim=16&seq_len=1&pack=vllm&batch=true"),
        (f"{LONG}&start=7", 64, "/rope?head_dim=16&seq_len=64&start=7"),
        (
            "/rope?head_dim=16&max_position_embeddings=131072&pack=gptj",
            64,
            "/rope?head_dim=16&max_position_embeddings=131072&pack=gptj&seq_len=64",
        ),
        (
            "/rope?head_dim=16&pack=vllm&positions=5:9,100:200:7,3",
            6,
            "/rope?head_dim=16&pack=vllm&positions=5:9,100,107",
        ),
        ("/encoding?d_model=8&positions=0.5,2,7,9", 3, "/encoding?d_model=8&positions=0.5,2,7"),
        (
            "/rope?head_dim=16&xpos=key&seq_len=64&pack=vllm",
            24,
            "/rope?head_dim=16&xpos=key&seq_len=24&pack=vllm&xpos_centre=32",
        ),
    ],
)
def test_fewer_rows_are_expected_to_be_the_first_rows_of_the_table(
    client: Client, to: str, rows: int, correct: str
) -> None:
    sent = load_npy(client.get(correct.replace(".npy", "").replace("?", ".npy?", 1)))
    npy = {"content-type": "application/x-npy"}

    right = client.post("/diagnose", params={"to": to}, content=npy_bytes(sent), headers=npy)
    wrong = client.post("/diagnose", params={"to": to}, content=npy_bytes(2 * sent), headers=npy)
    compared = client.post("/compare", params={"to": to}, content=npy_bytes(sent), headers=npy)

    assert compared.json()["equal"]
    assert right.json()["verdict"] == "equal"
    assert names(wrong.json()) == ["extra-factor"]
    for answer in (right, wrong):
        SCHEMA.validate(answer.json())
        assert answer.json()["correct"]["url"] == correct
        assert answer.json()["checked"]["rows"] == rows


def test_fewer_rows_of_cosines_and_sines_are_the_first(client: Client) -> None:
    to = f"{LONG}&pack=half"
    pair = table(client, ROPE)
    sine = -np.array(pair["sin"])

    report = diagnose(client, to=to, have_cos=pair["cos"], have_sin=sine)

    assert names(report) == ["sine-sign"]
    assert (report["checked"]["rows"], report["checked"]["of"]) == (16, 131072)
    assert report["correct"]["url"] == ROPE


def test_mistakes_in_fewer_rows_are_those_of_as_many_rows(client: Client) -> None:
    to = LLAMA3.replace("seq_len=64", "seq_len=100000")
    have = table(client, SCALED)

    short, exact = (diagnose(client, to=each, **have) for each in (to, LLAMA3))

    assert short.pop("checked") == {**exact.pop("checked"), "rows": 64, "of": 100000}
    assert short == exact


def test_text_names_the_rows_that_were_checked(client: Client) -> None:
    body = {"to": f"{LONG}&pack=half", **table(client, ROPE)}

    answer = client.post("/diagnose", json=body, headers={"Accept": "text/plain"})

    sentence = "This is the table, made exactly, and rounded once: its first 16 rows of 131072."
    assert answer.text.startswith(f"{sentence}\n")
    assert "\nverdict: equal\n" in answer.text
    assert answer.text.endswith("checked: the first 16 of 131072 rows\n")


TALL = "/encoding?seq_len=100&d_model=32"


@pytest.mark.parametrize(
    ("shown", "mistakes", "rows"),
    [
        (np.s_[:40, :24], ["truncated"], 40),
        (np.s_[:32, :24], ["truncated"], 32),
        (np.s_[:40], [], 40),
        (np.s_[:, :24], ["truncated"], None),
    ],
)
def test_fewer_channels_are_a_mistake_also_in_fewer_rows(
    client: Client, shown: Any, mistakes: list[str], rows: int | None
) -> None:
    report = diagnose(client, to=TALL, have=np.array(table(client, TALL))[shown])

    assert names(report) == mistakes
    assert all(mistake["axis"] == "channels" for mistake in report["mistakes"])
    assert report["checked"].get("rows") == rows


@pytest.mark.parametrize("rows", [24, 32, 40])
def test_transposed_beginning_is_transposed(client: Client, rows: int) -> None:
    report = diagnose(client, to=TALL, have=np.array(table(client, TALL))[:rows].T)

    assert names(report) == ["transposed"]
    assert report["checked"]["rows"] == rows


def test_more_rows_than_the_table_has_are_a_mistake(client: Client) -> None:
    longer = table(client, TALL.replace("100", "101"))

    report = diagnose(client, to=TALL, have=longer)

    (mistake,) = report["mistakes"]
    assert (mistake["name"], mistake["have"], mistake["want"]) == ("longer", 101, 100)
    assert "rows" not in report["checked"]


def test_missing_rows_of_an_array_are_a_mistake(client: Client) -> None:
    want = table(client, ENCODING)

    (mistake,) = diagnose(client, have=want[:9], want=want)["mistakes"]

    assert (mistake["name"], mistake["have"], mistake["want"]) == ("truncated", 9, 16)


def expected_table(url: str, shape: tuple[int, ...]) -> Expected:
    """Return the table that is expected where an array of a shape is sent."""
    return expected_at(url, shape[0])


def expected_numbers(url: str, shape: tuple[int, ...]) -> Numbers:
    """Return the numbers that are expected where an array of a shape is sent."""
    expected = expected_table(url, shape)
    return numbers_of(expected.request, expected.document, int(np.prod(shape)))


def test_rounded_table_is_read_before_rounding() -> None:
    url = "/encoding?seq_len=4&d_model=4&dtype=bfloat16"
    expected, numbers = expected_table(url, (4, 4)), expected_numbers(url, (4, 4))

    assert expected.target is not None
    assert (expected.target.dtype, numbers.dtype) == (BFLOAT16, BFLOAT16)
    assert expected.target.omega[1] == 0.01
    (table,) = numbers.arrays.values()
    assert table.values[1, 0] == np.sin(1.0)


def test_part_of_a_pair_needs_no_more_memory_than_another_table_of_its_size() -> None:
    def most_bytes(pack: str) -> int:
        tracemalloc.start()
        try:
            expected = expected_table(f"/rope?head_dim=64&seq_len=8192&pack={pack}", (8192, 64))
            assert expected.target is not None
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Both are read as frequencies and positions, not as numbers.
    assert max(most_bytes("half&part=cos"), most_bytes("concat")) < 8192 * 64


def test_tables_of_complex_numbers_and_integers_are_read() -> None:
    rotary = expected_table("/rope?head_dim=4&seq_len=3&pack=complex", (4, 4))
    buckets = expected_numbers("/relative/t5?query_len=3&key_len=3", (4, 4))

    assert rotary.target is not None
    assert (rotary.target.dtype, rotary.target.wanted.shape) == (FLOAT32, (3, 2, 2))
    assert (buckets.dtype, buckets.shape) == (FLOAT64, (3, 3))


@pytest.mark.parametrize(
    ("query", "rows", "expected"),
    [
        ("positions=0,5,9:13:2", 4, [0, 5, 9, 11]),
        ("positions=0.5,1.5", 2, [0.5, 1.5]),
        ("seq_len=4&start=100000", 4, [100000, 100001, 100002, 100003]),
        ("seq_len=9&start=7", 3, [7, 8, 9]),
        ("start=7", 3, [7, 8, 9]),
    ],
)
def test_positions_are_listed_or_count_from_start(
    query: str, rows: int, expected: list[float]
) -> None:
    target = expected_table(f"/encoding?d_model=4&{query}", (rows, 4)).target

    assert target is not None
    assert target.structure.places[:, 0].tolist() == expected


def test_positions_of_the_rows_replace_those_of_the_url() -> None:
    found = expected_at("/encoding?d_model=4&seq_len=9&start=7", 3, "5,900,17")

    assert found.target is not None
    assert found.target.structure.places[:, 0].tolist() == [5, 900, 17]


def test_expected_table_has_positions_and_grid() -> None:
    listed = expected_table("/encoding?positions=0,5,9:13:2&d_model=8", (4, 4))
    grid = expected_numbers(f"{MAE}&height=2&width=3", (6, 16))

    assert listed.target is not None
    assert listed.target.structure.places[:, 0].tolist() == [0, 5, 9, 11]
    assert grid.grid == (2, 3)


def test_far_larger_table_is_not_read() -> None:
    with pytest.raises(InvalidParameters, match="query_len"):
        expected_numbers("/relative/t5?query_len=1000000&key_len=512", (1, 512))


def test_alternatives_without_a_table_are_left_out() -> None:
    rule = LLAMA3.removeprefix(SCALED)
    frequencies = f"/rope/frequencies?head_dim=32&part=inv_freq{rule}"
    found = [wrong.name for wrong, _, _ in other_settings(table_request(frequencies), 64)]

    assert found[0] == "config-key-ignored"
    assert "wrong-base" in found


def test_rows_beside_a_wide_row_need_little_memory() -> None:
    def most_bytes(query: str, rows: int) -> int:
        # What the table needs once is cached.
        assert expected_table(f"/encoding?d_model=8192&{query}", (rows, 8192)).target
        tracemalloc.start()
        try:
            expected = expected_table(f"/encoding?d_model=8192&{query}", (rows, 8192))
            assert expected.target is not None
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert most_bytes("positions=5", 1) < 2 * most_bytes("seq_len=8", 8)
