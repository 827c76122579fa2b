"""Biases of attention heads: a table of all heads over queries and keys, or of one alone."""

from dataclasses import dataclass
from typing import Protocol

from service.tables.angle import Int64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType, Elements, exceeds
from service.tables.query_key import OfDistance, QueryKey, RelativeTable
from service.tables.table import setup_work


class Bias(OfDistance, Protocol):
    """What distances are worth to heads, of bounded size."""

    def bound(self, pairs: QueryKey, heads: range) -> float:
        """Bound the size of all that pairs are worth to heads, but for −∞ that is meant."""


@dataclass(frozen=True, eq=False)
class BiasTable(RelativeTable):
    """The biases of heads, or of one."""

    of_distance: Bias

    @property
    def overflows(self) -> bool:
        """Tell whether a bias may be too large for the type."""
        heads = range(1 if self.heads is None else self.heads)
        return exceeds(self.of_distance.bound(self.pairs, heads), self.dtype)


@dataclass(frozen=True, eq=False)
class OneHead:
    """What a distance is worth to one of several heads, whichever is asked for.

    Attributes:
        of_distance: what it is worth to each.
        head: the one.
    """

    of_distance: Bias
    head: int

    @property
    def work_per_element(self) -> int:
        """As much as for each."""
        return self.of_distance.work_per_element

    @property
    def setup_work(self) -> int:
        """That of the value."""
        return setup_work(self.of_distance)

    def values(self, distances: Int64s, heads: range) -> Elements:  # noqa: ARG002
        """Evaluate distances (n,) for the one head."""
        return self.of_distance.values(distances, self._only)

    def bound(self, pairs: QueryKey, heads: range) -> float:  # noqa: ARG002
        """Bound what pairs are worth to the one head."""
        return self.of_distance.bound(pairs, self._only)

    @property
    def _only(self) -> range:
        return range(self.head, self.head + 1)


def biases(
    of_distance: Bias, pairs: QueryKey, dtype: DType, heads: int, head: int | None
) -> BiasTable:
    """Give the table of all heads, (heads, query, key), or of the one wanted, (query, key)."""
    if head is None:
        return BiasTable(of_distance, pairs, dtype, heads)
    return BiasTable(OneHead(of_distance, head), pairs, dtype)


def bias_document(
    kind: str, parameters: dict[str, ParameterValue], table: RelativeTable, head: int | None
) -> Document:
    """Describe biases; the one head that was wanted is a parameter."""
    axes: tuple[str, ...] = ("query", "key")
    if head is None:
        return Document(kind, parameters, {"bias": table}, axes=("head", *axes), states_axes=True)
    parameters = {**parameters, "head": head}
    return Document(kind, parameters, {"bias": table}, axes=axes, states_axes=True)
