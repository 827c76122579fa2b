"""What a browser does on the page of a table: requests, bytes, drawing and memory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.processes import BenchmarkFailed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, ViewportSize

EXECUTABLE = Path("/usr/bin/chromium")
SIZE: "ViewportSize" = {"width": 1280, "height": 800}

_MAP = "document.querySelector('main .map')"
_IS_READY = f"() => {_MAP}?.dataset.state === 'ready'"
_LOADED = """() => {
  const all = performance.getEntries().filter(each => each.encodedBodySize !== undefined)
  const [{duration}] = performance.getEntriesByName("first heat map")
  const sent = all.map(({name, encodedBodySize}) => [name, encodedBodySize])
  return {milliseconds: duration, sent}
}"""
_PAN = f"""async (frames) => {{
  const {{heatmap}} = {_MAP}
  const frame = () => new Promise(requestAnimationFrame)
  const milliseconds = []
  heatmap.draw = () => {{
    const begun = performance.now()
    Object.getPrototypeOf(heatmap).draw.call(heatmap)
    milliseconds.push(performance.now() - begun)
  }}
  let unready = 0
  for (let at = 0; at < frames; at += 1) {{
    const {{base, span, offset}} = heatmap.x
    heatmap.x.set(base, span, offset + span * 3 / heatmap.field.clientWidth)
    heatmap.change()
    await frame()
    if ({_MAP}.dataset.state !== "ready") unready += 1
  }}
  delete heatmap.draw
  return {{milliseconds, unready}}
}}"""
_JUMP = f"""async (jumps) => {{
  const {{heatmap}} = {_MAP}
  const frame = () => new Promise(requestAnimationFrame)
  const {{count}} = heatmap.x
  const sizeOf = ({{raw, numbers, canvas}}) => [raw].flat().reduce(
    (sum, each) => sum + (each === numbers ? 0 : each.byteLength),
    (numbers?.byteLength ?? 0) + (canvas ? 4 * canvas.width * canvas.height : 0))
  let bytes = 0
  for (let at = 0; at < jumps; at += 1) {{
    heatmap.x.set(BigInt(at * 7919 + 13) * 104729n % count, 400)
    heatmap.change()
    do await frame()
    while (at % 9 === 8 && {_MAP}.dataset.state === "loading")
    const kept = [...heatmap.tiles.kept.values()]
    bytes = Math.max(bytes, kept.map(sizeOf).reduce((a, b) => a + b))
  }}
  return [bytes, heatmap.tiles.kept.size, {_MAP}.dataset.state]
}}"""


@dataclass(frozen=True)
class Opening:
    """A table in a profile without a cache.

    Attributes:
        seconds: from the navigation to the first heat map.
        own_bytes: of page, scripts, styles and catalogue, as they are sent.
        tiles: number of requests of numbers.
    """

    seconds: float
    own_bytes: int
    tiles: int


@dataclass(frozen=True)
class Panning:
    """Frames of a map that moves.

    Attributes:
        seconds: the time of each drawing.
        unready: number of frames in which a tile was missing.
    """

    seconds: Sequence[float]
    unready: int


@dataclass(frozen=True)
class Jumping:
    """Jumps to windows that no tile shows yet.

    Attributes:
        kept_bytes: of numbers and pictures that the page kept, at most.
        heap_bytes: by how much the heap of scripts grew.
    """

    kept_bytes: int
    heap_bytes: int


@contextmanager
def launched() -> Iterator["Browser"]:
    """Run Chromium without a window."""
    # Only make test-page, make test-system and make explorer install Playwright.
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-quic"]
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=arguments)
        yield browser
        browser.close()


def wait_for_map(page: "Page") -> None:
    """Wait until all that the map shows is there."""
    page.wait_for_function(_IS_READY)


def opening(browser: "Browser", url: str) -> Opening:
    """Open the page of a table with nothing cached."""
    with browser.new_context(viewport=SIZE) as profile:
        page = profile.new_page()
        page.goto(url)
        wait_for_map(page)
        loaded = page.evaluate(_LOADED)
        tiles = [name for name, _ in loaded["sent"] if ".bin?" in name]
        own = [
            size
            for name, size in loaded["sent"]
            if name == url or "/explorer/" in name or name.endswith("/catalogue")
        ]
        if len(own) < 3 or not all(own):
            raise BenchmarkFailed(f"the page was not loaded over the network: {loaded['sent']}")
        return Opening(loaded["milliseconds"] / 1e3, sum(own), len(tiles))


def panning(page: "Page", frames: int) -> Panning:
    """Pan the map of a page by three pixels a frame."""
    wait_for_map(page)
    found = page.evaluate(_PAN, frames)
    return Panning([each / 1e3 for each in found["milliseconds"]], found["unready"])


def jumping(page: "Page", jumps: int) -> Jumping:
    """Jump about on the map of a page; wait for the numbers of each ninth window."""
    wait_for_map(page)
    tools = page.context.new_cdp_session(page)
    before = _heap_bytes(tools)
    kept, count, state = page.evaluate(_JUMP, jumps)
    if state != "ready" or count < 2:
        raise BenchmarkFailed(f"the map is {state} after {jumps} jumps, with {count} tiles")
    return Jumping(kept, _heap_bytes(tools) - before)


def _heap_bytes(tools: Any) -> int:
    tools.send("HeapProfiler.collectGarbage")
    return int(tools.send("Runtime.getHeapUsage")["usedSize"])
