"""Growth of a server's memory while it streams a table larger than any memory."""

from pathlib import Path
from time import sleep

from benchmarks.answers import check
from benchmarks.cases import Case
from benchmarks.curl import download
from benchmarks.figures import Measured
from benchmarks.processes import process_tree
from benchmarks.servers import POSREF, running

_SMALL = Case(4, 4)
_WIDTH = 512
_RESET_PEAK = "5"
_STEADY_BYTES = 2**20
_STEADY_SECONDS = 2


def measure(folder: Path, gibibytes: int) -> Measured:
    """Return the growth in bytes from after a small answer to the peak."""
    case = Case(gibibytes * 2**30 // (4 * _WIDTH), _WIDTH)
    with running(POSREF, folder) as posref:
        check(posref, _SMALL)
        _wait_until_steady(posref.pid)
        before = _status_bytes(posref.pid, "VmRSS", reset_peak=True)
        download(posref.url(case), case.npy_bytes)
        return Measured([_status_bytes(posref.pid, "VmHWM") - before])


def _wait_until_steady(pid: int) -> None:
    """Wait until all child processes have started, so that their start is not counted."""
    before, now = 0, _status_bytes(pid, "VmRSS")
    while now - before > _STEADY_BYTES:
        sleep(_STEADY_SECONDS)
        before, now = now, _status_bytes(pid, "VmRSS")


def _status_bytes(pid: int, name: str, *, reset_peak: bool = False) -> int:
    """Return the sum of a /proc status line over a process and its descendants."""
    return sum(_own_bytes(each, name, reset_peak=reset_peak) for each in process_tree(pid))


def _own_bytes(pid: int, name: str, *, reset_peak: bool) -> int:
    process = Path(f"/proc/{pid}")
    if reset_peak:
        (process / "clear_refs").write_text(_RESET_PEAK, encoding="ascii")
    lines = (process / "status").read_text(encoding="utf-8").splitlines()
    return 1024 * int(dict(line.split(":", 1) for line in lines)[name].split()[0])
