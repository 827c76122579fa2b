"""Diagnose a table: the shortest list of known mistakes that turns the expected one into it.

``diagnose`` tries lists of 0, 1, 2 and 3 mistakes. A list becomes an ``Explanation``: which part of
the two tables is compared, in which order its rows and columns are, and which angles or which
factor its numbers have. ``check`` computes what an explanation predicts and compares every element.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from service.analysis.array import Sample, TableRequest
from service.analysis.diagnosis.frequency_faults import angle_faults
from service.analysis.diagnosis.mistakes import MOST_MISTAKES, Diagnosis, Mistake
from service.analysis.diagnosis.structure import (
    OrderFault,
    SizeFault,
    TableView,
    decimal_roundings,
    order_faults,
    size_faults,
    table_views,
)
from service.analysis.diagnosis.waves import (
    LEAST_FACTOR,
    AngleFault,
    Waves,
    error_weights,
    factor_mistake,
    waves_of,
)
from service.analysis.measure import EARLY_ROWS
from service.analysis.precision import narrowest_dtype, spacing
from service.numerics.dtypes import FLOAT64, INT64, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

# Engines round a frequency, its product with a position and its sine to float32, each to 2^-24 of
# it; what leads to a frequency (a power, a logarithm) may put some of its last places wrong. The
# larger the angle, the more that matters: 4 · 2^-24 of its weight (see ``error_weights``), and as
# much for the last step.
_ARITHMETIC_ERROR = 2.0**-22

_BLOCK_ELEMENTS = 2**18


@dataclass(frozen=True, eq=False)
class ArrayPair:
    """The table that was sent and the expected one, the arrays of each side by side.

    Attributes:
        have, want: rows and columns of both.
        have_dtype, want_dtype: the types to which they were rounded.
        waves: the expected table as waves, where it is made of any.
        blocks: the number of arrays.
        decimal_error: the largest error by rounding to a few decimals, 0 for none.
    """

    have: Float64s
    want: Float64s
    have_dtype: DType
    want_dtype: DType
    waves: Waves | None
    blocks: int
    decimal_error: float = 0.0

    @property
    def epsilon(self) -> float:
        """The largest rounding error of a number of size 1."""
        rounding = rounding_bound(self.have_dtype, 1.0) + rounding_bound(self.want_dtype, 1.0)
        return rounding + self.decimal_error

    def allowed(self, table: Float64s, weights: Float64s | None, scale: float) -> Float64s:
        """Bound the error of predicted elements, with the error weights of their angles."""
        steps = spacing(table, self.have_dtype) + spacing(table, self.want_dtype)
        if weights is None:
            bound: Float64s = 2 * steps + self.decimal_error
            return bound
        return steps + _ARITHMETIC_ERROR * (1 + weights) * scale + self.decimal_error


@dataclass(frozen=True, eq=False)
class Explanation:
    """A list of mistakes, and what it predicts.

    Attributes:
        mistakes: the list.
        size: the part that is compared.
        order: where the expected rows and columns are.
        waves: the expected table of that part, where it is made of waves.
        angles: the fault of its angles; where there is none, expected numbers are compared as
            they are, times
        factor: this, from row
        shift: this on.
    """

    mistakes: tuple[Mistake, ...]
    size: SizeFault
    order: OrderFault
    waves: Waves | None = None
    angles: AngleFault | None = None
    factor: float = 1.0
    shift: int = 0

    @property
    def rows(self) -> int:
        """The number of rows that can be compared."""
        return self.size.rows - abs(self.shift)

    @property
    def scale(self) -> float:
        """The predicted scale of the waves."""
        factor = self.factor if self.angles is None else self.angles.factor
        return factor * (self.waves.scale if self.waves else 1.0)

    def predicted(self, pair: ArrayPair, rows: Indices) -> tuple[Float64s, Float64s | None]:
        """Compute rows, and the error weights of their angles, where they have any."""
        if self.angles is not None and self.waves is not None:
            return self.angles.table(self.waves, rows)
        expected = pair.want[rows + self.shift][:, self.size.want] * self.factor
        if self.waves is None:
            return expected, None
        angles = np.outer(self.waves.positions[rows], self.waves.omega)
        return expected, error_weights(angles, self.waves.omega)[:, self.waves.frequency]

    def sent(self, pair: ArrayPair, rows: Indices) -> Float64s:
        """Return the rows that were sent, in the expected order."""
        return pair.have[self.order.rows[rows]][:, self.size.have[self.order.columns]]


@dataclass(frozen=True)
class CheckResult:
    """The quality of an explanation's prediction of the compared elements.

    Attributes:
        share: of the elements that it predicts.
        residual: the largest distance of an element from its prediction.
        allowed: the largest distance that was allowed.
        elements: how many were compared.
        first_mismatch: its row and column in the expected order, the number that was sent, the
            predicted one, and how far they may be apart; None where all are predicted.
    """

    share: float
    residual: float
    allowed: float
    elements: int
    first_mismatch: tuple[int, int, float, float, float] | None

    @property
    def is_complete(self) -> bool:
        return self.first_mismatch is None


def check(pair: ArrayPair, explanation: Explanation, rows: Indices) -> CheckResult:
    """Compare rows with what an explanation predicts."""
    good, residual, allowed, elements = 0, 0.0, 0.0, 0
    mismatch: tuple[int, int, float, float, float] | None = None
    length = max(1, _BLOCK_ELEMENTS // len(explanation.size.want))
    for start in range(0, len(rows), length):
        block = rows[start : start + length]
        predicted, weights = explanation.predicted(pair, block)
        sent = explanation.sent(pair, block)
        bound = pair.allowed(predicted, weights, explanation.scale)
        error = np.abs(sent - predicted)
        is_good = error <= bound
        good += int(is_good.sum())
        elements += sent.size
        residual = max(residual, float(error.max()))
        allowed = max(allowed, float(bound.max()))
        if mismatch is None and not is_good.all():
            row, column = divmod(int(np.argmin(is_good)), sent.shape[1])
            value, expected, most = (
                float(table[row, column]) for table in (sent, predicted, bound)
            )
            mismatch = (int(block[row]), column, value, expected, most)
    return CheckResult(good / elements, residual, allowed, elements, mismatch)


_SAMPLED_ROWS = 64
_FEWEST_SAMPLED_ROWS = 16
_SAMPLED_ELEMENTS = 2**13


def sampled_rows(count: int, width: int) -> Indices:
    """Pick some of many rows of a width, with the first and the last."""
    most = min(_SAMPLED_ROWS, max(_FEWEST_SAMPLED_ROWS, _SAMPLED_ELEMENTS // width))
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.intp)


@dataclass(frozen=True, eq=False)
class ExpectedTable:
    """A table that was expected.

    Attributes:
        arrays: one array, or those named ``cos`` and ``sin``.
        dtype: the type to which engines round its numbers.
        positions: of its rows, rising, where they are known.
        grid: height and width, where its rows are the places of a grid.
    """

    arrays: Mapping[str, Sample]
    dtype: DType
    positions: Float64s | None = None
    grid: tuple[int, int] | None = None

    @cached_property
    def view(self) -> TableView:
        return TableView.of(self.arrays)

    @cached_property
    def table(self) -> Float64s:
        return self.view.table()

    @cached_property
    def waves(self) -> Waves | None:
        is_pair = len(self.view.names) == 2
        return waves_of(self.table, is_pair=is_pair, positions=self.positions)


# A diagnosis names no mistakes that explain less than half of the elements.
_LEAST_SHARE = 0.5
# One mistake more explains a few elements more of almost anything, such as a row of noise; a real
# one explains more than one of the sampled rows.
_SHARE_STEPS = 2**6


@dataclass(frozen=True, eq=False)
class _Attempt:
    """An explanation that was checked.

    Attributes:
        variant: the mistake of settings that led to the expected table, and the request for it.
    """

    view: TableView
    pair: ArrayPair
    explanation: Explanation
    result: CheckResult
    variant: tuple[Mistake, TableRequest] | None = None

    @property
    def rank(self) -> tuple[int, int, float]:
        """The sort key: the share of elements that it explains, then the number of mistakes."""
        share = self.result.share
        return int(share * _SHARE_STEPS), -len(self.mistakes), share

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        mistakes = self.explanation.mistakes
        return mistakes if self.variant is None else (self.variant[0], *mistakes)

    def diagnosis(self) -> Diagnosis:
        result, explanation = self.result, self.explanation
        mismatch = None
        if result.first_mismatch is not None:
            row, column, *numbers = result.first_mismatch
            order, columns = explanation.order, explanation.size.have
            place = (int(order.rows[row]), int(columns[order.columns[column]]))
            mismatch = self.view.mismatch(place, *numbers)
            if explanation.waves is not None:
                mismatch = replace(mismatch, position=float(explanation.waves.positions[row]))
        is_whole_table = not (explanation.mistakes or mismatch)
        return Diagnosis(
            "none" if mismatch else "diagnosed" if self.mistakes else "equal",
            self.mistakes,
            result.residual,
            result.elements,
            result.allowed,
            mismatch,
            self.variant[1] if self.variant and is_whole_table else None,
        )


def diagnose(
    have: Mapping[str, Sample],
    expected: ExpectedTable,
    alternatives: Iterable[tuple[Mistake, TableRequest, ExpectedTable]] = (),
) -> Diagnosis | None:
    """Find the shortest list of known mistakes that turns one table into another.

    Args:
        have: the arrays that were sent, with the names of the expected ones.
        expected: what they should be.
        alternatives: tables that a mistake of settings makes of it.

    Returns:
        The diagnosis, or None where the shapes have nothing in common.
    """
    variants: list[tuple[Mistake, TableRequest, ExpectedTable]] = []
    closest: list[_Attempt] = []
    for count in range(MOST_MISTAKES + 1):
        if count == 1:
            variants = list(alternatives)
        for mistake, request, table in variants if 1 <= count < MOST_MISTAKES else ():
            attempt = _closest(have, table, count - 1)
            if attempt is not None:
                attempt = replace(attempt, variant=(mistake, request))
                if attempt.result.is_complete:
                    return attempt.diagnosis()
                closest.append(attempt)
        attempt = _closest(have, expected, count)
        if attempt is not None:
            if attempt.result.is_complete:
                return attempt.diagnosis()
            closest.append(attempt)
    return _incomplete_diagnosis(closest) if closest else None


def _incomplete_diagnosis(attempts: list[_Attempt]) -> Diagnosis:
    """Return the closest attempt, compared as a whole; without mistakes where none is close."""
    best = max(attempts, key=lambda each: each.rank)
    if best.result.share < _LEAST_SHARE:
        best = next((each for each in attempts if each.variant is None), attempts[0])
    every = np.arange(best.explanation.rows)
    return replace(best, result=check(best.pair, best.explanation, every)).diagnosis()


def _closest(have: Mapping[str, Sample], expected: ExpectedTable, count: int) -> _Attempt | None:
    """Return the first list of just so many mistakes that explains everything, or the closest."""
    closest: _Attempt | None = None
    for view, pair, explanation in _explanations(have, expected, count):
        if len(explanation.mistakes) < count:
            continue
        rows = sampled_rows(explanation.rows, len(explanation.size.want))
        result = check(pair, explanation, rows)
        if result.is_complete:
            result = check(pair, explanation, np.arange(explanation.rows))
        attempt = _Attempt(view, pair, explanation, result)
        if result.is_complete:
            return attempt
        if closest is None or attempt.rank > closest.rank:
            closest = attempt
    return closest


def _explanations(
    have: Mapping[str, Sample], expected: ExpectedTable, most: int
) -> Iterator[tuple[TableView, ArrayPair, Explanation]]:
    """Yield the explanations of at most so many mistakes."""
    waves, blocks = expected.waves, len(expected.view.names)
    sent = next(iter(have.values())).element_dtype
    for view in table_views(have, expected.view):
        table = view.table()
        dtype = FLOAT64 if sent is INT64 else sent
        if waves is not None:
            dtype = narrowest_dtype(table, dtype)
        exact = ArrayPair(table, expected.table, dtype, expected.dtype, waves, blocks)
        for error, mistakes in decimal_roundings(table):
            pair = replace(exact, decimal_error=error)
            view_mistakes = (*view.mistakes, *mistakes)
            for explanation in _of_pair(pair, expected.grid, view_mistakes, most):
                yield view, pair, explanation


def _of_pair(
    pair: ArrayPair, grid: tuple[int, int] | None, mistakes: tuple[Mistake, ...], most: int
) -> Iterator[Explanation]:
    if len(mistakes) > most:
        return
    waves, blocks = pair.waves, pair.blocks
    is_interleaved = waves is not None and bool(waves.frequency[0] == waves.frequency[1])
    for size in size_faults(pair.have, pair.want, blocks, waves):
        orders = order_faults(
            size.rows, len(size.want), blocks, grid, is_interleaved=is_interleaved
        )
        for order in orders:
            structural = (*mistakes, *size.mistakes, *order.mistakes)
            if len(structural) <= most:
                for explanation in _of_order(pair, size, order, most - len(structural)):
                    yield replace(explanation, mistakes=(*structural, *explanation.mistakes))


def _of_order(
    pair: ArrayPair, size: SizeFault, order: OrderFault, most: int
) -> Iterator[Explanation]:
    """Yield what at most so many mistakes make of the numbers in some order."""
    waves = pair.waves.restricted(size.want, size.rows) if pair.waves else None
    plain = Explanation((), size, order, waves)
    if size.rotating is None:
        yield plain
        if most == 0:
            return
    if waves is None:
        yield from numeric_faults(pair, plain)
        return
    if size.rotating is not None:
        waves = waves.of_width(size.rotating)
        plain = replace(plain, waves=waves)
    first = plain.sent(pair, np.arange(min(EARLY_ROWS, size.rows)))
    for fault in angle_faults(waves, first, pair.epsilon):
        if len(fault.mistakes) <= most:
            yield replace(plain, mistakes=fault.mistakes, angles=fault)


_SHIFTS = 64


def numeric_faults(pair: ArrayPair, plain: Explanation) -> Iterator[Explanation]:
    """Yield mistakes in numbers that are no waves: a factor, or rows that are shifted."""
    rows = sampled_rows(plain.rows, len(plain.size.want))
    expected, _ = plain.predicted(pair, rows)
    sent = plain.sent(pair, rows)
    factor = float((sent * expected).sum() / ((expected * expected).sum() or 1.0))
    if factor >= LEAST_FACTOR and abs(factor - 1) > 4 * pair.epsilon:
        yield replace(plain, mistakes=(factor_mistake(factor),), factor=factor)
    for shift in range(1, min(_SHIFTS, plain.rows - 1)):
        shifted = replace(plain, shift=shift)
        if check(pair, shifted, np.arange(2)).is_complete:
            mistake = Mistake("position-offset", {"rows": shift})
            yield replace(shifted, mistakes=(mistake,))
