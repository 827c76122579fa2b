"""Biases of attention heads: a table of all heads over queries and keys, or of one alone."""

from dataclasses import dataclass

from service.tables.angle import Int64s
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import DType, Elements
from service.tables.query_key import OfDistance, QueryKey, RelativeTable


@dataclass(frozen=True, eq=False)
class OneHead:
    """What a distance is worth to one of several heads, whichever is asked for.

    Attributes:
        of_distance: what it is worth to each.
        head: the one.
    """

    of_distance: OfDistance
    head: int

    @property
    def work_per_element(self) -> int:
        """As much as for each."""
        return self.of_distance.work_per_element

    def values(self, distances: Int64s, head: int) -> Elements:  # noqa: ARG002
        """Evaluate distances (n,) for the one head."""
        return self.of_distance.values(distances, self.head)


def biases(
    of_distance: OfDistance, pairs: QueryKey, dtype: DType, heads: int, head: int | None
) -> RelativeTable:
    """Give the table of all heads, (heads, query, key), or of the one wanted, (query, key)."""
    if head is None:
        return RelativeTable(of_distance, pairs, dtype, range(heads))
    return RelativeTable(OneHead(of_distance, head), pairs, dtype)


def bias_document(
    kind: str, parameters: dict[str, ParameterValue], table: RelativeTable, head: int | None
) -> Document:
    """Describe biases; the one head that was wanted is a parameter."""
    axes: tuple[str, ...] = ("query", "key")
    if head is None:
        return Document(kind, parameters, {"bias": table}, axes=("head", *axes), states_axes=True)
    parameters = {**parameters, "head": head}
    return Document(kind, parameters, {"bias": table}, axes=axes, states_axes=True)
