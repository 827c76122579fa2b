"""A headless browser: the content of a page, and its console errors."""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.system import debian
from tests.system.processes import wait_until

_ANSWER_SECONDS = 60.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
_COMPLAINTS = {"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown"}


class Page:
    """A tab of the browser.

    Attributes:
        complaints: console messages since the page was opened.
    """

    def __init__(self, tab: ClientConnection) -> None:
        self._tab = tab
        self._calls = 0
        self.complaints: list[str] = []
        for domain in ("Log", "Runtime", "Page"):
            self._call(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Load a page without any cache."""
        self._call("Page.navigate", url="about:blank")
        self.wait_for("location.href == 'about:blank' && document.readyState == 'complete'")
        self.complaints = []
        self._call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page, or of its promise."""
        waiting = {"returnByValue": True, "awaitPromise": True}
        made = self._call("Runtime.evaluate", expression=expression, **waiting)
        return made["result"].get("value")

    def wait_for(self, expression: str) -> None:
        wait_until(expression, lambda: self.value(f"Boolean({expression})"), seconds=60)

    def _call(self, method: str, **parameters: Any) -> Any:
        self._calls += 1
        self._tab.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            told = json.loads(self._tab.recv(_ANSWER_SECONDS))
            if told.get("id") == self._calls:
                return told["result"]
            if told["method"] in _COMPLAINTS:
                self.complaints.append(json.dumps(told["params"]))


@contextmanager
def opened(host: str) -> Iterator[Page]:
    """Open an empty tab of a new browser, which resolves a host name to this machine."""
    debian.install(["chromium"])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words = ["chromium", *_FLAGS, f"--user-data-dir={folder}"]
        words += [f"--host-resolver-rules=MAP {host} 127.0.0.1", "about:blank"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
            try:
                with connect(_tab(process), max_size=None, proxy=None) as tab:
                    yield Page(tab)
            finally:
                process.terminate()


def _tab(process: "subprocess.Popen[str]") -> str:
    """Return the debugging address of the only tab."""
    for line in process.stderr or ():
        found = re.search(r"listening on ws://([^/]+)", line)
        if found:
            tabs = httpx.get(f"http://{found[1]}/json", trust_env=False).json()
            return next(str(tab["webSocketDebuggerUrl"]) for tab in tabs if tab["type"] == "page")
    pytest.fail("the browser did not start")
