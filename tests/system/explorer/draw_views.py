"""The pictures of the page in the documents, as Chromium draws it, in few colours to be small.

Run from the root of the repository: ``python -m tests.system.explorer.draw_views`` writes them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from benchmarks.explorer.measure import launched
from tests.data.draw_pictures import FOLDER, reduced
from tests.system.explorer.browser import Tab, context
from tests.system.servers import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_LLAMA3 = (
    "/rope?head_dim=128&seq_len=131072&rope_theta=500000&rope_type=llama3&factor=8"
    "&low_freq_factor=1&high_freq_factor=4&original_max_position_embeddings=8192&pack=concat"
)
VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "view_table": f"{_LLAMA3}#at=0&rows=1400&row=700&ch=22&channels=30",
        "view_compare": f"{_LLAMA3}#vs=%2Frope%3Fhead_dim%3D128%26seq_len%3D131072"
        "%26rope_theta%3D500000%26pack%3Dconcat&show=d&at=0&rows=8192&row=4096&ch=32",
        "view_file": "/#view=file",
    }
)


def drawn(name: str, tab: Tab) -> bytes:
    """Draw the picture of a view in a tab."""
    tab.open(VIEWS[name])
    if name == "view_file":
        tab.page.get_by_role("button", name="Try one with a mistake").click()
        tab.page.get_by_text("Mistake found").wait_for()
    tab.settle()
    picture: bytes = tab.page.screenshot()
    return picture


@contextmanager
def opened(browser: "Browser", origin: str) -> Iterator[Tab]:
    """Open a tab in which the pictures are drawn."""
    with context(browser) as profile:
        yield Tab(profile.new_page(), origin)


def main() -> None:
    """Write the picture of every view."""
    with launched() as browser, running() as server, opened(browser, server.url("")) as tab:
        for name in VIEWS:
            (FOLDER / f"{name}.png").write_bytes(reduced(drawn(name, tab)))


if __name__ == "__main__":
    main()
