"""Numbers of the relative positions of the tokens of a window: rows of a table of biases.

Distances that networks of positions take in, as they are or by their logarithms.

"Swin Transformer V2" (Liu et al. 2022), §3.3, log-spaced continuous coordinates, with the published
normalisation: a distance d within a window of W, or of the W that a model was trained with, is

    sign(d)·log2(1 + |8d/(W − 1)|)/log2 8

(Swin-Transformer f82860b ``WindowAttention``; timm 1.0.31 ``gen_relative_log_coords``, whose mode
"cr" is sign(d)·ln(1 + |d|)). x-transformers 2.31.10 ``DynamicPositionBias`` takes d in, or
sign(d)·ln(1 + |d|).

A coordinate is within 1.1·2^-53 of its own size: quotients and products are kept within 2^-101,
the logarithm within 2^-58, and the result is rounded once.

``/relative/swin``: relative positions within a window, and the biases that they select.

``/relative/swin-v2`` and ``/relative/dynamic``: what networks of positions take in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Literal

import numpy as np
from pydantic import Field

from service.delivery.resources import Composition, Resource
from service.encodings.family import InputArray
from service.encodings.fields import (
    ArrayParameters,
    IndexDType,
    Integers,
    Parameters,
    RealDType,
    dtype_field,
    impossible,
    index_dtype_field,
)
from service.encodings.relative.distance import GatheredParameters, check_fits, wrong_rows
from service.grammar import Boolean, Integer, to_query
from service.numerics.document import Document, ParameterValue
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
from service.numerics.dtypes import (
    INDEX_DTYPES,
    INT64,
    REAL_DTYPES,
    DType,
    Elements,
    may_overflow,
    round_integers_into,
    round_into,
)
from service.numerics.limits import MAX_LENGTH
from service.numerics.phase import Float64s, Int64s, exact_context
from service.numerics.positions import Positions
from service.numerics.tables import RowTable, StoredTable, row_steps


@dataclass(frozen=True)
class Window:
    """Tokens of a window, row by row, and which pairs of them have the same relative position.

    With h rows and w columns, and dy and dx how far the query lies below and to the right of the
    key, the number is (dy + h − 1)·(2w − 1) + (dx + w − 1), one of N = (2h − 1)·(2w − 1). A class
    token comes before the others and has three numbers more: N from it to them, N + 1 from them to
    it, N + 2 from it to itself.

    Source: "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows" (Liu et al.
    2021), ``relative_position_index``; BEiT (Bao et al. 2021) for the class token; timm 1.0.31
    ``gen_relative_position_index``.

    Attributes:
        height, width: rows and columns.
        class_token: whether there is one.
    """

    height: int
    width: int
    class_token: bool

    @property
    def tokens(self) -> int:
        """How many there are."""
        return self.height * self.width + self.class_token

    @property
    def between_tokens(self) -> int:
        """N, how many relative positions there are without a class token."""
        return (2 * self.height - 1) * (2 * self.width - 1)

    @property
    def count(self) -> int:
        """How many relative positions there are: rows of a table of biases."""
        return self.between_tokens + (3 if self.class_token else 0)

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {"window_size": (self.height, self.width), "class_token": self.class_token}

    def numbers(self, queries: range, keys: range) -> Int64s:
        """Give the numbers of some queries and keys, shape (queries, keys)."""
        centre = (self.height - 1) * (2 * self.width - 1) + self.width - 1
        rows = self._unrolled(queries)[:, np.newaxis] + np.int64(centre)
        numbers = rows - self._unrolled(keys)
        if self.class_token:
            from_it, to_it = queries.start == 0, keys.start == 0
            numbers[: int(from_it)] = self.between_tokens
            numbers[:, : int(to_it)] = self.between_tokens + 1
            numbers[: int(from_it), : int(to_it)] = self.between_tokens + 2
        return np.asarray(numbers)

    def _unrolled(self, tokens: range) -> Int64s:
        """Number tokens so that differences tell relative positions."""
        number = np.arange(tokens.start, tokens.stop, dtype=np.int64) - self.class_token
        row, column = np.divmod(number, self.width)
        return np.asarray(row * (2 * self.width - 1) + column)


@dataclass(frozen=True, eq=False)
class WindowTable:
    """The number of the relative position of every two tokens, queries by keys.

    Attributes:
        window: the tokens.
        dtype: an integer type that holds all numbers.
    """

    window: Window
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Tokens by tokens."""
        return self.window.tokens, self.window.tokens

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        width = self.window.tokens
        first, last = start // width, -(-stop // width)
        if width <= stop - start:
            rows = self.window.numbers(range(first, last), range(width)).reshape(-1)
            numbers = rows[start - first * width : stop - first * width]
        else:
            # A part of one row, or the end of one and the beginning of the next.
            parts = [self._of_row(row, start, stop) for row in range(first, last)]
            numbers = np.concatenate([*parts, np.empty(0, dtype=np.int64)])
        return numbers.astype(self.dtype.storage)

    def _of_row(self, row: int, start: int, stop: int) -> Int64s:
        """Compute what one row has of the flat elements start to stop."""
        width = self.window.tokens
        begin, end = max(start - row * width, 0), min(stop - row * width, width)
        return self.window.numbers(range(row, row + 1), range(begin, end)).reshape(-1)


def index(window: Window, dtype: DType) -> Document:
    """Describe the numbers of all pairs of tokens of a window, shape (tokens, tokens).

    Args:
        window: the tokens.
        dtype: an integer type that holds all numbers.
    """
    arrays = {"index": WindowTable(window, dtype)}
    axes = ("query", "key")
    return Document("relative-swin", window.parameters(), arrays, axes=axes, states_axes=True)


_NORM = 8


def log_distances(distances: Int64s) -> Float64s:
    """Evaluate sign(d)·ln(1 + |d|) for distances (n,)."""
    return _signed(distances, evaluate_integers(_plain, np.abs(distances)))


def scaled_log_distances(distances: Int64s, window: int) -> Float64s:
    """Evaluate sign(d)·log2(1 + |8d/(W − 1)|)/log2 8 for distances (n,) in a window of W."""
    return _signed(
        distances, evaluate_integers(lambda part: _scaled(part, window), np.abs(distances))
    )


def _signed(distances: Int64s, values: Float64s) -> Float64s:
    return np.where(distances < 0, 0.0 - values, values)


def _plain(lengths: Int64s) -> Float64s:
    return ln_1p(from_integers(lengths)).high


def _scaled(lengths: Int64s, window: int) -> Float64s:
    above, below = (_NORM * lengths).astype(np.float64), float(window - 1)
    quotient = above / below
    again = two_product(quotient, np.array([below]))
    rest = ((above - again.high) - again.low) / below
    return multiply(ln_1p(fast_two_sum(quotient, rest)), _per_ln_8()).high


@cache
def _per_ln_8() -> DoubleDouble:
    context = exact_context()
    return from_decimal(context.divide(Decimal(1), context.ln(Decimal(_NORM))))


@dataclass(frozen=True, eq=False)
class WindowCoordinates:
    """The coordinates of every distance in a window of patches.

    Attributes:
        window: height and width, in patches.
        normalized_by: the W of each axis, or None for plain logarithms.
        axis: 0 for those down, 1 for those across, or None for both, along a last axis.
        dtype: a real type.
    """

    window: tuple[int, int]
    normalized_by: tuple[int, int] | None
    axis: int | None
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """Distances down, distances across, and the two coordinates."""
        height, width = (2 * side - 1 for side in self.window)
        return (height, width, 2) if self.axis is None else (height, width)

    @property
    def work_per_element(self) -> int:
        """As much as a sine, for the logarithm."""
        return 1

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        for part in row_steps(stop - start, 1):
            values = self._values(start + part.start, start + part.stop)
            round_into(values, elements[part], self.dtype)
        return elements

    def _values(self, start: int, stop: int) -> Float64s:
        number = np.arange(start, stop, dtype=np.int64)
        if self.axis is None:
            place, axis = np.divmod(number, 2)
        else:
            place, axis = number, np.full(len(number), self.axis)
        steps_of = np.divmod(place, self.shape[1])
        values = np.empty(len(number))
        for which in range(2):
            is_own = axis == which
            distances = steps_of[which][is_own] - (self.window[which] - 1)
            values[is_own] = self._of_axis(distances, which)
        return values

    def _of_axis(self, distances: Int64s, axis: int) -> Float64s:
        if self.normalized_by is None:
            return log_distances(distances)
        return scaled_log_distances(distances, self.normalized_by[axis])


@dataclass(frozen=True, eq=False)
class DistanceTable(RowTable):
    """The distances −(n − 1) … n − 1 of a sequence of n, (2n − 1, 1), or their logarithms.

    Attributes:
        seq_len: n.
        is_log: whether they are sign(d)·ln(1 + |d|).
        dtype: a real type.
    """

    seq_len: int
    is_log: bool
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """A row for each distance."""
        return (2 * self.seq_len - 1, 1)

    @property
    def row_width(self) -> int:
        """A row is one distance."""
        return 1

    @property
    def overflows(self) -> bool:
        """Tell whether a distance may be too large for the type; no logarithm is."""
        return not self.is_log and may_overflow(self.seq_len - 1, self.dtype)

    def fill(self, first: int, rows: Elements) -> None:
        """Compute rows from the one numbered first on."""
        for part in row_steps(len(rows), 1):
            number = np.arange(first + part.start, first + part.stop, dtype=np.int64)
            distances = number - (self.seq_len - 1)
            if self.is_log:
                round_into(log_distances(distances), rows[part, 0], self.dtype)
            else:
                round_integers_into(distances, rows[part, 0], self.dtype)


def windows(
    *,
    window: tuple[int, int],
    normalized_by: tuple[int, int] | None,
    axis: int | None,
    dtype: DType,
) -> Document:
    """Describe the coordinates of a window, (2h − 1, 2w − 1, 2): first y, then x.

    Args:
        window: height and width, in patches.
        normalized_by: the W of each axis, at least 2, or None for plain logarithms (mode "cr").
        axis: 0 for y alone, 1 for x alone: (2h − 1, 2w − 1); None for both.
        dtype: a real type.
    """
    parameters: dict[str, ParameterValue] = {
        "window_size": window,
        "mode": "cr" if normalized_by is None else "swin",
    }
    if normalized_by not in (None, window):
        assert normalized_by is not None
        parameters["pretrained_window_size"] = normalized_by
    axes: tuple[str, ...] = ("dy", "dx")
    if axis is None:
        axes += ("coordinate",)
    else:
        parameters["axis"] = "yx"[axis]
    table = WindowCoordinates(window, normalized_by, axis, dtype)
    arrays = {"coordinates": table}
    height, width = window
    places = {"dy": _around_zero(height), "dx": _around_zero(width)}
    return Document(
        "relative-swin-v2", parameters, arrays, axes=axes, states_axes=True, places=places
    )


def distances(*, seq_len: int, is_log: bool, dtype: DType) -> Document:
    """Describe the distances of a sequence, query − key from −(n − 1) on: (2n − 1, 1)."""
    return Document(
        "relative-dynamic",
        {"seq_len": seq_len, "log_distance": is_log},
        {"distance": DistanceTable(seq_len, is_log, dtype)},
        axes=("distance", "channel"),
        states_axes=True,
        curves="columns",
        places={"distance": _around_zero(seq_len)},
    )


def _around_zero(length: int) -> Positions:
    """Give the distances between as many places: −(length − 1) … length − 1."""
    return Positions.contiguous(1 - length, 2 * length - 1)


_MAX_TOKENS = 2**31 - 1


class WindowParameters(Parameters):
    """The size of a window."""

    window_size: Integers = Field(
        min_length=2,
        max_length=2,
        description="Height and width of the window, in tokens.",
        examples=["2,3"],
    )

    def window(self, *, class_token: bool) -> Window:
        """Give the window; raises InvalidParameters."""
        height, width = self.window_size
        if min(height, width) < 1 or height * width > _MAX_TOKENS:
            rule = f"window_size must be two numbers of 1 or more, of at most {_MAX_TOKENS} tokens"
            raise impossible("window_size", self.window_size, rule)
        return Window(height, width, class_token)


class SwinParameters(ArrayParameters, WindowParameters):
    """Parameters of relative positions within a window."""

    class_token: Boolean = Field(
        default=False,
        description="Whether a class token comes before the others, as BEiT has it.",
        examples=[True],
    )
    dtype: IndexDType = index_dtype_field()


class SwinBiasParameters(WindowParameters, GatheredParameters):
    """Parameters of biases within a window."""

    class_token: Boolean | None = Field(
        default=None,
        description="Whether a class token comes before the others; as the rows of the array have "
        "it unless given.",
        examples=[False],
    )


def _index(parameters: SwinParameters) -> Document:
    window, dtype = parameters.window(class_token=parameters.class_token), parameters.dtype
    check_fits(INDEX_DTYPES[dtype], window.count - 1)
    return index(window, INDEX_DTYPES[dtype])


def _bias(parameters: SwinBiasParameters, arrays: Mapping[str, StoredTable]) -> Document:
    weight, said = arrays["weight"], parameters.class_token
    windows = [parameters.window(class_token=has) for has in (False, True)]
    fitting = [one for one in windows if said in {None, one.class_token}]
    for window in fitting:
        if weight.shape[0] == window.count:
            table = WindowTable(window, INT64)
            return parameters.of_heads("relative-swin-bias", window.parameters(), weight, table)
    counts = " or ".join(
        f"{one.count} {'with' if one.class_token else 'without'} a class token" for one in fitting
    )
    rule = f"{counts} for window_size={to_query(parameters.window_size)}"
    raise wrong_rows(weight.shape[0], rule)


INDEX = Resource(
    path="/relative/swin",
    operation="RelativeSwin",
    summary="The number of the relative position of every two tokens of a window",
    parameters=SwinParameters,
    document=_index,
    example="window_size=2,3",
)
BIAS = Composition(
    path="/relative/swin/bias",
    operation="RelativeSwinBias",
    summary="The bias of every head and every two tokens of a window, from its learned table",
    parameters=SwinBiasParameters,
    inputs=(
        InputArray(
            name="weight",
            description="the learned table, ((2·rows - 1)·(2·columns - 1), heads), with three rows "
            "more for a class token",
            ranks=(2,),
            example=[[0.5, -1.0], [0.25, -2.0], [1.5, 3.0]],
        ),
    ),
    document=_bias,
    example="window_size=1,2&head=0",
)


_MAX_WINDOW = 2**30


class SwinV2Parameters(ArrayParameters):
    """Parameters of log-spaced coordinates in a window."""

    window_size: Integers = Field(
        min_length=2,
        max_length=2,
        description="Height and width of the window, in patches.",
        examples=["8,8"],
    )
    pretrained_window_size: Integers | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="Height and width of the window that the model was trained with, by which "
        "distances are normalised; 0,0, or nothing, where that is the window itself.",
        examples=["12,12"],
    )
    mode: Literal["swin", "cr"] = Field(
        default="swin",
        description="swin: sign(d)·log2(1 + |8d/(W - 1)|)/log2 8; cr: sign(d)·ln(1 + |d|).",
        examples=["cr"],
    )
    axis: Literal["y", "x"] | None = Field(
        default=None,
        description="One coordinate alone: shape (2h - 1, 2w - 1). Both unless given, y first.",
        examples=["y"],
    )
    dtype: RealDType = dtype_field()

    def removable_axes(self) -> Mapping[str, str]:
        """Say how to be rid of the two coordinates."""
        return {"coordinate": "add axis=y"}

    def window(self) -> tuple[int, int]:
        """Give the window; raises InvalidParameters unless it is one."""
        if not all(1 <= side <= _MAX_WINDOW for side in self.window_size):
            rule = f"window_size must be two numbers of patches, 1 to {_MAX_WINDOW}"
            raise impossible("window_size", self.window_size, rule)
        height, width = self.window_size
        return height, width

    def normalized_by(self) -> tuple[int, int] | None:
        """Give the W of each axis; None where distances are not normalised."""
        trained = self.pretrained_window_size
        is_own = trained in {None, (0, 0)}
        if self.mode == "cr":
            if not is_own:
                rule = "pretrained_window_size does not go with mode=cr, which normalises nothing"
                raise impossible("pretrained_window_size", trained, rule)
            return None
        name = "window_size" if is_own else "pretrained_window_size"
        height, width = self.window() if trained is None or is_own else trained
        if not all(2 <= side <= _MAX_WINDOW for side in (height, width)):
            rule = f"{name} must be at least 2 by 2: distances are divided by each side less one"
            raise impossible(name, (height, width), rule)
        return height, width


class DynamicParameters(ArrayParameters):
    """Parameters of the distances that a dynamic position bias is made of."""

    seq_len: Integer = Field(
        ge=1,
        le=MAX_LENGTH,
        description="Number of keys: distances reach from -(seq_len - 1) to seq_len - 1.",
        examples=[8],
    )
    log_distance: Boolean = Field(
        default=False,
        description="Whether they are sign(d)·ln(1 + |d|).",
        examples=[True],
    )
    dtype: RealDType = dtype_field()


def _windows(parameters: SwinV2Parameters) -> Document:
    return windows(
        window=parameters.window(),
        normalized_by=parameters.normalized_by(),
        axis=None if parameters.axis is None else "yx".index(parameters.axis),
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _distances(parameters: DynamicParameters) -> Document:
    return distances(
        seq_len=parameters.seq_len,
        is_log=parameters.log_distance,
        dtype=REAL_DTYPES[parameters.dtype],
    )


SWIN_V2 = Resource(
    path="/relative/swin-v2",
    operation="RelativeSwinV2",
    summary="Swin V2's log-spaced coordinates of every distance in a window",
    parameters=SwinV2Parameters,
    document=_windows,
    example="window_size=4,4&axis=y",
)
DYNAMIC = Resource(
    path="/relative/dynamic",
    operation="RelativeDynamic",
    summary="The distances that a dynamic position bias is made of",
    parameters=DynamicParameters,
    document=_distances,
    example="seq_len=4&log_distance=true",
)
