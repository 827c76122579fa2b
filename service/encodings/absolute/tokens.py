"""Encodings of batches of tokens: the sinusoidal row of each token, and its row number."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from service.encodings.absolute.conventions import ConventionParameters, PaddedName, ZeroRow
from service.encodings.family import (
    ChannelCount,
    ComposedFamily,
    InputArray,
    RealDType,
    about,
    impossible,
    optional,
)
from service.errors import InvalidBody
from service.grammar import Integer
from service.numerics.axes import AxesTable, Axis
from service.numerics.dtypes import INT64
from service.numerics.phase import MAX_POSITION, Int64s
from service.numerics.tables import Document, ParameterValue, StoredTable, Table

# Low enough that past plus the number of tokens in a body fits int64.
_MAX_PAST = 2**61


class TokenEncoding(ConventionParameters, ComposedFamily, path="/encoding/tokens"):
    """The sinusoidal rows for the tokens of a batch, and their row numbers.

    The answer has two arrays, the rows (encoding) and their row numbers (position_ids).

    Formula: with input_ids, for conventions that do not count padding (fairseq, m2m100), a token
        has the row (cumsum(id ≠ padding_idx) + past)·(id ≠ padding_idx) + padding_idx of
        ``/encoding``. With position_ids, for all conventions here, it has the row
        position + offset. Row padding_idx is zeros.
    Source: fairseq 0.12.2 ``make_positions``; transformers 5.23.0
        ``create_position_ids_from_input_ids``, which also numbers the learned positions of RoBERTa.
    Bound: that of ``/encoding``.
    Trap: padding on the left does not change rows: the first token has row padding_idx + 1, not 0,
        at any place in the sequence.
    """

    example: ClassVar[str] = "convention=fairseq&d_model=4"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "input_ids",
            "token ids, (batch, length) or (length,); the id padding_idx is padding",
            (1, 2),
            [[5, 7, 9, 1]],
            is_integer=True,
            is_required=False,
        ),
        InputArray(
            "position_ids",
            "positions, (batch, length) or (length,), without the offset",
            (1, 2),
            [[0, 1, 2]],
            is_integer=True,
            is_required=False,
        ),
    )

    convention: PaddedName = about(
        "The convention, one that has a padding row. All accept position_ids; all but xglm accept "
        "input_ids. speech-to-text is another name for m2m100.",
        "fairseq",
    )
    d_model: ChannelCount
    past: Integer | None = optional(
        "Number of tokens before input_ids, past_key_values_length; 0 unless given.",
        0,
        ge=0,
        le=_MAX_PAST,
    )
    part: Literal["encoding", "position_ids"] | None = optional(
        "Return only this array; both unless given.", "encoding"
    )
    dtype: RealDType = "float32"

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        sinusoids = self.sinusoids(self.d_model)
        padding_idx = sinusoids.padding_idx
        assert padding_idx is not None
        if len(arrays) != 1:
            raise InvalidBody("send either input_ids or position_ids")
        ((name, array),) = arrays.items()
        counted: dict[str, ParameterValue]
        if name == "input_ids":
            rows = self._rows_of_tokens(array.elements, padding_idx)
            counted = {"padding_idx": padding_idx, "past": self.past or 0}
        else:
            rows = self._rows_of_positions(array.elements, sinusoids.offset)
            counted = {"offset": sinusoids.offset}
        numbers = StoredTable(rows, INT64)
        if self.part == "position_ids":
            self._refuse("part=position_ids", "dtype", "base", "layout")
            canonical = {"convention": self.convention_name, **counted}
            return self.describe({"position_ids": numbers}, canonical, has_parts=True)
        listed = ListedPositions(rows.reshape(-1))
        rule, shape = sinusoids.rule, (*rows.shape, sinusoids.width)
        axes = (Axis(rule, listed, tuple(range(rule.count))),)
        table = AxesTable(axes, "exact", sinusoids.channels, self.element_type, shape)
        tables: dict[str, Table] = {
            "encoding": ZeroRow(table, listed, padding_idx),
            "position_ids": numbers,
        }
        row_numbers = ("offset", "padding_idx")
        canonical = {k: v for k, v in sinusoids.canonical.items() if k not in row_numbers}
        canonical |= counted | {"padding_idx": padding_idx}
        return self.describe(tables, canonical, has_parts=True)

    def _rows_of_tokens(self, input_ids: Int64s, padding_idx: int) -> Int64s:
        if not self.known_convention.skips_padding:
            rule = f"convention={self.convention} does not count tokens: send position_ids"
            raise impossible("convention", self.convention, rule)
        self._refuse("input_ids", "offset")
        rows = rows_of_tokens(input_ids, padding_idx, self.past or 0)
        if ListedPositions(rows).farthest > MAX_POSITION:
            name = "padding_idx" if self.past is None else "past"
            raise impossible(name, getattr(self, name), f"{name} makes row numbers exceed 2^62")
        return rows

    def _rows_of_positions(self, position_ids: Int64s, offset: int) -> Int64s:
        self._refuse("position_ids", "past")
        if ListedPositions(position_ids).farthest > MAX_POSITION - abs(offset):
            rule = "position_ids plus the offset must be within ±2^62"
            raise InvalidBody(rule, "/position_ids")
        return position_ids + offset

    def _refuse(self, beside: str, *names: str) -> None:
        for name in names:
            if name in self.model_fields_set:
                rule = f"{name} does not go with {beside}"
                raise impossible(name, getattr(self, name), rule)


@dataclass(frozen=True, eq=False)
class ListedPositions:
    """The positions of rows, from an array."""

    values: Int64s

    @property
    def farthest(self) -> int:
        return max(abs(int(self.values.min())), abs(int(self.values.max())))

    def at(self, start: int, stop: int) -> Int64s:
        return self.values[start:stop]


def rows_of_tokens(input_ids: Int64s, padding_idx: int, past: int) -> Int64s:
    """Return the row number of each token; padding has padding_idx, the first padding_idx + 1.

    Args:
        input_ids: token ids of any shape; tokens are counted along the last axis.
        padding_idx: the token id of padding, which is also its row number.
        past: the number of earlier tokens.
    """
    is_token = input_ids != padding_idx
    counted = np.cumsum(is_token, axis=-1, dtype=np.int64) + past
    rows: Int64s = counted * is_token + padding_idx
    return rows
