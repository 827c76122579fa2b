"""Every encoding by keyboard alone: chosen, looked at, and read exactly."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.system.explorer.browser import Tab
from tests.system.explorer.numbers import Numbers
from tests.system.servers import Server

pytestmark = pytest.mark.system

CELLS = 100
STEPS = (("ArrowRight", 5), ("ArrowDown", 3), ("ArrowUp", 1))
FAR = "/rope?head_dim=128&seq_len=18014398509481983&rope_theta=500000&pack=concat"
WRITE_MILLISECONDS = 250

CURSOR = """() => {
  const {rows, columns, cursor, source, head} = document.querySelector("main .map").heatmap
  return [String(cursor.row), String(cursor.column), source.head ?? 0, source.description.entry]
}"""
READ = """() => {
  const number = document.querySelector("output code")
  return number && !number.closest(".late") ? number.textContent : null
}"""
ACTIVE = """() => {
  const list = document.querySelector("[role=combobox]").getAttribute("aria-activedescendant")
  return document.getElementById(list)?.dataset.id
}"""
SHOWN_ENTRY = """(id) =>
  document.querySelector("main .map")?.heatmap.source?.description.entry === id"""


def choose(tab: Tab, entry: dict[str, Any]) -> None:
    """Find an entry of the catalogue by its id, and open it."""
    search = tab.role("combobox", "Find an encoding")
    search.focus()
    search.fill("")
    tab.page.keyboard.insert_text(entry["id"].replace(":", " "))
    for _ in range(80):
        if tab.value(ACTIVE) == entry["id"]:
            break
        tab.press("ArrowDown")
    assert tab.value(ACTIVE) == entry["id"]
    tab.press("Enter")


def read(tab: Tab) -> np.float64:
    """Return the number in the readout of what is drawn now."""
    tab.wait_for_map()
    tab.wait_for(READ)
    text = str(tab.value(READ)).replace("\N{MINUS SIGN}", "-")
    return np.float64(text)


def test_every_encoding_opens_by_keyboard_and_reads_as_the_api_says(
    tab: Tab, server: Server
) -> None:
    catalogue = server.get("/catalogue").json()
    entries = [entry for entry in catalogue["entries"] if entry["method"] == "GET"]
    tab.open("/")
    tab.wait_for_map()
    cells, wrong = 0, []
    for entry in entries:
        choose(tab, entry)
        tab.wait_for(SHOWN_ENTRY, entry["id"])
        tab.wait_for_map()
        tab.page.locator("main .map canvas").focus()
        numbers = Numbers(server, entry["example"])
        for key, times in STEPS:
            tab.press(key, times=times)
        shown = read(tab)
        row, column, matrix, _ = tab.value(CURSOR)
        expected = numbers.cell(int(row) + matrix * numbers.rows, int(column))
        cells += 1
        if not np.array_equal(type(expected)(shown), expected, equal_nan=True):
            wrong.append((entry["id"], row, column, shown, expected))

    assert wrong == []
    assert cells >= CELLS
    assert len({entry["path"] for entry in entries}) >= 15


def test_number_beyond_2_to_the_53_is_exact(tab: Tab, server: Server) -> None:
    numbers = Numbers(server, FAR)
    tab.open(FAR)
    tab.wait_for_map()
    tab.page.locator("main .map canvas").focus()

    tab.press("End")
    tab.press("ArrowLeft", times=3)
    tab.press("ArrowDown", times=5)

    shown = read(tab)
    row, column, *_ = tab.value(CURSOR)
    assert int(row) > 2**53
    assert np.float32(shown) == numbers.cell(int(row), int(column))
    label = tab.page.locator("output b").first.inner_text()
    assert int(re.sub(r"\D", "", label)) == int(row)


def test_map_and_form_are_reached_by_tab(tab: Tab) -> None:
    tab.open("/")
    tab.wait_for_map()

    seen = set()
    for _ in range(80):
        tab.press("Tab")
        seen.add(tab.value("() => document.activeElement.getAttribute('aria-label')"
                           " ?? document.activeElement.name ?? ''"))  # fmt: skip
    assert {"Find an encoding", "Request", "head_dim", "Position"} <= seen
    assert any(name.startswith("Heat map") for name in seen)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/resize?convention=vit&old_size=14&size=16", "width_weight"),
        ("/encoding/grid?convention=mae&height=8&width=8&d_model=16", "Image"),
        ("/rope?head_dim=8&seq_len=64&pack=half", "sin"),
        ("/#view=learn", "Scaling"),
    ],
)
def test_focus_stays_on_what_was_chosen(target: str, name: str, tab: Tab) -> None:
    tab.open(target)
    tab.settle()

    tab.role("link" if "learn" in target else "button", name).focus()
    tab.press("Enter")
    tab.settle()

    assert tab.value("() => document.activeElement.textContent") == name


def test_heads_are_counted_by_arrow_keys(tab: Tab) -> None:
    tab.open("/relative/alibi?query_len=16&num_heads=8")
    tab.wait_for_map()
    head = tab.role("spinbutton")
    head.focus()

    for _ in range(2):
        tab.press("ArrowUp")
        tab.settle()

    assert head.input_value() == "2"
    assert "head=2" in tab.page.url


def test_permalink_shows_the_same(tab: Tab, new_tab: Callable[..., Tab]) -> None:
    window = """() => {
      const {rows, columns, cursor} = document.querySelector("main .map").heatmap
      const axis = ({base, span}) => [String(base), Math.round(span)]
      const text = document.querySelector("output").textContent
      return [axis(rows), axis(columns), String(cursor.row), String(cursor.column), text]
    }"""
    tab.open(f"{FAR}#at=4503599627370496&rows=400")
    tab.wait_for_map()
    tab.page.locator("main .map canvas").focus()
    tab.press("ArrowRight", "ArrowDown", times=7)
    tab.press("Shift+ArrowRight", "+", "p")
    read(tab)
    tab.page.wait_for_timeout(WRITE_MILLISECONDS)
    moved = tab.value(window)

    other = new_tab()
    other.open(tab.page.url.removeprefix(tab.origin))
    other.wait_for_map()
    read(other)

    assert other.value(window) == moved
    assert "channels=" in tab.page.url
