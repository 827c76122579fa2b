"""Tables of this server as samples, and what is proposed for them."""

from collections.abc import Iterator

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, Sample, TableRequest
from service.analysis.families.sinusoid_rows import LayoutView, layout_views
from service.analysis.families.sinusoid_tables import propose_sinusoids
from service.numerics.document import ParameterValue
from service.numerics.dtypes import FLOAT32, FLOAT64
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable, size
from service.routes.table_urls import tables, url_of


def sample_of(resource: str, **parameters: ParameterValue) -> Sample:
    """Take the table of a request as somebody would send it."""
    (table,) = tables(TableRequest(resource, parameters)).arrays.values()
    return Sample.of(StoredTable(table.read(0, size(table)).reshape(table.shape), table.dtype))


def sample_from(array: np.ndarray) -> Sample:
    """Take an array as somebody would send it."""
    dtype = FLOAT64 if array.dtype == np.float64 else FLOAT32
    return Sample.of(StoredTable(np.ascontiguousarray(array), dtype))


def values_of(proposal: Proposal) -> Float64s:
    """Compute the table that is proposed, in the order of axes of the array that was sent."""
    values = sample_of(proposal.request.resource, **proposal.request.parameters).reals()
    return values.T if proposal.is_transposed else values


def proposed(sample: Sample, d_model: int | None = None) -> list[Proposal]:
    """List what is proposed for an array."""
    return list(propose_sinusoids(IdentifyInput({"array": sample}, d_model=d_model)))


def equal_urls(sample: Sample, error: float = 0.0) -> list[str]:
    """Name the tables that are proposed and equal to the array within an error."""
    return [
        url_of(proposal.request)
        for proposal in proposed(sample)
        if values_of(proposal).shape == sample.values.shape
        and np.abs(values_of(proposal) - sample.reals()).max() <= error
    ]


def view_of(sample: Sample, layout: str = "concatenated") -> LayoutView:
    """Read rows in a layout, sines first."""
    return next(_of(layout_views(sample), layout))


def _of(views: Iterator[LayoutView], layout: str) -> Iterator[LayoutView]:
    return (view for view in views if view.layout == layout and not view.is_flipped)
