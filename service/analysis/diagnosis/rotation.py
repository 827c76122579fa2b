"""The search for the shortest list of mistakes, on a few rows first.

What was done to an array that should have been turned by cosines and sines.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from service.analysis.diagnosis.mistakes import Diagnosis, Leaving, Mistake, Verdict, Wording
from service.analysis.diagnosis.rotation_evidence import (
    LAYOUTS,
    Application,
    ChannelIndices,
    Evidence,
    Layout,
    Target,
    Wiring,
)
from service.analysis.diagnosis.rotation_faults import (
    Gauge,
    angle_mistakes,
    channel_mistakes,
    length_mistakes,
    narrow_mistakes,
    position_mistakes,
    size_mistakes,
    width_mistakes,
)
from service.analysis.precision import spacing
from service.numerics.dtypes import FLOAT32, FLOAT64, DType
from service.numerics.phase import Float64s

# Mistakes are made in this order, each aspect once: what comes later is measured on what came
# before, and what measures sizes, frequencies and angles does not mind those after it.
_ORDER = (
    "layout",
    "form",
    "order",
    "tiling",
    "rest",
    "offset",
    "width",
    "direction",
    "times",
    "exchange",
    "size",
    "tables",
    "rows",
    "positions",
    "factor",
    "base",
    "linear",
    "frequencies",
    "narrow-frequencies",
    "shift",
    "length",
)
_HEADS = 4
_EARLY_ROWS = 32
_SPREAD_ROWS = 32
_FEW_ROWS = 6
# What explains less than half of the elements says nothing.
_NEAR = 0.5


class _Search:
    """Looks for what explains an array, and remembers what comes nearest."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        rows = evidence.target.rows
        spread = np.linspace(0, rows - 1, min(rows, _SPREAD_ROWS)).astype(np.intp)
        self._rows = np.union1d(np.arange(min(rows, _EARLY_ROWS)), spread)
        self._heads = slice(0, _HEADS)
        self._few = _few(self._rows, rows)
        self.gauge = Gauge(evidence, self._heads, self._rows)
        self.nearest: tuple[float, Application] | None = None

    def explains(self, application: Application) -> bool:
        """Tell whether an application explains every element; few are looked at first."""
        evidence = self.evidence
        if self._share(application, slice(0, 1), self._few) < 1:
            return False
        if self._share(application, self._heads, self._rows) < 1:
            return False
        return all(
            (evidence.share_within(application, slice(None), rows) == 1).all()
            for rows in evidence.chunks()
        )

    def _share(self, application: Application, heads: slice, rows: ChannelIndices) -> float:
        share = float(self.evidence.share_within(application, heads, rows).mean())
        if self.nearest is None or share > self.nearest[0]:
            self.nearest = share, application
        return share

    def starts_well(self, application: Application) -> bool:
        """Tell whether the first rows are explained, where there are some."""
        rows = self._rows[1:3]
        return bool((self.evidence.share_within(application, slice(0, 1), rows) == 1).all())

    def mistakes(self, application: Application) -> Iterator[Application]:
        """Make each mistake more that comes after those that were made."""
        last = max(map(_ORDER.index, application.aspects), default=-1)
        for made in self._every(application):
            if _ORDER.index(made.aspects[-1]) > last:
                yield made

    def unnamed(self, application: Application) -> Iterator[Application]:
        """Take the frequencies that were measured as they are."""
        last = max(map(_ORDER.index, application.aspects), default=-1)
        for made in self.gauge.others(application):
            if _ORDER.index(made.aspects[-1]) > last:
                yield made

    def everything(self, starts: list[Application], most: int) -> Iterator[Application]:
        """Make every list of mistakes, the shortest first; those with frequencies unnamed last.

        What has a name comes first: frequencies without one can be made to fit much.
        """
        levels = [starts]
        yield from starts
        for depth in range(most):
            level: list[Application] = []
            for application in levels[-1]:
                for made in self.mistakes(application):
                    yield made
                    if depth < most - 1:
                        level.append(made)
            levels.append(level)
        for level in levels[:most]:
            for application in level:
                yield from self.unnamed(application)
        if most > 1:
            for application in starts:
                for made in self.unnamed(application):
                    yield from self.mistakes(made)

    def _every(self, application: Application) -> Iterator[Application]:
        target = self.evidence.target
        size = target.size
        factor = float(size[0, 0]) if np.ptp(size) <= 1e-12 * size.max() else None
        factor = 1.0 if factor is not None and abs(factor - 1) < 1e-12 else factor
        yield from channel_mistakes(application)
        yield from angle_mistakes(application)
        yield from size_mistakes(application, factor)
        yield from position_mistakes(application, target)
        yield from width_mistakes(application, self.evidence)
        yield from narrow_mistakes(application, target)
        yield from self.gauge.mistakes(application)
        if "length" not in application.aspects and self.starts_well(application):
            yield from length_mistakes(application, self.evidence)


def search(evidence: Evidence, starts: list[Application], most: int) -> Application:
    """Find the application with the fewest mistakes that explains everything, or the nearest.

    Args:
        evidence: what there is to explain.
        starts: applications that are right.
        most: how many mistakes may be made beside theirs.
    """
    looking = _Search(evidence)
    for application in looking.everything(starts, most):
        if looking.explains(application):
            return application
    share, nearest = looking.nearest or (0.0, starts[0])
    return nearest if share >= _NEAR else starts[0]


def _few(sampled: ChannelIndices, rows: int) -> ChannelIndices:
    """Choose rows that tell most mistakes apart: the first, some in between, the last."""
    chosen = np.linspace(0, len(sampled) - 1, min(len(sampled), _FEW_ROWS)).astype(np.intp)
    return np.unique(np.concatenate([sampled[chosen], np.arange(min(rows, 3))]))


# Two products and their sum may each lose half of the least number above 0.
_LOST = 2

_AXIS = Wording(
    "Rotated along axis {have}, and should be along axis {want}: heads were taken for positions.",
    "Give (batch, heads, positions, channels), or say which axis counts positions.",
)


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
    """Find the shortest list of known mistakes that makes one array of another.

    Args:
        x: what was turned, (…, S, head_dim), finite.
        rotated: what came out, in the same shape.
        cosine: what should have turned it, (S, r/2), exact, with the factor that goes with it.
        sine: the same.
        dtype: the type of the arrays; numbers of float64 that are all float32 count as those.
        layout: which channels should be pairs; either is right where nothing is said.
        output_layout: where turned channels should be put; as layout unless given.
        rotary_offset: channels that should pass through before the first that turns.
        positions: of the rows; measured unless given, for rows that follow each other.
        omega: frequencies in radians per position, (r/2,); measured unless given.

    Returns:
        What was done; indices are those of the arrays.
    """
    target = Target.of(cosine, sine, positions, omega)
    wirings = [
        Wiring(x.shape[-1], 2 * cosine.shape[1], rotary_offset, read, output_layout or read)
        for read in LAYOUTS
        if layout in {None, read}
    ]
    nearest: tuple[float, Diagnosis] | None = None
    for kind in _kinds(x, rotated, dtype):
        for axis, most in _axes(x):
            evidence = _evidence(x, rotated, target, axis, kind)
            starts = [_start(wiring, axis, x.ndim) for wiring in wirings]
            found = search(evidence, starts, most)
            diagnosis = _said(evidence, found, x, axis)
            if diagnosis.is_explained:
                return diagnosis
            share = _share(evidence, found)
            if nearest is None or share > nearest[0]:
                nearest = share, diagnosis
    assert nearest is not None
    return nearest[1]


def _kinds(x: Float64s, rotated: Float64s, dtype: DType) -> Iterator[DType]:
    """Give the types that arrays may have been computed in, the widest first."""
    is_narrow = dtype is FLOAT64 and all(
        np.array_equal(values.astype(np.float32), values) for values in (x, rotated)
    )
    if dtype is FLOAT64 and not is_narrow:
        yield FLOAT64
    # Numbers of float64 may come from cosines and sines of float32.
    yield FLOAT32 if dtype is FLOAT64 else dtype


def _axes(x: Float64s) -> Iterator[tuple[int, int]]:
    """Give each axis that may have been taken for that of positions, and how many mistakes more."""
    last = x.ndim - 2
    yield last, 2
    for axis in reversed(range(last)):
        if x.shape[axis] > 1:
            yield axis, 1


def _start(wiring: Wiring, axis: int, axes: int) -> Application:
    if axis == axes - 2:
        return Application(wiring)
    values = {"have": axis, "want": axes - 2, "first": f"axis {axes - 2}", "second": f"axis {axis}"}
    return Application(wiring, mistakes=(Mistake("axes-swapped", values, _AXIS),))


def _evidence(x: Float64s, rotated: Float64s, target: Target, axis: int, kind: DType) -> Evidence:
    """Bring an axis to where positions are, and all before it into one."""
    arrays = [np.swapaxes(values, axis, -2) for values in (x, rotated)]
    *leading, rows, head_dim = arrays[0].shape
    flat = [values.reshape(prod(leading), rows, head_dim) for values in arrays]
    one, none = spacing(np.array([1.0, 0.0]), kind)
    return Evidence(flat[0], flat[1], _resized(target, rows), float(one) / 2, _LOST * float(none))


def _resized(target: Target, rows: int) -> Target:
    """Give as many rows of what is wanted, going on as it does."""
    if rows <= target.rows:
        return replace(
            target,
            unit=target.unit[:rows],
            size=target.size[:rows],
            positions=target.positions[:rows],
        )
    more = np.arange(1, rows - target.rows + 1)
    positions = np.concatenate([target.positions, target.positions[-1] + more])
    steps = np.zeros_like(target.omega_error) if target.omega is None else target.omega
    unit = np.concatenate([target.unit, target.unit[-1] * np.exp(1j * np.outer(more, steps))])
    size = np.concatenate([target.size, np.repeat(target.size[-1:], len(more), axis=0)])
    return replace(target, unit=unit, size=size, positions=positions)


def _share(evidence: Evidence, found: Application) -> float:
    """Give the share of elements that an application explains."""
    shares = [evidence.share_within(found, slice(None), rows) for rows in evidence.chunks()]
    return float(np.concatenate(shares).mean())


def _said(evidence: Evidence, found: Application, x: Float64s, axis: int) -> Diagnosis:
    """Compare every element, and say where the first that is not explained is."""
    residual, most, leaving = 0.0, 0.0, None
    for rows in evidence.chunks():
        made, error, allowed = evidence.errors(found, slice(None), rows)
        finite = np.nan_to_num(error, nan=np.inf)
        residual = max(residual, float(finite.max()))
        most = max(most, float(allowed.max()))
        is_off = ~(error <= allowed)
        if leaving is None and is_off.any():
            row, head, channel = (int(i) for i in np.argwhere(is_off.transpose(1, 0, 2))[0])
            at_row = int(rows[row])
            place = _index(head, at_row, channel, x.shape, axis)
            have = float(evidence.y[head, at_row, channel])
            at = head, row, channel
            want, bound = float(made[at]), float(allowed[at])
            leaving = Leaving("rotated", place, have, want, bound, evidence.target.position(at_row))
    verdict: Verdict = "none" if leaving is not None else "diagnosed" if found.mistakes else "equal"
    residual = min(residual, float(np.finfo(np.float64).max))
    return Diagnosis(verdict, found.mistakes, residual, x.size, most, leaving)


def _index(head: int, row: int, channel: int, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Give the place in the array as it was sent."""
    swapped = list(shape[:-1])
    swapped[axis], swapped[-1] = swapped[-1], swapped[axis]
    place = [*(int(i) for i in np.unravel_index(head, swapped[:-1] or (1,))), row]
    place = place[-len(swapped) :]
    place[axis], place[-1] = place[-1], place[axis]
    return (*place, channel)
