"""Compare an array with a proposed table, and find the arithmetic in which it was made.

``compared`` looks at some rows, ``verdict_of`` at every number: which arithmetic gives all of them,
or which number is the first that none gives. Tables of sines and cosines are compared with the
waves of their document (``explanation.arithmetic``), others with a few roundings of their numbers.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import (
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
from service.analysis.explanation.arithmetic import (
    EXACT,
    IN_FLOAT32,
    IN_FLOAT64,
    NARROW_PARTS,
    Arithmetic,
    Fit,
    Narrowing,
    Waves,
    fit_of,
    is_possible,
)
from service.analysis.explanation.measured import UNIT
from service.analysis.explanation.sampling import sampled_rows
from service.analysis.explanation.views import HALF_STEP, View, step_bound
from service.analysis.families.requests import decimal_digits, real_values
from service.analysis.identification.structures import (
    ArrayRows,
    TableWaves,
    matching_tables,
    waves_of,
)
from service.analysis.precision import spacing
from service.errors import InvalidParameters
from service.numerics.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT64,
    REAL_DTYPES,
    DType,
    rounding_bound,
)
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices
from service.numerics.tables import Document, Table, row_steps

# Resources with float32 errors relative to each element (products, powers and logarithms); and
# resources of log(1 + x) with small x, with float32 errors relative to the largest element.
_RELATIVE = ("frequencies", "slopes", "alibi", "swin-v2")
_NEARLY_RELATIVE = ("kerple", "fire", "dynamic")
# The roundings of a sum in float32, relative to the largest element; of log(1 + x); of a float32
# frequency, whose exponent of up to 16 is rounded two or three times; in float64.
_SUMMED, _FEW, _POWERS = 16 * UNIT, 2 * UNIT, 32 * UNIT
_FLOAT64_LOSS = 32 * HALF_STEP[FLOAT64]

_SMALLEST_POSITIVE = 5e-324
# A number further off than this is not that of another arithmetic, but of another table.
_MAX_TOLERANCE = 0.125
# The largest error of an angle, in radians, in which other tables still differ: of a type that
# shows it, and of a narrow one.
_MAX_ANGLE_ERROR, _MAX_NARROW_ERROR = 2.0**-6, 2.0**-5
# A listed number of more digits was measured: looser arithmetics would absorb its error.
_PLAIN_DIGITS = 4
# Of a number of a list, a product with it, its reciprocal, and the frequency, in float32.
_FEW_ROUNDINGS = 4 * UNIT
# Of a table that is not the array, the exact bounds count where they hold for nearly as many.
_NEARLY = 0.99

Bools = NDArray[np.bool_]


class Block(NamedTuple):
    """Rows of an array: its name, their indices, their values, and those of the table, (S, C)."""

    name: str
    rows: Indices
    values: Float64s
    expected: Float64s


@dataclass(frozen=True, eq=False)
class Claim:
    """The claim that an array is its table, made in an arithmetic.

    Attributes:
        arithmetic: the arithmetic.
        waves: the waves that it gives; None of other tables, and of exact ones.
        fit: how the arithmetic makes the angles of waves, if it gives all that were sampled.
        relative, absolute: the errors allowed of an element: relative to it, and by array name.
        wide: the table in float64, by array name, where elements are compared with its numbers.
    """

    arithmetic: Arithmetic
    waves: Waves | None = None
    fit: Fit | None = None
    relative: float = 0.0
    absolute: Mapping[str, float] | None = None
    wide: Mapping[str, Table] | None = None


_EQUAL = Claim(EXACT)


@dataclass(frozen=True, eq=False)
class TableMatch:
    """A proposed table beside the submitted arrays.

    Attributes:
        proposal: the proposal.
        document: the proposed table.
        arrays: each submitted array beside its table, by array name.
        waves: the sines and cosines of the table, if it has no other numbers.
        claims: the claims that explain every sampled element; else the one that explains most.
        agreeing: the fraction of the sampled elements that it explains, 0 to 1.
    """

    proposal: Proposal
    document: Document
    arrays: Mapping[str, ArrayRows]
    waves: TableWaves | None
    claims: tuple[Claim, ...] = ()
    agreeing: float = 0.0

    @property
    def key(self) -> Hashable:
        """The structure that the numbers of its table follow from; only for waves."""
        assert self.waves is not None
        return self.waves.key, self.proposal.is_transposed

    @property
    def row_count(self) -> int:
        return len(next(iter(self.arrays.values())).values)

    @property
    def dtype(self) -> DType:
        return next(iter(self.arrays.values())).sample.element_dtype

    def position(self, row: int) -> Position:
        """Return the position of a row, a number or a tuple of coordinates; None if unknown."""
        return None if self.waves is None else self.waves.position(row)

    def agreement(self, claim: Claim, block: Block) -> tuple[Bools, Float64s]:
        """Return which elements of rows of an array agree, (S, C), and the errors allowed."""
        name, rows, values, expected = block
        predicted, allowed = self._bounds(claim, block)
        with np.errstate(invalid="ignore"):
            agrees = np.abs(values - predicted) <= allowed
        agrees |= values == predicted
        if claim.fit is not None and claim.waves is not None and self.waves is not None:
            # Of copies, the first of each.
            view = next(_views_of(self.waves, name, values, self.dtype))
            bad = claim.fit.mismatches(view, claim.waves.at(rows), self.dtype)
            of_part = dict(zip((view.cosine is None, True), bad, strict=False))
            frequency, is_sine = self.waves.channels[name]
            is_bad = np.zeros(agrees.shape, dtype=np.bool_)
            for own, part in of_part.items():
                is_bad[:, is_sine == own] = part[:, frequency[is_sine == own]]
            is_bad[~expected.any(axis=1)] = False
            if self.waves.zeros:
                is_bad[:, -self.waves.zeros :] = False
            agrees &= ~is_bad
            if claim.fit.omega is not None:
                fixed = 4 * UNIT * abs(claim.waves.scale) + self.waves.slack
                allowed = step_bound(expected, self.dtype) + fixed
        return agrees, allowed

    def _bounds(self, claim: Claim, block: Block) -> tuple[Float64s, Float64s]:
        dtype = self.dtype
        name, rows, _, expected = block
        if claim.waves is not None:
            assert self.waves is not None
            return _wave_bounds(claim, self.waves, block, dtype)
        if claim.wide is None or claim.absolute is None:
            return expected, np.zeros_like(expected)
        values = read_rows(rows, claim.wide[name], expected.shape[1])
        sizes = np.where(np.isfinite(values), np.abs(values), 0.0)
        allowed = claim.relative * sizes + claim.absolute[name]
        allowed += (sizes + allowed) * rounding_bound(dtype, 1.0) + rounding_bound(dtype, 0.0)
        return values, np.where(np.isfinite(values), allowed, 0.0)


def _wave_bounds(
    claim: Claim, table: TableWaves, block: Block, dtype: DType
) -> tuple[Float64s, Float64s]:
    """Return the elements of rows that waves give, (S, C), and the error allowed of each."""
    name, rows, _, expected = block
    assert claim.waves is not None
    waves = claim.waves.at(rows)
    frequency, is_sine = table.channels[name]
    cosines, sines = waves.values
    predicted = np.where(is_sine, sines[:, frequency], cosines[:, frequency])
    loose = _loose(claim.arithmetic, waves, dtype)
    allowed = step_bound(predicted, dtype) * (0.5 if dtype is FLOAT64 else 1.0) + table.slack
    allowed += loose if isinstance(loose, float) else loose[:, frequency]
    if table.zeros:
        predicted[:, -table.zeros :] = allowed[:, -table.zeros :] = 0.0
    is_zero = ~expected.any(axis=1)
    predicted[is_zero] = allowed[is_zero] = 0.0
    return predicted, allowed


def _loose(arithmetic: Arithmetic, waves: Waves, dtype: DType) -> Float64s | float:
    """Return the error that an arithmetic may add to each sine and cosine, (S, K)."""
    narrow, scale = waves.narrowing, abs(waves.scale)
    if arithmetic is IN_FLOAT64:
        exact: Float64s = (waves.far * _FLOAT64_LOSS + _FLOAT64_LOSS) * scale
        return exact
    if arithmetic is EXACT:
        return 2 * UNIT * scale
    products = 2 * np.arange(len(waves.omega)) + 2
    error = waves.far * (waves.share + products * UNIT)
    if arithmetic is IN_FLOAT32 and dtype in {BFLOAT16, FLOAT16}:
        error = waves.far * waves.share
    if narrow is not None:
        error = waves.far * UNIT * (products + 4 + waves.stiffness)
        if narrow.part == "angles":
            error = np.zeros_like(error)
        elif narrow.part == "throughout":
            error = np.full_like(error, 2 * HALF_STEP[narrow.dtype])
    loose: Float64s = np.minimum(error + 4 * UNIT, _MAX_TOLERANCE) * scale
    return loose


@dataclass(frozen=True, eq=False)
class Verdict:
    """The result of comparing all rows of an array with a proposed table.

    Attributes:
        proposal: the proposal.
        document: the proposed table.
        arithmetic: the arithmetic that reproduces every element, if one does.
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
        """True if an arithmetic reproduces every element of the array."""
        return bool(self.arithmetic)


def compared(
    inputs: IdentifyInput,
    proposal: Proposal,
    tables: Tables,
    known: dict[Hashable, TableMatch] | None = None,
) -> TableMatch | None:
    """Compare some rows of the submitted arrays with a proposed table.

    Return None if the request for the table is refused, or if the shapes differ.

    Args:
        inputs: the submitted arrays.
        proposal: the proposal.
        tables: computes the table of a request.
        known: earlier matches by their keys, to which this one is added: equal tables are compared
            once.
    """
    try:
        document = tables(proposal.request)
    except InvalidParameters:
        return None
    by_name = matching_tables(document, inputs, proposal)
    if by_name is None:
        return None
    waves = None if inputs.sample.is_integer else waves_of(by_name)
    count = None if waves is None else len(waves.waves.places)
    arrays = {
        name: ArrayRows.of(sample, by_name[name], count, is_transposed=proposal.is_transposed)
        for name, sample in inputs.arrays.items()
    }
    match = TableMatch(proposal, document, arrays, waves)
    if waves is None or known is None:
        return _with_claims(match, inputs, tables)
    key = inputs.sample.element_dtype, match.key
    if key not in known:
        known[key] = _with_claims(match, inputs, tables)
    return replace(known[key], proposal=proposal, document=document)


def _with_claims(match: TableMatch, inputs: IdentifyInput, tables: Tables) -> TableMatch:
    rows = sampled_rows(match.row_count)
    share = _share(match, _EQUAL, rows)
    if share == 1 or inputs.sample.is_integer:
        return replace(match, claims=(_EQUAL,), agreeing=share)
    if match.waves is not None:
        claim = _wave_claim(match, rows)
        if claim is not None:
            return replace(match, claims=(claim,), agreeing=1.0)
    tried = [_EQUAL, *_other_claims(match, inputs, tables)]
    shares = [share, *(_share(match, each, rows) for each in tried[1:])]
    if match.waves is None and max(shares) == 1:
        kept = tuple(each for each, own in zip(tried, shares, strict=True) if own == 1)
        return replace(match, claims=kept, agreeing=1.0)
    # Bounds that no arithmetic meets do not count where they hold for all numbers.
    pairs = [(each, own) for each, own in zip(tried, shares, strict=True) if own < 1]
    best = max(own for _, own in pairs)
    chosen, share = next(each for each in pairs if each[1] >= _NEARLY * best)
    return replace(match, claims=(chosen,), agreeing=share)


def _share(match: TableMatch, claim: Claim, rows: Indices) -> float:
    shares = []
    for name, array in match.arrays.items():
        block = Block(name, rows, array.values[rows], array.expected(rows))
        mask, _ = match.agreement(claim, block)
        shares.append(float(mask.mean()))
    return float(np.mean(shares))


def _wave_claim(match: TableMatch, rows: Indices) -> Claim | None:
    """Return the claim of the arithmetic that gives every sampled number; None if none does."""
    table = match.waves
    assert table is not None
    # Rows of padding are compared with the table.
    live = [array.values[rows].any(axis=1) for array in match.arrays.values()]
    rows = rows[np.logical_or.reduce(live)]
    views = list(_views(match, rows))
    waves = table.waves.at(rows)
    dtype, is_measured = match.dtype, _is_measured(match.proposal.request)
    for narrowing in (None, *_narrowings(dtype)):
        own = waves if narrowing is None else replace(waves, narrowing=narrowing)
        few = slice(0, 16)
        if not all(is_possible(view.at(few), own.at(few), dtype) for view in views):
            continue
        found = [fit_of(view, own, dtype) for view in views]
        fits = [each for each in found if each is not None]
        if len(fits) < len(found):
            continue
        fit = max(fits, key=lambda each: rank(each.arithmetic))
        if dtype is FLOAT64 and fit.arithmetic is EXACT and not _is_wide(views, own):
            fit = Fit(IN_FLOAT32)
        claim = Claim(fit.arithmetic, replace(table.waves, narrowing=narrowing), fit)
        if _is_tight(claim, dtype) and not (is_measured and _may_absorb(claim)):
            return claim
    return None


def _is_measured(request: TableRequest) -> bool:
    """Return whether a list has numbers of so many digits that they were measured in an array."""
    lists = (value for value in request.parameters.values() if isinstance(value, tuple))
    return any(decimal_digits(each) > _PLAIN_DIGITS for own in lists for each in real_values(own))


def _may_absorb(claim: Claim) -> bool:
    """Return whether an arithmetic allows other frequencies than those of its waves."""
    if claim.arithmetic in {EXACT, IN_FLOAT64}:
        return False
    waves, fit = claim.waves, claim.fit
    if waves is None or waves.narrowing is not None or fit is None or fit.omega is None:
        return True
    return not np.allclose(fit.omega, waves.omega, rtol=_FEW_ROUNDINGS, atol=0)


def _is_wide(views: list[View], waves: Waves) -> bool:
    """Return whether numbers are as near as those of float64, and not just those of float32."""
    allowed = _FLOAT64_LOSS * (1 + waves.far)
    return all(
        bool((np.abs(part - value[:, : part.shape[1]]) <= allowed[:, : part.shape[1]]).all())
        for view in views
        for part, value in zip((view.cosine, view.sine), waves.values, strict=True)
        if part is not None
    )


def _is_tight(claim: Claim, dtype: DType) -> bool:
    """Return whether the errors allowed of angles are small enough to exclude other tables."""
    waves = claim.waves
    assert waves is not None
    if claim.arithmetic in {EXACT, IN_FLOAT64} or waves.narrowing is not None:
        return True
    is_narrow = dtype in {BFLOAT16, FLOAT16}
    if claim.arithmetic is IN_FLOAT32 and not is_narrow:
        return True
    most = _MAX_NARROW_ERROR if is_narrow else _MAX_ANGLE_ERROR
    return bool((waves.far * waves.share).max(initial=0) <= most)


def _narrowings(dtype: DType) -> Iterator[Narrowing]:
    if dtype is FLOAT64:
        return
    for narrow in (dtype,) if dtype in {BFLOAT16, FLOAT16} else (BFLOAT16, FLOAT16):
        yield from (Narrowing(narrow, part) for part in NARROW_PARTS)


_RANKS = {"exact": 0, "float64": 1, "float32": 2, "iterated": 3, "float32-steps": 4}
_NARROW_RANK = 5


def rank(arithmetic: Arithmetic) -> int:
    """Return 0 for the exact arithmetic, and more the less exact it is."""
    return _RANKS.get(
        arithmetic.name,
        _NARROW_RANK + NARROW_PARTS.index(arithmetic.name.partition("-")[2])
        if "-" in arithmetic.name and arithmetic.name not in _RANKS
        else _NARROW_RANK,
    )


def _views(match: TableMatch, rows: Indices) -> Iterator[View]:
    """Yield the sampled rows of the arrays as cosines and sines; of copies, one view each."""
    table = match.waves
    assert table is not None
    parts = [
        list(_views_of(table, name, array.values[rows], match.dtype))
        for name, array in match.arrays.items()
    ]
    if len(parts) == 1:
        yield from parts[0]
        return
    # Where the copies of one array are equal, its only view goes with both views of the other.
    for number in range(max(map(len, parts))):
        cosines, sines = (views[min(number, len(views) - 1)] for views in parts)
        first, other = (cosines, sines) if cosines.sine is None else (sines, cosines)
        yield View(first.cosine, other.sine, match.dtype, "", slack=table.slack)


def _views_of(table: TableWaves, name: str, values: Float64s, dtype: DType) -> Iterator[View]:
    """Yield rows of an array as cosines and sines; copies that differ are another view."""
    columns = table.columns(name)
    firsts = [values[:, own] if len(own) else None for own in (columns.cosine, columns.sine)]
    yield View(firsts[0], firsts[1], dtype, "", slack=table.slack)
    if len(columns.copies):
        again = dict(columns.copies.tolist())
        cosine, sine = (
            values[:, [again.get(each, each) for each in own.tolist()]] if len(own) else None
            for own in (columns.cosine, columns.sine)
        )
        if not all(
            one is None or other is None or np.array_equal(one, other)
            for one, other in zip(firsts, (cosine, sine), strict=True)
        ):
            yield View(cosine, sine, dtype, "", slack=table.slack)


def _other_claims(match: TableMatch, inputs: IdentifyInput, tables: Tables) -> Iterator[Claim]:
    """Yield the loosest claim about waves, or claims about roundings in float64 and float32."""
    if match.waves is not None:
        yield Claim(IN_FLOAT64 if match.dtype is FLOAT64 else EXACT, match.waves.waves)
        yield Claim(IN_FLOAT32, match.waves.waves)
        return
    document = float64_document(match.proposal.request, tables)
    wide = None if document is None else matching_tables(document, inputs, match.proposal)
    if wide is None or any(table.dtype.name not in REAL_DTYPES for table in wide.values()):
        return
    resource = match.proposal.request.resource
    loss = _SUMMED
    if resource.endswith(_RELATIVE):
        loss = 0.0
    elif resource.endswith(_NEARLY_RELATIVE):
        loss = _FEW
    sizes = {
        name: float(np.abs(sample.values).max(where=np.isfinite(sample.values), initial=0.0))
        for name, sample in inputs.arrays.items()
    }
    share = loss / _SUMMED
    for arithmetic, relative, largest in (
        (IN_FLOAT64, _FLOAT64_LOSS, _FLOAT64_LOSS * share),
        (IN_FLOAT32, _POWERS if share < 1 else 0.0, loss),
    ):
        absolute = {name: largest * size for name, size in sizes.items()}
        yield Claim(arithmetic, None, None, relative, absolute, wide)


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


@dataclass(eq=False)
class _Progress:
    """A count of the elements that a claim explains so far, and the first that it does not."""

    claim: Claim
    explained: int = 0
    failed: tuple[str, int, int, float] | None = None


def verdict_of(match: TableMatch, inputs: IdentifyInput, tables: Tables) -> Verdict:
    """Compare all rows, in blocks, and return whether an arithmetic reproduces every element.

    Args:
        match: the table beside the arrays, of which some rows were compared.
        inputs: the submitted arrays.
        tables: computes the table of a request.
    """
    verdict = _verdict_of(match)
    if verdict.matches or match.agreeing < 1 or match.claims != (_EQUAL,):
        return verdict
    # All sampled rows are equal. A few of the others may be numbers of float64 that lie almost
    # midway between two numbers of the type, and were rounded to the other one.
    claims = tuple(islice(_other_claims(match, inputs, tables), 1))
    return _verdict_of(replace(match, claims=claims)) if claims else verdict


def _verdict_of(match: TableMatch) -> Verdict:
    progress = [_Progress(claim) for claim in match.claims]
    farthest: tuple[float, str, int, int] = (0.0, next(iter(match.arrays)), 0, 0)
    max_ulp = 0.0
    width = max(array.values.shape[1] for array in match.arrays.values())
    for step in row_steps(match.row_count, width):
        rows = np.arange(step.start, step.stop)
        for name, array in match.arrays.items():
            values, expected = array.values[rows[0] : rows[-1] + 1], array.expected(rows)
            if np.array_equal(values, expected):
                for each in progress:
                    each.explained += values.size
                continue
            error = absolute_errors(values, expected)
            at = np.unravel_index(int(np.argmax(error)), error.shape)
            if error[at] > farthest[0]:
                farthest = (float(error[at]), name, int(rows[at[0]]), int(at[1]))
            if not array.sample.is_integer:
                max_ulp = max(max_ulp, _largest_ulp(error, array.sample, values, expected))
            for each in progress:
                _add_rows(each, match, Block(name, rows, values, expected))
    total = sum(array.values.size for array in match.arrays.values())
    complete = [each for each in progress if each.failed is None and match.agreeing == 1]
    best = max(progress, key=lambda each: (each in complete, each.explained))
    max_absolute, name, row, channel = farthest
    return Verdict(
        match.proposal,
        match.document,
        tuple(each.claim.arithmetic for each in complete[:1]),
        max_absolute,
        None if match.arrays[name].sample.is_integer else max_ulp,
        match.arrays[name].index(row, channel),
        match.position(row),
        best.explained / total,
        None if complete or best.failed is None else _first_mismatch(match, best.failed),
    )


def _add_rows(progress: _Progress, match: TableMatch, block: Block) -> None:
    mask, allowed = match.agreement(progress.claim, block)
    progress.explained += int(np.count_nonzero(mask))
    if progress.failed is None and not mask.all():
        row, channel = (int(each) for each in np.unravel_index(np.argmin(mask), mask.shape))
        error = float(allowed[row, channel])
        progress.failed = (block.name, int(block.rows[row]), channel, error)


def _largest_ulp(error: Float64s, sample: Sample, submitted: Float64s, expected: Float64s) -> float:
    """Return the largest error in ulps of max(|submitted|, |expected|) in the array's dtype."""
    larger = np.maximum(np.abs(expected), np.abs(submitted))
    larger = np.where(np.isfinite(larger), larger, 1.0)
    share = error / np.maximum(larger, _SMALLEST_POSITIVE)
    # An ulp is between eps/2 and eps times its number: only errors with a relative size of at
    # least half the maximum can be the largest in ulps.
    most = share >= share.max() / 2
    return float((error[most] / spacing(larger[most], sample.element_dtype)).max())


def _first_mismatch(match: TableMatch, failed: tuple[str, int, int, float]) -> FirstMismatch:
    name, row, channel, allowed = failed
    array = match.arrays[name]
    expected = array.expected(np.array([row]))[0, channel]
    value = float(array.values[row, channel])
    index = array.index(row, channel)
    position = match.position(row)
    return FirstMismatch(name, index, value, float(expected), allowed, position, channel)
