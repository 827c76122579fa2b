"""Numbers of the relative positions of the tokens of a window: rows of a table of biases."""

from dataclasses import dataclass

import numpy as np

from service.tables.angle import Int64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType, Elements


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
