"""Diagnose an applied rotation: find the shortest list of known mistakes that explains its result.

A search tries every list of up to two mistakes, the shortest first. It checks a list on a few rows
before it checks the list on all rows.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from math import prod

import numpy as np

from service.analysis.array import FirstMismatch
from service.analysis.diagnosis.applied_rotation import (
    LAYOUTS,
    Application,
    Evidence,
    Layout,
    Target,
    Wiring,
)
from service.analysis.diagnosis.mistakes import (
    Diagnosis,
    DiagnosisVerdict,
    Mistake,
    reason_of_equality,
)
from service.analysis.diagnosis.rotation_faults import (
    RotationMeasurement,
    angle_mistakes,
    length_mistakes,
    narrow_mistakes,
    position_mistakes,
    size_mistakes,
    width_mistakes,
    wiring_mistakes,
)
from service.analysis.measure import spread_indices
from service.analysis.precision import narrowest_dtype, spacing
from service.numerics.dtypes import FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s
from service.numerics.phasors import Indices

# The mistakes of a list change aspects in this order, each aspect at most once. A mistake is
# measured after the earlier mistakes are applied, and independently of the later ones.
_ASPECTS = (
    *("layout", "form", "order", "tiling", "rest", "offset", "width", "direction", "times"),
    *("exchange", "size", "tables", "rows", "positions", "factor", "base", "linear", "frequencies"),
    *("narrow-frequencies", "shift", "length"),
)
_HEADS = 4
_EARLY_ROWS = 32
_SPREAD_ROWS = 32
_FEW_ROWS = 6
# A diagnosis names no mistakes that explain a smaller fraction of the elements.
_LEAST_SHARE = 0.5


class ApplicationSearch:
    """Search for the first list of mistakes that explains every element of the rotated array.

    The search remembers the list that explains the largest fraction of the sampled elements.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        rows = evidence.target.rows
        spread = spread_indices(rows, min(rows, _SPREAD_ROWS))
        self._rows = np.union1d(np.arange(min(rows, _EARLY_ROWS)), spread)
        # The first rows, some middle rows and the last row show most mistakes.
        few = self._rows[spread_indices(len(self._rows), min(len(self._rows), _FEW_ROWS))]
        self._few_rows = np.union1d(few, np.arange(min(rows, 3)))
        self._heads = slice(0, _HEADS)
        self._gauge = RotationMeasurement(evidence, self._heads, self._rows)
        self._closest: tuple[float, Application] | None = None

    def shortest(self, starts: list[Application], most: int) -> Application:
        """Return the first application that explains every element.

        If none does, return the application that explains the most elements, or the first of
        ``starts`` if all explain less than half of them.

        Args:
            starts: applications to which the search adds mistakes.
            most: the largest number of mistakes to add.
        """
        for application in self._applications(starts, most):
            if self._explains(application):
                return application
        share, closest = self._closest or (0.0, starts[0])
        return closest if share >= _LEAST_SHARE else starts[0]

    def _explains(self, application: Application) -> bool:
        """Return whether every element is within its tolerance; check a few rows first."""
        return (
            self.evidence.distinguishes(application, self._few_rows)
            and self._share(application, slice(0, 1), self._few_rows) == 1
            and self._share(application, self._heads, self._rows) == 1
            and bool((self.evidence.row_shares(application) == 1).all())
        )

    def _share(self, application: Application, heads: slice, rows: Indices) -> float:
        """Return the fraction of the elements of these heads and rows that are within tolerance.

        Remember the application if its fraction is the largest so far.
        """
        share = float(self.evidence.explained_shares(application, heads, rows).mean())
        if self._closest is None or share > self._closest[0]:
            self._closest = share, application
        return share

    def _applications(self, starts: list[Application], most: int) -> Iterator[Application]:
        """Yield the applications with at most ``most`` added mistakes, the fewest first.

        Applications with the generic mistake ``wrong-rule``, which takes the measured frequencies
        themselves, come last, since they fit many arrays.
        """
        levels = [starts]
        yield from starts
        for depth in range(most):
            level: list[Application] = []
            for application in levels[-1]:
                for changed in self._named(application):
                    yield changed
                    if depth < most - 1:
                        level.append(changed)
            levels.append(level)
        if most > 0:
            for application in chain(*levels):
                yield from self._unnamed(application)
        if most > 1:
            for application in starts:
                for changed in self._unnamed(application):
                    yield from self._named(changed)

    def _named(self, application: Application) -> Iterator[Application]:
        return _in_order(application, self._mistakes(application))

    def _unnamed(self, application: Application) -> Iterator[Application]:
        return _in_order(application, self._gauge.unnamed_mistakes(application))

    def _mistakes(self, application: Application) -> Iterator[Application]:
        target = self.evidence.target
        yield from wiring_mistakes(application)
        yield from angle_mistakes(application)
        yield from size_mistakes(application, _common_factor(target))
        yield from position_mistakes(application, target)
        yield from width_mistakes(application, self.evidence)
        yield from narrow_mistakes(application, target, self.evidence.roundoff)
        yield from self._gauge.mistakes(application)
        if "length" not in application.aspects:
            # A quick check: most applications do not explain the first rows either.
            shares = self.evidence.explained_shares(application, slice(0, 1), self._rows[1:3])
            if (shares == 1).all():
                yield from length_mistakes(application, self.evidence)


def _in_order(application: Application, changed: Iterator[Application]) -> Iterator[Application]:
    """Yield the changed applications whose new aspect comes after all aspects of the original."""
    last = max(map(_ASPECTS.index, application.aspects), default=-1)
    return (each for each in changed if _ASPECTS.index(each.aspects[-1]) > last)


def _common_factor(target: Target) -> float | None:
    """Return the scale of the expected cosines and sines; None if it differs between angles."""
    size = target.size
    if np.ptp(size) > 1e-12 * size.max():
        return None
    factor = float(size[0, 0])
    return 1.0 if abs(factor - 1) < 1e-12 else factor


# Two products and their sum may each underflow by half of the smallest number above 0.
_UNDERFLOWS = 2


def diagnose_applied(
    x: Float64s,
    rotated: Float64s,
    cosine: Float64s,
    sine: Float64s,
    dtype: DType,
    *,
    layout: Layout | None = None,
    output_layout: Layout | None = None,
    rotary_offset: int = 0,
    positions: Float64s | None = None,
    omega: Float64s | None = None,
) -> Diagnosis:
    """Find the shortest list of known mistakes that explains a rotation of queries or keys.

    Args:
        x: the array before the rotation, (…, S, head_dim), finite.
        rotated: the array after the rotation, of the same shape.
        cosine: the expected cosines times the attention factor, (S, r/2), exact.
        sine: the expected sines times the attention factor, (S, r/2), exact.
        dtype: the dtype of the arrays; a float64 array whose elements are all representable in
            float32 counts as float32.
        layout: the correct layout of the channel pairs; None if both layouts are correct.
        output_layout: the correct layout of the result; None if it equals ``layout``.
        rotary_offset: the number of unchanged channels before the first that rotates.
        positions: the positions of the rows, (S,); None to measure the first, with steps of 1.
        omega: frequencies in radians per position, (r/2,); None to measure them.

    Returns:
        The diagnosis, with indices into the submitted arrays.
    """
    target = Target.of(cosine, sine, positions, omega)
    wirings = [
        Wiring(x.shape[-1], 2 * cosine.shape[1], rotary_offset, read, output_layout or read)
        for read in LAYOUTS
        if layout in {None, read}
    ]
    kinds = _arithmetics(x, rotated, dtype)
    plain = [(kind, x.ndim - 2, 0) for kind in kinds]
    closest: tuple[float, Diagnosis] | None = None
    for kind, axis, most in chain(plain, _attempts(kinds, x)):
        evidence = _evidence(x, rotated, target, axis, kind)
        starts = [_start(wiring, axis, x.ndim) for wiring in wirings]
        application = ApplicationSearch(evidence).shortest(starts, most)
        diagnosis = _diagnosis(evidence, application, x, axis, dtype)
        if diagnosis.verdict != "none":
            return diagnosis
        share = float(evidence.row_shares(application).mean())
        if closest is None or share > closest[0]:
            closest = share, diagnosis
    assert closest is not None
    return closest[1]


def _arithmetics(x: Float64s, rotated: Float64s, dtype: DType) -> list[DType]:
    """Return the dtypes in which the rotation may have been computed, the widest first."""
    narrowest = narrowest_dtype(np.stack([x, rotated]), dtype)
    # A float64 result may have been computed with cosines and sines rounded to float32.
    return [FLOAT64, FLOAT32] if narrowest is FLOAT64 else [narrowest]


def _attempts(kinds: list[DType], x: Float64s) -> Iterator[tuple[DType, int, int]]:
    """Yield a dtype, the axis of positions, and the largest number of mistakes to add."""
    last = x.ndim - 2
    for kind in kinds:
        yield kind, last, 2
        for axis in reversed(range(last)):
            if x.shape[axis] > 1:
                yield kind, axis, 1


def _start(wiring: Wiring, axis: int, axes: int) -> Application:
    if axis == axes - 2:
        return Application(wiring)
    values = {"have": axis, "want": axes - 2, "first": f"axis {axes - 2}", "second": f"axis {axis}"}
    return Application(wiring, mistakes=(Mistake("axes-swapped", values, "rotation"),))


def _evidence(x: Float64s, rotated: Float64s, target: Target, axis: int, kind: DType) -> Evidence:
    """Return the evidence from the arrays, reshaped to (heads, positions, head_dim).

    ``axis`` is the position axis; all axes but this one and the last are flattened into heads.
    """
    swapped = np.swapaxes(x, axis, -2)
    heads = (prod(swapped.shape[:-2]), *swapped.shape[-2:])
    before, after = (np.swapaxes(values, axis, -2).reshape(heads) for values in (x, rotated))
    one, none = spacing(np.array([1.0, 0.0]), kind)
    target = _resized(target, heads[1])
    least = _UNDERFLOWS * float(none)
    return Evidence(before, after, target, float(one) / 2, least, kind)


def _resized(target: Target, rows: int) -> Target:
    """Return the target with its first ``rows`` rows, or extended to ``rows`` rows.

    New rows have the next positions, one apart, and the angles of the target's frequencies.
    """
    if rows <= target.rows:
        return replace(
            target,
            unit=target.unit[:rows],
            size=target.size[:rows],
            positions=target.positions[:rows],
        )
    more = np.arange(1, rows - target.rows + 1)
    positions = np.concatenate([target.positions, target.positions[-1] + more])
    omega = np.zeros_like(target.omega_error) if target.omega is None else target.omega
    unit = np.concatenate([target.unit, target.unit[-1] * np.exp(1j * np.outer(more, omega))])
    size = np.concatenate([target.size, np.repeat(target.size[-1:], len(more), axis=0)])
    return replace(target, unit=unit, size=size, positions=positions)


def _diagnosis(
    evidence: Evidence, application: Application, x: Float64s, axis: int, dtype: DType
) -> Diagnosis:
    """Compare every element with the application's prediction, and return the diagnosis."""
    residual, most, mismatch, has_angle_errors = 0.0, 0.0, None, False
    for rows in evidence.chunks():
        predicted, error, allowed = evidence.errors(application, slice(None), rows)
        residual = max(residual, float(np.nan_to_num(error, nan=np.inf).max()))
        most = max(most, float(allowed.max()))
        has_angle_errors |= evidence.has_angle_errors(application, rows, error)
        is_off = ~(error <= allowed)
        if mismatch is None and is_off.any():
            row, head, channel = (int(i) for i in np.argwhere(is_off.transpose(1, 0, 2))[0])
            place = int(rows[row])
            mismatch = FirstMismatch(
                "rotated",
                _index(head, place, channel, x.shape, axis),
                float(evidence.y[head, place, channel]),
                float(predicted[head, row, channel]),
                float(allowed[head, row, channel]),
                evidence.target.position(place),
            )
    mistakes = application.mistakes
    verdict: DiagnosisVerdict = "none" if mismatch else "diagnosed" if mistakes else "equal"
    residual = min(residual, float(np.finfo(np.float64).max))
    largest = np.abs(evidence.y).max(keepdims=True)
    is_narrow = evidence.kind is not dtype and residual > 2 * float(spacing(largest, dtype).max())
    narrow = evidence.kind if is_narrow else None
    reason = reason_of_equality(narrow, has_angle_errors=has_angle_errors)
    return Diagnosis(verdict, mistakes, residual, x.size, most, mismatch, reason=reason)


def _index(head: int, row: int, channel: int, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the index, in the submitted array of this shape, of an element of the evidence."""
    swapped = list(shape)
    swapped[axis], swapped[-2] = swapped[-2], swapped[axis]
    index = [*map(int, np.unravel_index(head, swapped[:-2])), row, channel]
    index[axis], index[-2] = index[-2], index[axis]
    return tuple(index)
