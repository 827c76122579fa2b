"""Worker processes: replaced when they end or hang, stopped together."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from service.serving import supervisor
from service.serving.supervisor import START_FAILED, Serve, Supervisor
from service.settings import Settings, default_settings

TWO = default_settings().model_copy(
    update={"workers": 2, "drain_seconds": 0, "shutdown_seconds": 5}
)


def serve(
    _settings: Settings,
    _sockets: list[socket.socket],
    channel: socket.socket,
    folder: Path,
    slot: int,
) -> None:
    """Send heartbeats until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    (folder / f"{slot}-{os.getpid()}").touch()
    while True:
        channel.send(b".")
        time.sleep(0.05)


def hang_once(
    settings: Settings,
    sockets: list[socket.socket],
    channel: socket.socket,
    folder: Path,
    slot: int,
) -> None:
    """Serve, except for the first process of slot 0, which hangs after one heartbeat."""
    if slot == 0 and not list(folder.glob("0-*")):
        (folder / f"0-{os.getpid()}").touch()
        channel.send(b".")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    serve(settings, sockets, channel, folder, slot)


def fail(
    _settings: Settings, _sockets: list[socket.socket], _channel: socket.socket, _: Path, _slot: int
) -> None:
    """Exit before the first heartbeat."""
    sys.exit(7)


def never_end(
    _settings: Settings,
    _sockets: list[socket.socket],
    channel: socket.socket,
    folder: Path,
    slot: int,
) -> None:
    """Ignore SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (folder / f"{slot}-{os.getpid()}").touch()
    channel.send(b".")
    time.sleep(3600)


def started(folder: Path, slot: int) -> list[int]:
    """List the ids of all processes that have started in a slot."""
    return [int(path.name.partition("-")[2]) for path in folder.glob(f"{slot}-*")]


def wait_for_both(folder: Path) -> None:
    wait_until(lambda: all(started(folder, slot) for slot in range(2)))


def all_have_ended(folder: Path) -> bool:
    processes = [process for slot in range(2) for process in started(folder, slot)]
    return not any(Path(f"/proc/{process}").exists() for process in processes)


def supervised(
    folder: Path,
    serve: Serve,
    meanwhile: Callable[[], None],
    settings: Settings = TWO,
    listeners: Sequence[socket.socket] = (),
) -> int:
    """Run a supervisor and an action meanwhile, then stop it; return its exit code."""
    running = Supervisor(settings, list(listeners), folder, serve)

    def work() -> None:
        try:
            meanwhile()
        finally:
            running._receive(signal.SIGTERM, None)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        return running.run()
    finally:
        thread.join()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_configured_number_of_workers_serves_and_stops(tmp_path: Path) -> None:
    assert supervised(tmp_path, serve, lambda: wait_for_both(tmp_path)) == 0
    assert all_have_ended(tmp_path)


@pytest.mark.full
def test_a_killed_worker_is_replaced_in_its_slot(tmp_path: Path) -> None:
    def meanwhile() -> None:
        wait_for_both(tmp_path)
        time.sleep(0.5)
        os.kill(started(tmp_path, 0)[0], signal.SIGKILL)
        wait_until(lambda: len(started(tmp_path, 0)) == 2)

    assert supervised(tmp_path, serve, meanwhile) == 0
    assert len(started(tmp_path, 1)) == 1


@pytest.mark.full
def test_a_hung_worker_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_HUNG_SECONDS", 1.0)

    def meanwhile() -> None:
        wait_until(lambda: len(started(tmp_path, 0)) == 2)

    assert supervised(tmp_path, hang_once, meanwhile) == 0


@pytest.mark.full
def test_the_supervisor_gives_up_when_no_worker_starts(tmp_path: Path) -> None:
    running = Supervisor(TWO, [], tmp_path, fail)

    assert running.run() == START_FAILED


@pytest.mark.full
def test_a_worker_ignoring_signals_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_MARGIN_SECONDS", 0.5)
    impatient = TWO.model_copy(update={"shutdown_seconds": 0})

    assert supervised(tmp_path, never_end, lambda: wait_for_both(tmp_path), impatient) == 1
    assert all_have_ended(tmp_path)


@pytest.mark.full
def test_a_stopped_worker_ends_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_MARGIN_SECONDS", 0.5)
    impatient = TWO.model_copy(update={"shutdown_seconds": 0})

    def meanwhile() -> None:
        wait_for_both(tmp_path)
        os.kill(started(tmp_path, 0)[0], signal.SIGSTOP)

    assert supervised(tmp_path, serve, meanwhile, impatient) == 1
    assert all_have_ended(tmp_path)


@pytest.mark.full
def test_a_paused_machine_does_not_count_as_hung_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_HUNG_SECONDS", 2.0)
    # The thread of the supervisor handles the signal, and so it is paused, too.
    before = signal.signal(signal.SIGUSR1, lambda *_: time.sleep(3))

    def signal_all(sig: signal.Signals) -> None:
        for slot in range(2):
            os.kill(started(tmp_path, slot)[0], sig)

    def meanwhile() -> None:
        wait_for_both(tmp_path)
        time.sleep(0.5)
        signal_all(signal.SIGSTOP)
        # Heartbeats that they sent before are received now, not after the pause.
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(3.5)
        signal_all(signal.SIGCONT)
        time.sleep(0.5)

    try:
        assert supervised(tmp_path, serve, meanwhile) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert all(len(started(tmp_path, slot)) == 1 for slot in range(2))


@pytest.mark.full
def test_a_stopping_supervisor_accepts_no_connections(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    code = supervised(tmp_path, serve, lambda: wait_for_both(tmp_path), listeners=[listener])

    assert (code, listener.fileno()) == (0, -1)
