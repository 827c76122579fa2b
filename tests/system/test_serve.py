"""The server as a process: readiness and exit codes."""

import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.system.processes import free_port, wait_until

pytestmark = pytest.mark.system

POSREF = str(Path(sysconfig.get_path("scripts")) / "posref")
PROMPT_SECONDS = 20.0
"""Long before connections are cut; a worker that is still starting ends when it has started."""


@pytest.fixture(params=[1, 2], ids="{} workers".format)
def workers(request: pytest.FixtureRequest) -> int:
    count: int = request.param
    return count


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def server(port: int, workers: int) -> Iterator[subprocess.Popen[bytes]]:
    words = [POSREF, "serve", f"--port={port}", f"--workers={workers}"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until("the server answers", lambda: answers(port))
            yield process
        finally:
            process.terminate()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def ready(port: int) -> int:
    return subprocess.run(
        [POSREF, "ready", f"--port={port}"], stderr=subprocess.DEVNULL, check=False
    ).returncode


def test_sigterm_exits_promptly_with_code_0(server: subprocess.Popen[bytes], port: int) -> None:
    server.send_signal(signal.SIGTERM)

    assert server.wait(PROMPT_SECONDS) == 0
    assert not answers(port)


def test_ready_command_reports_whether_the_server_is_ready(
    server: subprocess.Popen[bytes], port: int
) -> None:
    assert ready(port) == 0

    server.send_signal(signal.SIGTERM)
    server.wait(PROMPT_SECONDS)

    assert ready(port) == 1
