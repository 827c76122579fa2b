"""What is wrong with the angles of an application, as far as its numbers must be measured."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.applied.frequencies import (
    Measured,
    frequency_mistakes,
    other_frequencies,
)
from service.analysis.applied.positions import stuck_at
from service.analysis.applied.spin import Complexes, Indices, ahead_of
from service.analysis.applied.wiring import Wiring
from service.analysis.mistakes.catalogue import Mistake
from service.analysis.plain import plain_numbers
from service.analysis.waves import measure
from service.tables.angle import Float64s
from service.tables.dtypes import rounding_bound

# Rows that follow each other, from which a shift is measured: what happens later may be another
# mistake.
_EARLY = 32
_FIRST = 8
_MOST = 128


@dataclass(frozen=True, eq=False)
class Turned:
    """The cosines and sines that some rows were turned by.

    Attributes:
        turns: cosine + i·sine, (R, K).
        weights: of each, (R, K).
        rows: which rows these are.
    """

    turns: Complexes
    weights: Float64s
    rows: Indices


class Gauge:
    """Measures by what sampled rows were turned, for each wiring once."""

    def __init__(self, evidence: Evidence, heads: slice, rows: Indices) -> None:
        """Take the sample to measure on."""
        self.evidence, self._rows = evidence, rows
        self._x, self._y = evidence.x[heads][:, rows], evidence.y[heads][:, rows]
        self._turned: dict[Wiring, Turned] = {}

    def turned(self, wiring: Wiring) -> Turned:
        """Measure by what rows were turned, if so wired."""
        if wiring not in self._turned:
            turns, weights = wiring.measure(self._x, self._y)
            self._turned[wiring] = Turned(turns, weights, self._rows)
        return self._turned[wiring]

    def mistakes(self, application: Application) -> Iterator[Application]:
        """Make each mistake whose numbers can be measured."""
        turned = self.turned(application.wiring)
        if not (turned.weights > 0).any():
            return
        yield from self._factors(application, turned)
        if application.spin.times:
            for measured in self._slopes(application, turned):
                yield from frequency_mistakes(application, self.evidence.target, measured)
            yield from self._shifts(application, turned)

    def others(self, application: Application) -> Iterator[Application]:
        """Take frequencies as they are measured, where nothing else explains them."""
        turned = self.turned(application.wiring)
        if application.spin.times and (turned.weights > 0).any():
            for measured in self._slopes(application, turned):
                yield from other_frequencies(application, self.evidence.target, measured)

    def _factors(self, application: Application, turned: Turned) -> Iterator[Application]:
        """Compare sizes, which angles do not change."""
        spin, target = application.spin, self.evidence.target
        expected = np.hypot(*spin.cosines_and_sines(target, turned.rows))
        if expected.shape != turned.turns.shape:
            return
        narrow = 0.0 if spin.dtype is None else rounding_bound(spin.dtype, 1.0)
        error = 4 * max(self.evidence.roundoff, narrow)
        for count in dict.fromkeys((len(turned.rows), min(len(turned.rows), _FIRST))):
            weights = (turned.weights * expected)[:count]
            total = float((weights * expected[:count]).sum())
            measured = float((weights * np.abs(turned.turns[:count])).sum())
            ratio = measured / total if total else 1.0
            if not abs(ratio - 1) > error or not ratio > 0:
                continue
            for factor in plain_numbers(ratio, error, most=2):
                name = "wrong-factor" if factor < 1 else "extra-factor"
                changed = replace(spin, factor=spin.factor * factor)
                yield application.having("factor", Mistake(name, {"factor": factor}), spin=changed)

    def _slopes(self, application: Application, turned: Turned) -> Iterator[Measured]:
        """Measure frequencies, which a shift of positions does not change."""
        spin, target = application.spin, self.evidence.target
        roundoff = self.evidence.roundoff
        undone = spin.undone(turned.turns, target, turned.rows)
        for count in dict.fromkeys(min(len(turned.rows), n) for n in (_MOST, _EARLY, _FIRST)):
            order = np.argsort(spin.positions(target, turned.rows[:count]))
            places = spin.positions(target, turned.rows[:count])[order]
            if count < 2 or not (np.diff(places) > 0).all():
                continue
            omega, error = _slopes(undone[order], turned.weights[order], places)
            # What float32 makes of a frequency shifts it; all rows say the same wrong thing then.
            error = error + 4 * min(roundoff, 2.0**-24) * np.abs(omega) + roundoff * 2.0**-6
            width = application.wiring.width
            yield Measured(omega / spin.times, error / spin.times, width, count)

    def _shifts(self, application: Application, turned: Turned) -> Iterator[Application]:
        """Compare angles of the same frequencies."""
        spin, target = application.spin, self.evidence.target
        omega = spin.frequencies(target)
        if omega is None or len(omega) != turned.turns.shape[1]:
            return
        turns = spin.undone(turned.turns, target, turned.rows)
        ahead = turns * spin.unit(target, turned.rows).conj() ** spin.times
        early, weights = slice(0, _EARLY), turned.weights
        summed = (ahead * weights)[early].sum(axis=0)
        steps = ahead_of(summed, weights[early].sum(axis=0), spin.times * omega)
        if steps and isinstance(spin.ahead, float):
            changed = replace(spin, ahead=spin.ahead + steps)
            mistake = Mistake("position-offset", {"rows": int(steps)})
            yield application.having("shift", mistake, spin=changed)
        summed = (turns * weights)[early].sum(axis=0)
        place = ahead_of(summed, weights[early].sum(axis=0), spin.times * omega)
        if place is not None and spin.rows is None and isinstance(spin.ahead, float):
            yield stuck_at(application, target, place)


def _slopes(turns: Complexes, weights: Float64s, places: Float64s) -> tuple[Float64s, Float64s]:
    """Measure frequencies, rows with small numbers counting less, and how far they may be off."""
    omega = measure(turns, places).omega
    total = np.maximum(weights.sum(axis=0), np.finfo(np.float64).tiny)
    middle = places[:, None] - (weights * places[:, None]).sum(axis=0) / total
    spread = np.maximum((weights * middle**2).sum(axis=0), np.finfo(np.float64).tiny)
    for _ in range(2):
        straight = turns * np.exp(-1j * middle * omega)
        centre = np.angle((straight * weights).sum(axis=0))
        bent = np.angle(straight * np.exp(-1j * centre))
        omega = omega + (weights * middle * bent).sum(axis=0) / spread
    deviation = (weights * bent**2).sum(axis=0) / total
    error: Float64s = 4 * np.sqrt(deviation * total / spread / len(places))
    return omega, np.minimum(error, 1.0)
