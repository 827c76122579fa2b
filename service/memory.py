"""The memory of this process: how much it may take, and giving freed memory back to the system."""

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import resource

# The rest is for what nobody counts: fragments of the heap, buffers of the kernel, other processes.
_USABLE_SHARE = 0.8
_PHYSICAL_SHARE = 0.5

# Address space that takes no memory: code that is never read, and the arenas of threads.
_ADDRESSES_BYTES = 256 * 1024 * 1024

_WINDOWS_BYTES = 2 * 1024 * 1024 * 1024


def usable_bytes(root: Path = Path("/")) -> int:
    """Return the memory that this process and its children may take together.

    That is four fifths of the smallest limit: those of its control groups, that of its address
    space, and half of the machine's memory.

    Args:
        root: the folder with the files of the system.
    """
    limits = [*_machine_limits(), *_group_limits(root)]
    return max(0, int(_USABLE_SHARE * min(limits)))


def _machine_limits() -> Iterator[float]:
    if sys.platform == "win32":
        yield _WINDOWS_BYTES
        return
    yield _PHYSICAL_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    addresses_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if addresses_bytes != resource.RLIM_INFINITY:
        yield addresses_bytes - _ADDRESSES_BYTES


def _group_limits(root: Path) -> Iterator[int]:
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
                limit = _text(root / mount / folder / name)
                # Without a limit the text is "max".
                if limit is not None and limit.strip().isdigit():
                    yield int(limit)


def _text(file: Path) -> str | None:
    try:
        return file.read_text()
    except OSError:
        return None


# Only glibc has it.
_malloc_trim = None if sys.platform == "win32" else getattr(ctypes.CDLL(None), "malloc_trim", None)


def give_back_freed() -> None:
    """Give freed memory back to the system, if the C library can; this may take milliseconds."""
    if _malloc_trim is not None:
        _malloc_trim(0)
