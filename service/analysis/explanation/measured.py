"""Measure a view: the frequency, the phase and the size of each pair, with bounds of their errors.

The first estimate of a frequency comes from neighbouring rows. Then windows of 4, 8, 16 … rows
correct it: once the estimate is taken out, what is left of the phase is a straight line, whose
slope is the correction. Frequencies are known modulo 2π over the smallest step of positions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import exp, inf, log, sqrt

import numpy as np

from service.analysis.explanation.views import HALF_STEP, Complexes, View
from service.numerics.phase import Float64s

UNIT = 2.0**-24
"""The unit roundoff of float32, in which engines compute angles."""

_TWO_PI = 2 * np.pi
# A correction is taken while it moves the phase over the window by less than this.
_MOST_RADIANS = 2.0
# A cosine alone gives its angle once it has fallen below this.
_FALLEN = 0.8


def fold(angles: Float64s) -> Float64s:
    """Return angles modulo 2π, within ±π."""
    folded: Float64s = (angles + np.pi) % _TWO_PI - np.pi
    return folded


@dataclass(frozen=True, eq=False)
class Measured:
    """K measured frequencies.

    Attributes:
        omega: the frequencies in radians per position, (K,).
        error: a bound of the error of each, (K,).
        phase: the angle at position 0, (K,).
        scale: the median size of the pairs.
        moving: the number of pairs up to the last one that moves.
        step: the smallest distance between positions: frequencies are known modulo 2π/step.
        positions: the positions of the rows, rising, (S,).
        phasors: cosine + i·sine of the rows in this order, (S, K); None of cosines alone.
        weights: the weight of each of them, (S, K); None where phasors are None.
        rounding: a bound of the error of each number of size 1.
    """

    omega: Float64s
    error: Float64s
    phase: Float64s
    scale: float
    moving: int
    step: float
    positions: Float64s
    phasors: Complexes | None = None
    weights: Float64s | None = None
    rounding: float = 0.0

    @cached_property
    def is_backward(self) -> bool:
        """True if most pairs turn the other way."""
        return self.phasors is not None and bool(np.median(self.omega) < 0)

    def agrees(self, omega: Float64s) -> bool:
        """Return whether frequencies are possible: within the errors, modulo 2π/step.

        What a frequency loses in bfloat16 or float16, whose step is at least 2^-24, is allowed.
        """
        if self.phasors is None:
            # A cosine shows the sign of no angle, and a sine none beyond a quarter of a turn.
            slow = np.abs(omega) * self.step < 1
            distance = np.where(slow, np.abs(np.abs(self.omega) - np.abs(omega)), 0.0)
        else:
            distance = np.abs(fold((self.omega - omega) * self.step)) / self.step
        narrow = np.maximum(2.0**-8 * np.abs(omega), 2.0**-25 * (omega != 0))
        return bool((distance <= 4 * self.error + narrow).all())

    def shift(self, omega: Float64s) -> float | None:
        """Return the position of row 0 by its phases; None if frequencies give no single one."""
        position = 0.0
        for k in np.argsort(np.abs(omega)):
            if omega[k]:
                position += float(fold(self.phase[k] - position * omega[k])) / float(omega[k])
        whole = float(round(position))
        for place, most in ((whole, 0.3), (position, 0.05)):
            if float(np.abs(fold(self.phase - place * omega)).max(initial=0)) < most:
                return place
        return None


def measure(view: View, positions: Float64s, scale: float = 1.0) -> Measured:
    """Return the frequencies of a view of rows.

    Args:
        view: the rows, two at least.
        positions: their positions, (S,).
        scale: the size of cosines or sines, which one of them alone does not show.
    """
    order = np.argsort(positions, kind="stable")
    rising = bool((np.diff(positions) > 0).all())
    rows = view if rising else view.at(order)
    where = positions if rising else positions[order]
    return _of_pairs(rows, where) if view.has_pairs else _of_one_part(rows, where, scale)


def _noise(view: View) -> float:
    """Return a bound of the error of an angle that rounded numbers of size 1 give."""
    return 4 * HALF_STEP[view.dtype] + 4 * UNIT + 3 * view.slack


def _of_pairs(view: View, positions: Float64s) -> Measured:
    phasors, noise = view.phasors, _noise(view)
    count = phasors.shape[1]
    weights = np.ones(phasors.shape) if view.weights is None else view.weights
    omega, step = _from_neighbours(phasors, positions, weights)
    error = np.full(count, 2 * noise / step)
    rows = min(3, len(positions))
    while True:
        where, weight = positions[:rows, None], weights[:rows]
        total = np.maximum(weight.sum(axis=0), 1e-300)
        straight = phasors[:rows] * np.exp(-1j * where * omega)
        middle = (straight * weight).sum(axis=0)
        rest = np.angle(straight * middle.conj())
        away = where - (where * weight).sum(axis=0) / total
        spread = np.maximum((weight * away * away).sum(axis=0), 1e-300)
        slope = (weight * away * rest).sum(axis=0) / spread
        reach = max(float(positions[rows - 1] - positions[0]), 1.0)
        is_good = np.abs(slope) * reach < _MOST_RADIANS
        omega = omega + np.where(is_good, slope, 0)
        found = 3 * noise * np.sqrt(total / spread / rows) + 4 * noise / reach / sqrt(rows)
        error = np.where(is_good, found, error)
        if rows >= len(positions):
            break
        rows = min(2 * rows, len(positions))
    error = error + frequency_loss(omega)
    straight = phasors * np.exp(-1j * positions[:, None] * omega)
    phase: Float64s = np.angle((straight * weights).sum(axis=0))
    moves = phasors.imag.any(axis=0) if len(positions) else np.zeros(count, dtype=np.bool_)
    moving = int(np.flatnonzero(moves)[-1] + 1) if moves.any() else 0
    scale = float(np.median(np.abs(phasors)))
    rounding = HALF_STEP[view.dtype] + view.slack / max(scale, 1e-300)
    return Measured(omega, error, phase, scale, moving, step, positions, phasors, weights, rounding)


def frequency_loss(omega: Float64s) -> Float64s:
    """Return a bound of what engines' arithmetic in float32 changes of each frequency.

    A power, and where frequencies are multiplied on, two steps a pair.
    """
    steps = 8 + 2 * np.arange(len(omega), dtype=np.float64)
    loss: Float64s = steps * UNIT * np.abs(omega)
    return loss


def _from_neighbours(
    phasors: Complexes, positions: Float64s, weights: Float64s
) -> tuple[Float64s, float]:
    """Return frequencies from rows one smallest step apart, and that step."""
    gaps = np.diff(positions)
    rising = gaps[gaps > 0]
    step = float(rising.min()) if len(rising) else 1.0
    near = np.flatnonzero(gaps == step)[:7]
    turned = phasors[near + 1] * phasors[near].conj()
    turned = turned * np.minimum(weights[near + 1], weights[near])
    omega: Float64s = np.angle(turned.sum(axis=0)) / step
    return omega, step


def _of_one_part(view: View, positions: Float64s, scale: float) -> Measured:
    """Measure cosines alone, or sines alone, whose phase at position 0 is known."""
    of_sine = view.cosine is None
    values = np.clip(np.asarray(view.parts[0], dtype=np.float64) / scale, -1, 1)
    count, noise = values.shape[1], _noise(view)
    omega, error = np.zeros(count), np.ones(count)
    moved = np.abs(values) > sqrt(1 - _FALLEN**2) if of_sine else values < _FALLEN
    for k in range(count):
        rows = np.flatnonzero(moved[:, k] & (positions > 0))
        row = int(rows[0]) if len(rows) else len(positions) - 1
        if positions[row] > 0:
            value = float(values[row, k])
            angle = float(np.arcsin(value) if of_sine else np.arccos(value))
            slope = abs(np.cos(angle) if of_sine else np.sin(angle))
            omega[k] = angle / positions[row]
            error[k] = min(noise / max(slope, sqrt(noise)), 1.0) / positions[row]
    rows_used = 4
    while rows_used <= len(positions):
        where = positions[:rows_used, None]
        angles = where * omega
        predicted, slopes = np.cos(angles), -np.sin(angles) * where
        if of_sine:
            predicted, slopes = np.sin(angles), np.cos(angles) * where
        steepness = (slopes * slopes).sum(axis=0)
        correction = (slopes * (values[:rows_used] - predicted)).sum(axis=0)
        correction = correction / np.maximum(steepness, 1e-300)
        found = 3 * noise / np.sqrt(np.maximum(steepness, 1e-300))
        # A cosine that has not fallen yet says less of its frequency than the first estimate.
        is_good = (found < error) & (np.abs(correction) * positions[rows_used - 1] < 1)
        omega = omega + np.where(is_good, correction, 0)
        error = np.where(is_good, found, error)
        rows_used *= 2
    error = np.minimum(error, 1.0) + 8 * UNIT * np.abs(omega)
    rising = np.diff(positions)
    step = float(rising[rising > 0].min()) if (rising > 0).any() else 1.0
    return Measured(omega, error, np.zeros(count), 1.0, count, step, positions)


@dataclass(frozen=True)
class Line:
    """Frequencies that fall geometrically: ln ω_k = height + slope·k.

    Attributes:
        height, slope: of the line.
        height_error, slope_error: bounds of their errors.
    """

    height: float
    slope: float
    height_error: float
    slope_error: float


def fitted_line(omega: Float64s, error: Float64s) -> Line | None:
    """Return the line of the logarithms of frequencies; None if they are not on one."""
    k = np.arange(len(omega), dtype=np.float64)
    known = (omega > 3 * error) & (omega > 0)
    if known.sum() < 2:
        return None
    logarithms, where, relative = np.log(omega[known]), k[known], error[known] / omega[known]
    weight = 1 / np.maximum(relative, 1e-16) ** 2
    total = float(weight.sum())
    middle = float((weight * where).sum()) / total
    height = float((weight * logarithms).sum()) / total
    spread = float((weight * (where - middle) ** 2).sum())
    if spread == 0:
        return None
    slope = float((weight * (where - middle) * (logarithms - height)).sum()) / spread
    slope_error = 3 / sqrt(spread)
    start = height - slope * middle
    predicted = np.exp(start + slope * k)
    if not (np.abs(omega - predicted) <= 3 * error + omega * 1e-12).all():
        return None
    return Line(start, slope, 2 / sqrt(total) + abs(middle) * slope_error, slope_error)


def refined_base(
    measured: Measured, frequencies: Callable[[float], Float64s], base: float
) -> tuple[float, float] | None:
    """Return the logarithm of the base that fits all numbers at once, and a bound of its error.

    Newton's method in ln base over all rows and pairs; phases that are more than 1 radian off are
    left out. Then each number says in which interval the logarithm is; the middle of what all of
    them say is returned, if they agree. Return None if nothing constrains the base.

    Args:
        measured: the phasors and the positions.
        frequencies: returns the frequencies for the logarithm of a base.
        base: the logarithm of the first estimate.
    """
    if measured.phasors is None or measured.weights is None:
        return None
    phasors = measured.phasors.conj() if measured.is_backward else measured.phasors
    where = (measured.positions - measured.positions[0])[:, None]
    phasors = phasors * phasors[:1].conj()
    widest = float(measured.error.max(initial=0))
    for _ in range(4):
        omega = frequencies(base)
        slope = (frequencies(base + 1e-6) - omega) / 1e-6
        phase = np.angle(phasors * np.exp(-1j * where * omega))
        turning = where * slope
        is_good = (np.abs(phase) < 1) & (np.abs(turning) * widest < 9)
        used = is_good * measured.weights
        weight = float((turning * turning * used).sum())
        if weight <= 0:
            return None
        step = float((turning * phase * used).sum()) / weight
        base += min(max(step, -0.1), 0.1)
        if not 0 < base < 700:
            return None
    count = max(float(used.sum()), 1.0)
    error = 4 * sqrt(float((phase * phase * used).sum()) / count / weight)
    error += 4 * UNIT / max(phasors.shape[1], 1)
    interval = _common_interval(measured, phasors, base, omega, slope)
    return interval if interval is not None and interval[1] < error else (base, error)


def _common_interval(
    measured: Measured, turned: Complexes, base: float, omega: Float64s, slope: Float64s
) -> tuple[float, float] | None:
    """Return the middle and half the length of the interval of ln base that all numbers allow.

    Rounding cosine and sine by a share h turns their angle θ by h·|sin 2θ| at most. Return None if
    the numbers do not agree, or have weights.

    Args:
        measured: the phasors and the positions.
        turned: the phasors relative to those of the first row, (S, K).
        base: the logarithm of a base near by.
        omega: its frequencies, (K,).
        slope: their derivatives by the logarithm, (K,).
    """
    assert measured.phasors is not None
    assert measured.weights is not None
    if (measured.weights != 1).any():
        return None
    where = (measured.positions - measured.positions[0])[:, None]
    phase = np.angle(turned * np.exp(-1j * where * omega))
    double = measured.phasors * measured.phasors
    share = np.abs(double.imag) / np.maximum(np.abs(double), 1e-300)
    arithmetic = 10 + 2 * np.arange(len(omega)) + 3 * np.abs(np.log(np.maximum(omega, 1e-30)))
    room = measured.rounding * (share + share[:1]) + 8 * UNIT + where * omega * arithmetic * UNIT
    turning = np.abs(where * slope)
    known = (turning > 0) & (room < 1)
    if not known.any():
        return None
    middle = (phase * np.sign(slope))[known] / turning[known]
    length = room[known] / turning[known]
    low, high = float((middle - length).max()), float((middle + length).min())
    return (base + (low + high) / 2, (high - low) / 2) if low < high else None


def fewest_digits(low: float, high: float, most: int = 9) -> tuple[float, int] | None:
    """Return the number of fewest decimal digits in an interval, and how many it has.

    Return None if the interval is empty or not of positive numbers; the middle, with ``most`` + 3
    digits, if no number of fewer digits is in it.
    """
    if not 0 < low <= high < inf or high > 1e300:
        return None
    exponent = int(np.floor(np.log10(high)))
    for digits in range(most + 3):
        unit = 10.0 ** (exponent - digits)
        multiple = max(np.ceil(low / unit - 1e-9), 1.0)
        if multiple * unit <= high * (1 + 1e-12):
            significant = len(f"{int(multiple)}".rstrip("0")) or 1
            return float(f"{multiple * unit:.12g}"), significant
    return exp((log(low) + log(high)) / 2), most + 3
