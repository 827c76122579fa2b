"""``/encoding/curves``: chosen dimensions over positions, or chosen positions over dimensions."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from service.delivery.resource import Resource
from service.errors import InvalidParameters
from service.routes.encoding import RowsParameters, encoded_rows
from service.routes.parameters import PositionList, impossible
from service.tables.curves import MAX_CURVES, curves
from service.tables.document import Document
from service.tables.real_positions import RealPositions


def _few(value: Any) -> Any:
    """Refuse a list of more dimensions than are shown before it is read."""
    items = value.count(",") + 1 if isinstance(value, str) else 0
    items = len(value) if isinstance(value, list) else items
    if items > MAX_CURVES:
        raise ValueError(f"names {items} curves or more, and at most {MAX_CURVES} are shown")
    return value


class CurvesParameters(RowsParameters):
    """Parameters of curves of an encoding."""

    dimensions: Annotated[PositionList, BeforeValidator(_few)] | None = Field(
        default=None,
        description="Channels that are a curve over the positions each, integers from 0 on and "
        "half-open ranges; without them, each position is a curve over all channels. At most "
        f"{MAX_CURVES} curves.",
        examples=["4,5,6,7"],
    )


def _curves(parameters: CurvesParameters) -> Document:
    table = encoded_rows(parameters)
    assert table.shape is not None
    rows, width = table.shape
    dimensions = parameters.dimensions
    if dimensions is None:
        if rows > MAX_CURVES:
            raise _too_many_positions(parameters)
        return curves(table, None)
    if dimensions.count > MAX_CURVES:
        rule = f"dimensions names {dimensions.count} curves, and at most {MAX_CURVES} are shown"
        raise impossible("dimensions", str(dimensions), rule)
    ends = [end for run in dimensions.runs for end in (run.first, run.last)]
    if min(ends) < 0 or max(ends) >= width:
        rule = f"dimensions are counted from 0, and here they end with {width - 1}"
        raise impossible("dimensions", str(dimensions), rule)
    return curves(table, dimensions)


def _too_many_positions(parameters: CurvesParameters) -> InvalidParameters:
    rule = f"each position is a curve, and at most {MAX_CURVES} are shown: name dimensions"
    positions = parameters.positions
    if positions is None:
        return impossible("seq_len", parameters.seq_len, rule)
    listed = positions.values if isinstance(positions, RealPositions) else positions
    return impossible("positions", listed, rule)


CURVES = Resource(
    path="/encoding/curves",
    operation="EncodingCurves",
    summary="Chosen dimensions over positions, or positions over dimensions; curves as png",
    parameters=CurvesParameters,
    document=_curves,
    example="seq_len=8&d_model=8&dimensions=4,5,6,7",
)
