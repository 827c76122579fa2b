"""Encodings of tokens: how libraries count them, and the rows that they have."""

from itertools import chain
from typing import Any, get_args

import httpx
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from service.encodings.absolute.conventions import ALIASES, CONVENTIONS
from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from service.encodings.absolute.tokens import CountedRows, OffsetRows, TokenEncoding
from service.numerics.dtypes import INT64, REAL_DTYPES
from service.numerics.tables import Document, RunningCount, StoredTable, size
from tests.client import Client
from tests.sinusoids import check

IDS = arrays_of.arrays(
    np.int64,
    arrays_of.array_shapes(min_dims=1, max_dims=2, max_side=9),
    elements=st.one_of(st.integers(-2, 3), st.sampled_from([-(2**63), 2**63 - 1])),
)


def counted(line: list[int], padding_idx: int, past: int) -> list[int]:
    """Count token by token."""
    rows, count = [], past
    for token in line:
        count += token != padding_idx
        rows.append(padding_idx + count if token != padding_idx else padding_idx)
    return rows


def rows_of_tokens(ids: NDArray[np.int64], padding_idx: int, past: int) -> CountedRows:
    return CountedRows(RunningCount(StoredTable(ids, INT64), padding_idx), past)


@given(IDS, st.integers(-2, 3), st.sampled_from([0, 1, 4, 2**61]))
def test_tokens_count_on_from_padding_idx(
    ids: NDArray[np.int64], padding_idx: int, past: int
) -> None:
    rows = rows_of_tokens(ids, padding_idx, past).at(0, ids.size)

    lines = [counted(line, padding_idx, past) for line in np.atleast_2d(ids).tolist()]
    assert rows.tolist() == list(chain.from_iterable(lines))


@given(IDS, st.integers(1, 5), st.data())
def test_tokens_are_counted_alike_in_any_range(
    ids: NDArray[np.int64], counted_at_once: int, data: st.DataObject
) -> None:
    rows = rows_of_tokens(ids, 1, 7)
    expected = rows.at(0, ids.size).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.numerics.tables._COUNTED", counted_at_once)
        for _ in range(3):
            start = data.draw(st.integers(0, ids.size - 1))
            stop = data.draw(st.integers(start + 1, ids.size))

            assert rows.at(start, stop).tolist() == expected[start:stop]


def test_the_farthest_row_is_exact_near_the_limit() -> None:
    ids = np.array([[5, 7, 1, 1]])

    assert rows_of_tokens(ids, 1, 2**62 - 3).farthest == 2**62
    assert rows_of_tokens(ids, 1, 2**62 - 2).farthest == 2**62 + 1


def test_the_first_token_has_the_row_after_that_of_padding() -> None:
    """Rows 0 and 1 of fairseq are never a first token's: the off-by-one it is known for."""
    rows = rows_of_tokens(np.array([[9, 9, 1], [1, 9, 9]]), 1, 0)

    assert rows.at(0, 6).tolist() == [2, 3, 1, 1, 2, 3]


def test_farthest_position_is_exact_for_any_int64() -> None:
    values = np.array([-(2**63), 2**63 - 1, 0])

    assert OffsetRows(StoredTable(values, INT64), 1).farthest_position == 2**63
    assert OffsetRows(StoredTable(values[1:], INT64), 1).farthest_position == 2**63 - 1
    assert OffsetRows(StoredTable(values, INT64), -1).at(1, 3).tolist() == [2**63 - 2, -1]


def encoded(position_ids: NDArray[np.int64], **given: Any) -> Document:
    parameters = {"convention": "fairseq", "d_model": 5, "offset": 0, **given}
    arrays = {"position_ids": StoredTable(position_ids, INT64)}
    return TokenEncoding.model_validate(parameters).document(arrays)


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@pytest.mark.parametrize("d_model", [1, 4, 7, 64])
def test_rows_of_tokens_are_rows_of_the_table(d_model: int, dtype: str) -> None:
    rows = np.array([[2, 3, 4, 2**62, 2], [-(2**62), 0, 0, 2, 900]])
    given = {"convention": "fairseq", "d_model": d_model, "padding_idx": 2, "dtype": dtype}

    encoding = encoded(rows, **given).arrays["encoding"]

    positions = rows.reshape(-1).tolist()
    table = SinusoidalEncoding.model_validate({**given, "positions": positions}).table()
    assert encoding.shape == (2, 5, d_model)
    assert encoding.read(0, size(encoding)).tobytes() == table.read(0, size(table)).tobytes()


URL = "/encoding/tokens{}?convention=fairseq&d_model=4"
IDS_SENT = [[5, 7, 1, 9], [1, 1, 4, 4]]
ROWS = [[2, 3, 1, 4], [1, 1, 2, 3]]


def in_safetensors(**arrays: NDArray[Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/vnd.safetensors"}
    return {"content": safetensors.numpy.save(arrays), "headers": headers}


def answered(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    content: dict[str, Any] = answer.json()
    return content


@pytest.mark.parametrize("name", ["fairseq", "m2m100", "speech-to-text"])
@pytest.mark.parametrize("d_model", [1, 4, 5, 8, 9])
def test_rows_of_tokens_are_the_formula(client: Client, name: str, d_model: int) -> None:
    url = f"/encoding/tokens?convention={name}&d_model={d_model}&dtype=float64&past=3"

    content = answered(client.post(url, json={"input_ids": IDS_SENT}))

    expected = [[row + 3 * (row != 1) for row in line] for line in ROWS]
    assert content["data"]["position_ids"] == expected
    for line, numbers in zip(content["data"]["encoding"], expected, strict=True):
        for row, number in zip(line, numbers, strict=True):
            check(row, "fairseq", d_model, number)


def test_positions_are_moved_by_the_offset_alone(client: Client) -> None:
    positions = [[-1, 0, 1, 2**53 - 1], [-3, -2, 5, 5]]
    url = "/encoding/tokens?convention=xglm&d_model=5&dtype=float64"

    content = answered(client.post(url, json={"position_ids": positions}))

    assert content["data"]["position_ids"] == [[each + 2 for each in line] for line in positions]
    assert content["data"]["encoding"][0][0] == [0.0] * 5
    for row, position in zip(content["data"]["encoding"][0], positions[0], strict=True):
        check(row, "xglm", 5, position)


def test_canonical_parameters_of_ids_and_of_positions(client: Client) -> None:
    by_ids = answered(client.post(URL.format("") + "&past=2", json={"input_ids": [4]}))
    by_positions = answered(client.post(URL.format(""), json={"position_ids": [4]}))

    common = {"convention": "fairseq", "d_model": 4, "base": 10000.0, "layout": "concatenated"}
    assert by_ids["kind"] == by_positions["kind"] == "encoding-tokens"
    assert by_ids["parameters"] == common | {"padding_idx": 1, "past": 2}
    assert by_positions["parameters"] == common | {"offset": 0, "padding_idx": 1}


def test_canonical_parameters_of_row_numbers_alone(client: Client) -> None:
    url = URL.format("") + "&part=position_ids"

    by_ids, by_positions = (
        answered(client.post(url, json=body))["parameters"]
        for body in ({"input_ids": IDS_SENT}, {"position_ids": IDS_SENT})
    )

    part = {"part": "position_ids"}
    assert by_ids == {"convention": "fairseq", "padding_idx": 1, "past": 0} | part
    assert by_positions == {"convention": "fairseq", "offset": 0} | part
    alone = answered(client.post(url, json={"input_ids": IDS_SENT}))
    assert (alone["data"], alone["dtype"], alone["shape"]) == (ROWS, "int64", [2, 4])


BODIES: list[tuple[dict[str, Any], str]] = [
    ({"json": {"input_ids": [1], "position_ids": [1]}}, "either input_ids or position_ids"),
    (in_safetensors(position_ids=np.array([2**62 + 1])), "must be within ±2^62"),
    (in_safetensors(position_ids=np.array([-(2**63)])), "must be within ±2^62"),
]


@pytest.mark.parametrize(("body", "rule"), BODIES)
def test_invalid_arrays_of_tokens_are_refused(
    client: Client, body: dict[str, Any], rule: str
) -> None:
    answer = client.post(URL.format(""), **body)

    assert answer.status_code == 422
    assert rule in answer.json()["detail"]


def test_ids_may_be_any_int64_and_positions_up_to_2_to_the_62(client: Client) -> None:
    ids = in_safetensors(input_ids=np.array([-(2**63), 2**63 - 1, 1]))
    far = in_safetensors(position_ids=np.array([2**62, -(2**62)]))

    assert answered(client.post(URL.format(".json"), **ids))["data"]["position_ids"] == [2, 3, 1]
    rows = answered(client.post(URL.format(".json") + "&dtype=float64", **far))["data"]["encoding"]
    check(rows[0], "fairseq", 4, 2**62)
    check(rows[1], "fairseq", 4, -(2**62))


def test_the_conventions_are_those_with_a_row_of_padding() -> None:
    names = get_args(TokenEncoding.model_fields["convention"].annotation)

    padded = {name for name, known in CONVENTIONS.items() if known.padding_idx is not None}
    assert set(names) == padded | {name for name, of in ALIASES.items() if of in padded}
