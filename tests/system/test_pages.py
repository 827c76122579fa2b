"""The console blocks of the pages, run as printed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.consoles import PAGES, ROOT, Step, files_of, steps_of

STEPS = [(page, step) for page in PAGES for step in steps_of(ROOT / page)]

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Run a server with the README's settings on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    command = [sys.executable, "-m", "service", "serve", "--port", str(number)]
    with subprocess.Popen(command, cwd=ROOT) as server:
        ready = [sys.executable, "-m", "service", "ready", "--port", str(number)]
        deadline = time.monotonic() + 60
        while subprocess.run(ready, cwd=ROOT, check=False, capture_output=True).returncode != 0:
            assert time.monotonic() < deadline
        yield number
        server.send_signal(signal.SIGTERM)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Return a folder shared by all commands of a page, with the files that the page shows."""
    folders = {page: tmp_path_factory.mktemp(Path(page).stem) for page in PAGES}
    for page, folder in folders.items():
        for name, content in files_of(ROOT / page).items():
            (folder / name).write_text(content)
    return folders


@pytest.mark.parametrize(
    ("page", "step"), STEPS, ids=[f"{page} {step.command[:60]}" for page, step in STEPS]
)
def test_documented_command_prints_the_documented_output(
    page: str, step: Step, port: int, folders: Mapping[str, Path]
) -> None:
    binaries = Path(sys.executable).parent
    command = step.command.replace(":8000", f":{port}").replace(".venv/bin", str(binaries))
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}

    done = subprocess.run(
        ["bash", "-c", command], cwd=folders[page], env=environment, check=True, capture_output=True
    )

    assert done.stdout.decode().replace("\r", "").rstrip("\n") == step.output.rstrip("\n")
