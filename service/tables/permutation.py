"""Index vectors that turn the weights of queries and keys of one layout into those of another.

A rotation pairs channels 2k and 2k+1 (``interleaved``: RoFormer, Meta's Llama) or k and k + r/2
(``half``: GPT-NeoX, transformers). The same model in the other layout has the rows of its query and
key projections (and their biases, and the weights of a norm of q and k) in another order within
each head: what conversions of Llama from Meta's to transformers' weights do by view and transpose.
"""

from dataclasses import dataclass

import numpy as np

from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType, Elements


@dataclass(frozen=True)
class HeadOrder:
    """The order of the channels of a head in one layout, by their places in the other.

    Attributes:
        head_dim: channels of a head.
        rotary_dim: how many of them turn; the others stay where they are.
        rotary_offset: channels before the first that turns.
        layout: of the weights there are, ``interleaved`` or ``half``.
        output_layout: of the weights wanted.
    """

    head_dim: int
    rotary_dim: int
    rotary_offset: int
    layout: str
    output_layout: str

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        return {
            "head_dim": self.head_dim,
            "rotary_dim": self.rotary_dim,
            "rotary_offset": self.rotary_offset,
            "layout": self.layout,
            "output_layout": self.output_layout,
        }

    def sources(self, channels: Elements) -> Elements:
        """Give the channel of the old layout for each of the new one, shape (n,)."""
        turning = channels - self.rotary_offset
        is_turning = (turning >= 0) & (turning < self.rotary_dim)
        pairs = self.rotary_dim // 2
        moved = turning
        if self.layout != self.output_layout:
            # To half: from 2k and 2k+1; to interleaved: from k and k + r/2.
            second, pair = np.divmod(turning, pairs)
            if self.output_layout == "half":
                moved = 2 * pair + second
            else:
                pair, second = np.divmod(turning, 2)
                moved = pair + second * pairs
        return np.where(is_turning, moved + self.rotary_offset, channels)


@dataclass(frozen=True, eq=False)
class PermutationTable:
    """The row of the old weights for each row of the new ones: new = old[index].

    Attributes:
        order: that of the channels of a head.
        heads: how many heads the rows are of.
        dtype: an integer type.
    """

    order: HeadOrder
    heads: int
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        """A row for each channel of each head."""
        return (self.heads * self.order.head_dim,)

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        head, channel = np.divmod(np.arange(start, stop, dtype=np.int64), self.order.head_dim)
        index = head * self.order.head_dim + self.order.sources(channel)
        return index.astype(self.dtype.storage)


def permutation(
    *, order: HeadOrder, query_heads: int, key_heads: int | None, dtype: DType
) -> Document:
    """Describe the index vectors of the weights of queries, and of keys where they have others.

    Args:
        order: that of the channels of a head.
        query_heads: how many heads queries have.
        key_heads: how many keys have, where both are wanted.
        dtype: an integer type.
    """
    parameters = {**order.parameters(), "num_attention_heads": query_heads}
    if key_heads is None:
        table = PermutationTable(order, query_heads, dtype)
        return Document("rope-permutation", parameters, {"permutation": table})
    arrays = {
        "q": PermutationTable(order, query_heads, dtype),
        "k": PermutationTable(order, key_heads, dtype),
    }
    parameters["num_key_value_heads"] = key_heads
    return Document("rope-permutation", parameters, arrays, has_parts=True)
