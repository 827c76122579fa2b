"""The page of a server that answers with an API key only."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.explorer.browser import KEY, Tab
from tests.system.servers import Server, running

pytestmark = pytest.mark.system

TABLE = "/rope?head_dim=8&seq_len=64&pack=concat"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(api_keys=KEY) as started:
        yield started


def test_page_asks_for_the_key_once_and_keeps_it_in_memory(
    new_tab: Callable[..., Tab], server: Server
) -> None:
    assert server.get(TABLE).status_code == 401
    tab = new_tab()
    assert tab.open(TABLE) == 401

    tab.give_key(KEY)
    tab.wait_for_map()

    assert tab.role("dialog").count() == 0
    stored = "() => [localStorage.length, sessionStorage.length, document.cookie, location.href]"
    assert tab.value(stored)[:3] == [0, 0, ""]
    assert KEY not in tab.value("() => location.href")
    assert all(KEY not in target for target in tab.requested)
    with tab.page.expect_download() as started:
        tab.role("link", "npy").click()
    assert started.value.suggested_filename == "rope.npy"
    body = server.get(TABLE.replace("?", ".npy?"), Authorization=f"Bearer {KEY}").content
    assert Path(started.value.path()).read_bytes() == body
    tab.expect_refusal(401)


def test_wrong_key_is_asked_for_again(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(TABLE)

    tab.give_key("wrong")
    tab.role("dialog").get_by_text("not known").wait_for()
    tab.give_key("kéy 😀")
    refusal = tab.page.get_by_label("API key").evaluate("input => input.validationMessage")
    assert "format" in refusal
    tab.give_key(f" {KEY} ")

    tab.wait_for_map()
    tab.expect_refusal(401)


def test_page_without_a_key_says_so(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open(TABLE)

    tab.role("dialog").get_by_role("button", name="Cancel").click()

    tab.role("alert").wait_for()
    assert "key" in tab.role("alert").inner_text()
    tab.role("button", "Give the key").click()
    tab.give_key(KEY)
    tab.wait_for_map()
    tab.expect_refusal(401)


def test_the_key_is_kept_where_the_documentation_cannot_be_opened(
    new_tab: Callable[..., Tab],
) -> None:
    tab = new_tab()
    tab.open(TABLE)
    tab.give_key(KEY)
    tab.wait_for_map()

    tab.role("link", "API").click()
    tab.role("alert").get_by_role("heading", name="API").wait_for()
    assert tab.page.get_by_text("There is no table to show").count() == 0
    with tab.page.expect_download() as started:
        tab.role("alert").get_by_role("link").click()
    assert started.value.suggested_filename == "openapi.json"
    tab.page.go_back()

    tab.wait_for_map()
    assert tab.role("dialog").count() == 0
    tab.expect_refusal(401)
    tab.expect_refusal(404)
