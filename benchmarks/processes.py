"""Child processes of a measurement, each of which is stopped by its id."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent

_STOP_SECONDS = 10.0


class BenchmarkFailed(Exception):
    """A precondition of the measurement does not hold."""


@contextmanager
def started(
    command: Sequence[str],
    log: IO[bytes] | None = None,
    *,
    folder: Path = ROOT,
    settings: Mapping[str, str] | None = None,
    stop_seconds: float = _STOP_SECONDS,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a folder during a context; settings replace all POSREF_* variables."""
    environment = {name: value for name, value in os.environ.items() if not _is_setting(name)}
    environment |= settings or {}
    output = subprocess.DEVNULL if log is None else log
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def process_tree(pid: int) -> list[int]:
    """Return the ids of a process and of its descendants."""
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text(encoding="ascii").split()
    ]
    return [pid, *(each for child in children for each in process_tree(child))]


def processor_seconds(pid: int) -> float:
    """Return the processor seconds of all threads of a process and of its descendants."""
    return sum(
        int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
        for each in process_tree(pid)
        for task in Path(f"/proc/{each}/task").iterdir()
    )


def _is_setting(name: str) -> bool:
    return name.startswith(("POSREF_", "UVICORN_", "WEB_CONCURRENCY"))
