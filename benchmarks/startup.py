"""Processor time of ``posref get``, from its start to its end, beside that of a few imports."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks.figures import Measured, in_turns
from benchmarks.processes import ROOT, BenchmarkFailed

PEER = "importing NumPy and pydantic"
SMALL, PICTURE = "/encoding.npy?seq_len=50&d_model=512", "/encoding.png?seq_len=100&d_model=512"

_IMPORTS = ("-c", "import numpy, pydantic")


def measure(folder: Path, url: str, rounds: int) -> Measured:
    """Return the seconds of getting a table, and of the imports."""
    path = folder / "got"
    get, imports = ("-m", "service", "get", url, "-o", str(path)), _IMPORTS
    # The first run of each may compile modules, and reads them from the disk.
    _seconds(get, 0)
    if not path.stat().st_size:
        raise BenchmarkFailed(f"posref get {url} writes nothing")
    _seconds(imports, 0)
    ours, peer = in_turns([partial(_seconds, get), partial(_seconds, imports)], rounds)
    return Measured(ours, peer)


def _seconds(arguments: tuple[str, ...], _number: int) -> float:
    """Return the processor seconds of a Python process, with its children."""
    process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchmarkFailed(f"{process.args!r} ends with {process.returncode}")
    return usage.ru_utime + usage.ru_stime
