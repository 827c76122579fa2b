"""The memory that a process may take."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.memory import smallest_limit
from service.settings import MIB

LIMIT = 100 * MIB
USABLE = 80 * MIB

# Files below the root: the groups of the process, and limits.
GROUPS = {
    "version 2": {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": f"{LIMIT}\n"},
    "version 2, around it": {
        "proc/self/cgroup": "0::/a/b/c\n",
        "sys/fs/cgroup/a/b/c/memory.max": "max\n",
        "sys/fs/cgroup/a/b/memory.max": f"{2 * LIMIT}\n",
        "sys/fs/cgroup/a/memory.max": f"{LIMIT}\n",
    },
    "version 2 in a container": {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": f"{LIMIT}\n",
    },
    "version 2, named as outside": {
        "proc/self/cgroup": "0::/docker/1234\n",
        "sys/fs/cgroup/memory.max": f"{LIMIT}\n",
    },
    "version 2 beside version 1": {
        "proc/self/cgroup": "2:cpu:/\n1:name=systemd:/\n0::/a\n",
        "sys/fs/cgroup/unified/a/memory.max": f"{LIMIT}\n",
    },
    "version 1": {
        "proc/self/cgroup": "4:pids:/\n3:cpu,memory:/a/b\n0::/\n",
        "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": f"{LIMIT}\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    },
    "version 1, named as outside": {
        "proc/self/cgroup": "3:memory:/docker/1234\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{LIMIT}\n",
    },
}


def system_of(folder: Path, files: dict[str, str]) -> Path:
    """Write files of a system below a folder and return the folder."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.mark.parametrize("files", GROUPS.values(), ids=GROUPS)
def test_four_fifths_of_the_limit_of_a_control_group_are_usable(
    tmp_path: Path, files: dict[str, str]
) -> None:
    limit = smallest_limit(system_of(tmp_path, files))

    assert limit.usable_bytes == USABLE
    assert int(Path(limit.source).read_text()) == LIMIT


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"},
        {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/b/memory.max": f"{LIMIT}\n"},
        {
            "proc/self/cgroup": "3:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    ],
)
def test_without_a_limit_of_a_group_half_of_the_machine_counts(
    tmp_path: Path, files: dict[str, str]
) -> None:
    physical_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    limit = smallest_limit(system_of(tmp_path, files))

    assert limit.usable_bytes == int(0.8 * physical_bytes / 2)
    assert limit.source == "half of the machine's memory"


@pytest.fixture
def address_limit() -> Iterator[int]:
    """Limit the address space of this process, to more than it has."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + 1024 * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, limits[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_AS, limits)


def test_limit_of_the_address_space_counts_without_what_takes_no_memory(
    tmp_path: Path, address_limit: int
) -> None:
    limit = smallest_limit(tmp_path)

    assert limit.usable_bytes == int(0.8 * (address_limit - 256 * MIB))
    assert limit.source == "the limit of the address space"
