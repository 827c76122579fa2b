"""A first look at a table that is proposed: some rows, and what may explain their numbers.

Whether an array is the table that is proposed, in whatever arithmetic, and if not, where not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, Tables
from service.analysis.identification.arithmetic import (
    FLOAT32_STEPS,
    FLOAT64_ARITHMETIC,
    Arithmetic,
    plainest,
)
from service.analysis.identification.claims import (
    INTEGERS,
    SUMMED_ROUNDINGS,
    ArrayRows,
    Claim,
    EmulationClaim,
    Exactly,
    TableRows,
    agrees,
    channels_agree,
    computed_claims,
    matched,
    turned_claims,
)
from service.analysis.precision import spacing
from service.errors import InvalidParameters
from service.numerics.document import Document
from service.numerics.dtypes import REAL_DTYPES, DType
from service.numerics.phase import Float64s
from service.numerics.tables import Table, row_steps

GLANCED_ROWS = 48

# Tables whose numbers are products, powers or logarithms of their own, and those of logarithms
# of 1 and something that may be small: float32 makes them as far off as the largest is rounded.
_RELATIVE = ("frequencies", "slopes", "alibi", "swin-v2")
_NEARLY_RELATIVE = ("kerple", "fire", "dynamic")


@dataclass(frozen=True, eq=False)
class SampledMatch:
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
    arrays: Mapping[str, ArrayRows]
    tables: Mapping[str, TableRows]
    claims: tuple[Claim, ...]
    agreeing: float

    @property
    def row_count(self) -> int:
        """How many rows each array has."""
        return len(next(iter(self.arrays.values())).values)


def glance(question: IdentifyInput, proposal: Proposal, tables: Tables) -> SampledMatch | None:
    """Look at some rows of a proposal; None where there is no such table of that shape.

    Claims are left out that fail there, unless all do: then they are kept, to say where.
    """
    try:
        document = tables(proposal.request)
    except InvalidParameters:
        return None
    found = matched(document, question, proposal)
    if found is None:
        return None
    proposal = _named(proposal, tuple(question.arrays))
    turning = proposal.angles
    sizes = {name: sample.values.size for name, sample in question.arrays.items()}
    is_turned = channels_agree(proposal, sizes)
    count = len(turning.coordinates) if turning is not None and is_turned else None
    arrays = {
        name: ArrayRows.of(sample, count, is_transposed=proposal.is_transposed)
        for name, sample in question.arrays.items()
    }
    beside = {name: _beside(found[name], arrays[name]) for name in arrays}
    claims = (Exactly(), *_claims(question, proposal, tables, arrays, is_turned=is_turned))
    return _looked(SampledMatch(proposal, document, arrays, beside, claims, 0.0))


def _named(proposal: Proposal, names: tuple[str, ...]) -> Proposal:
    """Call the one array of a turning what the one array sent is called."""
    turning = proposal.angles
    if turning is None or len(turning.channels) != 1 or len(names) != 1:
        return proposal
    channels = dict(zip(names, turning.channels.values(), strict=True))
    return replace(proposal, angles=replace(turning, channels=channels))


def _beside(table: Table, rows: ArrayRows) -> TableRows:
    dtype = rows.sample.element_dtype
    is_integer = dtype in INTEGERS or table.dtype is dtype
    return TableRows(table, rows.values.shape[1], None if is_integer else dtype)


def _claims(
    question: IdentifyInput,
    proposal: Proposal,
    tables: Tables,
    arrays: Mapping[str, ArrayRows],
    *,
    is_turned: bool,
) -> Iterator[Claim]:
    dtype = question.sample.element_dtype
    if dtype in INTEGERS:
        return
    if proposal.angles is not None and is_turned:
        rows = chosen_rows(len(proposal.angles.coordinates))
        have = {name: array.values[rows] for name, array in arrays.items()}
        yield from turned_claims(proposal.angles, rows, have, dtype)
        return
    try:
        document = tables(proposal.request.with_parameters(dtype="float64"))
    except InvalidParameters:
        try:
            document = tables(proposal.request)
        except InvalidParameters:
            return
    found = matched(document, question, proposal)
    if found is None or any(table.dtype.name not in REAL_DTYPES for table in found.values()):
        return
    wide = {name: TableRows(found[name], arrays[name].values.shape[1], None) for name in arrays}
    peaks = {name: _peak(array.values) for name, array in arrays.items()}
    yield from computed_claims(wide, peaks, dtype, _roundings(proposal.request.resource))


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


def _looked(looked: SampledMatch) -> SampledMatch:
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
    if not isinstance(claim, EmulationClaim):
        return True
    double = next(each for each in claims if each.arithmetic is FLOAT64_ARITHMETIC)
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


# So few numbers are wrong, where nearly all are those of exacter arithmetic.
_FEW = 1e-4

# Smaller than any number of any type, and no zero.
_LEAST_SIZE = 5e-324

Position: TypeAlias = float | tuple[float, ...] | None


@dataclass(frozen=True)
class FirstMismatch:
    """Where an array is no longer what the best arithmetic makes of a table.

    Attributes:
        array: its name.
        index: where, in the array as it was sent.
        row: the row of the table.
        position: of that row, where it has one.
        channel: where along the last axis of the table.
        yours, expected: the number there, and that of the table.
        allowed: how far the best arithmetic lets it be from what it makes.
    """

    array: str
    index: tuple[int, ...]
    row: int
    position: Position
    channel: int
    yours: float
    expected: float
    allowed: float

    @property
    def error(self) -> float:
        """How far the number is from that of the table."""
        return abs(self.yours - self.expected)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What became of a proposal.

    Attributes:
        proposal: what was proposed.
        document: the table.
        arithmetic: what explains every number, the most exact first; none where nothing does.
        max_absolute: how far numbers are from those of the table at most.
        max_ulp: the same in steps of the array's type at the larger of both; None for integers.
        index: where they are farthest, in the array as it was sent.
        position: of that row, where it has one.
        agreeing: the share of numbers that the best arithmetic explains.
        leaves_at: the first that it does not.
    """

    proposal: Proposal
    document: Document
    arithmetic: tuple[Arithmetic, ...]
    max_absolute: float
    max_ulp: float | None
    index: tuple[int, ...]
    position: Position
    agreeing: float
    leaves_at: FirstMismatch | None

    @property
    def holds(self) -> bool:
        """Tell whether the array is this table."""
        return bool(self.arithmetic)


def verify(question: IdentifyInput, proposal: Proposal, tables: Tables) -> Verdict | None:
    """Hold an array to the table proposed; None where there is no such table of that shape."""
    looked = glance(question, proposal, tables)
    return None if looked is None else verdict_of(looked)


@dataclass(eq=False)
class _Standing:
    """How far a claim has come: the numbers that it explains, and the first that it does not."""

    claim: Claim
    explained: int = 0
    failed: tuple[str, int, int] | None = None


def verdict_of(looked: SampledMatch) -> Verdict:
    """Go through all rows, some at a time, and see which claims are left."""
    standings = [_Standing(claim) for claim in looked.claims]
    farthest: tuple[float, str, int, int] = (0.0, next(iter(looked.arrays)), 0, 0)
    max_ulp, total = 0.0, 0
    for rows, have, exact in _blocks(looked):
        for name in have:
            total += have[name].size
            dtype = looked.arrays[name].sample.element_dtype
            error, ulps = _errors(have[name], exact[name], dtype)
            at = np.unravel_index(int(np.argmax(error)), error.shape)
            if error[at] > farthest[0]:
                farthest = (float(error[at]), name, int(rows[at[0]]), int(at[1]))
            max_ulp = max(max_ulp, ulps)
        for standing in standings:
            _advance(standing, rows, have, exact)
    kept = _borne_out(standings, total)
    best = max(
        standings, key=lambda each: (each in kept or each.failed is not None, each.explained)
    )
    size, name, row, channel = farthest
    is_integer = looked.arrays[name].sample.dtype in INTEGERS
    return Verdict(
        looked.proposal,
        looked.document,
        plainest(tuple(standing.claim.arithmetic for standing in kept)),
        size,
        None if is_integer else max_ulp,
        looked.arrays[name].index(row, channel),
        _position(looked, row),
        best.explained / total,
        None if kept else _departure(looked, best),
    )


def _borne_out(standings: list[_Standing], total: int) -> list[_Standing]:
    """List the claims that explain every number.

    Float32 in steps does not, where a tighter claim explains all but a few in ten thousand: steps
    that engines take in another way move every large angle, not one.
    """
    kept = [standing for standing in standings if standing.failed is None]
    tight = [each for each in standings if each.claim.arithmetic.rank < FLOAT32_STEPS.rank]
    nearly = max((each.explained for each in tight), default=0)
    if nearly < total and nearly >= total * (1 - _FEW):
        return []
    return kept


def _blocks(
    looked: SampledMatch,
) -> Iterator[tuple[np.ndarray, Mapping[str, Float64s], Mapping[str, Float64s]]]:
    """Give rows of the arrays and of the tables, some at a time."""
    width = max(array.values.shape[1] for array in looked.arrays.values())
    for step in row_steps(looked.row_count, width):
        rows = np.arange(step.start, step.stop)
        have = {name: array.values[step] for name, array in looked.arrays.items()}
        yield rows, have, {name: table.read(rows) for name, table in looked.tables.items()}


def _errors(have: Float64s, exact: Float64s, dtype: DType) -> tuple[Float64s, float]:
    """Give how far numbers are from those of a table, and how many steps of a type at most."""
    with np.errstate(invalid="ignore"):
        error = np.where(have == exact, 0.0, np.abs(have - exact))
    error = np.nan_to_num(error, nan=np.inf, posinf=np.inf)
    if dtype in INTEGERS:
        return error, 0.0
    larger = np.maximum(np.abs(exact), np.abs(have))
    larger = np.where(np.isfinite(larger), larger, 1.0)
    share = error / np.maximum(larger, _LEAST_SIZE)
    # A step is half as large as another in numbers of one size at least: the others are fewer.
    most = share >= share.max() / 2
    return error, float((error[most] / spacing(larger[most], dtype)).max())


def _advance(
    standing: _Standing,
    rows: np.ndarray,
    have: Mapping[str, Float64s],
    exact: Mapping[str, Float64s],
) -> None:
    for name in have:
        good = agrees(standing.claim, name, rows, have[name], exact[name])
        standing.explained += int(np.count_nonzero(good))
        if standing.failed is None and not good.all():
            row, channel = np.unravel_index(int(np.argmin(good)), good.shape)
            standing.failed = (name, int(rows[row]), int(channel))


def _departure(looked: SampledMatch, standing: _Standing) -> FirstMismatch | None:
    if standing.failed is None:
        return None
    name, row, channel = standing.failed
    rows = np.array([row])
    array = looked.arrays[name]
    exact = looked.tables[name].read(rows)
    _, allowed = standing.claim.predict(name, rows, exact)
    return FirstMismatch(
        name,
        array.index(row, channel),
        row,
        _position(looked, row),
        channel,
        float(array.values[row, channel]),
        float(exact[0, channel]),
        float(allowed[0, channel]),
    )


def _position(looked: SampledMatch, row: int) -> Position:
    turning = looked.proposal.angles
    if turning is None or len(turning.coordinates) != looked.row_count:
        return None
    place = [float(part) for part in turning.coordinates[row]]
    return place[0] if len(place) == 1 else tuple(place)
