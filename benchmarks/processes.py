"""Child processes of a measurement, each of which is stopped by its id."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent

_STOP_SECONDS = 10.0


class BenchmarkFailed(Exception):
    """A precondition of the measurement does not hold."""


@contextmanager
def started(
    command: Sequence[str], log: IO[bytes] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command during a context, without POSREF_* variables."""
    settings = {name: value for name, value in os.environ.items() if not _is_setting(name)}
    output = subprocess.DEVNULL if log is None else log
    process = subprocess.Popen(command, cwd=ROOT, env=settings, stdout=output, stderr=output)
    try:
        yield process
    finally:
        _stop(process)


def _is_setting(name: str) -> bool:
    return name.startswith(("POSREF_", "UVICORN_", "WEB_CONCURRENCY"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
