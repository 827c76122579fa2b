"""``/relative/conformer``: the sinusoids of differences between frames."""

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource
from service.grammar import Integer, Real
from service.routes.parameters import RealDType, base_field, d_model_field, dtype_field
from service.tables import relative_sines
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_LENGTH


class ConformerParameters(ArrayParameters):
    """Parameters of the sinusoids of Conformer."""

    d_model: Integer = d_model_field(even=True)
    seq_len: Integer = Field(
        ge=1,
        le=MAX_LENGTH,
        description="Number of frames; there are 2·seq_len - 1 rows.",
        examples=[3],
    )
    base: Real = base_field()
    dtype: RealDType = dtype_field()


def _conformer(parameters: ConformerParameters) -> Document:
    return relative_sines.conformer(
        d_model=parameters.d_model,
        base=parameters.base,
        seq_len=parameters.seq_len,
        dtype=REAL_DTYPES[parameters.dtype],
    )


CONFORMER = Resource(
    path="/relative/conformer",
    operation="RelativeConformer",
    summary="The sinusoids of all differences between frames, those to the left first",
    parameters=ConformerParameters,
    document=_conformer,
    example="d_model=4&seq_len=2&base=100",
)
