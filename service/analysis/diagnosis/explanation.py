"""Diagnose a table: the shortest list of known mistakes that turns the expected one into it.

``diagnose`` tries lists of 0, 1, 2 and 3 mistakes. An ``Explanation`` is such a list with the part
of the tables that is compared, the order of its rows and columns, and the angles or the factor of
its numbers. ``check`` computes what an explanation predicts and compares the elements.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

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
from service.analysis.measure import EARLY_ROWS, spread_indices
from service.analysis.precision import narrowest_dtype, spacing
from service.numerics.dtypes import FLOAT64, INT64, DType, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

# Engines round a frequency, its product with a position and its sine to float32, each to 2^-24 of
# it; the power or logarithm that gives a frequency may be off by more. The error grows with the
# angle: 4 · 2^-24 of its weight (see ``error_weights``), and as much for the last step.
_ARITHMETIC_ERROR = 2.0**-22

_BLOCK_ELEMENTS = 2**18


@dataclass(frozen=True, eq=False)
class ExpectedTable:
    """The table that an array should be.

    Attributes:
        arrays: one array, or those named ``cos`` and ``sin``.
        dtype: the type to which engines round its numbers.
        positions: of its rows, rising, where they are known.
        grid: height and width, where its rows are the cells of a grid.
    """

    arrays: Mapping[str, Sample]
    dtype: DType
    positions: Float64s | None = None
    grid: tuple[int, int] | None = None

    @cached_property
    def view(self) -> TableView:
        return TableView.of(self.arrays)

    @property
    def table(self) -> Float64s:
        return self.view.table

    @cached_property
    def waves(self) -> Waves | None:
        is_pair = len(self.view.names) == 2
        return waves_of(self.table, is_pair=is_pair, positions=self.positions)


@dataclass(frozen=True, eq=False)
class ArrayPair:
    """The arrays that were sent and the expected table.

    Attributes:
        view: the arrays as one table, with their axes in some order.
        expected: the expected table.
        dtype: the type to which the arrays were rounded.
        decimal_error: the largest error by rounding to a few decimals, or 0.
    """

    view: TableView
    expected: ExpectedTable
    dtype: DType
    decimal_error: float = 0.0

    @property
    def epsilon(self) -> float:
        """The largest rounding error of a number of size 1."""
        rounding = rounding_bound(self.dtype, 1.0) + rounding_bound(self.expected.dtype, 1.0)
        return rounding + self.decimal_error

    def roundings(self, table: Float64s) -> Float64s:
        """Return an ulp of each element in the type of the array, plus one in the expected type."""
        return spacing(table, self.dtype) + spacing(table, self.expected.dtype)

    def wave_tolerances(self, table: Float64s, weights: Float64s, scale: float) -> Float64s:
        """Return the tolerances of sines and cosines with error weights."""
        arithmetic_errors = _ARITHMETIC_ERROR * (1 + weights) * scale
        return self.roundings(table) + arithmetic_errors + self.decimal_error


@dataclass(frozen=True, eq=False)
class Explanation:
    """A list of mistakes, and the table that it predicts.

    Attributes:
        mistakes: the list.
        size: the part that is compared.
        order: the rows and columns that hold the expected ones.
        waves: the expected table of that part, if it consists of sines and cosines.
        angles: the wrong angles; if None, the expected numbers are scaled and shifted instead.
        factor: of the expected numbers.
        shift: the expected row that belongs to row 0.
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
        """The number of rows to compare."""
        return self.size.rows - abs(self.shift)

    def predict(self, pair: ArrayPair, rows: Indices) -> tuple[Float64s, Float64s]:
        """Return the predicted elements of rows, and their tolerances."""
        waves = self.waves
        if waves is not None and self.angles is not None:
            table, weights = self.angles.table(waves, rows)
            return table, pair.wave_tolerances(table, weights, self.angles.factor * waves.scale)
        table = pair.expected.table[rows + self.shift][:, self.size.expected] * self.factor
        if waves is None:
            return table, 2 * pair.roundings(table) + pair.decimal_error
        angles = np.outer(waves.positions[rows], waves.omega)
        weights = error_weights(angles, waves.omega)[:, waves.frequency]
        return table, pair.wave_tolerances(table, weights, self.factor * waves.scale)

    def sent(self, pair: ArrayPair, rows: Indices) -> Float64s:
        """Return the submitted elements at the given expected rows.

        Rows and columns are reordered as this explanation says.
        """
        return pair.view.table[self.order.rows[rows]][:, self.size.sent[self.order.columns]]


@dataclass(frozen=True)
class CheckResult:
    """The comparison of elements with the prediction of an explanation.

    Attributes:
        share: the share of elements within their tolerance.
        residual: the largest distance of an element from its prediction.
        allowed: the largest tolerance.
        elements: how many were compared.
        first_mismatch: the row and the column in the expected order, the number that was sent, the
            predicted one and its tolerance; None where every element is within its tolerance.
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
    """Compare rows with the prediction of an explanation."""
    good, residual, allowed, elements = 0, 0.0, 0.0, 0
    mismatch: tuple[int, int, float, float, float] | None = None
    length = max(1, _BLOCK_ELEMENTS // len(explanation.size.expected))
    for start in range(0, len(rows), length):
        block = rows[start : start + length]
        predicted, tolerance = explanation.predict(pair, block)
        sent = explanation.sent(pair, block)
        error = np.abs(sent - predicted)
        is_good = error <= tolerance
        good += int(is_good.sum())
        elements += sent.size
        residual = max(residual, float(error.max()))
        allowed = max(allowed, float(tolerance.max()))
        if mismatch is None and not is_good.all():
            row, column = divmod(int(np.argmin(is_good)), sent.shape[1])
            value, expected, most = (
                float(table[row, column]) for table in (sent, predicted, tolerance)
            )
            mismatch = (int(block[row]), column, value, expected, most)
    return CheckResult(good / elements, residual, allowed, elements, mismatch)


_SAMPLED_ROWS = 64
_FEWEST_SAMPLED_ROWS = 16
_SAMPLED_ELEMENTS = 2**13


def sampled_rows(count: int, width: int) -> Indices:
    """Return the indices of some of many rows of a width, with the first and the last."""
    most = min(_SAMPLED_ROWS, max(_FEWEST_SAMPLED_ROWS, _SAMPLED_ELEMENTS // width))
    return spread_indices(count, most)


# Mistakes that explain a smaller share of the elements are not reported.
_LEAST_SHARE = 0.5
# A further mistake explains a few more elements even of noise, such as one row; a real one explains
# more than one of the sampled rows. Shares are therefore rounded down to multiples of 1/64.
_SHARE_STEPS = 2**6

# The mistake of settings that leads to a table, the request for that table, and the table.
Alternative: TypeAlias = tuple[Mistake, TableRequest, "ExpectedTable"]


@dataclass(frozen=True, eq=False)
class _Attempt:
    """An explanation that was checked, of the expected table or of an alternative to it."""

    pair: ArrayPair
    explanation: Explanation
    result: CheckResult
    alternative: Alternative | None = None

    @property
    def rank(self) -> tuple[int, int, float]:
        """The sort key: the share of elements within tolerance, then the number of mistakes."""
        share = self.result.share
        return int(share * _SHARE_STEPS), -len(self.mistakes), share

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        mistakes = self.explanation.mistakes
        return (self.alternative[0], *mistakes) if self.alternative else mistakes

    def diagnosis(self) -> Diagnosis:
        result, explanation = self.result, self.explanation
        mismatch = None
        if result.first_mismatch is not None:
            row, column, *numbers = result.first_mismatch
            order, columns = explanation.order, explanation.size.sent
            element = (int(order.rows[row]), int(columns[order.columns[column]]))
            mismatch = self.pair.view.mismatch(element, *numbers)
            if explanation.waves is not None:
                mismatch = replace(mismatch, position=float(explanation.waves.positions[row]))
        equals_alternative = self.alternative and not (explanation.mistakes or mismatch)
        return Diagnosis(
            "none" if mismatch else "diagnosed" if self.mistakes else "equal",
            self.mistakes,
            result.residual,
            result.elements,
            result.allowed,
            mismatch,
            self.alternative[1] if self.alternative and equals_alternative else None,
        )


def diagnose(
    sent: Mapping[str, Sample], expected: ExpectedTable, alternatives: Iterable[Alternative] = ()
) -> Diagnosis | None:
    """Find the shortest list of known mistakes that turns one table into another.

    Args:
        sent: the arrays that were sent, with the names of the expected ones.
        expected: the table that they should be.
        alternatives: the tables that mistakes of settings lead to; only read if needed.

    Returns:
        The diagnosis, or None for unrelated shapes.
    """
    others: list[Alternative] = []
    closest: list[_Attempt] = []
    for count in range(MOST_MISTAKES + 1):
        if count == 1:
            others = list(alternatives)
        for alternative in (*(others if count < MOST_MISTAKES else ()), None):
            table, mistakes = (alternative[2], count - 1) if alternative else (expected, count)
            attempt = _closest(sent, table, mistakes)
            if attempt is not None:
                attempt = replace(attempt, alternative=alternative)
                if attempt.result.is_complete:
                    return attempt.diagnosis()
                closest.append(attempt)
    return _incomplete_diagnosis(closest) if closest else None


def _incomplete_diagnosis(attempts: list[_Attempt]) -> Diagnosis:
    """Return the closest attempt, compared as a whole, or one without mistakes if none is close."""
    best = max(attempts, key=lambda each: each.rank)
    if best.result.share < _LEAST_SHARE:
        best = next((each for each in attempts if each.alternative is None), attempts[0])
    every = np.arange(best.explanation.rows)
    return replace(best, result=check(best.pair, best.explanation, every)).diagnosis()


def _closest(sent: Mapping[str, Sample], expected: ExpectedTable, count: int) -> _Attempt | None:
    """Return the first list of this many mistakes that explains everything, or the closest."""
    closest: _Attempt | None = None
    for pair, explanation in _explanations(sent, expected, count):
        if len(explanation.mistakes) < count:
            continue
        rows = sampled_rows(explanation.rows, len(explanation.size.expected))
        result = check(pair, explanation, rows)
        if result.is_complete:
            result = check(pair, explanation, np.arange(explanation.rows))
        attempt = _Attempt(pair, explanation, result)
        if result.is_complete:
            return attempt
        if closest is None or attempt.rank > closest.rank:
            closest = attempt
    return closest


def _explanations(
    sent: Mapping[str, Sample], expected: ExpectedTable, most: int
) -> Iterator[tuple[ArrayPair, Explanation]]:
    """Yield the explanations of at most this many mistakes."""
    sent_dtype = next(iter(sent.values())).element_dtype
    dtype = FLOAT64 if sent_dtype is INT64 else sent_dtype
    for view in table_views(sent, expected.view):
        view_dtype = narrowest_dtype(view.table, dtype) if expected.waves else dtype
        for error, mistakes in decimal_roundings(view.table):
            pair = ArrayPair(view, expected, view_dtype, error)
            for size, order in _alignments(pair):
                found = (*view.mistakes, *mistakes, *size.mistakes, *order.mistakes)
                if len(found) <= most:
                    for explanation in _of_numbers(pair, size, order, most - len(found)):
                        yield pair, replace(explanation, mistakes=(*found, *explanation.mistakes))


def _alignments(pair: ArrayPair) -> Iterator[tuple[SizeFault, OrderFault]]:
    expected, waves = pair.expected, pair.expected.waves
    blocks = len(expected.view.names)
    is_interleaved = waves is not None and bool(waves.frequency[0] == waves.frequency[1])
    for size in size_faults(pair.view.table, expected.table, blocks, waves):
        orders = order_faults(
            size.rows, len(size.expected), blocks, expected.grid, is_interleaved=is_interleaved
        )
        for order in orders:
            yield size, order


def _of_numbers(
    pair: ArrayPair, size: SizeFault, order: OrderFault, most: int
) -> Iterator[Explanation]:
    """Yield the explanations of at most this many mistakes in the numbers."""
    waves = pair.expected.waves
    waves = waves.restricted(size.expected, size.rows) if waves else None
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
    """Yield mistakes in numbers that are no sines and cosines: a factor, or shifted rows."""
    rows = sampled_rows(plain.rows, len(plain.size.expected))
    expected, _ = plain.predict(pair, rows)
    sent = plain.sent(pair, rows)
    factor = float((sent * expected).sum() / ((expected * expected).sum() or 1.0))
    if factor >= LEAST_FACTOR and abs(factor - 1) > 4 * pair.epsilon:
        yield replace(plain, mistakes=(factor_mistake(factor),), factor=factor)
    for shift in range(1, min(_SHIFTS, plain.rows - 1)):
        shifted = replace(plain, shift=shift)
        if check(pair, shifted, np.arange(2)).is_complete:
            mistake = Mistake("position-offset", {"rows": shift})
            yield replace(shifted, mistakes=(mistake,))
