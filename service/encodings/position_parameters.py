"""The parameters of positions: consecutive, listed, of packed sequences, or sent as an array."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, InstanceOf

from service import grammar
from service.encodings.family import (
    REAL_LIST,
    Integers,
    Parameters,
    Position,
    impossible,
    optional,
    refuse_excluded,
)
from service.encodings.meaning import Selection
from service.errors import InvalidBody
from service.grammar import Integer
from service.numerics.limits import MAX_LENGTH
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import (
    AnyPositions,
    OffsetPositions,
    PositionArray,
    Positions,
    RealPositions,
    Run,
)


def _sent_or_listed(value: Any) -> AnyPositions:
    """Return an array of positions from a body as it is, and parse a list."""
    return value if isinstance(value, PositionArray) else grammar.real_positions(value)


SentPositions = Annotated[
    InstanceOf[Positions] | InstanceOf[RealPositions],
    BeforeValidator(_sent_or_listed),
    REAL_LIST,
]


class FirstParameters(Parameters):
    """The position of the first row."""

    start: Position | None = optional("Position of the first row; 0 unless given.", 0)


class StartParameters(FirstParameters):
    """The positions of an array's rows: consecutive from start on, listed, packed or sent."""

    hints: ClassVar = {
        "seq_len": "leave it out: the rows of the array are the positions",
        "dtype": "leave it out: the answer has the type of the array",
        "x_dtype": "a body of application/octet-stream has dtype, and so has its answer",
    }

    positions: SentPositions | None = optional(
        "Position of each row, integers and half-open ranges, or numbers of which some are "
        "fractions; consecutive from start unless given. A body may have an array of them.",
        "0,5,9:20:2",
    )
    cu_seqlens: Integers | None = optional(
        "The ends of packed sequences, in each of which positions restart at 0; 0 comes first.",
        "0,3,7",
    )
    seqlen_offsets: Integers | None = optional(
        "The first position of each sequence, of a batch or of cu_seqlens.", "0,5"
    )

    def positions_of(self, rows: int) -> AnyPositions:
        """Return the positions that are given, or consecutive ones of ``rows`` rows."""
        positions = self.listed(rows)
        return contiguous(self.start or 0, rows) if positions is None else positions

    def listed(self, length: int | None) -> AnyPositions | None:
        """Return the positions unless they are consecutive ones from start on.

        Raises InvalidParameters unless they are given just once.

        Args:
            length: the length of each sequence of a batch.
        """
        given = ("positions", "cu_seqlens", "seqlen_offsets")
        way = next((name for name in given if getattr(self, name) is not None), None)
        if way is None:
            return None
        others = ("start",) if way == "seqlen_offsets" else ("seq_len", "start")
        refuse_excluded(self, dict.fromkeys(others, way))
        if self.positions is not None:
            refuse_excluded(self, {"seqlen_offsets": "positions"})
            if self.cu_seqlens is not None:
                self._check_sequences(self.positions, self.cu_seqlens)
            return self.positions
        if way == "seqlen_offsets" and length is None:
            raise impossible("seq_len", None, "seq_len is required with seqlen_offsets")
        lengths = self._packed_lengths() if way == "cu_seqlens" else (length or 0,)
        firsts = self.seqlen_offsets or (0,) * len(lengths)
        if way == "cu_seqlens" and len(firsts) != len(lengths):
            rule = f"seqlen_offsets must be {len(lengths)} numbers, one for each of cu_seqlens"
            raise impossible("seqlen_offsets", firsts, rule)
        if min(firsts) < 0 or max(firsts) + max(lengths) > MAX_POSITION:
            rule = "seqlen_offsets must be from 0 on, with positions up to 2^62"
            raise impossible("seqlen_offsets", firsts, rule)
        if way == "seqlen_offsets":
            return OffsetPositions.of(firsts, *lengths)
        runs = zip(firsts, lengths, strict=True)
        return Positions.of_runs(Run(first, 1, count) for first, count in runs if count)

    def _packed_lengths(self) -> tuple[int, ...]:
        """Return the length of each of the sequences of cu_seqlens."""
        ends = self.cu_seqlens or ()
        lengths = tuple(stop - start for start, stop in pairwise(ends))
        if ends[0] != 0 or min(lengths, default=-1) < 0 or not 0 < ends[-1] <= MAX_POSITION:
            rule = "cu_seqlens must begin with 0 and not descend, up to the number of tokens"
            raise impossible("cu_seqlens", ends, rule)
        return lengths

    def _check_sequences(self, positions: AnyPositions, ends: tuple[int, ...]) -> None:
        """Raise InvalidParameters unless positions are consecutive in each sequence."""
        lengths = self._packed_lengths()
        if len(positions.shape) == 3 and (1, ends[-1]) == positions.shape[1:]:
            # Several positions of each token, such as those of pictures, are not consecutive.
            return
        if ends[-1] == positions.count == positions.shape[-1]:
            if isinstance(positions, Positions):
                # Ranges may be too long to write out.
                runs = (
                    Run(int(positions.at(start, start + 1)[0]), 1, length)
                    for start, length in zip(ends, lengths, strict=False)
                    if length
                )
                is_consecutive = positions == Positions.of_runs(runs)
            else:
                breaks = np.flatnonzero(np.diff(positions.at(0, positions.count)) != 1) + 1
                is_consecutive = bool(np.isin(breaks, ends).all())
            if is_consecutive:
                return
        rule = (
            "cu_seqlens must be the ends of sequences of consecutive positions: leave it out "
            "beside others, such as those of pictures, which positions has already"
        )
        raise impossible("cu_seqlens", ends, rule)


class PositionParameters(StartParameters):
    """The positions of a table: seq_len positions from start on, listed, packed or sent."""

    seq_len: Integer | None = optional(
        "Number of positions; required unless positions is given.", 50, ge=1, le=MAX_LENGTH
    )

    def resolved_positions(self, default_seq_len: int | None = None) -> AnyPositions:
        """Return the positions; raises InvalidParameters unless they are given just once."""
        positions = self.listed(self.seq_len)
        if positions is not None:
            return positions
        seq_len = self.seq_len or default_seq_len
        if seq_len is None:
            rule = "seq_len is required, unless positions is given"
            raise impossible("seq_len", None, rule)
        return contiguous(self.start or 0, seq_len)

    def selections(self) -> Mapping[str, Selection]:
        longest = getattr(self, "max_position_embeddings", None)
        positions = self.resolved_positions(longest)
        if len(positions.shape) > 1:
            return super().selections()
        ways = ("seq_len", "start", "cu_seqlens")
        return {**super().selections(), "position": Selection("positions", positions, ways)}


def contiguous(start: int, count: int, name: str = "start") -> Positions:
    """Return ``count`` consecutive positions from ``start`` on.

    Raises InvalidParameters for the parameter ``name`` if the last position exceeds 2^62.
    """
    if start + count - 1 > MAX_POSITION:
        rule = f"the last position, {start + count - 1}, lies beyond 2^62"
        raise impossible(name, start, rule)
    return Positions.contiguous(start, count)


def _plain(axes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of axes, where columns and rows are also called x and y."""
    return tuple({"x": "w", "y": "h"}.get(axis, axis) for axis in axes)


def check_rank(positions: AnyPositions, axes: Sequence[str] = (), hint: str = "") -> None:
    """Raise InvalidBody for a sent array with other axes than rows, or coordinates, then rows.

    Args:
        positions: the positions.
        axes: the names of the axes of coordinates; none if each row has one position.
        hint: what an array with axes of coordinates needs, if there are none.
    """
    if not isinstance(positions, PositionArray):
        return
    shape, count = positions.shape, len(axes)
    if len(positions.names) > 1 and (own := _plain(positions.names)) != _plain(axes):
        rule = f"positions has the axes {','.join(positions.names)}, and the table those of "
        rule += ",".join(axes) or "rows, which have one position each"
        if own == _plain(axes)[1::-1] + _plain(axes)[2:]:
            rule += ": without grid, grid_indexing swaps the first two"
        raise InvalidBody(rule, "/positions", ",".join(positions.names))
    if len(shape) in ((2, 3) if axes else (1, 2)) and (not axes or shape[0] == count):
        return
    rule = "(S,) or (B, S)"
    if axes:
        rule = f"({count}, S) or ({count}, B, S), the axes {', '.join(axes)} first"
    hint = hint if len(shape) == 3 else ""
    if axes and len(shape) == 3 and shape[0] == count + 1:
        hint = ": send positions[1:], without the positions of text"
    elif axes and len(shape) < 3:
        hint = ": send ids that are the same on all axes once for each"
    detail = f"positions has the shape {list(shape)}, and must have {rule}{hint}"
    raise InvalidBody(detail, "/positions", grammar.to_query(shape))
