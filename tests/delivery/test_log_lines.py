"""Lines on their way out: in order, whole, never waited for, counted where they are lost."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import sleep

import pytest

from service.delivery.log_lines import LineWriter

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


def test_lines_come_in_order_and_all_of_them_before_the_end(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with LineWriter(writing) as writer:
        for number in range(100):
            write(writer, f"{number}\n")
    os.close(writing)

    assert read_all(reading).split() == [b"%d" % number for number in range(100)]
    assert writer.dropped == 0


def test_lines_come_while_more_are_to_come(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with LineWriter(writing) as writer:
        for line in (b"one\n", b"two\n"):
            write(writer, line.decode())
            assert os.read(reading, 100) == line


def test_a_writer_that_has_written_nothing_ends(pipe: tuple[int, int]) -> None:
    with LineWriter(pipe[1]) as writer:
        pass

    assert not writer._thread.is_alive()


def test_a_reader_that_is_stuck_holds_nobody_and_what_is_too_much_is_dropped_and_counted(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    read: list[bytes] = []
    with LineWriter(writing, max_waiting_lines=200) as writer:
        write(writer, "x" * PIPE_BYTES + "\n")
        while writer._lines:
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


def test_a_reader_that_comes_back_gets_what_comes_then(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    with LineWriter(writing, max_waiting_lines=1) as writer:
        write(writer, "first\n")
        write(writer, "too much\n")
        assert os.read(reading, PIPE_BYTES) == b"first\n"
        write(writer, "again\n")
        assert os.read(reading, PIPE_BYTES) == b"again\n"

    assert writer.dropped == 1


def test_no_line_is_lost_whoever_writes_it_and_whenever(pipe: tuple[int, int]) -> None:
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


def test_a_reader_that_is_slow_gets_all_from_a_pipe_that_never_waits(
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


def test_a_reader_that_has_gone_is_no_failure_and_its_lines_are_counted(
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
    monkeypatch.setattr("service.delivery.log_lines._CLOSE_SECONDS", 0.01)
    reading, writing = pipe
    with LineWriter(writing) as writer:
        write(writer, "x" * PIPE_BYTES * 2)

    assert writer._thread.daemon
    assert writer._thread.is_alive()
    os.close(reading)
    writer._thread.join()


def test_several_who_write_to_one_place_take_turns(pipe: tuple[int, int]) -> None:
    turns: list[str] = []

    @contextmanager
    def turn() -> Iterator[None]:
        turns.append("begun")
        yield
        turns.append("ended")

    with LineWriter(pipe[1], turn) as writer:
        write(writer, "line\n")

    assert turns == ["begun", "ended"]


def test_names_that_have_no_bytes_do_not_end_the_log(pipe: tuple[int, int]) -> None:
    with LineWriter(pipe[1]) as writer:
        write(writer, "\udcff é\n")

    assert os.read(pipe[0], 100) == "? é\n".encode()


def test_a_call_that_comes_when_its_line_has_been_written_does_not_end_the_writer(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    with LineWriter(writing) as writer:
        # As a thread does that is held up between its line and its call.
        writer._called.set()
        sleep(0.2)
        write(writer, "line\n")
        assert writer._thread.is_alive()
        assert os.read(reading, 100) == b"line\n"
