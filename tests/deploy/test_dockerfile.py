"""The Dockerfile: hadolint and the health check."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
HADOLINT = Path(sys.executable).with_name("hadolint")


def test_dockerfile_passes_hadolint() -> None:
    done = subprocess.run([HADOLINT, DOCKERFILE], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_detects_a_bad_dockerfile(tmp_path: Path) -> None:
    wrong = tmp_path / "Dockerfile"
    wrong.write_text("FROM python:latest\nRUN cd /tmp && pip install posref\n")

    done = subprocess.run([HADOLINT, wrong], capture_output=True, text=True, check=False)

    assert done.returncode != 0
    assert "DL3007" in done.stdout


@contextmanager
def answering(status: int) -> Iterator[int]:
    """Answer every request with a status code, and yield the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def healthy(port: int) -> bool:
    """Run the command of the health check with posref on a port."""
    text = DOCKERFILE.read_text().replace("\\\n", "")
    (command,) = re.findall(r"^HEALTHCHECK .*? CMD (\[.*\])$", text, re.MULTILINE)
    words = [sys.executable, *json.loads(command)[1:]]
    done = subprocess.run(
        words, env={"POSREF_PORT": str(port)}, capture_output=True, timeout=60, check=False
    )
    return done.returncode == 0


@pytest.mark.parametrize(("status", "is_healthy"), [(200, True), (503, False), (404, False)])
def test_health_check_succeeds_if_posref_is_ready(status: int, is_healthy: bool) -> None:
    with answering(status) as port:
        assert healthy(port) is is_healthy


def test_health_check_fails_if_nothing_listens() -> None:
    with answering(200) as port:
        pass

    assert not healthy(port)
