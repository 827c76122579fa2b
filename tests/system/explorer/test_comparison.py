"""The comparison of two tables: where they differ most, and what is said of B alone."""

import re
from collections.abc import Callable
from typing import Literal
from urllib.parse import quote

import numpy as np
import pytest

from tests.system.explorer.browser import Tab
from tests.system.servers import Server

pytestmark = pytest.mark.system

ROPE = "/rope?head_dim=20&seq_len=64"
ALIBI = "/relative/alibi?num_heads=12&query_len=64&key_len=64"
DETR = "/encoding/grid?convention=detr&height=16&width=16&d_model=16"
CASES = [
    (ROPE, "&rope_theta=500", "position 57 channel 9"),
    (f"{ROPE}&pack=complex", "&rope_theta=500", "position 57 channel 9"),
    (ALIBI, "&convention=paper", "query 0 key 63"),
    (DETR, "&base=100", "token 224 channel 2"),
]
IS_TOLD = """words => {
  const readout = document.querySelector(".readout")
  const text = readout.innerText.replace(/\\s+/g, " ")
  return text.startsWith(words) && !readout.querySelector(".late")
}"""


def compare(tab: Tab, have: str, other: str) -> None:
    tab.open(f"{have}#vs={quote(other, safe='')}&show=d")


def test_largest_difference_is_shown_in_its_cell(tab: Tab, server: Server) -> None:
    for have, change, words in CASES:
        report = server.get(f"/compare?have={quote(have)}&to={quote(have + change)}").json()
        worst = report["largest"]["absolute"]
        compare(tab, have, have + change)

        tab.role("button", "Show it").click()

        tab.wait_for(IS_TOLD, words)
        shown = tab.page.locator(".readout").inner_text().replace("\N{MINUS SIGN}", "-")
        told = re.findall(r"[AB] (-?[\d.]+)", shown)
        assert [float(np.float32(each)) for each in told[:2]] == [worst["yours"], worst["theirs"]]
        if have == ALIBI:
            assert tab.page.get_by_role("spinbutton", name="head of").input_value() == "8"


def test_one_head_is_compared_with_that_head_of_all(tab: Tab) -> None:
    compare(tab, ALIBI, f"{ALIBI}&head=3")
    tab.wait_for_map()

    assert tab.page.get_by_role("spinbutton", name="head of").input_value() == "3"
    assert "One is head 3 alone" in tab.page.locator(".compare-bar p").inner_text()
    assert tab.value("() => document.querySelector('main .map').heatmap.seen") == [0, 0]


def test_words_of_a_comparison_say_of_what_they_are(tab: Tab) -> None:
    table = ROPE.replace("=64", "=2048")
    compare(tab, table, f"{table}&rope_theta=500")
    tab.wait_for_map()

    title = tab.page.locator(".curves-title")
    title.get_by_text("of each position drawn (one position in 3)").wait_for()
    assert "λ of A" in tab.page.locator(".readout").inner_text()
    edge = tab.page.get_by_role("img", name="Largest difference of each channel")
    assert edge.locator("title").count() == 1


def test_tables_of_other_kinds_list_what_both_have(tab: Tab) -> None:
    compare(tab, ROPE, "/encoding?convention=whisper&seq_len=48&d_model=20")
    tab.wait_for_map()

    said = tab.page.locator(".compare-bar p").inner_text()

    kinds = "A is of /rope, B of /encoding: other kinds of tables."
    assert said == f"{kinds} seq_len 64 → 48. The first 48 of 64 positions are compared."


def test_one_part_of_a_packing_is_not_said_to_be_all_of_it(tab: Tab) -> None:
    said = tab.page.locator(".compare-bar p")
    for one, other, words in (
        ("half", "concat", "pack half → concat. A is cos alone."),
        ("concat", "interleaved", "pack concat → interleaved. B is cos alone."),
        ("half", "interleaved", "pack half → interleaved. Both hold the same numbers"),
        ("concat", "complex", "Both hold the same numbers"),
    ):
        tables = [f"{ROPE}&pack={each}" for each in (one, other)]
        compare(tab, tables[0], tables[1])
        tab.wait_for_map()
        tab.settle()

        assert words in said.inner_text()


def test_a_difference_is_not_rounded_to_a_whole_number(tab: Tab) -> None:
    table = "/rope?head_dim=64&seq_len=4096&pack=concat"
    compare(tab, table, f"{table}&rope_theta=500000")
    tab.wait_for_map()

    title = tab.page.locator(".curves-title")
    title.get_by_text("the largest in sight: 1.99997").wait_for()
    assert "+1.9998" in tab.page.locator(".scale").inner_text()


def test_a_comparison_begins_at_the_place_on_the_page(tab: Tab) -> None:
    tab.open("/rope?head_dim=128&seq_len=131072&pack=concat")
    tab.wait_for_map()
    tab.page.get_by_label("Go to position").fill("100000")
    tab.page.get_by_label("Go to position").press("Enter")
    tab.wait_for(IS_TOLD, "position 100 000")

    for button in (tab.role("link", "Compare"), tab.role("button", "Compare")):
        button.click()
        tab.page.wait_for_url("**&show=d")

        tab.wait_for_map()
        tab.wait_for(IS_TOLD, "position 100 000")
        tab.page.go_back()
        tab.wait_for_map()


@pytest.mark.parametrize(("role", "name"), [("link", "Table"), ("button", "Stop")])
def test_a_table_after_a_comparison_is_at_its_place(
    role: Literal["link", "button"], name: str, tab: Tab
) -> None:
    place = "at=1000&rows=64&row=1020&ch=7&col=4&cols=16"
    table = ROPE.replace("=64", "=2048")
    tab.open(f"{table}#{place}&vs={quote(f'{table}&rope_theta=500', safe='')}&show=d")
    tab.wait_for_map()
    tab.page.locator(".map canvas").press("ArrowRight")

    tab.role(role, name).click()

    tab.page.wait_for_url(re.compile("#at=[^&]*&rows=64&row=1021&ch=7&col=4&cols=16$"))
    tab.wait_for_map()
    tab.wait_for(IS_TOLD, "position 1 021 channel 7")


def test_a_refused_second_table_is_repaired_in_its_field(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    compare(tab, ALIBI, "hello")
    tab.role("alert").get_by_text("B: ").wait_for()
    field = tab.page.get_by_label("B", exact=True)
    assert field.input_value() == "hello"
    assert tab.page.get_by_text("There is no table to show").count() == 0

    field.fill(f"{ALIBI}&convention=paper")
    field.press("Enter")

    tab.wait_for_map()
    assert tab.role("alert").count() == 0
    tab.expect_refusal(404)
