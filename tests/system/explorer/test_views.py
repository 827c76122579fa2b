"""Every view: silent, accessible in both themes, and no wider than a small telephone."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pytest

from service.conformance.release import Release
from tests.system.explorer.accessibility import violations
from tests.system.explorer.browser import Tab
from tests.system.processes import run
from tests.system.servers import Server

if TYPE_CHECKING:
    from playwright.sync_api import Route

pytestmark = pytest.mark.system

LLAMA = (
    "/rope?head_dim=128&seq_len=131072&rope_theta=500000&rope_type=llama3&factor=32"
    "&low_freq_factor=1&high_freq_factor=4&original_max_position_embeddings=8192&pack=concat"
)
GO = "url => { history.pushState(null, '', url); dispatchEvent(new Event('popstate')) }"
VIEWS = {
    "home": ("/", 200),
    "table": (f"{LLAMA}#at=4000&rows=2000&row=4200&ch=30&channels=9,30", 200),
    "far": (f"{LLAMA.replace('131072', '9007199254740992')}#at=4503599627370496&rows=400", 200),
    "compare": (f"{LLAMA}#vs={quote(LLAMA.replace('=32', '=8'), safe='')}&show=d", 200),
    "biases": ("/relative/alibi?num_heads=8&query_len=256", 200),
    "buckets": ("/relative/t5?query_len=256", 200),
    "grid": ("/encoding/grid?convention=mae&d_model=64&height=24&width=24", 200),
    "wrong": (LLAMA.replace("head_dim", "head_dmi"), 422),
    "unknown": ("/ropes", 404),
    "model": ("/#view=model", 200),
    "file": ("/#view=file", 200),
    "suite": ("/conformance/", 200),
    "vectors": (f"/conformance/{Release.packaged().version}/rope_default", 200),
    "post": ("/#view=post&entry=encoding/apply", 200),
    **{f"learn {story}": (f"/#view=learn&story={story}&step=3", 200)
       for story in ("positions", "scaling", "layout")},
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_view_is_silent_accessible_and_fits(name: str, new_tab: Callable[..., Tab]) -> None:
    target, status = VIEWS[name]
    tab = new_tab(reduced_motion="reduce", color_scheme="light")

    assert tab.open(target) == status

    tab.settle()
    assert violations(tab) == []
    tab.page.emulate_media(color_scheme="dark")
    tab.settle()
    assert violations(tab) == []
    tab.page.set_viewport_size({"width": 360, "height": 740})
    tab.settle()
    assert violations(tab) == []
    assert tab.value("() => document.documentElement.scrollWidth - innerWidth") == 0
    if status != 200:
        tab.expect_refusal(status)


def test_link_of_a_fault_leads_to_the_repaired_table(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    assert tab.open(VIEWS["wrong"][0]) == 422

    tab.role("alert").get_by_role("link").click()

    tab.wait_for_map()
    assert tab.page.url.partition("#")[0] == tab.origin + LLAMA
    assert tab.role("alert").count() == 0
    tab.expect_refusal(422)


def test_a_fault_of_the_second_table_is_repaired_in_the_comparison(
    new_tab: Callable[..., Tab],
) -> None:
    tab = new_tab()
    wrong = quote("/rope?head_dim=64&seq_len=64&pack=concatt", safe="")
    tab.open(f"/rope?head_dim=64&seq_len=64&pack=concat#vs={wrong}&show=d")
    tab.role("alert").wait_for()

    assert tab.page.locator("aside .wrong").count() == 0
    tab.role("alert").get_by_role("link").click()

    tab.wait_for_map()
    assert tab.page.get_by_label("B", exact=True).input_value().endswith("pack=concat")
    tab.expect_refusal(422)


def test_numbers_of_an_image_are_not_copied_as_those_of_rows(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.open("/encoding/grid?convention=mae&height=8&width=8&d_model=16#image=0")
    tab.wait_for_map()

    tab.page.get_by_role("button", name="Copy as").click()
    tab.page.get_by_role("menuitem", name="Numbers in sight").click()

    tab.role("alert").wait_for()
    assert "show the rows" in tab.role("alert").inner_text()


def test_columns_of_a_grid_that_is_numbered_by_columns_run_along_x(tab: Tab) -> None:
    read = """() => {
      const {heatmap} = document.querySelector("main .map")
      const numbers = [...heatmap.source.numbers]
      return [heatmap.x.labels.axis, Number(heatmap.x.count), numbers]
    }"""
    query = "height=8&width=12&d_model=16"
    tab.open(f"/encoding/grid?convention=moco-v3&{query}#image=5")
    tab.wait_for_map()
    along, count, numbers = tab.value(read)
    tab.open(f"/encoding/grid?convention=mae&{query}#image=5")
    tab.wait_for_map()

    by_rows = np.array(tab.value(read)[2]).reshape(8, 12)
    assert (along, count) == ("column", 12)
    np.testing.assert_array_equal(np.array(numbers).reshape(12, 8), by_rows.T)


def test_every_array_of_a_table_can_be_chosen(tab: Tab, server: Server) -> None:
    table = "/resize?convention=vit&old_size=14&size=16"
    tab.open(table)
    tab.wait_for_map()

    tab.role("button", "width_weight").click()

    tab.wait_for_map()
    told = tab.value("() => [...document.querySelector('main .map').heatmap.inSight[0][0].numbers]")
    np.testing.assert_array_equal(
        np.reshape(told, (16, 4)), server.get(table).json()["data"]["width_weight"]
    )


def test_arrays_of_other_shapes_are_a_click_away(tab: Tab) -> None:
    tab.open("/resize?old_size=37,37&size=24,32&convention=dino")
    tab.wait_for_map()
    assert tab.role("heading", "24 × 4, 32 × 4").count() == 1

    tab.role("link", "width_weight").click()

    tab.page.wait_for_url("**part=width_weight*")
    tab.role("heading", "32 × 4").wait_for()


@pytest.mark.parametrize("path", ["/rope/config", "/identify", "/diagnose", "/model"])
def test_url_that_takes_a_post_says_what_it_takes(path: str, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    assert tab.open(path) == 405

    program = tab.page.locator("main pre").inner_text()
    assert json.loads(run("sh", "-c", f"{program} --silent --noproxy '*'"))
    assert violations(tab) == []
    tab.page.locator("main").get_by_role("link", name="/#view=").click()

    tab.role("button", "Open a file").first.wait_for()
    assert tab.role("alert").count() == 0
    tab.expect_refusal(405)


def test_documentation_of_an_encoding_is_shown_when_it_is_opened(
    new_tab: Callable[..., Tab], server: Server
) -> None:
    tab = new_tab()
    tab.open(LLAMA)
    tab.wait_for_map()
    about = tab.page.locator("details.about")

    about.locator("summary").click()

    about.locator("h3").first.wait_for()
    (entry,) = server.get("/catalogue?entry=rope:llama3").json()["entries"]
    shown = about.locator("p").all_text_contents()
    assert [entry["summary"], *entry["docs"].values()] == shown


def test_numbers_to_copy_say_at_which_stride_they_are(tab: Tab) -> None:
    tab.open(LLAMA)
    tab.wait_for_map()

    tab.page.get_by_role("button", name="Copy as").click()

    tab.role("menuitem", "Numbers in sight (CSV), one position in 3").wait_for()


def test_paper_has_the_whole_address_and_no_controls(tab: Tab) -> None:
    tab.open(LLAMA)
    tab.wait_for_map()

    tab.page.emulate_media(media="print")
    tab.value("() => dispatchEvent(new Event('beforeprint'))")

    assert LLAMA in tab.page.locator(".address").inner_text()
    assert tab.page.locator("main .map canvas").is_visible()
    controls = "header, aside, .request, main button"
    assert not any(each.is_visible() for each in tab.page.locator(controls).all())


def test_table_of_channels_fits_a_telephone(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(viewport={"width": 360, "height": 740})
    tab.open("/#view=learn&story=layout&step=2")
    numbers = tab.page.locator(".learn .numbers")
    numbers.wait_for()

    assert numbers.evaluate("each => each.scrollWidth - each.clientWidth") == 0
    assert numbers.evaluate("each => each.scrollHeight - each.clientHeight") <= 0


SHOWN = """() => {
  const {scale, isIndex} = document.querySelector("main .map").heatmap
  return [scale.kind, isIndex, document.querySelector(".legend").hidden]
}"""


def test_channels_that_do_not_turn_have_infinite_wavelengths(tab: Tab) -> None:
    proportional = "rope_type=proportional&head_dim=512&partial_rotary_factor=0.25&seq_len=64"
    tab.open(f"/rope?{proportional}#row=5&ch=468")
    tab.wait_for_map()

    tab.page.locator(".readout", has_text="λ ∞ positions").wait_for()
    tab.role("img", "Wavelength of each pair, from 6.283 to ∞ positions").wait_for()


@pytest.mark.parametrize("length", [8, 512])
def test_indices_on_both_sides_of_0_have_an_order(length: int, tab: Tab) -> None:
    tab.open(f"/relative/deberta?query_len={length}&key_len={length}")
    tab.wait_for_map()
    assert tab.value(SHOWN) == ["signed", False, True]

    tab.open("/relative/t5?query_len=64")
    tab.wait_for_map()
    assert tab.value(SHOWN) == ["index", True, False]


def test_indices_of_unknown_range_have_an_order_where_some_are_negative(tab: Tab) -> None:
    def forget(route: "Route") -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "value_range": None})

    tab.page.route("**/describe?*", forget)
    tab.open("/relative/t5?query_len=64")
    tab.wait_for_map()
    tab.value(GO, "/relative/deberta?query_len=64")

    tab.wait_for("() => document.querySelector('main .map').heatmap.scale?.kind === 'signed'")
    tab.wait_for_map()
    assert tab.value(SHOWN) == ["signed", False, True]


def test_one_number_has_no_place(tab: Tab) -> None:
    tab.open("/rope/frequencies?head_dim=128&part=attention_factor")
    tab.wait_for_map()

    assert tab.page.locator("h1").inner_text() == "one number"
    assert tab.page.locator(".readout").inner_text().strip() == "1"
    assert tab.page.get_by_label("Go to").is_hidden()
    tab.open("/relative?d_model=32&offset=1")
    tab.wait_for_map()
    tab.page.get_by_label("Go to channel").wait_for()
