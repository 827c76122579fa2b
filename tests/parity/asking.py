"""Requests, and the arrays that answer them."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlencode

import httpx
import ml_dtypes
import numpy as np
import safetensors.numpy
from safetensors import deserialize

from tests.client import Client
from tests.parity.golden import Array, Arrays

Query: TypeAlias = dict[str, Any]

_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I32": np.int32,
    "I64": np.int64,
}
_LONGEST_URL = 4000
_NPY = {"Content-Type": "application/x-npy"}
_TENSORS = {"Content-Type": "application/vnd.safetensors"}


class Answers(Protocol):
    """Who answers: the service, or who evaluates the same request independently."""

    def tables(self, path: str, query: Query) -> Arrays:
        """Answer the arrays of a table by name."""

    def turned(self, x: Array, query: Query) -> Array:
        """Answer x, of shape (…, S, head_dim), turned by its positions."""

    def composed(self, path: str, query: Query, arrays: Arrays) -> Arrays:
        """Answer the arrays that are made of arrays that are sent by name."""


class Service:
    """Ask over HTTP, for float64 unless a query says otherwise."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def tables(self, path: str, query: Query) -> Arrays:
        """Ask for a table, with the lists of a long query in a body."""
        extension = "npy" if query.get("pack") == "complex" else "safetensors"
        spelled = spell(query if path.endswith("frequencies") else {"dtype": "float64"} | query)
        lists = {name: value for name, value in spelled.items() if "," in value}
        url = f"{path}.{extension}"
        if len(urlencode(spelled)) <= _LONGEST_URL:
            answer = self._client.get(f"{url}?{urlencode(spelled)}")
        else:
            short = {name: value for name, value in spelled.items() if name not in lists}
            answer = self._client.post(f"{url}?{urlencode(short)}", json=lists)
        return {"rope": _npy(answer)} if extension == "npy" else _safetensors(answer)

    def turned(self, x: Array, query: Query) -> Array:
        """Send x as float64."""
        url = f"/rope/apply.npy?{urlencode(spell(query))}"
        body = npy_bytes(x.astype(np.float64))
        return _npy(self._client.post(url, content=body, headers=_NPY))

    def composed(self, path: str, query: Query, arrays: Arrays) -> Arrays:
        """Send arrays as they are."""
        tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        url = f"{path}.safetensors?{urlencode(spell(query))}"
        return _safetensors(
            self._client.post(url, content=safetensors.numpy.save(tensors), headers=_TENSORS)
        )


def spell(query: Query) -> dict[str, str]:
    """Spell the values of a query; what is None is left out."""
    return {name: _spelled(value) for name, value in query.items() if value is not None}


def _spelled(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return _spelled(value.tolist())
    if isinstance(value, list | tuple):
        return ",".join(map(_spelled, value))
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value)


def npy_bytes(array: Array) -> bytes:
    """Write an array the way that a client does."""
    stream = BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _content(answer: httpx.Response) -> bytes:
    assert answer.status_code == 200, f"{answer.request.url}: {answer.text}"
    return answer.content


def _npy(answer: httpx.Response) -> Array:
    return np.asarray(np.load(BytesIO(_content(answer)), allow_pickle=False))


def _safetensors(answer: httpx.Response) -> Arrays:
    tensors = deserialize(_content(answer))  # type: ignore[no-untyped-call]
    return {name: _array(tensor) for name, tensor in tensors}


def _array(tensor: Mapping[str, Any]) -> Array:
    array = np.frombuffer(tensor["data"], _DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
    return array.astype(np.float32) if tensor["dtype"] == "BF16" else array
