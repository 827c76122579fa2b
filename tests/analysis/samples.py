"""Arrays as a client sends them, and the proposals of families for them."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import (
    IdentifyInput,
    Proposal,
    ProposalFamily,
    Sample,
    TableRequest,
)
from service.analysis.identification.search import DISTANCE_FAMILIES, SINE_FAMILIES
from service.analysis.precision import round_array
from service.numerics.dtypes import COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, INT64, DType
from service.numerics.phase import Float64s
from service.numerics.tables import Document, ParameterValue, StoredTable, Table, size
from service.routes.table_urls import read_url, tables

_DTYPES = {each.storage[1:]: each for each in (FLOAT32, FLOAT64, COMPLEX64, COMPLEX128)}


GRID_FAMILIES = SINE_FAMILIES[-4:]


def sample_from(array: NDArray[np.generic], dtype: DType | None = None) -> Sample:
    """Return an array as a request has it: integers of every type as int64."""
    if dtype is None and np.issubdtype(array.dtype, np.integer):
        array, dtype = array.astype("<i8"), INT64
    dtype = dtype or _DTYPES[array.dtype.str[1:]]
    return Sample.of(StoredTable(np.ascontiguousarray(array), dtype))


def samples_of(document: Document) -> dict[str, Sample]:
    return {name: _sample_of_table(table) for name, table in document.arrays.items()}


def _sample_of_table(table: Table) -> Sample:
    elements = table.read(0, size(table)).reshape(table.shape)
    return sample_from(elements, None if table.dtype.name.startswith("int") else table.dtype)


def sample_of(resource: str, **parameters: ParameterValue) -> Sample:
    """Return the one array of a table."""
    (sample,) = samples_of(tables(TableRequest(resource, parameters))).values()
    return sample


def input_of(url: str, part: str | None = None, positions: Float64s | None = None) -> IdentifyInput:
    """Return the input that identifies the arrays of a URL, or one of them."""
    arrays = samples_of(read_url(url).document)
    return IdentifyInput({"array": arrays[part]} if part else arrays, positions=positions)


def input_from(
    arrays: Sample | NDArray[np.generic] | Mapping[str, NDArray[np.generic]],
    dtype: DType | None = None,
    positions: Float64s | None = None,
    d_model: int | None = None,
) -> IdentifyInput:
    """Return the input that identifies an array, or several by name."""
    named = arrays if isinstance(arrays, Mapping) else {"array": arrays}
    samples = {
        name: each if isinstance(each, Sample) else sample_from(each, dtype)
        for name, each in named.items()
    }
    return IdentifyInput(samples, d_model, positions)


def proposed(
    request: IdentifyInput, families: Iterable[ProposalFamily] = DISTANCE_FAMILIES
) -> list[Proposal]:
    return [proposal for family in families for proposal in family(request)]


def values_of(proposal: Proposal) -> Float64s:
    """Return the one table of a proposal, with the axes of the array."""
    values = sample_of(proposal.request.resource, **proposal.request.parameters).reals()
    return values.T if proposal.is_transposed else values


def distance(proposal: Proposal, request: IdentifyInput) -> float:
    """Return the largest difference between a proposed table and the arrays; inf if any is.

    It is infinite for other shapes too.
    """
    computed, sent = samples_of(tables(proposal.request)), request.arrays
    if len(computed) == len(sent) == 1:
        computed = dict(zip(sent, computed.values(), strict=True))
    if computed.keys() != sent.keys():
        return float("inf")
    largest = 0.0
    for name, sample in sent.items():
        values = computed[name].reals()
        values = values.T if proposal.is_transposed else values
        if values.size != sample.values.size:
            return float("inf")
        largest = max(largest, float(np.abs(values.ravel() - sample.reals().ravel()).max()))
    return largest


def nearest(family: ProposalFamily, request: IdentifyInput, first: int = 4) -> float:
    """Return how far the nearest of the first proposals of a family is."""
    proposals = list(family(request))[:first]
    return min((distance(each, request) for each in proposals), default=float("inf"))


def agreeing(
    request: IdentifyInput, proposals: Iterable[Proposal], share: float = 0.0, error: float = 0.0
) -> list[TableRequest]:
    """Return the requests whose tables are the arrays, but for a share of each number and an error.

    Infinite numbers must be equal.
    """
    return [each.request for each in proposals if _agrees(each, request, share, error)]


def _agrees(proposal: Proposal, request: IdentifyInput, share: float, error: float) -> bool:
    computed = list(samples_of(tables(proposal.request)).values())
    sent = list(request.arrays.values())
    return len(computed) == len(sent) and all(
        _are_near(one.values.T if proposal.is_transposed else one.values, other, share, error)
        for one, other in zip(computed, sent, strict=True)
    )


def _are_near(
    values: NDArray[np.float64] | NDArray[np.int64], sample: Sample, share: float, error: float
) -> bool:
    if values.shape != sample.values.shape:
        return False
    with np.errstate(invalid="ignore"):
        is_near = np.abs(values - sample.values) <= share * np.abs(sample.values) + error
    return bool((is_near | (values == sample.values)).all())


def float_sample(values: NDArray[np.generic], dtype: DType = FLOAT32) -> Sample:
    """Return numbers rounded to a real type."""
    return Sample.of(round_array(values.astype(np.float64), dtype))


def float_input(values: NDArray[np.generic], dtype: DType = FLOAT32) -> IdentifyInput:
    return IdentifyInput({"x": float_sample(values, dtype)})
