"""``/encoding/tokens``: the rows of an encoding that a batch of tokens has, padding or not."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from service.delivery.composition import Composition, InputArray
from service.errors import InvalidBody
from service.grammar import Integer
from service.routes.encoding_conventions import ConventionParameters
from service.routes.parameters import RealDType, d_model_field, dtype_field, impossible
from service.tables.angle import MAX_POSITION, Int64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import REAL_DTYPES
from service.tables.table import StoredTable
from service.tables.tokens import ListedPositions, rows_of_tokens, tokens

_MAX_PAST = 2**61


class TokensParameters(ConventionParameters):
    """Parameters of the encoding of tokens."""

    d_model: Integer = d_model_field()
    past: Integer | None = Field(
        default=None,
        ge=0,
        le=_MAX_PAST,
        description="Tokens before the first of input_ids: past_key_values_length; 0 unless given.",
        examples=[0],
    )
    part: Literal["encoding", "position_ids"] | None = Field(
        default=None,
        description="Answer the rows, or their numbers, alone.",
        examples=["encoding"],
    )
    dtype: RealDType = dtype_field()

    def chosen_part(self) -> str | None:
        """Name the one of the two arrays that is wanted alone."""
        return self.part


def _tokens(parameters: TokensParameters, arrays: Mapping[str, StoredTable]) -> Document:
    recipe = parameters.recipe(parameters.d_model)
    padding_idx = recipe.padding_idx
    if padding_idx is None:
        rule = f"convention={parameters.convention} has no padding: fairseq and m2m100 have"
        raise impossible("convention", parameters.convention, rule)
    if len(arrays) != 1:
        raise InvalidBody("send either input_ids or position_ids")
    spelled: dict[str, ParameterValue] = recipe.parameters()
    if "input_ids" in arrays:
        past = parameters.past or 0
        rows = rows_of_tokens(arrays["input_ids"].elements, padding_idx, past)
        if ListedPositions(rows).farthest > MAX_POSITION:
            raise impossible("past", past, "past and padding_idx lead beyond 2^62")
        # Tokens are numbered by the row of padding alone.
        spelled = {**spelled, "past": past}
        del spelled["offset"]
    else:
        if parameters.past is not None:
            raise impossible("past", parameters.past, "past does not go with position_ids")
        rows = _moved(arrays["position_ids"].elements, recipe.offset)
    return tokens(recipe=recipe, spelled=spelled, rows=rows, dtype=REAL_DTYPES[parameters.dtype])


def _moved(positions: Int64s, offset: int) -> Int64s:
    if ListedPositions(positions).farthest > MAX_POSITION - abs(offset):
        raise InvalidBody("position_ids must lie within ±2^62, offset included", "/position_ids")
    return positions + offset


TOKENS = Composition(
    path="/encoding/tokens",
    operation="EncodingTokens",
    summary="The rows of the sinusoidal table that tokens have, padding left out of the count",
    parameters=TokensParameters,
    inputs=(
        InputArray(
            "input_ids",
            "ids of tokens, (batch, length) or (length,), padding among them as padding_idx",
            (1, 2),
            [[5, 7, 9, 1]],
            is_integer=True,
            is_required=False,
        ),
        InputArray(
            "position_ids",
            "positions, (batch, length) or (length,), to which the offset is added",
            (1, 2),
            [[0, 1, 2]],
            is_integer=True,
            is_required=False,
        ),
    ),
    document=_tokens,
    example="convention=fairseq&d_model=4",
)
