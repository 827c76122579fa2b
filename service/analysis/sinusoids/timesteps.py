"""Embeddings of diffusion timesteps: rows of any times, with a spacing of their own."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from service.analysis.call import Call
from service.analysis.plain import plain_numbers
from service.analysis.progression import Geometric
from service.analysis.question import Proposal, Question, Turning
from service.analysis.real_types import dtype_parameters
from service.analysis.sinusoids.conventions import Parameters, falling, fewest, usable_bases
from service.analysis.sinusoids.positions import Positioned, listed_numbers, positions_of
from service.analysis.sinusoids.rows import View, seen
from service.analysis.sinusoids.series import courses
from service.analysis.sinusoids.support import rows_support, series_support
from service.tables.angle import Float64s
from service.tables.document import ParameterValue

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


def propose_timesteps(question: Question) -> Iterator[Proposal]:
    """Propose ``/encoding/timesteps``: sines and cosines apart, whatever the rows."""
    if question.is_pair:
        return
    for view in seen(question.sample):
        if _is_of_timesteps(view):
            yield from _of_view(question, view)


def _is_of_timesteps(view: View) -> bool:
    """Tell whether sines lie apart from cosines, and an odd channel is one of zeros."""
    is_filled = view.width % 2 == view.channels.zeros
    return view.layout == "concatenated" and view.scale == 1 and is_filled and view.is_whole


def _of_view(question: Question, view: View) -> Iterator[Proposal]:
    for course in courses(view, question.positions):
        held = False
        for spacing in spacings(course.series, view.pairs):
            positioned = positions_of(view, course, spacing.omega)
            if positioned is not None:
                held = True
                series = series_support(
                    course.series, len(spacing.omega), spacing.base, spacing.span
                )
                yield from _proposals(question, view, spacing, positioned, series)
        if held:
            return


def _proposals(
    question: Question, view: View, spacing: Spacing, positioned: Positioned, series: str
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
        turning = Turning(
            positioned.values[:, np.newaxis] / scale,
            (0,) * len(spacing.omega),
            spacing.omega * scale,
            {next(iter(question.arrays)): view.channels},
        )
        call = Call("encoding/timesteps", parameters)
        yield Proposal(call, support, turning, view.rows.is_transposed)


def spacings(series: Geometric, count: int) -> Iterator[Spacing]:
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
    plain = fewest(plain_numbers(abs(shift), error / max(abs(shift), error)), error)
    for number in plain:
        shift = float(np.copysign(number, shift))
        omega = np.exp(-np.log(_USUAL_PERIOD) * np.arange(count) / (count - shift))
        yield Spacing({"downscale_freq_shift": shift}, omega, _USUAL_PERIOD, 2 * (count - shift))


def _steps(question: Question, positioned: Positioned) -> Iterator[tuple[Parameters, float]]:
    """Give how timesteps are said, and the scale that they are multiplied by."""
    values, hint = positioned.values, question.positions
    if hint is not None and len(hint) == len(values) and hint.any():
        ratio = float(values @ hint / (hint @ hint))
        if ratio != 1 and np.allclose(hint * ratio, values, rtol=2.0**-20, atol=0):
            size = next(plain_numbers(abs(ratio), 2.0**-20), abs(ratio))
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
