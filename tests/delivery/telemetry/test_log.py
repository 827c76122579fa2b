"""The log: the writer, its lock file, log records as lines, the clock."""

import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep

import pytest

from service.delivery.telemetry.log import (
    MAX_TEXT_LENGTH,
    REQUEST_ID,
    Clock,
    LineWriter,
    configure_logging,
    file_lock,
)
from service.settings import Settings
from tests.delivery.telemetry.lines import Lines

PIPE_BYTES = 1024 * 1024


class Pipe:
    """A pipe whose reader starts late, and reads everything."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._pieces: list[bytes] = []
        self._thread = threading.Thread(target=self._read)

    def start_reader(self) -> None:
        self._thread.start()

    def _read(self) -> None:
        while piece := os.read(self.reading, PIPE_BYTES):
            self._pieces.append(piece)

    def read_all(self) -> bytes:
        os.close(self.writing)
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join()
        return b"".join(self._pieces)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    for descriptor in (pipe.reading, pipe.writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def write(writer: LineWriter, line: bytes) -> None:
    writer.write((line[:3], line[3:]))


def test_lines_are_written_in_order_before_the_end(pipe: Pipe) -> None:
    with LineWriter(pipe.writing) as writer:
        for number in range(100):
            write(writer, b"%d\n" % number)

    assert pipe.read_all().split() == [b"%d" % number for number in range(100)]
    assert writer.dropped == 0
    assert not writer._thread.is_alive()


def test_lines_are_written_while_the_writer_is_open(pipe: Pipe) -> None:
    with LineWriter(pipe.writing) as writer:
        for line in (b"one\n", b"two\n"):
            write(writer, line)
            assert os.read(pipe.reading, 100) == line


def test_a_stuck_reader_blocks_no_writer_and_excess_lines_are_dropped(pipe: Pipe) -> None:
    with LineWriter(pipe.writing, max_waiting_lines=200) as writer:
        write(writer, b"x" * PIPE_BYTES + b"\n")
        while writer._lines or not os.read(pipe.reading, 1):
            sleep(0.001)
        for number in range(1000):
            write(writer, b"%d\n" % number)
        assert writer.dropped == 800
        assert len(writer._lines) == 200
        pipe.start_reader()

    assert pipe.read_all().split()[1:] == [b"%d" % number for number in range(200)]


def test_lines_of_many_threads_are_all_written(pipe: Pipe) -> None:
    def log(name: int) -> None:
        for number in range(300):
            write(writer, b"%d-%d\n" % (name, number))
            sleep(0.0001 * (number % 3))

    pipe.start_reader()
    with LineWriter(pipe.writing) as writer:
        threads = [threading.Thread(target=log, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    expected = {b"%d-%d" % (name, number) for name in range(4) for number in range(300)}
    assert sorted(pipe.read_all().split()) == sorted(expected)


def test_a_slow_reader_of_a_non_blocking_pipe_gets_all_lines(pipe: Pipe) -> None:
    os.set_blocking(pipe.writing, False)
    with LineWriter(pipe.writing) as writer:
        for _ in range(500):
            write(writer, b"x" * 999 + b"\n")
        sleep(0.1)
        pipe.start_reader()

    assert len(pipe.read_all()) == 500_000


def test_lines_for_a_closed_pipe_are_counted_as_dropped(pipe: Pipe) -> None:
    os.close(pipe.reading)
    with LineWriter(pipe.writing) as writer:
        write(writer, b"one\n")
        write(writer, b"two\n")

    assert writer.dropped == 2


def test_the_end_does_not_wait_for_a_reader_that_is_stuck(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.delivery.telemetry.log._CLOSE_SECONDS", 0.01)
    with LineWriter(pipe.writing) as writer:
        write(writer, b"x" * PIPE_BYTES * 2)

    assert writer._thread.daemon
    assert writer._thread.is_alive()
    os.close(pipe.reading)
    writer._thread.join()


def test_lines_are_written_under_the_lock(pipe: Pipe) -> None:
    states: list[str] = []

    @contextmanager
    def lock() -> Iterator[None]:
        states.append("locked")
        yield
        states.append("released")

    with LineWriter(pipe.writing, lock) as writer:
        write(writer, b"one\n")

    assert states == ["locked", "released"]
    assert os.read(pipe.reading, 100) == b"one\n"


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Yield the lines of configured logging; then restore the logging of the tests."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    lines = Lines()
    configure_logging(Settings(log_level="info"), lines)
    yield lines
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("posref", "uvicorn"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_record_is_a_line(lines: Lines) -> None:
    logging.getLogger("posref").warning('the limit is %d\n"too" low', 7)

    (line,) = lines.read()
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "message": 'the limit is 7\n"too" low',
        "logger": "posref",
    }


def test_a_failure_is_one_line_with_its_traceback_and_its_request(lines: Lines) -> None:
    token = REQUEST_ID.set("r-1")
    try:
        raise ArithmeticError("too hard")
    except ArithmeticError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    finally:
        REQUEST_ID.reset(token)

    (line,) = lines.read()
    assert (line["level"], line["request_id"]) == ("error", "r-1")
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ArithmeticError: too hard")


def test_long_messages_are_cut_and_tracebacks_keep_their_end(lines: Lines) -> None:
    try:
        raise ArithmeticError("x" * MAX_TEXT_LENGTH + "end")
    except ArithmeticError:
        logging.getLogger("posref").exception("y" * MAX_TEXT_LENGTH * 2)

    (line,) = lines.read()
    assert len(line["message"]) == len(line["exception"]) == MAX_TEXT_LENGTH
    assert line["exception"].endswith("end")


def test_warnings_of_python_are_logged(lines: Lines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # Catching warnings takes them from the log.
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("an old way", stacklevel=1)
        logging.captureWarnings(False)

    (line,) = lines.read()
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")
    assert "an old way" in line["message"]


def test_records_below_the_log_level_are_not_logged(lines: Lines) -> None:
    logging.getLogger("posref").debug("a detail")
    logging.getLogger("posref").info("a fact")

    assert [line["message"] for line in lines.read()] == ["a fact"]


def test_debug_records_of_libraries_are_not_logged(lines: Lines) -> None:
    configure_logging(Settings(log_level="debug"), lines)
    logging.getLogger("PIL").debug("a chunk")
    logging.getLogger("posref").debug("a detail")

    assert [line["message"] for line in lines.read()] == ["a detail"]


def test_messages_with_lone_surrogates_are_logged(lines: Lines) -> None:
    # pytest captures records of loggers, and cannot encode such a name.
    record = logging.LogRecord("posref", logging.INFO, "", 0, "no such file: %s", ("\udcff",), None)
    logging.getLogger().handlers[0].handle(record)

    assert [line["message"] for line in lines.read()] == ["no such file: ?"]


def test_a_record_that_cannot_be_formatted_does_not_stop_the_log(
    lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    record = logging.LogRecord("posref", logging.INFO, "", 0, "%d", ("no number",), None)
    logging.getLogger().handlers[0].handle(record)
    logging.getLogger("posref").info("next")

    assert [line["message"] for line in lines.read()] == ["next"]
    assert "Logging error" in capsys.readouterr().err


def test_the_clock_is_utc() -> None:
    clock = Clock()
    for _ in range(3):
        before = datetime.now(UTC)
        now = datetime.fromisoformat(clock.now().decode())
        assert before - timedelta(milliseconds=1) <= now <= datetime.now(UTC)
        assert clock.now().endswith(b"Z")


HOLD = (
    "import sys, pathlib; from service.delivery.telemetry.log import file_lock\n"
    "with file_lock(pathlib.Path(sys.argv[1])): print('locked', flush=True); input()"
)


def test_a_killed_process_releases_its_lock(tmp_path: Path) -> None:
    file, is_locked = tmp_path / "lock", threading.Event()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"

        def take() -> None:
            with file_lock(file):
                is_locked.set()

        waiting = threading.Thread(target=take)
        waiting.start()
        assert not is_locked.wait(0.1)
        other.kill()
        waiting.join(30)

    assert is_locked.is_set()


def test_a_lock_is_released(tmp_path: Path) -> None:
    for _ in range(2):
        with file_lock(tmp_path / "lock"):
            pass


def test_a_missing_folder_of_a_lock_does_not_block(tmp_path: Path) -> None:
    gone = tmp_path / "gone" / "lock"
    with file_lock(gone), file_lock(gone):
        pass
