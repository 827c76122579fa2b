"""In which arithmetic a table was made: emulations of engines, and bounds of their errors.

``Waves`` predicts cosines and sines; ``fit_of`` returns the most exact arithmetic in which they
give every number of a view, or None. Let u = 2^-24. An engine in float32 computes ω_k = b^(−e)
within (4 + 3L)·u of itself, L = e·ln b: the exponent has three roundings (quotient, logarithm,
product), each worth L·u of the power; the power has an error of 2u, a reciprocal and a rule 1u
each. An engine that multiplies a ratio again and again adds 2u for each product. A sine or a cosine
of a float32 angle is within 4u, and storing it costs half a step of its type.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.analysis.explanation.formulas import Series
from service.analysis.explanation.measured import UNIT
from service.analysis.explanation.views import HALF_STEP, Numbers, View, step_bound
from service.analysis.precision import rounded
from service.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s


@dataclass(frozen=True)
class Arithmetic:
    """An arithmetic, and its description, which ends a sentence that begins with "made …"."""

    name: str
    description: str


EXACT = Arithmetic("exact", "exactly, and rounded once")
IN_FLOAT64 = Arithmetic("float64", "in float64")
IN_FLOAT32 = Arithmetic("float32", "in float32")
ITERATED = Arithmetic("iterated", "in float32 by repeated multiplication, as ggml does")
IN_STEPS = Arithmetic("float32-steps", "in float32 in several steps, such as a division")
BY_EXACTNESS = (EXACT, IN_FLOAT64, IN_FLOAT32, IN_STEPS, ITERATED)
"""Arithmetics of one precision throughout, the most exact first."""
NARROW_PARTS = ("positions", "frequencies", "angles", "throughout")
"""What an engine may round to a narrow type before it takes sines."""


@dataclass(frozen=True)
class Narrowing:
    """A rounding to a narrow type: of positions, frequencies, angles, or all and the sines."""

    dtype: DType
    part: str

    @property
    def arithmetic(self) -> Arithmetic:
        where = "throughout" if self.part == "throughout" else f"with {self.part}"
        return Arithmetic(f"{self.dtype.name}-{self.part}", f"{where} in {self.dtype.name}")

    def rounds(self, part: str) -> bool:
        return self.part in {part, "throughout"}


@dataclass(frozen=True, eq=False)
class Waves:
    """Cosines and sines that are expected: scale·cos(places·omega), scale·sin(places·omega).

    Attributes:
        omega: the frequency of each cosine, (K,); of each sine, too, unless ``sine`` is given.
        places: the position of each row, (S, 1), or of each row and frequency, (S, K).
        scale: the factor of cosines and sines.
        series: the frequencies before any rule, where products can be emulated; else None.
        sine: the frequencies of sines that differ from those of cosines; None otherwise.
        sine_places: the positions of sines that differ from those of cosines; None otherwise.
        narrowing: what is rounded to a narrow type; None if nothing is.
        exact: the cosines and sines, each (S, K), if positions are too far for float64 angles.
        blank: whether each row is zero, (S,); None if none is.
    """

    omega: Float64s
    places: Float64s
    scale: float = 1.0
    series: Series | None = None
    sine: Float64s | None = None
    sine_places: Float64s | None = None
    narrowing: Narrowing | None = None
    exact: tuple[Float64s, Float64s] | None = None
    blank: NDArray[np.bool_] | None = None

    @property
    def is_one(self) -> bool:
        """True if a cosine and its sine have one angle."""
        return self.sine is None and self.sine_places is None

    @cached_property
    def angles(self) -> tuple[Float64s, Float64s]:
        """The angles of cosines and of sines, narrowed, each (S, K)."""
        return self.narrowed()

    def narrowed(
        self, of_omega: Float64s | float = 0.0, of_angle: Float64s | float = 0.0
    ) -> tuple[Float64s, Float64s]:
        """Return the angles of cosines and of sines, narrowed, each (S, K).

        Args:
            of_omega: the relative error of each frequency before it is rounded.
            of_angle: that of each angle.
        """
        one = self._narrowed(self.places, self.omega, of_omega, of_angle)
        if self.is_one:
            return one, one
        places = self.places if self.sine_places is None else self.sine_places
        omega = self.omega if self.sine is None else self.sine
        return one, self._narrowed(places, omega, of_omega, of_angle)

    def _narrowed(
        self,
        places: Float64s,
        omega: Float64s,
        of_omega: Float64s | float,
        of_angle: Float64s | float,
    ) -> Float64s:
        narrow = self.narrowing
        if narrow is None:
            return places * omega
        if narrow.rounds("positions"):
            places = rounded(places, narrow.dtype)
        if narrow.rounds("frequencies"):
            omega = rounded(omega * (1 + of_omega), narrow.dtype)
        if narrow.rounds("angles"):
            return rounded(rounded(places * omega * (1 + of_angle), FLOAT32), narrow.dtype)
        return places * omega

    @cached_property
    def values(self) -> tuple[Float64s, Float64s]:
        """The cosines and the sines, times the scale, each (S, K)."""
        if self.exact is not None:
            return self.exact
        return self.of_angles(*self.angles)

    def of_angles(self, angles: Float64s, sine: Float64s) -> tuple[Float64s, Float64s]:
        """Return the cosines and the sines of other angles, times the scale; blank rows are 0."""
        scale: Float64s | float = self.scale
        if self.blank is not None:
            scale = np.where(self.blank, 0.0, self.scale)[:, None]
        return scale * np.cos(angles), scale * np.sin(sine)

    @cached_property
    def far(self) -> Float64s:
        """The size of each angle, (S, K)."""
        sine = self.omega if self.sine is None else self.sine
        size: Float64s = np.abs(self.places) * np.maximum(np.abs(self.omega), np.abs(sine))
        return size

    @property
    def share(self) -> Float64s:
        """A bound of the relative error of each frequency in float32, (K,): (4 + 3L)·u."""
        return (4 + 3 * self.stiffness) * UNIT

    @property
    def stiffness(self) -> Float64s:
        """L = |ln ω_k| of the frequency before any rule, (K,)."""
        own: Float64s = np.abs(np.log(np.maximum(np.abs(self.omega), 1e-30)))
        if self.series is None or len(self.series.exponents) != len(own):
            return own
        stiffness: Float64s = np.maximum(
            np.where(self.omega == 0, 0, own), np.log(self.series.base) * self.series.exponents
        )
        return stiffness

    def gives(self, other: "Waves") -> bool:
        """Return whether other waves have the same numbers, but for the error of a float32 sine."""
        room = 4 * UNIT * other.scale
        return all(
            bool((np.abs(one - another) <= room).all())
            for one, another in zip(self.values, other.values, strict=True)
        )

    def loss(self, errors: Float64s) -> Float64s:
        """Return the errors of sines by errors of angles, (S, K): capped, and times the scale."""
        loss: Float64s = np.minimum(errors, _MOST_LOOSE) * self.scale
        return loss

    def at(self, rows: slice | Numbers) -> "Waves":
        """Return the waves of some rows."""
        moved = None if self.sine_places is None else self.sine_places[rows]
        exact = None if self.exact is None else (self.exact[0][rows], self.exact[1][rows])
        blank = None if self.blank is None else self.blank[rows]
        return replace(self, places=self.places[rows], sine_places=moved, exact=exact, blank=blank)


_TURN = 2 * np.pi
# A larger error of a sine would accept any array.
_MOST_LOOSE = 0.125
_ONE = np.float32(1)
# Errors of fewer frequencies are on a line by chance; the first frequency has none.
_FEWEST, _FEWEST_IN_FLOAT64 = 4, 2
# Fewer numbers are near the middle of two of a narrow type.
_MOST_NEAR = 0.25


@dataclass(frozen=True, eq=False)
class Fit:
    """An arithmetic in which waves give every number, and how it makes its angles.

    Attributes:
        arithmetic: the arithmetic.
        omega: the float32 frequencies of the engine, (K,); None if they are not known.
        step: how an engine makes an angle of the one before; None if it does not.
    """

    arithmetic: Arithmetic
    omega: Numbers | None = None
    step: "Step | None" = None

    @property
    def is_recomputed(self) -> bool:
        """True if angles or frequencies are those that an engine makes one after the other."""
        return self.step is not None or (self.arithmetic is ITERATED and self.omega is not None)

    def mismatches(self, view: View, waves: Waves, dtype: DType) -> list[Numbers]:
        """Return where this arithmetic does not give the numbers: (S, K) of each part."""
        room = _Room(view, dtype, 4 * UNIT * waves.scale)
        if waves.narrowing is not None:
            return _bad_of_narrow(view, waves, dtype)
        if self.omega is not None:
            angles = waves.places.astype(np.float32) * self.omega
            return room.bad(_turned(waves, angles.astype(np.float64)), 0.0)
        if self.step is not None:
            products = _products(waves, self.step)
            return room.bad(_turned(waves, products), _loss_of_products(waves))
        if self.arithmetic is EXACT and dtype in {FLOAT32, FLOAT64} and not view.slack:
            return room.bad(waves.values, 0.0)
        loose = 1.5 * waves.share + 2 * UNIT * np.arange(len(waves.omega))
        return room.bad(waves.values, waves.loss(waves.far * loose))

    def nearly(self, view: View, waves: Waves, dtype: DType) -> bool:
        """Return whether all numbers are near what this arithmetic gives, computed in float32.

        It allows 8u more than ``mismatches``, and takes a third of its time.

        Args:
            view: the numbers, in the type in which they were sent.
            waves: of the same rows.
            dtype: the type of the numbers.
        """
        special = (waves.narrowing, waves.exact, waves.blank)
        if dtype is FLOAT64 or not waves.is_one or any(each is not None for each in special):
            return False
        angles, share = waves.angles[0], 1.5 * waves.share + 2 * UNIT * np.arange(len(waves.omega))
        if self.omega is not None:
            angles = (waves.places.astype(np.float32) * self.omega).astype(np.float64)
        elif self.step is not None:
            angles = _products(waves, self.step)
        is_exact = self.arithmetic is EXACT and dtype is FLOAT32 and not view.slack
        if self.omega is not None or is_exact:
            share = np.zeros(len(share))
        elif self.step is not None:
            share = np.full(len(share), UNIT)
        folded = (angles - _TURN * np.round(angles * (1 / _TURN))).astype(np.float32)
        fixed = 12 * UNIT + 1.01 * HALF_STEP[dtype] + view.slack / waves.scale
        loose = np.minimum(waves.far * share, _MOST_LOOSE) + fixed
        allowed = (loose * waves.scale).astype(np.float32)
        scale = np.float32(waves.scale)
        for part, function in ((view.cosine, np.cos), (view.sine, np.sin)):
            if part is not None:
                width = part.shape[1]
                distance = np.abs(part - scale * function(folded[:, :width]))
                if not (distance <= allowed[:, :width]).all():
                    return False
        return True


def fit_of(view: View, waves: Waves, dtype: DType) -> Fit | None:
    """Return the most exact arithmetic in which waves give every number; None if none does.

    Args:
        view: the numbers, as float64.
        waves: of the same rows.
        dtype: the type to which the numbers were rounded.
    """
    if waves.narrowing is not None:
        has_effect = not np.array_equal(waves.angles[0], replace(waves, narrowing=None).angles[0])
        may_be = has_effect or waves.narrowing.part == "throughout"
        is_right = may_be and _fits_narrow(view, waves, dtype)
        return Fit(waves.narrowing.arithmetic) if is_right else None
    if dtype is FLOAT64 and (fit := next(_in_float64(view, waves), None)) is not None:
        return fit
    # Numbers of float64 may be sines in float64 of frequencies or angles in float32.
    fits = _in_float32(view, waves, FLOAT32 if dtype is FLOAT64 else dtype)
    found = next(fits, None)
    if found is None or (found.arithmetic is EXACT and dtype is not FLOAT64):
        return found
    is_exact, is_steep = _of_other_base(view, waves, dtype)
    if is_exact or is_steep:
        # The errors of a rounded ratio are on a line, too.
        known = (each for each in chain([found], fits) if each.arithmetic is ITERATED)
        return next((each for each in known if each.is_recomputed or not is_exact), None)
    return Fit(IN_FLOAT32) if found.arithmetic is EXACT else found


def _in_float64(view: View, waves: Waves) -> Iterator[Fit]:
    loss, unit = 32 * HALF_STEP[FLOAT64], 4 * HALF_STEP[FLOAT64]
    if _Room(view, FLOAT64, unit * waves.scale).holds(waves.values, 0.0):
        yield Fit(EXACT)
    if _Room(view, FLOAT64, loss * waves.scale).holds(waves.values, waves.loss(waves.far * loss)):
        yield Fit(IN_FLOAT64)


def _in_float32(view: View, waves: Waves, dtype: DType) -> Iterator[Fit]:
    """Yield the arithmetics in float32 that give every number, the most exact first."""
    room = _Room(view, dtype, 4 * UNIT * waves.scale)
    products = 2 * np.arange(len(waves.omega)) + 2
    loosest = waves.far * (waves.share + products * UNIT)
    if not room.holds(waves.values, loosest * waves.scale):
        return
    if _Room(view, dtype, 2 * UNIT * waves.scale).holds(waves.values, 0.0):
        yield Fit(EXACT)
    # Narrow types, and cosines or sines alone, do not show the last bits of frequencies.
    is_vague = dtype in {BFLOAT16, FLOAT16} or not view.has_pairs
    if is_vague and room.holds(waves.values, waves.loss(waves.far * waves.share)):
        yield Fit(IN_FLOAT32)
    if waves.is_one and view.has_pairs and view.weights is None:
        omega = _fitted(view, waves, room)
        if omega is not None:
            # Printed decimals do not show the last bits of frequencies.
            yield Fit(IN_FLOAT32, omega=None if view.slack else omega)
    yield from _multiplied(view, waves, room)
    if room.holds(waves.values, waves.loss(1.5 * waves.far * waves.share)):
        yield Fit(IN_STEPS)
    yield from _by_powers(waves, room)


def _multiplied(view: View, waves: Waves, room: "_Room") -> Iterator[Fit]:
    """Yield the repeated multiplications, or divisions, that give every number."""
    for step in _steps(waves):
        if room.holds(_turned(waves, _products(waves, step)), _loss_of_products(waves)):
            yield Fit(ITERATED, step=None if view.slack else step)
    for step in _steps(waves):
        ratios = np.append(_ONE, np.full(len(waves.omega) - 1, step.by))
        running = [step.function.accumulate(ratios)]
        if step.function is np.divide:
            running.append(_ONE / np.multiply.accumulate(ratios))
        for each in running:
            omega = each * _factors(waves).astype(np.float32)
            angles = (waves.places.astype(np.float32) * omega).astype(np.float64)
            if room.holds(_turned(waves, angles), 0.0):
                yield Fit(ITERATED, omega=None if view.slack else omega)


def _by_powers(waves: Waves, room: "_Room") -> Iterator[Fit]:
    """Yield the powers of a ratio that give every number."""
    for ratio in (float(step.by) for step in _steps(waves) if step.function is np.multiply):
        # Kernels on graphics cards take powers of the ratio instead.
        if room.holds(_turned(waves, _powers(waves, ratio)), waves.loss(4 * waves.far * UNIT)):
            yield Fit(ITERATED)


@dataclass(frozen=True, eq=False)
class _Room:
    """The error allowed of each number of a view: half a step, slack, and a fixed error."""

    view: View
    dtype: DType
    fixed: float

    @cached_property
    def steps(self) -> tuple[Float64s, ...]:
        slack = self.view.slack + self.fixed
        return tuple(0.5 * step_bound(part, self.dtype) + slack for part in self.view.parts)

    def bad(self, values: tuple[Float64s, Float64s], loose: Float64s | float) -> list[Numbers]:
        """Return where numbers are not near their predictions, of each part, (S, K)."""
        found = []
        for part, step, value in zip(self.view.parts, self.steps, self._own(values), strict=True):
            width = part.shape[1]
            more = loose if isinstance(loose, float) else loose[:, :width]
            found.append(~(np.abs(part - value[:, :width]) <= step + more))
        return found

    def holds(self, values: tuple[Float64s, Float64s], loose: Float64s | float) -> bool:
        return not any(each.any() for each in self.bad(values, loose))

    def _own(self, values: tuple[Float64s, Float64s]) -> list[Float64s]:
        parts = (self.view.cosine, self.view.sine)
        return [value for part, value in zip(parts, values, strict=True) if part is not None]


def mismatches(view: View, waves: Waves, dtype: DType) -> list[Numbers]:
    """Return where no float32 arithmetic gives the numbers: (S, K) of cosines, and of sines."""
    products = 2 * np.arange(len(waves.omega)) + 2
    loose = waves.far * (waves.share + products * UNIT) * waves.scale
    return _Room(view, dtype, 4 * UNIT * waves.scale).bad(waves.values, loose)


def _turned(waves: Waves, angles: Float64s) -> tuple[Float64s, Float64s]:
    return waves.of_angles(angles, angles)


def _fitted(view: View, waves: Waves, room: _Room) -> Numbers | None:
    """Return float32 frequencies, within their bounds, that give every number; None if none do.

    The phases show the frequencies of the engine; the angles are then products in float32, and no
    error that grows with the angle is allowed.
    """
    omega = fitted_frequencies(view, waves)
    chosen, failed = omega.copy(), np.ones(len(omega), dtype=np.bool_)
    places = waves.places.astype(np.float32)
    for steps in (0, 1, -1):
        near = omega + np.float32(steps) * np.spacing(omega)
        missed = np.zeros(len(omega), dtype=np.bool_)
        for each in room.bad(_turned(waves, (places * near).astype(np.float64)), 0.0):
            missed[: each.shape[1]] |= each.any(axis=0)
        chosen = np.where(failed & ~missed, near, chosen)
        failed &= missed
        if not failed.any():
            return chosen
    return None


def fitted_frequencies(view: View, waves: Waves) -> Numbers:
    """Return the float32 frequencies that the phases of a view show, within their bounds, (K,)."""
    width = view.phasors.shape[1]
    drift, _ = _drift(view, waves)
    most = (waves.share * np.abs(waves.omega))[:width]
    omega = waves.omega.astype(np.float32)
    omega[:width] = waves.omega[:width] + np.clip(drift, -most, most)
    return omega


def _drift(view: View, waves: Waves) -> tuple[Float64s, Float64s]:
    """Return how much faster each pair turns than expected, and the sum of squared positions."""
    width = view.phasors.shape[1]
    straight = view.phasors * np.exp(-1j * waves.angles[0][:, :width])
    where = waves.places[:, :width]
    spread = np.maximum((where * where).sum(axis=0), 1e-300)
    return (where * np.angle(straight)).sum(axis=0) / spread, spread


class Step(NamedTuple):
    """An operation with a float32 number that gives an angle of the one before."""

    function: np.ufunc
    by: np.float32


def _steps(waves: Waves) -> Iterator[Step]:
    """Yield how an engine may make angle after angle: it multiplies, as ggml does, or divides."""
    series = waves.series
    if series is None or not waves.is_one:
        return
    if len(waves.omega) < 2 or len(waves.omega) != len(series.exponents):
        return
    power = np.float32(series.exponents[1] - series.exponents[0])
    for function, sign in ((np.multiply, -1), (np.divide, 1)):
        ratio = np.float32(series.base) ** np.float32(sign * power)
        for steps in (0, 1, -1):
            yield Step(function, ratio + np.float32(steps) * np.spacing(ratio))


def _products(waves: Waves, step: Step) -> Float64s:
    """Return angles that are made one after the other in float32; a rule multiplies them last."""
    assert waves.series is not None
    shape = (len(waves.places), len(waves.omega))
    columns = np.array(np.broadcast_to(waves.places, shape), dtype=np.float32)
    for k in range(1, shape[1]):
        if waves.places.shape[1] == 1:
            columns[:, k] = step.function(columns[:, k - 1], step.by)
        else:
            # Each frequency has a position of its own.
            columns[:, k:] = step.function(columns[:, k:], step.by)
    products: Float64s = (columns * _factors(waves).astype(np.float32)).astype(np.float64)
    return products


def _powers(waves: Waves, ratio: float) -> Float64s:
    """Return angles that are multiplied by powers of a float32 number, and by those of a rule."""
    powers: Float64s = ratio ** np.arange(len(waves.omega), dtype=np.float64)
    return waves.places * (powers * _factors(waves))


def _factors(waves: Waves) -> Float64s:
    """Return what a rule multiplies each frequency by, (K,)."""
    assert waves.series is not None
    factors: Float64s = waves.omega / np.maximum(waves.series.omega, 1e-300)
    return factors


def _loss_of_products(waves: Waves) -> Float64s:
    """Return the errors of ``_products``: none, but for the steps of a rule."""
    is_plain = np.abs(_factors(waves) - 1).max(initial=0) < UNIT
    return waves.loss(waves.far * (0.0 if is_plain else 4 * UNIT))


def _of_other_base(view: View, waves: Waves, dtype: DType) -> tuple[bool, bool]:
    """Return whether numbers are exactly those of another base or factor, and whether they may be.

    An engine rounds each frequency by itself. Errors of their logarithms on a line of the exponent
    are those of another base: of one that gives every number, or of one that is further off than
    twice what rounding the logarithm of the base costs.
    """
    series = waves.series
    is_usable = waves.is_one and view.has_pairs and view.weights is None and not view.slack
    if series is None or not is_usable or len(series.exponents) != len(waves.omega):
        return False, False
    width = view.phasors.shape[1]
    omega, exponents = np.abs(waves.omega[:width]), series.exponents[:width]
    drift, spread = _drift(view, waves)
    turned = np.sqrt(spread) * omega
    known = turned > 0
    fewest = _FEWEST_IN_FLOAT64 if dtype is FLOAT64 else _FEWEST
    # A line goes through any two.
    if known.sum() < max(fewest, 3):
        return False, False
    errors = np.log1p((drift[known] / waves.omega[:width][known]).clip(-0.5, 0.5))
    unit = HALF_STEP[dtype]
    noise = unit / turned[known]
    far = waves.far[:, :width].max(axis=0)[known]
    line = np.stack([np.ones(known.sum()), exponents[known]], axis=1)

    def fitted(spreads: Float64s) -> tuple[Float64s, float]:
        weighted = line / spreads[:, None]
        inverse = np.linalg.pinv(weighted.T @ weighted)
        return inverse @ (weighted.T @ (errors / spreads)), float(inverse[1, 1])

    is_steep = False
    if dtype is FLOAT32:
        (_, slope), variance = fitted(np.hypot(noise, 2 * UNIT))
        is_steep = abs(slope) > 2 * np.log(series.base) * UNIT + 4 * variance**0.5
    loss = 32 * unit if dtype is FLOAT64 else 2 * UNIT
    if (np.abs(errors) * far > 3 * loss * (1 + far * (dtype is FLOAT64))).sum() < fewest:
        return False, is_steep
    ends, _ = fitted(noise)
    other = replace(waves, omega=waves.omega * np.exp(ends[0] + ends[1] * series.exponents))
    loose = other.loss(other.far * loss) if dtype is FLOAT64 else 0.0
    return _Room(view, dtype, loss * waves.scale).holds(other.values, loose), is_steep


def is_possible(view: View, waves: Waves, dtype: DType) -> bool:
    """Return whether some arithmetic may give every number, as far as these rows show it."""
    if waves.narrowing is not None:
        return _fits_narrow(view, waves, dtype)
    return not any(each.any() for each in mismatches(view, waves, dtype))


def _fits_narrow(view: View, waves: Waves, dtype: DType) -> bool:
    """Return whether the narrow arithmetic of waves gives every number."""
    narrow = waves.narrowing
    assert narrow is not None
    if narrow.part == "throughout" and dtype is not narrow.dtype:
        return False
    if not np.isfinite(waves.angles[0]).all():
        return False
    return not any(each.any() for each in _bad_of_narrow(view, waves, dtype))


def _bad_of_narrow(view: View, waves: Waves, dtype: DType) -> list[Numbers]:
    """Return where the narrow arithmetic of waves does not give the numbers, of each part.

    A number in float32 that is near the middle of two of the narrow type may be rounded to either.
    """
    narrow = waves.narrowing
    assert narrow is not None
    share = waves.share + (2 * np.arange(len(waves.omega)) + 2) * UNIT
    loss: Float64s = np.zeros_like(waves.far)
    if narrow.part in {"positions", "frequencies"}:
        loss = waves.loss(waves.far * share)
    elif narrow.part == "throughout":
        loss += waves.scale * HALF_STEP[narrow.dtype]
    room = _Room(view, dtype, 4 * UNIT * waves.scale)
    bad = room.bad(waves.values, loss)
    signs = [(-1, 1) if narrow.rounds(part) else (0,) for part in ("frequencies", "angles")]
    for of_omega, of_angle in product(*signs):
        if (of_omega, of_angle) == (0, 0) or not 0 < max(each.mean() for each in bad) < _MOST_NEAR:
            break
        other = room.bad(waves.of_angles(*waves.narrowed(of_omega * share, of_angle * share)), loss)
        bad = [one & two for one, two in zip(bad, other, strict=True)]
    return bad
