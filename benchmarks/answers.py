"""Checks that a server answers with the right table."""

import io
from pathlib import Path

import httpx
import numpy as np
import orjson

from benchmarks.cases import Case
from benchmarks.kernel import Rows, numpy_float64
from benchmarks.processes import BenchmarkFailed
from benchmarks.servers import Running

_TOLERANCE = 1e-6
_BLOCK_ROWS = 8192


def check(instance: Running, case: Case) -> bytes:
    """Check status, length and numbers of an answer, and return its body."""
    url = instance.url(case)
    response = httpx.get(url, headers={"Accept-Encoding": "identity"}, trust_env=False)
    if response.status_code != httpx.codes.OK:
        raise BenchmarkFailed(f"{url} answers {response.status_code}: {response.text[:400]}")
    body = response.content
    _check_rows(_read(body, case), case, url)
    if len(body) != int(response.headers["Content-Length"]):
        raise BenchmarkFailed(f"{url} answers {len(body)} bytes")
    if case.extension == "npy" and len(body) != case.npy_bytes:
        raise BenchmarkFailed(f"{url} answers {len(body)} bytes of .npy")
    return body


def check_file(path: Path, case: Case) -> None:
    """Check length and numbers of an .npy file of any length."""
    if path.stat().st_size != case.npy_bytes:
        raise BenchmarkFailed(f"{path} has {path.stat().st_size} bytes")
    _check_rows(np.load(path, mmap_mode="r", allow_pickle=False), case, str(path))


def check_copy(url: str, path: Path) -> None:
    """Compare an answer of any length with the bytes of a file."""
    with path.open("rb") as file, httpx.stream("GET", url, trust_env=False) as response:
        same = all(chunk == file.read(len(chunk)) for chunk in response.iter_raw())
        if response.status_code != httpx.codes.OK or not same or file.read(1):
            raise BenchmarkFailed(f"{url} does not answer with the bytes of {path}")


def _read(body: bytes, case: Case) -> Rows:
    if case.extension == "npy":
        rows: Rows = np.load(io.BytesIO(body), allow_pickle=False)
        return rows
    return np.array(orjson.loads(body)["data"], dtype=np.float32)


def _check_rows(rows: Rows, case: Case, where: str) -> None:
    if rows.shape != (case.seq_len, case.d_model) or rows.dtype != np.float32:
        raise BenchmarkFailed(f"{where} has {rows.dtype} of shape {rows.shape}")
    for start in range(0, case.seq_len, _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        expected = numpy_float64(start, len(block), case.d_model, case.base)
        if not np.abs(block - expected).max() <= _TOLERANCE:
            raise BenchmarkFailed(f"{where} has wrong numbers from row {start} on")
