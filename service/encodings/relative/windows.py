"""Relative positions within a window or a sequence, as indices or as coordinates.

An index (Swin, BEiT) names a row of a learned table of biases; coordinates (Swin V2, timm,
x-transformers) are the input of a learned network that computes biases.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import cache, partial
from typing import Annotated, ClassVar, Literal

import numpy as np

from service.encodings.family import (
    ChannelTable,
    IndexDType,
    InputArray,
    Integers,
    RealDType,
    TableFamily,
    about,
    impossible,
    optional,
)
from service.encodings.meaning import Meaning, Selection
from service.encodings.relative.distance import GatheredBias, check_fits, wrong_rows
from service.grammar import Boolean, Integer, to_query
from service.numerics.double_double import (
    DoubleDouble,
    evaluate_integers,
    fast_two_sum,
    from_decimal,
    from_integers,
    ln_1p,
    multiply,
    two_product,
)
from service.numerics.dtypes import Elements, may_overflow
from service.numerics.limits import MAX_LENGTH
from service.numerics.phase import Float64s, Int64s, exact_context
from service.numerics.positions import Positions
from service.numerics.tables import (
    ELEMENT_SECONDS,
    Curves,
    Document,
    FormulaTable,
    ParameterValue,
    StoredTable,
    Table,
)

_MAX_TOKENS = 2**31 - 1

_WindowSize = Annotated[
    Integers, about("Height and width of the window, in tokens.", "2,3", min_length=2, max_length=2)
]


class Swin(TableFamily, path="/relative/swin"):
    """The index of the relative position of every query and key in a window: (query, key).

    Formula: (dy + h − 1)·(2w − 1) + (dx + w − 1), one of N = (2h − 1)·(2w − 1) indices, for a
        window of h rows and w columns; tokens are numbered row by row, and the query lies dy rows
        below and dx columns to the right of the key. A class token comes first and has three
        further indices: N if it is the query, N + 1 if it is the key, N + 2 if it is both.
    Source: "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows" (Liu et al.
        2021), ``relative_position_index``; BEiT (Bao et al. 2021) for the class token, transformers
        5.23.0 ``BeitRelativePositionBias``; timm 1.0.31 ``gen_relative_position_index``.
    Bound: exact integers.
    Trap: the factor of the row distance is 2w − 1, with the width w: with the height in its place
        only square windows are right. Distances are query − key: with the other sign every index i
        is N − 1 − i.
    """

    example: ClassVar[str] = "window_size=2,3"
    array: ClassVar[str] = "index"
    axes: ClassVar[tuple[str, ...]] = ("query", "key")

    window_size: _WindowSize
    class_token: Boolean = about(
        "Whether a class token precedes the tokens of the window, as in BEiT.",
        True,
        default=False,
    )
    dtype: IndexDType = "int32"

    @property
    def height(self) -> int:
        return self.window_size[0]

    @property
    def width(self) -> int:
        return self.window_size[1]

    @property
    def tokens(self) -> int:
        """The number of tokens of the window, including the class token."""
        return self.height * self.width + self.class_token

    @property
    def between_tokens(self) -> int:
        """N, the number of relative positions without a class token."""
        return (2 * self.height - 1) * (2 * self.width - 1)

    @property
    def count(self) -> int:
        """The number of indices, which is the number of rows of a bias table."""
        return self.between_tokens + (3 if self.class_token else 0)

    def check_window(self) -> None:
        """Raise InvalidParameters unless the window has from 1 to 2^31 − 1 tokens."""
        if min(self.window_size) < 1 or self.height * self.width > _MAX_TOKENS:
            rule = (
                "window_size must be two numbers of 1 or more, whose product is at most "
                f"{_MAX_TOKENS}"
            )
            raise impossible("window_size", self.window_size, rule)

    def table(self) -> Table:
        self.check_window()
        check_fits(self.element_type, self.count - 1)
        shape = (self.tokens, self.tokens)
        return FormulaTable(shape, self.element_type, self.tokens, self.numbers)

    def meaning(self) -> Meaning:
        return Meaning(value_range=(0, self.count - 1))

    def numbers(self, queries: range, keys: range) -> Int64s:
        """Return the indices for consecutive queries and keys, (queries, keys)."""
        centre = (self.height - 1) * (2 * self.width - 1) + self.width - 1
        rows = self._unrolled(queries)[:, np.newaxis] + np.int64(centre)
        numbers = rows - self._unrolled(keys)
        if self.class_token:
            # Token 0 is the class token.
            first_query, first_key = int(queries.start == 0), int(keys.start == 0)
            numbers[:first_query] = self.between_tokens
            numbers[:, :first_key] = self.between_tokens + 1
            numbers[:first_query, :first_key] = self.between_tokens + 2
        return np.asarray(numbers)

    def _unrolled(self, tokens: range) -> Int64s:
        """Return row·(2w − 1) + column of tokens: the difference of two is a relative position."""
        number = np.arange(tokens.start, tokens.stop, dtype=np.int64) - self.class_token
        row, column = np.divmod(number, self.width)
        return np.asarray(row * (2 * self.width - 1) + column)


class SwinBias(GatheredBias, path="/relative/swin/bias"):
    """The bias for every head, query and key in a window, from a learned table.

    Formula: weight[index, head], with the index that ``/relative/swin`` has for query and key.
    Source: see ``/relative/swin``; Swin-Transformer f82860b ``WindowAttention``,
        ``relative_position_bias_table``; timm 1.0.31 ``RelPosBias``.
    Bound: exact; elements are copied.
    Trap: a table with 3 rows more than (2h − 1)·(2w − 1) has a class token. To use the table of
        another window size, interpolate it to the new size; do not cut it.
    """

    example: ClassVar[str] = "window_size=1,2&head=0"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "weight",
            "the learned table, ((2·height - 1)·(2·width - 1), heads), with 3 further rows for a "
            "class token",
            ranks=(2,),
            example=[[0.5, -1.0], [0.25, -2.0], [1.5, 3.0]],
        ),
    )

    window_size: _WindowSize
    class_token: Boolean | None = optional(
        "Whether a class token precedes the tokens of the window; the number of rows of weight "
        "decides unless given.",
        False,
    )

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        weight = arrays["weight"]
        allowed = (False, True) if self.class_token is None else (self.class_token,)
        windows = [Swin.like(self, class_token=has, dtype="int64") for has in allowed]
        windows[0].check_window()
        for window in windows:
            if weight.shape[0] == window.count:
                return self.gathered(weight, window)
        counts = " or ".join(
            f"{window.count} {'with' if window.class_token else 'without'} a class token"
            for window in windows
        )
        rule = f"{counts} for window_size={to_query(self.window_size)}"
        raise wrong_rows(weight.shape[0], rule)


_NORM = 8
_MAX_SIDE = 2**30


class SwinV2(TableFamily, path="/relative/swin-v2"):
    """Logarithms of every relative position in a window: (2h − 1, 2w − 1, 2), first y, then x.

    Formula: sign(d)·log2(1 + |8d/(W − 1)|)/log2 8 for a distance d along a side of the window,
        where W is the length of that side, or of the side of pretrained_window_size;
        sign(d)·ln(1 + |d|) with mode=cr.
    Source: "Swin Transformer V2" (Liu et al. 2022), §3.3, with the published normalization:
        Swin-Transformer f82860b ``WindowAttention``; timm 1.0.31 ``gen_relative_log_coords``, whose
        mode "cr" is the other formula.
    Bound: 1.1·2^-53 relative: quotients and products are within 2^-101, the logarithm within 2^-58,
        and the result is rounded once.
    Trap: W is the window size of pretraining: a model that is fine-tuned with another window and
        without pretrained_window_size gets other coordinates. A window one patch wide divides by
        zero (NaN in the libraries; refused here).
    """

    example: ClassVar[str] = "window_size=4,4&axis=y"
    array: ClassVar[str] = "coordinates"

    window_size: Integers = about(
        "Height and width of the window, in patches.", "8,8", min_length=2, max_length=2
    )
    mode: Literal["swin", "cr"] = about(
        "swin: sign(d)·log2(1 + |8d/(W - 1)|)/log2 8; cr: sign(d)·ln(1 + |d|).",
        "cr",
        default="swin",
    )
    pretrained_window_size: Integers | None = optional(
        "Height and width of the window of pretraining, in patches, which normalize the distances; "
        "window_size unless given, or if 0,0.",
        "12,12",
        min_length=2,
        max_length=2,
    )
    axis: Literal["y", "x"] | None = optional(
        "Return one coordinate, of shape (2h - 1, 2w - 1); both unless given, y first.", "y"
    )
    dtype: RealDType = "float32"

    def removable_axes(self) -> Mapping[str, str]:
        return {"coordinate": "add axis=y"}

    @property
    def axes(self) -> tuple[str, ...]:
        return ("dy", "dx", "coordinate") if self.axis is None else ("dy", "dx")

    @property
    def places(self) -> Mapping[str, Positions]:
        height, width = self.window_size
        return {"dy": _differences(height), "dx": _differences(width)}

    def selections(self) -> Mapping[str, Selection]:
        return {"coordinate": Selection("axis", ("y", "x"))}

    def normalized_by(self) -> tuple[int | None, ...]:
        """Return the W of each axis, None with mode=cr; raises InvalidParameters."""
        is_own = self.pretrained_window_size in {None, (0, 0)}
        name = "window_size" if is_own else "pretrained_window_size"
        sides: tuple[int, ...] = getattr(self, name)
        if self.mode == "cr":
            if not is_own:
                rule = f"{name} does not go with mode=cr, which does not normalize distances"
                raise impossible(name, sides, rule)
            return None, None
        if not all(2 <= side <= _MAX_SIDE for side in sides):
            rule = f"{name} must be at least 2,2: distances are divided by each side minus 1"
            raise impossible(name, sides, rule)
        return sides

    def table(self) -> Table:
        if not all(1 <= side <= _MAX_SIDE for side in self.window_size):
            rule = f"window_size must be two numbers, 1 to {_MAX_SIDE}"
            raise impossible("window_size", self.window_size, rule)
        sides = self.normalized_by()
        height, width = (2 * side - 1 for side in self.window_size)
        coordinates = 2 if self.axis is None else 1

        def evaluate(rows: range, _: range) -> Float64s:
            """Return some elements of the flattened table (dy, dx, coordinate)."""
            place, axis = np.divmod(np.arange(rows.start, rows.stop, dtype=np.int64), coordinates)
            if self.axis is not None:
                axis += "yx".index(self.axis)
            values = np.empty((len(rows), 1))
            for which, indices in enumerate(np.divmod(place, width)):
                is_own = axis == which
                distances = indices[is_own] - (self.window_size[which] - 1)
                values[is_own, 0] = log_distances(distances, sides[which])
            return values

        shape = (height, width, coordinates)[: len(self.axes)]
        return FormulaTable(
            shape, self.element_type, 1, evaluate, element_seconds=30 * ELEMENT_SECONDS
        )

    def canonical(self) -> dict[str, ParameterValue]:
        parameters = super().canonical()
        if self.pretrained_window_size in {(0, 0), self.window_size}:
            del parameters["pretrained_window_size"]
        return parameters


class DynamicDistances(ChannelTable, path="/relative/dynamic"):
    """The distances −(n − 1) … n − 1 in a sequence of n, or their logarithms: (2n − 1, 1).

    Formula: d = query − key, or sign(d)·ln(1 + |d|) with log_distance=true.
    Source: x-transformers 2.31.10 ``DynamicPositionBias``, whose network reads d or its logarithm;
        the bias of a query and key is row query − key + n − 1 of the network's output.
    Bound: distances are exact, or rounded once to the element type if it cannot hold them; a
        logarithm is within 1.1·2^-53 relative.
    Trap: the distance is query − key; Shaw's and T5's is key − query. Row n − 1 is distance 0.
    """

    example: ClassVar[str] = "seq_len=4&log_distance=true"
    array: ClassVar[str] = "distance"
    axes: ClassVar[tuple[str, ...]] = ("distance", "channel")
    curves: ClassVar[Curves | None] = "columns"

    seq_len: Integer = about(
        "Number of keys: the distances are -(seq_len - 1) to seq_len - 1.",
        8,
        ge=1,
        le=MAX_LENGTH,
    )
    log_distance: Boolean = about(
        "Whether the table holds sign(d)·ln(1 + |d|) in place of d.", True, default=False
    )
    dtype: RealDType = "float32"

    @property
    def places(self) -> Mapping[str, Positions]:
        return {"distance": _differences(self.seq_len)}

    def table(self) -> Table:
        def evaluate(rows: range, _: range) -> Elements:
            distances = np.arange(rows.start, rows.stop, dtype=np.int64) - (self.seq_len - 1)
            values = log_distances(distances) if self.log_distance else distances
            return values[:, np.newaxis]

        # A logarithm is never too large.
        overflows = not self.log_distance and may_overflow(self.seq_len - 1, self.element_type)
        shape = (2 * self.seq_len - 1, 1)
        return FormulaTable(
            shape,
            self.element_type,
            1,
            evaluate,
            element_seconds=(30 if self.log_distance else 10) * ELEMENT_SECONDS,
            overflows=overflows,
        )


def _differences(length: int) -> Positions:
    """Return the differences between positions of a sequence: −(length − 1) … length − 1."""
    return Positions.contiguous(1 - length, 2 * length - 1)


def log_distances(distances: Int64s, window: int | None = None) -> Float64s:
    """Return sign(d)·ln(1 + |d|), float64, for distances d, (n,).

    If a window side W is given, return sign(d)·log2(1 + |8d/(W − 1)|)/log2 8.
    """
    evaluate = _log if window is None else partial(_scaled_log, window)
    values = evaluate_integers(evaluate, np.abs(distances))
    return np.where(distances < 0, 0.0 - values, values)


def _log(lengths: Int64s) -> Float64s:
    return ln_1p(from_integers(lengths)).high


def _scaled_log(window: int, lengths: Int64s) -> Float64s:
    numerator, denominator = (_NORM * lengths).astype(np.float64), float(window - 1)
    quotient = numerator / denominator
    product = two_product(quotient, np.array([denominator]))
    rest = ((numerator - product.high) - product.low) / denominator
    return multiply(ln_1p(fast_two_sum(quotient, rest)), _per_ln_8()).high


@cache
def _per_ln_8() -> DoubleDouble:
    context = exact_context()
    return from_decimal(context.divide(Decimal(1), context.ln(Decimal(_NORM))))
