"""Propose tables of sines and cosines of positions: the absolute encoding and what is made of it.

These are ``/encoding`` in every convention, ``/encoding/timesteps`` with a spacing of its own,
``/relative/transformer-xl``, ``xlnet`` and ``conformer``, whose rows descend, the shift operators
of ``/relative``, the sums of ``/relative/similarity``, and the lists of ``/encoding/frequencies``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import exp
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from service.analysis.array import (
    IdentifyInput,
    Proposal,
    ProposalFamily,
    Sample,
    TableRequest,
    single_finite_array,
)
from service.analysis.families.published_sinusoids import (
    ConventionCandidate,
    Parameters,
    PositionedRows,
    candidates,
    falling,
    listed_numbers,
    plainest,
    positions_of,
    rows_support,
    series_support,
    spelled_positions,
    usable_bases,
)
from service.analysis.families.requests import one_axis_angles, table_proposal, unless_default
from service.analysis.families.sinusoid_rows import (
    LayoutView,
    OrientedRows,
    RowSeries,
    grain_of,
    layout_views,
    row_series,
    uneven_series,
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
from service.numerics.tables import ParameterValue

_MAX_PROPOSALS = 24
_FEW_DIGITS = 6

# A table with a list of so many positions more is left out beside one with a few parameters.
_MUCH_LONGER = 32


def propose_sinusoids(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose all kinds of tables of sines and cosines of positions, the plainest first.

    Plain tables have few parameters, and numbers of few digits in them.
    """
    found = [(_cost(each.request), each) for family in _FAMILIES for each in family(request)]
    least = min((cost for cost, _ in found), default=0)
    for cost, proposal in sorted(found, key=lambda each: each[0])[:_MAX_PROPOSALS]:
        if cost <= least + _MUCH_LONGER:
            yield proposal


def _cost(call: TableRequest) -> int:
    cost = len(call.parameters)
    for value in call.parameters.values():
        if isinstance(value, float):
            cost += max(0, len(to_query(value)) - _FEW_DIGITS)
        elif isinstance(value, str):
            cost += value.count(",")
    return cost


Proposer: TypeAlias = Callable[[IdentifyInput, LayoutView, RowSeries], Iterator[Proposal]]


def _of_first_series(
    request: IdentifyInput, view: LayoutView, propose: Proposer
) -> Iterator[Proposal]:
    """Yield the proposals of the first way that angles may run of which there are any."""
    for rows in row_series(view, request.positions):
        is_found = False
        for proposal in propose(request, view, rows):
            is_found = True
            yield proposal
        if is_found:
            return


def _channels(request: IdentifyInput, view: LayoutView) -> dict[str, Channels]:
    return {next(iter(request.arrays)): view.channels}


# The absolute encoding.


def propose_encoding(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding`` in every convention that the rows of an array may have."""
    if request.is_pair:
        return
    every = (
        proposal
        for view in layout_views(request.sample)
        for proposal in _of_first_series(request, view, _encodings)
    )
    yield from islice(every, _MAX_PROPOSALS)


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
            where = spelled_positions(values)
            if where is None:
                continue
            yield table_proposal(
                request,
                "encoding",
                {**where, **candidate.parameters, **padding},
                tuple(_support(view, rows, candidate, positioned, offset)),
                one_axis_angles(values + offset, omega, _channels(request, view), view.scale),
                is_transposed=view.rows.is_transposed,
            )


def _paddings(
    candidate: ConventionCandidate, view: LayoutView, positioned: PositionedRows
) -> Iterator[tuple[Parameters, Float64s, int]]:
    """Yield the parameters of padding, the positions of the request, and the offset of angles."""
    blank, convention = view.rows.blank, candidate.convention
    usual = convention.padding_idx
    if usual is None:
        if not blank.any():
            yield {}, positioned.values, 0
        return
    if not positioned.is_whole:
        return
    for padding in _padding_indices(blank, positioned.values, usual):
        values = np.where(blank, padding, positioned.values)
        if ((values == padding) == blank).all():
            offset = padding + 1 if convention.offset is None else convention.offset
            yield unless_default("padding_idx", padding, usual), values - offset, offset


def _padding_indices(blank: NDArray[np.bool_], values: Float64s, usual: int) -> list[int]:
    """Return what the row of padding may be: the usual one, or the one among its neighbours."""
    if not blank.any() or np.isnan(values[blank]).any():
        return [usual]
    own = int(values[blank][0])
    is_inside = not (blank[0] or blank[-1])
    return list(dict.fromkeys([own, usual] if is_inside else [usual, own]))


def _support(
    view: LayoutView,
    rows: RowSeries,
    candidate: ConventionCandidate,
    positioned: PositionedRows,
    offset: int,
) -> Iterator[str]:
    frequencies = candidate.frequencies
    yield view.support
    yield series_support(rows.series, len(frequencies.omega), frequencies.base, candidate.span)
    if view.scale != 1:
        yield f"sines and cosines are multiplied by {view.scale:.9g}"
    yield rows_support(positioned, offset)
    if view.rows.blank.any():
        row = int(np.flatnonzero(view.rows.blank)[0])
        yield f"row {row} is zero throughout, as that of padding"
    aliases = [alias for alias, name in ALIASES.items() if name == candidate.name]
    if aliases:
        yield f"convention={candidate.name} is also known as {', '.join(aliases)}"


# Timesteps.

_USUAL_PERIOD, _USUAL_SHIFT = 10000.0, 1.0


@dataclass(frozen=True, eq=False)
class TimestepSpacing:
    """Frequencies exp(−ln(max_period)·k/(n − shift)) of n.

    Attributes:
        parameters: max_period and downscale_freq_shift where they are not the usual ones.
        omega: radians per timestep, (n,).
        base: max_period.
        span: 2·(n − shift).
    """

    parameters: Parameters
    omega: Float64s
    base: float
    span: float


def propose_timesteps(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding/timesteps``: sines and cosines apart, whatever the rows."""
    if request.is_pair:
        return
    for view in layout_views(request.sample):
        # An odd channel is one of zeros.
        is_filled = view.width % 2 == view.channels.zeros
        if view.layout == "concatenated" and view.scale == 1 and is_filled and view.is_whole:
            yield from _of_first_series(request, view, _timesteps)


def _timesteps(request: IdentifyInput, view: LayoutView, rows: RowSeries) -> Iterator[Proposal]:
    for spaced in _spacings(rows.series, view.pairs):
        positioned = positions_of(view, rows, spaced.omega)
        if positioned is None:
            continue
        support = (
            view.support,
            series_support(rows.series, len(spaced.omega), spaced.base, spaced.span),
            rows_support(positioned),
            "only the products of timesteps and scale are determined",
        )
        for steps, scale in _steps(request, positioned):
            parameters = {
                **steps,
                "d_model": view.width,
                **unless_default("flip_sin_to_cos", view.is_flipped, default=False),
                **spaced.parameters,
            }
            timesteps, omega = positioned.values / scale, spaced.omega * scale
            angles = one_axis_angles(timesteps, omega, _channels(request, view))
            yield table_proposal(
                request,
                "encoding/timesteps",
                parameters,
                support,
                angles,
                is_transposed=view.rows.is_transposed,
            )


def _spacings(series: GeometricSeries, count: int) -> Iterator[TimestepSpacing]:
    """Yield what max_period and downscale_freq_shift may be."""
    is_usual = False
    for shift in (_USUAL_SHIFT, 0.0) if count > 1 else (_USUAL_SHIFT + 1,):
        span = int(2 * (count - shift))
        for period in usable_bases(series, span if count > 1 else 0):
            is_usual = is_usual or period == _USUAL_PERIOD
            parameters = {
                **unless_default("max_period", period, _USUAL_PERIOD),
                **unless_default("downscale_freq_shift", shift, _USUAL_SHIFT),
            }
            yield TimestepSpacing(parameters, falling(period, span, count), period, span)
    if is_usual or not (np.isfinite(series.ratio_error) and series.ratio < 1):
        return
    half_span = float(np.log(_USUAL_PERIOD) / -np.log(series.ratio))
    error = abs(half_span * series.ratio_error / np.log(series.ratio))
    shift = count - half_span
    for number in plainest(round_numbers(abs(shift), error / max(abs(shift), error)), error):
        signed = float(np.copysign(number, shift))
        omega = np.exp(-np.log(_USUAL_PERIOD) * np.arange(count) / (count - signed))
        shifted: Parameters = {"downscale_freq_shift": signed}
        yield TimestepSpacing(shifted, omega, _USUAL_PERIOD, 2 * (count - signed))


def _steps(request: IdentifyInput, rows: PositionedRows) -> Iterator[tuple[Parameters, float]]:
    """Yield the parameters of timesteps, and the scale that they are multiplied by."""
    values, known = rows.values, request.positions
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


# Rows that descend.


def propose_relative(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/transformer-xl``, ``xlnet`` and ``conformer`` where rows descend."""
    sample = request.sample
    if request.is_pair:
        return
    has_directions = sample.values.ndim == 3 and sample.values.shape[1] == 2
    if has_directions:
        sample = replace(sample, values=sample.values[:, 0])
    for view in layout_views(sample):
        is_plain = view.scale == 1 and not view.is_flipped and view.width % 2 == 0
        if is_plain and view.is_whole and not view.rows.is_transposed:
            yield from _descending(request, view, has_directions=has_directions)


def _descending(
    request: IdentifyInput, view: LayoutView, *, has_directions: bool
) -> Iterator[Proposal]:
    first = next(row_series(view))
    if first.is_even and first.sign > 0:
        return
    rows = uneven_series(view)
    for d_model in (view.width, view.width - 1):
        for base in usable_bases(rows.series, d_model if view.pairs > 1 else 0):
            omega = falling(base, d_model, view.pairs)
            positioned = positions_of(view, rows, omega) if _descends(view, omega) else None
            if positioned is None or not positioned.is_whole:
                continue
            values = positioned.values
            support = (
                view.support,
                series_support(rows.series, view.pairs, base, d_model),
                rows_support(positioned),
                f"rows descend from {values[0]:g} to {values[-1]:g}",
            )
            angles = None
            if not has_directions:
                angles = one_axis_angles(values, omega, _channels(request, view))
            requests = _requests(view, values, d_model, has_directions=has_directions)
            for resource, lengths in requests:
                parameters = {
                    "d_model": d_model,
                    **lengths,
                    **unless_default("base", base, USUAL_BASE),
                }
                yield table_proposal(request, f"relative/{resource}", parameters, support, angles)


def _descends(view: LayoutView, omega: Float64s) -> bool:
    """Check by the first row, one in the middle and the last whether rows may descend."""
    turns, errors = view.turns(np.unique([0, len(view.filled) // 2, len(view.filled) - 1]))
    located = locate(np.angle(turns), errors, omega)
    return located is not None and bool((np.diff(located.rounded()) <= 0).all())


def _requests(
    view: LayoutView, positions: Float64s, d_model: int, *, has_directions: bool
) -> Iterator[tuple[str, Parameters]]:
    """Yield the resources whose rows descend so, and the parameters of their lengths."""
    steps = np.diff(positions)
    highest, lowest = int(positions[0]), int(positions[-1])
    moving = np.flatnonzero(steps)
    above = int(moving[0]) if len(moving) else 0
    below = len(steps) - 1 - int(moving[-1]) if len(moving) else 0
    if (steps[above : len(steps) - below] != -1).any() or (len(steps) and not len(moving)):
        return
    if view.layout == "interleaved":
        if not (above or below or has_directions) and highest == -lowest and d_model % 2 == 0:
            yield "conformer", {"seq_len": highest + 1}
        return
    clamp: dict[str, ParameterValue] = {"clamp_len": highest} if above or below else {}
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
    """Propose ``/relative``: matrices that turn each plane of a sine and a cosine."""
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
                # Positions are those of rows, not of matrices.
                alone = replace(request, positions=None)
                yield from _of_first_series(alone, view, partial(_operators, layout))


def _operator_rows(
    matrices: Float64s, layout: AbsoluteLayout, sample: Sample
) -> OrientedRows | None:
    """Return sines ‖ cosines of each matrix, if there is nothing else in it."""
    channels = Channels(("sin", "cos"), layout == "interleaved", matrices.shape[1])
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
    return OrientedRows(np.concatenate([sine, cosine], axis=1), grain)


def _operators(
    layout: AbsoluteLayout, request: IdentifyInput, view: LayoutView, rows: RowSeries
) -> Iterator[Proposal]:
    sample = request.sample
    for base in usable_bases(rows.series, view.width if view.pairs > 1 else 0):
        positioned = positions_of(view, rows, falling(base, view.width, view.pairs))
        if positioned is None or not positioned.is_whole or np.isnan(positioned.values).any():
            continue
        offsets = Positions.of_runs(map(int, positioned.values.tolist()))
        offset: Parameters = {"offsets": str(offsets)}
        if sample.values.ndim == 2:
            offset = {"offset": offsets.runs[0].first}
        parameters = {
            "d_model": view.width,
            **offset,
            **unless_default("layout", layout, "interleaved"),
            **unless_default("base", base, USUAL_BASE),
        }
        support = (
            f"each matrix turns {view.pairs} planes of a sine and a cosine, and nothing else",
            series_support(rows.series, view.pairs, base, view.width),
            rows_support(positioned).replace("position", "offset").replace("row", "matrix"),
        )
        yield table_proposal(request, "relative", parameters, support)


# Similarities.

_CHECKED_OFFSETS = 64

# Σ cos(offset·ω_k) rises with the base as long as no angle is beyond half a turn: up to here.
_FARTHEST_RISING = 3

# Logarithms of bases, which end at 1e300, and how often their range is halved: to float64's end.
_LARGEST_LOGARITHM, _HALVINGS = 690.0, 64


def propose_similarity(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/similarity``: sums of cosines about the offset 0, where they are d/2."""
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
            f"the largest number is {count}, as at the offset 0 of {2 * count} channels",
            f"the sum at an offset of {distance} gives base {base:.9g}",
        )
        yield table_proposal(request, "relative/similarity", parameters, support)


def _similarity_bases(count: int, offset: int, measured: float, error: float) -> list[float]:
    """Return plain bases b for which Σ cos(offset·b^(−k/count)) is a measured sum."""
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
