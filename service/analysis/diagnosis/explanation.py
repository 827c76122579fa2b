"""Diagnose a table: find the shortest list of known mistakes that explains the submitted arrays.

``diagnose`` tries lists of 0, 1, 2 and 3 mistakes. An ``Explanation`` is a list of mistakes with
the part of the tables to compare, the order of its rows and columns, and the angles or the factor
of its elements. ``check`` compares the submitted elements with the prediction of an explanation.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from math import isclose
from typing import TypeAlias

import numpy as np

from service.analysis.array import Sample, TableRequest
from service.analysis.diagnosis.frequency_faults import angle_faults
from service.analysis.diagnosis.mistakes import (
    FACTOR_MISTAKES,
    MOST_MISTAKES,
    Diagnosis,
    Mistake,
    reason_of_equality,
)
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
    bounded_errors,
    error_weights,
    factor_mistake,
    offsets_of,
    waves_of,
)
from service.analysis.measure import EARLY_ROWS, spread_indices
from service.analysis.precision import narrowest_dtype, spacing
from service.numerics.dtypes import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT64,
    DType,
    rounding_bound,
)
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

# Engines round a frequency, its product with a position and the sine of this product to float32,
# each with a relative error of 2^-24; the power or logarithm that gives a frequency may have a
# larger error. The error grows with the angle: 4 · 2^-24 times the angle's weight (see
# ``error_weights``), plus 4 · 2^-24 for the sine or cosine.
_ARITHMETIC_ERROR = 2.0**-22

_BLOCK_ELEMENTS = 2**18


@dataclass(frozen=True, eq=False)
class Pattern:
    """Consecutive rows of the cosines and sines from which the waves of another table are read.

    Attributes:
        arrays: the rows, by the name of the array.
        positions: their positions, one apart, (S,).
    """

    arrays: Mapping[str, Sample]
    positions: Float64s


@dataclass(frozen=True, eq=False)
class ExpectedTable:
    """The correct table, with which the submitted arrays are compared.

    Attributes:
        arrays: one array, or two arrays named ``cos`` and ``sin``.
        dtype: the dtype to which engines round the elements.
        positions: the positions of the rows, (S,); None if they are unknown.
        grid: (height, width) if the rows are the cells of a grid; None otherwise.
        pattern: rows with the frequencies of ``arrays``, if these do not show them: one row, rows
            that are not consecutive, and cosines or sines alone do not.
        is_row: True if the table is one row, with as many axes as its channels have.
        has_frequencies: True if the elements are frequencies, in radians per position.
        read_following: returns the MAX_SHIFT rows after the last; None if they are unknown.
    """

    arrays: Mapping[str, Sample]
    dtype: DType
    positions: Float64s | None = None
    grid: tuple[int, int] | None = None
    pattern: Pattern | None = None
    is_row: bool = False
    has_frequencies: bool = False
    read_following: Callable[[], Mapping[str, Sample]] | None = None

    @cached_property
    def view(self) -> TableView:
        return TableView.of(self.arrays, is_row=self.is_row)

    @property
    def table(self) -> Float64s:
        return self.view.table

    @cached_property
    def following(self) -> Float64s:
        """The rows after the last; the first rows where they are unknown."""
        arrays = self.read_following() if self.read_following else {}
        return TableView.of(arrays).table if arrays else self.table[:MAX_SHIFT]

    @cached_property
    def waves(self) -> Waves | None:
        """The table as waves; None if it does not consist of sines and cosines."""
        positions = self.positions
        # Rows of several axes do not have the positions of one.
        if positions is None or len(positions) != len(self.table):
            positions = np.arange(len(self.table), dtype=np.float64)
        pattern = self.pattern or Pattern(self.arrays, positions)
        view = TableView.of(pattern.arrays)
        waves = waves_of(view.table, is_pair=len(view.names) == 2, positions=pattern.positions)
        is_part = len(pattern.arrays) > len(self.arrays)
        # No row of cosines and sines is zero, but one of padding.
        if waves is None or not (is_part or self.table.any(axis=1).all()):
            return None
        waves = replace(waves, positions=positions + (waves.positions[0] - pattern.positions[0]))
        return waves.of_part(is_sine="sin" in self.arrays) if is_part else waves


@dataclass(frozen=True, eq=False)
class ArrayPair:
    """The submitted arrays and the expected table, with the bounds of rounding errors.

    Attributes:
        view: the submitted arrays as one table of rows and columns.
        expected: the expected table.
        dtype: the dtype to which the submitted arrays were rounded.
        sent_dtype: the dtype of the submitted arrays, at least as wide.
        decimal_error: the largest error of rounding to a few decimals; 0 if there is none.
    """

    view: TableView
    expected: ExpectedTable
    dtype: DType
    sent_dtype: DType
    decimal_error: float = 0.0

    @property
    def epsilon(self) -> float:
        """The sum of the largest rounding errors of a submitted and an expected element near 1."""
        return self._rounding(self.dtype) + self.decimal_error

    def _rounding(self, dtype: DType) -> float:
        return rounding_bound(dtype, 1.0) + rounding_bound(self.expected.dtype, 1.0)

    def reason(self, residual: float, allowed: float, scale: float) -> str | None:
        """Return why sines and cosines differ by more than their rounding; None if they do not."""
        size = residual / (2 * max(1.0, scale))
        narrow = None
        # Arithmetic in float64 would have errors of 2^-29 of the allowed ones.
        if self.dtype is FLOAT64 and residual > 2.0**-29 * allowed + 2 * self.epsilon:
            narrow = FLOAT32
        elif self.dtype in {BFLOAT16, FLOAT16} and size > self._rounding(self.sent_dtype):
            narrow = self.dtype
        has_angle_errors = size > max(self.epsilon, rounding_bound(FLOAT32, 1.0))
        return reason_of_equality(narrow, has_angle_errors=has_angle_errors)

    def roundings(self, table: Float64s) -> Float64s:
        """Return for each element its ulp in the submitted dtype plus its ulp in the expected."""
        return spacing(table, self.dtype) + spacing(table, self.expected.dtype)

    def wave_tolerances(self, table: Float64s, weights: Float64s, scale: float) -> Float64s:
        """Return the tolerance of each element of a table of sines and cosines.

        ``weights`` are the error weights of the angles; ``scale`` multiplies sines and cosines.
        """
        arithmetic_errors = bounded_errors(_ARITHMETIC_ERROR * (1 + weights)) * scale
        return self.roundings(table) + arithmetic_errors + self.decimal_error


@dataclass(frozen=True, eq=False)
class Explanation:
    """A list of mistakes, and the table that it predicts.

    Attributes:
        mistakes: the mistakes.
        size: the rows and columns of both tables that are compared.
        order: for each expected row and column, the index of the submitted one.
        waves: the expected rows and columns as waves; None if they are not sines and cosines.
        angles: the wrong angles; None if expected elements are only scaled and shifted.
        factor: the factor that multiplies the expected elements.
        shift: without angles, the index of the expected row that corresponds to submitted row 0;
            the rows after the last expected row are those of ``following``.
    """

    mistakes: tuple[Mistake, ...]
    size: SizeFault
    order: OrderFault
    waves: Waves | None = None
    angles: AngleFault | None = None
    factor: float = 1.0
    shift: int = 0

    def predict(self, pair: ArrayPair, rows: Indices) -> tuple[Float64s, Float64s]:
        """Return the predicted elements of the given rows, (R, columns), and their tolerances."""
        waves = self.waves
        if waves is not None and self.angles is not None:
            table, weights = self.angles.table(waves, rows)
            return table, pair.wave_tolerances(table, weights, self.angles.factor * waves.scale)
        rows_in_table = rows + self.shift
        beyond = rows_in_table - len(pair.expected.table)
        table = pair.expected.table[np.where(beyond < 0, rows_in_table, 0)]
        if (beyond >= 0).any():
            table[beyond >= 0] = pair.expected.following[beyond[beyond >= 0]]
        table = table[:, self.size.expected] * self.factor
        if waves is None and pair.expected.has_frequencies:
            errors = _ARITHMETIC_ERROR * error_weights(table, table[0])
            return table, pair.roundings(table) + errors + pair.decimal_error
        if waves is None:
            return table, 2 * pair.roundings(table) + pair.decimal_error
        angles = np.outer(waves.positions[rows], waves.omega)
        weights = error_weights(angles, waves.omega)[:, waves.frequency]
        return table, pair.wave_tolerances(table, weights, self.factor * waves.scale)

    @property
    def is_vague(self) -> bool:
        """True if float32 angles of mistaken positions or frequencies may be off by 1 or more."""
        if self.waves is None or self.angles is None or not self.angles.mistakes:
            return False
        farthest = np.abs(self.waves.positions + self.angles.shift).max(keepdims=True)
        omega = self.angles.sine
        weights = error_weights(np.outer(farthest, omega), omega)
        return bool((_ARITHMETIC_ERROR * weights >= 1).any())

    def sent(self, pair: ArrayPair, rows: Indices) -> Float64s:
        """Return the submitted elements at the given expected rows.

        Rows and columns are reordered as this explanation says.
        """
        return pair.view.table[self.order.rows[rows]][:, self.size.sent[self.order.columns]]


@dataclass(frozen=True)
class CheckResult:
    """The comparison of elements with the prediction of an explanation.

    Attributes:
        share: the fraction of elements within their tolerance.
        residual: the largest absolute difference between a submitted and a predicted element.
        allowed: the largest tolerance.
        elements: the number of compared elements.
        first_mismatch: row and column in the expected order, submitted value, predicted value and
            tolerance of the first element outside its tolerance; None if there is none.
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
    """Compare the submitted elements of the given rows with the prediction of an explanation."""
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
    """Return the indices of 16 to 64 rows, spread from the first to the last of ``count`` rows.

    The wider the rows, the fewer indices; all rows if ``count`` is smaller.
    """
    most = min(_SAMPLED_ROWS, max(_FEWEST_SAMPLED_ROWS, _SAMPLED_ELEMENTS // width))
    return spread_indices(count, most)


# Mistakes that explain a smaller fraction of the elements are not reported.
_LEAST_SHARE = 0.5
# Even if elements are noise, another mistake in the list explains a few more of them, such as one
# row; a real mistake explains more than one of the sampled rows. Fractions are therefore rounded
# down to multiples of 1/64.
_SHARE_STEPS = 2**6

# A mistake in the settings, the request with the wrong settings, and the table of this request.
Alternative: TypeAlias = tuple[Mistake, TableRequest, "ExpectedTable"]


@dataclass(frozen=True, eq=False)
class _Attempt:
    """An explanation with its check result.

    It explains the submitted arrays from the expected table, or from the table of ``alternative``.
    ``scale`` is the factor of all numbers of the expected table, if that is known.
    """

    pair: ArrayPair
    explanation: Explanation
    result: CheckResult
    alternative: Alternative | None = None
    scale: float | None = None

    @property
    def rank(self) -> tuple[int, int, float]:
        """The sort key: the rounded fraction of elements within tolerance, then fewest mistakes."""
        share = self.result.share
        return int(share * _SHARE_STEPS), -len(self.mistakes), share

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        mistakes = self.explanation.mistakes
        if self.alternative is None:
            return mistakes
        if self._has_expected_scale:
            mistakes = tuple(each for each in mistakes if each.name not in FACTOR_MISTAKES)
        return self.alternative[0], *mistakes

    @property
    def _has_expected_scale(self) -> bool:
        """True if a factor of the alternative table makes the scale of the expected one."""
        waves, angles = self.explanation.waves, self.explanation.angles
        if waves is None or angles is None or self.scale is None:
            return False
        return isclose(waves.scale * angles.factor, self.scale, rel_tol=8 * self.pair.epsilon)

    def diagnosis(self) -> Diagnosis:
        result, explanation = self.result, self.explanation
        mismatch, waves = None, explanation.waves
        if result.first_mismatch is not None:
            row, column, *numbers = result.first_mismatch
            order, columns = explanation.order, explanation.size.sent
            element = (int(order.rows[row]), int(columns[order.columns[column]]))
            mismatch = self.pair.view.mismatch(element, *numbers)
            expected = self.pair.expected
            positions = waves.positions if waves else expected.positions
            # Rows of several axes do not have the positions of one.
            if positions is not None and (waves or len(positions) == len(expected.table)):
                mismatch = replace(mismatch, position=float(positions[row]))
        equals_alternative = self.alternative and not (explanation.mistakes or mismatch)
        return Diagnosis(
            "none" if mismatch else "diagnosed" if self.mistakes else "equal",
            self.mistakes,
            result.residual,
            result.elements,
            result.allowed,
            mismatch,
            self.alternative[1] if self.alternative and equals_alternative else None,
            self._reason(),
        )

    def _reason(self) -> str | None:
        result, waves, expected = self.result, self.explanation.waves, self.pair.expected
        if waves is not None:
            return self.pair.reason(result.residual, result.allowed, waves.scale)
        if not expected.has_frequencies:
            return None
        rows = np.arange(self.explanation.size.rows)
        table, _ = self.explanation.predict(self.pair, rows)
        error = np.abs(self.explanation.sent(self.pair, rows) - table)
        is_rounded = bool((error <= 2 * self.pair.roundings(table)).all())
        return None if is_rounded else reason_of_equality(FLOAT32, has_angle_errors=False)


def diagnose(
    sent: Mapping[str, Sample],
    expected: ExpectedTable,
    alternatives: Callable[[], Iterable[Alternative]] = tuple,
) -> Diagnosis | None:
    """Find the shortest list of known mistakes that explains the submitted arrays.

    Args:
        sent: the submitted arrays, with the same names as the expected arrays.
        expected: the correct table.
        alternatives: returns the tables that wrong settings give; called only if the expected table
            without mistakes does not explain the arrays. At most three of them are in memory: the
            best, the last and the next one.

    Returns:
        The diagnosis; None if the shapes of the arrays fit no list of mistakes.
    """
    plain: _Attempt | None = None
    best: _Attempt | None = None
    for count in range(MOST_MISTAKES + 1):
        others = alternatives() if 0 < count < MOST_MISTAKES else ()
        for alternative in chain(others, (None,)):
            table, mistakes = (alternative[2], count - 1) if alternative else (expected, count)
            attempt = _closest(sent, table, mistakes)
            if attempt is not None:
                scale = expected.waves.scale if alternative and expected.waves else None
                attempt = replace(attempt, alternative=alternative, scale=scale)
                if attempt.result.is_complete:
                    return attempt.diagnosis()
                plain = plain or (None if alternative else attempt)
                if best is None or attempt.rank > best.rank:
                    best = attempt
    if best is None:
        return None
    if best.result.share < _LEAST_SHARE:
        best = plain or best
    every = np.arange(best.explanation.size.rows)
    return replace(best, result=check(best.pair, best.explanation, every)).diagnosis()


def matching(sent: Mapping[str, Sample], expected: ExpectedTable) -> CheckResult | None:
    """Return the comparison of the submitted arrays with the expected table; None if not equal."""
    attempt = _closest(sent, expected, 0)
    return attempt.result if attempt and attempt.result.is_complete else None


def positions_of_rows(sent: Mapping[str, Sample], expected: ExpectedTable) -> Float64s | None:
    """Return the position of each submitted row, (S,), by the frequencies of the expected table.

    None if the arrays have another shape, no angles of integer positions, or no known positions.
    """
    view, waves = TableView.of(sent, is_row=expected.is_row), expected.waves
    is_alike = view.names == expected.view.names and view.shape == expected.view.shape
    if waves is None or not waves.has_pairs or expected.positions is None or not is_alike:
        return None
    if len(expected.positions) != len(view.table):
        return None
    found = offsets_of(np.angle(waves.phasors(view.table)), waves.omega)
    # A convention may count from 1.
    return None if found is None else found - (waves.positions[0] - expected.positions[0])


def _closest(sent: Mapping[str, Sample], expected: ExpectedTable, count: int) -> _Attempt | None:
    """Return the first attempt with ``count`` mistakes that explains every element.

    If none does, return the attempt of the highest rank; None if no explanation has the shape.
    """
    closest: _Attempt | None = None
    for pair, explanation in _explanations(sent, expected, count):
        if len(explanation.mistakes) < count or explanation.is_vague:
            continue
        rows = sampled_rows(explanation.size.rows, len(explanation.size.expected))
        result = check(pair, explanation, rows)
        if result.is_complete:
            result = check(pair, explanation, np.arange(explanation.size.rows))
        attempt = _Attempt(pair, explanation, result)
        if result.is_complete:
            return attempt
        if closest is None or attempt.rank > closest.rank:
            closest = attempt
    return closest


def _explanations(
    sent: Mapping[str, Sample], expected: ExpectedTable, most: int
) -> Iterator[tuple[ArrayPair, Explanation]]:
    """Yield the explanations with at most ``most`` mistakes."""
    sent_dtype = next(iter(sent.values())).element_dtype
    dtype = FLOAT64 if sent_dtype is INT64 else sent_dtype
    for view in table_views(sent, expected.view):
        view_dtype = dtype
        if expected.waves or expected.has_frequencies:
            view_dtype = narrowest_dtype(view.table, dtype)
        # Frequencies are not rounded to a half type on purpose.
        if expected.has_frequencies and view_dtype is not dtype:
            view_dtype = FLOAT32
        for error, mistakes in decimal_roundings(view.table):
            pair = ArrayPair(view, expected, view_dtype, dtype, error)
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
    """Yield explanations whose elements have at most ``most`` mistakes, for one alignment.

    ``size`` and ``order`` are the alignment: the rows and columns to compare, and their order.
    """
    waves = pair.expected.waves
    waves = waves.restricted(size.expected, size.rows) if waves else None
    plain = Explanation((), size, order, waves)
    if waves is not None and size.rotating is not None:
        waves = waves.of_width(size.rotating)
        fault = AngleFault((), waves.omega, waves.omega)
        plain = replace(plain, waves=waves, angles=fault)
    yield plain
    if most == 0:
        return
    if waves is None or not waves.has_pairs:
        if plain.angles is None:
            yield from numeric_faults(pair, plain)
        return
    first = plain.sent(pair, np.arange(min(EARLY_ROWS, size.rows)))
    for fault in angle_faults(waves, first, pair.epsilon):
        if len(fault.mistakes) <= most:
            yield replace(plain, mistakes=fault.mistakes, angles=fault)


MAX_SHIFT = 63
"""The largest shift of rows."""


def numeric_faults(pair: ArrayPair, plain: Explanation) -> Iterator[Explanation]:
    """Yield explanations with a wrong factor or with shifted rows.

    They apply to tables that do not consist of pairs of a cosine and a sine.
    """
    count, waves = plain.size.rows, plain.waves
    rows = sampled_rows(count, len(plain.size.expected))
    if waves is not None:
        rows = np.arange(min(EARLY_ROWS, count))
    expected, _ = plain.predict(pair, rows)
    sent = plain.sent(pair, rows)
    factor = float((sent * expected).sum() / ((expected * expected).sum() or 1.0))
    if factor >= LEAST_FACTOR and abs(factor - 1) > 4 * pair.epsilon:
        yield replace(plain, mistakes=(factor_mistake(factor),), factor=factor)
    for shift in range(1, 1 + (MAX_SHIFT if waves and count > 2 else min(MAX_SHIFT, count - 2))):
        mistakes = (Mistake("position-offset", {"rows": shift}),)
        # Waves also predict the rows after the last one.
        angles = AngleFault(mistakes, waves.omega, waves.omega, shift) if waves else None
        shifted = replace(plain, mistakes=mistakes, angles=angles, shift=shift)
        if check(pair, shifted, np.arange(2)).is_complete:
            yield shifted
