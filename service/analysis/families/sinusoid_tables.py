"""Propose tables of sines and cosines of positions: ``/encoding``, timesteps, descending rows.

The frequencies and the positions of the rows (``readings``) give the parameters of every convention
that has the order of channels. ``/relative/transformer-xl``, ``xlnet`` and ``conformer`` have rows
that descend.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest, single_finite_array
from service.analysis.families.published_sinusoids import (
    base_fits,
    convention_fits,
    falling,
    forms_of,
    layout_of,
    possible_widths,
)
from service.analysis.families.readings import (
    FrequencyFit,
    MeasuredFrequencies,
    RowReading,
    placed,
    readings,
)
from service.analysis.families.requests import (
    USUAL_BASE,
    digits_of,
    listed_numbers,
    listed_positions,
    table_proposal,
    unless_default,
)
from service.analysis.families.series import plain_numbers
from service.analysis.precision import spacing
from service.encodings.absolute.conventions import ALIASES, CONVENTIONS, SinusoidConvention
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

_MAX_PROPOSALS = 24
# A request that costs more than the cheapest one, as with a long list of positions, is left out.
_MAX_EXTRA_COST = 32
_ENGINE_ERROR = 2.0**-21


def propose_sinusoids(
    request: IdentifyInput, read: Sequence[RowReading], chosen: slice = slice(None)
) -> Iterator[Proposal]:
    """Propose ``/encoding`` and ``/encoding/timesteps``; fewer parameters come first."""
    if request.is_pair:
        return
    found: list[tuple[int, Proposal]] = []
    for reading in read:
        if layout_of(reading) is None:
            continue
        proposals = (
            *_encodings(request, reading, chosen),
            *_timesteps(request, reading, chosen),
        )
        found += [(_cost(each.request), each) for each in proposals]
    least = min((cost for cost, _ in found), default=0)
    for cost, proposal in sorted(found, key=lambda each: each[0])[:_MAX_PROPOSALS]:
        if cost <= least + _MAX_EXTRA_COST:
            yield proposal


def _cost(request: TableRequest) -> int:
    """Return a request's cost: parameters, digits of real ones, and commas of lists."""
    commas = (each.count(",") for each in request.parameters.values() if isinstance(each, str))
    return len(request.parameters) + digits_of(request) + sum(commas)


# The absolute encoding.


def _encodings(request: IdentifyInput, reading: RowReading, chosen: slice) -> Iterator[Proposal]:
    groups: dict[bytes, list[tuple[str, dict[str, ParameterValue]]]] = {}
    forms = forms_of(reading, request.d_model)

    def fits(measured: MeasuredFrequencies | None) -> Iterator[FrequencyFit]:
        """Yield each different series of frequencies once, and note who has it."""
        seen = set()
        for name, d_model, named in forms:
            for fit in convention_fits(name, d_model, measured):
                key, own = fit.omega.tobytes(), {**named, **fit.parameters}
                owners = groups.setdefault(key, [])
                if (name, own) not in owners:
                    owners.append((name, own))
                if key not in seen:
                    seen.add(key)
                    yield fit

    usual = list(fits(None))
    # A fit is known by its frequencies: parameters are those of all conventions that have them.
    found = list(placed(reading, lambda measured: list(fits(measured)), usual, chosen))
    for fit, positions in found:
        for name, parameters in groups[fit.omega.tobytes()]:
            for padding, values in _paddings(CONVENTIONS[name], reading, positions):
                listed = listed_positions(values)
                if listed is not None:
                    yield table_proposal(
                        request,
                        "encoding",
                        {**listed, **parameters, **padding},
                        tuple(_support(name, reading, fit, values)),
                        is_transposed=reading.is_transposed,
                    )


def _paddings(
    convention: SinusoidConvention,
    reading: RowReading,
    positions: Float64s,
) -> Iterator[tuple[dict[str, ParameterValue], Float64s]]:
    """Yield padding parameters, and the positions to request: angles are of position + offset."""
    usual, is_zero = convention.padding_idx, reading.zero_rows
    if usual is None:
        if not is_zero.any() and not np.isnan(positions).any():
            yield {}, positions
        return
    known = positions[~np.isnan(positions)]
    if (known != np.round(known)).any():
        return
    for padding in _padding_indices(positions, is_zero, usual):
        values = np.where(is_zero, padding, positions)
        if ((values == padding) == is_zero).all():
            offset = padding + 1 if convention.offset is None else convention.offset
            yield unless_default("padding_idx", padding, usual), values - offset


def _padding_indices(positions: Float64s, is_zero: np.ndarray, usual: int) -> list[int]:
    """Return candidates for the index of the row of zeros: the usual one, and its own place."""
    if not is_zero.any() or np.isnan(positions[is_zero]).any():
        return [usual]
    own = int(positions[is_zero][0])
    is_between = not (is_zero[0] or is_zero[-1])
    return list(dict.fromkeys([own, usual] if is_between else [usual, own]))


def _support(
    name: str, reading: RowReading, fit: FrequencyFit, positions: Float64s
) -> Iterator[str]:
    yield reading.support
    yield from fit.support
    ends = f"{np.nanmin(positions):.9g} to {np.nanmax(positions):.9g}"
    yield f"angles put rows at positions from {ends}"
    if reading.zero_rows.any():
        yield f"row {int(np.argmax(reading.zero_rows))} is zero throughout, as that of padding"
    aliases = [alias for alias, own in ALIASES.items() if own == name]
    if aliases:
        yield f"convention={name} is also known as {', '.join(aliases)}"


# Timesteps.

_USUAL_SHIFT = 1.0


def _timesteps(request: IdentifyInput, reading: RowReading, chosen: slice) -> Iterator[Proposal]:
    """Yield ``/encoding/timesteps``: all sines, then all cosines, or the other way."""
    layout = layout_of(reading)
    # A table of odd width must end in a channel of zeros.
    is_even = reading.width % 2 == reading.zeros
    if layout is None or layout[0] != "concatenated" or reading.scale[0] != 1 or not is_even:
        return
    if reading.zero_rows.any():
        return
    count = reading.pairs

    def fits(measured: MeasuredFrequencies | None) -> list[FrequencyFit]:
        return list(_timestep_fits(measured, count))

    for fit, values in placed(reading, fits, fits(None), chosen):
        support = (
            reading.support,
            *fit.support,
            "only the products of timesteps and scale are determined",
        )
        for timesteps in _scaled_timesteps(request, values):
            parameters = {
                **timesteps,
                "d_model": reading.width,
                **unless_default("flip_sin_to_cos", layout[1], default=False),
                **fit.parameters,
            }
            yield table_proposal(
                request,
                "encoding/timesteps",
                parameters,
                support,
                is_transposed=reading.is_transposed,
            )


def _timestep_fits(measured: MeasuredFrequencies | None, count: int) -> Iterator[FrequencyFit]:
    """Yield fits of the frequencies exp(−ln(max_period)·k/(n − downscale_freq_shift)), k < n."""
    is_usual = False
    for shift in (_USUAL_SHIFT, 0.0) if count > 1 else (_USUAL_SHIFT + 1,):
        for fit in base_fits(measured, 2 * (count - shift), count, "max_period"):
            is_usual = is_usual or not fit.parameters
            shifted = unless_default("downscale_freq_shift", shift, _USUAL_SHIFT)
            yield replace(fit, parameters={**fit.parameters, **shifted})
    if is_usual or measured is None:
        return
    for fit in base_fits(measured, 2 * count, count, "max_period"):
        base = float(str(fit.parameters.get("max_period", USUAL_BASE)))
        if base <= 1:
            continue
        half_span = count * np.log(USUAL_BASE) / np.log(base)
        shift = count - half_span
        for number in plain_numbers(abs(shift), 1e-5, ())[:1]:
            signed = float(np.copysign(number, shift))
            omega = falling(USUAL_BASE, 2 * (count - signed), count)
            yield FrequencyFit({"downscale_freq_shift": signed}, omega, fit.support)


def _scaled_timesteps(
    request: IdentifyInput, values: Float64s
) -> Iterator[dict[str, ParameterValue]]:
    """Yield the request parameters for the timesteps, and the scale that multiplies timesteps."""
    known = request.positions
    if known is not None and len(known) == len(values) and known.any():
        ratio = float(values @ known / (known @ known))
        if ratio != 1 and np.allclose(known * ratio, values, rtol=2.0**-20, atol=0):
            listed = listed_numbers(known)
            for number in plain_numbers(abs(ratio), 2.0**-20, ())[:1]:
                if listed is not None:
                    yield {"timesteps": listed, "scale": float(np.copysign(number, ratio))}
    if (values == np.arange(len(values))).all():
        yield {"num_timesteps": len(values)}
        return
    listed = listed_numbers(values)
    if listed is not None:
        yield {"timesteps": listed}


# Descending rows.


def propose_relative(
    request: IdentifyInput, read: Sequence[RowReading], chosen: slice = slice(None)
) -> Iterator[Proposal]:
    """Propose ``/relative/transformer-xl``, ``xlnet`` and ``conformer`` for descending rows."""
    sample = request.sample
    if request.is_pair or sample.is_complex:
        return
    has_directions = sample.values.ndim == 3 and sample.values.shape[1] == 2
    if has_directions:
        values = sample.values[:, 0]
        sample = replace(sample, values=values, shape=values.shape)
        read = list(readings(replace(request, arrays={"x": sample}, positions=None)))
    for reading in read:
        layout = layout_of(reading)
        is_plain = layout is not None and not layout[1] and reading.scale[0] == 1
        if is_plain and not reading.zeros and not reading.is_transposed:
            yield from _descending(request, reading, chosen, has_directions=has_directions)


def _descending(
    request: IdentifyInput, reading: RowReading, chosen: slice, *, has_directions: bool
) -> Iterator[Proposal]:
    if reading.zero_rows.any():
        return
    for d_model in (reading.width, reading.width - 1):

        def fits(
            measured: MeasuredFrequencies | None, d_model: int = d_model
        ) -> list[FrequencyFit]:
            return list(base_fits(measured, d_model, reading.pairs))

        for fit, positions in placed(reading, fits, fits(None), chosen, is_whole=True):
            if len(positions) > 1 and not (np.diff(positions) <= 0).all():
                continue
            support = (
                reading.support,
                *fit.support,
                f"rows descend from {positions[0]:g} to {positions[-1]:g}",
            )
            for resource, lengths in _relative_lengths(
                reading, positions, d_model, has_directions=has_directions
            ):
                parameters = {"d_model": d_model, **lengths, **fit.parameters}
                yield table_proposal(request, f"relative/{resource}", parameters, support)


def _relative_lengths(
    reading: RowReading, positions: Float64s, d_model: int, *, has_directions: bool
) -> Iterator[tuple[str, dict[str, ParameterValue]]]:
    """Yield each resource that can have these descending positions, with its length parameters."""
    steps = np.diff(positions)
    highest, lowest = int(positions[0]), int(positions[-1])
    moving = np.flatnonzero(steps)
    # Clamped positions repeat at the ends.
    above = int(moving[0]) if len(moving) else 0
    below = len(steps) - 1 - int(moving[-1]) if len(moving) else 0
    if (steps[above : len(steps) - below] != -1).any() or (len(steps) and not len(moving)):
        return
    if reading.packing == "sin_flat":
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


# Lists of frequencies and of wavelengths.


def propose_encoding_frequencies(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding/frequencies`` for falling frequencies and rising wavelengths."""
    values = single_finite_array(request, (1,))
    if values is None or not (values > 0).all() or request.sample.is_integer:
        return
    errors = spacing(values, request.sample.element_dtype) + _ENGINE_ERROR * values
    parts = {
        "frequency": (values, errors),
        "wavelength": (2 * np.pi / values, 2 * np.pi / values**2 * errors),
    }
    found = []
    for part, (omega, bounds) in parts.items():
        if len(omega) > 1 and omega[0] <= omega[-1]:
            continue
        count, measured = len(omega), MeasuredFrequencies(omega, bounds)

        def fits(convention: SinusoidConvention, width: int, count: int = count) -> bool:
            return convention.count(width) == count and convention.width(width) >= 1

        for name, convention in CONVENTIONS.items():
            for d_model in possible_widths(convention, 2 * count, request.d_model, fits):
                for fit in convention_fits(name, d_model, measured):
                    if measured.agrees(fit.omega):
                        parameters = {
                            "d_model": d_model,
                            **unless_default("convention", name, "vaswani"),
                            **fit.parameters,
                            "part": part,
                        }
                        call = TableRequest("encoding/frequencies", parameters)
                        found.append((d_model % 2, Proposal(call, fit.support)))
    # All conventions have even widths, few have odd ones.
    yield from (proposal for _, proposal in sorted(found, key=lambda each: each[0]))
