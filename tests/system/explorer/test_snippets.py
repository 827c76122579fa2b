"""The programs of "Copy as", taken from the clipboard, compiled and run."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest

from tests.system import debian
from tests.system.explorer.browser import KEY, Tab, context
from tests.system.processes import run
from tests.system.servers import Server, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.system

PACKAGES = ["curl", "default-jdk-headless", "gcc", "golang-go", "libcurl4-openssl-dev", "nodejs"]
PACKAGES += ["rustc"]
TABLE, SHAPE = "/rope?head_dim=128&seq_len=600&rope_theta=500000&pack=concat", (600, 128)
SHOWN_ROWS, SHOWN_COLUMNS = 3, 8
PAUSE_MILLISECONDS = 20
JAVA = "-J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1"
LANGUAGES: Mapping[str, tuple[str, str]] = {
    "curl": ("table.sh", "sh table.sh 2>&1"),
    "JavaScript": ("table.mjs", "node table.mjs"),
    "Python": ("table.py", f"{sys.executable} table.py"),
    "Go": ("table.go", f"GOCACHE={debian.CACHE / 'go'} go run table.go"),
    "Rust": ("table.rs", "rustc table.rs && ./table"),
    "Java": ("Table.java", f"javac {JAVA} Table.java && java -cp . Table"),
    "C": ("table.c", "gcc -Wall -Wextra -Werror -o table table.c -lcurl && ./table"),
}
"""Of each language: the file of its program, and what builds and runs it."""


@pytest.fixture(scope="module", params=["", KEY], ids=["open", "with a key"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with running(api_keys=request.param) as started:
        yield started


@pytest.fixture(scope="module")
def programs(browser: "Browser", server: Server) -> Mapping[str, str]:
    """Copy the program in each language."""
    with context(browser, permissions=["clipboard-read", "clipboard-write"]) as profile:
        tab = Tab(profile.new_page(), server.url(""))
        if tab.open(TABLE) == httpx.codes.UNAUTHORIZED:
            tab.give_key(KEY)
            tab.expect_refusal(httpx.codes.UNAUTHORIZED)
        tab.wait_for_map()
        copied = {language: copy_as(tab, language) for language in LANGUAGES}
        assert (tab.complaints, tab.foreign) == ([], [])
    return copied


def copy_as(tab: Tab, choice: str) -> str:
    # The clipboard is one for all profiles of a browser.
    tab.value("() => navigator.clipboard.writeText('')")
    tab.role("button", "Copy as").press("Enter")
    tab.page.get_by_role("menuitem", name=choice, exact=True).press("Enter")
    text = ""
    while not text:
        tab.page.wait_for_timeout(PAUSE_MILLISECONDS)
        text = str(tab.value("() => navigator.clipboard.readText()"))
    return text


@pytest.fixture(scope="module")
def outputs(
    programs: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Future[str]]:
    """Build and run all programs, two at a time."""
    debian.install(PACKAGES)
    folder = tmp_path_factory.mktemp("programs")
    with ThreadPoolExecutor(2) as pool:
        return {
            language: pool.submit(output, folder / language, language, programs[language])
            for language in LANGUAGES
        }


def output(folder: Path, language: str, program: str) -> str:
    name, command = LANGUAGES[language]
    folder.mkdir()
    (folder / name).write_text(program)
    assert KEY not in program
    environment = dict.fromkeys((each for each in os.environ if "proxy" in each.lower()), "")
    if "POSREF_API_KEY" in program:
        environment["POSREF_API_KEY"] = KEY
    return run("sh", "-c", f"cd {folder} && {command}", environment=environment)


@pytest.mark.parametrize("language", LANGUAGES)
def test_copied_program_prints_the_numbers_of_the_table(
    language: str, outputs: Mapping[str, Future[str]], server: Server, tmp_path: Path
) -> None:
    body = server.get(TABLE.replace("?", ".bin?", 1), Authorization=f"Bearer {KEY}").content
    expected = np.frombuffer(body, "<f4").reshape(SHAPE)[:SHOWN_ROWS, :SHOWN_COLUMNS]

    printed = outputs[language].result()

    if language == "curl":
        *_, folder = sorted(tmp_path.parent.glob("programs*"))
        assert (folder / "curl" / "table.bin").read_bytes() == body
        return
    *_, first, second, third = (line for line in printed.splitlines() if line.strip())
    numbers = [re.findall(r"-?\d[\d.e+-]*", line) for line in (first, second, third)]
    np.testing.assert_array_equal(np.array(numbers, "f4"), expected)
    assert re.search(r"600, *128", printed)
    assert "float32" in printed
