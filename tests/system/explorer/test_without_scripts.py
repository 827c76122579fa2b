"""The page where no script runs: tables, problems and forms can be read and followed."""

import re
from collections.abc import Callable

import pytest

from tests.system.explorer.browser import Tab

pytestmark = pytest.mark.system

TABLE = "/rope?head_dim=128&seq_len=131072&rope_theta=500000&pack=concat"


@pytest.fixture
def plain(new_tab: Callable[..., Tab]) -> Tab:
    return new_tab(java_script_enabled=False)


def links(tab: Tab) -> list[str]:
    found = tab.page.locator("#page a[href]").all()
    return [each.get_attribute("href") or "" for each in found]


def test_page_of_a_table_links_to_its_formats(plain: Tab) -> None:
    assert plain.open(TABLE) == 200

    assert plain.role("heading").count() >= 1
    assert "need scripts" in (plain.page.locator("noscript").text_content() or "")
    formats = [link for link in links(plain) if link.startswith("/rope.")]
    assert {link.partition("?")[0].rpartition(".")[2] for link in formats} >= {"npy", "bin"}
    for link in formats:
        assert plain.page.request.head(plain.origin + link).status == 200, link


def test_problem_is_readable_and_its_repair_is_a_link(plain: Tab) -> None:
    assert plain.open(TABLE.replace("head_dim", "head_dmi")) == 422

    text = plain.page.locator("#page").inner_text()
    assert "head_dmi" in text
    assert "head_dim" in text
    plain.page.locator("#page").get_by_role("link", name="head_dim=128").first.click()
    assert plain.page.url == plain.origin + TABLE
    plain.expect_refusal(422)


@pytest.mark.parametrize(
    ("target", "status"),
    [("/ropes?head_dim=8", 404), ("/rope/config", 405), ("/encoding?seq_len=0&d_model=4", 422)],
)
def test_error_is_a_page_with_its_own_status(plain: Tab, target: str, status: int) -> None:
    assert plain.open(target) == status

    assert plain.page.locator("#page h1").count() == 1
    assert len(plain.page.locator("#page").inner_text()) > 40
    plain.expect_refusal(status)


def test_form_opens_another_table(plain: Tab) -> None:
    plain.open(TABLE)

    field = plain.page.locator("#page form [name=seq_len]")
    field.fill("64")
    field.press("Enter")

    plain.page.wait_for_url("**seq_len=64**")
    assert re.search(r"\b64\D{1,3}128\b", plain.page.locator("#page").inner_text())
