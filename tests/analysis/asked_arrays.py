"""Arrays as somebody would send them, and what a family proposes for them."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import IdentifyInput, Proposal, ProposalFamily, Sample, TableRequest
from service.analysis.identification.search import DISTANCE_FAMILIES
from service.numerics.document import Document
from service.numerics.dtypes import FLOAT32, FLOAT64, INT64, DType, Elements
from service.numerics.tables import StoredTable, size
from service.routes.table_urls import document_of, tables

# A few units in the last place: of the numbers that were found, and of the table.
SHARES = {"float32": 2.0**-21, "float64": 2.0**-48, "float16": 2.0**-10, "bfloat16": 2.0**-7}

_OF_STORAGE = {"float32": FLOAT32, "float64": FLOAT64}


def question_of(elements: Elements, dtype: DType | None = None) -> IdentifyInput:
    """Ask about an array; integers are sent as int64."""
    if np.issubdtype(elements.dtype, np.integer) and dtype is None:
        elements, dtype = elements.astype("<i8"), INT64
    known = dtype or _OF_STORAGE[elements.dtype.name]
    return IdentifyInput({"array": Sample.of(StoredTable(elements, known))})


def table_of(document: Document) -> tuple[Elements, DType]:
    """Read the one table of a document."""
    (table,) = document.arrays.values()
    return table.read(0, size(table)).reshape(table.shape), table.dtype


def served(url: str) -> IdentifyInput:
    """Ask about the table of a URL."""
    elements, dtype = table_of(document_of(url))
    return question_of(elements, None if dtype.name.startswith("int") else dtype)


def values_of(call: TableRequest) -> NDArray[np.float64] | NDArray[np.int64]:
    """Give the numbers of a call's table, without axes of length 1."""
    elements, dtype = table_of(tables(call))
    known = INT64 if dtype.name.startswith("int") else dtype
    return Sample.of(
        StoredTable(elements.astype("<i8") if known is INT64 else elements, known)
    ).values


def proposed(
    question: IdentifyInput, families: Sequence[ProposalFamily] = DISTANCE_FAMILIES
) -> list[Proposal]:
    """Give everything that families propose."""
    return [proposal for family in families for proposal in family(question)]


def agreeing(
    question: IdentifyInput, proposals: Iterable[Proposal], share: float, error: float = 0.0
) -> list[TableRequest]:
    """Give the calls whose tables are the array, but for a share of each number and an error."""
    wanted = question.sample.values
    found = []
    for proposal in proposals:
        values = values_of(proposal.request)
        if values.shape == wanted.shape:
            with np.errstate(invalid="ignore"):
                is_near = np.abs(values - wanted) <= share * np.abs(wanted) + error
            if (is_near | (values == wanted)).all():
                found.append(proposal.request)
    return found
