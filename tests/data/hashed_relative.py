"""Tables of offsets inside the encoding that are hashed."""

from collections.abc import Iterator

from service.encodings.relative import operator as relative
from service.numerics.dtypes import REAL_DTYPES
from service.numerics.positions import Positions, Run
from service.numerics.tables import Table
from tests.data.hashed_encodings import ABSOLUTE_LAYOUTS
from tests.data.hashed_samples import named, scattered


def tables() -> Iterator[tuple[str, Table]]:
    """Give operators and similarities of offsets."""
    offsets = Positions.of_runs([Run(-5, 1, 11), Run(2**61, 1, 3), Run(-(10**15), 0, 1)])
    for dtype in REAL_DTYPES.values():
        for layout in ABSOLUTE_LAYOUTS:
            document = relative.operator(
                d_model=46,
                base=10000.0,
                offsets=offsets,
                stacked=True,
                layout=layout,
                dtype=dtype,
            )
            yield from named("relative", f"46 channels, {layout}", document.arrays)
        for d_model in (512, 94):
            document = relative.similarity(
                d_model=d_model, base=10000.0, offsets=scattered(), dtype=dtype
            )
            yield from named("relative-similarity", f"{d_model} channels", document.arrays)
