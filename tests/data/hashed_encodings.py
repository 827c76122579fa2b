"""Encodings of the paper that are hashed."""

from collections.abc import Iterator

from service.encodings.absolute.sinusoidal import SinusoidalEncoding, SinusoidalFrequencies
from service.numerics.dtypes import REAL_DTYPES
from service.numerics.positions import Positions, Run
from service.numerics.tables import Table
from tests.data.hashed_samples import SEQUENCE, of_document, position_parameter, scattered

ABSOLUTE_LAYOUTS = ("interleaved", "concatenated")


def tables() -> Iterator[tuple[str, Table]]:
    """Give the encoding of the paper, and its frequencies."""
    sequences = {
        "512 channels": (512, 10000.0, Positions.contiguous(0, 600)),
        "4 channels, base 100": (4, 100.0, Positions.contiguous(0, 4)),
        "77 channels": (77, 10000.0, SEQUENCE),
        "1 channel": (1, 10000.0, SEQUENCE),
        "from 2^61": (256, 10000.0, Positions.contiguous(2**61, 300)),
        "up to 2^62": (64, 500000.0, Positions.contiguous(2**62 - 299, 300)),
        "across 0": (256, 10000.0, Positions.contiguous(-200, 400)),
        "from -2^62": (33, 1.0, Positions.contiguous(-(2**62), 100)),
        "every -7th": (256, 10000.0, Positions.of_runs([Run(10**12, -7, 400)])),
        "scattered": (130, 10000.0, scattered()),
    }
    for name, (d_model, base, positions) in sequences.items():
        for layout in ABSOLUTE_LAYOUTS:
            for dtype in REAL_DTYPES.values():
                given = {"d_model": d_model, "base": base, "layout": layout, "dtype": dtype.name}
                encoding = SinusoidalEncoding.model_validate(
                    {**given, "positions": position_parameter(positions)}
                )
                yield from of_document(f"{name}, {layout}", encoding.document())
    yield from of_document("512 channels", SinusoidalFrequencies(d_model=512).document())
