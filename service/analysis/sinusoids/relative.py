"""Sinusoids of relative positions: rows that descend, as those of Transformer-XL and its kin."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from service.analysis.call import Call
from service.analysis.question import Proposal, Question, Turning
from service.analysis.real_types import dtype_parameters
from service.analysis.sample import Sample
from service.analysis.sinusoids.conventions import Parameters, falling, usable_bases
from service.analysis.sinusoids.positions import Positioned, positions_of
from service.analysis.sinusoids.row_places import locate
from service.analysis.sinusoids.rows import View, seen
from service.analysis.sinusoids.series import courses, uneven_course
from service.analysis.sinusoids.support import rows_support, series_support
from service.tables.angle import Float64s
from service.tables.channels import Channels
from service.tables.document import ParameterValue

_USUAL_BASE = 10000.0


def propose_relative(question: Question) -> Iterator[Proposal]:
    """Propose ``/relative/transformer-xl``, ``xlnet`` and ``conformer`` where rows descend."""
    sample = question.sample
    if question.is_pair:
        return
    if sample.values.ndim == 3 and sample.values.shape[1] == 2:
        forward = replace(sample, values=sample.values[:, 0])
        yield from _of(question, forward, has_directions=True)
        return
    yield from _of(question, sample, has_directions=False)


def _of(question: Question, sample: Sample, *, has_directions: bool) -> Iterator[Proposal]:
    for view in seen(sample):
        is_plain = view.scale == 1 and not view.is_flipped and view.width % 2 == 0
        if is_plain and view.is_whole and not view.rows.is_transposed:
            yield from _of_view(question, view, has_directions=has_directions)


def _of_view(question: Question, view: View, *, has_directions: bool) -> Iterator[Proposal]:
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
                yield Proposal(Call(f"relative/{resource}", parameters), support, turning)


def _descends(view: View, omega: Float64s) -> bool:
    """Tell by the first row, one in the middle and the last whether rows may descend."""
    turns, errors = view.part(np.unique([0, len(view.kept) // 2, len(view.kept) - 1]))
    found = locate(np.angle(turns), errors, omega)
    return found is not None and bool((np.diff(found.rounded()) <= 0).all())


def _turning(question: Question, view: View, positioned: Positioned, omega: Float64s) -> Turning:
    name = next(iter(question.arrays))
    channels: Channels = view.channels
    return Turning(positioned.values[:, np.newaxis], (0,) * len(omega), omega, {name: channels})


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
