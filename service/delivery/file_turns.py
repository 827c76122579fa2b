"""Turns of processes that write to one place: a pipe takes only short pieces unbroken."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_turn(file: Path) -> Iterator[None]:
    """Wait for a turn among those who name one file; one that is killed gives its turn back.

    Where there is no place for the file, turns are not taken.
    """
    try:
        held = file.open("wb")
    except OSError:
        yield
        return
    with held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
