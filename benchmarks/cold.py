"""A large new table, streamed to curl: bytes a second, and processor time."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.answers import check_copy, check_file
from benchmarks.cases import BASE, Case
from benchmarks.curl import download
from benchmarks.figures import Measured, in_turns
from benchmarks.kernel import ROWS, WIDTH, numpy_float64
from benchmarks.processes import processor_seconds
from benchmarks.servers import NGINX, POSREF, Running, running

CASE = Case(262144, 512)

_MIB = 2**20


@dataclass(frozen=True)
class Streams:
    """The streams of each round.

    Attributes:
        rates: bytes a second, of posref and of nginx with a file of the same size.
        costs: processor seconds for each MiB, of posref and of NumPy's formula in float64.
    """

    rates: Measured
    costs: Measured


@dataclass(frozen=True)
class _Turn:
    rate: float
    cost: float


def measure(folder: Path, rounds: int) -> Streams:
    """Measure streams by turns with nginx and the formula; nothing is pinned."""
    with running(POSREF, folder) as posref, running(NGINX, folder) as nginx:
        _make_file(posref, nginx, folder / CASE.file_name)

        def streamed(number: int) -> _Turn:
            return _streamed(posref, replace(CASE, base=BASE + 1 + number))

        def sent(_number: int) -> _Turn:
            return _streamed(nginx, CASE)

        cold, files, formula = in_turns([streamed, sent, _computed], rounds)
        return Streams(
            Measured(_rates(cold), _rates(files)),
            Measured([turn.cost for turn in cold], [turn.cost for turn in formula]),
        )


def _rates(turns: Sequence[_Turn]) -> list[float]:
    return [turn.rate for turn in turns]


def _make_file(posref: Running, nginx: Running, path: Path) -> None:
    """Write posref's answer to a file, check it, and warm nginx's page cache."""
    download(posref.url(CASE), CASE.npy_bytes, path)
    check_file(path, CASE)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    check_copy(nginx.url(CASE), path)


def _streamed(server: Running, case: Case) -> _Turn:
    before = processor_seconds(server.pid)
    seconds = download(server.url(case), case.npy_bytes)
    used = processor_seconds(server.pid) - before
    return _Turn(case.npy_bytes / seconds, used * _MIB / case.npy_bytes)


def _computed(_number: int) -> _Turn:
    """Compute a part of the table by the formula, after once that is not measured."""
    numpy_float64(0, ROWS, WIDTH, BASE)
    before = time.process_time()
    table = numpy_float64(0, ROWS, WIDTH, BASE)
    used = time.process_time() - before
    return _Turn(table.nbytes / used, used * _MIB / table.nbytes)
