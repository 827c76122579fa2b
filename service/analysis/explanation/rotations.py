"""Explain an applied rotation: which wiring, which cosines and sines take x to rotated.

Each way to connect channels (``wirings``) gives, by least squares over heads, the cosine and the
sine of each row and pair: a view like that of a table, with weights. It is measured, and candidates
are proposed, as for a table. A candidate is right if it predicts every number of every head:

    |y − (x0·c − x1·s)| ≤ (|x0| + |x1|)·f·(4.5·h + 4·u + far·r)

with h half a step of the type, u = 2^-24, f the factor, and far·r the error of the angle
(``arithmetic``). Where the angle is off by 1 or more, only the exact one is right.

This module is long because the search, the verification and the answer share one state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import merge
from itertools import chain
from math import prod

import numpy as np

from service.analysis.explanation.arithmetic import (
    EXACT,
    IN_FLOAT32,
    IN_FLOAT64,
    ITERATED,
    Fit,
    Waves,
)
from service.analysis.explanation.candidates import (
    INTERVAL_ROWS,
    MOST_MISTAKES,
    Candidate,
    Proposer,
    expected,
    simplest,
    with_interval,
)
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.decoding import decoded, moved_axes, offset_axes, pattern
from service.analysis.explanation.engine import MORE_BITS, Explanation, Match
from service.analysis.explanation.measured import UNIT, fewest_digits
from service.analysis.explanation.sampling import Reading, sampled_rows
from service.analysis.explanation.target import Target
from service.analysis.explanation.views import HALF_STEP, View, evenly
from service.analysis.explanation.wirings import (
    FIRST_ROWS,
    LAYOUTS,
    Mask,
    ReadChannels,
    Sides,
    Variant,
    Wiring,
    place_of,
    variants,
)
from service.analysis.precision import narrowest_dtype
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

_NEAR_BITS, _MOST_ALTERNATIVES = 3.0, 6
# Kernels of narrow types that round once lose at most so many half steps.
_ONE_ROUNDING = 2.0
_MOST_DECODED_ROWS, _BLOCK_ELEMENTS = 4096, 2**20
# Mistakes of positions cost as much, at least.
_POSITIONS_BITS = 5.0
# Fewer decimals than float32 has are a mistake.
_USUAL_DECIMALS = 7
# A reading may miss this share of the numbers, and sizes √(cos² + sin²) vary by this.
_MOST_MISFITS, _MOST_SPREAD = 0.02, 0.2
# Frequencies of no rule need rows that show them; what explains less than half explains nothing.
_ENOUGH_ROWS, _LEAST_SHARE = 4, 0.5


def explain_rotation(
    x: Float64s,
    rotated: Float64s,
    dtype: DType,
    target: Target,
    *,
    layout: str | None,
    output_layout: str | None = None,
    rotary_offset: int = 0,
    inverse: bool = False,
    numbers: Sequence[int] = (),
) -> Explanation:
    """Return how x was rotated, instead of by the expected table.

    Args:
        x: the array before the rotation, (…, S, head_dim), finite.
        rotated: the array after it, of the same shape.
        dtype: the type of the rotated numbers.
        target: the expected cosines and sines, of S rows or more; of (B, S) rows for sequences with
            positions of their own, where the first axis of x is B.
        layout: the expected layout of the pairs; None if both are right.
        output_layout: that of the result; None if it is the same.
        rotary_offset: the number of channels before the first that rotates.
        inverse: whether the rotation should be by minus the angles.
        numbers: the number of each axis as it was sent, if axes were moved.
    """
    starts = [
        Wiring(
            x.shape[-1],
            target.width,
            rotary_offset,
            read,
            (output_layout or read),  # type: ignore[arg-type]
            gains=(1.0, -1.0 if inverse else 1.0),
        )
        for read in LAYOUTS
        if layout in {None, read}
    ]
    tables = target.document.arrays if target.document else {}
    shape = next((table.shape[:-1] for table in tables.values()), ())
    by_sequence = len(shape) == 2 and x.ndim > 2 and shape == (x.shape[0], x.shape[-2])
    last = x.ndim - 2
    first: _RotationSearch | None = None
    for axis in (last, *(each for each in reversed(range(last)) if x.shape[each] > 1)):
        if by_sequence and axis < last:
            break
        before, after = (_in_rows(each, axis, by_sequence=by_sequence) for each in (x, rotated))
        places = target.places(before.shape[1])
        if places is None:
            continue
        given: tuple[Mistake, ...] = ()
        if axis < last:
            have, want = (numbers[each] if numbers else each for each in (axis, last))
            values = {"have": have, "want": want}
            given = (mistake("axes-swapped", None, values, variant="rotation"),)
        kind = narrowest_dtype(np.stack([before, after]), dtype)
        decimals = _decimals(after) if kind in {FLOAT32, FLOAT64} else 0
        slack = 1.5 * 10.0**-decimals if decimals else 0.0
        if 0 < decimals < _USUAL_DECIMALS:
            given += (mistake("rounded-decimals", None, {"decimals": decimals}),)
        sides = Sides(before, after, places)
        search = _RotationSearch(sides, target, starts, kind, dtype, given, slack)
        first = first or search
        if search.found() is not None:
            return search.report()
        held = narrowest_dtype(after, dtype)
        if axis == last and HALF_STEP[held] > 2 * HALF_STEP[kind]:
            narrow = (mistake("narrow-tables", None, {"dtype": held.name}),)
            coarse = replace(search, kind=held, given=narrow)
            if coarse.found() is not None:
                return coarse.report()
    return Explanation("none") if first is None else first.partly()


def _decimals(y: Float64s) -> int:
    """Return to how many decimals, 2 to 12, all numbers are rounded; 0 if to none."""
    size = float(np.abs(y).max(initial=0))
    if not (y % 1).any():
        return 0
    for decimals in range(2, 13):
        # Printed numbers of float32 are within half its step of short ones.
        close = HALF_STEP[FLOAT32 if decimals < _USUAL_DECIMALS else FLOAT64] * size
        if np.abs(np.round(y, decimals) - y).max(initial=0) <= close:
            return decimals
    return 0


def _in_rows(x: Float64s, axis: int, *, by_sequence: bool) -> Float64s:
    """Return an array as (heads, positions, head_dim)."""
    if by_sequence:
        return np.moveaxis(x, 0, -3).reshape(-1, x.shape[0] * x.shape[-2], x.shape[-1])
    swapped = np.swapaxes(x, axis, -2)
    return swapped.reshape(prod(swapped.shape[:-2]), *swapped.shape[-2:])


class _Turns(Reading):
    """A reading whose numbers have weights."""

    @cached_property
    def is_constant(self) -> bool:
        sizes, weights = np.abs(self.sample.phasors), self.sample.weights
        middle = float(np.median(sizes))
        off = np.abs(sizes - middle) * (1.0 if weights is None else np.minimum(weights, 1))
        tolerance = 16 * HALF_STEP[self.dtype] + 1e-5 + 4 * self.sample.slack
        return float(np.quantile(off, 0.9)) <= tolerance * middle


@dataclass(frozen=True, eq=False)
class _Found:
    """A candidate that gives every sampled number by a wiring, in a type."""

    bits: float
    candidate: Candidate
    wiring: Wiring
    kind: DType
    reading: Reading


@dataclass(eq=False)
class _RotationSearch:
    """The search for a rotation along one axis.

    Attributes:
        sides: all heads and rows.
        target: the expected table.
        starts: the expected wirings.
        kind: the type of the arithmetic.
        sent: the type of the numbers as they were sent.
        given: mistakes that are known.
        slack: an error of each number, of printed decimals.
        most: how many mistakes a wiring may have.
    """

    sides: Sides
    target: Target
    starts: Sequence[Wiring]
    kind: DType
    sent: DType
    given: tuple[Mistake, ...] = ()
    slack: float = 0.0
    most: int = 2
    best: _Found | None = field(default=None, init=False)
    others: list[Candidate] = field(default_factory=list, init=False)

    def found(self) -> _Found | None:
        """Return the cheapest explanation of the sampled numbers; None if there is none."""
        if self.target.width <= self.sides.x.shape[2]:
            steps = (
                self.by_cost,
                self._by_axes,
                self._beginning,
                self._by_positions,
                self._unnamed,
            )
            for attempt in steps:
                if self.best is None:
                    attempt()
        return self.best

    @cached_property
    def _rows(self) -> Indices:
        return sampled_rows(self.sides.rows)

    @cached_property
    def _sample(self) -> Sides:
        return self.sides.at(self._rows).heads

    @cached_property
    def _variants(self) -> list[Variant]:
        x, y = self.sides.x, self.sides.y
        shown = ReadChannels.of(x, y, self.target.scale, self.kind, self.slack)
        return [
            each for each in variants(list(self.starts), shown) if len(each.mistakes) <= self.most
        ]

    # ------------------------------------------------------------------ readings

    def _read(self, wiring: Wiring) -> Reading | None:
        """Return the reading of the sampled rows by a wiring; None if it cannot be this one."""
        if wiring not in self._readings:
            sample = self._sample
            is_possible = sample.rows <= FIRST_ROWS or self._reading(wiring, sample.few)
            self._readings[wiring] = self._reading(wiring, sample) if is_possible else None
        return self._readings[wiring]

    @cached_property
    def _readings(self) -> dict[Wiring, Reading | None]:
        return {}

    def _reading(self, wiring: Wiring, sides: Sides) -> Reading | None:
        """Return the cosines and sines that a wiring needs; None if none take x to y by it."""
        dtype = wiring.tables or (FLOAT32 if self.kind is FLOAT64 else self.kind)
        cosine, sine, weights = wiring.measured(sides.x, sides.y)
        known = weights > 0
        sizes = np.hypot(cosine, sine)
        middle = float(np.median(sizes[known])) if known.any() else self.target.scale
        noise = 5 * max(HALF_STEP[self.kind], UNIT) * max(middle, 1.0)
        misfit = sides.misfit(wiring, cosine, sine, noise, self.kind)
        if (misfit > 4 * self.slack).mean() > _MOST_MISFITS:
            return None
        if len(sides.x) == 1 and wiring not in self.starts and known.any():
            # One head fits any wiring: only a true one gives cosines and sines.
            spread = float(np.quantile(np.abs(sizes - middle)[known], 0.9))
            if spread > _MOST_SPREAD * middle:
                return None
        # Pairs that do not move in any row stand still.
        still = (np.abs(sine) <= 4 * HALF_STEP[dtype] * middle).all(axis=0)
        cosine, sine = np.where(known, cosine, middle), np.where(still, 0.0, sine)
        size = np.sqrt(weights / (float(np.median(weights[known])) if known.any() else 1.0))
        places = sides.places[:, : wiring.count]
        view = View(cosine, sine, dtype, wiring.written, weights=size, slack=self.slack)
        return _Turns(view, view, np.arange(sides.rows), places, dtype, 0, None)

    def _proposers(self, wiring: Wiring, reading: Reading) -> Iterator[Proposer]:
        """Yield a proposer, or two where another number of channels rotates."""
        target, series, count = self.target, self.target.series, wiring.count
        if series is None or 1 < reading.places.shape[1] < count:
            return
        common = (reading.sample, reading.measured, self.sides.rows)
        first = float(reading.places[0, 0])
        if wiring.width <= target.width:
            shorter = replace(series, exponents=series.exponents[:count])
            yield Proposer(target, shorter, *common, first=first)
        if wiring.width != target.width:
            own = replace(series, exponents=np.arange(count) / count, width=2 * count)
            yield Proposer(target, own, *common, first=first)

    # ------------------------------------------------------------------ attempts

    def by_cost(self) -> None:
        """Try wirings, and the candidates of each, in the order of their cost."""
        for variant in self._variants:
            if self._is_beyond(variant.bits):
                break
            reading = self._read(variant.wiring)
            if reading is None:
                continue
            for candidate in self._candidates(variant.wiring, reading):
                if self._is_beyond(variant.bits + candidate.bits):
                    break
                self._accept(variant, candidate, reading)

    def _is_beyond(self, bits: float) -> bool:
        """Return whether what costs so much is no alternative to the best."""
        if self.best is None:
            return False
        most = self.best.bits + _NEAR_BITS
        near = len({each.names for each in self.others if each.bits <= most})
        bits += sum(each.bits for each in self.given)
        return self.best.bits == 0 or near > _MOST_ALTERNATIVES or bits > most

    def _candidates(self, wiring: Wiring, reading: Reading) -> Iterator[Candidate]:
        if wiring.width == self.target.width:
            yield expected(self.target)
        if wiring in self.starts:
            none = mistake("not-rotated")
            yield Candidate((none,), none.bits, np.zeros(wiring.count), 1.0)
            places = self.sides.places
            ends = float(places[0, 0] + places[-1, 0])
            if len(places) > 1 and (places + places[::-1] == ends).all():
                turned = replace(expected(self.target), omega=-self.target.omega, shift=-ends)
                yield turned.with_mistake(mistake("positions-reversed"))
        elif not reading.is_constant:
            return
        proposed = (each.candidates() for each in self._proposers(wiring, reading))
        for candidate in merge(*proposed, key=lambda each: each.bits):
            # Cosines and sines of different frequencies are no rotation.
            if candidate.sine is None and not reading.is_constant:
                continue
            if candidate.sine is not None and (wiring not in self.starts or candidate.narrowing):
                continue
            yield candidate
            if candidate.names[-1:] in {("extra-factor",), ("wrong-factor",)}:
                yield from _with_near_factors(candidate, reading)

    def _by_axes(self) -> None:
        """Try the positions of other axes, or of axes that begin elsewhere."""
        target, places = self.target, self.sides.places
        if target.is_along_one_axis:
            return
        axis, plain = target.structure.axis, expected(target)
        for variant, reading in self._near_variants():
            if variant.wiring.width != target.width:
                continue
            for wrong, where in chain(moved_axes(axis, places), offset_axes(axis, places)):
                moved = plain.with_mistake(wrong, places=where)
                if self._accept(variant, moved, reading):
                    return

    def _beginning(self) -> None:
        """Try the rows before those, at the end, that are unchanged or zero."""
        x, y, rows = self.sides.x, self.sides.y, self.sides.rows
        for beyond, is_so in (("unchanged", x == y), ("zero", y == 0)):
            ends = is_so.all(axis=(0, 2))
            first = 0 if ends.all() else rows - int(np.argmin(ends[::-1]))
            if first < 2 or not x[:, first:].any():
                continue
            values = {"have": first, "want": rows, "beyond": beyond}
            cut = mistake("truncated", None, values, variant="rotation")
            part = replace(self, sides=self.sides.at(slice(first)), given=(*self.given, cut))
            part.by_cost()
            if part.best is not None:
                self.best, self.others = part.best, part.others
                return

    def _near_variants(self) -> Iterator[tuple[Variant, Reading]]:
        """Yield wirings with at most one mistake that may be the true one."""
        for variant in self._variants:
            if len(variant.mistakes) < 2:
                reading = self._read(variant.wiring)
                if reading is not None:
                    yield variant, reading

    def _plain(self, wiring: Wiring, reading: Reading) -> Iterator[Candidate]:
        """Yield the expected frequencies, those of the width of a wiring."""
        target = self.target
        if wiring.width == target.width:
            yield expected(self.target)
            return
        for each in self._proposers(wiring, reading):
            omega = target.rule.frequencies(each.series)
            yield replace(expected(self.target), omega=omega, series=each.series)

    def _by_positions(self) -> None:
        """Try the positions that the phases of each row show."""
        target, sides = self.target, self.sides
        if not target.is_along_one_axis or not 1 < sides.rows <= _MOST_DECODED_ROWS:
            return
        for variant, sampled in self._near_variants():
            if self._is_beyond(variant.bits + _POSITIONS_BITS):
                break
            is_all = len(self._rows) == sides.rows
            reading = sampled if is_all else self._reading(variant.wiring, sides.heads)
            for plain in self._plain(variant.wiring, reading) if reading else ():
                assert reading is not None
                found = decoded(reading.view, plain.omega, reading.dtype)
                other = None if found is None else pattern(found, sides.places[:, 0])
                if found is None or other is None:
                    continue
                if (found % 1).any() and not (sides.places % 1).any():
                    continue
                moved = plain.with_mistake(other, places=found[:, None])
                wrong = moved.with_mistake(mistake("extra-factor"), scale=0.0)
                values = {"factor": target.scale, "ratio": 1 / target.scale}
                missing = mistake("missing-factor", None, values, {"attention_factor": 1.0})
                without = moved.with_mistake(missing, scale=1.0)
                for candidate in (moved, without, *_with_near_factors(wrong, reading)):
                    if self._accept(variant, candidate, reading):
                        break

    def _unnamed(self) -> None:
        """Try the measured frequencies themselves."""
        for variant, reading in self._near_variants():
            measured, omega = reading.measured, self.target.omega
            if measured is None or self.sides.rows < _ENOUGH_ROWS or measured.is_backward:
                continue
            if len(measured.omega) != len(omega):
                continue
            pair = int(np.argmax(np.abs(measured.omega - omega) > measured.error))
            values = {"pair": pair, "have": float(measured.omega[pair]), "want": float(omega[pair])}
            wrong = mistake("wrong-rule", None, values, variant="frequencies")
            plain = Candidate((wrong,), wrong.bits, measured.omega, self.target.scale)
            if self._accept(variant, plain, reading):
                return
            if shift := measured.shift(measured.omega):
                moved = {"rows": int(shift), "have": shift, "want": 0.0}
                offset = mistake("position-offset", None, moved)
                if self._accept(variant, plain.with_mistake(offset, shift=shift), reading):
                    return

    # ------------------------------------------------------------------ verification

    def _accept(self, variant: Variant, candidate: Candidate, reading: Reading) -> bool:
        """Keep a candidate if it gives every sampled number; return whether it does."""
        mistakes = _renamed((*self.given, *variant.mistakes, *candidate.mistakes))
        said = {(each.name, str(each.values.get("how"))) for each in mistakes}
        if len(mistakes) > MOST_MISTAKES or len(said) < len(mistakes):
            return False
        sides = self._sample if candidate.places is None else self.sides
        waves, narrow = self._waves(candidate, reading.places), candidate.narrowing
        if narrow is not None and narrow.part == "throughout" and narrow.dtype is not self.kind:
            return False
        few = np.arange(0, sides.rows, max(1, sides.rows // FIRST_ROWS))
        first, part = waves.at(few), sides.at(few, slice(0, 1))
        if not np.isfinite(first.angles[0]).all():
            return False
        # Numbers of float64 may come from tables of float32.
        for kind in (FLOAT64, FLOAT32) if self.kind is FLOAT64 else (self.kind,):
            if any(
                each.bad(variant.wiring, some, kind, self.slack).any()
                for each, some in ((part, first), (sides, waves))
            ):
                continue
            bits = sum(each.bits for each in mistakes) + MORE_BITS * max(len(mistakes) - 1, 0)
            whole = replace(candidate, mistakes=mistakes, bits=bits)
            if self.best is None or bits < self.best.bits:
                self.others += [self.best.candidate] if self.best else []
                self.best = _Found(bits, whole, variant.wiring, kind, reading)
            else:
                self.others.append(whole)
            return True
        return False

    def _is_loose(self, wiring: Wiring, waves: Waves, kind: DType, sides: Sides) -> bool:
        """Return whether a number is further off than one rounding to a narrow type explains."""
        if kind not in {BFLOAT16, FLOAT16} or waves.narrowing is not None:
            return False
        return bool(sides.bad(wiring, waves, kind, self.slack, halves=_ONE_ROUNDING).any())

    def _waves(self, candidate: Candidate, places: Float64s, start: int = 0) -> Waves:
        """Return what a candidate predicts of rows from ``start`` on; exactly, far from 0."""
        waves = candidate.waves(places)
        if candidate.omega is not self.target.omega or candidate.shift or candidate.narrowing:
            return waves
        return replace(waves, exact=self.target.exact(np.arange(start, start + len(places))))

    def faults(self, best: _Found) -> Mask | None:
        """Return where numbers differ from what was found, (H, S, head_dim); None if nowhere."""
        sides, found = self.sides, np.zeros(self.sides.x.shape, dtype=np.bool_)
        cut = [each for each in best.candidate.mistakes if each.name == "truncated"]
        rows = int(cut[0].values["have"]) if cut else sides.rows
        size = max(1, _BLOCK_ELEMENTS // max(sides.x[:, 0].size, 1))
        for start in range(0, rows, size):
            block = slice(start, min(start + size, rows))
            part, own = sides.at(block), best.candidate
            if own.places is not None:
                own = replace(own, places=own.places[block])
            waves = self._waves(own, part.places[:, : best.wiring.count], start)
            found[:, block] = part.bad(best.wiring, waves, best.kind, self.slack)
        return found if found.any() else None

    # ------------------------------------------------------------------ answers

    def report(self) -> Explanation:
        """Check every number with what was found, and return the explanation."""
        assert self.best is not None
        if self.best.candidate.places is None:
            self.best = replace(self.best, candidate=self._with_interval(self.best))
        mistakes, match = self.best.candidate.mistakes, self.match(self.best)
        bad, counts = self.faults(self.best), (self.sides.x.size, len(self._rows))
        if bad is not None:
            return Explanation(
                "none", (), match, (), (place_of(bad, self.best.wiring, mistakes),), *counts
            )
        if not mistakes:
            return Explanation("equal", (), match, (), (), *counts)
        near = [each for each in self.others if each.bits <= self.best.bits + _NEAR_BITS]
        names = set(self.best.candidate.names)
        others = tuple(each.mistakes for each in simplest(near) if not names <= set(each.names))
        return Explanation("diagnosed", mistakes, match, others[:_MOST_ALTERNATIVES], (), *counts)

    def _bad(self, best: _Found, waves: Waves, sides: Sides, level: int) -> Mask:
        return sides.bad(best.wiring, waves, best.kind, self.slack, level)

    def _with_interval(self, best: _Found) -> Candidate:
        """Return the candidate with the interval of its base that explains some of the rows."""
        part = self._sample.at(np.array(evenly(len(self._rows), INTERVAL_ROWS)))
        places = part.places[:, : best.wiring.count]
        waves = self._waves(best.candidate, places)
        is_loose = self._is_loose(best.wiring, waves, best.kind, part)
        exact = (each for each in (0, 1) if not self._bad(best, waves, part, each).any())
        level = next(exact, 2)

        def fits(each: Candidate) -> bool:
            waves = self._waves(each, places)
            if self._bad(best, waves, part, level).any():
                return False
            return is_loose or not self._is_loose(best.wiring, waves, best.kind, part)

        return with_interval(best.candidate, fits)

    def match(self, best: _Found) -> Match:
        """Return what was found, with its arithmetic."""
        waves = best.candidate.waves(best.reading.places)
        sides = self.sides if best.candidate.places is not None else self._sample
        sides = sides.at(slice(best.reading.view.rows))
        arithmetic = IN_FLOAT64 if best.kind is FLOAT64 else ITERATED
        if waves.narrowing is not None:
            arithmetic = waves.narrowing.arithmetic
        elif best.kind is not FLOAT64:
            # Numbers of float64 that only float32 explains are no exact ones.
            exact = EXACT if self.kind is best.kind else IN_FLOAT32
            for level, each in ((1, IN_FLOAT32), (0, exact)):
                if not sides.bad(best.wiring, waves, best.kind, self.slack, level).any():
                    arithmetic = each
        is_narrow = HALF_STEP[self.kind] > 2 * HALF_STEP[self.sent]
        return Match(best.bits, best.candidate, Fit(arithmetic), best.reading, self.kind, is_narrow)

    def partly(self) -> Explanation:
        """Return what explains most numbers, if nothing explains all, and where it does not."""
        closest, most = None, _LEAST_SHARE
        for best in self._partial():
            bad = self.faults(best)
            if bad is not None and 1 - bad.mean() > most:
                closest, most = (self.match(best), best.wiring, bad), float(1 - bad.mean())
        counts = (self.sides.x.size, len(self._rows))
        if closest is None:
            return Explanation("none", (), None, (), (), *counts)
        match, wiring, bad = closest
        place = place_of(bad, wiring, match.candidate.mistakes)
        return Explanation("none", (), match, (), (place,), *counts)

    def _partial(self) -> Iterator[_Found]:
        """Yield what may explain many numbers: right angles, or what some rows or heads show."""
        if self.target.width > self.sides.x.shape[2]:
            return
        sides, few = self.sides, self._sample.few
        kind = FLOAT32 if self.kind is FLOAT64 else self.kind
        waves = expected(self.target).waves(few.places)
        near = [each for each in self._variants if len(each.mistakes) == 1]
        shares = [
            (float(few.bad(each.wiring, waves, kind, self.slack).mean()), each)
            for each in (*map(Variant, self.starts), *near)
            if each.wiring.width == self.target.width
        ]
        plain = min(shares, key=lambda each: each[0])[1]
        places = sides.places[self._rows]
        view = View(*expected(self.target).waves(places).values, kind, plain.wiring.written)
        reading = Reading(view, view, np.arange(len(places)), places, kind, 0, None)
        whole = replace(expected(self.target), mistakes=plain.mistakes, bits=plain.bits)
        yield _Found(plain.bits, whole, plain.wiring, kind, reading)
        for part in self._parts(kind):
            own = replace(self, sides=part, most=1)
            own.by_cost()
            if own.best is not None:
                yield own.best

    def _parts(self, kind: DType) -> Iterator[Sides]:
        """Yield heads and rows that may be right where others are not."""
        sides, rows = self.sides, self.sides.rows
        for variant in self._variants:
            wiring = variant.wiring
            cosine, sine, _ = wiring.measured(sides.x, sides.y)
            misfit = sides.misfit(wiring, cosine, sine, 8 * HALF_STEP[kind], kind)
            right = ~(misfit > self.slack).any(axis=(0, 2))
            if len(sides.x) == 1:
                sizes = np.hypot(cosine, sine)
                near = np.abs(sizes - np.median(sizes)) <= _MOST_SPREAD * np.median(sizes)
                right = near.mean(axis=1) > 0.8
            if max(rows // 4, 1) < right.sum() < rows:
                yield sides.at(np.flatnonzero(right))
                break
        if len(sides.x) > 1:
            yield sides.at(slice(None), slice(0, 1))
            yield sides.at(slice(None), slice(-1, None))
        if rows >= 2 * FIRST_ROWS:
            yield sides.at(slice(0, rows // 4))


def _with_near_factors(candidate: Candidate, reading: Reading) -> Iterator[Candidate]:
    """Yield a candidate with other factors of few digits, nearer to the measured one."""
    *others, last = candidate.mistakes
    number = float(np.median(np.abs(reading.sample.phasors))) / candidate.own_scale
    for share in (2, 0.5, 0.1):
        close = share * HALF_STEP[reading.dtype] + 2 * UNIT
        shortest = fewest_digits(number * (1 - close), number * (1 + close))
        if shortest is not None and shortest[0] * candidate.own_scale != candidate.scale:
            factor, scale = shortest[0], shortest[0] * candidate.own_scale
            values = {"factor": factor, "ratio": factor}
            other = replace(last, values=values, changes={"attention_factor": scale})
            yield replace(candidate, scale=scale, mistakes=(*others, other))


_ORDER = ("axes-swapped", "truncated", "inverse", "rotated-twice")


def _renamed(mistakes: Sequence[Mistake]) -> tuple[Mistake, ...]:
    """Return mistakes by the names that they have in a rotation, in the order they are made."""
    names = {each.name for each in mistakes}
    hidden = set()
    if "not-rotated" in names:
        hidden |= {"missing-factor", "wrong-factor"}
    if "rotated-twice" in names:
        hidden |= {"extra-factor"}
    if "narrow-throughout" in names:
        hidden |= {"narrow-tables"}
    kept = []
    for each in (each for each in mistakes if each.name not in hidden):
        other = each
        if each.name == "sine-sign" and not each.variant:
            other = mistake("inverse", each.bits)
        elif each.name in {"extra-factor", "wrong-factor"}:
            is_less = float(each.values["ratio"]) < 1
            other = replace(each, name="wrong-factor" if is_less else "extra-factor")
        kept.append(other)
    return tuple(sorted(kept, key=lambda each: each.name not in _ORDER))
