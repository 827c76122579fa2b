"""What routes that look rows of a sent array up have in common."""

from service.errors import InvalidBody
from service.routes.parameters import impossible
from service.routes.query_key import HeadParameters
from service.tables.document import Document, ParameterValue
from service.tables.dtypes import INT32, DType
from service.tables.gathered import biases
from service.tables.table import StoredTable, Table

_MAX_INT32 = 2**31 - 1


class GatheredParameters(HeadParameters):
    """Which heads of a table that is sent are wanted."""

    def of_heads(
        self,
        kind: str,
        described: dict[str, ParameterValue],
        weight: StoredTable,
        index: Table,
    ) -> Document:
        """Describe the biases of every head, or of the one that is wanted."""
        head = self.checked_head(weight.shape[1])
        axes: tuple[str, ...] = ("head", "query", "key")
        if head is not None:
            axes, described = axes[1:], {**described, "head": head}
        arrays = {"bias": biases(weight, index, head)}
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
