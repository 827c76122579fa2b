"""Propose tables of sines and cosines of positions, and tables computed from these.

The tables are ``/encoding`` in every convention, ``/encoding/timesteps``, the descending rows of
``/relative/transformer-xl``, ``xlnet`` and ``conformer``, the shift operators of ``/relative``,
the sums of ``/relative/similarity``, and the lists of ``/encoding/frequencies``.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from math import exp

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import (
    AngleModel,
    IdentifyInput,
    Proposal,
    ProposalFamily,
    Sample,
    TableRequest,
    single_finite_array,
)
from service.analysis.families.published_sinusoids import (
    ConventionCandidate,
    FrequencyFit,
    Parameters,
    PositionedRows,
    base_fits,
    candidates,
    falling,
    listed_numbers,
    listed_positions,
    plainest,
    positions_of,
)
from service.analysis.families.requests import one_axis_angles, table_proposal, unless_default
from service.analysis.families.sinusoid_rows import (
    LayoutView,
    OrientedRows,
    RowSeries,
    layout_views,
    narrowest_dtype,
    row_series,
    series_of_single_rows,
    views,
)
from service.analysis.families.unwrapping import ENGINE_ERROR, locate
from service.analysis.families.wavelength_lists import propose_bands, propose_encoding_frequencies
from service.analysis.measure import USUAL_BASE, GeometricSeries, solve_falling
from service.analysis.precision import spacing
from service.analysis.round_numbers import round_number, round_numbers
from service.encodings.absolute.conventions import ALIASES
from service.encodings.family import AbsoluteLayout
from service.grammar import to_query
from service.numerics.dtypes import rounding_bound
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels
from service.numerics.positions import Positions

_MAX_PROPOSALS = 24
_FEW_DIGITS = 6

# A proposal that costs this much more than the cheapest, as with a long list of positions, is left
# out.
_MAX_EXTRA_COST = 32


def propose_sinusoids(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the tables of this module; requests with few parameters and digits come first."""
    found = [(_cost(each.request), each) for family in _FAMILIES for each in family(request)]
    least = min((cost for cost, _ in found), default=0)
    for cost, proposal in sorted(found, key=lambda each: each[0])[:_MAX_PROPOSALS]:
        if cost <= least + _MAX_EXTRA_COST:
            yield proposal


def _cost(request: TableRequest) -> int:
    """Return a request's cost: parameters, plus digits of floats beyond six, plus list commas."""
    cost = len(request.parameters)
    for value in request.parameters.values():
        if isinstance(value, float):
            cost += max(0, len(to_query(value)) - _FEW_DIGITS)
        elif isinstance(value, str):
            cost += value.count(",")
    return cost


def _of_first_series(
    request: IdentifyInput,
    view: LayoutView,
    propose: Callable[[IdentifyInput, LayoutView, RowSeries], Iterator[Proposal]],
) -> Iterator[Proposal]:
    """Yield the proposals of the first frequency series of the view that gives any proposal."""
    for rows in row_series(view, request.positions):
        is_found = False
        for proposal in propose(request, view, rows):
            is_found = True
            yield proposal
        if is_found:
            return


def _angles(
    request: IdentifyInput, view: LayoutView, positions: Float64s, omega: Float64s
) -> AngleModel:
    channels = {next(iter(request.arrays)): view.channels}
    return one_axis_angles(positions, omega, channels, view.scale)


# The absolute encoding.


def propose_encoding(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding`` in every convention that fits the rows of an array."""
    if request.is_pair:
        return
    proposals = (
        proposal
        for view in layout_views(request.sample)
        for proposal in _of_first_series(request, view, _encodings)
    )
    yield from islice(proposals, _MAX_PROPOSALS)


def _encodings(request: IdentifyInput, view: LayoutView, rows: RowSeries) -> Iterator[Proposal]:
    located: dict[bytes, PositionedRows | None] = {}
    for candidate in candidates(view, rows, request.d_model):
        omega = candidate.frequencies.omega
        key = omega[: view.pairs].tobytes()
        if key not in located:
            located[key] = positions_of(view, rows, omega)
        positioned = located[key]
        if positioned is None:
            continue
        for padding, values, offset in _paddings(candidate, view, positioned):
            listed = listed_positions(values)
            if listed is not None:
                yield table_proposal(
                    request,
                    "encoding",
                    {**listed, **candidate.parameters, **padding},
                    tuple(_support(view, rows, candidate, positioned, offset)),
                    _angles(request, view, values + offset, omega),
                    is_transposed=view.rows.is_transposed,
                )


def _paddings(
    candidate: ConventionCandidate, view: LayoutView, positioned: PositionedRows
) -> Iterator[tuple[Parameters, Float64s, int]]:
    """Yield padding parameters, the positions to request, and the offset.

    Angles are frequencies times (position + offset).
    """
    is_zero, convention = view.rows.is_zero, candidate.convention
    usual = convention.padding_idx
    if usual is None:
        if not view.has_zero_rows:
            yield {}, positioned.values, 0
        return
    if not positioned.are_integers:
        return
    for padding in _padding_indices(is_zero, positioned.values, usual):
        values = np.where(is_zero, padding, positioned.values)
        if ((values == padding) == is_zero).all():
            offset = padding + 1 if convention.offset is None else convention.offset
            yield unless_default("padding_idx", padding, usual), values - offset, offset


def _padding_indices(is_zero: NDArray[np.bool_], values: Float64s, usual: int) -> list[int]:
    """Return candidates for ``padding_idx``, the index of the row of zeros.

    They are the convention's default, and the position of the zero row among its neighbours.
    """
    if not is_zero.any() or np.isnan(values[is_zero]).any():
        return [usual]
    own = int(values[is_zero][0])
    is_between = not (is_zero[0] or is_zero[-1])
    return list(dict.fromkeys([own, usual] if is_between else [usual, own]))


def _support(
    view: LayoutView,
    rows: RowSeries,
    candidate: ConventionCandidate,
    positioned: PositionedRows,
    offset: int,
) -> Iterator[str]:
    yield view.support
    yield candidate.frequencies.support(rows.series)
    if view.scale != 1:
        yield f"sines and cosines are multiplied by {view.scale:.9g}"
    yield positioned.support(offset)
    if view.has_zero_rows:
        row = int(np.argmax(view.rows.is_zero))
        yield f"row {row} is zero throughout, as that of padding"
    aliases = [alias for alias, name in ALIASES.items() if name == candidate.name]
    if aliases:
        yield f"convention={candidate.name} is also known as {', '.join(aliases)}"


# Timesteps.

_USUAL_SHIFT = 1.0


def propose_timesteps(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding/timesteps``: rows of all sines, then all cosines, at any timesteps."""
    if request.is_pair:
        return
    for view in layout_views(request.sample):
        # A table of odd width must end in a channel of zeros.
        is_even = view.width % 2 == view.channels.zeros
        is_plain = view.layout == "concatenated" and view.scale == 1
        if is_plain and is_even and not view.has_zero_rows:
            yield from _of_first_series(request, view, _timesteps)


def _timesteps(request: IdentifyInput, view: LayoutView, rows: RowSeries) -> Iterator[Proposal]:
    for fit in _timestep_frequencies(rows.series, view.pairs):
        positioned = positions_of(view, rows, fit.omega)
        if positioned is None:
            continue
        support = (
            view.support,
            fit.support(rows.series),
            positioned.support(),
            "only the products of timesteps and scale are determined",
        )
        for timesteps, scale in _scaled_timesteps(request, positioned.values):
            yield table_proposal(
                request,
                "encoding/timesteps",
                {
                    **timesteps,
                    "d_model": view.width,
                    **unless_default("flip_sin_to_cos", view.is_flipped, default=False),
                    **fit.parameters,
                },
                support,
                _angles(request, view, positioned.values / scale, fit.omega * scale),
                is_transposed=view.rows.is_transposed,
            )


def _timestep_frequencies(series: GeometricSeries, count: int) -> Iterator[FrequencyFit]:
    """Yield fits of the frequencies exp(−ln(max_period)·k/(n − downscale_freq_shift)), k < n."""
    is_usual = False
    for shift in (_USUAL_SHIFT, 0.0) if count > 1 else (_USUAL_SHIFT + 1,):
        for fit in base_fits(series, int(2 * (count - shift)), count, "max_period"):
            is_usual = is_usual or fit.base == USUAL_BASE
            shifted = unless_default("downscale_freq_shift", shift, _USUAL_SHIFT)
            yield replace(fit, parameters={**fit.parameters, **shifted})
    if is_usual or not (series.has_ratio and series.ratio < 1):
        return
    half_span = float(np.log(USUAL_BASE) / -np.log(series.ratio))
    error = abs(half_span * series.ratio_error / np.log(series.ratio))
    shift = count - half_span
    for number in plainest(round_numbers(abs(shift), error / max(abs(shift), error)), error):
        signed = float(np.copysign(number, shift))
        span = 2 * (count - signed)
        omega = falling(USUAL_BASE, span, count)
        yield FrequencyFit({"downscale_freq_shift": signed}, omega, USUAL_BASE, span)


def _scaled_timesteps(
    request: IdentifyInput, values: Float64s
) -> Iterator[tuple[Parameters, float]]:
    """Yield the request parameters for the timesteps, and the scale that multiplies timesteps."""
    known = request.positions
    if known is not None and len(known) == len(values) and known.any():
        ratio = float(values @ known / (known @ known))
        if ratio != 1 and np.allclose(known * ratio, values, rtol=2.0**-20, atol=0):
            scale = float(np.copysign(round_number(abs(ratio), 2.0**-20), ratio))
            listed = listed_numbers(known)
            if listed is not None:
                yield {"timesteps": listed, "scale": scale}, scale
    if (values == np.arange(len(values))).all():
        yield {"num_timesteps": len(values)}, 1.0
        return
    listed = listed_numbers(values)
    if listed is not None:
        yield {"timesteps": listed}, 1.0


# Descending rows.


def propose_relative(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/transformer-xl``, ``xlnet`` and ``conformer`` for descending rows."""
    sample = request.sample
    if request.is_pair:
        return
    has_directions = sample.values.ndim == 3 and sample.values.shape[1] == 2
    if has_directions:
        sample = replace(sample, values=sample.values[:, 0])
    for view in layout_views(sample):
        is_plain = view.scale == 1 and not view.is_flipped and view.width % 2 == 0
        if is_plain and not view.has_zero_rows and not view.rows.is_transposed:
            yield from _descending(request, view, has_directions=has_directions)


def _descending(
    request: IdentifyInput, view: LayoutView, *, has_directions: bool
) -> Iterator[Proposal]:
    first = next(row_series(view))
    if first.window is not None and first.sign > 0:
        return
    rows = series_of_single_rows(view)
    for d_model in (view.width, view.width - 1):
        for fit in base_fits(rows.series, d_model, view.pairs):
            positioned = positions_of(view, rows, fit.omega) if _descends(view, fit) else None
            if positioned is None or not positioned.are_integers:
                continue
            values = positioned.values
            support = (
                view.support,
                fit.support(rows.series),
                positioned.support(),
                f"rows descend from {values[0]:g} to {values[-1]:g}",
            )
            angles = None if has_directions else _angles(request, view, values, fit.omega)
            for resource, lengths in _relative_lengths(
                view, values, d_model, has_directions=has_directions
            ):
                parameters = {"d_model": d_model, **lengths, **fit.parameters}
                yield table_proposal(request, f"relative/{resource}", parameters, support, angles)


def _descends(view: LayoutView, fit: FrequencyFit) -> bool:
    """Return whether the positions of the first, middle and last rows descend."""
    phasors, errors = view.phasors(np.unique([0, len(view.nonzero) // 2, len(view.nonzero) - 1]))
    located = locate(np.angle(phasors), errors, fit.omega)
    return located is not None and bool((np.diff(located.rounded()) <= 0).all())


def _relative_lengths(
    view: LayoutView, positions: Float64s, d_model: int, *, has_directions: bool
) -> Iterator[tuple[str, Parameters]]:
    """Yield each resource that can have these descending positions, with its length parameters."""
    steps = np.diff(positions)
    highest, lowest = int(positions[0]), int(positions[-1])
    moving = np.flatnonzero(steps)
    # Clamped positions repeat at the ends.
    above = int(moving[0]) if len(moving) else 0
    below = len(steps) - 1 - int(moving[-1]) if len(moving) else 0
    if (steps[above : len(steps) - below] != -1).any() or (len(steps) and not len(moving)):
        return
    if view.layout == "interleaved":
        if not (above or below or has_directions) and highest == -lowest and d_model % 2 == 0:
            yield "conformer", {"seq_len": highest + 1}
        return
    clamp: Parameters = {"clamp_len": highest} if above or below else {}
    if lowest == 0 and not below and not has_directions:
        yield "transformer-xl", {"key_len": len(positions), **clamp}
    key_len, last = highest + above, lowest - below
    if key_len < 1 or last > 0 or (below and lowest != -highest):
        return
    directions = unless_default("bi_data", has_directions, default=False)
    yield "xlnet", {"key_len": key_len, "query_len": 1 - last, **clamp, **directions}
    if last == 0:
        yield "xlnet", {"key_len": key_len, "attn_type": "uni", **clamp, **directions}


# Shift operators.

_LAYOUTS: tuple[AbsoluteLayout, ...] = ("interleaved", "concatenated")


def propose_operators(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative``: matrices that rotate each (sine, cosine) channel pair."""
    matrices = single_finite_array(request, (2, 3))
    if matrices is None:
        return
    if matrices.ndim == 2:
        matrices = matrices[np.newaxis]
    if matrices.shape[1] != matrices.shape[2] or matrices.shape[1] % 2:
        return
    for layout in _LAYOUTS:
        rows = _operator_rows(matrices, layout, request.sample)
        for view in views(rows) if rows is not None else ():
            if view.layout == "concatenated" and view.scale == 1 and not view.is_flipped:
                # The request's positions belong to rows of a table, not to matrices.
                unplaced = replace(request, positions=None)
                yield from _of_first_series(unplaced, view, partial(_operators, layout))


def _operator_rows(
    matrices: Float64s, layout: AbsoluteLayout, sample: Sample
) -> OrientedRows | None:
    """Return one row per matrix: the sines, then the cosines, of its rotations.

    Return None if some matrix is not a rotation of channel pairs in this layout.
    """
    channels = Channels(("sin", "cos"), layout == "interleaved", matrices.shape[1])
    frequency, is_sine = channels.indices()
    to_sine = np.flatnonzero(is_sine)[np.argsort(frequency[is_sine])]
    to_cosine = np.flatnonzero(~is_sine)[np.argsort(frequency[~is_sine])]
    sine, cosine = matrices[:, to_sine, to_cosine], matrices[:, to_sine, to_sine]
    expected = np.zeros_like(matrices)
    expected[:, to_sine, to_sine] = expected[:, to_cosine, to_cosine] = cosine
    expected[:, to_sine, to_cosine], expected[:, to_cosine, to_sine] = sine, -sine
    dtype = narrowest_dtype(matrices, sample.element_dtype)
    if np.abs(expected - matrices).max() > 4 * rounding_bound(dtype, 1.0) + ENGINE_ERROR:
        return None
    return OrientedRows(np.concatenate([sine, cosine], axis=1), dtype)


def _operators(
    layout: AbsoluteLayout, request: IdentifyInput, view: LayoutView, rows: RowSeries
) -> Iterator[Proposal]:
    for fit in base_fits(rows.series, view.width, view.pairs):
        positioned = positions_of(view, rows, fit.omega)
        if positioned is None or (positioned.values != np.round(positioned.values)).any():
            continue
        offsets = Positions.of_integers(positioned.values.astype(np.int64))
        is_single = request.sample.values.ndim == 2
        parameters: Parameters = {
            "d_model": view.width,
            **({"offset": offsets.first} if is_single else {"offsets": str(offsets)}),
            **unless_default("layout", layout, "interleaved"),
            **fit.parameters,
        }
        support = (
            f"each matrix rotates {view.pairs} (sine, cosine) channel pairs; the rest is 0",
            fit.support(rows.series),
            positioned.support().replace("position", "offset").replace("row", "matrix"),
        )
        yield table_proposal(request, "relative", parameters, support)


# Similarities.

_CHECKED_OFFSETS = 64

# Σ cos(offset·ω_k) rises with the base while all angles are below π, that is up to this offset.
_FARTHEST_RISING = 3

# The largest logarithm of a base, and the number of bisection steps, which reach float64 precision.
_LARGEST_LOGARITHM, _HALVINGS = 690.0, 64


def propose_similarity(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/similarity``: sums of cosines by offset, which equal d/2 at offset 0."""
    sums, sample = single_finite_array(request, (1,)), request.sample
    if sums is None:
        return
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
    """Return the round bases b for which Σ cos(offset·b^(−k/count)) equals ``measured``.

    The sum is over all k from 0 to count − 1; ``error`` bounds the absolute error of ``measured``.
    """
    if count == 1:
        return [USUAL_BASE]
    shares = np.arange(count) / count

    def negative_sum(logarithm: float) -> float:
        return -float(np.cos(offset * np.exp(-logarithm * shares)).sum())

    logarithm = solve_falling(negative_sum, -measured, 0.0, _LARGEST_LOGARITHM, _HALVINGS)
    angles = offset * np.exp(-logarithm * shares)
    slope = float((np.sin(angles) * angles * shares).sum())
    relative = 2 * error / max(slope, error)
    return plainest(round_numbers(exp(logarithm), relative), relative)


_FAMILIES: tuple[ProposalFamily, ...] = (
    propose_encoding,
    propose_bands,
    propose_timesteps,
    propose_relative,
    propose_encoding_frequencies,
    propose_operators,
    propose_similarity,
)
