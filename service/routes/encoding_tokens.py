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
from service.tables.conventions import CONVENTIONS
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import REAL_DTYPES
from service.tables.recipe import Recipe
from service.tables.table import StoredTable
from service.tables.tokens import ListedPositions, numbers, rows_of_tokens, tokens

_MAX_PAST = 2**61
"""So that no number of tokens that fits into a body leads out of 64 bits."""

_COUNTED = ("offset", "padding_idx")


class TokensParameters(ConventionParameters):
    """Parameters of the encoding of tokens."""

    convention: Literal["fairseq", "m2m100", "xglm", "speech-to-text"] = Field(
        description="Published recipe that has a row of padding; xglm and the others at their "
        "position_ids, the others at their input_ids, too. speech-to-text is m2m100.",
        examples=["fairseq"],
    )
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
    assert recipe.padding_idx is not None
    if len(arrays) != 1:
        raise InvalidBody("send either input_ids or position_ids")
    if "input_ids" in arrays:
        rows, counted = _of_tokens(parameters, arrays["input_ids"].elements, recipe.padding_idx)
    else:
        rows, counted = _of_positions(parameters, arrays["position_ids"].elements, recipe)
    if parameters.part == "position_ids":
        _refuse(parameters, ("dtype", "base", "layout"), "part=position_ids")
        return numbers({"convention": parameters.recipe_name, **counted}, rows)
    channels = {name: value for name, value in recipe.parameters().items() if name not in _COUNTED}
    dtype = REAL_DTYPES[parameters.dtype]
    return tokens(recipe=recipe, spelled={**channels, **counted}, rows=rows, dtype=dtype)


def _of_tokens(
    parameters: TokensParameters, input_ids: Int64s, padding_idx: int
) -> tuple[Int64s, dict[str, ParameterValue]]:
    """Number the rows of tokens, by the row of padding alone."""
    if not CONVENTIONS[parameters.recipe_name].skips_padding:
        rule = f"convention={parameters.convention} does not count tokens: send position_ids"
        raise impossible("convention", parameters.convention, rule)
    _refuse(parameters, ("offset",), "input_ids")
    past = parameters.past or 0
    rows = rows_of_tokens(input_ids, padding_idx, past)
    if ListedPositions(rows).farthest > MAX_POSITION:
        name = "padding_idx" if parameters.past is None else "past"
        raise impossible(name, getattr(parameters, name), f"{name} leads beyond 2^62")
    return rows, {"padding_idx": padding_idx, "past": past}


def _of_positions(
    parameters: TokensParameters, position_ids: Int64s, recipe: Recipe
) -> tuple[Int64s, dict[str, ParameterValue]]:
    """Number the rows of positions."""
    _refuse(parameters, ("past",), "position_ids")
    counted: dict[str, ParameterValue] = {"offset": recipe.offset}
    # What is zero does not show in the numbers.
    if recipe.padding_idx is not None and parameters.part != "position_ids":
        counted["padding_idx"] = recipe.padding_idx
    return _moved(position_ids, recipe.offset), counted


def _refuse(parameters: TokensParameters, names: tuple[str, ...], beside: str) -> None:
    for name in names:
        if name in parameters.model_fields_set:
            value = getattr(parameters, name)
            raise impossible(name, value, f"{name} does not go with {beside}")


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
