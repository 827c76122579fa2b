"""Bytes per second of a large new table, streamed to curl."""

import os
from dataclasses import replace
from pathlib import Path

from benchmarks.answers import check_copy, check_file
from benchmarks.cases import BASE, Case
from benchmarks.curl import download
from benchmarks.figures import Measured, in_turns
from benchmarks.servers import NGINX, POSREF, Running, running

CASE = Case(262144, 512)


def measure(folder: Path, rounds: int) -> Measured:
    """Return bytes per second of posref, and of nginx with a file of the same size; not pinned."""
    with running(POSREF, folder) as posref, running(NGINX, folder) as nginx:
        _make_file(posref, nginx, folder / CASE.file_name)

        def cold_rate(number: int) -> float:
            return _rate(posref, replace(CASE, base=BASE + 1 + number))

        def file_rate(_number: int) -> float:
            return _rate(nginx, CASE)

        cold, warm = in_turns([cold_rate, file_rate], rounds)
        return Measured(cold, warm)


def _make_file(posref: Running, nginx: Running, path: Path) -> None:
    """Write posref's answer to a file, check it, and warm nginx's page cache."""
    download(posref.url(CASE), CASE.npy_bytes, path)
    check_file(path, CASE)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    check_copy(nginx.url(CASE), path)


def _rate(server: Running, case: Case) -> float:
    return case.npy_bytes / download(server.url(case), case.npy_bytes)
