"""The modules of the page as tools of their authors see them: names, calls, and format."""

import re
import shlex
from pathlib import Path

import pytest

from tests.system.packages import node_modules
from tests.system.processes import run
from tests.system.servers import ROOT

pytestmark = pytest.mark.system

EXPLORER = ROOT / "service" / "explorer"
COMPILER = "--allowJs --checkJs --noEmit --pretty false --target esnext --module esnext"
OF_UNTYPED_CODE = {"TS2339", "TS2345", "TS2353", "TS2365", "TS2551", "TS2739"}
"""What the compiler says of fields that Object.assign sets, and of objects without a type."""


@pytest.fixture(scope="module")
def tools() -> Path:
    return node_modules(Path(__file__).parent)


def test_names_imports_and_calls_fit(tools: Path) -> None:
    compiler = f"node {tools / 'typescript' / 'bin' / 'tsc'} {COMPILER}"
    modules = shlex.join(map(str, sorted(EXPLORER.glob("*.js"))))

    told = run("sh", "-c", f"{compiler} --moduleResolution bundler {modules}; test $? -le 2")

    assert not re.search(r"^error", told, re.MULTILINE), told
    errors = re.findall(r"^(\S+: error (TS\d+): .*)$", told, re.MULTILINE)
    assert [line for line, code in errors if code not in OF_UNTYPED_CODE] == []


def test_modules_and_styles_are_formatted(tools: Path) -> None:
    prettier = tools / "prettier" / "bin" / "prettier.cjs"
    files = [*EXPLORER.glob("*.js"), *EXPLORER.glob("*.css")]
    run("node", prettier, "--check", "--print-width=100", *files)
