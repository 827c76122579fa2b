"""The command line."""

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from service import __version__
from service.__main__ import main


def test_get_writes_a_table_that_numpy_reads(tmp_path: Path) -> None:
    file = tmp_path / "pe.npy"

    assert main(["get", "/encoding.npy?seq_len=50&d_model=512", "-o", str(file)]) == 0
    assert np.load(file).shape == (50, 512)


def test_get_without_a_file_writes_to_standard_output(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["get", "/encoding?seq_len=1&d_model=2"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["data"] == [[0.0, 1.0]]


def test_get_of_an_invalid_url_prints_the_problem_and_writes_no_file(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "pe.npy"

    assert main(["get", "/encoding.npy?seq_len=50&dmodel=512", "-o", str(file)]) == 1
    problem = json.loads(capfdbinary.readouterr().err)
    assert "did you mean d_model" in problem["errors"][0]["detail"]
    assert not file.exists()


def test_serve_names_a_platform_without_forkserver(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setattr(sys, "platform", "win32")

    assert main(["serve"]) == 1
    assert "not on win32" in capsys.readouterr().err


class _Ready(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/readyz" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """Serve readiness on a free port."""
    with http.server.HTTPServer(("127.0.0.1", 0), _Ready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_ready_requests_the_readiness_of_the_server(port: int, host: str) -> None:
    assert main(["ready", "--host", host, "--port", str(port)]) == 0


def test_ready_fails_if_the_server_is_not_ready(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Ready, "status", 503)

    assert main(["ready", "--port", str(port)]) == 1


def test_ready_fails_if_nothing_listens(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ready", "--port", "1"]) == 1
    assert "http://127.0.0.1:1/readyz" in capsys.readouterr().err


@pytest.mark.full
def test_openapi_prints_the_committed_document(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    committed = Path(__file__).parents[1] / "openapi.json"

    assert main(["openapi"]) == 0
    assert capfdbinary.readouterr().out == committed.read_bytes()


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])

    assert capsys.readouterr().out == f"posref {__version__}\n"


def test_unwritable_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "no" / "pe.npy"

    assert main(["get", "/encoding.npy?seq_len=1&d_model=2", "-o", str(file)]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.full
def test_broken_pipe_prints_no_traceback() -> None:
    command = (
        f"{sys.executable} -m service get '/encoding.npy?seq_len=99999&d_model=99' | head -c 20"
    )

    done = subprocess.run(
        ["sh", "-c", command], cwd=Path(__file__).parents[1], check=True, capture_output=True
    )

    assert (len(done.stdout), done.stderr) == (20, b"")


def test_file_larger_than_free_space_is_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pe.npy"

    assert main(["get", f"/encoding.npy?seq_len={2**50}&d_model=512", "-o", str(file)]) == 1
    assert str(file) in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()

    assert main(["get", "/encoding.npy?seq_len=1&d_model=2", "-o", str(pipe)]) == 0
    reader.join(30)
    assert [len(whole) for whole in read] == [136]
    assert pipe.is_fifo()


def test_symbolic_link_is_followed(tmp_path: Path) -> None:
    file, link = tmp_path / "pe.npy", tmp_path / "link"
    file.write_bytes(b"old")
    link.symlink_to(file)

    assert main(["get", "/encoding.npy?seq_len=1&d_model=2", "-o", str(link)]) == 0
    assert (link.is_symlink(), file.stat().st_size) == (True, 136)


@pytest.mark.full
def test_interrupted_get_leaves_no_file_and_prints_nothing(tmp_path: Path) -> None:
    file = tmp_path / "endless.csv"
    # The parent process may have made SIGINT ignored.
    ready = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program = f"{ready}from service.__main__ import main; sys.exit(main())"
    command = [
        sys.executable,
        "-c",
        program,
        "get",
        "/encoding.csv?seq_len=1099511627776&d_model=512",
    ]
    with subprocess.Popen(
        [*command, "-o", str(file)], cwd=Path(__file__).parents[1], stderr=subprocess.PIPE
    ) as getting:
        try:
            deadline = time.monotonic() + 60
            while not file.exists():
                assert getting.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            getting.send_signal(signal.SIGINT)
            _, error_output = getting.communicate(timeout=60)
        finally:
            getting.kill()

    assert (getting.returncode, error_output) == (128 + signal.SIGINT, b"")
    assert not file.exists()
