"""The coverage-guided fuzzer runs every harness and finds a planted fault."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.driver import PARSERS
from tests.system.processes import run

ROOT = Path(__file__).parents[2]
_RUNS = 1000
_LIMIT_SECONDS = 120

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"),
        reason="the fuzzer is built for Linux on x86-64",
    ),
]

# No seed has a number that starts with a 7: the fuzzer has to find one.
_FAULT = """
import sys
from pathlib import Path
from tests.fuzz.driver import fuzz, load
harness = load("ranges")
from service.delivery import responses
right = responses._number
responses._number = lambda digits: right(digits) + digits.startswith("7")
fuzz("ranges", harness, Path(sys.argv[1]), sys.argv[2:])
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the pinned fuzzer beside the environment."""
    folder = tmp_path_factory.mktemp("packages")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    pinned = ROOT / "requirements" / "fuzz.txt"
    run(*pip, "--require-hashes", "--target", folder, "-r", pinned)
    return folder


def fuzzed(packages: Path, *arguments: str | Path) -> tuple[int, str]:
    """Run a command with the fuzzer, and return its exit code and output."""
    path = os.pathsep.join(map(str, (ROOT, packages)))
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_LIMIT_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


@pytest.mark.parametrize("parser", PARSERS)
def test_fuzzer_runs_every_harness_with_coverage(
    packages: Path, tmp_path: Path, parser: str
) -> None:
    flags = (f"-runs={_RUNS}", "-seed=1")

    code, said = fuzzed(packages, "-m", "tests.fuzz", parser, tmp_path / "corpus", *flags)

    assert code == 0, said[-4000:]
    assert f"Done {_RUNS} runs" in said
    reached = [int(edges) for edges in re.findall(r"cov: (\d+)", said)]
    assert reached[-1] > 20


def test_fuzzer_stops_at_a_planted_fault_and_saves_its_input(
    packages: Path, tmp_path: Path
) -> None:
    flags = ("-runs=50000", "-seed=1")

    code, said = fuzzed(packages, "-c", _FAULT, tmp_path / "corpus", *flags)

    assert code != 0
    assert "AssertionError" in said
    (found,) = tmp_path.glob("corpus-crash-*")
    assert found.read_bytes()
