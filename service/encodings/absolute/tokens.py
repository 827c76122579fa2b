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
from service.numerics.tables import (
    Document,
    FormulaTable,
    ParameterValue,
    RunningCount,
    StoredTable,
    Table,
    row_steps,
    size,
)

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
        rows: CountedRows | OffsetRows
        counted: dict[str, ParameterValue]
        if name == "input_ids":
            rows = self._rows_of_tokens(array, padding_idx)
            counted = {"padding_idx": padding_idx, "past": self.past or 0}
        else:
            rows = self._rows_of_positions(array, sinusoids.offset)
            counted = {"offset": sinusoids.offset}

        def row_numbers(places: range, _: range) -> Int64s:
            return rows.at(places.start, places.stop)[:, np.newaxis]

        numbers = FormulaTable(array.shape, INT64, 1, row_numbers)
        if self.part == "position_ids":
            self._refuse("part=position_ids", "dtype", "base", "layout")
            canonical = {"convention": self.convention_name, **counted}
            return self.describe({"position_ids": numbers}, canonical, has_parts=True)
        rule, shape = sinusoids.rule, (*array.shape, sinusoids.width)
        axes = (Axis(rule, rows, tuple(range(rule.count))),)
        table = AxesTable(axes, "exact", sinusoids.channels, self.element_type, shape)
        tables: dict[str, Table] = {
            "encoding": ZeroRow(table, rows, padding_idx, sinusoids.width),
            "position_ids": numbers,
        }
        numbering = ("offset", "padding_idx")
        canonical = {k: v for k, v in sinusoids.canonical.items() if k not in numbering}
        canonical |= counted | {"padding_idx": padding_idx}
        return self.describe(tables, canonical, has_parts=True)

    def _rows_of_tokens(self, input_ids: StoredTable, padding_idx: int) -> "CountedRows":
        if not self.known_convention.skips_padding:
            rule = f"convention={self.convention} does not count tokens: send position_ids"
            raise impossible("convention", self.convention, rule)
        self._refuse("input_ids", "offset")
        rows = CountedRows(RunningCount(input_ids, padding_idx), self.past or 0)
        if rows.farthest > MAX_POSITION:
            name = "padding_idx" if self.past is None else "past"
            raise impossible(name, getattr(self, name), f"{name} makes row numbers exceed 2^62")
        return rows

    def _rows_of_positions(self, position_ids: StoredTable, offset: int) -> "OffsetRows":
        self._refuse("position_ids", "past")
        rows = OffsetRows(position_ids, offset)
        if rows.farthest_position > MAX_POSITION - abs(offset):
            rule = "position_ids plus the offset must be within ±2^62"
            raise InvalidBody(rule, "/position_ids")
        return rows

    def _refuse(self, beside: str, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            # Generated clients send defaults.
            if value != type(self).model_fields[name].default:
                raise impossible(name, value, f"{name} does not go with {beside}")


@dataclass(frozen=True, eq=False)
class CountedRows:
    """The row number of each token; padding has padding_idx, the first token padding_idx + 1.

    Attributes:
        tokens: the count of tokens along the last axis; padding_idx is excluded.
        past: the number of earlier tokens.
    """

    tokens: RunningCount
    past: int

    @property
    def farthest(self) -> int:
        """The largest magnitude, or an upper bound of it that is within ±MAX_POSITION."""
        bound = self.past + self.tokens.source.shape[-1] + abs(self.tokens.excluded)
        if bound <= MAX_POSITION:
            return bound
        steps = row_steps(size(self.tokens.source), 1)
        return max(int(np.abs(self.at(step.start, step.stop)).max()) for step in steps)

    def at(self, start: int, stop: int) -> Int64s:
        counts, is_token = self.tokens.at(start, stop)
        return np.asarray((counts + self.past) * is_token + self.tokens.excluded)


@dataclass(frozen=True, eq=False)
class OffsetRows:
    """The row number of each position in an array: the position plus an offset."""

    positions: StoredTable
    offset: int

    @property
    def farthest_position(self) -> int:
        """The largest magnitude of the positions, without the offset."""
        elements = self.positions.elements
        return max(abs(int(elements.min())), abs(int(elements.max())))

    @property
    def farthest(self) -> int:
        """An upper bound of |row number|."""
        return self.farthest_position + abs(self.offset)

    def at(self, start: int, stop: int) -> Int64s:
        return np.asarray(self.positions.read(start, stop) + self.offset)
