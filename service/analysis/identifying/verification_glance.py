"""A first look at a table that is proposed: some rows, and what may explain their numbers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.call import Tables
from service.analysis.identifying.arithmetic import FLOAT32_STEPS, FLOAT64
from service.analysis.identifying.verification_claims import (
    SUMMED_ROUNDINGS,
    Claim,
    Exactly,
    Turned,
    agrees,
    computed_claims,
    turned_claims,
)
from service.analysis.identifying.verification_rows import (
    INTEGERS,
    Rows,
    TableRows,
    channels_agree,
    matched,
)
from service.analysis.question import Proposal, Question
from service.errors import InvalidParameters
from service.tables.angle import Float64s
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.table import Table

GLANCED_ROWS = 48

# Tables whose numbers are products, powers or logarithms of their own, and those of logarithms
# of 1 and something that may be small: float32 makes them as far off as the largest is rounded.
_RELATIVE = ("frequencies", "slopes", "alibi", "swin-v2")
_NEARLY_RELATIVE = ("kerple", "fire", "dynamic")


@dataclass(frozen=True, eq=False)
class Glance:
    """A proposal that was looked at in a few rows.

    Attributes:
        proposal: what was proposed.
        document: the table.
        arrays: the arrays, by name.
        tables: the rows of the table beside them.
        claims: what may explain the numbers.
        agreeing: the share of numbers looked at that the best of these explains.
    """

    proposal: Proposal
    document: Document
    arrays: Mapping[str, Rows]
    tables: Mapping[str, TableRows]
    claims: tuple[Claim, ...]
    agreeing: float

    @property
    def row_count(self) -> int:
        """How many rows each array has."""
        return len(next(iter(self.arrays.values())).values)


def glance(question: Question, proposal: Proposal, tables: Tables) -> Glance | None:
    """Look at some rows of a proposal; None where there is no such table of that shape.

    Claims are left out that fail there, unless all do: then they are kept, to say where.
    """
    try:
        document = tables(proposal.call)
    except InvalidParameters:
        return None
    found = matched(document, question, proposal)
    if found is None:
        return None
    proposal = _named(proposal, tuple(question.arrays))
    turning = proposal.turning
    sizes = {name: sample.values.size for name, sample in question.arrays.items()}
    is_turned = channels_agree(proposal, sizes)
    count = len(turning.coordinates) if turning is not None and is_turned else None
    arrays = {
        name: Rows.of(sample, count, is_transposed=proposal.is_transposed)
        for name, sample in question.arrays.items()
    }
    beside = {name: _beside(found[name], arrays[name]) for name in arrays}
    claims = (Exactly(), *_claims(question, proposal, tables, arrays, is_turned=is_turned))
    return _looked(Glance(proposal, document, arrays, beside, claims, 0.0))


def _named(proposal: Proposal, names: tuple[str, ...]) -> Proposal:
    """Call the one array of a turning what the one array sent is called."""
    turning = proposal.turning
    if turning is None or len(turning.channels) != 1 or len(names) != 1:
        return proposal
    channels = dict(zip(names, turning.channels.values(), strict=True))
    return replace(proposal, turning=replace(turning, channels=channels))


def _beside(table: Table, rows: Rows) -> TableRows:
    dtype = rows.sample.element_dtype
    is_integer = dtype in INTEGERS or table.dtype is dtype
    return TableRows(table, rows.values.shape[1], None if is_integer else dtype)


def _claims(
    question: Question,
    proposal: Proposal,
    tables: Tables,
    arrays: Mapping[str, Rows],
    *,
    is_turned: bool,
) -> Iterator[Claim]:
    dtype = question.sample.element_dtype
    if dtype in INTEGERS:
        return
    if proposal.turning is not None and is_turned:
        rows = chosen_rows(len(proposal.turning.coordinates))
        have = {name: array.values[rows] for name, array in arrays.items()}
        yield from turned_claims(proposal.turning, rows, have, dtype)
        return
    try:
        document = tables(proposal.call.having(dtype="float64"))
    except InvalidParameters:
        try:
            document = tables(proposal.call)
        except InvalidParameters:
            return
    found = matched(document, question, proposal)
    if found is None or any(table.dtype.name not in REAL_DTYPES for table in found.values()):
        return
    wide = {name: TableRows(found[name], arrays[name].values.shape[1], None) for name in arrays}
    peaks = {name: _peak(array.values) for name, array in arrays.items()}
    yield from computed_claims(wide, peaks, dtype, _roundings(proposal.call.resource))


def _roundings(resource: str) -> int:
    """Give how many roundings of the largest number each may be off, beside those of its own."""
    if resource.endswith(_RELATIVE):
        return 0
    return 2 if resource.endswith(_NEARLY_RELATIVE) else SUMMED_ROUNDINGS


def chosen_rows(count: int) -> np.ndarray:
    """Choose rows to look at first: the first, the last and some all over the table."""
    if count <= GLANCED_ROWS:
        return np.arange(count)
    third = GLANCED_ROWS // 3
    spread = np.linspace(0, count - 1, GLANCED_ROWS - 2 * third).astype(np.int64)
    return np.unique(np.concatenate([np.arange(third), spread, np.arange(count - third, count)]))


def _peak(values: Float64s) -> float:
    """Give the size of the largest finite number."""
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))


def _looked(looked: Glance) -> Glance:
    """Keep the claims that some rows bear out, or the one that they bear out most."""
    rows = chosen_rows(looked.row_count)
    have = {name: array.values[rows] for name, array in looked.arrays.items()}
    exact = {name: table.read(rows) for name, table in looked.tables.items()}
    claims = [claim for claim in looked.claims if _is_of_table(claim, looked.claims, rows, exact)]
    shares = [_agreeing(claim, rows, have, exact) for claim in claims]
    best = max(shares)
    least = best if best < 1 else min(best, *_of_tight(claims, shares))
    kept = [claim for claim, share in zip(claims, shares, strict=True) if share >= least]
    return replace(looked, claims=tuple(kept if best == 1 else kept[:1]), agreeing=best)


def _of_tight(claims: list[Claim], shares: list[float]) -> list[float]:
    """Give what the best claim explains that is tighter than float32 in steps.

    It is kept beside that one, whose bounds also take in a few wrong numbers among right ones.
    """
    pairs = zip(claims, shares, strict=True)
    tight = [share for claim, share in pairs if claim.arithmetic.rank < FLOAT32_STEPS.rank]
    return [max(tight)]


def _is_of_table(
    claim: Claim, claims: tuple[Claim, ...], rows: np.ndarray, exact: Mapping[str, Float64s]
) -> bool:
    """Tell whether the angles of a claim, computed in float64, give the table itself."""
    if not isinstance(claim, Turned):
        return True
    double = next(each for each in claims if each.arithmetic is FLOAT64)
    return _agreeing(double, rows, exact, exact) == 1


def _agreeing(
    claim: Claim,
    rows: np.ndarray,
    have: Mapping[str, Float64s],
    exact: Mapping[str, Float64s],
) -> float:
    """Count the share of numbers that a claim explains."""
    good = [agrees(claim, name, rows, have[name], exact[name]).mean() for name in have]
    return float(np.mean(good))
