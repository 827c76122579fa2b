"""Attention with linear biases: a slope for each head, times the distance of query and key.

"Train Short, Test Long" (Press et al. 2022), §3: slope·(query − key) is subtracted from the score
of a key before or at the query.

A bias is within 1.01·2^-53 of its own size: a slope is kept as a pair within 2^-106, distances
are exact, and their product is rounded once.
"""

from dataclasses import dataclass

import numpy as np

from service.tables.angle import Float64s, Int64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType, Elements, exceeds, round_into
from service.tables.heads import bias_document, biases
from service.tables.query_key import QueryKey
from service.tables.slopes import Slopes
from service.tables.table import rounds, setup_work
from service.tables.twofold import Twofold, in_blocks, of_integers, times


@dataclass(frozen=True, eq=False)
class Linear:
    """Slope times distance.

    Attributes:
        slopes: one for each head; further heads have no bias.
        is_symmetric: whether it is −slope·|distance|, instead of slope·(key − query), which is
            negative for keys before the query and positive after it.
        is_masked: whether keys after the query have −∞ instead.
    """

    slopes: Slopes
    is_symmetric: bool
    is_masked: bool

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    @property
    def setup_work(self) -> int:
        """That of the slopes."""
        return setup_work(self.slopes)

    def values(self, distances: Int64s, heads: range) -> Float64s:
        """Evaluate distances (n,) for heads."""
        signed = -np.abs(distances) if self.is_symmetric else distances
        values = sloped(self.slopes, heads, signed)
        if self.is_masked:
            values[:, distances > 0] = -np.inf
        return values

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Bound the size of biases, those of masked keys apart."""
        farthest = pairs.farthest_behind if self.is_masked else pairs.farthest
        return farthest * float(self.slopes.sizes(_sloping(self.slopes, heads)).max(initial=0.0))


def sloped(slopes: Slopes, heads: range, numbers: Int64s) -> Float64s:
    """Multiply integers (n,) by the slopes of heads; by 0 where a head is past the last slope."""
    sloping = _sloping(slopes, heads)
    if not sloping:
        return np.zeros((len(heads), len(numbers)))
    slope = slopes.pairs(sloping)

    def scaled(some: slice, part: slice) -> Float64s:
        return times(of_integers(numbers[part]), slope.column(some)).high

    values = in_blocks(scaled, len(sloping), len(numbers))
    if sloping == heads:
        return values
    return np.concatenate([values, np.zeros((len(heads) - len(sloping), len(numbers)))])


def _sloping(slopes: Slopes, heads: range) -> range:
    """Give those of heads that have a slope: the first ones."""
    return heads[: max(0, slopes.count - heads.start)]


def bias(
    *,
    kind: str,
    parameters: dict[str, ParameterValue],
    linear: Linear,
    pairs: QueryKey,
    total_heads: int,
    head: int | None,
    dtype: DType,
) -> Document:
    """Describe the biases of heads, (head, query, key), or of one, (query, key).

    Args:
        kind: that of the document.
        parameters: what fixes the values, the form and the pairs apart.
        linear: the values.
        pairs: queries and keys.
        total_heads: how many heads there are, at least as many as slopes.
        head: the one wanted, or None for all.
        dtype: a real type.
    """
    if total_heads > linear.slopes.count:
        parameters = {**parameters, "total_heads": total_heads}
    table = biases(linear, pairs, dtype, total_heads, head)
    return bias_document(kind, parameters, table, head)


@dataclass(frozen=True, eq=False)
class MaskedKeysTable:
    """Slope times the number of a key among those that a mask leaves, 0 for the others.

    BLOOM (transformers 5.23.0 ``build_alibi_tensor``): the position of a key is
    (cumsum(mask) − 1)·mask along its sequence, and every query has the same biases.

    Attributes:
        slopes: one for each head.
        positions: int64 (batch, key).
        dtype: a real type.
        heads: the numbers of the heads, which follow each other.
        has_head_axis: whether there is an axis of them: not where one is wanted alone.
    """

    slopes: Slopes
    positions: Int64s
    dtype: DType
    heads: range
    has_head_axis: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Sequences, heads, the one row for every query, keys."""
        batch, keys = self.positions.shape
        return (batch, *((len(self.heads),) if self.has_head_axis else ()), 1, keys)

    @property
    def work_per_element(self) -> int:
        """Less than a sine."""
        return 1

    @property
    def setup_work(self) -> int:
        """That of the slopes."""
        return setup_work(self.slopes)

    @property
    def overflows(self) -> bool:
        """Tell whether a bias may be too large for the type."""
        steepest = float(self.slopes.sizes(self.heads).max())
        return exceeds(int(self.positions.max()) * steepest, self.dtype)

    def read(self, start: int, stop: int) -> Elements:
        """Compute the flat elements start to stop."""
        elements = np.empty(stop - start, dtype=self.dtype.storage)
        done = 0
        for rows, keys in rounds(start, stop, self.positions.shape[1]):
            values = self._of_rows(rows, slice(keys.start, keys.stop)).reshape(-1)
            with np.errstate(over="ignore"):
                round_into(values, elements[done : done + len(values)], self.dtype)
            done += len(values)
        return elements

    def _of_rows(self, rows: range, keys: slice) -> Float64s:
        """Evaluate some keys of rows, each of a sequence and a head."""
        batch, head = np.divmod(np.arange(rows.start, rows.stop), len(self.heads))
        positions = self.positions[batch, keys]
        least, most = int(head.min()), int(head.max())
        of_heads = self.slopes.pairs(self.heads[least : most + 1])
        slope = Twofold(*(part[head - least] for part in of_heads))

        def scaled(some: slice, part: slice) -> Float64s:
            return times(of_integers(positions[some, part]), slope.column(some)).high

        return in_blocks(scaled, *positions.shape)


def mask_aware(
    *,
    parameters: dict[str, ParameterValue],
    slopes: Slopes,
    mask: Int64s,
    head: int | None,
    dtype: DType,
) -> Document:
    """Describe BLOOM's biases of keys under a mask (batch, key) of zeros and ones.

    The shape is (batch, head, 1, key), or (batch, 1, key) where one head is wanted.
    """
    positions = (np.cumsum(mask, axis=1) - 1) * mask
    heads = range(slopes.count) if head is None else range(head, head + 1)
    table = MaskedKeysTable(slopes, positions, dtype, heads, has_head_axis=head is None)
    axes = ("batch", "head", "query", "key") if head is None else ("batch", "query", "key")
    parameters = parameters if head is None else {**parameters, "head": head}
    arrays = {"bias": table}
    return Document("relative-alibi-bias", parameters, arrays, axes=axes, states_axes=True)
