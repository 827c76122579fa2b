"""Lists of frequencies or wavelengths of absolute encodings."""

from collections.abc import Iterator

import numpy as np

from service.analysis.call import Call
from service.analysis.progression import geometric
from service.analysis.question import Proposal, Question
from service.analysis.sample import spacing
from service.analysis.sinusoids.conventions import Parameters, frequencies_of
from service.analysis.sinusoids.row_series import ENGINE_SHARE
from service.analysis.sinusoids.series import Course
from service.analysis.sinusoids.support import series_support
from service.tables.angle import Float64s
from service.tables.conventions import CONVENTIONS, Convention
from service.tables.limits import MAX_FACTOR

_TWO_PI = 2 * np.pi


def propose_frequencies(question: Question) -> Iterator[Proposal]:
    """Propose ``/encoding/frequencies``: one of its two arrays, numbers that fall or that rise."""
    sample = question.sample
    if question.is_pair or sample.is_complex or not sample.is_finite or sample.values.ndim != 1:
        return
    values = sample.reals()
    if not (values > 0).all():
        return
    errors = spacing(values, sample.element_dtype) + ENGINE_SHARE * values
    omega, omega_errors = _TWO_PI / values, _TWO_PI / values**2 * errors
    yield from _evenly_spaced(question, "frequency", values, errors)
    yield from _evenly_spaced(question, "wavelength", omega, omega_errors)
    if len(values) == 1 or values[0] > values[-1]:
        yield from _of(question, "frequency", values, errors)
    if len(values) == 1 or values[0] < values[-1]:
        yield from _of(question, "wavelength", omega, omega_errors)


def _of(question: Question, part: str, omega: Float64s, errors: Float64s) -> Iterator[Proposal]:
    series = geometric(omega, errors)
    if series is None:
        return
    course, found = Course(series, 1, slice(0, 1), np.zeros(1)), []
    for name, convention in CONVENTIONS.items():
        for d_model in _widths(convention, len(omega), question.d_model):
            named: Parameters = {} if name == "vaswani" else {"convention": name}
            for said, exact, base, is_plain in frequencies_of(convention, d_model, course):
                if (np.abs(exact - omega) <= 4 * errors).all():
                    parameters = {"d_model": d_model, **named, **said, "part": part}
                    support = series_support(series, len(omega), base, convention.span(d_model))
                    call = Call("encoding/frequencies", parameters)
                    found.append((is_plain, d_model % 2, Proposal(call, (support,))))
    has_plain = any(is_plain for is_plain, *_ in found)
    # Every convention has an even width: those say more of them than the odd ones of a few.
    found.sort(key=lambda each: each[1])
    yield from (proposal for is_plain, _, proposal in found if is_plain or not has_plain)


def _widths(convention: Convention, count: int, d_model: int | None) -> list[int]:
    """List what d_model may be for so many frequencies, the one that is said if it is among it."""
    fitting = [
        width
        for width in (2 * count, 2 * count - 1, 2 * count + 1)
        if convention.spacing != "bands"
        and convention.count(width) == count
        and convention.width(width) >= 1
        and convention.span(width) > 0
        and not (convention.odd == "refused" and width % 2)
    ]
    return [width for width in fitting if width == d_model] or fitting


def _evenly_spaced(
    question: Question, part: str, omega: Float64s, errors: Float64s
) -> Iterator[Proposal]:
    count, half_turns = len(omega), 2 * omega[-1] / np.pi
    if not 0.5 < half_turns <= MAX_FACTOR or count < 2:
        return
    resolution = round(half_turns)
    if (np.abs(np.pi * np.linspace(1.0, resolution / 2, count) - omega) > 4 * errors).any():
        return
    parameters: Parameters = {
        "d_model": question.d_model or 2 * count + 1,
        "convention": "perceiver",
        "max_resolution": resolution,
        **({"concat_pos": False} if question.d_model == 2 * count else {}),
        "part": part,
    }
    support = f"{count} bands go evenly from 1 to {resolution / 2:g} half turns"
    yield Proposal(Call("encoding/frequencies", parameters), (support,))
