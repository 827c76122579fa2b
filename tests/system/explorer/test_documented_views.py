"""The pictures of the page in the documents are of the page as it is."""

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from tests.data.draw_pictures import FOLDER
from tests.system.explorer.draw_views import VIEWS, drawn, opened
from tests.system.servers import Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.system

MOST_DIFFERENCE = 8


@pytest.mark.parametrize("name", VIEWS)
def test_documented_views_are_those_of_the_page(
    name: str, browser: "Browser", server: Server
) -> None:
    """Letters differ between machines, maps do not."""
    with opened(browser, server.url("")) as tab:
        expected = Image.open(io.BytesIO(drawn(name, tab))).convert("RGB")
    shown = Image.open(FOLDER / f"{name}.png").convert("RGB")

    difference = np.abs(np.asarray(expected, np.int64) - np.asarray(shown, np.int64))
    assert difference.mean() < MOST_DIFFERENCE
