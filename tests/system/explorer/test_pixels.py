"""The heat map has the colour of each number where the number belongs."""

from typing import Any

import numpy as np
import pytest

from tests.system.explorer.browser import Tab
from tests.system.explorer.numbers import Numbers
from tests.system.servers import Server

pytestmark = pytest.mark.system

ROPE = "/rope?head_dim=128&seq_len=9007199254740992&rope_theta=500000&pack=concat"
WINDOWS = {
    "near": (f"{ROPE}#at=1000&rows=160", 1000, [-1, 1]),
    "far": (f"{ROPE}#at=4503599627370496&rows=160", 2**52, [-1, 1]),
    "chosen channels": (f"{ROPE}&channels=90:10:-1#at=1000&rows=160", 1000, [-1, 1]),
    "descending": (
        "/rope?head_dim=128&positions=5000:0:-3&pack=concat#at=1000&rows=160",
        1000,
        [-1, 1],
    ),
    "biases": ("/relative/alibi?num_heads=8&query_len=128#at=0&rows=100&col=0&cols=100", 0, None),
    "fewer keys": ("/relative/fire?query_len=128&key_len=90#at=0&rows=100&col=0&cols=90", 0, None),
    "buckets": ("/relative/t5?query_len=128#at=0&rows=100&col=0&cols=100", 0, None),
}
CELLS = 2000
SMALLEST_PIXELS = 3

COLOURS = """async ({numbers, first}) => {
  const {heatmap} = document.querySelector("main .map")
  const modules = document.querySelector("script[type=module]").src
  const {Scale} = await import(new URL("colours.js", modules).href)
  const {kind, low, high} = heatmap.scale
  const {colours} = new Scale(kind, low, high)
  const last = colours.length - 2
  const stepOf = (number) => {
    if (number === null) return last + 1
    if (kind === "index") return number
    return Math.round(last * Math.min(Math.max((number - low) / (high - low), 0), 1))
  }
  const [box] = heatmap.boxes()
  const {width, height} = heatmap.canvas
  const {data} = heatmap.canvas.getContext("2d").getImageData(0, 0, width, height)
  const {rows, columns, cursor, isUpright} = heatmap
  const place = (axis, at) => (Number(BigInt(at) - axis.base) + 0.5 - axis.offset) / axis.span
  const wrong = []
  let cells = 0
  numbers.forEach((line, at) => line.forEach((number, column) => {
    const row = BigInt(first) + BigInt(at)
    if (row === cursor.row || BigInt(column) === cursor.column) return
    const along = place(rows, row), across = place(columns, column)
    if (along < 0 || along >= 1 || across < 0 || across >= 1) return
    const [x, y] = isUpright ? [along, across] : [across, along]
    const [left, top] = [box.left + x * box.width, box.top + y * box.height].map(Math.floor)
    const pixel = [...data.subarray(4 * (top * width + left)).subarray(0, 3)]
    const step = stepOf(number)
    const near = kind === "index" ? [step] : [step - 1, step, step + 1]
    const expected = near.map(each => colours[each]).filter(Boolean)
    cells += 1
    if (!expected.some(colour => colour.every((part, each) => part === pixel[each])))
      wrong.push([String(row), column, number, pixel, colours[step]])
  }))
  const size = [box.width / heatmap.x.span, box.height / heatmap.y.span]
  return {cells, wrong: wrong.length, examples: wrong.slice(0, 5), low, high, size}
}"""


INDICES_OF_BAR = """() => {
  const {colours} = document.querySelector("main .map").heatmap.scale
  const {data} = document.querySelector(".scale canvas").getContext("2d").getImageData(0, 0, 96, 1)
  const each = at => data.subarray(4 * at, 4 * at + 3).join()
  return Array.from({length: 96}, (_, at) => colours.findIndex(own => own.join() === each(at)))
}"""


@pytest.mark.parametrize("name", WINDOWS)
def test_pixels_have_the_colours_of_the_numbers(name: str, tab: Tab, server: Server) -> None:
    target, first, scale = WINDOWS[name]
    numbers = Numbers(server, target.partition("#")[0])
    tab.page.set_viewport_size({"width": 1280, "height": 900})

    tab.open(target)
    tab.wait_for_map()

    rows = numbers.row(first, 100).astype(float)
    found: Any = tab.value(COLOURS, {"numbers": cleaned(rows), "first": str(first)})
    assert found["wrong"] == 0, found
    assert found["cells"] >= CELLS
    assert min(found["size"]) >= SMALLEST_PIXELS
    assert scale is None or [found["low"], found["high"]] == scale


def cleaned(rows: np.ndarray[Any, Any]) -> list[list[float | None]]:
    """Return numbers as JSON has them."""
    return [[float(each) if np.isfinite(each) else None for each in row] for row in rows]


def test_every_colour_under_a_picture_of_indices_is_that_of_an_index(tab: Tab) -> None:
    tab.open("/relative/t5?query_len=600&key_len=600")
    tab.wait_for_map()

    indices: list[int] = tab.value(INDICES_OF_BAR)

    assert indices == [round(31 * at / 95) for at in range(96)]


def test_answer_that_is_cut_off_is_no_picture(tab: Tab) -> None:
    tab.page.route("**/*.bin?*", lambda route: route.fulfill(body=bytes(32)))

    tab.open("/rope?head_dim=8&seq_len=64&pack=concat")

    tab.page.get_by_text("The answer is cut off").wait_for()
    assert tab.page.locator("main .map").get_attribute("data-state") == "failed"
