"""Tables of grids as samples, and what is proposed for them."""

from collections.abc import Mapping

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, ProposalFamily, Sample
from service.numerics.document import Document
from service.numerics.dtypes import COMPLEX64, FLOAT32, FLOAT64
from service.numerics.tables import StoredTable, size
from service.routes.table_urls import document_of, tables
from tests.parity.golden import Array

_DTYPES = {each.storage[1:]: each for each in (FLOAT32, FLOAT64, COMPLEX64)}


def question_of(url: str) -> IdentifyInput:
    """Ask about the table that a URL names."""
    return IdentifyInput(samples(document_of(url)))


def question_from(arrays: Mapping[str, Array]) -> IdentifyInput:
    """Ask about arrays that a library made."""
    stored = {
        name: StoredTable(array, _DTYPES[array.dtype.str[1:]]) for name, array in arrays.items()
    }
    return IdentifyInput({name: Sample.of(table) for name, table in stored.items()})


def samples(document: Document) -> dict[str, Sample]:
    """Compute the arrays of a document."""
    return {
        name: Sample.of(StoredTable(table.read(0, size(table)).reshape(table.shape), table.dtype))
        for name, table in document.arrays.items()
    }


def distance(proposal: Proposal, question: IdentifyInput) -> float:
    """Say how far what is proposed is from what was asked about; infinity for other shapes."""
    made, sent = samples(tables(proposal.request)), question.arrays
    if len(made) == len(sent) == 1:
        made = dict(zip(sent, made.values(), strict=True))
    if made.keys() != sent.keys():
        return float("inf")
    apart = 0.0
    for name, sample in sent.items():
        if made[name].values.size != sample.values.size:
            return float("inf")
        difference = made[name].reals().ravel() - sample.reals().ravel()
        apart = max(apart, float(np.abs(difference).max()))
    return apart


def nearest(family: ProposalFamily, question: IdentifyInput, first: int = 4) -> float:
    """Say how far the nearest of the first proposals of a family is."""
    proposals = list(family(question))[:first]
    return min((distance(each, question) for each in proposals), default=float("inf"))
