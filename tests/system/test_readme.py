"""The README's commands, run as they are printed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.consoles import Step, steps_of

ROOT = Path(__file__).parents[2]
STEPS = steps_of(ROOT / "README.md")

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Serve with the settings that the README has, on a port that is free."""
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keep what a command writes for the next."""
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.command[:60])
def test_a_command_prints_what_the_readme_says(step: Step, port: int, folder: Path) -> None:
    binaries = Path(sys.executable).parent
    command = step.command.replace(":8000", f":{port}").replace(".venv/bin", str(binaries))
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}

    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, check=True, capture_output=True
    )

    assert done.stdout.decode().replace("\r", "").rstrip("\n") == step.output.rstrip("\n")
