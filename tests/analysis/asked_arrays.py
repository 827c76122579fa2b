"""Inputs of identification, and the proposals of families for them."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import IdentifyInput, Proposal, ProposalFamily, Sample, TableRequest
from service.analysis.identification.search import DISTANCE_FAMILIES
from service.numerics.document import Document
from service.numerics.dtypes import FLOAT32, FLOAT64, INT64, DType, Elements
from service.numerics.tables import StoredTable, size
from service.routes.table_urls import document_of, tables

# A few ulps: of the measured parameters, and of the table.
SHARES = {"float32": 2.0**-21, "float64": 2.0**-48, "float16": 2.0**-10, "bfloat16": 2.0**-7}

_OF_STORAGE = {"float32": FLOAT32, "float64": FLOAT64}


def question_of(elements: Elements, dtype: DType | None = None) -> IdentifyInput:
    """Return the input for an array; integers are sent as int64."""
    if np.issubdtype(elements.dtype, np.integer) and dtype is None:
        elements, dtype = elements.astype("<i8"), INT64
    known = dtype or _OF_STORAGE[elements.dtype.name]
    return IdentifyInput({"array": Sample.of(StoredTable(elements, known))})


def table_of(document: Document) -> tuple[Elements, DType]:
    """Read the single table of a document."""
    (table,) = document.arrays.values()
    return table.read(0, size(table)).reshape(table.shape), table.dtype


def served(url: str) -> IdentifyInput:
    """Return the input for the table of a URL."""
    elements, dtype = table_of(document_of(url))
    return question_of(elements, None if dtype.name.startswith("int") else dtype)


def values_of(request: TableRequest) -> NDArray[np.float64] | NDArray[np.int64]:
    """Return the numbers of a table, without axes of length 1."""
    elements, dtype = table_of(tables(request))
    known = INT64 if dtype.name.startswith("int") else dtype
    return Sample.of(
        StoredTable(elements.astype("<i8") if known is INT64 else elements, known)
    ).values


def proposed(
    question: IdentifyInput, families: Sequence[ProposalFamily] = DISTANCE_FAMILIES
) -> list[Proposal]:
    """Return all proposals of families."""
    return [proposal for family in families for proposal in family(question)]


def agreeing(
    question: IdentifyInput, proposals: Iterable[Proposal], share: float, error: float = 0.0
) -> list[TableRequest]:
    """Return the requests whose tables are the array within a relative and an absolute error."""
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
