"""Explain an array: how it is wrapped, in which arithmetic it was made, which mistake remains.

In that order. Each reading of the array (``views``) is compared with the expected table in every
known arithmetic; one that gives every number ends the search. Otherwise the reading is measured and
candidates are tried in the order of their cost. The first that gives every sampled number is the
answer, and those that cost little more are alternatives. Then every number is checked once. Where
nothing fits, positions are decoded, and at last ``findings`` says what the data does show.

This module is long because all ways to explain one array are steps of one search.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import pi
from typing import Literal, TypeAlias

import numpy as np

from service.analysis.array import TableRequest
from service.analysis.explanation.arithmetic import (
    BY_EXACTNESS,
    EXACT,
    IN_FLOAT32,
    IN_FLOAT64,
    Fit,
    Waves,
    fit_of,
    is_possible,
)
from service.analysis.explanation.candidates import (
    INTERVAL_ROWS,
    MOST_MISTAKES,
    Candidate,
    Proposer,
    expected,
    narrowed,
    simplest,
    with_factor,
    with_interval,
)
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.decoding import (
    decoded,
    longest_run,
    matched,
    moved_axes,
    near_wanted,
    offset_axes,
    pattern,
)
from service.analysis.explanation.faults import but_for, faults, kinds, of_length
from service.analysis.explanation.findings import slices, unexplained
from service.analysis.explanation.formulas import ORIGINAL
from service.analysis.explanation.measured import UNIT
from service.analysis.explanation.places import Finding
from service.analysis.explanation.sampling import ALL_ROWS, Reading, readings_of
from service.analysis.explanation.target import PACKING_TEXTS, PART_TEXTS, Target
from service.analysis.explanation.views import (
    HALF_STEP,
    View,
    evenly,
    numbers_of,
)
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.tables import StoredTable, size

Verdict: TypeAlias = Literal["equal", "diagnosed", "none"]

# People make one mistake more often than several.
MORE_BITS = 2.0
# Candidates within this of the winner are alternatives.
_NEAR_BITS = 3.0
_MOST_ALTERNATIVES = 6
# Angles that a factor does not turn beyond half a turn.
_SLOW = 0.1
# A factor nearer to 1 is the error of its estimate.
_NO_FACTOR = 0.005
# What costs more is a coincidence.
_MOST_BITS = 40.0
# Several mistakes that cost more than this may be other positions.
_FAR_BITS = 8.0
# Arithmetics whose rounding hides no other base.
_SURE = {EXACT, IN_FLOAT32, IN_FLOAT64}
# A first check of a candidate looks at this many rows.
_FIRST_ROWS = 16
_NARROW_BITS, _DECIMAL_BITS = 5.0, 4.0
# All rows of larger arrays are neither decoded nor divided by a factor.
_MOST_DECODED = 2**22
# In so many rows, pairs of one size have cosines and sines of one frequency.
_ROWS_OF_ONE = 64
# Diffusion models count their time from 0 to 1, or in so many steps.
_TIMESTEPS = 1000.0
# Fewer rows in sequence turn alike by chance.
_FEWEST_IN_A_RUN = 4
# Mistakes of where rows begin, which do not matter where each row is decoded.
_OF_THE_FIRST_ROW = frozenset({"position-offset", "cache-offset"})


@dataclass(frozen=True, eq=False)
class Match:
    """A candidate that gives every sampled number of a reading."""

    bits: float
    candidate: Candidate
    fit: Fit
    reading: Reading
    dtype: DType
    is_narrow: bool


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of an array.

    Attributes:
        verdict: equal, diagnosed or none.
        mistakes: what turns the expected table into the array.
        match: what explains the numbers; for none, what comes nearest, or None.
        alternatives: other lists of mistakes that explain the sampled numbers as well.
        findings: what else the data shows.
        elements: how many numbers were checked.
        sampled: how many rows were examined.
        request: the request of another table that the array is, where a setting is the mistake.
        notes: what was undone to read numbers that no match explains.
    """

    verdict: Verdict
    mistakes: tuple[Mistake, ...] = ()
    match: Match | None = None
    alternatives: tuple[tuple[Mistake, ...], ...] = ()
    findings: tuple[Finding, ...] = ()
    elements: int = 0
    sampled: int = 0
    request: TableRequest | None = None
    notes: tuple[str, ...] = ()


def explain(arrays: Mapping[str, StoredTable], target: Target) -> Explanation:
    """Return what one array, or ``cos`` and ``sin``, is instead of the expected table."""
    # Numbers that no table has may overflow; what they give is not within any bound.
    with np.errstate(all="ignore"):
        found = _Search(target).explain(readings_of(arrays, target))
    elements = sum(size(table) for table in arrays.values())
    found = replace(found, elements=elements)
    is_zero = not any(numbers_of(table)[0].any() for table in arrays.values())
    if is_zero and found.sampled and found.verdict != "equal":
        zero = Finding("zero", "all numbers are zero", {"count": elements})
        return Explanation("none", findings=(zero,), elements=elements, sampled=found.sampled)
    if found.verdict == "none" and found.match is None:
        parts = slices(arrays, target, lambda part: explain(part, target))
        return replace(found, findings=parts or found.findings)
    return found


def is_table(arrays: Mapping[str, StoredTable], target: Target) -> bool:
    """Return whether arrays are the expected table in some arithmetic, as sampled rows show."""
    with np.errstate(all="ignore"):
        return _Search(target).is_equal(readings_of(arrays, target))


@dataclass(eq=False)
class _Search:
    """The search for one target: the best match so far, and the alternatives."""

    target: Target
    best: Match | None = None
    others: list[Candidate] = field(default_factory=list)

    def explain(self, found: Iterable[Reading]) -> Explanation:
        readings = []
        for reading in found:
            readings.append(reading)
            if self.best is not None and reading.view.bits >= self.best.bits:
                break
            if self._is_telling(reading) and not self._as_expected(reading):
                self._try(reading)
        if self.best is None:
            self._by_lists(readings)
        best = self.best
        if best is not None and best.bits > _FAR_BITS and len(best.candidate.mistakes) > 1:
            self._by_positions(readings)
        ways = (
            self._narrowly,
            self._by_positions,
            self._by_axes,
            self._scaled,
            self._of_one_part,
            self._one_sided,
            self._negated,
        )
        for way in ways:
            if self.best is None:
                way(readings)
        if self.best is None:
            findings = unexplained(readings, self.target)
            sampled = len(readings[0].rows) if readings else 0
            return Explanation("none", findings=findings, sampled=sampled)
        return self._report(self.best)

    def is_equal(self, found: Iterable[Reading]) -> bool:
        """Return whether the first reading that may be the expected table is it, and no more."""
        if not any(self._is_telling(each) and self._as_expected(each) for each in found):
            return False
        assert self.best is not None
        rows = len(self.target.structure.places)
        return self.best.reading.sent == rows and not any(self._around(self.best))

    def _is_telling(self, reading: Reading) -> bool:
        """Return whether a reading has numbers, and not only the zeros of sines alone."""
        if not reading.is_finite:
            return False
        wanted = self.target.wanted.columns.values()
        alone = reading.sample.cosine is None and any(len(each.cosine) for each in wanted)
        return not alone or bool(reading.sample.parts[0].any())

    def _is_comparable(self, reading: Reading) -> bool:
        """Return whether a reading has as many frequencies as the expected table."""
        return reading.sample.count == len(self.target.omega)

    def _is_whole(self, reading: Reading) -> bool:
        """Return whether a reading has all the parts of the expected table."""
        return reading.view.part_names == self.target.wanted.parts

    def _as_expected(self, reading: Reading) -> bool:
        """Return whether the reading is the expected table, in some arithmetic."""
        target = self.target
        if not self._is_comparable(reading):
            return False
        return self._accept(reading, expected(self.target), target.exact(reading.rows))

    def _dtypes(self, reading: Reading) -> list[tuple[DType, bool]]:
        """Return the types in which a reading is judged, and whether it is a mistake to have one.

        Numbers that fit a narrower type than was sent are judged in the type sent first: a few
        numbers may fit it by chance.
        """
        sent, held = reading.view.dtype, reading.dtype
        if held is sent or (sent, held) == (FLOAT64, FLOAT32):
            return [(held, False)]
        is_narrow = HALF_STEP[held] > 2 * HALF_STEP[self.target.dtype]
        return [(sent, False), (held, is_narrow and held in {BFLOAT16, FLOAT16})]

    def _accept(
        self,
        reading: Reading,
        candidate: Candidate,
        exact: tuple[Float64s, Float64s] | None = None,
    ) -> bool:
        """Keep a candidate if it gives every sampled number; return whether it does.

        Args:
            reading: the reading.
            candidate: the candidate.
            exact: the cosines and sines of its rows, where float64 angles would be wrong.
        """
        waves = replace(reading.waves(candidate, reading.rows), exact=exact)
        few = slice(0, _FIRST_ROWS)
        first = reading.sample.at(few) if len(reading.rows) > 2 * _FIRST_ROWS else None
        for dtype, is_narrow in self._dtypes(reading):
            if first is not None and not is_possible(first, waves.at(few), dtype):
                continue
            fit = fit_of(reading.sample, waves, dtype)
            is_sure = len(candidate.mistakes) == 1 and fit is not None and fit.arithmetic in _SURE
            if fit is None or (candidate.is_odd and not is_sure):
                continue
            extra = _NARROW_BITS * is_narrow + _DECIMAL_BITS * bool(reading.decimals)
            bits = candidate.bits + reading.view.bits + extra
            bits += MORE_BITS * max(len(candidate.mistakes) - 1, 0)
            if bits > _MOST_BITS:
                continue
            if len(candidate.mistakes) > 1 and self._is_undone(reading, waves):
                return False
            match = Match(bits, candidate, fit, reading, dtype, is_narrow)
            if len(candidate.mistakes) + len(list(self._around(match))) > MOST_MISTAKES:
                continue
            if self.best is None or bits < self.best.bits:
                if self.best is not None:
                    self.others.append(self.best.candidate)
                self.best = match
            else:
                self.others.append(candidate)
            return True
        return False

    def _is_undone(self, reading: Reading, waves: Waves) -> bool:
        """Return whether mistakes cancel each other, so that they give the expected table."""
        if not self._is_comparable(reading):
            return False
        right = expected(self.target).waves(reading.places[reading.rows])
        return waves.gives(right)

    def _try(self, reading: Reading) -> None:
        """Try the candidates of a reading in the order of their cost."""
        if not reading.is_constant and reading.sample.has_pairs:
            self._try_slips(reading)
            return
        found = 0
        if not reading.moves:
            # Equal rows are those of no frequencies, but of a table that does not turn.
            still = mistake("not-rotated")
            if self._is_comparable(reading) and self._is_whole(reading):
                omega = np.zeros(reading.sample.count)
                self._accept(reading, expected(self.target).with_mistake(still, omega=omega))
            return
        is_one = reading.sample.has_pairs and len(reading.rows) > _ROWS_OF_ONE
        for proposer in self._proposers(reading):
            for candidate in proposer.candidates():
                bits = candidate.bits + reading.view.bits
                if self.best is not None and bits > self.best.bits + _NEAR_BITS:
                    break
                if not candidate.mistakes or (is_one and candidate.sine is not None):
                    continue
                found += self._accept(reading, candidate)
                if found > _MOST_ALTERNATIVES:
                    return

    def _try_slips(self, reading: Reading) -> None:
        """Try cosines and sines of different frequencies, whose squares do not add up to one."""
        for proposer in self._proposers(reading):
            for source in proposer.slips():
                if source.sine is None:
                    continue
                rule = self.target.rule
                omega, sine = rule.frequencies(source.series), rule.frequencies(source.sine)
                plain = Candidate(source.mistakes, source.bits, omega, self.target.scale, sine=sine)
                for shift in (0.0, 1.0, -1.0):
                    moved = plain
                    if shift:
                        values = {"rows": int(shift), "have": shift, "want": 0.0}
                        moved = plain.with_mistake(
                            mistake("position-offset", None, values), shift=shift
                        )
                    self._accept(reading, moved)

    def _proposers(self, reading: Reading) -> Iterator[Proposer]:
        """Yield a proposer, or several where the array has another number of pairs."""
        target, series, pairs = self.target, self.target.series, reading.sample.count
        if series is None or not target.may_have(pairs):
            return
        wanted = len(target.omega)
        if reading.measured is not None and len(reading.measured.omega) != pairs:
            # One cosine more than sines, or the other way round.
            return
        common = (reading.sample, reading.measured, reading.view.rows)
        first = float(reading.places[0, 0]) if target.may_follow_others else 0.0
        if pairs == wanted:
            yield Proposer(target, series, *common, first=first)
            return
        own = replace(series, exponents=2 * np.arange(pairs) / (2 * pairs), width=2 * pairs)
        values = {"have": 2 * pairs, "want": 2 * wanted}
        other = mistake("partial-width", None, values, {"rotary_dim": 2 * pairs})
        if pairs < wanted:
            cut = of_length("channels", reading.view.channels, target.wanted.channels)
            fewer = replace(series, exponents=series.exponents[:pairs])
            yield Proposer(target, fewer, *common, given=(cut,), first=first)
            yield Proposer(target, own, *common, given=(other,), first=first)
        else:
            yield Proposer(target, own, *common, given=(other,), first=first)

    def _narrowly(self, readings: Sequence[Reading]) -> None:
        """Try the expected table with positions, frequencies or angles in a narrow type.

        Such rows, far from position 0, do not show their frequencies.
        """
        for reading in readings:
            if reading.is_finite and reading.is_constant and self._is_comparable(reading):
                for each in narrowed(expected(self.target)):
                    self._accept(reading, each)

    def _by_positions(self, readings: Sequence[Reading]) -> None:
        """Try the positions that phases show, at frequencies that some rows in sequence have."""
        target = self.target
        if not target.is_along_one_axis:
            return
        usable = [
            each
            for each in readings
            if each.is_finite
            and each.sample.has_pairs
            and each.is_constant
            and self._is_comparable(each)
            and each.view.rows * each.view.count <= _MOST_DECODED
        ]
        for reading in usable[:2]:
            whole = replace(reading.view.at(slice(None)), slack=reading.sample.slack)
            for candidate in self._turning(reading, whole):
                found = _positions(reading, whole, candidate)
                other = None if found is None else pattern(found, reading.places[:, 0])
                if found is None or other is None:
                    continue
                self._accept(reading, candidate.with_mistake(other, places=found[:, None]))

    def _turning(self, reading: Reading, whole: View) -> Iterator[Candidate]:
        """Yield the expected table, and what the longest run of rows is wherever it begins."""
        target = self.target
        plain = expected(self.target)
        yield plain
        if target.scale != 1:
            changes = {"attention_factor": 1.0}
            yield plain.with_mistake(
                mistake("missing-factor", None, {"factor": target.scale}, changes), scale=1.0
            )
        run = longest_run(whole, reading.dtype)
        step = float(np.median(np.diff(reading.places[:, 0]))) if len(run) else 0.0
        is_known = len(run) == len(reading.places) and not np.ptp(np.diff(reading.places[:, 0]))
        if len(run) < _FEWEST_IN_A_RUN or not step or is_known:
            return
        run = run[:ALL_ROWS]
        sample = replace(whole.at(run), dtype=reading.dtype)
        places = (step * np.arange(len(reading.places), dtype=np.float64))[:, None]
        part = replace(reading, sample=sample, rows=run, places=places)
        for each in self._of_rows(part, _OF_THE_FIRST_ROW):
            if each.below is not None or "positions-reversed" in each.names:
                continue
            yield replace(each, shift=0.0)
            if "sine-sign" in each.names:
                # Angles that fall may be those of rows in reverse order.
                turned = each.without({"sine-sign"})
                yield replace(turned, omega=-each.omega, shift=0.0)

    def _of_rows(self, reading: Reading, hidden: frozenset[str]) -> Iterator[Candidate]:
        """Yield what explains some rows, without some of its mistakes."""
        part = _Search(self.target)
        if not part._as_expected(reading):
            part._try(reading)
        for each in (part.best.candidate, *part.others) if part.best else ():
            yield each.without(hidden)

    def _by_lists(self, readings: Sequence[Reading]) -> None:
        """Try longrope with the list chosen by the position instead of by the length.

        The rows from the original length on show what else is wrong.
        """
        target, rule, series = self.target, self.target.rule, self.target.series
        if rule.rope_type != "longrope" or series is None or not target.is_along_one_axis:
            return
        original = float(rule.keys[ORIGINAL])
        short, long = (
            rule.changed(context_length=times * original).frequencies(series) for times in (1, 2)
        )
        wrong = mistake("list-by-position", None, {"length": original})
        for reading in readings:
            late = np.flatnonzero(reading.places[reading.rows, 0] >= original)
            is_usable = reading.is_finite and self._is_comparable(reading)
            if not is_usable or not 1 < len(late) < len(reading.rows):
                continue
            part = replace(reading, sample=reading.sample.at(late), rows=reading.rows[late])
            for each in self._of_rows(part, frozenset({"short-for-long-factors"})):
                below = each.omega * short / long
                placed = each.with_mistake(wrong, boundary=original, below=below)
                if self._accept(reading, placed):
                    return

    def _by_axes(self, readings: Sequence[Reading]) -> None:
        """Try the frequencies with the positions of other axes, or of axes that begin elsewhere."""
        target = self.target
        if target.is_along_one_axis:
            return
        axis, places = target.structure.axis, target.structure.places
        for reading in readings:
            rows = reading.view.rows
            if not reading.is_finite or reading.sample.count != len(axis) or rows > len(places):
                continue
            plain = replace(expected(target), places=places[:rows])
            moved = list(moved_axes(axis, places[:rows]))
            if self._is_whole(reading):
                moved.append((mistake("not-rotated"), np.zeros((rows, 1))))
            placed = [plain.with_mistake(wrong, places=where) for wrong, where in moved]
            # One by one, for these are as large as the table.
            offset = (
                plain.with_mistake(wrong, places=where)
                for wrong, where in offset_axes(axis, places[:rows])
            )
            if any(self._accept(reading, each) for each in chain(placed, offset)):
                return
            for candidate in (plain, *placed):
                if self._with_factor(reading, candidate):
                    return

    def _scaled(self, readings: Sequence[Reading]) -> None:
        """Try one factor of positions that are too far apart to show frequencies."""
        for reading in readings:
            is_open = reading.is_finite and reading.is_constant and reading.measured is None
            if not is_open or not self._is_comparable(reading) or not self.target.is_along_one_axis:
                continue
            plain = replace(expected(self.target), places=reading.places)
            for factor in (_TIMESTEPS, 1 / _TIMESTEPS):
                for each in with_factor(plain, factor, UNIT):
                    if self._accept(reading, each):
                        return
            if self._with_factor(reading, plain):
                return

    def _with_factor(self, reading: Reading, candidate: Candidate) -> bool:
        """Try the one factor of all positions that the slowest pairs of an axis show."""
        assert candidate.places is not None
        where, omega = candidate.places[reading.rows], candidate.omega
        angles = (where * omega).ravel()
        slow = (np.abs(angles) < _SLOW) & (angles != 0)
        if not reading.sample.is_paired or not slow.any():
            return False
        phases, known = np.angle(reading.sample.phasors).ravel()[slow], angles[slow]
        factor = float((phases * known).sum() / (known * known).sum())
        if not factor > 0:
            return False
        slack = 4 * HALF_STEP[reading.dtype] + 2 * reading.sample.slack
        slack /= float(np.sqrt((known * known).sum()))
        return any(self._accept(reading, each) for each in with_factor(candidate, factor, slack))

    def _of_one_part(self, readings: Sequence[Reading]) -> None:
        """Try another scale, and other positions, also of doubled angles, of one part alone."""
        target = self.target
        for reading in readings:
            alone = reading.is_finite and not reading.sample.has_pairs
            if not alone or not self._is_comparable(reading):
                continue
            plain = expected(self.target)
            numbers = reading.sample.parts[0]
            if not numbers.any():
                continue
            predicted = plain.waves(reading.places[reading.rows]).values
            own = predicted[0 if reading.sample.sine is None else 1][:, : numbers.shape[1]]
            size = float((numbers * own).sum() / max((own * own).sum(), 1e-300)) * target.scale
            for proposer in self._proposers(reading) if size > 0 else ():
                for scaled in proposer.scaled(plain, size):
                    if scaled.mistakes and self._accept(reading, scaled):
                        return
            twice = plain.with_mistake(mistake("rotated-twice"), omega=2 * plain.omega)
            for turned in (plain, twice):
                self._at_other_positions(reading, turned)

    def _negated(self, readings: Sequence[Reading]) -> None:
        """Try the expected table with the other sign of all numbers."""
        for reading in readings[:2]:
            is_small = reading.view.rows * reading.view.count <= _MOST_DECODED
            if not (reading.is_finite and is_small and self._is_comparable(reading)):
                continue
            whole = reading.view.at(slice(None))
            cosine, sine = (each if each is None else -each for each in (whole.cosine, whole.sine))
            view = replace(whole, cosine=cosine, sine=sine)
            alike = replace(reading, view=view, sample=view.at(reading.rows))
            if self._accept(alike, expected(self.target).with_mistake(mistake("wrong-sign"))):
                return

    def _one_sided(self, readings: Sequence[Reading]) -> None:
        """Try the expected table with a factor of the cosines alone, or of the sines alone."""
        for reading in readings[:2]:
            is_usable = reading.is_finite and reading.sample.is_paired
            is_small = reading.view.rows * reading.view.count <= _MOST_DECODED
            if not (is_usable and is_small and self._is_comparable(reading)):
                continue
            waves = expected(self.target).waves(reading.places[reading.rows]).values
            both = zip(reading.sample.parts, waves, strict=True)
            cosine, sine = (float((one * own).sum() / (own * own).sum()) for one, own in both)
            if min(cosine, sine) <= 0 or abs(cosine / sine - 1) < _NO_FACTOR:
                continue
            sides = ("cosines", "sines") if cosine > sine else ("sines", "cosines")
            values = {"have": sides[0], "want": sides[1], "factor": float(f"{cosine / sine:.5g}")}
            whole = reading.view.at(slice(None))
            assert whole.cosine is not None
            assert whole.sine is not None
            view = replace(whole, cosine=whole.cosine / cosine, sine=whole.sine / sine)
            alike = replace(reading, view=view, sample=view.at(reading.rows))
            wrong = mistake("one-sided-factor", None, values)
            if self._accept(alike, expected(self.target).with_mistake(wrong)):
                return

    def _at_other_positions(self, reading: Reading, candidate: Candidate) -> None:
        """Try the positions whose cosines, or sines, rows come nearest to."""
        if not self.target.is_along_one_axis:
            return
        wanted = reading.places[:, 0]
        found = matched(reading.view.at(slice(None)), candidate.omega, candidate.scale, wanted)
        if found is None or not np.ptp(found):
            return
        signed = candidate
        if reading.view.cosine is None and (found <= 0).all():
            found, signed = np.abs(found), candidate.with_mistake(mistake("sine-sign"))
            signed = replace(signed, omega=-candidate.omega)
        other = pattern(found, wanted)
        if other is not None:
            signed = signed.with_mistake(other, places=found[:, None])
        if signed.mistakes:
            self._accept(reading, signed)

    def _report(self, match: Match) -> Explanation:
        """Check every number with the winner, and return the explanation."""
        reading = match.reading
        few = np.array(evenly(len(reading.rows), INTERVAL_ROWS))
        samples = [(reading.sample.at(some), reading.rows[some]) for some in (few, slice(None))]
        named = match.fit.arithmetic
        rank = BY_EXACTNESS.index(named) if named in BY_EXACTNESS else 0

        def fits(each: Candidate) -> bool:
            """Return whether the arithmetic that is named gives the numbers of a few, and all."""
            for sample, rows in samples:
                fit = fit_of(sample, reading.waves(each, rows), match.dtype)
                if fit is None or fit.arithmetic not in {named, *BY_EXACTNESS[:rank]}:
                    return False
            return True

        candidate = with_interval(match.candidate, fits)
        match = replace(match, candidate=candidate)
        missing = self._missing(reading)
        mistakes = (*candidate.mistakes, *self._around(match), *missing)
        findings: list[Finding] = []
        if reading.tail is not None and not missing:
            findings.append(Finding(reading.tail.name, reading.tail.text, reading.tail.values))
        sampled = len(reading.rows)
        bad = faults(
            reading,
            candidate,
            match.dtype,
            compare=match.fit.mismatches,
            is_near=match.fit.nearly,
            only_copies=sampled == reading.view.rows,
        )
        elements = sum(part.size for part in reading.view.parts)
        if bad is not None:
            found = (but_for(mistakes, bad), *kinds(reading.view, bad.all), *findings)
            return Explanation("none", (), match, (), found, elements, sampled)
        others = [
            each for each in self.others if each.bits + reading.view.bits <= match.bits + _NEAR_BITS
        ]
        own = set(candidate.names)
        alternatives = tuple(
            each.mistakes
            for each in simplest(others)
            if not own <= set(each.names) and each.mistakes
        )
        verdict: Verdict = "diagnosed" if mistakes else "equal"
        if verdict == "equal":
            alternatives = ()
        return Explanation(
            verdict,
            mistakes,
            match,
            alternatives[:_MOST_ALTERNATIVES],
            tuple(findings),
            elements,
            sampled,
        )

    def _missing(self, reading: Reading) -> tuple[Mistake, ...]:
        """Return the mistake that rows which are expected are padding, if some are."""
        if reading.tail is None:
            return ()
        first, rows = reading.view.rows, reading.sent
        which = "are sent"
        if self.target.rows is not None and self.target.rows <= rows:
            rows, which = self.target.rows, "are expected"
        if first >= rows:
            return ()
        values = {**reading.tail.values, "axis": "rows", "have": first, "want": rows}
        values |= {"missing": rows - first, "which": which}
        return (mistake("truncated", None, values, variant="empty"),)

    def _of_packing(self, match: Match, noted: Container[str]) -> Iterator[Mistake]:
        """Yield what is wrong with the packing: its parts, their order, or their channels."""
        view, target = match.reading.view, self.target
        wanted = target.wanted.parts
        if "exchanged" in noted:
            yield mistake("halves-swapped")
        elif not view.has_pairs and view.part_names != wanted:
            yield from self._of_other_part(view)
        elif view.part_names != wanted and "angles" not in noted:
            yield _repacked(view.packing, target.wanted.packing, target)
        elif self._states_packing and not (
            "angles" in noted or ("alone" in noted and view.packing == "compact")
        ):
            yield from _packing_mistake(view.packing, target)
        elif view.packing == f"sin_{target.wanted.packing}" and "stacked" not in noted:
            yield mistake("halves-swapped")
        if view.part_names == wanted and "truncated" not in match.candidate.names:
            yield from _other_width(view, target)

    def _of_other_part(self, view: View) -> Iterator[Mistake]:
        """Yield that one part stands in the place of the other, or of both."""
        (have,), wanted = view.part_names, self.target.wanted
        (want,) = {"cos", "sin"} - {have}
        values = {"have": PART_TEXTS[have], "want": PART_TEXTS[want]}
        if have not in wanted.parts:
            yield mistake("halves-swapped", None, values, variant="part")
        elif len(wanted.columns) == 1 and self._states_packing and view.packing != "compact":
            # Copies of one part fill the channels of both.
            order = PACKING_TEXTS.get(wanted.packing, wanted.packing)
            yield mistake("missing-part", None, {**values, "order": order})

    @property
    def _states_packing(self) -> bool:
        """True if the request says how its table is packed; only rotary ones may leave it open."""
        request = self.target.request
        return request is None or request.resource != "rope" or "pack" in request.parameters

    def _around(self, match: Match) -> Iterator[Mistake]:
        """Yield the mistakes of the wrapping: type, packing, rows, decimals."""
        reading, target = match.reading, self.target
        view = reading.view
        noted = {note.name for note in view.notes}
        if match.is_narrow and "narrow-throughout" not in match.candidate.names:
            yield mistake("narrow-tables", None, {"dtype": match.dtype.name})
        if reading.decimals:
            yield mistake("rounded-decimals", None, {"decimals": reading.decimals})
        if "transposed" in noted:
            yield mistake("transposed")
        yield from self._of_packing(match, noted)
        if target.rows is not None and view.rows > target.rows:
            yield of_length("rows", view.rows, target.rows)


def _positions(reading: Reading, whole: View, candidate: Candidate) -> Float64s | None:
    """Return the position of each row by the frequencies of a candidate; None if they show none."""
    omega, wanted = candidate.omega, reading.places[:, 0]
    if (wanted % 1).any():
        return near_wanted(whole, omega, reading.dtype, wanted)
    few = whole.at(np.array(evenly(whole.rows, _FIRST_ROWS)))
    if decoded(few, omega, reading.dtype) is not None:
        return decoded(whole, omega, reading.dtype)
    moving = np.abs(omega[omega != 0])
    if len(moving) and moving.min() * np.abs(wanted).max() > pi:
        # The slowest pair turns more than once.
        return matched(whole, omega, candidate.scale, wanted)
    return None


_OTHER_ORDER = {
    "half": "interleaved",
    "concat": "flat",
    "sin_concat": "sin_flat",
    "half_concat": "interleaved_concat",
}
_OTHER_ORDER |= {value: key for key, value in _OTHER_ORDER.items()}
# Packings with pairs along an axis of their own, by those with the same order of numbers: a wrong
# order of channels is reported only between two packings of the same kind.
_FLAT = {"pair": "flat", "sin_pair": "sin_flat"}


def _other_width(view: View, target: Target) -> Iterator[Mistake]:
    """Yield that channels are missing, or that there are more, of the same frequencies."""
    have, want = view.channels, target.wanted.channels
    if have != want and view.count == len(target.omega):
        yield of_length("channels", have, want)


def _repacked(have: str, want: str, target: Target) -> Mistake:
    """Return the mistake that a table has one packing in place of another."""
    values = {
        "have": target.shown(have),
        "want": target.shown(want),
        "have_order": PACKING_TEXTS[have],
        "want_order": PACKING_TEXTS[want],
    }
    return mistake("layout-swapped", None, values, variant="packing")


def _packing_mistake(packing: str, target: Target) -> Iterator[Mistake]:
    """Yield what is wrong with a packing: the order of channels, or sines first."""
    wanted = target.wanted.packing
    have, want = (_FLAT.get(each, each) for each in (packing, wanted))
    turned = have.removeprefix("sin_") if have.startswith("sin_") else f"sin_{have}"
    is_alike = (packing in _FLAT) == (wanted in _FLAT)
    if is_alike and want in {_OTHER_ORDER.get(have), _OTHER_ORDER.get(turned)}:
        # Its sentence has both orders in full.
        yield _repacked(have, want, target)
    elif want in {turned, _OTHER_ORDER.get(turned)}:
        yield mistake("halves-swapped")
