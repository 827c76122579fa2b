"""Encodings of batches of tokens, by the rows that a library looks up for each of them."""

from dataclasses import dataclass

import numpy as np

from service.tables.angle import Int64s
from service.tables.axes import AxesTable, Axis
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import INT64, DType
from service.tables.recipe import Recipe, ZeroRow
from service.tables.table import StoredTable, Table


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
