"""Findings about arrays that nothing explains wholly: the rows and pairs that are right.

``unexplained`` looks for the candidate that explains most: the expected table, or what the rows and
pairs that are cosines and sines of an angle show once the others are left out. Its place is exact,
whatever was sampled: the candidate is compared with every number.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from math import exp
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from service.analysis.explanation.arithmetic import Waves
from service.analysis.explanation.candidates import Candidate, Proposer, expected
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.decoding import nearest, text_of
from service.analysis.explanation.faults import (
    but_for,
    differing,
    faults,
    kinds,
    moved_sines,
    named,
    with_mistakes,
)
from service.analysis.explanation.measured import Measured, fitted_line, measure
from service.analysis.explanation.places import Finding, is_everywhere, placed, span_of
from service.analysis.explanation.sampling import Reading
from service.analysis.explanation.target import Target
from service.analysis.explanation.views import HALF_STEP, View
from service.numerics.dtypes import DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices
from service.numerics.tables import StoredTable

if TYPE_CHECKING:
    from service.analysis.explanation.engine import Explanation

_MOST_LISTED = 8
# A candidate that explains less of the numbers is not worth a word.
_LEAST_SHARE = 0.2
# What a bit of cost is worth, as a share of the numbers.
_SHARE_A_BIT = 0.002
_MOST_CANDIDATES = 6
_MOST_BITS, _MOST_PRODUCTS = 13.0, 512
# A candidate that explains more ends the search.
_ENOUGH_SHARE = 0.9
# So many readings are searched for candidates, the most plausible ones.
_MOST_SEARCHED = 2
_FEWEST_ROWS = 3
_FIRST_ROWS = 32
_FEW_ROWS = 8
_STRIDE = 7
# Angles that are all within this of a straight line are measured.
_STEADY = 0.3
# Numbers within this of the expected ones are near them.
_NEAR = 0.25
_MOST_SLICES = 4
_OFFSETS = tuple(sorted(range(-32, 33), key=abs))


def _share(view: View, waves: Waves, dtype: DType) -> float:
    """Return the share of rows in which all numbers of a single part agree with waves."""
    ((_, bad),) = differing(view, waves, dtype)
    return 1 - float(bad.any(axis=1).mean())


def _nearest_offset(view: View, waves: Waves) -> int:
    """Return the number of rows by which the first rows of a single part are ahead of waves."""
    few = slice(0, _FEW_ROWS)
    (part,) = view.at(few).parts
    count = part.shape[1]
    wave = np.cos if view.sine is None else np.sin
    moved = np.array(_OFFSETS)[:, None, None] + waves.places[few]
    apart = np.abs(part - waves.scale * wave(moved * waves.omega[:count])).mean(axis=(1, 2))
    return _OFFSETS[int(np.argmin(apart))]


# ---------------------------------------------------------------------- what is left


def unexplained(readings: Sequence[Reading], target: Target | None) -> tuple[Finding, ...]:
    """Return what readings show that no candidate explains, the most telling first.

    Args:
        readings: of the array; numbers may be NaN or infinite.
        target: the expected table.
    """
    if target is None or not readings:
        return ()
    known: dict[int, Waves] = {}
    looks = [_Look(each, target, known) for each in readings]
    looks.sort(key=lambda look: (not look.is_comparable, look.reading.view.bits))
    best: _Partial | None = None
    for number, look in enumerate(looks):
        for found in look.partials(thoroughly=number < _MOST_SEARCHED):
            is_sure = look.is_as_wanted or found.right.mean() > _ENOUGH_SHARE
            if is_sure and (best is None or found.score > best.score):
                best = found
        if best is not None and best.score > _ENOUGH_SHARE:
            break
    if best is not None and best.score > _LEAST_SHARE:
        return tuple(best.findings())
    look = max(looks, key=lambda look: (look.is_comparable, look.has_pairs, look.is_mostly_unit))
    return tuple(look.findings())


@dataclass(frozen=True, eq=False)
class _Partial:
    """A candidate that explains some of the sampled numbers: ``right``, (S, K)."""

    look: "_Look"
    candidate: Candidate
    dtype: DType
    right: NDArray[np.bool_]
    offset: int = 0

    @cached_property
    def score(self) -> float:
        """The share of rows, of pairs, or of numbers that it explains, less its cost."""
        rows, lanes = (float(self.right.all(axis=axis).mean()) for axis in (1, 0))
        share = float(self.right.mean())
        if max(rows, lanes) < 0.05 and share < 0.5:
            share = 0.0
        bits = self.candidate.bits + self.look.reading.view.bits
        return max(rows, lanes, share) - _SHARE_A_BIT * bits

    def findings(self) -> Iterator[Finding]:
        look, mistakes = self.look, self.candidate.mistakes
        found = faults(look.reading, self.candidate, self.dtype, offset=self.offset)
        if self.offset:
            text = f"sines are those of row s + {self.offset}, beside right cosines"
            text = text.replace("+ -", "− ") + (f", but for {found.place.text}" if found else "")
            place = dict(found.place.values) if found else {}
            if mistakes:
                place["mistakes"] = named(mistakes)
            offset = Finding("sine-offset", text, {"offset": self.offset, **place})
            yield _with_sentences(mistakes, offset)
        elif found:
            yield but_for(mistakes, found)
        if found:
            yield from kinds(look.reading.view, found.all)
        yield from look.of_sizes()


def _with_sentences(mistakes: Sequence[Mistake], found: Finding) -> Finding:
    sentences = " ".join(each.sentence for each in mistakes)
    return replace(found, text=f"{sentences} {found.text}") if sentences else found


@dataclass(frozen=True, eq=False)
class _Look:
    """A reading, looked at in parts.

    Attributes:
        reading: the numbers.
        target: the expected table.
        known: the expected waves by the number of rows: readings share them.
    """

    reading: Reading
    target: Target
    known: dict[int, Waves]

    @property
    def is_comparable(self) -> bool:
        return self.reading.sample.count == len(self.target.omega)

    @property
    def is_as_wanted(self) -> bool:
        """True if the reading has the parts of the table, in rows."""
        view = self.reading.view
        is_turned = any(note.name == "transposed" for note in view.notes)
        return view.part_names == self.target.wanted.parts and not is_turned

    @property
    def has_pairs(self) -> bool:
        return self.reading.sample.has_pairs

    @cached_property
    def places(self) -> Float64s:
        return self.reading.places[self.reading.rows]

    @cached_property
    def tolerance(self) -> float:
        """The relative distance that the size of a pair may have from its scale."""
        return 4 * HALF_STEP[self.reading.dtype] + 1e-5 + 4 * self.reading.sample.slack

    @cached_property
    def unit(self) -> NDArray[np.bool_]:
        """A mask of pairs that have the size of the table, 1, or that of most pairs, (S, K)."""
        return self._unit(slice(None))

    @cached_property
    def is_mostly_unit(self) -> bool:
        """True if, of some of the rows, most pairs are of unit length."""
        return bool(self._unit(slice(None, None, _STRIDE)).mean() > 0.5)

    def _unit(self, rows: slice) -> NDArray[np.bool_]:
        scale, room = self.target.scale**2, 2 * self.tolerance
        with np.errstate(all="ignore"):
            parts = [part[rows] for part in self.reading.sample.parts]
            if len(parts) == 1:
                small: NDArray[np.bool_] = parts[0] * parts[0] <= scale * (1 + room)
                return small
            pairs = min(part.shape[1] for part in parts)
            one, other = (part[:, :pairs] for part in parts)
            squares = one * one + other * other
            middle = float(np.median(squares[::_STRIDE]))
            sizes = {scale, 1.0, middle} - {0.0}
            found = [np.abs(squares - size) <= room * size for size in sizes]
        return max(found, key=lambda each: int(np.count_nonzero(each)))

    # ------------------------------------------------------------------ parts that are explained

    def partials(self, *, thoroughly: bool) -> Iterator[_Partial]:
        """Yield candidates that explain some of the numbers; the expected table first."""
        if not self.is_comparable:
            return
        plain = expected(self.target)
        rows = self.reading.view.rows
        waves = self.known.setdefault(rows, plain.waves(self.places))
        if not thoroughly and not self._may_be(waves):
            return
        first = self._compared(plain, waves)
        yield first
        if first.score > _ENOUGH_SHARE or not thoroughly or self.unit.shape != first.right.shape:
            return
        if self.unit.any() and first.right[self.unit].mean() > 0.95 and first.score > _LEAST_SHARE:
            return
        yield from self._with_offset(first)
        for candidate in self._proposed():
            moved = candidate.waves(self.places)
            if moved.gives(waves):
                continue
            found = self._compared(candidate, moved)
            yield found
            if found.score > _LEAST_SHARE and found.right[self.unit].mean() > 0.95:
                return

    def _may_be(self, waves: Waves) -> bool:
        """Return whether waves explain any of a few of the sampled rows."""
        few = slice(None, None, _STRIDE)
        found = differing(self.reading.sample.at(few), waves.at(few), self.reading.view.dtype)
        return all(float(bad.mean()) < 0.9 for _, bad in found)

    def _compared(self, candidate: Candidate, waves: Waves) -> _Partial:
        reading = self.reading
        right = np.ones((len(reading.rows), reading.sample.count), dtype=np.bool_)
        for _, bad in differing(reading.sample, waves, reading.view.dtype):
            right[:, : bad.shape[1]] &= ~bad
        return _Partial(self, candidate, reading.view.dtype, right)

    def _with_offset(self, expected: _Partial) -> Iterator[_Partial]:
        """Yield sines of other rows beside right cosines."""
        view, dtype = self.reading.sample, self.reading.view.dtype
        if not view.has_pairs or not self.target.is_along_one_axis or self.unit.all():
            return
        alone = replace(view, sine=None)
        room = self.target.scale * (1 + self.tolerance)
        if not (np.abs(alone.parts[0]) <= room).mean() > 0.9:
            return
        few = slice(0, _FIRST_ROWS)
        sines = replace(view, cosine=None)
        for candidate in chain(
            [expected.candidate], self._shifted(alone), self._of_cosines(alone), self._unshifted()
        ):
            waves = candidate.waves(self.places)
            if _share(alone, waves, dtype) < 0.7:
                continue
            offset = _nearest_offset(sines, waves)
            moved = moved_sines(waves, offset)
            if offset and _share(sines.at(few), moved.at(few), dtype) > 0.8:
                yield replace(self._compared(candidate, moved), offset=offset)
            return

    def _shifted(self, alone: View) -> Iterator[Candidate]:
        """Yield the expected table from another row on, as cosines alone show it."""
        target = self.target
        waves = self.known[self.reading.view.rows]
        shift = _nearest_offset(alone, waves)
        first = float(self.places[0, 0])
        values = {"rows": shift, "have": first + shift, "want": first}
        wrong = mistake("position-offset", None, values)
        if shift:
            yield Candidate(
                (wrong,), wrong.bits, target.omega, target.scale, target.series, shift=shift
            )

    def _unshifted(self) -> Iterator[Candidate]:
        """Yield what pairs show, at the expected positions: the sines turn their phases."""
        for candidate in self._proposed():
            mistakes = tuple(each for each in candidate.mistakes if each.name != "position-offset")
            yield replace(candidate, shift=0.0, mistakes=mistakes)

    def _of_cosines(self, alone: View) -> Iterator[Candidate]:
        positions, series = self.places[:, 0], self.target.series
        if series is None or len(np.unique(positions)) < 2:
            return
        measured = measure(alone, positions)
        predicted = np.cos(self.places * measured.omega)
        if float(np.median(np.abs(alone.parts[0] - predicted))) > 2 * self.tolerance + 1e-4:
            return
        yield from _cheapest(Proposer(self.target, series, alone, measured, self.reading.view.rows))

    def _proposed(self) -> Iterator[Candidate]:
        """Yield what rows and pairs of unit length show, or else the first and the last rows."""
        target, view = self.target, self.reading.sample
        if target.series is None or not target.is_along_one_axis or not view.has_pairs:
            return
        for part, lanes in self._parts():
            shown, measured = self._measured(part, lanes)
            if measured is not None:
                measured = _Lanes.of(measured, lanes, target.series.omega)
                yield from _cheapest(
                    Proposer(target, target.series, shown, measured, self.reading.view.rows)
                )

    def _parts(self) -> Iterator[tuple[Indices, NDArray[np.bool_]]]:
        """Yield rows and pairs that may be right: of unit length, the first, the last, or alike."""
        lanes, rows = self._good()
        if len(rows) < _FEWEST_ROWS:
            return
        yield rows, lanes
        if len(rows) == len(self.places):
            some = max(len(rows) // 3, min(len(rows) // 2, _FEWEST_ROWS))
            for part in (rows[:some], rows[-some:], self._turning_alike()):
                if len(part) >= _FEWEST_ROWS:
                    yield part, np.ones(len(lanes), dtype=np.bool_)

    def _turning_alike(self) -> Indices:
        """Return those of the first rows of which most turn by the same angles to the next."""
        first = self.reading.sample.at(slice(0, _FIRST_ROWS)).phasors
        phasors = np.where(np.isfinite(first), first, 0)
        chosen = np.arange(0)
        for lag in (1, 2):
            turned = phasors[lag:] * phasors[:-lag].conj()
            for one in turned[:_FEW_ROWS]:
                (alike,) = np.nonzero((np.abs(turned - one) < _STEADY).all(axis=1))
                if len(alike) > max(len(chosen) // 2, 1):
                    chosen = np.union1d(alike, alike + lag)
        return chosen

    def _measured(self, rows: Indices, lanes: NDArray[np.bool_]) -> tuple[View, Measured | None]:
        """Return some rows, and what was measured of their pairs of unit length."""
        shown, positions = self.reading.sample.at(rows), self.places[rows, 0]
        weights: Float64s = (self.unit[rows] & lanes).astype(np.float64)
        pairs = weights.shape[1]
        cosine, sine = (np.where(weights > 0, each[:, :pairs], 0.0) for each in shown.parts)
        shown = replace(shown, cosine=cosine, sine=sine, weights=weights)
        several = len(np.unique(positions)) > 1
        return shown, measure(shown, positions) if several else None

    def _good(self) -> tuple[NDArray[np.bool_], Indices]:
        """Return which pairs, (K,), and which rows are cosines and sines of an angle."""
        if not self.unit.any():
            return np.zeros(self.unit.shape[1], dtype=np.bool_), np.arange(0)
        share = self.unit.mean(axis=0)
        lanes = share >= max(0.5 * float(share.max(initial=0)), 1e-9)
        rows = self.unit[:, lanes].mean(axis=1) >= 0.9
        measured = self.reading.measured if self.unit.all() else None
        if measured is not None and measured.phasors is not None:
            # Angles that do not rise with the position.
            turned = measured.phasors * np.exp(-1j * measured.positions[:, None] * measured.omega)
            middle = turned.sum(axis=0)
            steady = (np.abs(np.angle(turned * middle.conj())) < _STEADY).mean(axis=0) > 0.9
            lanes = steady if steady.sum() > 2 else lanes
        return lanes, np.flatnonzero(rows)

    # ------------------------------------------------------------------ what is seen

    def findings(self) -> Iterator[Finding]:
        """Yield what is seen of numbers of which no part is explained."""
        reading = self.reading
        yield from kinds(reading.view, None)
        if self.is_comparable and reading.view.rows in self.known:
            yield from self._near()
        yield from self.of_sizes()
        if reading.decimals:
            text = f"all numbers have {reading.decimals} decimals"
            yield Finding("decimals", text, {"decimals": reading.decimals})
        lanes, rows = self._good()
        if len(rows) < _FEWEST_ROWS or not lanes.all() or not self.has_pairs:
            return
        if self.target.is_along_one_axis:
            _, measured = self._measured(rows, lanes)
            if measured is not None:
                yield _line(measured)
        yield from self._positions()

    def of_sizes(self) -> Iterator[Finding]:
        """Yield where cos² + sin² is not what it is elsewhere."""
        if not self.has_pairs or self.unit.all() or len(self.target.wanted.parts) == 1:
            return
        unit, rows = self.unit, self.reading.rows
        share = 1 - float(unit.mean())
        values: dict[str, Any] = {"share": float(f"{share:.3g}")}
        if len(rows) == self.reading.view.rows and not is_everywhere(~unit):
            place = placed(~unit)
            values["rows"] = int((~unit).any(axis=1).sum())
            text = f"cos² + sin² is not 1 in {place.text}"
        else:
            text = f"cos² + sin² is not 1 in {(~unit).sum()} of {unit.size} sampled pairs"
        if self.target.scale != 1:
            text = text.replace("not 1 ", f"not {self.target.scale**2:.6g} ")
        yield Finding("unit-length", text, values)

    def _near(self) -> Iterator[Finding]:
        """Yield how near the numbers are to the expected ones, if they are."""
        view, waves = self.reading.sample, self.known[self.reading.view.rows]
        pairs = zip((view.cosine, view.sine), waves.values, strict=True)
        with np.errstate(all="ignore"):
            apart = [
                np.abs(part - value[:, : part.shape[1]]).ravel()
                for part, value in pairs
                if part is not None
            ]
        away = np.concatenate(apart)
        away[~np.isfinite(away)] = np.inf
        # Interpolation between an infinite number and another gives no number.
        within = float(np.quantile(away, 0.9, method="higher"))
        if within < _NEAR * self.target.scale:
            text = f"nine of ten numbers are within {within:.2g} of the expected ones"
            largest = float(f"{away[np.isfinite(away)].max():.3g}")
            yield Finding("near", text, {"within": float(f"{within:.3g}"), "largest": largest})

    def _positions(self) -> Iterator[Finding]:
        """Yield the positions of which the rows are, if they are of any."""
        view, target = self.reading.sample, self.target
        if not self.is_comparable or not target.is_along_one_axis:
            return
        places, is_one = nearest(view, target.omega, self.reading.dtype)
        if is_one.mean() < 0.9:
            return
        some = places[is_one][:_MOST_LISTED]
        text = f"rows are those of positions {text_of(some)}, …"
        yield Finding("positions", text, {"positions": some.tolist()})


def _cheapest(proposer: Proposer) -> Iterator[Candidate]:
    plain = (
        each
        for each in proposer.candidates(_MOST_BITS, _MOST_PRODUCTS)
        if each.mistakes and each.narrowing is None and each.sine is None
    )
    return islice(plain, _MOST_CANDIDATES)


@dataclass(frozen=True, eq=False)
class _Lanes(Measured):
    """Frequencies of which only some lanes are measured; the others follow from these."""

    measured: Measured | None = None
    lanes: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, whole: Measured, lanes: NDArray[np.bool_], expected: Float64s) -> Measured:
        """Return the measured frequencies, with those of other lanes on a line through them."""
        if lanes.all():
            return whole
        size = np.abs(whole.omega)
        sure = lanes & (size > 8 * whole.error)
        if sure.sum() < 2:
            return whole
        k = np.arange(len(size))
        slope, height = np.polyfit(k[sure], np.log(size[sure] / expected[sure]), 1)
        filled = np.sign(np.median(whole.omega[sure])) * expected * np.exp(slope * k + height)
        omega = np.where(lanes, whole.omega, filled)
        error = np.where(lanes, whole.error, np.abs(filled) / 2)
        part = replace(whole, omega=omega[lanes], error=error[lanes], phase=whole.phase[lanes])
        assert whole.phasors is not None
        own = {**vars(whole), "omega": omega, "error": error}
        own["scale"] = float(np.median(np.abs(whole.phasors[:, lanes])))
        return cls(**own, measured=part, lanes=lanes)

    def agrees(self, omega: Float64s) -> bool:
        assert self.measured is not None
        return self.measured.agrees(omega[self.lanes])

    def shift(self, omega: Float64s) -> float | None:
        assert self.measured is not None
        return self.measured.shift(omega[self.lanes])


def _line(measured: Measured) -> Finding:
    """Return the geometric progression of frequencies, or that they have none."""
    omega = np.abs(measured.omega)
    line = fitted_line(omega, measured.error)
    if line is None:
        # Those of more than half a turn a row alias: what is measured of them is no frequency.
        listed = [float(f"{each:.6g}") for each in measured.omega[:4]]
        text = "frequencies below half a turn a row are no geometric progression"
        return Finding("frequencies", text, {"first": listed})
    first, ratio = exp(line.height), exp(line.slope)
    base = exp(min(-line.slope * len(omega), 700.0))
    text = f"frequencies {'rise' if ratio > 1 else 'fall'} from {first:.6g} by {ratio:.4g} a pair"
    text += f": base {base:,.6g}" if ratio <= 1 else ""
    named = {"first": first, "ratio": ratio, "base": base}
    values = {name: float(f"{each:.6g}") for name, each in named.items()}
    return Finding("frequencies", text, values)


# ---------------------------------------------------------------------- slices


_MOST_SLICES = 32


def slices(
    arrays: Mapping[str, StoredTable],
    target: Target,
    explained: Callable[[Mapping[str, StoredTable]], "Explanation"],
) -> tuple[Finding, ...]:
    """Return which slices along an additional axis, such as batches, are right, and which not.

    Args:
        arrays: the arrays, which nothing explains.
        target: the expected table.
        explained: explains arrays that have one axis less.
    """
    for axis in _additional_axes(arrays, target):
        counts = {table.shape[axis] for table in arrays.values()}
        # Each distinct slice is explained by itself: many are positions rather than batches.
        if len(counts) > 1 or not 2 <= (count := counts.pop()) <= _MOST_SLICES:
            continue
        parts = [
            {
                name: StoredTable(table.elements.take(index, axis=axis), table.dtype)
                for name, table in arrays.items()
            }
            for index in range(count)
        ]
        some = [parts[index] for index in sorted({0, count // 2, count - 1})]
        if all(each.verdict == "none" for each in _distinct(some, explained)):
            continue
        found = _distinct(parts, explained)
        wrong = np.array([each.verdict == "none" or bool(each.findings) for each in found])
        if not wrong.any():
            wrong = np.array([each.mistakes != found[0].mistakes for each in found])
        if wrong.all() or not wrong.any():
            continue
        right = found[int(np.argmin(wrong))].mistakes
        if any(each.name == "not-rotated" for each in right):
            # These are rows.
            continue
        span = span_of(np.flatnonzero(wrong), count, "batch")
        first = int(np.argmax(wrong))
        place = Finding("batches", span.text, span.values)
        whole = with_mistakes(right, place)
        of_first = [
            Finding(each.name, f"batch {first}: {each.text}", {**each.values, "batch": first})
            for each in found[first].findings
        ]
        return (replace(whole, values={"axis": axis, **whole.values}), *of_first)
    return ()


def _additional_axes(arrays: Mapping[str, StoredTable], target: Target) -> Iterator[int]:
    """Yield the axes without which an array has the shape of the expected table."""
    shape = next(iter(arrays.values())).shape
    wanted = target.wanted.shape
    row_axes = target.wanted.row_axes
    is_stacked = len(arrays) < len(target.wanted.columns)
    for axis in range(len(shape) - 1):
        if is_stacked and shape[axis] == 2:
            continue
        others = [length for at, length in enumerate(shape) if at != axis and length != 1]
        if len(others) < len(wanted):
            continue
        is_wanted = tuple(others[-len(wanted) + row_axes :]) == wanted[row_axes:]
        if is_wanted and (target.rows is None or others[-len(wanted)] == target.rows):
            yield axis


def _distinct(
    parts: Sequence[Mapping[str, StoredTable]],
    explained: Callable[[Mapping[str, StoredTable]], "Explanation"],
) -> "list[Explanation]":
    """Return the explanation of each part; equal ones, and those after many, are not repeated."""
    known: list[tuple[Mapping[str, StoredTable], Explanation]] = []
    found = []
    for part in parts:
        same = next((said for other, said in known if _are_equal(part, other)), None)
        if same is None:
            same = explained(part) if len(known) < _MOST_SLICES else known[-1][1]
            known.append((part, same))
        found.append(same)
    return found


def _are_equal(one: Mapping[str, StoredTable], other: Mapping[str, StoredTable]) -> bool:
    return all(
        table.elements.tobytes() == other[name].elements.tobytes() for name, table in one.items()
    )
