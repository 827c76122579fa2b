"""Downloads with curl to a file or to /dev/null, once or continuously."""

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks.processes import BenchmarkFailed, started
from benchmarks.tools import find

_LIMIT_SECONDS = 600
_FLOW_SECONDS = 30.0
_FLOWING_BYTES = 2**24


def download(url: str, expected_bytes: int, path: Path | None = None) -> float:
    """Download a body of known length, and return the seconds it took."""
    said = subprocess.run(
        [*_command(url, path), "--write-out", "%{size_download} %{time_total}"],
        check=False,
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
    )
    if said.returncode != 0:
        raise BenchmarkFailed(f"curl {url}: {said.stderr}")
    size_bytes, seconds = said.stdout.split()
    if int(size_bytes) != expected_bytes:
        raise BenchmarkFailed(f"{url} answers {size_bytes} bytes, not {expected_bytes}")
    return float(seconds)


def downloads(urls: Sequence[str], expected_bytes: int) -> None:
    """Download bodies of known length at the same time, until all are there."""
    with ThreadPoolExecutor(len(urls)) as pool:
        list(pool.map(partial(download, expected_bytes=expected_bytes), urls))


@contextmanager
def downloading(urls: Sequence[str]) -> Iterator[Callable[[], int]]:
    """Download continuously during a context; yield a function that returns the bytes received.

    The context starts once every download has received data; the function raises if a download
    has ended.
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(started(_command(url, None))) for url in urls]

        def bytes_so_far() -> int:
            return sum(_written_bytes(process) for process in processes)

        deadline = time.monotonic() + _FLOW_SECONDS
        while min([_FLOWING_BYTES, *map(_written_bytes, processes)]) < _FLOWING_BYTES:
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"a stream does not flow: {urls}")
            time.sleep(0.05)
        yield bytes_so_far


def _command(url: str, path: Path | None) -> list[str]:
    options = ["--disable", "--noproxy", "*", "--fail", "--silent", "--show-error"]
    return [find("curl"), *options, "--output", str(path or "/dev/null"), url]


def _written_bytes(process: subprocess.Popen[bytes]) -> int:
    """Return the bytes written by a process: curl writes all it receives."""
    if process.poll() is not None:
        raise BenchmarkFailed(f"{process.args!r} ended with {process.returncode}")
    counters = Path(f"/proc/{process.pid}/io").read_text(encoding="ascii").splitlines()
    return int(dict(line.split(": ") for line in counters)["wchar"])
