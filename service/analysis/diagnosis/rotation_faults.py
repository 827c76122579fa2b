"""Mistakes of an applied rotation: each function yields applications with one more mistake.

Mistakes without parameters come first. The unchanged channels give candidates for the rotary
width, and the first row with an unexplained element gives the truncated length.
``RotationMeasurement`` measures factors, frequencies and offsets of positions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt

import numpy as np

from service.analysis.diagnosis.applied_rotation import (
    FLOAT32_ROUNDOFF,
    LAYOUTS,
    Application,
    Evidence,
    Form,
    Target,
    Wiring,
    steps_of,
)
from service.analysis.diagnosis.mistakes import Mistake
from service.analysis.diagnosis.waves import COMMON_BASES, LARGEST_INTEGERS, error_weights
from service.analysis.measure import (
    Complexes,
    fit_geometric,
    line_residuals,
    measure,
    round_bases,
)
from service.analysis.precision import rounded
from service.analysis.round_numbers import round_numbers
from service.numerics.dtypes import BFLOAT16, FLOAT16, rounding_bound
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

_PAIRS = {"half": "(k, k + r/2)", "interleaved": "(2k, 2k + 1)"}
_FORMS: dict[Form, tuple[str, str]] = {
    "no-minus": ("sine-sign", "no sine has a minus: rotate_half gives (x2, x1) for (-x2, x1)"),
    "both-minus": (
        "sine-sign",
        "both sines have a minus: rotate_half gives (-x2, -x1) for (-x2, x1)",
    ),
    "own-minus-last": ("halves-swapped", "rotate_half gives (x1, -x2) for (-x2, x1)"),
    "own-minus-first": ("halves-swapped", "rotate_half gives (-x1, x2) for (-x2, x1)"),
}
_EXCHANGED_RESULT = "the result is (y2, y1) for (y1, y2)"
_EXCHANGED_COMPONENTS = "sines stand for cosines and cosines for sines"


def wiring_mistakes(application: Application) -> Iterator[Application]:
    """Yield mistakes in the pairs of channels, the signs of sines and the order of results."""
    yield from _layout_mistakes(application)
    for form, (name, how) in _FORMS.items():
        mistake = Mistake(name, {"how": how}, "rotation")
        yield application.with_wiring("form", mistake, form=form)
    yield application.with_wiring("order", _swapped_halves(_EXCHANGED_RESULT), is_exchanged=True)
    wiring = application.wiring
    if wiring.read == wiring.written and wiring.count > 1:
        other = LAYOUTS[wiring.written == LAYOUTS[0]]
        mistake = Mistake("table-layout-swapped", {"have": other, "want": wiring.written})
        yield application.with_wiring("tiling", mistake, is_tiled_otherwise=True)
    if wiring.width < wiring.head_dim:
        yield application.with_wiring("rest", Mistake("rest-zeroed"), is_rest_zero=True)


def _swapped_halves(how: str) -> Mistake:
    return Mistake("halves-swapped", {"how": how}, "rotation")


def _layout_mistakes(application: Application) -> Iterator[Application]:
    wiring = application.wiring
    if wiring.count < 2:
        return
    for read, written in product(LAYOUTS, repeat=2):
        if (read, written) == (wiring.read, wiring.written):
            continue
        mistake = Mistake("layout-mixed", {"read": read, "written": written})
        if read == written and wiring.read == wiring.written:
            values = {"have": read, "want": wiring.read}
            pairs = {f"{side}_pairs": _PAIRS[layout] for side, layout in values.items()}
            mistake = Mistake("layout-swapped", {**values, **pairs}, "rotation")
        yield application.with_wiring("layout", mistake, read=read, written=written)


def angle_mistakes(application: Application) -> Iterator[Application]:
    """Yield mistakes in the use of the expected angles: inverted, doubled, skipped, exchanged."""
    yield application.with_angles("direction", Mistake("inverse"), is_inverse=True)
    yield application.with_angles("times", Mistake("rotated-twice"), times=2, powers=(2, 2))
    yield application.with_angles("times", Mistake("not-rotated"), times=0, powers=(0, 0))
    mistake = _swapped_halves(_EXCHANGED_COMPONENTS)
    yield application.with_angles("exchange", mistake, is_exchanged=True)


def size_mistakes(application: Application, factor: float | None) -> Iterator[Application]:
    """Yield mistakes in the scale of cosines and sines: missing, applied twice, on one of them.

    ``factor`` is the expected scale; None if it differs between angles, as in xPos.
    """
    if factor == 1.0:
        return
    values = {} if factor is None else {"factor": factor}
    missing = Mistake("missing-factor", {}, "xpos")
    if factor is not None:
        missing = Mistake(
            "missing-factor", {**values, "ratio": 1 / factor if factor else "a share"}
        )
    mistakes = [
        ((0, 0), missing),
        ((2, 2), Mistake("extra-factor", values, "twice")),
        ((1, 0), Mistake("one-sided-factor", {**values, "have": "cosines", "want": "sines"})),
        ((0, 1), Mistake("one-sided-factor", {**values, "have": "sines", "want": "cosines"})),
    ]
    for powers, mistake in mistakes:
        yield application.with_angles("size", mistake, powers=powers)


def position_mistakes(application: Application, target: Target) -> Iterator[Application]:
    """Yield mistakes in positions: reversed, the same in all rows, rounded to a narrow dtype."""
    rows = target.rows
    if rows > 1:
        reverse = np.arange(rows)[::-1]
        yield application.with_angles("rows", Mistake("positions-reversed"), rows=reverse)
        for row in (0, rows - 1):
            mistake = Mistake("positions-stuck", {"position": float(target.positions[row])})
            yield application.with_angles("rows", mistake, rows=np.full(rows, row))
    if target.omega is None:
        return
    for dtype in (BFLOAT16, FLOAT16):
        shift = rounded(target.positions, dtype) - target.positions
        # Where all rows move by one, an offset is the more common mistake.
        is_one = abs(shift[0]) == 1 and bool((shift == shift[0]).all())
        if np.isfinite(shift).all() and shift.any() and not is_one:
            values = {"dtype": dtype.name, "exact": LARGEST_INTEGERS[dtype]}
            mistake = Mistake("narrow-positions", values)
            yield application.with_angles("positions", mistake, shift=shift)


# The least ratio of roundoffs at which the rounding of cosines shows in an array.
_LEAST_RATIO = 16


def narrow_mistakes(
    application: Application, target: Target, roundoff: float
) -> Iterator[Application]:
    """Yield mistakes by rounding to a narrow dtype: of frequencies, or of cosines and sines.

    Cosines and sines may be as coarse as the array, of ``roundoff``: that is no mistake.
    """
    omega = application.angles.frequencies(target)
    for dtype in (BFLOAT16, FLOAT16):
        if omega is not None:
            mistake = Mistake("narrow-frequencies", {"dtype": dtype.name})
            narrow = rounded(omega, dtype)
            yield application.with_angles("narrow-frequencies", mistake, omega=narrow)
        if rounding_bound(dtype, 1.0) >= _LEAST_RATIO * roundoff:
            mistake = Mistake("narrow-tables", {"dtype": dtype.name})
            yield application.with_angles("tables", mistake, dtype=dtype)


def width_mistakes(application: Application, evidence: Evidence) -> Iterator[Application]:
    """Yield wrong widths and offsets of the rotated channels.

    All other channels must be unchanged or 0. The frequencies are b^(-2k/width) for the wrong
    width, if the expected frequencies are a geometric series of base b; or the first expected
    frequencies, if fewer channels are rotated.
    """
    wiring, target = application.wiring, evidence.target
    is_kept, is_zero = evidence.untouched
    is_constant = is_kept | is_zero
    for width, offset in _channel_ranges(wiring, np.flatnonzero(~is_constant)):
        outside = np.ones(wiring.head_dim, dtype=bool)
        outside[offset : offset + width] = False
        if not is_constant[outside].all():
            continue
        is_rest_zero = bool(outside.any() and is_zero[outside].all() and not is_kept[outside].all())
        changes = {"width": width, "offset": offset, "is_rest_zero": is_rest_zero}
        if width == wiring.width:
            mistake = Mistake("rotary-offset", {"have": offset, "want": wiring.offset})
            yield application.with_wiring("offset", mistake, **changes)
            continue
        for frequencies, omega in _frequencies_of_width(target, wiring.width, width):
            values = {
                "have": width,
                "want": wiring.width,
                "offset": offset,
                "frequencies": frequencies,
                "rest": "; the rest is zero" if is_rest_zero else "",
            }
            mistake = Mistake("partial-width", values, "rotation")
            changed = application.with_wiring("width", mistake, **changes)
            yield replace(changed, angles=replace(application.angles, omega=omega))


def _channel_ranges(wiring: Wiring, changed: Indices) -> list[tuple[int, int]]:
    """Return candidate (width, offset) pairs of the rotated channels.

    They are common widths and offsets, and the range of the changed channels.
    """
    head_dim = wiring.head_dim
    widths = {head_dim, head_dim // 2, head_dim // 4, 3 * head_dim // 4, wiring.width}
    widths |= {2 * wiring.width, wiring.width // 2}
    first, last = (int(changed[0]), int(changed[-1])) if len(changed) else (0, -1)
    widths |= {last + 1 - first, last + 1 - wiring.offset, last + 2 - first}
    # In the ``half`` layout, the last pairs of both halves may have angles too small to change x.
    widths |= {2 * (len(changed) // 2), 2 * ((len(changed) + 1) // 2)}
    return [
        (width, offset)
        for width in sorted(width for width in widths if width >= 2 and width % 2 == 0)
        for offset in dict.fromkeys((wiring.offset, 0, first, head_dim - width))
        if 0 <= offset <= head_dim - width and (width, offset) != (wiring.width, wiring.offset)
    ]


def _frequencies_of_width(
    target: Target, expected: int, width: int
) -> Iterator[tuple[str, Float64s]]:
    if target.omega is None:
        return
    if width < expected:
        yield "the first of those wanted", target.omega[: width // 2]
    series = fit_geometric(target.omega, target.omega_error + 2.0**-50)
    if series is None:
        return
    for base in round_bases(series, expected)[:1]:
        first = series.first if abs(series.first - 1) > 1e-9 else 1.0
        yield "those of that width", first * base ** (-2 * np.arange(width // 2) / width)


def length_mistakes(application: Application, evidence: Evidence) -> Iterator[Application]:
    """Yield mistakes that start at the first row with an unexplained element in the first head."""
    rows, angles = evidence.target.rows, application.angles
    is_explained = evidence.row_shares(application, slice(0, 1)) == 1
    length = int(np.argmin(is_explained))
    if is_explained.all() or length < 2:
        return

    def truncated(beyond: str) -> Mistake:
        return Mistake("truncated", {"have": length, "want": rows, "beyond": beyond}, "rotation")

    for beyond in ("unrotated", "zero"):
        yield application.with_angles("length", truncated(beyond), beyond=(length, beyond))
    if angles.rows is None and isinstance(angles.shift, float):
        every = np.arange(rows)
        for beyond, source in (
            (f"turned as row {length - 1}, the last before", np.minimum(every, length - 1)),
            ("turned as if counting started anew", every % length),
        ):
            yield application.with_angles("length", truncated(beyond), rows=source)


@dataclass(frozen=True, eq=False)
class FrequencyEstimate:
    """Measured frequencies.

    Attributes:
        omega: radians per position, (K,).
        error: bounds on the absolute errors of ``omega``, (K,).
        rows: the number of rows on which they were measured.
    """

    omega: Float64s
    error: Float64s
    rows: int


# With fewer rows, too many frequencies fit.
_ENOUGH_ROWS = 4
# The largest relative difference of frequencies that cancel a repeated rotation.
_NEAR_CANCELLING = 2.0**-7


def frequency_mistakes(
    application: Application, target: Target, measured: FrequencyEstimate
) -> Iterator[Application]:
    """Yield a linear factor or another base, if it gives the measured frequencies."""
    expected = application.angles.frequencies(target)
    if _need_no_mistake(application, target, measured):
        return
    if expected is not None and len(expected) == len(measured.omega):
        yield from _linear_mistakes(application, expected, measured)
    yield from _base_mistakes(application, expected, measured)


def _need_no_mistake(application: Application, target: Target, measured: FrequencyEstimate) -> bool:
    """Return whether the measured frequencies need no mistake.

    They equal those of the application; or they would cancel its repetition, because most of them,
    times the number of rotations, are near those of the target.
    """
    angles, omega = application.angles, measured.omega

    def share(expected: Float64s | None, error: Float64s) -> float:
        if expected is None or len(expected) != len(omega):
            return 0.0
        return float((np.abs(omega - expected) <= error).mean())

    if share(angles.frequencies(target), measured.error) == 1:
        return True
    if angles.times < 2 or target.omega is None:
        return False
    near = np.maximum(measured.error, _NEAR_CANCELLING * np.abs(omega))
    return share(target.omega / angles.times, near) > 0.5


def unnamed_frequencies(
    application: Application, target: Target, measured: FrequencyEstimate
) -> Iterator[Application]:
    """Yield the generic mistake ``wrong-rule``, with the measured frequencies themselves.

    Negative frequencies are not a mistake here: they mean the inverse rotation.
    """
    # Frequencies that are measured already hold a repetition.
    if measured.rows < _ENOUGH_ROWS or application.angles.times > 1:
        return
    if not (measured.omega >= -measured.error).all():
        return
    if _need_no_mistake(application, target, measured):
        return
    expected = application.angles.frequencies(target)
    pair = 0
    expected_omega: float | str = "?"
    if expected is not None and len(expected) == len(measured.omega):
        pair = int(np.argmax(np.abs(measured.omega - expected) > measured.error))
        expected_omega = float(expected[pair])
    values = {"pair": pair, "have": float(measured.omega[pair]), "want": expected_omega}
    mistake = Mistake("wrong-rule", values, "frequencies")
    yield application.with_angles("frequencies", mistake, omega=measured.omega)


def _linear_mistakes(
    application: Application, expected: Float64s, measured: FrequencyEstimate
) -> Iterator[Application]:
    weighted = expected / measured.error**2
    total = float((weighted * expected).sum())
    ratio, error = float((weighted * measured.omega).sum()) / total, 4 / sqrt(total)
    if not (ratio > 0 and abs(ratio - 1) > error):
        return
    ratios = [*round_numbers(ratio, error, most=2)]
    ratios += [1 / inverse for inverse in round_numbers(1 / ratio, error, most=2)]
    for number in ratios:
        mistake = Mistake("linear-factor", {"ratio": number})
        yield application.with_angles("linear", mistake, omega=expected * number)


def _base_mistakes(
    application: Application, expected: Float64s | None, measured: FrequencyEstimate
) -> Iterator[Application]:
    if len(measured.omega) < 2:
        return
    # Frequencies rounded to bfloat16 are a geometric series within relative errors of 2^-8.
    loose = measured.error + 2.0**-8 * np.abs(measured.omega)
    fitted = (fit_geometric(measured.omega, error) for error in (measured.error, loose))
    series = next((each for each in fitted if each), None)
    if series is not None and series.ratio < 1:
        bases = round_bases(series, application.wiring.width)
        yield from _other_bases(application, expected, len(measured.omega), bases)


def _other_bases(
    application: Application, expected: Float64s | None, count: int, bases: Iterable[float]
) -> Iterator[Application]:
    """Yield the frequencies of each base, ``count`` of them, without a rule."""
    width, expected_base, is_unscaled = application.wiring.width, None, False
    if expected is not None:
        expected_series = fit_geometric(expected, np.full(len(expected), 1e-12))
        if expected_series is not None:
            expected_base = next(iter(round_bases(expected_series, width)), None)
            is_unscaled = expected_base is not None and abs(expected_series.first - 1) < 1e-9
    for base in bases:
        if base == expected_base and is_unscaled:
            continue
        # A rule may have changed both bases, as dynamic does: configs have short numbers.
        if expected_base and not _is_short(expected_base) and not _is_short(base):
            continue
        omega = base ** (-2 * np.arange(count) / width)
        mistake = Mistake("config-key-ignored", {"have": base}, "rotation")
        if is_unscaled:
            mistake = Mistake("wrong-base", {"have": base, "want": expected_base})
        yield application.with_angles("base", mistake, omega=omega)


def _is_short(number: float) -> bool:
    return number == float(f"{number:.3g}")


# Shifts are measured on the first of the sampled rows: later ones may show another mistake.
_EARLY = 32
_FIRST_ROWS = 8
_MOST = 128


class RotationMeasurement:
    """Measure the cosines and sines of sampled rows, and yield the mistakes that explain them."""

    def __init__(self, evidence: Evidence, heads: slice, rows: Indices) -> None:
        self.evidence, self._rows = evidence, rows
        self._x, self._y = evidence.x[heads][:, rows], evidence.y[heads][:, rows]
        self._measured: dict[Wiring, tuple[Complexes, Float64s]] = {}

    def measured(self, wiring: Wiring) -> tuple[Complexes, Float64s]:
        """Return cosine + i·sine in the sampled rows, (R, K), for a wiring, and their weights."""
        if wiring not in self._measured:
            self._measured[wiring] = wiring.measure(self._x, self._y)
        return self._measured[wiring]

    def mistakes(self, application: Application) -> Iterator[Application]:
        """Yield applications with a measured factor, frequency or position mistake added."""
        if not self.measured(application.wiring)[1].any():
            return
        yield from self._factors(application)
        if application.angles.times:
            # Far from position 0, an offset has nearly the angles of other frequencies.
            yield from self._shifts(application)
        angles, target = application.angles, self.evidence.target
        for estimate in self._frequencies(application):
            yield from frequency_mistakes(application, target, estimate)
        first = np.sort(angles.positions(target, self._rows[:_FIRST_ROWS]))
        if angles.times and (len(first) < 2 or (np.diff(first) != 1).any()):
            # Such rows do not show the frequencies.
            expected, count = angles.frequencies(target), application.wiring.count
            yield from _other_bases(application, expected, count, COMMON_BASES)

    def unnamed_mistakes(self, application: Application) -> Iterator[Application]:
        """Yield applications with the generic mistake ``wrong-rule`` added."""
        if self.measured(application.wiring)[1].any():
            for estimate in self._frequencies(application):
                yield from unnamed_frequencies(application, self.evidence.target, estimate)

    def _factors(self, application: Application) -> Iterator[Application]:
        """Yield a wrong factor of cosines and sines, measured from norms √(cos² + sin²)."""
        angles, target = application.angles, self.evidence.target
        phasors, weights = self.measured(application.wiring)
        expected = np.hypot(*angles.cosines_and_sines(target, self._rows))
        if expected.shape != phasors.shape:
            return

        def has_size_of_target(factor: float, tolerance: float) -> bool:
            size = target.size[self._rows]
            return size.shape == expected.shape and np.allclose(factor * expected, size, tolerance)

        narrow = 0.0 if angles.dtype is None else rounding_bound(angles.dtype, 1.0)
        # Engines compute factors and frequencies in float32, whatever they store.
        error = 4 * max(self.evidence.roundoff, narrow, FLOAT32_ROUNDOFF)
        products, norms = weights * expected, np.abs(phasors)
        for count in dict.fromkeys((len(norms), min(len(norms), _FIRST_ROWS))):
            early = slice(0, count)
            total = float((products[early] * expected[early]).sum())
            ratio = float((products[early] * norms[early]).sum()) / total if total else 1.0
            if not abs(ratio - 1) > error:
                continue
            if "size" in application.aspects and has_size_of_target(ratio, 8 * error):
                continue
            for factor in round_numbers(ratio, error, most=2):
                name = "wrong-factor" if factor < 1 else "extra-factor"
                mistake = Mistake(name, {"factor": factor})
                yield application.with_angles("factor", mistake, factor=angles.factor * factor)

    def _frequencies(self, application: Application) -> Iterator[FrequencyEstimate]:
        """Yield estimates of the frequencies on the first rows; a position offset has no effect."""
        angles, target = application.angles, self.evidence.target
        if not angles.times:
            return
        roundoff = self.evidence.roundoff
        phasors, weights = self.measured(application.wiring)
        undone = angles.undone(phasors, target, self._rows)
        positions = angles.positions(target, self._rows)
        counts = dict.fromkeys(min(len(positions), most) for most in (_MOST, _EARLY, _FIRST_ROWS))
        for count in counts:
            order = np.argsort(positions[:count])
            places = positions[:count][order]
            if count < 2 or not (np.diff(places) > 0).all():
                continue
            omega, error = _weighted_frequencies(undone[order], weights[order], places)
            # The rounding of a frequency to float32 changes the angles of all rows alike.
            weights_of = error_weights(np.abs(omega), omega)
            error = error + 4 * FLOAT32_ROUNDOFF * weights_of + roundoff * 2.0**-6
            yield FrequencyEstimate(omega / angles.times, error / angles.times, count)

    def _shifts(self, application: Application) -> Iterator[Application]:
        """Yield a position offset, and one position of all rows, that give the measured angles."""
        angles, target = application.angles, self.evidence.target
        omega = angles.frequencies(target)
        measured, weights = self.measured(application.wiring)
        if omega is None or len(omega) != measured.shape[1] or not isinstance(angles.shift, float):
            return

        def steps(phasors: Complexes) -> float | None:
            mean = (phasors * weights)[:_EARLY].sum(axis=0)
            return steps_of(mean, weights[:_EARLY].sum(axis=0), angles.times * omega)

        phasors = angles.undone(measured, target, self._rows)
        shift = steps(phasors * angles.unit(target, self._rows).conj() ** angles.times)
        if shift:
            mistake = Mistake("position-offset", {"rows": int(shift)})
            yield application.with_angles("shift", mistake, shift=angles.shift + shift)
        position = steps(phasors)
        if position is not None and angles.rows is None:
            mistake = Mistake("positions-stuck", {"position": position})
            # Start from the row of the nearest position, which gives the most exact angles.
            row = int(np.argmin(np.abs(target.positions - position)))
            rows, shift = np.full(target.rows, row), position - float(target.positions[row])
            yield application.with_angles("rows", mistake, rows=rows, shift=shift)


def _weighted_frequencies(
    phasors: Complexes, weights: Float64s, places: Float64s
) -> tuple[Float64s, Float64s]:
    """Return frequencies in radians per position, (K,), and their errors, by weighted fits.

    Args:
        phasors: cosine + i·sine, (R, K).
        weights: the weight of each phasor, (R, K).
        places: the positions of the rows, rising, (R,).
    """
    omega = measure(phasors, places).omega
    tiny = np.finfo(np.float64).tiny
    total = np.maximum(weights.sum(axis=0), tiny)
    centred = places[:, None] - (weights * places[:, None]).sum(axis=0) / total
    spread = np.maximum((weights * centred**2).sum(axis=0), tiny)
    for _ in range(2):
        _, residual = line_residuals(phasors, centred, omega, weights)
        omega = omega + (weights * centred * residual).sum(axis=0) / spread
    deviation = (weights * residual**2).sum(axis=0) / total
    error: Float64s = 4 * np.sqrt(deviation * total / spread / len(places))
    return omega, np.minimum(error, 1.0)
