"""The log: the writer, log records, lines of requests, request ids, the lock file."""

import json
import logging
import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from service.delivery.telemetry.log import (
    MAX_TEXT_LENGTH,
    REQUEST_ID,
    Clock,
    LineWriter,
    configure_logging,
    file_lock,
)
from service.delivery.telemetry.traffic import RequestLog
from service.settings import Settings, default_settings

PIPE_BYTES = 1024 * 1024


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue


def write(writer: LineWriter, line: str) -> None:
    writer.write((line[:3], line[3:]))


def read_all(descriptor: int) -> bytes:
    pieces = []
    while piece := os.read(descriptor, PIPE_BYTES):
        pieces.append(piece)
    return b"".join(pieces)


def test_lines_are_written_in_order_before_the_end(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with LineWriter(writing) as writer:
        for number in range(100):
            write(writer, f"{number}\n")
    os.close(writing)

    assert read_all(reading).split() == [b"%d" % number for number in range(100)]
    assert writer.dropped == 0


def test_lines_are_written_while_the_writer_is_open(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with LineWriter(writing) as writer:
        for line in (b"one\n", b"two\n"):
            write(writer, line.decode())
            assert os.read(reading, 100) == line


def test_a_writer_that_has_written_nothing_ends(pipe: tuple[int, int]) -> None:
    with LineWriter(pipe[1]) as writer:
        pass

    assert not writer._thread.is_alive()


def test_a_stuck_reader_blocks_no_writer_and_excess_lines_are_dropped(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    read: list[bytes] = []
    with LineWriter(writing, max_waiting_lines=200) as writer:
        write(writer, "x" * PIPE_BYTES + "\n")
        while writer._lines or not os.read(reading, 1):
            sleep(0.001)
        for number in range(1000):
            write(writer, f"{number}\n")
        assert writer.dropped == 800
        assert len(writer._lines) == 200

        reader = threading.Thread(target=lambda: read.append(read_all(reading)))
        reader.start()
    os.close(writing)
    reader.join()

    assert read[0].split()[1:] == [b"%d" % number for number in range(200)]


def test_a_reader_that_returns_gets_the_next_lines(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with LineWriter(writing, max_waiting_lines=1) as writer:
        write(writer, "first\n")
        write(writer, "too much\n")
        assert os.read(reading, PIPE_BYTES) == b"first\n"
        write(writer, "again\n")
        assert os.read(reading, PIPE_BYTES) == b"again\n"

    assert writer.dropped == 1


def test_lines_of_many_threads_are_all_written(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(read_all(reading)))
    reader.start()

    def log(name: int) -> None:
        for number in range(300):
            write(writer, f"{name}-{number}\n")
            sleep(0.0001 * (number % 3))

    with LineWriter(writing) as writer:
        threads = [threading.Thread(target=log, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    os.close(writing)
    reader.join()

    expected = {b"%d-%d" % (name, number) for name in range(4) for number in range(300)}
    assert sorted(read[0].split()) == sorted(expected)


def test_a_slow_reader_of_a_non_blocking_pipe_gets_all_lines(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    read: list[bytes] = []
    with LineWriter(writing) as writer:
        for _ in range(500):
            write(writer, "x" * 999 + "\n")
        sleep(0.1)
        reader = threading.Thread(target=lambda: read.append(read_all(reading)))
        reader.start()
    os.close(writing)
    reader.join()

    assert [len(each) for each in read] == [500_000]


def test_lines_for_a_closed_pipe_are_counted_as_dropped(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    os.close(reading)
    with LineWriter(writing) as writer:
        write(writer, "one\n")
        write(writer, "two\n")

    assert writer.dropped == 2


def test_the_end_does_not_wait_for_a_reader_that_is_stuck(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.delivery.telemetry.log._CLOSE_SECONDS", 0.01)
    reading, writing = pipe
    with LineWriter(writing) as writer:
        write(writer, "x" * PIPE_BYTES * 2)

    assert writer._thread.daemon
    assert writer._thread.is_alive()
    os.close(reading)
    writer._thread.join()


def test_a_piece_is_written_under_the_lock(pipe: tuple[int, int]) -> None:
    turns: list[str] = []

    @contextmanager
    def turn() -> Iterator[None]:
        turns.append("begun")
        yield
        turns.append("ended")

    with LineWriter(pipe[1], turn) as writer:
        write(writer, "line\n")

    assert turns == ["begun", "ended"]


def test_lines_with_lone_surrogates_are_written(pipe: tuple[int, int]) -> None:
    with LineWriter(pipe[1]) as writer:
        write(writer, "\udcff é\n")

    assert os.read(pipe[0], 100) == "? é\n".encode()


Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture(name="_kept")
def kept() -> Iterator[None]:
    """Leave the logging of the tests as it is."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in ("posref", "uvicorn"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def read(_kept: None) -> Iterator[Read]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    writer = LineWriter(writing)
    writer.__enter__()
    configure_logging(Settings(log_level="info"), writer)

    def lines() -> list[dict[str, Any]]:
        writer.__exit__(None, None, None)
        return [json.loads(line) for line in os.read(reading, 10**6).decode().splitlines()]

    yield lines
    writer.__exit__(None, None, None)
    os.close(reading)
    os.close(writing)


def test_a_record_is_a_line(read: Read) -> None:
    logging.getLogger("posref").warning('the limit is %d\n"too" low', 7)

    (line,) = read()
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "message": 'the limit is 7\n"too" low',
        "logger": "posref",
    }


def test_a_failure_is_one_line_with_its_traceback_and_its_request(read: Read) -> None:
    token = REQUEST_ID.set("r-1")
    try:
        raise ArithmeticError("too hard")
    except ArithmeticError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    finally:
        REQUEST_ID.reset(token)

    (line,) = read()
    assert (line["level"], line["request_id"]) == ("error", "r-1")
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("ArithmeticError: too hard")


def test_long_messages_are_cut_and_tracebacks_keep_their_end(read: Read) -> None:
    try:
        raise ArithmeticError("x" * MAX_TEXT_LENGTH + "end")
    except ArithmeticError:
        logging.getLogger("posref").exception("y" * MAX_TEXT_LENGTH * 2)

    (line,) = read()
    assert len(line["message"]) == len(line["exception"]) == MAX_TEXT_LENGTH
    assert line["exception"].endswith("end")


def test_warnings_of_python_are_logged(read: Read) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # Whoever catches warnings takes them from the log.
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn("old ways", stacklevel=1)
        logging.captureWarnings(False)

    (line,) = read()
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")
    assert "old ways" in line["message"]


def test_records_below_the_log_level_are_not_logged(read: Read) -> None:
    logging.getLogger("posref").debug("a detail")
    logging.getLogger("posref").info("a fact")

    assert [line["message"] for line in read()] == ["a fact"]


def test_debug_records_of_libraries_are_not_logged(read: Read) -> None:
    configure_logging(Settings(log_level="debug"), logging.getLogger().handlers[0]._writer)  # type: ignore[attr-defined]
    logging.getLogger("matplotlib").debug("a font")
    logging.getLogger("posref").debug("a detail")

    assert [line["message"] for line in read()] == ["a detail"]


def test_messages_with_lone_surrogates_are_logged(read: Read) -> None:
    # pytest keeps what is logged, too, and cannot pass such a name on.
    odd = logging.LogRecord("posref", logging.INFO, "", 0, "no such file: %s", ("\udcff",), None)
    logging.getLogger().handlers[0].handle(odd)

    assert [line["message"] for line in read()] == ["no such file: ?"]


def test_a_record_that_cannot_be_formatted_does_not_stop_the_log(
    read: Read, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = logging.LogRecord("posref", logging.INFO, "", 0, "%d", ("no number",), None)
    logging.getLogger().handlers[0].handle(wrong)
    logging.getLogger("posref").info("next")

    assert [line["message"] for line in read()] == ["next"]
    assert "Logging error" in capsys.readouterr().err


class Lines(LineWriter):
    """A writer whose lines stay where they wait."""

    def __init__(self) -> None:
        super().__init__(-1)

    def read(self) -> list[dict[str, Any]]:
        whole, self._lines = ["".join(line) for line in self._lines], []
        assert all(line.endswith("\n") and line.count("\n") == 1 for line in whole)
        return [json.loads(line) for line in whole]


@pytest.fixture
def lines() -> Lines:
    return Lines()


def logged(log: RequestLog, **changed: Any) -> None:
    said: dict[str, Any] = {
        "method": "GET",
        "target": b"/encoding.npy?seq_len=4&d_model=4",
        "labels": ("/encoding.{extension}", "200", "kept", "npy"),
        "body_bytes": 192,
        "request_id": "r-1",
        "client": ("192.0.2.7", 4711),
        "seconds": 0.0000123,
        **changed,
    }
    names = {"method", "target", "labels", "body_bytes", "is_complete"} & set(said)
    fields = log.log_fields(**{name: said.pop(name) for name in names})
    log.write(fields, **said)


def labels(status: int, route: str = "/encoding") -> tuple[str, ...]:
    return route, str(status), "made", "other"


def test_a_line_has_the_fields_of_request_and_response(lines: Lines) -> None:
    logged(RequestLog(lines, default_settings()))

    (line,) = lines.read()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "info",
        "message": "request",
        "request_id": "r-1",
        "client": "192.0.2.7",
        "method": "GET",
        "path": "/encoding.npy",
        "query": "seq_len=4&d_model=4",
        "status": 200,
        "bytes": 192,
        "seconds": 0.000012,
        "route": "/encoding.{extension}",
        "source": "kept",
        "format": "npy",
    }


def test_lines_of_one_response_differ_by_request(lines: Lines) -> None:
    log = RequestLog(lines, default_settings())
    clients = [("192.0.2.7", 1), ("192.0.2.8", 2), None]
    for number, client in enumerate(clients):
        logged(log, request_id=f"r-{number}", client=client)

    told = [(line["request_id"], line["client"]) for line in lines.read()]
    assert told == [("r-0", "192.0.2.7"), ("r-1", "192.0.2.8"), ("r-2", None)]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.0, 0.0), (0.0000019, 0.000001), (0.000999, 0.000999), (0.001, 0.001), (75.25, 75.25)],
)
def test_durations_have_microseconds(lines: Lines, seconds: float, told: float) -> None:
    logged(RequestLog(lines, default_settings()), seconds=seconds)

    assert lines.read()[0]["seconds"] == told


@pytest.mark.parametrize("status", [400, 401, 404, 422, 500, 503, 0])
def test_the_query_of_a_refused_request_is_not_logged(lines: Lines, status: int) -> None:
    log = RequestLog(lines, default_settings())
    logged(log, labels=labels(status), target=b"/x?token=hunter2")

    (line,) = lines.read()
    assert line["status"] == (status or None)
    assert line["path"] == "/x"
    assert "query" not in line
    assert "hunter2" not in json.dumps(line)


def test_hostile_fields_are_escaped_and_cut(lines: Lines) -> None:
    hostile = b'"},\r\n{"a":"\xff\x00\\'
    logged(
        RequestLog(lines, default_settings()),
        method='G"\n',
        target=b"/" + hostile * 100 + b"?" + hostile * 100,
        client=(hostile.decode("latin-1") * 100, 1),
        forwarded_for=hostile * 100,
    )

    (line,) = lines.read()
    assert line["path"] == (b"/" + hostile * 100).decode("latin-1")[:512]
    assert line["query"] == (hostile * 100).decode("latin-1")[:512]
    assert line["forwarded_for"] == (hostile * 100).decode("latin-1")[:256]
    assert line["method"] == 'G"\n'
    assert len(line["client"]) == 64


def test_a_line_has_forwarded_for_and_incomplete_responses(
    lines: Lines,
) -> None:
    log = RequestLog(lines, default_settings())
    logged(log, forwarded_for=b"198.51.100.1, 10.0.0.1", is_complete=False)
    logged(log)

    broken, whole = lines.read()
    assert broken["forwarded_for"] == "198.51.100.1, 10.0.0.1"
    assert broken["complete"] is False
    assert not {"forwarded_for", "complete"} & set(whole)


@pytest.mark.parametrize(
    ("status", "route", "level"),
    [
        (200, "/encoding", "info"),
        (422, "/encoding", "info"),
        (0, "/encoding", "info"),
        (500, "/encoding", "error"),
        (503, "other", "error"),
        (200, "/livez", "debug"),
        (503, "/readyz", "debug"),
        (200, "/metrics", "debug"),
    ],
)
@pytest.mark.parametrize("least", ["debug", "info", "warning", "error"])
def test_requests_below_the_log_level_are_not_logged(
    lines: Lines, status: int, route: str, level: str, least: str
) -> None:
    log = RequestLog(lines, Settings(log_level=least))
    for _ in range(2):
        logged(log, labels=labels(status, route))

    levels = ["debug", "info", "warning", "error"]
    is_told = levels.index(level) >= levels.index(least)
    assert [line["level"] for line in lines.read()] == [level] * 2 * is_told


def test_a_log_that_is_off_writes_no_lines(lines: Lines) -> None:
    logged(RequestLog(lines, Settings(log_requests=False)))
    logged(RequestLog(None, default_settings()))

    assert lines.read() == []


def test_the_cache_of_client_fields_is_bounded(lines: Lines) -> None:
    log = RequestLog(lines, default_settings())
    for number in range(3000):
        logged(log, client=(str(number), 1))

    assert len(log._clients) <= 1024
    assert [line["client"] for line in lines.read()] == [str(number) for number in range(3000)]


def test_the_clock_is_utc() -> None:
    clock = Clock()
    for _ in range(3):
        before = datetime.now(UTC)
        told = datetime.fromisoformat(clock.now())
        assert before - timedelta(milliseconds=1) <= told <= datetime.now(UTC)
        assert clock.now().endswith("Z")


@pytest.mark.parametrize("sent", [b"a", b"8f3c-2.B_z", b"x" * 128])
def test_a_valid_request_id_of_the_client_is_kept(sent: bytes) -> None:
    assert RequestLog(None, default_settings()).request_id(sent) == sent.decode()


@pytest.mark.parametrize(
    "sent", [None, b"", b"x" * 129, b"a b", b'a"', b"a\n", "é".encode(), b"a\r\nb: c"]
)
def test_an_invalid_request_id_is_replaced(sent: bytes | None) -> None:
    log = RequestLog(None, default_settings())
    request_id = log.request_id(sent)

    assert request_id.encode() != sent
    assert log.request_id(request_id.encode()) == request_id


def test_request_ids_are_unique_across_processes() -> None:
    one, other = (RequestLog(None, default_settings()) for _ in range(2))

    ids = [log.request_id(None) for log in (one, other) for _ in range(1000)]

    assert len(set(ids)) == 2000


HOLD = (
    "import sys, pathlib; from service.delivery.telemetry.log import file_lock\n"
    "with file_lock(pathlib.Path(sys.argv[1])): print('mine', flush=True); input()"
)


def test_a_killed_process_releases_its_lock(tmp_path: Path) -> None:
    file, taken = tmp_path / "turns", threading.Event()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"

        def take() -> None:
            with file_lock(file):
                taken.set()

        waiting = threading.Thread(target=take)
        waiting.start()
        assert not taken.wait(0.1)
        other.kill()
        waiting.join(30)

    assert taken.is_set()


def test_a_lock_is_released(tmp_path: Path) -> None:
    for _ in range(2):
        with file_lock(tmp_path / "turns"):
            pass


def test_a_missing_folder_of_a_lock_does_not_block(tmp_path: Path) -> None:
    gone = tmp_path / "gone" / "turns"
    with file_lock(gone), file_lock(gone):
        pass
