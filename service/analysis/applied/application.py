"""What was done to an array that should have been turned by cosines and sines."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.applied.search import search
from service.analysis.applied.spin import Target
from service.analysis.applied.wiring import LAYOUTS, Layout, Wiring
from service.analysis.mistakes.catalogue import Diagnosis, Leaving, Mistake, Verdict, Wording
from service.analysis.sample import spacing
from service.tables.angle import Float64s
from service.tables.dtypes import FLOAT32, FLOAT64, DType

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
