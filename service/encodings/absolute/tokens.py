"""Encodings of batches of tokens, by the rows that a library looks up for each of them.

``/encoding/tokens``: the rows of an encoding that a batch of tokens has, padding or not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from service.delivery.resources import Composition
from service.encodings.absolute.conventions import (
    CONVENTIONS,
    ConventionParameters,
    Recipe,
    ZeroRow,
)
from service.encodings.family import InputArray
from service.encodings.fields import RealDType, d_model_field, dtype_field, impossible
from service.errors import InvalidBody
from service.grammar import Integer
from service.numerics.axes import AxesTable, Axis
from service.numerics.document import Document, ParameterValue
from service.numerics.dtypes import INT64, REAL_DTYPES, DType
from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.tables import StoredTable, Table


@dataclass(frozen=True, eq=False)
class ListedPositions:
    """Positions of rows that exist as an array.

    Attributes:
        values: one for each row, shape (n,).
    """

    values: Int64s

    @property
    def farthest(self) -> int:
        """The largest magnitude of them."""
        return max(abs(int(self.values.min())), abs(int(self.values.max())))

    def at(self, start: int, stop: int) -> Int64s:
        """Give the positions of the rows start to stop, shape (stop - start,)."""
        return self.values[start:stop]


def rows_of_tokens(input_ids: Int64s, padding_idx: int, past: int) -> Int64s:
    """Number the rows of tokens: those that are no padding count on from padding_idx + 1.

    fairseq 0.12.2 ``make_positions``; transformers 5.23.0
    ``create_position_ids_from_input_ids``.

    Args:
        input_ids: any shape; positions run along the last axis.
        padding_idx: the id of padding, and the row that it has.
        past: tokens that came before.
    """
    is_token = input_ids != padding_idx
    counted = np.cumsum(is_token, axis=-1, dtype=np.int64) + past
    rows: Int64s = counted * is_token + padding_idx
    return rows


def tokens(
    *, recipe: Recipe, spelled: dict[str, ParameterValue], rows: Int64s, dtype: DType
) -> Document:
    """Describe the rows of an encoding that tokens have.

    Args:
        recipe: the encoding, whose rows are numbered with the offset.
        spelled: canonical parameters.
        rows: the number of the row of each token, any shape.
        dtype: a real element type.
    """
    listed = ListedPositions(rows.reshape(-1))
    rule, shape = recipe.rule, (*rows.shape, recipe.width)
    axes = (Axis(rule, listed, tuple(range(rule.count))),)
    turning = AxesTable(axes, "exact", recipe.channels, dtype, shape, recipe.scale)
    table: Table = turning
    if recipe.padding_idx is not None:
        table = ZeroRow(turning, listed, recipe.padding_idx)
    arrays = {"encoding": table, "position_ids": StoredTable(rows, INT64)}
    return Document("encoding-tokens", spelled, arrays, has_parts=True)


def numbers(spelled: dict[str, ParameterValue], rows: Int64s) -> Document:
    """Describe the numbers of the rows alone, which know of no channels."""
    arrays = {"position_ids": StoredTable(rows, INT64)}
    return Document("encoding-tokens", spelled, arrays, has_parts=True)


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
