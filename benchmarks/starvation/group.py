"""A limit on the memory of a server and all its descendants: a control group of the kernel."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from benchmarks.processes import BenchmarkFailed

_ROOT = Path("/sys/fs/cgroup")
_NUMBERS = count()
_END_SECONDS = 10.0
_INTO_GROUP = 'echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True)
class Group:
    """A control group of version 1 or 2.

    Attributes:
        folder: of its files.
        is_v2: whether it is of version 2.
    """

    folder: Path
    is_v2: bool

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs another in the group from its first instruction on."""
        return ["sh", "-c", _INTO_GROUP, str(self.folder / "cgroup.procs"), *command]

    @property
    def peak_bytes(self) -> int:
        name = "memory.peak" if self.is_v2 else "memory.max_usage_in_bytes"
        return int((self.folder / name).read_text())

    @property
    def used_bytes(self) -> int:
        name = "memory.current" if self.is_v2 else "memory.usage_in_bytes"
        return int((self.folder / name).read_text())

    @property
    def kills(self) -> int:
        """The number of processes that the kernel killed because the group had no memory left."""
        name = "memory.events" if self.is_v2 else "memory.oom_control"
        lines = (self.folder / name).read_text().splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])


@contextmanager
def limited(limit_bytes: int) -> Iterator[Group]:
    """Make a group with a limit, without swap, and remove it when its processes have ended.

    Raises:
        BenchmarkFailed: no hierarchy of control groups is writable.
    """
    name = f"posref-{os.getpid()}-{next(_NUMBERS)}"
    is_v2 = (_ROOT / "cgroup.controllers").exists()
    folder = (_ROOT if is_v2 else _ROOT / "memory") / name
    try:
        if is_v2:
            (_ROOT / "cgroup.subtree_control").write_text("+memory")
        folder.mkdir()
    except OSError as error:
        raise BenchmarkFailed(f"no memory limit can be set here: {error}") from error
    try:
        for file, value in _limits(folder, limit_bytes, is_v2=is_v2):
            file.write_text(str(value))
        yield Group(folder, is_v2)
    finally:
        _wait_until_empty(folder)
        folder.rmdir()


def _wait_until_empty(folder: Path) -> None:
    """Wait for children, which end a moment after their server."""
    end = time.monotonic() + _END_SECONDS
    while processes := (folder / "cgroup.procs").read_text().split():
        if time.monotonic() > end:
            raise BenchmarkFailed(f"processes have outlived their server: {', '.join(processes)}")
        time.sleep(0.05)


def _limits(folder: Path, limit_bytes: int, *, is_v2: bool) -> Iterator[tuple[Path, int]]:
    """Return the files of the limits that this kernel has, and their values."""
    if is_v2:
        limits = {"memory.max": limit_bytes, "memory.swap.max": 0}
    else:
        limits = {
            "memory.limit_in_bytes": limit_bytes,
            "memory.memsw.limit_in_bytes": limit_bytes,
        }
    for name, value in limits.items():
        if (folder / name).exists():
            yield folder / name, value
