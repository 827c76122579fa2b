"""Every kind of table that an array is taken for."""

from collections.abc import Iterator

from service.analysis.distances import tables as indices
from service.analysis.grids import tables as grids
from service.analysis.identifying.verification_rows import INTEGERS
from service.analysis.question import Family, Proposal, Question
from service.analysis.rotary import tables as rotary
from service.analysis.sinusoids import tables as sinusoids
from service.tables.limits import MAX_CHANNELS

# A row of distances has as many numbers as the longest context has tokens, and no more.
_MAX_KEYS = 2**20


def _up_to(most: int, family: Family) -> Family:
    """Ask a family about no array whose last axis is longer than that of any table of its kind."""

    def asked(question: Question) -> Iterator[Proposal]:
        if question.sample.values.shape[-1] <= most:
            yield from family(question)

    return asked


def _of_reals(family: Family) -> Family:
    """Ask a family of sines about no integers."""

    def asked(question: Question) -> Iterator[Proposal]:
        if question.sample.dtype not in INTEGERS:
            yield from family(question)

    return asked


_SINES = (*rotary.FAMILIES, *sinusoids.FAMILIES, *grids.FAMILIES)


FAMILIES: tuple[Family, ...] = (
    *(_up_to(_MAX_KEYS, family) for family in indices.FAMILIES),
    *(_up_to(MAX_CHANNELS, _of_reals(family)) for family in _SINES),
)
"""In the order in which they are asked: those that see at a glance that it is not theirs first."""
