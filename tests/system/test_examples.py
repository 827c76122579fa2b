"""The programs of examples/, built and run as their comments say, and the page in a browser."""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.system import chromium, debian
from tests.system.servers import ROOT, Server

pytestmark = pytest.mark.system

EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "README.md").read_text()
SERVER = "http://127.0.0.1:8000"
COMMANDS = dict(re.findall(rf"\| \[(\S+)\]\S+ \| `(.*) {SERVER}` \|\n", README))
OF_PROMPT = {name: COMMANDS.pop(name) for name in [*COMMANDS] if name.startswith("positions.")}
OUTPUT, OUTPUT_OF_PROMPT = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
EXPECTED = ROOT / "tests" / "data" / "rotated_prompt.npz"

PACKAGES = ["curl", "default-jdk-headless", "g++", "gcc", "golang-go", "libcurl4-openssl-dev"]
PACKAGES += ["nodejs", "php-cli", "ruby", "rustc"]
LIMIT_SECONDS = 300


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )


@dataclass(frozen=True)
class Runs:
    """How a program ended: with the config of the examples, and with one that has another table."""

    given: subprocess.CompletedProcess[str]
    other: subprocess.CompletedProcess[str]


def both_runs(command: str, folder: Path) -> Runs:
    shutil.copytree(EXAMPLES, folder)
    given = run(command, folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"factor": 32.0', '"factor": 8.0'))
    return Runs(given, run(command, folder))


@pytest.fixture(scope="module")
def runs(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Runs]:
    """Build and run all programs, side by side."""
    debian.install(PACKAGES)
    folder = tmp_path_factory.mktemp("examples")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {
            name: pool.submit(both_runs, f"{command} {server.url('')}", folder / name)
            for name, command in COMMANDS.items()
        }
        return {name: future.result() for name, future in futures.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_program_prints_the_output_of_the_readme(name: str, runs: Mapping[str, Runs]) -> None:
    done = runs[name].given

    assert (done.stdout, done.returncode) == (OUTPUT, 0), done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_program_fails_where_a_number_is_wrong(name: str, runs: Mapping[str, Runs]) -> None:
    done = runs[name].other

    assert done.returncode != 0
    assert done.stdout.splitlines()[1:] == ["cos[131071][31]: 0.998781"]
    assert "expected 0.99992" in done.stderr


@pytest.mark.parametrize("name", OF_PROMPT)
def test_rotated_queries_of_a_prompt_are_those_of_the_model(
    name: str, server: Server, tmp_path: Path
) -> None:
    debian.install(PACKAGES)
    shutil.copytree(EXAMPLES, tmp_path / "examples")

    done = run(f"{OF_PROMPT[name]} {server.url('')}", tmp_path / "examples")

    assert (done.stdout, done.returncode) == (OUTPUT_OF_PROMPT, 0), done.stderr
    rotated = load_file(tmp_path / "examples" / "rotated.safetensors")["q"]
    np.testing.assert_allclose(rotated, np.load(EXPECTED)["q"], rtol=0, atol=1e-5)


@pytest.fixture
def site() -> Iterator[int]:
    """Serve the examples to a browser, on a port of this machine."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(EXAMPLES))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        threading.Thread(target=pages.serve_forever).start()
        yield pages.server_port
        pages.shutdown()


def test_page_of_another_origin_shows_the_same(server: Server, site: int) -> None:
    host = "examples.test"
    with chromium.opened(host) as page:
        page.open(f"http://{host}:{site}/rope.html?server={server.url('')}")
        shown = "document.querySelector('pre')?.textContent"
        page.wait_for(f"/diagnosis|Error/.test({shown})")

        assert page.value(shown) == OUTPUT
