"""Requests with answers known before the load: checked against formulas, then cached."""

import io
from collections.abc import Sequence
from http import HTTPStatus

import httpx
import numpy as np
from numpy.typing import NDArray

from benchmarks.cases import BASE, Case
from benchmarks.kernel import numpy_float64
from benchmarks.load.plan import HOST
from benchmarks.load.requests import APPLY, WARM, LoadRequest, get, post
from benchmarks.processes import BenchmarkFailed
from service.__main__ import find_body

SMALL, MIDDLE = PROBED = (Case(4, 4), Case(50, 512))
"""The tables whose latency is measured."""

_TABLES = (*PROBED, Case(256, 512))
_OTHERS = (
    "/encoding.json?seq_len=50&d_model=512",
    "/encoding?seq_len=4&d_model=4",
    "/rope.safetensors?seq_len=128&head_dim=128",
)
_HEAD_DIM = 128
_ROTATED = ((1, 1, 32), (1, 4, 64), (2, 8, 64), (1, 8, 256))
"""Batch, heads and positions of arrays of 16 KiB to 1 MiB."""

_APPLY_TARGET = "/rope/apply?axes=batch,head,seq,channel"
_NPY = "application/x-npy"
_TOLERANCE = 1e-5


def table_target(case: Case) -> str:
    """Return a table of the tested kind."""
    return f"/encoding.{case.extension}?{case.query}"


def checked_requests(port: int) -> list[LoadRequest]:
    """Request everything once, which fills the cache; raise BenchmarkFailed."""
    options = {"base_url": f"http://{HOST}:{port}", "timeout": 60.0, "trust_env": False}
    with httpx.Client(**options) as client:  # type: ignore[arg-type]
        targets = [*map(table_target, _TABLES), *_OTHERS]
        warm = [_warm(client, target) for target in targets]
        for case, request in zip(_TABLES, warm, strict=False):
            _check(request.body, numpy_float64(0, case.seq_len, case.d_model, case.base))
        return warm + [_rotating(client, shape) for shape in _ROTATED]


def _warm(client: httpx.Client, target: str) -> LoadRequest:
    body = _content(client.get(target, headers={"Accept-Encoding": "identity"}))
    if body != b"".join(find_body(target).blocks()):
        raise BenchmarkFailed(f"{target} has other bytes over HTTP than without")
    return LoadRequest(WARM, get(target), body=body)


def _rotating(client: httpx.Client, shape: Sequence[int]) -> LoadRequest:
    queries = np.random.default_rng(1).standard_normal((*shape, _HEAD_DIM), dtype=np.float32)
    file = io.BytesIO()
    np.save(file, queries)
    sent = file.getvalue()
    body = _content(client.post(_APPLY_TARGET, content=sent, headers={"Content-Type": _NPY}))
    _check(body, _rotated(queries))
    return LoadRequest(APPLY, post(_APPLY_TARGET, _NPY, sent), body=body)


def _rotated(queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rotate pairs of adjacent channels as complex numbers, from position 0 on."""
    *_, positions, width = queries.shape
    angles = np.outer(np.arange(positions), float(BASE) ** (-np.arange(0, width, 2) / width))
    turned = queries.view(np.complex64) * np.exp(1j * angles)
    return turned.astype(np.complex64).view(np.float32)


def _check(body: bytes | None, expected: NDArray[np.float32]) -> None:
    found = np.load(io.BytesIO(body or b""), allow_pickle=False)
    if found.shape != expected.shape or not np.abs(found - expected).max() <= _TOLERANCE:
        raise BenchmarkFailed(f"wrong numbers in an answer of shape {found.shape}")


def _content(response: httpx.Response) -> bytes:
    if response.status_code != HTTPStatus.OK:
        raise BenchmarkFailed(f"{response.url} answers {response.status_code}: {response.text}")
    return response.content
