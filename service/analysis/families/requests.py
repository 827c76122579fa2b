"""Parts of proposals that several families share: request parameters and angle models."""

from collections.abc import Mapping

import numpy as np

from service.analysis.array import AngleModel, IdentifyInput, Proposal, TableRequest
from service.analysis.precision import dtype_parameters
from service.numerics.phase import Float64s, Int64s
from service.numerics.phasors import Channels
from service.numerics.positions import Positions
from service.numerics.tables import ParameterValue


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
