"""Commands that must succeed, and waiting for conditions."""

import os
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

_LIMIT_SECONDS = 600
_TOLD_CHARACTERS = 4000
_PAUSE_SECONDS = 0.1


def run(*command: str | Path, environment: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """Run a command and return its output; fail the test if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            timeout=_LIMIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        pytest.fail(f"{words[0]} is not installed")
    if done.returncode:
        told = (done.stdout + done.stderr)[-_TOLD_CHARACTERS:]
        pytest.fail(f"{shlex.join(words)} exited with {done.returncode}:\n{told}")
    return done.stdout


def wait_until(what: str, is_so: Callable[[], bool], *, seconds: float = 30.0) -> None:
    """Wait until a condition holds, and fail the test if it never does."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {seconds:g} s")
        time.sleep(_PAUSE_SECONDS)


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
