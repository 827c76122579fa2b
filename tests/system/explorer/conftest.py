"""Fixtures of the tests of the page: a browser for each module, and tabs that must be silent."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.explorer.measure import launched
from tests.system import debian
from tests.system.explorer.browser import Tab, context
from tests.system.servers import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    debian.install(["chromium"])
    with launched() as browser:
        yield browser


@pytest.fixture
def new_tab(browser: "Browser", server: Server) -> Iterator[Callable[..., Tab]]:
    """Return what opens a tab with a profile of its own; every tab has to be silent at the end."""
    tabs: list[Tab] = []
    with ExitStack() as contexts:

        def opened(at: Server = server, **options: Any) -> Tab:
            page = contexts.enter_context(context(browser, **options)).new_page()
            tabs.append(Tab(page, at.url("")))
            return tabs[-1]

        yield opened
        for tab in tabs:
            assert (tab.complaints, tab.foreign) == ([], [])


@pytest.fixture
def tab(new_tab: Callable[..., Tab]) -> Tab:
    return new_tab()
