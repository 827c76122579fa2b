"""Propose ``/relative`` and its similarity: shift matrices, and sums of cosines by offset.

A shift matrix rotates each (sine, cosine) channel pair; a similarity is Σ cos(offset·ω_k).
"""

from collections.abc import Iterator
from dataclasses import replace
from math import exp

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, Sample, single_finite_array
from service.analysis.explanation.views import HALF_STEP
from service.analysis.families.published_sinusoids import base_fits, falling
from service.analysis.families.readings import FrequencyFit, MeasuredFrequencies, placed, readings
from service.analysis.families.requests import USUAL_BASE, table_proposal, unless_default
from service.analysis.families.series import plain_numbers, solve_falling
from service.analysis.precision import spacing
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels
from service.numerics.positions import Positions
from service.numerics.tables import ParameterValue

_ENGINE_ERROR = 2.0**-21
_IDENTITY = "an identity is the matrix at offset 0, whatever the frequencies are"


def propose_operators(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative``: matrices that rotate each (sine, cosine) channel pair."""
    matrices = single_finite_array(request, (2, 3))
    if matrices is None or request.sample.is_integer:
        return
    is_single = matrices.ndim == 2
    if is_single:
        matrices = matrices[np.newaxis]
    if matrices.shape[1] != matrices.shape[2] or matrices.shape[1] % 2:
        return
    for layout in ("interleaved", "concatenated"):
        for fit, positions in _rotated(matrices, request, layout):
            offsets = Positions.of_integers(positions.astype(np.int64))
            width = matrices.shape[1]
            parameters: dict[str, ParameterValue] = {
                "d_model": width,
                **({"offset": offsets.first} if is_single else {"offsets": str(offsets)}),
                **unless_default("layout", layout, "interleaved"),
                **fit.parameters,
            }
            rotates = f"each matrix rotates {width // 2} (sine, cosine) channel pairs"
            support = (rotates, *fit.support) if positions.any() else (_IDENTITY,)
            yield table_proposal(request, "relative", parameters, support)


def _rotated(
    matrices: Float64s, request: IdentifyInput, layout: str
) -> Iterator[tuple[FrequencyFit, Float64s]]:
    """Yield the frequencies of the rotations of matrices, and the offset of each matrix."""
    rows = _rotations(matrices, request.sample, is_interleaved=layout == "interleaved")
    if rows is None:
        return
    width = matrices.shape[1]
    sample = replace(request.sample, values=rows, shape=rows.shape)

    def fits(measured: MeasuredFrequencies | None) -> list[FrequencyFit]:
        return list(base_fits(measured, width, width // 2))

    # The request's positions belong to rows of a table, not to matrices.
    for reading in readings(replace(request, arrays={"x": sample}, positions=None)):
        is_plain = reading.scale[0] == 1 and not reading.zero_rows.any()
        if reading.packing == "sin_concat" and is_plain:
            yield from placed(reading, fits, fits(None), is_whole=True)


def _rotations(matrices: Float64s, sample: Sample, *, is_interleaved: bool) -> Float64s | None:
    """Return the sines, then the cosines, of the rotations of each matrix; None if one is none."""
    channels = Channels(("sin", "cos"), is_interleaved, matrices.shape[1])
    frequency, is_sine = channels.indices()
    to_sine = np.flatnonzero(is_sine)[np.argsort(frequency[is_sine])]
    to_cosine = np.flatnonzero(~is_sine)[np.argsort(frequency[~is_sine])]
    sine, cosine = matrices[:, to_sine, to_cosine], matrices[:, to_sine, to_sine]
    expected = np.zeros_like(matrices)
    expected[:, to_sine, to_sine] = expected[:, to_cosine, to_cosine] = cosine
    expected[:, to_sine, to_cosine], expected[:, to_cosine, to_sine] = sine, -sine
    if np.abs(expected - matrices).max() > 4 * HALF_STEP[sample.element_dtype] + _ENGINE_ERROR:
        return None
    return np.concatenate([sine, cosine], axis=1)


_CHECKED_OFFSETS = 64
# Σ cos(offset·ω_k) rises with the base while all angles are below π, that is up to this offset.
_FARTHEST_RISING = 3
# The largest logarithm of a base, and the number of bisection steps, which reach float64 precision.
_LARGEST_LOGARITHM, _HALVINGS = 690.0, 64


def propose_similarity(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/similarity``: sums of cosines by offset, which equal d/2 at offset 0."""
    sums, sample = single_finite_array(request, (1,)), request.sample
    if sums is None or sample.is_integer:
        return
    middle = int(sums.argmax())
    if not 0.5 <= sums[middle] <= MAX_CHANNELS // 2 or len(sums) < 2:
        return
    count = round(sums[middle])
    distance = min(_FARTHEST_RISING, max(middle, len(sums) - 1 - middle))
    beside = middle + distance if middle + distance < len(sums) else middle - distance
    if abs(sums[middle] - count) > _ENGINE_ERROR * count:
        return
    offsets = np.arange(len(sums)) - middle
    allowed = count * _ENGINE_ERROR * (2 + np.abs(offsets))
    allowed = allowed + 2 * spacing(sums, sample.element_dtype)
    for base in _similarity_bases(count, distance, float(sums[beside]), float(allowed[beside])):
        early = np.argsort(np.abs(offsets), kind="stable")[:_CHECKED_OFFSETS]
        exact = np.cos(np.outer(offsets[early], falling(base, 2 * count, count))).sum(axis=1)
        if (np.abs(exact - sums[early]) > allowed[early]).any():
            continue
        parameters = {
            "d_model": 2 * count,
            "offsets": str(Positions.contiguous(-middle, len(sums))),
            **unless_default("base", base, USUAL_BASE),
        }
        support = (
            f"the largest element is {count}, as at offset 0 of {2 * count} channels",
            f"the sum at an offset of {distance} gives base {base:.9g}",
        )
        yield table_proposal(request, "relative/similarity", parameters, support)


def _similarity_bases(count: int, offset: int, measured: float, error: float) -> list[float]:
    """Return plain bases b for which Σ cos(offset·b^(−k/count)) over k < count is ``measured``."""
    if count == 1:
        return [USUAL_BASE]
    shares = np.arange(count) / count

    def negative_sum(logarithm: float) -> float:
        return -float(np.cos(offset * np.exp(-logarithm * shares)).sum())

    logarithm = solve_falling(negative_sum, -measured, 0.0, _LARGEST_LOGARITHM, _HALVINGS)
    angles = offset * np.exp(-logarithm * shares)
    slope = float((np.sin(angles) * angles * shares).sum())
    relative = min(2 * error / max(slope, error), 0.99)
    return plain_numbers(exp(logarithm), relative)
