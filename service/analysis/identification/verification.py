"""Compare an array with a proposed table under several float arithmetics.

``sample_match`` compares some rows, and keeps the arithmetics that may explain the numbers.
``verdict_of`` compares all rows, and says which arithmetics explain every number, or where the
closest one first does not.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.array import FirstMismatch, IdentifyInput, Position, Proposal, Tables
from service.analysis.identification.arithmetic import (
    FLOAT32_STEPS,
    FLOAT64_ARITHMETIC,
    Arithmetic,
    without_looser,
)
from service.analysis.identification.claims import (
    INTEGERS,
    SUMMED_ROUNDINGS,
    ArrayRows,
    Claim,
    EmulationClaim,
    ExactClaim,
    TableRows,
    agrees,
    angle_claims,
    computed_claims,
    has_angles_of,
    matching_tables,
)
from service.analysis.precision import spacing
from service.errors import InvalidParameters
from service.numerics.dtypes import REAL_DTYPES, DType
from service.numerics.phase import Float64s
from service.numerics.tables import Document, row_steps

SAMPLED_ROWS = 48

# Tables whose numbers are products, powers or logarithms of their own, and those of logarithms
# of 1 and something that may be small, which float32 makes as far off as it rounds the largest.
_RELATIVE = ("frequencies", "slopes", "alibi", "swin-v2")
_NEARLY_RELATIVE = ("kerple", "fire", "dynamic")

# A table has so few wrong numbers where nearly all are those of a more exact arithmetic.
_FEW = 1e-4

# The smallest number above 0.
_LEAST_SIZE = 5e-324

RowsByName = Mapping[str, Float64s]


@dataclass(frozen=True, eq=False)
class SampledMatch:
    """A proposal of which a few rows were compared.

    Attributes:
        proposal: the proposal.
        document: its table.
        arrays: the rows that were sent, by name.
        tables: those of the table.
        claims: that may explain the numbers.
        agreeing: the share of the sampled numbers that the best claim explains.
    """

    proposal: Proposal
    document: Document
    arrays: Mapping[str, ArrayRows]
    tables: Mapping[str, TableRows]
    claims: tuple[Claim, ...]
    agreeing: float

    @property
    def row_count(self) -> int:
        return len(next(iter(self.arrays.values())).values)


@dataclass(frozen=True, eq=False)
class Verdict:
    """A proposal that was compared with all rows.

    Attributes:
        proposal: the proposal.
        document: its table.
        arithmetic: those that explain every number, the most exact first.
        max_absolute: the largest distance from the table.
        max_ulp: the same in ulps of the array's type at the larger number; None for integers.
        index: where it is, in the array as it was sent.
        position: of that row, where rows have one.
        agreeing: the share of the numbers that the best arithmetic explains.
        first_mismatch: the first number that it does not explain.
    """

    proposal: Proposal
    document: Document
    arithmetic: tuple[Arithmetic, ...]
    max_absolute: float
    max_ulp: float | None
    index: tuple[int, ...]
    position: Position
    agreeing: float
    first_mismatch: FirstMismatch | None

    @property
    def matches(self) -> bool:
        """Return whether the array is this table."""
        return bool(self.arithmetic)


def sample_match(inputs: IdentifyInput, proposal: Proposal, tables: Tables) -> SampledMatch | None:
    """Compare some rows with a proposed table; None where there is no such table of that shape.

    Claims that fail on these rows are dropped; if all fail, the best one is kept.
    """
    try:
        document = tables(proposal.request)
    except InvalidParameters:
        return None
    by_name = matching_tables(document, inputs, proposal)
    if by_name is None:
        return None
    proposal = _with_sent_name(proposal, tuple(inputs.arrays))
    angles = proposal.angles
    if not has_angles_of(
        proposal, {name: sample.values.size for name, sample in inputs.arrays.items()}
    ):
        angles = None
    count = len(angles.coordinates) if angles is not None else None
    arrays = {
        name: ArrayRows.of(sample, count, is_transposed=proposal.is_transposed)
        for name, sample in inputs.arrays.items()
    }
    table_rows = {}
    for name, table in by_name.items():
        dtype = arrays[name].sample.element_dtype
        is_of_dtype = dtype in INTEGERS or table.dtype is dtype
        width = arrays[name].values.shape[1]
        table_rows[name] = TableRows(table, width, None if is_of_dtype else dtype)
    claims: list[Claim] = [ExactClaim()]
    element_dtype = inputs.sample.element_dtype
    if element_dtype not in INTEGERS and angles is not None:
        rows = sampled_rows(len(angles.coordinates))
        have = {name: array.values[rows] for name, array in arrays.items()}
        claims += angle_claims(angles, rows, have, element_dtype)
    elif element_dtype not in INTEGERS:
        claims += _claims_without_angles(inputs, proposal, tables, arrays)
    return _with_best_claims(
        SampledMatch(proposal, document, arrays, table_rows, tuple(claims), 0.0)
    )


def _with_sent_name(proposal: Proposal, names: tuple[str, ...]) -> Proposal:
    """Rename the single predicted array to the name of the single array that was sent."""
    angles = proposal.angles
    if angles is None or len(angles.channels) != 1 or len(names) != 1:
        return proposal
    channels = dict(zip(names, angles.channels.values(), strict=True))
    return replace(proposal, angles=replace(angles, channels=channels))


def _claims_without_angles(
    inputs: IdentifyInput, proposal: Proposal, tables: Tables, arrays: Mapping[str, ArrayRows]
) -> Iterator[Claim]:
    try:
        document = tables(proposal.request.with_parameters(dtype="float64"))
    except InvalidParameters:
        # The table has a type of its own.
        document = tables(proposal.request)
    by_name = matching_tables(document, inputs, proposal)
    if by_name is None or any(table.dtype.name not in REAL_DTYPES for table in by_name.values()):
        return
    wide = {name: TableRows(by_name[name], arrays[name].values.shape[1], None) for name in arrays}
    peaks = {name: _peak(array.values) for name, array in arrays.items()}
    roundings = SUMMED_ROUNDINGS
    if proposal.request.resource.endswith(_RELATIVE):
        roundings = 0
    elif proposal.request.resource.endswith(_NEARLY_RELATIVE):
        roundings = 2
    yield from computed_claims(wide, peaks, inputs.sample.element_dtype, roundings)


def _peak(values: Float64s) -> float:
    """Return the size of the largest finite number."""
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))


def sampled_rows(count: int) -> np.ndarray:
    """Choose rows to compare first: the first, the last and some spread between them."""
    if count <= SAMPLED_ROWS:
        return np.arange(count)
    third = SAMPLED_ROWS // 3
    spread = np.linspace(0, count - 1, SAMPLED_ROWS - 2 * third).astype(np.int64)
    return np.unique(np.concatenate([np.arange(third), spread, np.arange(count - third, count)]))


def _with_best_claims(match: SampledMatch) -> SampledMatch:
    """Keep the claims that explain all sampled rows, or the best one."""
    rows = sampled_rows(match.row_count)
    have = {name: array.values[rows] for name, array in match.arrays.items()}
    exact = {name: table.read(rows) for name, table in match.tables.items()}
    claims = [claim for claim in match.claims if _predicts_table(claim, match.claims, rows, exact)]
    shares = [_agreeing(claim, rows, have, exact) for claim in claims]
    best = max(shares)
    if best < 1:
        kept = claims[shares.index(best)]
        return replace(match, claims=(kept,), agreeing=best)
    # The bounds of float32 in steps cover a few wrong numbers among right ones: keep the best of
    # the tighter claims as well.
    tight = [
        share
        for claim, share in zip(claims, shares, strict=True)
        if claim.arithmetic.rank < FLOAT32_STEPS.rank
    ]
    least = min(best, max(tight))
    good = tuple(claim for claim, share in zip(claims, shares, strict=True) if share >= least)
    return replace(match, claims=good, agreeing=best)


def _predicts_table(
    claim: Claim, claims: tuple[Claim, ...], rows: np.ndarray, exact: RowsByName
) -> bool:
    """Return whether the angles of a claim, computed in float64, give the table itself."""
    if not isinstance(claim, EmulationClaim):
        return True
    double = next(each for each in claims if each.arithmetic is FLOAT64_ARITHMETIC)
    return _agreeing(double, rows, exact, exact) == 1


def _agreeing(claim: Claim, rows: np.ndarray, have: RowsByName, exact: RowsByName) -> float:
    """Return the share of numbers that a claim explains."""
    good = [agrees(claim, name, rows, have[name], exact[name]).mean() for name in have]
    return float(np.mean(good))


@dataclass(eq=False)
class ClaimProgress:
    """The progress of a claim: the numbers that it explains, and the first that it does not.

    Attributes:
        claim: the claim.
        explained: the count of numbers that it explains.
        failed: the name, row and channel of the first number that it does not.
    """

    claim: Claim
    explained: int = 0
    failed: tuple[str, int, int] | None = None

    def advance(self, rows: np.ndarray, have: RowsByName, exact: RowsByName) -> None:
        for name in have:
            good = agrees(self.claim, name, rows, have[name], exact[name])
            self.explained += int(np.count_nonzero(good))
            if self.failed is None and not good.all():
                row, channel = np.unravel_index(int(np.argmin(good)), good.shape)
                self.failed = (name, int(rows[row]), int(channel))


def verdict_of(match: SampledMatch) -> Verdict:
    """Compare all rows, some at a time, and find the claims that explain every number."""
    progress = [ClaimProgress(claim) for claim in match.claims]
    farthest: tuple[float, str, int, int] = (0.0, next(iter(match.arrays)), 0, 0)
    max_ulp, total = 0.0, 0
    for rows, have, exact in _blocks(match):
        for name in have:
            total += have[name].size
            dtype = match.arrays[name].sample.element_dtype
            error, ulps = _errors(have[name], exact[name], dtype)
            at = np.unravel_index(int(np.argmax(error)), error.shape)
            if error[at] > farthest[0]:
                farthest = (float(error[at]), name, int(rows[at[0]]), int(at[1]))
            max_ulp = max(max_ulp, ulps)
        for each in progress:
            each.advance(rows, have, exact)
    complete = _complete(progress, total)
    best = max(
        progress, key=lambda each: (each in complete or each.failed is not None, each.explained)
    )
    size, name, row, channel = farthest
    is_integer = match.arrays[name].sample.dtype in INTEGERS
    return Verdict(
        match.proposal,
        match.document,
        without_looser(tuple(each.claim.arithmetic for each in complete)),
        size,
        None if is_integer else max_ulp,
        match.arrays[name].index(row, channel),
        _position(match, row),
        best.explained / total,
        None if complete else _first_mismatch(match, best),
    )


def _complete(progress: list[ClaimProgress], total: int) -> list[ClaimProgress]:
    """List the claims that explain every number.

    Float32 in steps does not, where a tighter claim explains all but a few in ten thousand: other
    steps of an engine move every large angle, not one.
    """
    tight = [each for each in progress if each.claim.arithmetic.rank < FLOAT32_STEPS.rank]
    nearly = max((each.explained for each in tight), default=0)
    if nearly < total and nearly >= total * (1 - _FEW):
        return []
    return [each for each in progress if each.failed is None]


def _blocks(match: SampledMatch) -> Iterator[tuple[np.ndarray, RowsByName, RowsByName]]:
    """Yield the numbers of some rows, the arrays and the tables."""
    width = max(array.values.shape[1] for array in match.arrays.values())
    for step in row_steps(match.row_count, width):
        rows = np.arange(step.start, step.stop)
        have = {name: array.values[step] for name, array in match.arrays.items()}
        yield rows, have, {name: table.read(rows) for name, table in match.tables.items()}


def _errors(have: Float64s, exact: Float64s, dtype: DType) -> tuple[Float64s, float]:
    """Return the distance of each number from the table, and the largest in ulps of a type."""
    with np.errstate(invalid="ignore"):
        error = np.where(have == exact, 0.0, np.abs(have - exact))
    error = np.nan_to_num(error, nan=np.inf, posinf=np.inf)
    if dtype in INTEGERS:
        return error, 0.0
    larger = np.maximum(np.abs(exact), np.abs(have))
    larger = np.where(np.isfinite(larger), larger, 1.0)
    share = error / np.maximum(larger, _LEAST_SIZE)
    # The ulps of numbers of one size differ by a factor of 2: only these can be the largest.
    most = share >= share.max() / 2
    return error, float((error[most] / spacing(larger[most], dtype)).max())


def _first_mismatch(match: SampledMatch, best: ClaimProgress) -> FirstMismatch | None:
    if best.failed is None:
        return None
    name, row, channel = best.failed
    rows = np.array([row])
    array, exact = match.arrays[name], match.tables[name].read(rows)
    _, allowed = best.claim.predict(name, rows, exact)
    return FirstMismatch(
        name,
        array.index(row, channel),
        float(array.values[row, channel]),
        float(exact[0, channel]),
        float(allowed[0, channel]),
        _position(match, row),
        channel,
    )


def _position(match: SampledMatch, row: int) -> Position:
    angles = match.proposal.angles
    if angles is None or len(angles.coordinates) != match.row_count:
        return None
    place = [float(part) for part in angles.coordinates[row]]
    return place[0] if len(place) == 1 else tuple(place)
