"""What routes that look rows of a sent array up have in common."""

from pydantic import Field

from service.delivery.parameters import Parameters
from service.errors import InvalidBody
from service.grammar import Integer
from service.routes.parameters import impossible
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import INT32, DType
from service.tables.gathered import biases
from service.tables.table import StoredTable, Table

_MAX_INT32 = 2**31 - 1


class HeadParameters(Parameters):
    """Which heads are wanted."""

    head: Integer | None = Field(
        default=None,
        ge=0,
        description="One head alone, counted from 0: shape (query, key). All unless given.",
        examples=[0],
    )

    def of_heads(
        self,
        kind: str,
        described: dict[str, ParameterValue],
        weight: StoredTable,
        index: Table,
    ) -> Document:
        """Describe the biases of every head, or of the one that is wanted."""
        heads = weight.shape[1]
        if self.head is None:
            axes: tuple[str, ...] = ("head", "query", "key")
        elif self.head < heads:
            axes, described = ("query", "key"), {**described, "head": self.head}
        else:
            raise impossible("head", self.head, f"head must be less than the {heads} of weight")
        arrays = {"bias": biases(weight, index, self.head)}
        return Document(kind, described, arrays, axes=axes, states_axes=True)


def agreed(name: str, said: int | None, found: int) -> int:
    """Give what an array says, which a parameter may say as well; raises InvalidParameters."""
    if said is not None and said != found:
        raise impossible(name, said, f"{name} is {found} by the rows of weight")
    return found


def wrong_rows(rows: int, rule: str) -> InvalidBody:
    """Make the error of a table of weights that has a number of rows that cannot be."""
    return InvalidBody(f"weight has {rows} rows, and must have {rule}", "/weight")


def check_fits(dtype: DType, largest: int) -> None:
    """Refuse int32 for numbers beyond it."""
    if dtype is INT32 and largest > _MAX_INT32:
        raise impossible("dtype", "int32", f"numbers up to {largest} need dtype=int64")
