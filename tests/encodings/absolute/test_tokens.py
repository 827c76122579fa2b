"""Rows of tokens: what libraries count, and the rows that it leads to.

``/encoding/tokens`` through HTTP: the rows of a batch, and every way to ask for none.
"""

import io
from typing import Any, get_args

import httpx
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from service.encodings.absolute.conventions import ALIASES, CONVENTIONS, recipe
from service.encodings.absolute.tokens import (
    ListedPositions,
    TokensParameters,
    rows_of_tokens,
    tokens,
)
from service.numerics.dtypes import FLOAT32, FLOAT64, INT64, REAL_DTYPES
from service.numerics.positions import Positions, Run
from service.numerics.tables import size
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


@given(IDS, st.integers(-2, 3), st.sampled_from([0, 1, 4, 2**61]))
def test_tokens_count_on_from_padding_and_padding_stays(
    ids: np.ndarray[tuple[int, ...], np.dtype[np.int64]], padding_idx: int, past: int
) -> None:
    rows = rows_of_tokens(ids, padding_idx, past)

    lines = [counted(line, padding_idx, past) for line in np.atleast_2d(ids).tolist()]
    assert np.atleast_2d(rows).tolist() == lines
    assert rows.shape == ids.shape


def test_the_first_token_has_the_row_after_that_of_padding() -> None:
    """Rows 0 and 1 of fairseq are never a first token's: the off-by-one it is known for."""
    assert rows_of_tokens(np.array([[9, 9, 1], [1, 9, 9]]), 1, 0).tolist() == [[2, 3, 1], [1, 2, 3]]


def test_padding_between_tokens_does_not_count() -> None:
    assert rows_of_tokens(np.array([5, 1, 1, 5]), 1, 10).tolist() == [12, 1, 1, 13]


def test_listed_positions_are_as_far_as_any_integer() -> None:
    values = np.array([-(2**63), 2**63 - 1, 0])

    assert ListedPositions(values).farthest == 2**63
    assert ListedPositions(values[1:]).farthest == 2**63 - 1
    assert ListedPositions(values).at(1, 3).tolist() == [2**63 - 1, 0]


@pytest.mark.parametrize("dtype", sorted(REAL_DTYPES))
@pytest.mark.parametrize("d_model", [1, 4, 7, 64])
def test_the_rows_of_tokens_are_those_of_the_table(d_model: int, dtype: str) -> None:
    made = recipe("fairseq", d_model, {"padding_idx": 2})
    rows = np.array([[2, 3, 4, 2**62, 2], [-(2**62), 0, 0, 2, 900]])

    document = tokens(recipe=made, spelled={}, rows=rows, dtype=REAL_DTYPES[dtype])

    listed = Positions.of_runs(Run(row, 1, 1) for row in rows.reshape(-1).tolist())
    expected = made.table(listed, REAL_DTYPES[dtype], (10, d_model)).read(0, 10 * d_model)
    encoding = document.arrays["encoding"]
    assert encoding.shape == (2, 5, d_model)
    assert encoding.read(0, size(encoding)).tobytes() == expected.tobytes()


def test_parts_of_the_rows_of_tokens_are_the_whole() -> None:
    rows = np.arange(-20, 20).reshape(4, 10)
    document = tokens(recipe=recipe("m2m100", 5, {}), spelled={}, rows=rows, dtype=FLOAT64)
    encoding = document.arrays["encoding"]
    whole = encoding.read(0, 200)

    for start, stop in [(0, 200), (7, 8), (104, 106), (19, 121)]:
        assert encoding.read(start, stop).tobytes() == whole[start:stop].tobytes()


def test_the_numbers_of_rows_come_beside_them() -> None:
    rows = np.array([3, 1, 4])

    document = tokens(
        recipe=recipe("fairseq", 4, {}), spelled={"past": 1}, rows=rows, dtype=FLOAT32
    )

    assert list(document.arrays) == ["encoding", "position_ids"]
    assert document.has_parts
    assert document.parameters == {"past": 1}
    assert document.arrays["position_ids"].dtype is INT64
    assert document.arrays["position_ids"].read(0, 3).tolist() == [3, 1, 4]


def test_without_padding_every_row_is_one_of_sines() -> None:
    document = tokens(
        recipe=recipe("ddpm", 4, {}), spelled={}, rows=np.array([0, 1]), dtype=FLOAT64
    )

    assert document.arrays["encoding"].read(0, 8).reshape(2, 4).any(axis=1).all()


URL = "/encoding/tokens{}?convention=fairseq&d_model=4"
ENCODING_TOKENS_IDS = [[5, 7, 1, 9], [1, 1, 4, 4]]
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
def test_tokens_have_the_rows_that_are_counted_from_padding(
    client: Client, name: str, d_model: int
) -> None:
    url = f"/encoding/tokens?convention={name}&d_model={d_model}&dtype=float64&past=3"

    content = answered(client.post(url, json={"input_ids": ENCODING_TOKENS_IDS}))

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


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_row_has_the_bytes_of_the_table(client: Client, dtype: str) -> None:
    asked = client.post(
        URL.format(".npy") + f"&part=encoding&dtype={dtype}",
        json={"input_ids": ENCODING_TOKENS_IDS},
    )
    query = f"positions=2,3,1,4,1,1,2,3&convention=fairseq&d_model=4&dtype={dtype}"

    rows = np.load(io.BytesIO(asked.content), allow_pickle=False)
    table = np.load(io.BytesIO(client.get(f"/encoding.npy?{query}").content), allow_pickle=False)

    assert rows.shape == (2, 4, 4)
    assert rows.tobytes() == table.tobytes()


def test_an_answer_says_what_it_was_made_with(client: Client) -> None:
    by_ids = answered(client.post(URL.format("") + "&past=2", json={"input_ids": [4]}))
    by_positions = answered(client.post(URL.format(""), json={"position_ids": [4]}))

    common = {"convention": "fairseq", "d_model": 4, "base": 10000.0, "layout": "concatenated"}
    assert by_ids["kind"] == by_positions["kind"] == "encoding-tokens"
    assert by_ids["parameters"] == common | {"padding_idx": 1, "past": 2}
    assert by_positions["parameters"] == common | {"offset": 0, "padding_idx": 1}


@pytest.mark.parametrize(
    ("query", "body", "parameter", "value"),
    [
        ("&offset=9", {"input_ids": ENCODING_TOKENS_IDS}, "offset", "9"),
        ("&past=1", {"position_ids": ENCODING_TOKENS_IDS}, "past", "1"),
        (
            "&part=position_ids&dtype=float64",
            {"position_ids": ENCODING_TOKENS_IDS},
            "dtype",
            "float64",
        ),
        ("&part=position_ids&base=7", {"input_ids": ENCODING_TOKENS_IDS}, "base", "7"),
        ("&convention=xglm", {"input_ids": ENCODING_TOKENS_IDS}, "convention", "xglm"),
        ("&padding_idx=4611686018427387904", {"input_ids": [1]}, "padding_idx", str(2**62)),
    ],
)
def test_what_would_not_matter_or_lead_too_far_is_refused(
    client: Client, query: str, body: dict[str, Any], parameter: str, value: str
) -> None:
    url = URL.format("") + query
    if "&convention" in query:
        url = url.replace("convention=fairseq&", "")

    answer = client.post(url, json=body)

    assert answer.status_code == 422
    faults = [(error["parameter"], error["value"]) for error in answer.json()["errors"]]
    assert faults == [(parameter, value)]


def test_numbers_of_rows_are_said_to_come_of_nothing_else(client: Client) -> None:
    url = URL.format("") + "&part=position_ids"

    by_ids, by_positions = (
        answered(client.post(url, json=body))["parameters"]
        for body in ({"input_ids": ENCODING_TOKENS_IDS}, {"position_ids": ENCODING_TOKENS_IDS})
    )

    part = {"part": "position_ids"}
    assert by_ids == {"convention": "fairseq", "padding_idx": 1, "past": 0} | part
    assert by_positions == {"convention": "fairseq", "offset": 0} | part


def test_parameters_come_beside_the_arrays_of_a_json_body(client: Client) -> None:
    body = {"convention": "fairseq", "d_model": 4, "input_ids": ENCODING_TOKENS_IDS}

    posted = client.post("/encoding/tokens", json=body)

    assert (
        posted.content
        == client.post(URL.format(""), json={"input_ids": ENCODING_TOKENS_IDS}).content
    )


@pytest.mark.parametrize("dtype", ["<i8", "<i4", "<u2", "|i1", "<f8", "<f4"])
def test_integers_of_any_type_are_the_same_tokens(client: Client, dtype: str) -> None:
    url = URL.format(".json")
    expected = client.post(url, json={"input_ids": ENCODING_TOKENS_IDS}).content

    sent = in_safetensors(input_ids=np.array(ENCODING_TOKENS_IDS, dtype=dtype))
    assert client.post(url, **sent).content == expected


def test_one_array_of_the_answer_may_be_had_alone(client: Client) -> None:
    numbers = client.post(
        URL.format("") + "&part=position_ids", json={"input_ids": ENCODING_TOKENS_IDS}
    )

    content = answered(numbers)
    assert (content["data"], content["dtype"], content["shape"]) == (ROWS, "int64", [2, 4])


def test_both_arrays_come_as_safetensors(client: Client) -> None:
    answer = client.post(URL.format(".safetensors"), json={"input_ids": ENCODING_TOKENS_IDS})

    arrays = safetensors.numpy.load(answer.content)
    assert arrays["position_ids"].tolist() == ROWS
    assert arrays["encoding"].shape == (2, 4, 4)
    assert arrays["encoding"].dtype.name == "float32"


def test_one_array_formats_ask_which_of_the_two(client: Client) -> None:
    answer = client.post(URL.format(".npy"), json={"input_ids": ENCODING_TOKENS_IDS})

    assert answer.status_code == 422
    assert "add part=encoding|position_ids" in answer.json()["detail"]


BODIES: list[tuple[dict[str, Any], str]] = [
    ({"json": {}}, "missing"),
    ({"json": {"input_ids": [1], "position_ids": [1]}}, "either input_ids or position_ids"),
    ({"json": {"input_ids": [[[1]]]}}, "input_ids has 3 axes, and must have 1 or 2"),
    ({"json": {"input_ids": [1.5]}}, "input_ids must hold integers"),
    ({"json": {"input_ids": [[1], [1, 2]]}}, "input_ids"),
    ({"json": {"input_ids": []}}, "no elements"),
    (in_safetensors(position_ids=np.zeros((0, 3), dtype=np.int64)), "no elements"),
    (in_safetensors(tokens=np.array([1])), "tokens is no array here"),
    (in_safetensors(position_ids=np.array([2**62 + 1])), "must lie within ±2^62"),
    (in_safetensors(position_ids=np.array([-(2**63)])), "must lie within ±2^62"),
]


@pytest.mark.parametrize(("body", "rule"), BODIES)
def test_arrays_that_do_not_fit_are_refused(
    client: Client, body: dict[str, Any], rule: str
) -> None:
    answer = client.post(URL.format(""), **body)

    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert rule in answer.json()["detail"]


QUERIES = [
    ("d_model=4", "convention", None, "convention is required: 'fairseq', 'm2m100'"),
    ("convention=mlx&d_model=4", "convention", "mlx", "convention must be 'fairseq', 'm2m100'"),
    ("convention=fairseq", "d_model", None, "d_model is required"),
    ("convention=fairseq&d_model=2", "d_model", "2", "divides by zero"),
    ("convention=fairseq&d_model=4&past=-1", "past", "-1", "at least 0"),
    (f"convention=fairseq&d_model=4&past={2**61 + 1}", "past", str(2**61 + 1), "at most"),
    (
        f"convention=fairseq&d_model=4&past={2**61}&padding_idx={2**62 - 1}",
        *("past", str(2**61), "beyond 2^62"),
    ),
    ("convention=fairseq&d_model=4&start=3", "start", "3", "start is not a parameter here"),
    ("convention=fairseq&d_model=4&dtype=int64", "dtype", "int64", "must be 'float32'"),
    ("convention=fairseq&d_model=4&part=rows", "part", "rows", "must be 'encoding'"),
    ("convention=fairseq&d_model=4&cos_first=true", "cos_first", "true", "does not go with"),
]


@pytest.mark.parametrize(("query", "parameter", "value", "rule"), QUERIES)
def test_a_refusal_names_the_parameter_the_value_and_the_rule(
    client: Client, query: str, parameter: str, value: str | None, rule: str
) -> None:
    answer = client.post(f"/encoding/tokens?{query}", json={"input_ids": [5, 1]})

    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["parameter"], fault["value"]) == (422, parameter, value)
    assert rule in fault["detail"]


def test_there_is_no_past_of_positions(client: Client) -> None:
    answer = client.post(URL.format("") + "&past=0", json={"position_ids": [5]})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["parameter"] == "past"


def test_ids_may_be_any_int64_and_positions_as_far_as_there_are(client: Client) -> None:
    ids = in_safetensors(input_ids=np.array([-(2**63), 2**63 - 1, 1]))
    far = in_safetensors(position_ids=np.array([2**62, -(2**62)]))

    assert answered(client.post(URL.format(".json"), **ids))["data"]["position_ids"] == [2, 3, 1]
    rows = answered(client.post(URL.format(".json") + "&dtype=float64", **far))["data"]["encoding"]
    check(rows[0], "fairseq", 4, 2**62)
    check(rows[1], "fairseq", 4, -(2**62))


def test_an_answer_is_not_stored(client: Client) -> None:
    answer = client.post(URL.format(""), json={"input_ids": ENCODING_TOKENS_IDS})

    assert answer.headers["Cache-Control"] == "no-store"
    assert "ETag" not in answer.headers


def test_the_conventions_are_those_with_a_row_of_padding() -> None:
    names = get_args(TokensParameters.model_fields["convention"].annotation)

    padded = {name for name, known in CONVENTIONS.items() if known.padding_idx is not None}
    assert set(names) == padded | {name for name, of in ALIASES.items() if of in padded}
