"""Arrays that are hashed after they were turned, or something was added to them."""

from collections.abc import Iterator

from service.encodings.absolute.sinusoidal import SinusoidSum
from service.encodings.rotary.angles import SequenceAngles
from service.encodings.rotary.rope import Rotation
from service.numerics.dtypes import REAL_DTYPES
from service.numerics.positions import Positions
from service.numerics.tables import Table
from tests.data.hashed_encodings import ABSOLUTE_LAYOUTS
from tests.data.hashed_rotary import ROTARY
from tests.data.hashed_samples import named, pseudo_random, special


def tables() -> Iterator[tuple[str, Table]]:
    """Give what is made of arrays that were sent, NaN and infinity among them."""
    for dtype in REAL_DTYPES.values():
        x, odd = pseudo_random((2, 3, 100, 70), dtype), special((100, 70), dtype)
        for layout in ("interleaved", "half"):
            for inverse in (False, True):
                turns = SequenceAngles(ROTARY, Positions.contiguous(10**9, 100))
                rotation = Rotation(turns, layout, inverse)
                name = f"{layout}, inverse {inverse}"
                rotated = {"x": rotation.rotated(x), "special values": rotation.rotated(odd)}
                yield from named("rope-apply", name, rotated)
        mixed = Rotation(turns, "interleaved", inverse=False, output_layout="half", rotary_offset=6)
        yield from named("rope-apply", "interleaved to half", {"x": mixed.rotated(x)})
        for layout in ABSOLUTE_LAYOUTS:
            for scale_embeddings in (False, True):
                addition = SinusoidSum.model_validate(
                    {"start": -50, "layout": layout, "scale_embeddings": scale_embeddings}
                )
                name = f"{layout}, scaled {scale_embeddings}"
                total = {"x": addition.apply(x)[0], "special values": addition.apply(odd)[0]}
                yield from named("encoding-apply", name, total)
