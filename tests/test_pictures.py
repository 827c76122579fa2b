"""The pictures of the documents are those that the service draws."""

import io

import numpy as np
import pytest
from PIL import Image

from service.local import find_body
from tests.data.draw_pictures import FOLDER, PICTURES

MOST_BYTES = 100_000
MEASURED = {"load"}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_documents_is_what_is_served(name: str) -> None:
    """Its colours are few, and another machine may set a letter another way."""
    served = Image.open(io.BytesIO(b"".join(find_body(PICTURES[name]).blocks())))
    shown = Image.open(FOLDER / f"{name}.png").convert("RGB")

    difference = np.abs(np.asarray(served, np.int64) - np.asarray(shown, np.int64))
    assert difference.mean() < 4


def test_pictures_are_small_and_all_there_are_are_drawn_or_measured() -> None:
    sizes = {path.stem: path.stat().st_size for path in FOLDER.iterdir()}

    assert sizes.keys() == PICTURES.keys() | MEASURED
    assert max(sizes.values()) <= MOST_BYTES
