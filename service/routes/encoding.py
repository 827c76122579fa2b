"""``/encoding``: the sinusoidal table, its frequencies, and embeddings with it added."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from service.delivery.resource import ArrayParameters, Resource, Transform
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import (
    AbsoluteLayout,
    PositionParameters,
    RealDType,
    StartParameters,
    absolute_layout_field,
    base_field,
    d_model_field,
    dtype_field,
)
from service.tables import sinusoidal
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.table import StoredTable

Convention = Literal["vaswani"]


def _convention_field() -> Convention:
    field: Convention = Field(
        default="vaswani",
        description='Published recipe: "Attention Is All You Need".',
        examples=["vaswani"],
    )
    return field


class EncodingParameters(PositionParameters):
    """Parameters of the sinusoidal table."""

    d_model: Integer = d_model_field()
    base: Real = base_field()
    convention: Convention = _convention_field()
    layout: AbsoluteLayout = absolute_layout_field()
    batch: Boolean = Field(
        default=False, description="Add a leading axis of length 1.", examples=[False]
    )
    dtype: RealDType = dtype_field()


class FrequenciesParameters(ArrayParameters):
    """Parameters of the frequencies."""

    d_model: Integer = d_model_field()
    base: Real = base_field()
    convention: Convention = _convention_field()
    part: Literal["frequency", "wavelength"] | None = Field(
        default=None,
        description="Answer one of the two arrays alone.",
        examples=["wavelength"],
    )

    def chosen_part(self) -> str | None:
        """Name the one of the two arrays that is wanted alone."""
        return self.part


class ApplyParameters(StartParameters):
    """Parameters of an addition to embeddings."""

    base: Real = base_field()
    convention: Convention = _convention_field()
    layout: AbsoluteLayout = absolute_layout_field()
    scale_embeddings: Boolean = Field(
        default=False,
        description="Multiply the embeddings by the square root of d_model first.",
        examples=[False],
    )


def _encoding(parameters: EncodingParameters) -> Document:
    return sinusoidal.encoding(
        d_model=parameters.d_model,
        base=parameters.base,
        positions=parameters.resolved_positions(),
        layout=parameters.layout,
        batch=parameters.batch,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _frequencies(parameters: FrequenciesParameters) -> Document:
    return sinusoidal.frequencies(d_model=parameters.d_model, base=parameters.base)


def _apply(parameters: ApplyParameters, x: StoredTable) -> tuple[StoredTable, Mapping[str, Any]]:
    sum_ = sinusoidal.Sum(
        d_model=x.shape[-1],
        base=parameters.base,
        positions=parameters.positions_of(x.shape[-2]),
        layout=parameters.layout,
        scale_embeddings=parameters.scale_embeddings,
    )
    return sum_.of(x), sum_.parameters()


ENCODING = Resource(
    path="/encoding",
    operation="Encoding",
    summary="The sinusoidal table of positions by channels",
    parameters=EncodingParameters,
    document=_encoding,
    example="seq_len=4&d_model=4&base=100",
)
FREQUENCIES = Resource(
    path="/encoding/frequencies",
    operation="EncodingFrequencies",
    summary="Frequency and wavelength of each pair of channels",
    parameters=FrequenciesParameters,
    document=_frequencies,
    example="d_model=4&base=100",
)
APPLY = Transform(
    path="/encoding/apply",
    operation="EncodingApply",
    summary="Embeddings with the sinusoidal table added: X + P",
    parameters=ApplyParameters,
    kind="encoding-apply",
    apply=_apply,
    example="start=3",
)
