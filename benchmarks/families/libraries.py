"""Whole caches of cosines and sines, beside those of torch and of transformers' own classes.

The libraries run in a process and an environment of their own, by turns with posref.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks.families.requests import Request
from benchmarks.families.timing import Repeated
from benchmarks.figures import Measured, in_turns
from benchmarks.processes import ROOT, BenchmarkFailed
from service.numerics.dtypes import to_float64
from service.numerics.tables import size

ENVIRONMENT = ROOT / ".cache/facts"
"""The environment of torch and transformers, which ``make bench`` prepares."""

_WIDTH = 128
# The library's angles have errors beyond 10^-4 in the last row, and bfloat16 has 8 bits.
_TOLERANCE = 0.02


@dataclass(frozen=True)
class Cache:
    """A cache of a library, and the table that is the same.

    Attributes:
        measure: its name in the report.
        library: the name of the library's class.
        name: that of the cache in tools/rotary_caches.py.
        query: the parameters of ``/rope``.
        dtype: the element type.
    """

    measure: str
    library: str
    name: str
    query: str
    dtype: str


_TEXT = "seq_len=8192"
_SECTIONS = "mrope_section=16,24,24"
_OF_TEXT = f"{_SECTIONS}&positions_t=0:8192&positions_h=0:8192&positions_w=0:8192"
_OF_GRID = f"{_SECTIONS}&grid=4,32,64"

CACHES = (
    *(
        Cache(f"rope, 8,192×128, {dtype}", library, name, _TEXT, dtype)
        for library, name in (("torch, in float64", "torch"), ("LlamaRotaryEmbedding", "llama"))
        for dtype in ("float32", "bfloat16", "float16")
    ),
    *(
        Cache(f"M-RoPE of {what}, 8,192×128, {dtype}", "Qwen2VLRotaryEmbedding", name, query, dtype)
        for what, name, query in (
            ("text", "qwen2_vl-text", _OF_TEXT),
            ("a grid", "qwen2_vl-grid", _OF_GRID),
        )
        for dtype in ("float32", "bfloat16")
    ),
)


class Library:
    """A process that computes caches of libraries."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def answer(self, cache: Cache, times: int) -> dict[str, Any]:
        """Return the processor seconds of computing a cache, and its last row."""
        line = f"{cache.name} {cache.dtype} {times}\n"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise BenchmarkFailed(f"{self._process.args!r} ended at {line}")
        result: dict[str, Any] = json.loads(answer)
        return result


@contextmanager
def _running_library() -> Iterator[Library]:
    """Run torch and transformers on the core of this process."""
    command = [str(ENVIRONMENT / "bin/python"), "tools/rotary_caches.py"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Library(process)
        finally:
            process.terminate()


def measure_caches(caches: Sequence[Cache], rounds: int) -> list[Measured]:
    """Return the elements a second of posref and of a library, for each cache."""
    with _running_library() as library:
        return [_measure(library, cache, rounds) for cache in caches]


def _measure(library: Library, cache: Cache, rounds: int) -> Measured:
    tables = Request("/rope", f"head_dim={_WIDTH}&pack=half&{cache.query}").tables(cache.dtype)
    elements = sum(map(size, tables))
    whole = Repeated(lambda: [table.read(0, size(table)) for table in tables])
    turns: list[Callable[[int], float]] = [whole, partial(_seconds, library, cache)]
    cos, _ = tables
    last = to_float64(cos.read(size(cos) - _WIDTH, size(cos)), cos.dtype)
    if not np.abs(last - library.answer(cache, 1)["last"]).max() <= _TOLERANCE:
        raise BenchmarkFailed(f"{cache.library} computes another table for {cache.measure}")
    ours, theirs = in_turns(turns, rounds)
    return Measured([elements / each for each in ours], [elements / each for each in theirs])


def _seconds(library: Library, cache: Cache, _number: int) -> float:
    seconds: float = library.answer(cache, 3)["seconds"]
    return seconds
