"""Processor time of an element: from the request of a new table to its last byte."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeAlias

import numpy as np

from benchmarks.cases import BASE, Case
from benchmarks.curl import downloads
from benchmarks.families.timing import seconds
from benchmarks.figures import in_turns
from benchmarks.kernel import numpy_float64
from benchmarks.processes import processor_seconds
from benchmarks.results import Cell, Number
from benchmarks.servers import NGINX, POSREF, Running, running
from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from service.encodings.rotary.rope import Rope
from service.formats.raw import RAW
from service.lru import shrink_shared
from service.numerics.positions import PositionArray
from service.numerics.tables import Document, Table

Turn: TypeAlias = Callable[[int], float]

OURS, FORMULA, FILES = "posref, a new table", "NumPy formula in float64", NGINX.name
LENGTH, WIDTH = "rows of 512 channels", "channels, in tables of 2^20 elements"
DISTINCT, READERS = "distinct ones among 16,384 positions", "readers at once, of 32 MiB each"

_LENGTHS = tuple(4**power for power in range(1, 10))
_WIDTHS = tuple(4**power for power in range(1, 9))
_DISTINCT = tuple(4**power for power in range(2, 8))
_READERS = (1, 2, 4, 8, 16, 32)
_ELEMENTS = 2**20
_POSITIONS, _HEAD_DIM = 2**14, 128
# Longer tables of the formula would need gigabytes.
_MOST_FORMULA = 2**23
_STREAMED = Case(16384, 512)


@dataclass(frozen=True)
class Point:
    """One point of a series: what grows, who computes, how far, and the seconds of an element."""

    axis: str
    series: str
    at: int
    seconds: float

    def cells(self) -> list[Cell]:
        return [self.axis, self.series, Number(self.at, "count"), Number(self.seconds, "element")]


def measure(folder: Path, rounds: int) -> Iterator[Point]:
    """Yield the points of all series."""
    for length in _LENGTHS:
        yield from _encodings(LENGTH, length, length, 512, rounds)
    for width in _WIDTHS:
        yield from _encodings(WIDTH, width, _ELEMENTS // width, width, rounds)
    for count in _DISTINCT:
        positions = np.random.default_rng(1).integers(0, count, _POSITIONS)
        elements = 2 * _POSITIONS * _HEAD_DIM
        turns = {OURS: partial(_rope, positions), FORMULA: partial(_rope_formula, positions)}
        yield from _points(DISTINCT, count, elements, turns, rounds)
    yield from _readers(folder, rounds)


def _points(
    axis: str, at: int, elements: int, turns: Mapping[str, Turn], rounds: int
) -> Iterator[Point]:
    times = in_turns(list(turns.values()), rounds)
    for name, taken in zip(turns, times, strict=True):
        yield Point(axis, name, at, median(taken) / elements)


def _encodings(axis: str, at: int, rows: int, width: int, rounds: int) -> Iterator[Point]:
    turns: dict[str, Turn] = {OURS: partial(_encoding, rows, width)}
    if rows * width <= _MOST_FORMULA:
        turns[FORMULA] = partial(_formula, rows, width)
    yield from _points(axis, at, rows * width, turns, rounds)


def _encoding(rows: int, width: int, _number: int) -> float:
    shrink_shared(0)
    parameters = SinusoidalEncoding(d_model=width, seq_len=rows)
    return seconds(lambda: _read(parameters.table()))


def _formula(rows: int, width: int, _number: int) -> float:
    return seconds(lambda: numpy_float64(0, rows, width, BASE))


def _rope(positions: "np.ndarray[tuple[int], np.dtype[np.int64]]", _number: int) -> float:
    shrink_shared(0)

    def read() -> None:
        rope = Rope(head_dim=_HEAD_DIM, pack="half", positions=PositionArray.of(positions))
        for table in rope.document().arrays.values():
            _read(table)

    return seconds(read)


def _rope_formula(positions: "np.ndarray[tuple[int], np.dtype[np.int64]]", _number: int) -> float:
    def compute() -> None:
        exponents = np.arange(0, _HEAD_DIM, 2) / _HEAD_DIM
        angles = np.outer(positions, float(BASE) ** -exponents)
        for component in (np.cos(angles), np.sin(angles)):
            np.concatenate([component, component], axis=1).astype(np.float32)

    return seconds(compute)


def _read(table: Table) -> None:
    for _ in RAW.body(Document("", {}, {"x": table})).blocks():
        pass


def _readers(folder: Path, rounds: int) -> Iterator[Point]:
    """Yield the cost of new tables for several readers at once, and of a file by nginx."""
    elements = _STREAMED.seq_len * _STREAMED.d_model
    with ExitStack() as stack:
        posref, nginx = (stack.enter_context(running(each, folder)) for each in (POSREF, NGINX))
        (folder / _STREAMED.file_name).write_bytes(bytes(_STREAMED.npy_bytes))
        # The first stream is not measured: the server may still be starting its children.
        _streamed(posref, 1, -1)
        for readers in _READERS:
            turns = {
                OURS: partial(_streamed, posref, readers),
                FILES: partial(_streamed, nginx, readers),
            }
            yield from _points(READERS, readers, readers * elements, turns, rounds)


def _streamed(server: Running, readers: int, number: int) -> float:
    """Return the processor seconds of a server, while each reader takes another table."""
    first = BASE + 100 * readers + number * readers
    urls = [
        server.url(Case(_STREAMED.seq_len, _STREAMED.d_model, base=first + reader))
        for reader in range(readers)
    ]
    before = processor_seconds(server.pid)
    downloads(urls, _STREAMED.npy_bytes)
    return processor_seconds(server.pid) - before
