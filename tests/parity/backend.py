"""Requests of the parity tests: sent to the service, or given to an independent evaluation."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlencode

import httpx
import ml_dtypes
import numpy as np
import orjson
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
_MAX_URL_LENGTH = 4000


class Backend(Protocol):
    """Something that evaluates requests."""

    def tables(self, path: str, query: Query) -> Arrays:
        """Return the arrays of a table by name."""

    def rotated(self, x: Array, query: Query) -> Array:
        """Return x, of shape (…, S, head_dim), rotated by its positions."""

    def composed(self, path: str, query: Query, arrays: Arrays) -> Arrays:
        """Return the arrays that are computed from the given ones, both by name."""


class Service:
    """Send requests over HTTP, for float64 unless the query has a dtype."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def tables(self, path: str, query: Query) -> Arrays:
        """GET a table, or POST the lists of a query that is too long for a URL."""
        extension = "npy" if query.get("pack") == "complex" else "safetensors"
        fields = spell(
            query if path.endswith(("frequencies", "resize")) else {"dtype": "float64"} | query
        )
        lists = {name: value for name, value in fields.items() if "," in value}
        url = f"{path}.{extension}"
        if len(urlencode(fields)) <= _MAX_URL_LENGTH:
            answer = self._client.get(f"{url}?{urlencode(fields)}")
        else:
            short = {name: value for name, value in fields.items() if name not in lists}
            answer = self._client.post(f"{url}?{urlencode(short)}", json=lists)
        return {"rope": _npy(answer)} if extension == "npy" else _safetensors(answer)

    def rotated(self, x: Array, query: Query) -> Array:
        axes = {"axes": ["any"] * (x.ndim - 2) + ["seq", "channel"]}
        return _npy(
            self._client.post(
                f"/rope/apply.npy?{urlencode(spell(axes | query))}",
                content=npy_bytes(x.astype(np.float64)),
                headers={"Content-Type": "application/x-npy"},
            )
        )

    def composed(self, path: str, query: Query, arrays: Arrays) -> Arrays:
        tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return _safetensors(
            self._client.post(
                f"{path}.safetensors?{urlencode(spell(query))}",
                content=safetensors.numpy.save(tensors),
                headers={"Content-Type": "application/vnd.safetensors"},
            )
        )

    def answered(self, path: str, body: Mapping[str, Any]) -> Arrays:
        """POST a JSON object of parameters and arrays; return the arrays of the answer."""
        return _safetensors(
            self._client.post(
                f"{path}.safetensors",
                content=orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY),
                headers={"Content-Type": "application/json"},
            )
        )


def spell(query: Query) -> dict[str, str]:
    """Return the fields of a query as text, without those that are None."""
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
    """Return an array as an ``.npy`` file, written by NumPy."""
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
