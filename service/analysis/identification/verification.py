"""Compare an array with a proposed table under several float arithmetics.

``sample_match`` compares at most ``SAMPLED_ROWS`` rows and keeps the claims that explain every
element of them. ``verdict_of`` compares all rows: it finds the arithmetics that reproduce every
element, or the first element that the best arithmetic does not reproduce.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.array import (
    COMPONENT_DTYPES,
    AngleModel,
    FirstMismatch,
    IdentifyInput,
    Position,
    Proposal,
    Sample,
    TableRequest,
    Tables,
    read_rows,
)
from service.analysis.comparison import absolute_errors
from service.analysis.identification.arithmetic import (
    EMULATION_LOSS,
    EXACT,
    FLOAT32_ARITHMETIC,
    FLOAT32_FREQUENCY_LOSS,
    FLOAT32_LOSS,
    FLOAT32_STEPS,
    FLOAT64_ARITHMETIC,
    Arithmetic,
    Claim,
    ExactClaim,
    RoundingClaim,
    RowsByName,
    angle_claims,
    exact_emulation,
    without_looser,
)
from service.analysis.precision import rounded, spacing
from service.errors import InvalidParameters
from service.numerics.dtypes import INDEX_DTYPES, REAL_DTYPES
from service.numerics.phase import Float64s
from service.numerics.tables import Document, Table, row_steps

SAMPLED_ROWS = 48

# Resources with float32 errors relative to each element (products, powers and logarithms); and
# resources of log(1 + x) with small x, with float32 errors relative to the largest element.
_RELATIVE = ("frequencies", "slopes", "alibi", "swin-v2")
_NEARLY_RELATIVE = ("kerple", "fire", "dynamic")
# The error of tables of sums, also of sines, in float32 roundings of the largest element.
_SUMMED_ROUNDINGS = 16

# If at most this fraction of an array's elements differs from a table, they count as corrupted.
_FEW = 1e-4

_SMALLEST_POSITIVE = 5e-324


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """A submitted array and its proposed table, both read as rows of equal width.

    Attributes:
        sample: the submitted array.
        values: its elements in the order of the table, (rows, channels).
        is_transposed: whether the submitted array has the table's axes in reverse order.
        shape: the table's shape without axes of length 1; a complex table has a last axis of 2.
    """

    sample: Sample
    table: Table
    values: Float64s
    is_transposed: bool
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls, sample: Sample, table: Table, count: int | None, *, is_transposed: bool
    ) -> "ArrayRows":
        """Split an array into ``count`` rows; None makes a row of each run of its last axis."""
        values = sample.reals()
        if is_transposed:
            values = np.ascontiguousarray(values.T)
        rows = values.reshape(-1, values.shape[-1]) if count is None else values.reshape(count, -1)
        return cls(sample, table, rows, is_transposed, values.shape)

    def expected(self, rows: np.ndarray) -> Float64s:
        """Return the table's values at the given row indices, rounded to the array's dtype."""
        values = read_rows(rows, self.table, self.values.shape[1])
        dtype = self.sample.element_dtype
        has_integers = self.sample.is_integer or self.table.dtype.name in INDEX_DTYPES
        return values if has_integers or dtype is self.table.dtype else rounded(values, dtype)

    def index(self, row: int, channel: int) -> tuple[int, ...]:
        """Return the index, in the submitted array, of the element in this row and channel."""
        flat = row * self.values.shape[1] + channel
        index = [int(part) for part in np.unravel_index(flat, self.shape)]
        if self.is_transposed:
            index.reverse()
        if self.sample.is_complex:
            index.pop()
        remaining = iter(index)
        return tuple(0 if length == 1 else next(remaining) for length in self.sample.shape)


def matching_tables(
    document: Document, inputs: IdentifyInput, proposal: Proposal
) -> dict[str, Table] | None:
    """Return the document's table for each submitted array, by array name.

    Return None if names or shapes differ, or if one is complex and the other real.
    """
    tables = dict(document.arrays)
    if not inputs.is_pair and len(tables) == 1:
        tables = dict(zip(inputs.arrays, tables.values(), strict=True))
    if tables.keys() != inputs.arrays.keys():
        return None
    for name, sample in inputs.arrays.items():
        table, shape = tables[name], sample.values.shape
        parts = (2,) if table.dtype in COMPONENT_DTYPES else ()
        expected = tuple(length for length in (*table.shape, *parts) if length != 1) or (1,)
        if bool(parts) != sample.is_complex:
            return None
        if expected != (shape[::-1] if proposal.is_transposed else shape):
            return None
    return tables


def _angles_by_array(proposal: Proposal, inputs: IdentifyInput) -> AngleModel | None:
    """Return a proposal's angles with channels keyed by submitted array name.

    Return None if the proposal has no angles, or if array names or sizes differ.
    """
    angles, arrays = proposal.angles, inputs.arrays
    if angles is None:
        return None
    if len(angles.channels) == len(arrays) == 1:
        channels = dict(zip(arrays, angles.channels.values(), strict=True))
        angles = replace(angles, channels=channels)
    rows = len(angles.coordinates)
    sizes = {name: rows * channels.width for name, channels in angles.channels.items()}
    return angles if sizes == {name: each.values.size for name, each in arrays.items()} else None


@dataclass(frozen=True, eq=False)
class SampledMatch:
    """A proposed table, compared with some rows of the submitted arrays.

    Attributes:
        document: the proposed table.
        arrays: each submitted array beside its table, by array name.
        claims: the claims to check on all rows: see ``_with_best_claims``.
        agreeing: the fraction of the sampled elements that the best claim explains, 0 to 1.
    """

    proposal: Proposal
    document: Document
    arrays: Mapping[str, ArrayRows]
    claims: tuple[Claim, ...] = ()
    agreeing: float = 0.0

    @property
    def row_count(self) -> int:
        return len(next(iter(self.arrays.values())).values)

    def read(self, rows: np.ndarray) -> tuple[RowsByName, RowsByName]:
        """Return the submitted values and the table's values at these row indices, by array."""
        submitted = {name: array.values[rows] for name, array in self.arrays.items()}
        return submitted, {name: array.expected(rows) for name, array in self.arrays.items()}

    def position(self, row: int) -> Position:
        """Return the position of a row, a number or a tuple of coordinates; None without angles."""
        angles = self.proposal.angles
        if angles is None or len(angles.coordinates) != self.row_count:
            return None
        coordinates = [float(part) for part in angles.coordinates[row]]
        return coordinates[0] if len(coordinates) == 1 else tuple(coordinates)


@dataclass(frozen=True, eq=False)
class Verdict:
    """The result of comparing all rows of an array with a proposed table.

    Attributes:
        document: the proposed table.
        arithmetic: the arithmetics that reproduce every element, the most exact first.
        max_absolute: the largest absolute error of an element.
        max_ulp: the largest error in ulps of max(|submitted|, |expected|); None for integers.
        index: the index, in the submitted array, of the element with the largest absolute error.
        position: the position of that element's row; None if rows have no position.
        agreeing: the fraction of all elements that the best arithmetic reproduces, 0 to 1.
        first_mismatch: the first element that the best arithmetic does not reproduce, if any.
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
        """True if at least one arithmetic reproduces every element of the array."""
        return bool(self.arithmetic)


def sample_match(inputs: IdentifyInput, proposal: Proposal, tables: Tables) -> SampledMatch | None:
    """Compare some rows of the submitted arrays with a proposed table.

    Return None if the request for the table is refused, or if the shapes differ.
    """
    try:
        document = tables(proposal.request)
    except InvalidParameters:
        return None
    by_name = matching_tables(document, inputs, proposal)
    if by_name is None:
        return None
    angles = _angles_by_array(proposal, inputs)
    count = None if angles is None else len(angles.coordinates)
    arrays = {
        name: ArrayRows.of(sample, by_name[name], count, is_transposed=proposal.is_transposed)
        for name, sample in inputs.arrays.items()
    }
    match = SampledMatch(proposal, document, arrays)
    rows = sampled_rows(match.row_count)
    submitted, expected = match.read(rows)
    dtype = inputs.sample.element_dtype
    claims: list[Claim] = [ExactClaim(EXACT)]
    if inputs.sample.is_integer:
        pass
    elif angles is None:
        claims += _rounding_claims(inputs, proposal, tables)
    elif exact_emulation(angles, dtype).agreeing_share(rows, expected, expected) == 1:
        claims += angle_claims(angles, rows, submitted, dtype)
    shares = [claim.agreeing_share(rows, submitted, expected) for claim in claims]
    return _with_best_claims(match, claims, shares)


def _rounding_claims(
    inputs: IdentifyInput, proposal: Proposal, tables: Tables
) -> Iterator[RoundingClaim]:
    """Yield claims for an array that is not made of sines and cosines: float64, then float32."""
    document = float64_document(proposal.request, tables)
    wide = None if document is None else matching_tables(document, inputs, proposal)
    if wide is None or any(table.dtype.name not in REAL_DTYPES for table in wide.values()):
        return
    roundings = _SUMMED_ROUNDINGS
    if proposal.request.resource.endswith(_RELATIVE):
        roundings = 0
    elif proposal.request.resource.endswith(_NEARLY_RELATIVE):
        roundings = 2
    share = roundings / _SUMMED_ROUNDINGS
    sizes = {
        name: float(np.abs(sample.values).max(where=np.isfinite(sample.values), initial=0.0))
        for name, sample in inputs.arrays.items()
    }
    frequency_loss = FLOAT32_FREQUENCY_LOSS if share < 1 else 0.0
    for arithmetic, relative_error, largest_error in (
        (FLOAT64_ARITHMETIC, EMULATION_LOSS, EMULATION_LOSS),
        (FLOAT32_ARITHMETIC, frequency_loss, FLOAT32_LOSS),
    ):
        absolute_error = {name: largest_error * share * size for name, size in sizes.items()}
        dtype = inputs.sample.element_dtype
        yield RoundingClaim(arithmetic, wide, dtype, relative_error, absolute_error)


def float64_document(request: TableRequest, tables: Tables) -> Document | None:
    """Compute a table in float64, or in the requested dtype if float64 is refused.

    Return None if both requests are refused.
    """
    for each in (request.with_parameters(dtype="float64"), request):
        try:
            return tables(each)
        except InvalidParameters:
            continue
    return None


def sampled_rows(count: int) -> np.ndarray:
    """Return the indices of at most SAMPLED_ROWS rows: first, last and evenly spaced ones."""
    if count <= SAMPLED_ROWS:
        return np.arange(count)
    third = SAMPLED_ROWS // 3
    spread = np.linspace(0, count - 1, SAMPLED_ROWS - 2 * third).astype(np.int64)
    return np.unique(np.concatenate([np.arange(third), spread, np.arange(count - third, count)]))


def _with_best_claims(
    match: SampledMatch, claims: list[Claim], shares: list[float]
) -> SampledMatch:
    """Return the match with the claims worth checking on all rows.

    These are the claims that explain every sampled element, plus the best claim with tight bounds.
    If no claim explains everything, only the best one is kept.

    Args:
        match: the match, without claims.
        claims: all claims about it.
        shares: the fraction of the sampled elements that each claim explains.
    """
    best = least = max(shares)
    if best < 1:
        return replace(match, claims=(claims[shares.index(best)],), agreeing=best)
    # The bounds of "float32 in steps" may accept a few wrong elements: check the best claim with
    # tighter bounds as well.
    tight = [share for claim, share in zip(claims, shares, strict=True) if _is_tight(claim)]
    least = min(best, max(tight))
    kept = tuple(claim for claim, share in zip(claims, shares, strict=True) if share >= least)
    return replace(match, claims=kept, agreeing=best)


def _is_tight(claim: Claim) -> bool:
    return claim.arithmetic.rank < FLOAT32_STEPS.rank


@dataclass(eq=False)
class ClaimProgress:
    """Running count of the elements that a claim explains, and the first one it does not.

    Attributes:
        explained: number of matching elements in all rows checked so far, including rows after the
            first failure.
        failed: array name, row and channel of the first mismatch; None if there is none.
    """

    claim: Claim
    explained: int = 0
    failed: tuple[str, int, int] | None = None

    def add_rows(self, rows: np.ndarray, submitted: RowsByName, expected: RowsByName) -> None:
        """Count the elements of further rows: their indices and their values by array name."""
        for name, mask in self.claim.agreement(rows, submitted, expected).items():
            self.explained += int(np.count_nonzero(mask))
            if self.failed is None and not mask.all():
                row, channel = np.unravel_index(int(np.argmin(mask)), mask.shape)
                self.failed = (name, int(rows[row]), int(channel))


def verdict_of(match: SampledMatch) -> Verdict:
    """Compare all rows, in blocks, and return which arithmetics reproduce every element."""
    progress = [ClaimProgress(claim) for claim in match.claims]
    farthest: tuple[float, str, int, int] = (0.0, next(iter(match.arrays)), 0, 0)
    max_ulp = 0.0
    width = max(array.values.shape[1] for array in match.arrays.values())
    for step in row_steps(match.row_count, width):
        rows = np.arange(step.start, step.stop)
        submitted, expected = match.read(rows)
        for name, array in match.arrays.items():
            error = absolute_errors(submitted[name], expected[name])
            at = np.unravel_index(int(np.argmax(error)), error.shape)
            if error[at] > farthest[0]:
                farthest = (float(error[at]), name, int(rows[at[0]]), int(at[1]))
            if not array.sample.is_integer:
                max_ulp = max(
                    max_ulp, _largest_ulp(error, array.sample, submitted[name], expected[name])
                )
        for each in progress:
            each.add_rows(rows, submitted, expected)
    total = sum(array.values.size for array in match.arrays.values())
    complete = _complete(progress, total)
    best = max(
        progress, key=lambda each: (each in complete or each.failed is not None, each.explained)
    )
    max_absolute, name, row, channel = farthest
    return Verdict(
        match.proposal,
        match.document,
        without_looser(tuple(each.claim.arithmetic for each in complete)),
        max_absolute,
        None if match.arrays[name].sample.is_integer else max_ulp,
        match.arrays[name].index(row, channel),
        match.position(row),
        best.explained / total,
        None if complete else _first_mismatch(match, best),
    )


def _complete(progress: list[ClaimProgress], total: int) -> list[ClaimProgress]:
    """Return the claims that explain every element.

    Return none if a tight claim explains all but at most 1 in 10,000 elements: those elements are
    corrupted, although the wide bounds of "float32 in steps" accept them. An engine that computes
    angles in other steps would change every large angle, not a few elements.
    """
    nearly = max((each.explained for each in progress if _is_tight(each.claim)), default=0)
    if total * (1 - _FEW) <= nearly < total:
        return []
    return [each for each in progress if each.failed is None]


def _largest_ulp(error: Float64s, sample: Sample, submitted: Float64s, expected: Float64s) -> float:
    """Return the largest error in ulps.

    The ulp of an element is that of max(|submitted|, |expected|) in the array's dtype.
    """
    larger = np.maximum(np.abs(expected), np.abs(submitted))
    larger = np.where(np.isfinite(larger), larger, 1.0)
    share = error / np.maximum(larger, _SMALLEST_POSITIVE)
    # An ulp is between eps/2 and eps times its number: only errors with a relative size of at
    # least half the maximum can be the largest in ulps.
    most = share >= share.max() / 2
    return float((error[most] / spacing(larger[most], sample.element_dtype)).max())


def _first_mismatch(match: SampledMatch, best: ClaimProgress) -> FirstMismatch | None:
    if best.failed is None:
        return None
    name, row, channel = best.failed
    rows = np.array([row])
    submitted, expected = match.read(rows)
    _, allowed = best.claim.predict(rows, expected)[name]
    return FirstMismatch(
        name,
        match.arrays[name].index(row, channel),
        float(submitted[name][0, channel]),
        float(expected[name][0, channel]),
        float(allowed[0, channel]),
        match.position(row),
        channel,
    )
