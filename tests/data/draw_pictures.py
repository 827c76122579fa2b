"""The pictures of the documents, as the service draws them, in few enough colours to be small.

Run from the root of the repository: ``python -m tests.data.draw_pictures`` writes docs/pictures.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from PIL import Image

from service.__main__ import find_body
from tests.data import draw_positions

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
PICTURES: Mapping[str, str] = MappingProxyType(
    {
        "encoding_100x512": "/encoding.png?seq_len=100&d_model=512",
        "grid_14x20": "/encoding/grid.png?convention=mae&height=14&width=20&d_model=64",
        "curves_of_dimensions": "/encoding/curves.png?seq_len=100&d_model=20&dimensions=4,5,6,7",
        "curves_of_positions": "/encoding/curves.png?positions=0,1,10,50&d_model=128"
        "&layout=concatenated",
        "alibi_head_0": "/relative/alibi.png?num_heads=8&head=0&query_len=64&form=symmetric",
        "t5_buckets": "/relative/t5.png?query_len=200",
    }
)

# As many as there can be, and less where that makes too long a file.
_COLOURS = (256, 192, 128)
_MOST_BYTES = 100_000


def served(name: str) -> bytes:
    """Return a picture as the service draws it."""
    if name in PICTURES:
        return b"".join(find_body(PICTURES[name]).blocks())
    return draw_positions.served(name)


def reduced(body: bytes) -> bytes:
    """Return a picture as a PNG file in few enough colours."""
    picture = Image.open(io.BytesIO(body)).convert("RGB")
    sizes = (_quantized(picture, colours) for colours in _COLOURS)
    return next(body for body in sizes if len(body) <= _MOST_BYTES)


def _quantized(picture: Image.Image, colours: int) -> bytes:
    file = io.BytesIO()
    picture.quantize(colours).save(file, "PNG", optimize=True)
    return file.getvalue()


def main() -> None:
    """Write every picture."""
    FOLDER.mkdir(exist_ok=True)
    for name in (*PICTURES, *draw_positions.DRAWN):
        (FOLDER / f"{name}.png").write_bytes(reduced(served(name)))


if __name__ == "__main__":
    main()
