"""``/relative/transformer-xl``: the sinusoids of distances, and the shift of scores by them."""

from collections.abc import Mapping

from pydantic import Field

from service.delivery.composition import Composition, InputArray
from service.delivery.parameters import Parameters
from service.delivery.resource import ArrayParameters, Resource
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, Real
from service.routes.parameters import (
    RealDType,
    base_field,
    d_model_field,
    dtype_field,
    impossible,
)
from service.tables import relative_sines, shift
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.limits import MAX_LENGTH
from service.tables.shift import ShiftConvention
from service.tables.table import StoredTable


def relative_key_len_field() -> int:
    """Make the field of the number of keys that relative positions are counted from."""
    field: int = Field(
        ge=1,
        le=MAX_LENGTH,
        description="Number of keys: those of the memory and of the segment.",
        examples=[6],
    )
    return field


def clamp_len_field() -> int:
    """Make the field of the farthest relative position."""
    field: int = Field(
        default=-1,
        ge=-1,
        le=MAX_LENGTH,
        description="Relative positions beyond this one, to either side, are taken for it; none "
        "are unless it is positive.",
        examples=[3],
    )
    return field


class TransformerXLParameters(ArrayParameters):
    """Parameters of the sinusoids of distances."""

    d_model: Integer = d_model_field()
    key_len: Integer = relative_key_len_field()
    clamp_len: Integer = clamp_len_field()
    base: Real = base_field()
    dtype: RealDType = dtype_field()


class ShiftParameters(Parameters):
    """Parameters of a relative shift."""

    convention: ShiftConvention = Field(
        default="transformer-xl",
        description="Whose shift: transformer-xl puts a column of zeros first, xlnet does not, "
        "as its rows of R have one position more.",
        examples=["transformer-xl"],
    )
    zero_triu: Boolean = Field(
        default=False,
        description="With transformer-xl: put zeros where a causal mask hides the key.",
        examples=[False],
    )
    key_len: Integer | None = Field(
        default=None,
        ge=1,
        le=MAX_LENGTH,
        description="With xlnet: how many columns are kept; all that are shifted unless given.",
        examples=[2],
    )


def _transformer_xl(parameters: TransformerXLParameters) -> Document:
    return relative_sines.transformer_xl(
        d_model=parameters.d_model,
        base=parameters.base,
        key_len=parameters.key_len,
        clamp_len=parameters.clamp_len,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _shift(parameters: ShiftParameters, arrays: Mapping[str, StoredTable]) -> Document:
    x = arrays["x"]
    if parameters.convention == "transformer-xl":
        if parameters.key_len is not None:
            rule = "key_len goes with convention=xlnet: transformer-xl keeps all columns"
            raise impossible("key_len", parameters.key_len, rule)
        return shift.transformer_xl(x, zero_triu=parameters.zero_triu)
    if parameters.zero_triu:
        raise impossible("zero_triu", True, "zero_triu goes with convention=transformer-xl")
    kept = x.shape[1] - 1
    if kept < 1:
        raise InvalidBody("x has one column, and xlnet's shift leaves none of it", "/x")
    if (parameters.key_len or kept) > kept:
        rule = f"x has {kept + 1} columns, of which the shift leaves {kept}"
        raise impossible("key_len", parameters.key_len, rule)
    return shift.xlnet(x, key_len=parameters.key_len or kept)


TRANSFORMER_XL = Resource(
    path="/relative/transformer-xl",
    operation="RelativeTransformerXL",
    summary="The sinusoids of the distances to all keys, the farthest first",
    parameters=TransformerXLParameters,
    document=_transformer_xl,
    example="d_model=4&key_len=3&base=100",
)
SHIFT = Composition(
    path="/relative/transformer-xl/shift",
    operation="RelativeTransformerXLShift",
    summary="Scores by relative position moved to the keys they are for",
    parameters=ShiftParameters,
    inputs=(
        InputArray(
            "x",
            "scores by query and row of R, and by batch and head where there are such axes",
            ranks=(2, 3, 4),
            example=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]],
        ),
    ),
    document=_shift,
    example="",
)
