"""What every route that looks rows of a sent array up promises."""

import io
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from service.errors import InvalidBody, InvalidParameters
from service.routes.gathered import agreed, check_fits, wrong_rows
from service.tables.dtypes import INT32, INT64
from tests.client import Client

# A path, a query, the number of rows that it takes, and the indices that it looks up.
ROUTES = pytest.mark.parametrize(
    ("path", "query", "rows", "index"),
    [
        ("/relative/t5", "query_len=3&key_len=7&max_distance=20", 8, "num_buckets=8"),
        (
            "/relative/t5",
            "query_start=9&query_len=1&key_len=10&bidirectional=false",
            6,
            "num_buckets=6",
        ),
        ("/relative/swin", "window_size=2,3", 15, ""),
        ("/relative/swin", "window_size=2,3", 18, "class_token=true"),
    ],
)


def npy(answer: httpx.Response) -> NDArray[Any]:
    assert answer.status_code == 200, answer.text
    return np.asarray(np.load(io.BytesIO(answer.content), allow_pickle=False))


def sent(client: Client, url: str, weight: NDArray[Any]) -> httpx.Response:
    stream = io.BytesIO()
    np.save(stream, weight)
    headers = {"Content-Type": "application/x-npy"}
    return client.post(url, content=stream.getvalue(), headers=headers)


@ROUTES
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_bias_is_the_row_that_the_index_names(
    client: Client, path: str, query: str, rows: int, index: str, dtype: str
) -> None:
    weight = np.random.default_rng(0).standard_normal((rows, 3)).astype(dtype)
    numbers = npy(client.get(f"{path}.npy?{query}&{index}"))

    bias = npy(sent(client, f"{path}/bias?{query}", weight))

    assert bias.dtype == weight.dtype
    assert bias.tobytes() == weight[numbers].transpose(2, 0, 1).tobytes()


@ROUTES
def test_one_head_is_a_matrix_that_csv_can_hold(
    client: Client, path: str, query: str, rows: int, index: str
) -> None:
    weight = np.arange(3.0 * rows).reshape(rows, 3)
    numbers = npy(client.get(f"{path}.npy?{query}&{index}"))

    answer = sent(client, f"{path}/bias.csv?{query}&head=2", weight)

    assert answer.headers["Array-Axes"] == "query, key"
    found = np.loadtxt(io.StringIO(answer.text), delimiter=",", ndmin=2)
    assert (found == weight[numbers, 2]).all()


@ROUTES
def test_an_answer_says_what_a_json_client_asked_for(
    client: Client, path: str, query: str, rows: int, index: str
) -> None:
    answer = client.post(f"{path}/bias?{query}", json={"weight": [[0.5, 1.5]] * rows}).json()

    assert answer["kind"] == f"{path[1:].replace('/', '-')}-bias"
    assert answer["axes"] == ["head", "query", "key"]
    again = client.post(
        f"{path}/bias", json={"weight": [[0.5, 1.5]] * rows, **answer["parameters"]}
    )
    assert again.json() == answer
    assert index.replace("true", "True") in "&".join(
        f"{name}={value}" for name, value in answer["parameters"].items()
    )


@ROUTES
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_passes_where_it_can_be_held(
    client: Client, path: str, query: str, rows: int, index: str, value: float
) -> None:
    weight = np.full((rows, 1), value, dtype=np.float32)
    numbers = npy(client.get(f"{path}.npy?{query}&{index}"))

    bias = npy(sent(client, f"{path}/bias.npy?{query}", weight))

    assert bias.tobytes() == weight[numbers].transpose(2, 0, 1).tobytes()
    refused = sent(client, f"{path}/bias.json?{query}", weight)
    assert refused.status_code == 422
    assert "no NaN" in refused.json()["detail"]


def test_bfloat16_is_copied_as_it_is(client: Client) -> None:
    weight = np.arange(12.0).reshape(4, 3).astype(ml_dtypes.bfloat16)
    body = _safetensors("weight", "BF16", weight)

    answer = client.post(
        "/relative/t5/bias?query_len=2&key_len=5",
        content=body,
        headers={"Content-Type": "application/vnd.safetensors"},
    )

    assert (answer.headers["Array-Dtype"], answer.headers["Array-Shape"]) == ("bfloat16", "3, 2, 5")
    numbers = npy(client.get("/relative/t5.npy?query_len=2&key_len=5&num_buckets=4"))
    assert answer.content.endswith(weight[numbers].transpose(2, 0, 1).tobytes())


def _safetensors(name: str, dtype: str, array: NDArray[Any]) -> bytes:
    shape = list(array.shape)
    header = f'{{"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[0,{array.nbytes}]}}}}'
    return len(header).to_bytes(8, "little") + header.encode() + array.tobytes()


@ROUTES
@pytest.mark.parametrize("extra", [-1, 1])
def test_rows_that_do_not_fit_are_refused(
    client: Client, path: str, query: str, rows: int, index: str, extra: int
) -> None:
    said = f"&{index}" if index else "&class_token=false"

    answer = sent(client, f"{path}/bias?{query}{said}", np.zeros((rows + extra, 2)))

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error.get("parameter") == "num_buckets" or error.get("pointer") == "/weight"


@ROUTES
def test_a_head_that_is_not_there_is_refused(
    client: Client, path: str, query: str, rows: int, index: str
) -> None:
    answer = sent(client, f"{path}/bias?{query}&head=2", np.zeros((rows, 2)))

    assert answer.status_code == 422, index
    assert [error["parameter"] for error in answer.json()["errors"]] == ["head"]


@ROUTES
@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_a_table_of_other_axes_is_refused(
    client: Client, path: str, query: str, rows: int, index: str, shape: tuple[int, ...]
) -> None:
    answer = sent(client, f"{path}/bias?{query}", np.zeros((rows, *shape)))

    assert answer.status_code == 422, index
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/weight"]


def test_what_an_array_says_may_be_said_again_and_not_otherwise() -> None:
    assert agreed("num_buckets", None, 32) == agreed("num_buckets", 32, 32) == 32
    with pytest.raises(InvalidParameters, match="num_buckets is 32"):
        agreed("num_buckets", 31, 32)


def test_wrong_rows_point_at_the_table() -> None:
    error = wrong_rows(3, "an even number")

    assert isinstance(error, InvalidBody)
    assert [(fault.where, fault.in_body) for fault in error.faults] == [("/weight", True)]


def test_numbers_beyond_32_bits_need_64() -> None:
    check_fits(INT32, 2**31 - 1)
    check_fits(INT64, 2**31)
    with pytest.raises(InvalidParameters, match="dtype=int64"):
        check_fits(INT32, 2**31)
