"""Sinusoids of relative positions: rows that descend, as those of Transformer-XL and its kin.

Shift operators of the sinusoidal encoding, and similarities of its positions.

Embeddings of diffusion timesteps: rows of any times, with a spacing of their own.

Sinusoidal families: the absolute encoding in every convention, and what is made of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
)
from service.analysis.families.published_sinusoids import (
    Candidate,
    Parameters,
    Positioned,
    candidates,
    falling,
    fewest,
    listed_numbers,
    positions_of,
    rows_support,
    series_support,
    spelled_positions,
    usable_bases,
)
from service.analysis.families.sinusoid_rows import (
    ENGINE_ERROR,
    Course,
    Rows,
    View,
    courses,
    grain_of,
    locate,
    seen,
    uneven_course,
    views,
)
from service.analysis.families.wavelength_lists import propose_bands, propose_frequencies
from service.analysis.measure import GeometricSeries
from service.analysis.precision import dtype_parameters, spacing
from service.analysis.round_numbers import round_numbers
from service.encodings.absolute.conventions import ALIASES
from service.encodings.fields import AbsoluteLayout
from service.grammar import to_query
from service.numerics.document import ParameterValue
from service.numerics.dtypes import rounding_bound
from service.numerics.limits import MAX_CHANNELS
from service.numerics.phase import Float64s
from service.numerics.phasors import Channels
from service.numerics.positions import Positions

_USUAL_BASE = 10000.0


def propose_relative(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/transformer-xl``, ``xlnet`` and ``conformer`` where rows descend."""
    sample = question.sample
    if question.is_pair:
        return
    if sample.values.ndim == 3 and sample.values.shape[1] == 2:
        forward = replace(sample, values=sample.values[:, 0])
        yield from _of(question, forward, has_directions=True)
        return
    yield from _of(question, sample, has_directions=False)


def _of(question: IdentifyInput, sample: Sample, *, has_directions: bool) -> Iterator[Proposal]:
    for view in seen(sample):
        is_plain = view.scale == 1 and not view.is_flipped and view.width % 2 == 0
        if is_plain and view.is_whole and not view.rows.is_transposed:
            yield from _of_view(question, view, has_directions=has_directions)


def _of_view(question: IdentifyInput, view: View, *, has_directions: bool) -> Iterator[Proposal]:
    even = next(courses(view))
    if even.is_even and even.sign > 0:
        return
    series = uneven_course(view)
    for d_model in (view.width, view.width - 1):
        for base in usable_bases(series.series, d_model if view.pairs > 1 else 0):
            omega = falling(base, d_model, view.pairs)
            positioned = positions_of(view, series, omega) if _descends(view, omega) else None
            if positioned is None or not positioned.is_whole:
                continue
            support = (
                view.evenness,
                series_support(series.series, view.pairs, base, d_model),
                rows_support(positioned),
                f"rows descend from {positioned.values[0]:g} to {positioned.values[-1]:g}",
            )
            turning = None if has_directions else _turning(question, view, positioned, omega)
            based: Parameters = {"base": base} if base != _USUAL_BASE else {}
            requests = _requests(view, positioned.values, d_model, has_directions=has_directions)
            for resource, said in requests:
                parameters = {
                    "d_model": d_model,
                    **said,
                    **based,
                    **dtype_parameters(question.sample),
                }
                yield Proposal(TableRequest(f"relative/{resource}", parameters), support, turning)


def _descends(view: View, omega: Float64s) -> bool:
    """Tell by the first row, one in the middle and the last whether rows may descend."""
    turns, errors = view.part(np.unique([0, len(view.kept) // 2, len(view.kept) - 1]))
    found = locate(np.angle(turns), errors, omega)
    return found is not None and bool((np.diff(found.rounded()) <= 0).all())


def _turning(
    question: IdentifyInput, view: View, positioned: Positioned, omega: Float64s
) -> AngleModel:
    name = next(iter(question.arrays))
    channels: Channels = view.channels
    return AngleModel(positioned.values[:, np.newaxis], (0,) * len(omega), omega, {name: channels})


def _requests(
    view: View, positions: Float64s, d_model: int, *, has_directions: bool
) -> Iterator[tuple[str, Parameters]]:
    """Give the requests whose rows descend so."""
    steps = np.diff(positions)
    highest, lowest = int(positions[0]), int(positions[-1])
    middle = np.flatnonzero(steps)
    above = int(middle[0]) if len(middle) else 0
    below = len(steps) - 1 - int(middle[-1]) if len(middle) else 0
    if (steps[above : len(steps) - below] != -1).any() or (len(steps) and not len(middle)):
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
    directions: Parameters = {"bi_data": True} if has_directions else {}
    yield "xlnet", {"key_len": key_len, "query_len": 1 - last, **clamp, **directions}
    if last == 0:
        yield "xlnet", {"key_len": key_len, "attn_type": "uni", **clamp, **directions}


_LAYOUTS: tuple[AbsoluteLayout, ...] = ("interleaved", "concatenated")
_CHECKED_OFFSETS = 64

# Σ cos(offset·ω_k) rises with the base as long as no angle is beyond half a turn: up to here.
_FARTHEST_RISING = 3

# Logarithms of bases, which end at 1e300, and how often their range is halved: to float64's end.
_LARGEST_LOGARITHM, _HALVINGS = 690.0, 64


def propose_operators(question: IdentifyInput) -> Iterator[Proposal]:
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
                yield from _operators_of_view(sample, layout, view)


def _turned(matrices: Float64s, layout: AbsoluteLayout, sample: Sample) -> Rows | None:
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


def _operators_of_view(sample: Sample, layout: AbsoluteLayout, view: View) -> Iterator[Proposal]:
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
            yield Proposal(TableRequest("relative", parameters), support)
        if held:
            return


def propose_similarity(question: IdentifyInput) -> Iterator[Proposal]:
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
        yield Proposal(TableRequest("relative/similarity", parameters), support)


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
    return fewest(round_numbers(exp(low), known), known)


_USUAL_PERIOD, _USUAL_SHIFT = 10000.0, 1.0


@dataclass(frozen=True, eq=False)
class Spacing:
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


def propose_timesteps(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding/timesteps``: sines and cosines apart, whatever the rows."""
    if question.is_pair:
        return
    for view in seen(question.sample):
        if _is_of_timesteps(view):
            yield from _timesteps_of_view(question, view)


def _is_of_timesteps(view: View) -> bool:
    """Tell whether sines lie apart from cosines, and an odd channel is one of zeros."""
    is_filled = view.width % 2 == view.channels.zeros
    return view.layout == "concatenated" and view.scale == 1 and is_filled and view.is_whole


def _timesteps_of_view(question: IdentifyInput, view: View) -> Iterator[Proposal]:
    for course in courses(view, question.positions):
        held = False
        for found in spacings(course.series, view.pairs):
            positioned = positions_of(view, course, found.omega)
            if positioned is not None:
                held = True
                series = series_support(course.series, len(found.omega), found.base, found.span)
                yield from _proposals(question, view, found, positioned, series)
        if held:
            return


def _proposals(
    question: IdentifyInput, view: View, spacing: Spacing, positioned: Positioned, series: str
) -> Iterator[Proposal]:
    products = "timesteps and scale are known as their products alone"
    support = (view.evenness, series, rows_support(positioned), products)
    flip: Parameters = {"flip_sin_to_cos": True} if view.is_flipped else {}
    for said, scale in _steps(question, positioned):
        parameters = {
            **said,
            "d_model": view.width,
            **flip,
            **spacing.parameters,
            **dtype_parameters(question.sample),
        }
        turning = AngleModel(
            positioned.values[:, np.newaxis] / scale,
            (0,) * len(spacing.omega),
            spacing.omega * scale,
            {next(iter(question.arrays)): view.channels},
        )
        call = TableRequest("encoding/timesteps", parameters)
        yield Proposal(call, support, turning, view.rows.is_transposed)


def spacings(series: GeometricSeries, count: int) -> Iterator[Spacing]:
    """Give what max_period and downscale_freq_shift may be."""
    found = False
    for shift in (_USUAL_SHIFT, 0.0) if count > 1 else (_USUAL_SHIFT + 1,):
        span = int(2 * (count - shift))
        for period in usable_bases(series, span if count > 1 else 0):
            found = found or period == _USUAL_PERIOD
            said: dict[str, ParameterValue] = (
                {"max_period": period} if period != _USUAL_PERIOD else {}
            )
            said |= {"downscale_freq_shift": shift} if shift != _USUAL_SHIFT else {}
            yield Spacing(said, falling(period, span, count), period, span)
    if found or not (np.isfinite(series.ratio_error) and series.ratio < 1):
        return
    half_span = float(np.log(_USUAL_PERIOD) / -np.log(series.ratio))
    error = abs(half_span * series.ratio_error / np.log(series.ratio))
    shift = count - half_span
    plain = fewest(round_numbers(abs(shift), error / max(abs(shift), error)), error)
    for number in plain:
        shift = float(np.copysign(number, shift))
        omega = np.exp(-np.log(_USUAL_PERIOD) * np.arange(count) / (count - shift))
        yield Spacing({"downscale_freq_shift": shift}, omega, _USUAL_PERIOD, 2 * (count - shift))


def _steps(question: IdentifyInput, positioned: Positioned) -> Iterator[tuple[Parameters, float]]:
    """Give how timesteps are said, and the scale that they are multiplied by."""
    values, hint = positioned.values, question.positions
    if hint is not None and len(hint) == len(values) and hint.any():
        ratio = float(values @ hint / (hint @ hint))
        if ratio != 1 and np.allclose(hint * ratio, values, rtol=2.0**-20, atol=0):
            size = next(round_numbers(abs(ratio), 2.0**-20), abs(ratio))
            scale = float(np.copysign(size, ratio))
            listed = listed_numbers(hint)
            if listed is not None:
                yield {"timesteps": listed, "scale": scale}, scale
    if (values == np.arange(len(values))).all():
        yield {"num_timesteps": len(values)}, 1.0
        return
    listed = listed_numbers(values)
    if listed is not None:
        yield {"timesteps": listed}, 1.0


_MOST = 24
_FEW_DIGITS = 6

# A list of so many positions more is nothing to say where a few parameters give the same rows.
_MUCH_LONGER = 32


def propose_encoding(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding`` in every convention that the rows of an array speak for."""
    if question.is_pair:
        return
    found = (
        proposal
        for view in seen(question.sample)
        for proposal in _sinusoids_of_view(question, view)
    )
    yield from islice(found, _MOST)


def _sinusoids_of_view(question: IdentifyInput, view: View) -> Iterator[Proposal]:
    for course in courses(view, question.positions):
        held = False
        places: dict[bytes, Positioned | None] = {}
        for candidate in candidates(view, course, question.d_model):
            pairs = view.pairs
            key = candidate.omega[:pairs].tobytes()
            if key not in places:
                places[key] = positions_of(view, course, candidate.omega)
            positioned = places[key]
            for proposal in _sinusoid_proposals(question, view, course, candidate, positioned):
                held = True
                yield proposal
        if held:
            return


def _sinusoid_proposals(
    question: IdentifyInput,
    view: View,
    course: Course,
    candidate: Candidate,
    positioned: Positioned | None,
) -> Iterator[Proposal]:
    if positioned is None:
        return
    for said, values, offset in _rows(candidate, view, positioned):
        where = spelled_positions(values)
        if where is None:
            continue
        call = TableRequest(
            "encoding",
            {**where, **candidate.parameters, **said, **dtype_parameters(question.sample)},
        )
        turned = values + offset
        yield Proposal(
            call,
            (view.evenness, *_support(view, course, candidate, positioned, offset)),
            AngleModel(
                turned[:, np.newaxis],
                (0,) * len(candidate.omega),
                candidate.omega,
                {next(iter(question.arrays)): view.channels},
                view.scale,
            ),
            view.rows.is_transposed,
        )


def _rows(
    candidate: Candidate, view: View, positioned: Positioned
) -> Iterator[tuple[Parameters, Float64s, int]]:
    """Give what is said of offset and padding, the positions that are asked for, and the offset."""
    blank = view.rows.blank
    usual = candidate.convention.padding_idx
    if usual is None:
        if not blank.any():
            yield {}, positioned.values, 0
        return
    if not positioned.is_whole:
        return
    for padding in _paddings(blank, positioned.values, usual):
        values = np.where(blank, padding, positioned.values)
        if ((values == padding) == blank).all():
            offset = candidate.convention.offset
            offset = padding + 1 if offset is None else offset
            said: Parameters = {} if padding == usual else {"padding_idx": padding}
            yield said, values - offset, offset


def _paddings(blank: NDArray[np.bool_], values: Float64s, usual: int) -> list[int]:
    """List what the row of padding may be: the one that is usual, or that among its neighbours."""
    if not blank.any() or np.isnan(values[blank]).any():
        return [usual]
    own = int(values[blank][0])
    is_inside = not (blank[0] or blank[-1])
    return list(dict.fromkeys([own, usual] if is_inside else [usual, own]))


def _support(
    view: View, course: Course, candidate: Candidate, positioned: Positioned, offset: int
) -> Iterator[str]:
    yield series_support(course.series, len(candidate.omega), candidate.base, candidate.span)
    if view.scale != 1:
        yield f"sines and cosines are multiplied by {view.scale:.9g}"
    yield rows_support(positioned, offset)
    if view.rows.blank.any():
        row = int(np.flatnonzero(view.rows.blank)[0])
        yield f"row {row} is zero throughout, as that of padding"
    alike = [alias for alias, name in ALIASES.items() if name == candidate.name]
    if alike:
        yield f"convention={candidate.name} goes by the name of {', '.join(alike)} as well"


def propose_sinusoids(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose all kinds of tables of sines and cosines of positions, the plainest first.

    It is plain to have few parameters, and numbers of few digits in them.
    """
    found = [
        (_cost(proposal.request), proposal) for family in _KINDS for proposal in family(question)
    ]
    least = min((cost for cost, _ in found), default=0)
    for cost, proposal in sorted(found, key=lambda each: each[0])[:_MOST]:
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


_KINDS: tuple[ProposalFamily, ...] = (
    propose_encoding,
    propose_bands,
    propose_timesteps,
    propose_relative,
    propose_frequencies,
    propose_operators,
    propose_similarity,
)
FAMILIES: tuple[ProposalFamily, ...] = (propose_sinusoids,)
