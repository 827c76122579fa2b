"""The pictures of the documents are those of the service."""

import io

import numpy as np
import pytest
from PIL import Image

from service.__main__ import find_body
from tests.data.draw_pictures import FOLDER, PICTURES

MOST_BYTES = 100_000
MEASURED = {"load"}


@pytest.mark.full
@pytest.mark.parametrize("name", PICTURES)
def test_documented_pictures_are_the_served_ones(name: str) -> None:
    """Its colours are few, and another machine may set a letter another way."""
    served = Image.open(io.BytesIO(b"".join(find_body(PICTURES[name]).blocks())))
    shown = Image.open(FOLDER / f"{name}.png").convert("RGB")

    difference = np.abs(np.asarray(served, np.int64) - np.asarray(shown, np.int64))
    assert difference.mean() < 4


def test_every_picture_is_small_and_listed() -> None:
    sizes = {path.stem: path.stat().st_size for path in FOLDER.iterdir()}

    assert sizes.keys() == PICTURES.keys() | MEASURED
    assert max(sizes.values()) <= MOST_BYTES
