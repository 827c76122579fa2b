"""The memory of this process: how much it may take, and giving freed memory back to the system."""

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

if sys.platform != "win32":
    import resource

# The rest is for what nobody counts: fragments of the heap, buffers of the kernel, other processes.
_USABLE_SHARE = 0.8
_PHYSICAL_SHARE = 0.5

# Address space that takes no memory: code that is never read, and the arenas of threads.
_ADDRESSES_BYTES = 256 * 1024 * 1024

_WINDOWS_BYTES = 2 * 1024 * 1024 * 1024


class MemoryLimit(NamedTuple):
    """A limit of the memory of this process.

    Attributes:
        size_bytes: how much memory it allows.
        source: where it is set.
    """

    size_bytes: float
    source: str

    @property
    def usable_bytes(self) -> int:
        """The memory that this process and its children may take together: four fifths."""
        return max(0, int(_USABLE_SHARE * self.size_bytes))


def smallest_limit(root: Path = Path("/")) -> MemoryLimit:
    """Return the smallest limit of the memory of this process.

    These are the limits of its control groups, that of its address space, and half of the machine's
    memory.

    Args:
        root: the folder with the files of the system.
    """
    return min([*_machine_limits(), *_group_limits(root)])


def _machine_limits() -> Iterator[MemoryLimit]:
    if sys.platform == "win32":
        yield MemoryLimit(_WINDOWS_BYTES, "what is assumed for Windows")
        return
    physical_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield MemoryLimit(_PHYSICAL_SHARE * physical_bytes, "half of the machine's memory")
    addresses_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses_bytes != resource.RLIM_INFINITY:
        yield MemoryLimit(addresses_bytes - _ADDRESSES_BYTES, "the limit of the address space")


def _group_limits(root: Path) -> Iterator[MemoryLimit]:
    """Yield the limits of the control groups of this process, and of those around them.

    In a container a group may be named as outside, but is mounted as the root.
    """
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            mounts, name = ["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max"
        elif "memory" in controllers.split(","):
            mounts, name = ["sys/fs/cgroup/memory"], "memory.limit_in_bytes"
        else:
            continue
        own = Path(group.lstrip("/"))
        for mount in mounts:
            for folder in (own, *own.parents):
                file = root / mount / folder / name
                limit = _text(file)
                # Without a limit the text is "max".
                if limit is not None and limit.strip().isdigit():
                    yield MemoryLimit(int(limit), str(file))


def _text(file: Path) -> str | None:
    try:
        return file.read_text()
    except OSError:
        return None


# Only glibc has it.
_malloc_trim = None if sys.platform == "win32" else getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back_freed() -> None:
    """Return freed memory to the system, if the C library can; this may take milliseconds.

    It collects garbage first: the objects of a connection are reference cycles.
    """
    gc.collect()
    if _malloc_trim is not None:
        _malloc_trim(0)
