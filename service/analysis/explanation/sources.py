"""Sources of frequencies: the series, before any rule, that an array may have.

Bases come from the interval that was measured, the usual ones first, else the number of fewest
digits; exponents are those of known slips.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log, log10, pi

import numpy as np

from service.analysis.explanation.catalogue import Changes, Mistake, mistake
from service.analysis.explanation.decoding import is_continued
from service.analysis.explanation.formulas import (
    ORIGINAL,
    Rule,
    Series,
)
from service.analysis.explanation.measured import (
    Line,
    Measured,
    fewest_digits,
    fitted_line,
    refined_base,
)
from service.analysis.explanation.target import Target
from service.analysis.explanation.views import View
from service.numerics.phase import Float64s

USUAL_BASES: Mapping[float, float] = {
    1e4: 2, 5e5: 3, 1e6: 3, 1e5: 5, 1e7: 5, 5e6: 6, 8e6: 6, 1e8: 6, 25e4: 6, 15e4: 6, 16e4: 6,
    2e5: 6, 1e3: 7, 100.0: 7, 5e7: 7, 1e9: 7, 1e10: 7, 1.5e6: 7, 3e6: 7, 4e4: 7, 8e4: 7, 1e11: 8,
}  # fmt: skip
"""The bases that models have, with −log2 of how often."""

USUAL_WIDTHS = (
    *(64, 80, 96, 128, 160, 192, 256, 320, 384, 512, 576, 640, 768, 896, 1024, 1152, 1280, 1408),
    *(1536, 1664, 1792, 2048, 2304, 2560, 3072, 3584, 4096, 4608, 5120, 6144, 7168, 8192),
)
"""The channels that models have."""

_UNUSUAL_BITS, BITS_A_DIGIT, _MOST_DIGIT_BITS = 7.0, 3.3, 18.0
# A base that was not measured but is usual.
_UNMEASURED_BITS = 0.5
MOST_LOG = 250.0
"""No base has a larger logarithm."""

SHARES = (1, 0.25, 0.05, 0.01, 0)
"""Parts of an interval in which the number of fewest digits is looked for."""

# What diffusers subtract from the number of frequencies.
_SHIFTS = {"2k/d": 0.0, "k/(n − 1)": 1.0}
_OF_SHIFTS = {"2k/d": "k/n", "k/(n − 1)": "k/(n − 1)"}
# Logarithms of bases that are tried under rules that bend the line.
_SCANNED = np.linspace(log(100), log(1e11), 120)


@dataclass(frozen=True, eq=False)
class Source:
    """Frequencies before any rule, and the mistakes that give them.

    Attributes:
        mistakes: the mistakes.
        bits: their cost.
        series: the frequencies of cosines, and of sines unless ``sine`` is given.
        sine: those of sines that differ.
        is_measured: whether the numbers of the array led to it.
        is_iterated: whether an engine may compute them by repeated multiplication.
        turning: the pairs that turn; None if all do.
    """

    mistakes: tuple[Mistake, ...]
    bits: float
    series: Series
    sine: Series | None = None
    is_measured: bool = True
    is_iterated: bool = True
    turning: slice | None = None


def bases_between(low: float, high: float, other_than: float) -> list[tuple[float, float]]:
    """Return the usual bases in an interval, or else the number of fewest digits; with bits."""
    found = [(base, bits) for base, bits in USUAL_BASES.items() if low <= base <= high]
    if not found and (shortest := fewest_digits(low, high)) is not None:
        base, digits = shortest
        found = [(base, min(_UNUSUAL_BITS + BITS_A_DIGIT * digits, _MOST_DIGIT_BITS))]
    return [(base, bits) for base, bits in found if base > 1 and base != other_than]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The knowledge of a view of a target, from which frequencies are proposed.

    Attributes:
        target: the expected table.
        series: its frequencies before any rule, of as many pairs as the view has.
        view: the view, of sampled rows.
        measured: what was measured of it; None of a single row.
        rows: the number of rows of the whole array.
        given: the mistakes that the view has already, such as another width.
        first: the position of the first row.
    """

    target: Target
    series: Series
    view: View
    measured: Measured | None
    rows: int
    given: tuple[Mistake, ...] = ()
    first: float = 0.0

    @property
    def size(self) -> float | None:
        """The size of pairs; None of cosines or sines alone."""
        if not self.view.has_pairs:
            return None
        if self.measured is not None:
            return self.measured.scale
        return float(np.median(np.abs(self.view.phasors)))

    @cached_property
    def is_continued(self) -> bool:
        """True if rows count up from an offset, as those after cached ones do; times do not."""
        if not self.target.is_along_one_axis:
            return self.first > 0
        is_time = self.target.base_parameter == "max_period"
        return not is_time and is_continued(self.target.structure.places[:, 0])

    def sources(self) -> Iterator[Source]:
        """Yield frequencies before any rule: the expected ones, bases, slips and widths."""
        yield Source((), 0.0, self.series)
        seen = {self.series.base}
        for base, bits, _ in self.measured_bases:
            if base not in seen:
                seen.add(base)
                yield self._of_base(base, bits)
        for base, bits in USUAL_BASES.items():
            if base not in seen:
                source = self._of_base(base, bits + _UNMEASURED_BITS)
                yield replace(source, is_measured=False)
        yield from self.slips()
        yield from self._still()
        yield from self._late()

    def _of_base(self, base: float, bits: float) -> Source:
        values = {"have": base, "want": self.series.base}
        wrong = mistake("wrong-base", bits, values, {self.target.base_parameter: base})
        return Source((wrong,), bits, replace(self.series, base=base))

    @cached_property
    def measured_bases(self) -> tuple[tuple[float, float, tuple[float, float]], ...]:
        """The bases that the numbers show: each with its bits and its interval."""
        return tuple(self._measured_bases())

    def _measured_bases(self) -> Iterator[tuple[float, float, tuple[float, float]]]:
        if self.measured is None:
            return
        for line in self._lines():
            error = line.slope_error / self._exponent_step + 1e-9
            for middle in dict.fromkeys((self._base_of(line), self._base_of(line) - self._growth)):
                if not 0 < middle < MOST_LOG:
                    continue
                interval = (exp(middle - error), exp(min(middle + error, MOST_LOG)))
                for share in SHARES if error < 1 else ():
                    low, high = exp(middle - error * share), exp(middle + error * share)
                    for base, bits in bases_between(low, high, self.series.base):
                        yield base, bits, interval
                yield from self._refined(middle)
        if (scanned := self._scanned()) is not None:
            yield from self._refined(scanned)

    def _lists(self) -> tuple[Rule, ...]:
        """The rules of both lists of longrope, whose factors the base does not change."""
        rule = self.target.rule
        if rule.rope_type != "longrope":
            return ()
        original = float(rule.keys[ORIGINAL])
        return tuple(rule.changed(context_length=times * original) for times in (1, 2))

    @property
    def _growth(self) -> float:
        """By how much the rule raises ln base, where frequencies stay geometric."""
        exponents, rule = self.series.exponents, self.target.rule
        if rule.rope_type not in {"dynamic", "ntk"} or not exponents[-1]:
            return 0.0
        ratio = rule.frequencies(self.series)[-1] / self.series.omega[-1]
        return -log(ratio) / float(exponents[-1])

    def _refined(self, middle: float) -> Iterator[tuple[float, float, tuple[float, float]]]:
        """Yield bases from all numbers at once, from a first estimate of ln base."""
        assert self.measured is not None
        rules = (self.target.rule, Rule()) if self.target.rule else (self.target.rule,)
        for rule in self._lists() or rules:

            def frequencies(logarithm: float, rule: Rule = rule) -> Float64s:
                return rule.frequencies(replace(self.series, base=exp(logarithm)))

            fitted = refined_base(self.measured, frequencies, middle)
            if fitted is None:
                continue
            base, error = fitted
            interval = (exp(base - error), exp(min(base + error, MOST_LOG)))
            for share in (6, 2, 1, 0.3, 0.05):
                low, high = exp(base - error * share), exp(min(base + error * share, MOST_LOG))
                for each, bits in bases_between(low, high, self.series.base):
                    yield each, bits, interval

    @property
    def _exponent_step(self) -> float:
        exponents = self.series.exponents
        return float(exponents[1] - exponents[0]) if len(exponents) > 1 else 1.0

    def _base_of(self, line: Line) -> float:
        return -line.slope / self._exponent_step

    def _lines(self) -> Iterator[Line]:
        """Yield lines of the logarithms: of all pairs, and of those that a rule leaves alone."""
        assert self.measured is not None
        omega, error = np.abs(self.measured.omega), self.measured.error
        if (line := fitted_line(omega, error)) is not None:
            yield line
        pairs = len(omega)
        for rule in self._lists():
            ratio = rule.frequencies(self.series) / self.series.omega
            if (line := fitted_line(omega / ratio, error / ratio)) is not None:
                yield line
        if self.target.rule.rope_type not in {"yarn", "llama3"}:
            return
        for part in (6, 3):
            kept = max(2, pairs // part)
            if (line := fitted_line(omega[:kept], error[:kept])) is not None:
                yield line

    def _scanned(self) -> float | None:
        """Return ln base whose frequencies by the rule come nearest to the measured ones."""
        assert self.measured is not None
        rule = self.target.rule
        if rule.rope_type not in {"yarn", "llama3"}:
            return None
        omega = np.abs(self.measured.omega)
        known = (omega > 3 * self.measured.error) & (omega < pi)
        if not known.any():
            return None
        logarithms = np.log(omega[known])

        def misfit(logarithm: float) -> float:
            found = rule.frequencies(replace(self.series, base=exp(logarithm)))[known]
            return float(np.abs(np.log(found) - logarithms).sum())

        return min((float(each) for each in _SCANNED), key=misfit)

    def slips(self) -> Iterator[Source]:
        """Yield exponents that code has by mistake."""
        k, pairs, width = (
            np.arange(len(self.series.exponents)),
            len(self.series.exponents),
            self.series.width,
        )
        wanted = self.series.exponents
        patterns = {
            "2k/d": 2 * k / width,
            "−2k/d": -2 * k / width,
            "k/d": k / width,
            "k/(n − 1)": k / max(pairs - 1, 1),
            "2·(2k)/d": 4 * k / width,
            "(2k + 1)/d": (2 * k + 1) / width,
            "(2k + 2)/d": (2 * k + 2) / width,
        }
        # A factor of all frequencies is a constant in their exponents.
        spelled, constant = next(
            (
                (name, first)
                for first in (0.0, float(wanted[0]))
                for name, each in patterns.items()
                if np.allclose(each + first, wanted)
            ),
            ("that of the expected table", 0.0),
        )
        if self.target.has_two_ends:
            # Between two ends, the exponents are these already.
            del patterns["k/(n − 1)"]
        patterns["that of the pairs in reverse order"] = wanted[::-1] - float(wanted[0])
        for name, plain in patterns.items():
            exponents = plain + constant
            if not np.allclose(exponents, wanted):
                said = {"exponent": name, "want": spelled}
                slip = mistake("tutorial-slip", None, said, self._as_base(exponents))
                if self.target.base_parameter == "max_period" and {name, spelled} <= _SHIFTS.keys():
                    values = {"have": _SHIFTS[name], "want": _SHIFTS[spelled]}
                    texts = {"exponent": _OF_SHIFTS[name], "wanted": _OF_SHIFTS[spelled]}
                    changes = {"downscale_freq_shift": _SHIFTS[name]}
                    slip = mistake("downscale-shift", None, {**values, **texts}, changes)
                yield Source((slip,), slip.bits, replace(self.series, exponents=exponents))
        for name, cosine, sine in (
            ("(i + 1)/d", (2 * k + 1) / width, 2 * k / width),
            ("(i + 2)/d", (2 * k + 2) / width, 2 * k / width),
            ("2(i + 1)/d", (4 * k + 2) / width, 4 * k / width),
        ):
            slip = mistake(
                "tutorial-slip", 8.0, {"exponent": name, "want": spelled}, variant="cosines"
            )
            series = replace(self.series, exponents=cosine + constant)
            of_sines = replace(self.series, exponents=sine + constant)
            yield Source((slip,), 8.0, series, of_sines, is_iterated=False)
        base = exp(log10(self.series.base)) if self.series.base > 1 else 0.0
        if base > 1:
            logarithm = {"exponent": "log10 for ln", "want": "ln"}
            changes = {self.target.base_parameter: base}
            slip = mistake("tutorial-slip", 8.0, logarithm, changes, variant="log10")
            yield Source((slip,), 8.0, replace(self.series, base=base))
        yield from self._of_wider(2 * k / width)
        head_dim = self.target.head_dim
        if head_dim > width:
            exponents = wanted * (width / head_dim)
            widths = {"have": head_dim, "want": width}
            wrong = mistake("wrong-denominator", None, widths, self._as_base(exponents))
            yield Source((wrong,), wrong.bits, replace(self.series, exponents=exponents))

    def _of_wider(self, plain: Float64s) -> Iterator[Source]:
        """Yield the first frequencies of a table with more channels, where one width shows."""
        series, intervals = self.series, [each for _, _, each in self.measured_bases]
        if self.target.rule or not intervals or not np.allclose(series.exponents, plain):
            return
        low, high = min(intervals, key=lambda each: each[1] / each[0])
        wider = [
            width
            for width in USUAL_WIDTHS
            if series.width < width != self.target.head_dim
            and log(low) <= log(series.base) * series.width / width <= log(high)
        ]
        if len(wider) == 1:
            values = {"have": wider[0], "want": series.width}
            wrong = mistake("wrong-denominator", 7.5, values, variant="wider")
            exponents = series.exponents * (series.width / wider[0])
            yield Source((wrong,), wrong.bits, replace(series, exponents=exponents))

    def _as_base(self, exponents: Float64s) -> Changes | None:
        """Return the base with which the expected exponents give others; None if none does."""
        series = self.series
        times = float(exponents[-1] / series.exponents[-1]) if series.exponents[-1] else 1.0
        is_base = abs(times * log(series.base)) < MOST_LOG
        if not is_base or not np.allclose(exponents, times * series.exponents):
            return None
        return {self.target.base_parameter: series.base**times}

    def _late(self) -> Iterator[Source]:
        """Yield tables in which only the last pairs turn: as they should, or as if alone."""
        k, pairs = np.arange(len(self.series.exponents)), len(self.series.exponents)
        if self.measured is None or not self.view.has_pairs:
            return
        turns = np.abs(self.measured.omega) > 4 * self.measured.error
        first = int(np.argmax(turns))
        if turns[first] and first:
            values = {"have": 2 * (pairs - first), "want": 2 * pairs, "last": first - 1}
            own = np.maximum(k - first, 0) / (pairs - first)
            for how, exponents in (("as they should", self.series.exponents), ("as if alone", own)):
                variant = "last" if first > 1 else "last-but-first"
                wrong = mistake("partial-width", None, {**values, "how": how}, variant=variant)
                series, turning = replace(self.series, exponents=exponents), slice(first, None)
                yield Source((wrong,), wrong.bits, series, turning=turning, is_iterated=False)

    def _still(self) -> Iterator[Source]:
        """Yield tables in which only the first pairs turn, and ones in which none does."""
        k, pairs = np.arange(len(self.series.exponents)), len(self.series.exponents)
        moving = pairs if self.measured is None else self.measured.moving
        if not self.view.has_pairs or self.measured is None:
            return
        if 0 < moving < pairs:
            values = {"have": 2 * moving, "want": 2 * pairs}
            narrow = mistake("partial-width", None, values, {"rotary_dim": 2 * moving})
            omega, error = np.abs(self.measured.omega[:moving]), self.measured.error[:moving]
            line = fitted_line(omega, error)
            for exponents in (k / moving, self.series.exponents):
                series = replace(self.series, exponents=exponents)
                yield Source((narrow,), narrow.bits, series, turning=slice(moving))
                if line is None:
                    continue
                step = float(exponents[1] - exponents[0])
                for share in SHARES:
                    middle, half = -line.slope / step, share * line.slope_error / step + 1e-9
                    if not 0 < middle < MOST_LOG or half > 1:
                        continue
                    ends = exp(middle - half), exp(middle + half)
                    for base, bits in bases_between(*ends, self.series.base):
                        other = self._of_base(base, bits)
                        both, cost = (narrow, *other.mistakes), narrow.bits + bits
                        yield Source(both, cost, replace(series, base=base), turning=slice(moving))
        if moving == 0:
            still = mistake("not-rotated", None, {})
            yield Source((still,), still.bits, self.series, turning=slice(0))
