"""From settings to a server: it says where it serves, ends with code 0, or says why it cannot."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing

import pytest

SERVE = [sys.executable, "-m", "service", "serve", "--port"]
PLACE = re.compile(r"serves on (http://127\.0\.0\.1:\d+)")


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSREF_")}
    return {**kept, **settings}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_it_says_where_it_serves_and_ends_with_code_0(workers: str) -> None:
    settings = environment(POSREF_DRAIN_SECONDS="0", POSREF_WORKERS=workers)
    with subprocess.Popen([*SERVE, "0"], stderr=subprocess.PIPE, text=True, env=settings) as served:
        assert served.stderr is not None
        told = served.stderr.readline()
        served.send_signal(signal.SIGTERM)

        assert served.wait(60) == 0

    assert PLACE.search(told)


def test_an_address_that_is_taken_is_told_in_one_line() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*SERVE, port], capture_output=True, text=True, env=environment(), check=False
        )

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert f"port {port} (POSREF_PORT)" in done.stderr
