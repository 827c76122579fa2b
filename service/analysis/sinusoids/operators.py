"""Shift operators of the sinusoidal encoding, and similarities of its positions."""

from collections.abc import Iterator
from math import exp

import numpy as np

from service.analysis.call import Call
from service.analysis.plain import plain_numbers
from service.analysis.question import Proposal, Question
from service.analysis.real_types import dtype_parameters
from service.analysis.sample import Sample, spacing
from service.analysis.sinusoids.conventions import Parameters, falling, fewest, usable_bases
from service.analysis.sinusoids.positions import positions_of
from service.analysis.sinusoids.rows import ENGINE_ERROR, Rows, View, grain_of, views
from service.analysis.sinusoids.series import courses
from service.analysis.sinusoids.support import rows_support, series_support
from service.tables.angle import Float64s
from service.tables.channels import Channels
from service.tables.conventions import Layout
from service.tables.dtypes import rounding_bound
from service.tables.limits import MAX_CHANNELS
from service.tables.positions import Positions

_USUAL_BASE = 10000.0
_LAYOUTS: tuple[Layout, ...] = ("interleaved", "concatenated")
_CHECKED_OFFSETS = 64

# Σ cos(offset·ω_k) rises with the base as long as no angle is beyond half a turn: up to here.
_FARTHEST_RISING = 3

# Logarithms of bases, which end at 1e300, and how often their range is halved: to float64's end.
_LARGEST_LOGARITHM, _HALVINGS = 690.0, 64


def propose_operators(question: Question) -> Iterator[Proposal]:
    """Propose ``/relative``: matrices that turn each plane of a sine and a cosine."""
    sample = question.sample
    if question.is_pair or sample.is_complex or not sample.is_finite:
        return
    matrices = sample.reals()
    if matrices.ndim == 2:
        matrices = matrices[np.newaxis]
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or matrices.shape[1] % 2:
        return
    for layout in _LAYOUTS:
        rows = _turned(matrices, layout, sample)
        for view in views(rows) if rows is not None else ():
            if view.layout == "concatenated" and view.scale == 1 and not view.is_flipped:
                yield from _of_view(sample, layout, view)


def _turned(matrices: Float64s, layout: Layout, sample: Sample) -> Rows | None:
    """Give sines ‖ cosines of each matrix, if there is nothing else in it."""
    width = matrices.shape[1]
    channels = Channels(("sin", "cos"), layout == "interleaved", width)
    frequency, is_sine = channels.indices()
    to_sine = np.flatnonzero(is_sine)[np.argsort(frequency[is_sine])]
    to_cosine = np.flatnonzero(~is_sine)[np.argsort(frequency[~is_sine])]
    sine, cosine = matrices[:, to_sine, to_cosine], matrices[:, to_sine, to_sine]
    again = np.zeros_like(matrices)
    again[:, to_sine, to_sine] = again[:, to_cosine, to_cosine] = cosine
    again[:, to_sine, to_cosine], again[:, to_cosine, to_sine] = sine, -sine
    grain = grain_of(matrices, sample.element_dtype)
    if np.abs(again - matrices).max() > 4 * rounding_bound(grain, 1.0) + ENGINE_ERROR:
        return None
    return Rows(np.concatenate([sine, cosine], axis=1), grain)


def _of_view(sample: Sample, layout: Layout, view: View) -> Iterator[Proposal]:
    for course in courses(view):
        held = False
        for base in usable_bases(course.series, view.width if view.pairs > 1 else 0):
            positioned = positions_of(view, course, falling(base, view.width, view.pairs))
            if positioned is None or not positioned.is_whole:
                continue
            held = True
            offsets = Positions.of_runs(map(int, positioned.values.tolist()))
            is_one = sample.values.ndim == 2
            parameters: Parameters = {
                "d_model": view.width,
                **({"offset": offsets.runs[0].first} if is_one else {"offsets": str(offsets)}),
                **({"layout": layout} if layout != "interleaved" else {}),
                **({"base": base} if base != _USUAL_BASE else {}),
                **dtype_parameters(sample),
            }
            support = (
                f"each matrix turns {view.pairs} planes of a sine and a cosine, and nothing else",
                series_support(course.series, view.pairs, base, view.width),
                rows_support(positioned).replace("position", "offset").replace("row", "matrix"),
            )
            yield Proposal(Call("relative", parameters), support)
        if held:
            return


def propose_similarity(question: Question) -> Iterator[Proposal]:
    """Propose ``/relative/similarity``: sums of cosines about the offset 0, where they are d/2."""
    sample = question.sample
    if question.is_pair or sample.is_complex or not sample.is_finite or sample.values.ndim != 1:
        return
    sums = sample.reals()
    middle = int(sums.argmax())
    if not sums[middle] <= MAX_CHANNELS // 2:
        return
    count = round(sums[middle])
    distance = min(_FARTHEST_RISING, max(middle, len(sums) - 1 - middle))
    beside = middle + distance if middle + distance < len(sums) else middle - distance
    if count < 1 or len(sums) < 2 or abs(sums[middle] - count) > ENGINE_ERROR * count:
        return
    offsets = np.arange(len(sums)) - middle
    allowed = count * ENGINE_ERROR * (2 + np.abs(offsets)) + 2 * spacing(sums, sample.element_dtype)
    for base in _bases(count, distance, float(sums[beside]), float(allowed[beside])):
        early = np.argsort(np.abs(offsets), kind="stable")[:_CHECKED_OFFSETS]
        exact = np.cos(np.outer(offsets[early], falling(base, 2 * count, count))).sum(axis=1)
        if (np.abs(exact - sums[early]) > allowed[early]).any():
            continue
        parameters: Parameters = {
            "d_model": 2 * count,
            "offsets": str(Positions.contiguous(-middle, len(sums))),
            **({"base": base} if base != _USUAL_BASE else {}),
            **dtype_parameters(sample),
        }
        support = (
            f"the largest number is {count}, as at the offset 0 of {2 * count} channels",
            f"the sum at an offset of {distance} gives base {base:.9g}",
        )
        yield Proposal(Call("relative/similarity", parameters), support)


def _bases(count: int, offset: int, measured: float, error: float) -> list[float]:
    """Give plain bases b for which Σ cos(offset·b^(−k/count)) is a sum that was measured."""
    if count == 1:
        return [_USUAL_BASE]
    low, high, shares = 0.0, _LARGEST_LOGARITHM, np.arange(count) / count
    for _ in range(_HALVINGS):
        half = (low + high) / 2
        total = float(np.cos(offset * np.exp(-half * shares)).sum())
        low, high = (half, high) if total < measured else (low, half)
    angles = offset * np.exp(-low * shares)
    slope = float((np.sin(angles) * angles * shares).sum())
    known = 2 * error / max(slope, error)
    return fewest(plain_numbers(exp(low), known), known)
