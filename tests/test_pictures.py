"""The pictures of the documents are those of the service."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.data.draw_pictures import FOLDER, PICTURES, served
from tests.data.draw_positions import DRAWN
from tests.system.explorer.draw_views import VIEWS

MOST_BYTES = 100_000
MEASURED = {"growth", "load"}


@pytest.mark.full
@pytest.mark.parametrize("name", [*PICTURES, *DRAWN])
def test_documented_pictures_are_the_served_ones(name: str) -> None:
    """Its colours are few, and another machine may set a letter another way."""
    expected = Image.open(io.BytesIO(served(name)))
    shown = Image.open(FOLDER / f"{name}.png").convert("RGB")

    difference = np.abs(np.asarray(expected.convert("RGB"), np.int64) - np.asarray(shown, np.int64))
    assert difference.mean() < 4


def test_every_picture_is_small_and_listed() -> None:
    sizes = {path.stem: path.stat().st_size for path in FOLDER.iterdir()}

    assert sizes.keys() == PICTURES.keys() | DRAWN.keys() | VIEWS.keys() | MEASURED
    assert max(sizes.values()) <= MOST_BYTES
