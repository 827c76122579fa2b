"""What moves, stays and can be kept on the page of a table."""

from collections.abc import Callable

import pytest

from tests.system.explorer.browser import Tab
from tests.system.servers import Server

pytestmark = pytest.mark.system

TABLE = "/rope?head_dim=64&seq_len=2000000&pack=concat"
MOST_SHIFT = 0.02
SHIFTS = """window.shifts = []
new PerformanceObserver(list => window.shifts.push(...list.getEntries().map(each => each.value)))
  .observe({type: "layout-shift", buffered: true})"""
KEEP_COPY = """if (navigator.clipboard)
  navigator.clipboard.writeText = async text => { window.copied = text }"""
CURSOR = "() => String(document.querySelector('main .map').heatmap.rows.cursor)"
IN_SIGHT = """() => {
  const {rows} = document.querySelector("main .map").heatmap
  return [String(rows.base), rows.span, String(rows.cursor)].map(Number)
}"""


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("target", ["/", "/#view=learn"])
def test_nothing_jumps_while_a_page_loads(
    target: str, width: int, new_tab: Callable[..., Tab]
) -> None:
    tab = new_tab(viewport={"width": width, "height": 740})
    tab.page.add_init_script(SHIFTS)

    tab.open(target)
    tab.settle()

    assert sum(tab.value("() => window.shifts")) <= MOST_SHIFT


def test_a_curve_is_kept_and_let_go_by_buttons(tab: Tab) -> None:
    tab.open(TABLE)
    tab.wait_for_map()
    keep = tab.page.get_by_role("button", name="Keep")

    keep.click()
    tab.page.locator("main .map canvas").press("ArrowDown")

    kept = tab.page.locator(".curves-title button", has_text="×")
    kept.wait_for()
    kept.click()
    kept.wait_for(state="detached")


def test_a_fourth_curve_does_not_replace_one_that_is_kept(tab: Tab) -> None:
    tab.open(f"{TABLE}#ch=30&channels=1,2,3")
    tab.wait_for_map()

    tab.page.locator("main .map canvas").press("p")

    assert tab.role("button", "3 are kept").is_disabled()
    kept = tab.page.locator(".curves-title button", has_text="×")
    assert kept.all_inner_texts() == ["1 ×", "2 ×", "3 ×"]


def test_a_typed_position_is_gone_to(tab: Tab) -> None:
    tab.open(f"{TABLE}&start=-2000")
    tab.wait_for_map()
    goal = tab.page.get_by_label("Go to position")

    numbers = {
        "1e6": 10**6,
        "2^20+3": 2**20 + 3,
        "7 000": 7000,
        "-2^10": -1024,
        "2^0": 1,
        "−5+1": -4,
    }
    for typed, position in numbers.items():
        goal.fill(typed)
        goal.press("Enter")

        tab.wait_for(f"row => ({CURSOR})() === row", str(position + 2000))


def test_a_position_that_is_not_there_is_refused_with_those_that_are(tab: Tab) -> None:
    tab.open(TABLE)
    tab.wait_for_map()
    goal = tab.page.get_by_label("Go to position")

    goal.fill("2000000")
    goal.press("Enter")

    tab.role("status").get_by_text("1\u2009999\u2009999").wait_for()
    assert goal.get_attribute("aria-invalid") == "true"
    goal.fill("0x10")
    goal.press("Enter")
    assert "No such position" in tab.page.locator(".where").inner_text()
    goal.fill("7")
    goal.press("Enter")
    tab.page.get_by_text("No such position").wait_for(state="hidden")


def test_numbers_in_sight_are_copied_with_their_positions_and_channels(tab: Tab) -> None:
    tab.page.add_init_script(KEEP_COPY)
    tab.open("/rope?head_dim=4&seq_len=64&start=100&pack=concat#at=10&rows=9")
    tab.wait_for_map()

    tab.page.get_by_role("button", name="Copy as").click()
    tab.role("menuitem", "Numbers in sight (CSV)").click()

    tab.wait_for("() => window.copied")
    head, *lines = tab.value("() => window.copied").split("\n")
    assert head == "position,0,1,2,3"
    assert [line.split(",")[0] for line in lines] == [str(each) for each in range(110, 119)]
    assert {len(line.split(",")) for line in lines} == {5}


def test_steps_of_a_temperature_are_in_sight(tab: Tab, server: Server) -> None:
    (entry,) = server.get("/catalogue?entry=attention:temperature:llama4").json()["entries"]
    tab.open(entry["example"])
    tab.wait_for_map()

    low, high = tab.value("() => document.querySelector('main .map').heatmap.seen")
    assert (low, high > 1.2) == (1, True)


def test_the_cursor_goes_with_the_window_by_page_up(tab: Tab) -> None:
    tab.open(TABLE)
    tab.wait_for_map()
    tab.page.locator("main .map canvas").focus()

    tab.press("End")
    tab.press("PageUp")

    base, span, cursor = tab.value(IN_SIGHT)
    assert base <= cursor < base + span


def test_all_of_a_table_without_a_selection_of_rows_is_bounded(tab: Tab) -> None:
    tab.open("/encoding/grid?convention=mae&height=400&width=600&d_model=512")
    tab.wait_for_map()

    tab.page.get_by_role("button", name="Show all").click()
    tab.settle()

    _, span, _ = tab.value(IN_SIGHT)
    assert span < 400 * 600
    assert "at once" in tab.page.locator(".pane-bar .note").inner_text()


def test_wavelengths_count_what_the_frequencies_multiply(tab: Tab) -> None:
    tab.open("/encoding?convention=perceiver&seq_len=64&d_model=513&max_resolution=8")
    tab.wait_for_map()

    tab.page.locator(".readout").get_by_text("coordinates").wait_for()

    assert "positions" not in tab.page.locator(".readout").inner_text()
    assert "coordinates a turn" in tab.page.locator(".wavelengths").inner_text()
