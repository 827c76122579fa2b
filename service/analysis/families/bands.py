"""Propose ``/encoding`` and ``/encoding/frequencies`` with the evenly spaced bands of Perceiver.

Its rows lie evenly from −1 to 1, and its bands go evenly from 1 to half a resolution.
"""

from collections.abc import Iterator

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest, single_finite_array
from service.analysis.families.axis_waves import (
    AxisWaves,
    axis_waves,
    band_resolutions,
    bands,
    sine_bands,
)
from service.analysis.families.requests import table_proposal, unless_default
from service.analysis.precision import spacing
from service.numerics.dtypes import rounding_bound
from service.numerics.limits import MAX_FACTOR
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

_LEAST_ROWS = 3
_ENGINE_ERROR = 2.0**-21


def propose_bands(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding`` in the convention of Perceiver."""
    values = single_finite_array(request, (2,))
    if values is None or request.sample.is_integer:
        return
    for is_transposed in (False, True):
        rows = values.T if is_transposed else values
        for has_position, is_sine, waves in _readings(rows, request):
            count = len(waves.rates)
            for (resolution,) in band_resolutions([waves]):
                parameters = {
                    "seq_len": len(rows),
                    "d_model": rows.shape[1],
                    **_parameters(resolution, has_position=has_position),
                    **unless_default("sine_only", is_sine, default=False),
                }
                support = (
                    f"rows are those of {len(rows)} positions from -1 to 1",
                    _support(resolution, count),
                    "bands that add whole periods between rows give the same table",
                )
                yield table_proposal(
                    request, "encoding", parameters, support, is_transposed=is_transposed
                )


def _readings(rows: Float64s, request: IdentifyInput) -> Iterator[tuple[bool, bool, AxisWaves]]:
    """Yield whether the first channel is the position, whether there are no cosines, and waves."""
    if len(rows) < _LEAST_ROWS:
        return
    rounding = rounding_bound(request.sample.element_dtype, 1.0)
    residual = np.abs(rows[:, 0] - np.linspace(-1.0, 1.0, len(rows))).max()
    has_position = bool(residual <= 4 * rounding + _ENGINE_ERROR)
    channels = rows[:, int(has_position) :]
    count, rest = divmod(channels.shape[1], 2)
    if count and not rest:
        waves = axis_waves(channels[:, count:] + 1j * channels[:, :count], rounding)
        if waves is not None:
            yield has_position, False, waves
    if channels.shape[1]:
        waves = sine_bands(channels, rounding)
        if waves is not None:
            yield has_position, True, waves


def propose_band_frequencies(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/encoding/frequencies`` for evenly spaced frequencies, or their wavelengths."""
    values = single_finite_array(request, (1,))
    if values is None or not (values > 0).all() or len(values) < 2 or request.sample.is_integer:
        return
    errors = spacing(values, request.sample.element_dtype) + _ENGINE_ERROR * values
    parts = {
        "frequency": (values, errors),
        "wavelength": (2 * np.pi / values, 2 * np.pi / values**2 * errors),
    }
    for part, (omega, bounds) in parts.items():
        count, half_turns = len(omega), 2 * omega[-1] / np.pi
        if not 0.5 < half_turns <= MAX_FACTOR:
            continue
        resolution = round(half_turns)
        expected = np.pi * bands(resolution / 2, count, is_linear=True)
        if (np.abs(expected - omega) > 4 * bounds).any():
            continue
        has_position = request.d_model != 2 * count
        parameters = {
            "d_model": request.d_model or 2 * count + 1,
            **_parameters(resolution, has_position=has_position),
            "part": part,
        }
        support = (_support(resolution, count),)
        yield Proposal(TableRequest("encoding/frequencies", parameters), support)


def _parameters(resolution: int, *, has_position: bool) -> dict[str, ParameterValue]:
    return {
        "convention": "perceiver",
        "max_resolution": resolution,
        **unless_default("concat_pos", has_position, default=True),
    }


def _support(resolution: int, count: int) -> str:
    return f"{count} bands go evenly from 1 to {resolution / 2:g} half turns"
