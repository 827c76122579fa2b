"""What is known to go wrong in the channels of an application, and how that is worded.

Rotations of more or fewer channels than should turn, or of others.

Applications that treat rows beyond some length otherwise than those before.

What is known to go wrong with the positions of an application, and with narrow types.

Frequencies that were used in place of those wanted: another base, another factor or rule.

What is wrong with the angles of an application, as far as its numbers must be measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.diagnosis.mistakes import Mistake, Wording
from service.analysis.diagnosis.rotation_evidence import (
    LAYOUTS,
    Application,
    ChannelIndices,
    Complexes,
    Evidence,
    Form,
    Target,
    Wiring,
    ahead_of,
    rounded,
)
from service.analysis.measure import fit_geometric, measure, round_bases
from service.analysis.round_numbers import round_numbers
from service.numerics.dtypes import BFLOAT16, FLOAT16, rounding_bound
from service.numerics.phase import Float64s

_PAIRS = {"half": "(k, k + r/2)", "interleaved": "(2k, 2k + 1)"}
_SWAPPED = Wording(
    "Channels were paired as {have}, {have_pairs}, and should be as {want}, {want_pairs}.",
    "Rotate with the layout {want}, or permute the rows of the weights of queries and keys.",
)
_MIXED = Wording(
    "Pairs were read as {read} and written as {written}: channels come out in another order. "
    "Scores of queries and keys that were both turned so are right.",
    "Write the pairs where they should be, or permute the channels of the result.",
)
_SIGNS: dict[Form, str] = {
    "no-minus": "no sine has a minus: rotate_half gives (x2, x1) for (-x2, x1)",
    "both-minus": "both sines have a minus: rotate_half gives (-x2, -x1) for (-x2, x1)",
}
_SIGN = Wording(
    "It is not a rotation: {how}. Position 0 does not show it.",
    "Let rotate_half give (-x2, x1): a minus on the first channel of each pair only.",
)
_ORDERS: dict[Form, str] = {
    "own-minus-last": "rotate_half gives (x1, -x2)",
    "own-minus-first": "rotate_half gives (-x1, x2)",
}
_HALVES = Wording(
    "Halves have changed places: {how}.",
    "Join the halves in the other order.",
)
_TILED = Wording(
    "Cosines and sines lie along the channels as for {have} pairs, but pairs are {want}: channels "
    "of a pair turn by different angles.",
    "Lay cosines and sines out as {want} pairs need them.",
)
_ONE_SIDED = Wording(
    "The factor multiplies the {have} and not the {want}.",
    "Multiply cosines and sines alike.",
)
_REST = Wording(
    "Channels that do not turn are zero in place of what they were.",
    "Let the channels beyond rotary_dim pass through.",
)
_TWICE = Wording(
    "The factor multiplies cosines and sines twice.",
    "Multiply by it once.",
)


def channel_mistakes(application: Application) -> Iterator[Application]:
    """Make each mistake that connects channels otherwise."""
    yield from _layouts(application)
    wiring = application.wiring
    for form, how in _SIGNS.items():
        mistake = Mistake("sine-sign", {"how": how}, _SIGN)
        yield application.with_mistake("form", mistake, wiring=replace(wiring, form=form))
    for form, how in _ORDERS.items():
        mistake = Mistake("halves-swapped", {"how": f"{how} for (-x2, x1)"}, _HALVES)
        yield application.with_mistake("form", mistake, wiring=replace(wiring, form=form))
    mistake = Mistake("halves-swapped", {"how": "the result is (y2, y1) for (y1, y2)"}, _HALVES)
    yield application.with_mistake("order", mistake, wiring=replace(wiring, is_exchanged=True))
    if wiring.read == wiring.written and wiring.count > 1:
        other = LAYOUTS[wiring.written == LAYOUTS[0]]
        mistake = Mistake("table-layout-swapped", {"have": other, "want": wiring.written}, _TILED)
        tiled = replace(wiring, is_tiled_otherwise=True)
        yield application.with_mistake("tiling", mistake, wiring=tiled)
    if wiring.width < wiring.head_dim:
        mistake = Mistake("rest-zeroed", {}, _REST)
        yield application.with_mistake("rest", mistake, wiring=replace(wiring, is_rest_zero=True))


def _layouts(application: Application) -> Iterator[Application]:
    wiring = application.wiring
    if wiring.count < 2:
        return
    for read in LAYOUTS:
        for written in LAYOUTS:
            if (read, written) == (wiring.read, wiring.written):
                continue
            if read == written and wiring.read == wiring.written:
                values = {
                    "have": read,
                    "want": wiring.read,
                    "have_pairs": _PAIRS[read],
                    "want_pairs": _PAIRS[wiring.read],
                }
                mistake = Mistake("layout-swapped", values, _SWAPPED)
            else:
                values = {"read": read, "written": written}
                mistake = Mistake("layout-mixed", values, _MIXED)
            changed = replace(wiring, read=read, written=written)
            yield application.with_mistake("layout", mistake, wiring=changed)


def angle_mistakes(application: Application) -> Iterator[Application]:
    """Make each mistake that does something else with the angles that are wanted."""
    spin = application.spin
    yield application.with_mistake(
        "direction", Mistake("inverse"), spin=replace(spin, is_inverse=True)
    )
    twice = replace(spin, times=2, powers=(2, 2))
    yield application.with_mistake("times", Mistake("rotated-twice"), spin=twice)
    none = replace(spin, times=0, powers=(0, 0))
    yield application.with_mistake("times", Mistake("not-rotated"), spin=none)
    exchanged = Mistake("halves-swapped", {"how": "sines stand for cosines and cosines for sines"})
    exchanged = replace(exchanged, wording=_HALVES)
    yield application.with_mistake("exchange", exchanged, spin=replace(spin, is_exchanged=True))


def size_mistakes(application: Application, factor: float | None) -> Iterator[Application]:
    """Make each mistake with the factor that is wanted; None where it is another for each angle."""
    spin, values = application.spin, {} if factor is None else {"factor": factor}
    if factor == 1.0:
        return
    missing = Mistake("missing-factor", {**values, "ratio": 1 / factor if factor else "a share"})
    if factor is None:
        missing = Mistake("missing-factor", {}, _NO_XPOS)
    yield application.with_mistake("size", missing, spin=replace(spin, powers=(0, 0)))
    twice = Mistake("extra-factor", values, _TWICE)
    yield application.with_mistake("size", twice, spin=replace(spin, powers=(2, 2)))
    for powers, have, want in (((1, 0), "cosines", "sines"), ((0, 1), "sines", "cosines")):
        mistake = Mistake("one-sided-factor", {**values, "have": have, "want": want}, _ONE_SIDED)
        yield application.with_mistake("size", mistake, spin=replace(spin, powers=powers))


_NO_XPOS = Wording(
    "What grows or decays with the position in cosines and sines is missing.",
    "Multiply by it: xPos scales queries by it and divides keys by it.",
)


_WIDTH = Wording(
    "{have} channels turn, and {want} should; frequencies are {frequencies}{rest}.",
    "Set rotary_dim to {want}.",
)
_OFFSET = Wording(
    "Channels turn from channel {have} of the head on, and should from channel {want}.",
    "Rotate the part of the head that starts at channel {want}.",
)
_OWN = "those of that width"
_FIRST = "the first of those wanted"


def width_mistakes(application: Application, evidence: Evidence) -> Iterator[Application]:
    """Make each mistake in which channels turn, as far as those that do not turn allow it.

    Frequencies of another width are b^(-2k/width) where those wanted are such a series; or the
    first of those wanted, where fewer turn.
    """
    wiring, target = application.wiring, evidence.target
    is_kept, is_zero = evidence.untouched
    for width, offset in _parts(application, is_kept | is_zero):
        outside = np.ones(wiring.head_dim, dtype=bool)
        outside[offset : offset + width] = False
        if not (is_kept | is_zero)[outside].all():
            continue
        is_rest_zero = bool(outside.any() and is_zero[outside].all() and not is_kept[outside].all())
        changed = replace(wiring, width=width, offset=offset, is_rest_zero=is_rest_zero)
        if width == wiring.width:
            mistake = Mistake("rotary-offset", {"have": offset, "want": wiring.offset}, _OFFSET)
            yield application.with_mistake("offset", mistake, wiring=changed)
            continue
        for frequencies, omega in _frequencies(target, wiring.width, width):
            values = {
                "have": width,
                "want": wiring.width,
                "offset": offset,
                "frequencies": frequencies,
                "rest": "; the rest is zero" if is_rest_zero else "",
            }
            spin = replace(application.spin, omega=omega)
            mistake = Mistake("partial-width", values, _WIDTH)
            yield application.with_mistake("width", mistake, wiring=changed, spin=spin)


def _parts(application: Application, is_still: np.ndarray) -> list[tuple[int, int]]:
    """List parts of the head that may turn: usual ones, and what is seen to move."""
    wiring = application.wiring
    head_dim, moving = wiring.head_dim, np.flatnonzero(~is_still)
    widths = {head_dim, head_dim // 2, head_dim // 4, 3 * head_dim // 4, wiring.width}
    widths |= {2 * wiring.width, wiring.width // 2}
    first, last = (int(moving[0]), int(moving[-1])) if len(moving) else (0, -1)
    widths |= {last + 1 - first, last + 1 - wiring.offset, last + 2 - first}
    # In the layout half the last pairs of both halves may be too slow to be seen.
    widths |= {2 * (len(moving) // 2), 2 * ((len(moving) + 1) // 2)}
    parts = []
    for width in sorted(width for width in widths if width >= 2 and width % 2 == 0):
        for offset in dict.fromkeys((wiring.offset, 0, first, head_dim - width)):
            is_wanted = (width, offset) == (wiring.width, wiring.offset)
            if 0 <= offset <= head_dim - width and not is_wanted:
                parts.append((width, offset))
    return parts


def _frequencies(target: Target, wanted: int, width: int) -> Iterator[tuple[str, Float64s]]:
    if target.omega is None:
        return
    if width < wanted:
        yield _FIRST, target.omega[: width // 2]
    series = fit_geometric(target.omega, target.omega_error + 2.0**-50)
    if series is None:
        return
    for base in round_bases(series, wanted)[:1]:
        first = series.first if abs(series.first - 1) > 1e-9 else 1.0
        yield _OWN, first * base ** (-2 * np.arange(width // 2) / width)


_BEYOND = Wording(
    "From row {have} on rows are {beyond}.",
    "Make cosines and sines for all {want} rows.",
)


def length_mistakes(application: Application, evidence: Evidence) -> Iterator[Application]:
    """Make each mistake that starts at the first row that an application does not explain."""
    rows, spin = evidence.target.rows, application.spin
    length = _explained_rows(application, evidence)
    if not 1 < length < rows:
        return
    every = np.arange(rows)
    for beyond in ("unrotated", "zero"):
        changed = replace(spin, beyond=(length, beyond))
        yield application.with_mistake("length", _mistake(length, rows, beyond), spin=changed)
    if spin.rows is None and isinstance(spin.ahead, float):
        for beyond, source in (
            (f"turned as row {length - 1}, the last before", np.minimum(every, length - 1)),
            ("turned as if counting started anew", every % length),
        ):
            changed = replace(spin, rows=source)
            yield application.with_mistake("length", _mistake(length, rows, beyond), spin=changed)


def _mistake(length: int, rows: int, beyond: str) -> Mistake:
    return Mistake("truncated", {"have": length, "want": rows, "beyond": beyond}, _BEYOND)


def _explained_rows(application: Application, evidence: Evidence) -> int:
    """Count the rows before the first that is not explained, in one head."""
    for rows in evidence.chunks():
        is_off = evidence.share_within(application, slice(0, 1), rows) < 1
        if is_off.any():
            return int(rows[np.argmax(is_off)])
    return evidence.target.rows


_EXACT = {BFLOAT16: 256, FLOAT16: 2048}
_TABLES = Wording(
    "Cosines and sines were rounded to {dtype} before they were multiplied with.",
    "Keep cosines and sines in float32 until the rotation is done.",
)
_STUCK = Wording(
    "Every row was turned as position {position}: position ids do not advance.",
    "Give each row its own position.",
)


def position_mistakes(application: Application, target: Target) -> Iterator[Application]:
    """Make each mistake that counts positions otherwise in a known way."""
    spin, rows = application.spin, target.rows
    if rows > 1:
        reverse = replace(spin, rows=np.arange(rows)[::-1])
        yield application.with_mistake("rows", Mistake("positions-reversed"), spin=reverse)
        for row in (0, rows - 1):
            values = {"position": float(target.positions[row])}
            stuck = replace(spin, rows=np.full(rows, row))
            yield application.with_mistake(
                "rows", Mistake("positions-stuck", values, _STUCK), spin=stuck
            )
    if target.omega is None:
        return
    for dtype in (BFLOAT16, FLOAT16):
        ahead = rounded(target.positions, dtype) - target.positions
        if np.isfinite(ahead).all() and ahead.any():
            narrow = replace(spin, ahead=ahead)
            mistake = Mistake("narrow-positions", {"dtype": dtype.name, "exact": _EXACT[dtype]})
            yield application.with_mistake("positions", mistake, spin=narrow)


def narrow_mistakes(application: Application, target: Target) -> Iterator[Application]:
    """Make each mistake that keeps frequencies, or cosines and sines, in a narrow type."""
    spin = application.spin
    omega = spin.frequencies(target)
    for dtype in (BFLOAT16, FLOAT16):
        if omega is not None:
            narrow = replace(spin, omega=rounded(omega, dtype))
            mistake = Mistake("narrow-frequencies", {"dtype": dtype.name})
            yield application.with_mistake("narrow-frequencies", mistake, spin=narrow)
        mistake = Mistake("narrow-tables", {"dtype": dtype.name}, _TABLES)
        yield application.with_mistake("tables", mistake, spin=replace(spin, dtype=dtype))


def stuck_at(application: Application, target: Target, position: float) -> Application:
    """Make the mistake of turning every row as one position."""
    mistake = Mistake("positions-stuck", {"position": position}, _STUCK)
    # From the nearest row there is: angles are as exact as the positions between are few.
    row = int(np.argmin(np.abs(target.positions - position)))
    source = np.full(target.rows, row)
    ahead = position - float(target.positions[row])
    spin = replace(application.spin, rows=source, ahead=ahead)
    return application.with_mistake("rows", mistake, spin=spin)


_UNSCALED = Wording(
    "The frequencies are those of base {have} alone: what should scale them was not applied.",
    "Apply the scaling rule of the config to the base {have}.",
)
_RULE = Wording(
    "The frequencies are others than wanted, pair {pair} first: {have} radians per position for "
    "{want}.",
    "Compute the frequencies by the rule that is wanted, with all its keys.",
)
_LINEAR = Wording(
    "Every frequency is {ratio} of what it should be: positions are scaled by {ratio}.",
    "Look for a factor of positions that is missing, or applied twice.",
)
# Angles of fewer rows than these lie on too many lines.
_ENOUGH_ROWS = 4


@dataclass(frozen=True, eq=False)
class MeasuredRotation:
    """Frequencies that were measured.

    Attributes:
        omega: radians per position, (K,).
        error: how far each may be off.
        width: channels that turn.
        rows: how many rows they were measured on.
    """

    omega: Float64s
    error: Float64s
    width: int
    rows: int


def frequency_mistakes(
    application: Application, target: Target, measured: MeasuredRotation
) -> Iterator[Application]:
    """Make each mistake in the frequencies that has a name and fits what was measured."""
    wanted = application.spin.frequencies(target)
    if wanted is not None and len(wanted) == len(measured.omega):
        if (np.abs(measured.omega - wanted) <= measured.error).all():
            return
        yield from _ratios(application, wanted, measured)
    yield from _bases(application, wanted, measured)


def other_frequencies(
    application: Application, target: Target, measured: MeasuredRotation
) -> Iterator[Application]:
    """Take the frequencies that were measured, which have no other name, as they are."""
    wanted = application.spin.frequencies(target)
    # A frequency below 0 is a rotation the other way.
    if measured.rows >= _ENOUGH_ROWS and (measured.omega >= -measured.error).all():
        yield _others(application, wanted, measured)


def _ratios(
    application: Application, wanted: Float64s, measured: MeasuredRotation
) -> Iterator[Application]:
    weights = 1 / measured.error**2
    ratio = float((weights * wanted * measured.omega).sum() / (weights * wanted**2).sum())
    error = 4 / float(np.sqrt((weights * wanted**2).sum()))
    if not (ratio > 0 and abs(ratio - 1) > error):
        return
    plain = [*round_numbers(ratio, error, most=2)]
    plain += [1 / inverse for inverse in round_numbers(1 / ratio, error, most=2)]
    for number in plain:
        mistake = Mistake("linear-factor", {"ratio": number}, _LINEAR)
        spin = replace(application.spin, omega=wanted * number)
        yield application.with_mistake("linear", mistake, spin=spin)


def _bases(
    application: Application, wanted: Float64s | None, measured: MeasuredRotation
) -> Iterator[Application]:
    if len(measured.omega) < 2:
        return
    # A series that was held in bfloat16 besides is one by 2^-8 of each only.
    series = fit_geometric(measured.omega, measured.error) or fit_geometric(
        measured.omega, measured.error + 2.0**-8 * np.abs(measured.omega)
    )
    if series is None or not series.ratio < 1:
        return
    meant = None if wanted is None else fit_geometric(wanted, np.full(len(wanted), 1e-12))
    want = None if meant is None else next(iter(round_bases(meant, measured.width)), None)
    is_plain = want is not None and meant is not None and abs(meant.first - 1) < 1e-9
    for base in round_bases(series, measured.width):
        if base == want and is_plain:
            continue
        omega = base ** (-2 * np.arange(len(measured.omega)) / measured.width)
        mistake = Mistake("wrong-base", {"have": base, "want": want})
        if not is_plain:
            mistake = Mistake("config-key-ignored", {"have": base}, _UNSCALED)
        spin = replace(application.spin, omega=omega)
        yield application.with_mistake("base", mistake, spin=spin)


def _others(
    application: Application, wanted: Float64s | None, measured: MeasuredRotation
) -> Application:
    values: dict[str, float | int | str] = {
        "pair": 0,
        "have": float(measured.omega[0]),
        "want": "?",
    }
    if wanted is not None and len(wanted) == len(measured.omega):
        off = np.abs(measured.omega - wanted) > measured.error
        pair = int(np.argmax(off))
        values = {"pair": pair, "have": float(measured.omega[pair]), "want": float(wanted[pair])}
    mistake = Mistake("wrong-rule", values, _RULE)
    spin = replace(application.spin, omega=measured.omega)
    return application.with_mistake("frequencies", mistake, spin=spin)


# Rows that follow each other, from which a shift is measured: what happens later may be another
# mistake.
_EARLY = 32
_FIRST_ROWS = 8
_MOST = 128


@dataclass(frozen=True, eq=False)
class RotationEstimate:
    """The cosines and sines that some rows were turned by.

    Attributes:
        turns: cosine + i·sine, (R, K).
        weights: of each, (R, K).
        rows: which rows these are.
    """

    turns: Complexes
    weights: Float64s
    rows: ChannelIndices


class Gauge:
    """Measures by what sampled rows were turned, for each wiring once."""

    def __init__(self, evidence: Evidence, heads: slice, rows: ChannelIndices) -> None:
        """Take the sample to measure on."""
        self.evidence, self._rows = evidence, rows
        self._x, self._y = evidence.x[heads][:, rows], evidence.y[heads][:, rows]
        self._turned: dict[Wiring, RotationEstimate] = {}

    def turned(self, wiring: Wiring) -> RotationEstimate:
        """Measure by what rows were turned, if so wired."""
        if wiring not in self._turned:
            turns, weights = wiring.measure(self._x, self._y)
            self._turned[wiring] = RotationEstimate(turns, weights, self._rows)
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

    def _factors(self, application: Application, turned: RotationEstimate) -> Iterator[Application]:
        """Compare sizes, which angles do not change."""
        spin, target = application.spin, self.evidence.target
        expected = np.hypot(*spin.cosines_and_sines(target, turned.rows))
        if expected.shape != turned.turns.shape:
            return
        narrow = 0.0 if spin.dtype is None else rounding_bound(spin.dtype, 1.0)
        error = 4 * max(self.evidence.roundoff, narrow)
        for count in dict.fromkeys((len(turned.rows), min(len(turned.rows), _FIRST_ROWS))):
            weights = (turned.weights * expected)[:count]
            total = float((weights * expected[:count]).sum())
            measured = float((weights * np.abs(turned.turns[:count])).sum())
            ratio = measured / total if total else 1.0
            if not abs(ratio - 1) > error or not ratio > 0:
                continue
            for factor in round_numbers(ratio, error, most=2):
                name = "wrong-factor" if factor < 1 else "extra-factor"
                changed = replace(spin, factor=spin.factor * factor)
                yield application.with_mistake(
                    "factor", Mistake(name, {"factor": factor}), spin=changed
                )

    def _slopes(
        self, application: Application, turned: RotationEstimate
    ) -> Iterator[MeasuredRotation]:
        """Measure frequencies, which a shift of positions does not change."""
        spin, target = application.spin, self.evidence.target
        roundoff = self.evidence.roundoff
        undone = spin.undone(turned.turns, target, turned.rows)
        for count in dict.fromkeys(min(len(turned.rows), n) for n in (_MOST, _EARLY, _FIRST_ROWS)):
            order = np.argsort(spin.positions(target, turned.rows[:count]))
            places = spin.positions(target, turned.rows[:count])[order]
            if count < 2 or not (np.diff(places) > 0).all():
                continue
            omega, error = _slopes(undone[order], turned.weights[order], places)
            # What float32 makes of a frequency shifts it; all rows say the same wrong thing then.
            error = error + 4 * min(roundoff, 2.0**-24) * np.abs(omega) + roundoff * 2.0**-6
            width = application.wiring.width
            yield MeasuredRotation(omega / spin.times, error / spin.times, width, count)

    def _shifts(self, application: Application, turned: RotationEstimate) -> Iterator[Application]:
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
            yield application.with_mistake("shift", mistake, spin=changed)
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
