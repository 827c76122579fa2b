"""Compare an array with a proposed table under several float arithmetics.

``sample_match`` compares some rows, and keeps the arithmetics that may explain the numbers.
``verdict_of`` compares all rows. It finds the arithmetics that explain every number, or the first
number that the best one does not explain.
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

# Resources whose numbers are products, powers or logarithms of their own, and those of logarithms
# of 1 plus something small, whose float32 error is that of the largest number.
_RELATIVE = ("frequencies", "slopes", "alibi", "swin-v2")
_NEARLY_RELATIVE = ("kerple", "fire", "dynamic")
# Roundings of the largest number in tables of sums, and of sums that contain sines.
_SUMMED_ROUNDINGS = 16

# At most this share of the numbers of a table is taken for corrupted.
_FEW = 1e-4

_SMALLEST_POSITIVE = 5e-324


@dataclass(frozen=True, eq=False)
class ArrayRows:
    """An array that was sent beside its proposed table, as rows of the same width.

    Attributes:
        values: the numbers of the array, (rows, channels).
        is_transposed: whether the array has its axes in reverse order.
        shape: that of the table without axes of length 1, complex numbers as two.
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
        """Split an array into ``count`` rows, or into rows of its last axis for None."""
        values = sample.reals()
        if is_transposed:
            values = np.ascontiguousarray(values.T)
        rows = values.reshape(-1, values.shape[-1]) if count is None else values.reshape(count, -1)
        return cls(sample, table, rows, is_transposed, values.shape)

    def exact(self, rows: np.ndarray) -> Float64s:
        """Return rows of the table, rounded to the type of the array."""
        numbers = read_rows(rows, self.table, self.values.shape[1])
        dtype = self.sample.element_dtype
        has_integers = self.sample.is_integer or self.table.dtype.name in INDEX_DTYPES
        return numbers if has_integers or dtype is self.table.dtype else rounded(numbers, dtype)

    def index(self, row: int, channel: int) -> tuple[int, ...]:
        """Return the index of an element in the array as it was sent."""
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
    """Pair the arrays that were sent with those of a document; None if shapes or kinds differ."""
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
    """Return the angles of a proposal with the names that were sent; None if sizes differ."""
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
    """A proposal of which some rows were compared.

    Attributes:
        document: the proposed table.
        arrays: the rows of each array.
        claims: those that explain all sampled numbers, or the best one.
        agreeing: the share of the sampled numbers that the best claim explains.
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
        """Return rows of the arrays and of the tables."""
        sent = {name: array.values[rows] for name, array in self.arrays.items()}
        return sent, {name: array.exact(rows) for name, array in self.arrays.items()}

    def position(self, row: int) -> Position:
        """Return the position of a row, where rows have one."""
        angles = self.proposal.angles
        if angles is None or len(angles.coordinates) != self.row_count:
            return None
        place = [float(part) for part in angles.coordinates[row]]
        return place[0] if len(place) == 1 else tuple(place)


@dataclass(frozen=True, eq=False)
class Verdict:
    """The comparison of all rows of an array with a proposal.

    Attributes:
        document: the proposed table.
        arithmetic: those that explain every number, the most exact first.
        max_absolute: the largest distance from the table.
        max_ulp: the same in ulps of the array's type at the larger number; None for integers.
        index: of the largest distance, in the array as it was sent.
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
        """Whether the array is this table."""
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
    angles = _angles_by_array(proposal, inputs)
    count = None if angles is None else len(angles.coordinates)
    arrays = {
        name: ArrayRows.of(sample, by_name[name], count, is_transposed=proposal.is_transposed)
        for name, sample in inputs.arrays.items()
    }
    match = SampledMatch(proposal, document, arrays)
    rows = sampled_rows(match.row_count)
    sent, exact = match.read(rows)
    dtype = inputs.sample.element_dtype
    claims: list[Claim] = [ExactClaim(EXACT)]
    if inputs.sample.is_integer:
        pass
    elif angles is None:
        claims += _rounding_claims(inputs, proposal, tables)
    elif exact_emulation(angles, dtype).agreeing_share(rows, exact, exact) == 1:
        claims += angle_claims(angles, rows, sent, dtype)
    shares = [claim.agreeing_share(rows, sent, exact) for claim in claims]
    return _with_best_claims(match, claims, shares)


def _rounding_claims(
    inputs: IdentifyInput, proposal: Proposal, tables: Tables
) -> Iterator[RoundingClaim]:
    """Yield claims on an array without angles, the most exact arithmetic first."""
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
    """Return a table in float64, or in its own type if it has no other; None if it is refused."""
    for each in (request.with_parameters(dtype="float64"), request):
        try:
            return tables(each)
        except InvalidParameters:
            continue
    return None


def sampled_rows(count: int) -> np.ndarray:
    """Choose rows to compare first: the first, the last and some spread between them."""
    if count <= SAMPLED_ROWS:
        return np.arange(count)
    third = SAMPLED_ROWS // 3
    spread = np.linspace(0, count - 1, SAMPLED_ROWS - 2 * third).astype(np.int64)
    return np.unique(np.concatenate([np.arange(third), spread, np.arange(count - third, count)]))


def _with_best_claims(
    match: SampledMatch, claims: list[Claim], shares: list[float]
) -> SampledMatch:
    """Keep the claims that explain all sampled rows, or the best one."""
    best = least = max(shares)
    if best < 1:
        return replace(match, claims=(claims[shares.index(best)],), agreeing=best)
    # The bounds of float32 in steps cover a few wrong numbers among right ones: keep the best of
    # the tighter claims as well.
    tight = [share for claim, share in zip(claims, shares, strict=True) if _is_tight(claim)]
    least = min(best, max(tight))
    kept = tuple(claim for claim, share in zip(claims, shares, strict=True) if share >= least)
    return replace(match, claims=kept, agreeing=best)


def _is_tight(claim: Claim) -> bool:
    return claim.arithmetic.rank < FLOAT32_STEPS.rank


@dataclass(eq=False)
class ClaimProgress:
    """The numbers that a claim explains so far, and the first that it does not.

    Attributes:
        explained: the count of numbers that it explains.
        failed: the name, row and channel of the first number that it does not.
    """

    claim: Claim
    explained: int = 0
    failed: tuple[str, int, int] | None = None

    def advance(self, rows: np.ndarray, sent: RowsByName, exact: RowsByName) -> None:
        for name, mask in self.claim.agreement(rows, sent, exact).items():
            self.explained += int(np.count_nonzero(mask))
            if self.failed is None and not mask.all():
                row, channel = np.unravel_index(int(np.argmin(mask)), mask.shape)
                self.failed = (name, int(rows[row]), int(channel))


def verdict_of(match: SampledMatch) -> Verdict:
    """Compare all rows, in blocks, and find the claims that explain every number."""
    progress = [ClaimProgress(claim) for claim in match.claims]
    farthest: tuple[float, str, int, int] = (0.0, next(iter(match.arrays)), 0, 0)
    max_ulp = 0.0
    width = max(array.values.shape[1] for array in match.arrays.values())
    for step in row_steps(match.row_count, width):
        rows = np.arange(step.start, step.stop)
        sent, exact = match.read(rows)
        for name, array in match.arrays.items():
            error = absolute_errors(sent[name], exact[name])
            at = np.unravel_index(int(np.argmax(error)), error.shape)
            if error[at] > farthest[0]:
                farthest = (float(error[at]), name, int(rows[at[0]]), int(at[1]))
            if not array.sample.is_integer:
                max_ulp = max(max_ulp, _largest_ulp(error, array.sample, sent[name], exact[name]))
        for each in progress:
            each.advance(rows, sent, exact)
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
    """List the claims that explain every number.

    Float32 in steps does not, where a tighter claim explains all but a few in ten thousand: other
    steps of an engine move every large angle, not one.
    """
    nearly = max((each.explained for each in progress if _is_tight(each.claim)), default=0)
    if total * (1 - _FEW) <= nearly < total:
        return []
    return [each for each in progress if each.failed is None]


def _largest_ulp(error: Float64s, sample: Sample, sent: Float64s, exact: Float64s) -> float:
    """Return the largest error in ulps of the array's type at the larger number."""
    larger = np.maximum(np.abs(exact), np.abs(sent))
    larger = np.where(np.isfinite(larger), larger, 1.0)
    share = error / np.maximum(larger, _SMALLEST_POSITIVE)
    # The ulps of numbers of one size differ by a factor of 2: only these can be the largest.
    most = share >= share.max() / 2
    return float((error[most] / spacing(larger[most], sample.element_dtype)).max())


def _first_mismatch(match: SampledMatch, best: ClaimProgress) -> FirstMismatch | None:
    if best.failed is None:
        return None
    name, row, channel = best.failed
    rows = np.array([row])
    sent, exact = match.read(rows)
    _, allowed = best.claim.predict(rows, exact)[name]
    return FirstMismatch(
        name,
        match.arrays[name].index(row, channel),
        float(sent[name][0, channel]),
        float(exact[name][0, channel]),
        float(allowed[0, channel]),
        match.position(row),
        channel,
    )
