"""Every kind of table that an array is taken for."""

from collections.abc import Iterator

from service.analysis.distances import tables as indices
from service.analysis.grids import tables as grids
from service.analysis.question import Family, Proposal, Question
from service.analysis.rotary import tables as rotary
from service.analysis.sinusoids import tables as sinusoids
from service.tables.dtypes import INT64


def _of_reals(family: Family) -> Family:
    """Ask a family of sines about no integers."""

    def asked(question: Question) -> Iterator[Proposal]:
        if question.sample.dtype is not INT64:
            yield from family(question)

    return asked


FAMILIES: tuple[Family, ...] = (
    *indices.FAMILIES,
    *map(_of_reals, (*rotary.FAMILIES, *sinusoids.FAMILIES, *grids.FAMILIES)),
)
"""In the order in which they are asked: those that see at a glance that it is not theirs first."""
