"""Turns of processes."""

import subprocess
import sys
import threading
from pathlib import Path

from service.delivery.file_turns import file_turn

HOLD = (
    "import sys, pathlib; from service.delivery.file_turns import file_turn\n"
    "with file_turn(pathlib.Path(sys.argv[1])): print('mine', flush=True); input()"
)


def test_one_that_is_killed_gives_its_turn_back(tmp_path: Path) -> None:
    file, taken = tmp_path / "turns", threading.Event()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"

        def take() -> None:
            with file_turn(file):
                taken.set()

        waiting = threading.Thread(target=take)
        waiting.start()
        assert not taken.wait(0.1)
        other.kill()
        waiting.join(30)

    assert taken.is_set()


def test_a_turn_ends(tmp_path: Path) -> None:
    for _ in range(2):
        with file_turn(tmp_path / "turns"):
            pass


def test_a_folder_that_is_gone_keeps_nobody_waiting(tmp_path: Path) -> None:
    gone = tmp_path / "gone" / "turns"
    with file_turn(gone), file_turn(gone):
        pass
