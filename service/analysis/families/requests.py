"""Parts of proposals that several families share: request parameters and angle models."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from service.analysis.array import AngleModel, IdentifyInput, Proposal, TableRequest
from service.analysis.precision import dtype_parameters
from service.analysis.round_numbers import significant_digits
from service.numerics.phase import Float64s, Int64s
from service.numerics.phasors import Channels
from service.numerics.positions import Positions
from service.numerics.tables import ParameterValue

_MAX_NEAREST = 3

# Engines in float32 differ by up to _GOOD. Up to _NEAR, verification judges.
_GOOD, _NEAR = 2.0**-20, 2.0**-10


def table_proposal(
    request: IdentifyInput,
    resource: str,
    parameters: Mapping[str, ParameterValue],
    support: tuple[str, ...],
    angles: AngleModel | None = None,
    *,
    is_transposed: bool = False,
) -> Proposal:
    """Propose a table in the element type of an array."""
    every = {**parameters, **dtype_parameters(request.sample)}
    return Proposal(TableRequest(resource, every), support, angles, is_transposed)


def unless_default(
    name: str, value: ParameterValue, default: ParameterValue
) -> dict[str, ParameterValue]:
    """Return a parameter, or none where its value is the default."""
    return {} if value == default else {name: value}


def position_parameters(positions: Int64s, axis: str = "") -> dict[str, ParameterValue]:
    """Return integer positions as parameters: start and length where they are contiguous.

    Args:
        positions: one for each row.
        axis: ``query`` or ``key``, where the parameters are named after it.
    """
    runs = Positions.of_runs(positions.tolist())
    prefix = f"{axis}_" if axis else ""
    if not runs.is_contiguous:
        return {f"{prefix}positions": str(runs)}
    start = unless_default(f"{prefix}start", runs.runs[0].first, 0)
    return {**start, f"{axis or 'seq'}_len": runs.count}


def pack_parameters(pack: str) -> dict[str, ParameterValue]:
    """Return the pack of a rotary table as a parameter, unless it is the default."""
    return unless_default("pack", pack, "pair")


def one_axis_angles(
    positions: Float64s | Int64s,
    omega: Float64s,
    channels: Mapping[str, Channels],
    scale: float = 1.0,
) -> AngleModel:
    """Return the angle model of rows with one position each.

    Args:
        positions: of the rows, (S,).
        omega: radians per position, (K,).
        channels: for each array by name, which component of which frequency a channel holds.
        scale: the factor of sines and cosines.
    """
    coordinates = positions.astype(np.float64)[:, np.newaxis]
    return AngleModel(coordinates, (0,) * len(omega), omega, channels, scale)


def nearest_fits(
    residuals: Sequence[float], parameters: Sequence[Mapping[str, ParameterValue]], rounding: float
) -> list[int]:
    """Choose among parameters that fit a measurement: one that is good, or else a few near ones.

    Args:
        residuals: the largest difference between the table of each and the array.
        parameters: of each. Of those that are good the one with the fewest digits is chosen, and
            beside it another of less than half its residual.
        rounding: half a unit in the last place at 1.
    """
    good, near = 2 * rounding + _GOOD, 8 * rounding + _NEAR
    order = sorted(
        (way for way, residual in enumerate(residuals) if residual <= near),
        key=lambda way: (max(residuals[way], good), _digits(parameters[way].values())),
    )
    if not order or residuals[order[0]] > good:
        return order[:_MAX_NEAREST]
    best = min(order, key=lambda way: residuals[way])
    return [order[0]] if residuals[best] > residuals[order[0]] / 2 else [order[0], best]


def _digits(values: Iterable[ParameterValue]) -> int:
    """Count the digits of numbers, alone and in lists; other values count as one."""
    return sum(
        _digits(value)
        if isinstance(value, tuple)
        else significant_digits(value)
        if isinstance(value, int | float)
        else 1
        for value in values
    )
