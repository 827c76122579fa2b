"""``GET /compare``: report where a table differs from another table of this server."""

from functools import cached_property
from itertools import permutations

from service.delivery.endpoints import Endpoint, NoInput
from service.encodings.family import about
from service.errors import Fault, InvalidBody, InvalidParameters, RequestTooLarge, shortened
from service.numerics.dtypes import FLOAT64
from service.numerics.tables import Document, StoredTable, size
from service.routes.compare import CompareReport, ExaminedArray, ToleranceParameters, report_of
from service.routes.table_urls import TableUrl, table_in_to
from service.settings import Settings

MOST_ELEMENTS = 2**24
"""The most elements of a table that is examined: 131,072 rows of 128 channels."""

# The processor seconds of a comparison, and of each of its elements beside those of the tables.
_BASE_SECONDS = 0.012
_COMPARED_SECONDS = 4e-8


class TableParameters(ToleranceParameters):
    """Parameters of a comparison of two tables."""

    have: str = about(
        "The table that is examined: path and query of its URL here. In a URL written by hand, "
        "each & of it is %26.",
        "/rope?head_dim=128&seq_len=4096&angle=float32",
    )
    to: str = about(
        "The table to compare it with, in the same way.", "/rope?head_dim=128&seq_len=4096"
    )

    @cached_property
    def tables(self) -> tuple[tuple[TableUrl, Document], tuple[TableUrl, Document]]:
        """The URLs of ``have`` and ``to``, and their documents; raises InvalidParameters."""
        return table_in_to(self.have, "have"), table_in_to(self.to)

    @property
    def planning_seconds(self) -> float:
        (url, have), (_, to) = self.tables
        elements = sum(map(size, have.arrays.values()))
        if elements > MOST_ELEMENTS:
            names = ("positions", "query_positions", "channels")
            taken = [f"{name}=" for name in names if name in url.resource.parameters.model_fields]
            raise RequestTooLarge(
                f"have names a table of {elements} elements, and at most {MOST_ELEMENTS} are "
                f"compared: select some by {' or '.join(taken) or 'a smaller size'}, in have and to"
            )
        every = [*have.arrays.values(), *to.arrays.values()]
        dearest = 2 * max(table.element_seconds for table in every)
        setups = have.setup_seconds + to.setup_seconds
        return _BASE_SECONDS + setups + elements * (dearest + _COMPARED_SECONDS)

    @property
    def planning_bytes(self) -> int:
        return 3 * FLOAT64.itemsize_bytes * sum(map(size, self.tables[0][1].arrays.values()))


def compare_tables(parameters: TableParameters, settings: Settings) -> CompareReport:
    """Return the report about a table; raises PosrefError."""
    (_, have), (url, to) = parameters.tables
    names, others = [*have.arrays], [*to.arrays]
    if names != others and not len(names) == len(others) == 1:
        rule = f"have has the arrays {', '.join(names)}, and to {', '.join(others)}: add part="
        raise InvalidParameters(Fault("have", shortened(parameters.have), rule))
    _check_channels(parameters, have, to)
    _check_heads(parameters, have, to)
    arrays = {}
    for name, table in zip(others, have.arrays.values(), strict=True):
        elements = table.read(0, size(table)).reshape(table.shape)
        stored = StoredTable(elements, table.dtype)
        arrays[name] = ExaminedArray(stored, table.dtype.name, have.axes)
    try:
        return report_of(parameters, url.request, to, arrays, settings)
    except InvalidBody as error:
        raise InvalidParameters(Fault("have", shortened(parameters.have), error.detail)) from error


def _check_channels(parameters: TableParameters, *documents: Document) -> None:
    """Raise InvalidParameters if columns that would be compared are other channels."""
    columns = []
    for each in documents:
        if each.shape is None or each.channel_axis is None:
            return
        name, count = each.axes[each.channel_axis], each.shape[each.channel_axis]
        chosen = each.places.get(name) if "channels" in each.parameters else None
        columns.append([*range(count)] if chosen is None else [*chosen.at(0, count)])
    if any(a != b for a, b in zip(*columns, strict=False)):
        rule = "have and to select other channels: add the same channels= to both"
        raise InvalidParameters(Fault("have", shortened(parameters.have), rule))


def _check_heads(parameters: TableParameters, *documents: Document) -> None:
    """Raise InvalidParameters if a head would be compared with the first one of all."""
    for one, other in permutations(documents):
        head = one.parameters.get("head")
        if head and "head" in other.axes:
            rule = f"one of have and to selects head {head}, and the other has all: add head={head}"
            raise InvalidParameters(Fault("have", shortened(parameters.have), f"{rule} to both"))


COMPARE_TABLES = Endpoint(
    path="/compare",
    operation="CompareTables",
    summary="Where a table differs from another one",
    parameters=TableParameters,
    inputs=NoInput(),
    answer=compare_tables,
    example="have=/encoding?positions=0%26d_model=2&to=/encoding?seq_len=1%26d_model=2",
    report=CompareReport,
)
