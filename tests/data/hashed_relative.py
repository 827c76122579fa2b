"""Tables of offsets inside the encoding that are hashed."""

from collections.abc import Iterator
from typing import Any

from service.encodings.relative.operator import ShiftOperator, Similarity
from service.numerics.dtypes import REAL_DTYPES
from service.numerics.positions import Positions, Run
from service.numerics.tables import Table
from tests.data.hashed_encodings import ABSOLUTE_LAYOUTS
from tests.data.hashed_samples import of_family, scattered


def tables() -> Iterator[tuple[str, Table]]:
    """Give operators and similarities of offsets."""
    offsets = Positions.of_runs([Run(-5, 1, 11), Run(2**61, 1, 3), Run(-(10**15), 0, 1)])
    for dtype in REAL_DTYPES:
        for layout in ABSOLUTE_LAYOUTS:
            values: dict[str, Any] = {"d_model": 46, "offsets": offsets, "layout": layout}
            values["dtype"] = dtype
            family = ShiftOperator.model_construct(**values)
            yield from of_family(f"46 channels, {layout}", family)
        for d_model in (512, 94):
            values = {"d_model": d_model, "offsets": scattered(), "dtype": dtype}
            yield from of_family(f"{d_model} channels", Similarity.model_construct(**values))
