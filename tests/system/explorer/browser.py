"""Tabs of Debian's Chromium, and everything that a page in them complains of."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.explorer.measure import SIZE, wait_for_map

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

_LIMIT_MILLISECONDS = 20_000
_PAUSE_MILLISECONDS, _QUIET_PAUSES = 60, 5

KEY = "correct-horse-battery-staple-1234567890"
"""The key of servers that ask for one."""

_TELL_VIOLATIONS = """addEventListener("securitypolicyviolation", event =>
  console.error(`CSP: ${event.violatedDirective} stops ${event.blockedURI} ${event.sample}`));"""


@dataclass
class Tab:
    """A tab with nothing stored, at one server.

    Attributes:
        page: Playwright's page.
        origin: scheme, host and port of the server.
        complaints: messages of the console, errors of scripts and reports of the CSP.
        requested: what was requested of the server: paths with their queries.
        foreign: URLs that were requested of others.
        unanswered: number of requests whose answers have not ended.
    """

    page: "Page"
    origin: str
    complaints: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unanswered: int = 0

    def __post_init__(self) -> None:
        self.page.set_default_timeout(_LIMIT_MILLISECONDS)
        self.page.add_init_script(_TELL_VIOLATIONS)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._note(request.url))
        self.page.on("requestfinished", self._note_end)
        self.page.on("requestfailed", self._note_end)

    def _note_end(self, _request: object) -> None:
        self.unanswered -= 1

    def _note(self, url: str) -> None:
        self.unanswered += 1
        if url.startswith(f"{self.origin}/"):
            self.requested.append(url.removeprefix(self.origin))
        elif not url.startswith(("data:", f"blob:{self.origin}/")):
            self.foreign.append(url)

    def open(self, target: str) -> int:
        """Load a page of the server anew, and return its status."""
        self.page.goto("about:blank")
        response = self.page.goto(f"{self.origin}{target}")
        assert response is not None
        status: int = response.status
        return status

    def value(self, expression: str, argument: Any = None) -> Any:
        """Return the value, or the promised value, of a JavaScript function in the page."""
        return self.page.evaluate(expression, argument)

    def wait_for(self, expression: str, argument: Any = None) -> None:
        """Wait until a JavaScript function of an argument returns something true."""
        self.page.wait_for_function(expression, arg=argument)

    def settle(self) -> None:
        """Wait until nothing was requested for a while, and a frame was drawn after that."""
        quiet = 0
        for _ in range(_LIMIT_MILLISECONDS // _PAUSE_MILLISECONDS):
            self.page.wait_for_timeout(_PAUSE_MILLISECONDS)
            quiet = 0 if self.unanswered else quiet + 1
            if quiet == _QUIET_PAUSES:
                return
        raise AssertionError(f"requests are not answered: {self.requested[-3:]}")

    def wait_for_map(self) -> None:
        """Wait until two more frames are drawn, and the map has all of its numbers."""
        self.value("async () => { for (const _ of '..') await new Promise(requestAnimationFrame) }")
        wait_for_map(self.page)

    def press(self, *keys: str, times: int = 1) -> None:
        for key in keys * times:
            self.page.keyboard.press(key)

    def role(self, role: Any, name: str = "") -> "Locator":
        """Return the element with a role and a name."""
        return self.page.get_by_role(role, name=name or None)

    def give_key(self, key: str) -> None:
        """Answer the page that asks for the key of the server."""
        field = self.page.get_by_label("API key")
        field.wait_for()
        field.fill(key)
        field.press("Enter")

    def expect_refusal(self, status: int) -> None:
        """Forget the messages that Chromium logs for responses with this status."""
        pattern = re.compile(rf"^Failed to load resource: .* status of {status} ")
        heard = [each for each in self.complaints if not pattern.match(each)]
        assert len(heard) < len(self.complaints), self.complaints
        self.complaints[:] = heard


@contextmanager
def context(browser: "Browser", **options: Any) -> Iterator["BrowserContext"]:
    """Return a profile of its own: no cache, nothing stored."""
    made = browser.new_context(**{"viewport": SIZE, **options})
    yield made
    made.close()
