"""What the page may cost: bytes, requests, frames and memory."""

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

import pytest

from benchmarks.explorer.measure import SIZE, jumping, opening, panning
from tests.system.explorer.browser import Tab
from tests.system.servers import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.system

TABLE = "/rope?head_dim=128&rope_theta=500000&pack=concat&seq_len="
FRAMES, JUMPS = 300, 900
MOST_OWN_BYTES, MOST_KEPT_BYTES, MOST_HEAP_BYTES = 80_000, 64_000_000, 10_000_000
MOST_TILES = 10


@pytest.mark.parametrize("length", [131072, 2**53])
def test_first_view_is_small_and_asks_for_few_numbers(
    length: int, browser: "Browser", server: Server, record_property: Callable[[str, object], None]
) -> None:
    opened = opening(browser, server.url(f"{TABLE}{length}"))

    record_property("seconds to the first heat map", opened.seconds)
    assert opened.own_bytes <= MOST_OWN_BYTES
    assert 1 <= opened.tiles <= MOST_TILES


def test_panned_map_has_its_numbers_in_every_frame(
    tab: Tab, record_property: Callable[[str, object], None]
) -> None:
    tab.open(f"{TABLE}1000000")
    tab.settle()

    panned = panning(tab.page, FRAMES)

    record_property("median seconds of drawing", median(panned.seconds))
    assert len(panned.seconds) >= FRAMES
    assert panned.unready == 0


def test_memory_is_bounded_after_many_jumps(tab: Tab) -> None:
    tab.open(f"{TABLE}1000000")

    jumped = jumping(tab.page, JUMPS)

    assert MOST_KEPT_BYTES / 4 < jumped.kept_bytes <= MOST_KEPT_BYTES
    assert jumped.heap_bytes <= MOST_HEAP_BYTES


def test_measured_window_is_that_of_the_tests(tab: Tab) -> None:
    assert tab.page.viewport_size == SIZE
