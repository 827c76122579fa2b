"""Whether a server answers with the right table: a fast wrong answer is not worth a number."""

import io

import httpx
import numpy as np
import orjson

from benchmarks.kernel import BASE, Rows, numpy_float64
from benchmarks.servers import BenchmarkFailed, Case

_NPY_HEADER_BYTES = 128
_TOLERANCE = 1e-6


def check(url: str, case: Case) -> int:
    """Hold an answer to status, length and numbers; returns how many bytes its body has."""
    response = httpx.get(url, headers={"Accept-Encoding": "identity"}, trust_env=False)
    if response.status_code != httpx.codes.OK:
        raise BenchmarkFailed(f"{url} answers {response.status_code}: {response.text[:400]}")
    body = response.content
    rows = _read(body, case)
    expected = numpy_float64(0, case.seq_len, case.d_model, BASE)
    if rows.shape != expected.shape or rows.dtype != expected.dtype:
        raise BenchmarkFailed(f"{url} answers {rows.dtype} of shape {rows.shape}")
    if not np.abs(rows - expected).max() <= _TOLERANCE:
        raise BenchmarkFailed(f"{url} answers wrong numbers")
    if len(body) != int(response.headers["Content-Length"]) or not _has_length(body, case):
        raise BenchmarkFailed(f"{url} answers {len(body)} bytes")
    return len(body)


def _read(body: bytes, case: Case) -> Rows:
    if case.extension == "npy":
        rows: Rows = np.load(io.BytesIO(body), allow_pickle=False)
        return rows
    return np.array(orjson.loads(body)["data"], dtype=np.float32)


def _has_length(body: bytes, case: Case) -> bool:
    return case.extension != "npy" or (
        len(body) == _NPY_HEADER_BYTES + 4 * case.seq_len * case.d_model
    )
