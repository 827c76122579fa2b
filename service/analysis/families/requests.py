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

# A residual up to _GOOD is explained by float32 arithmetic. Parameters with a larger residual, up
# to _NEAR, are proposed as well: verification decides.
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
    """Return a proposal for a table, with the dtype of the submitted array."""
    every = {**parameters, **dtype_parameters(request.sample)}
    return Proposal(TableRequest(resource, every), support, angles, is_transposed)


def unless_default(
    name: str, value: ParameterValue, default: ParameterValue
) -> dict[str, ParameterValue]:
    """Return {name: value}, or an empty dict if the value is the default."""
    return {} if value == default else {name: value}


def position_parameters(positions: Int64s, axis: str = "") -> dict[str, ParameterValue]:
    """Return request parameters for integer positions.

    Contiguous positions give a start and a length; others give a list.

    Args:
        positions: the position of each row, (S,).
        axis: the prefix of the parameter names, ``query`` or ``key``; empty for ``seq_len``,
            ``start`` and ``positions``.
    """
    runs = Positions.of_integers(positions)
    prefix = f"{axis}_" if axis else ""
    if not runs.is_contiguous:
        return {f"{prefix}positions": str(runs)}
    start = unless_default(f"{prefix}start", runs.first, 0)
    return {**start, f"{axis or 'seq'}_len": runs.count}


def pack_parameters(pack: str) -> dict[str, ParameterValue]:
    """Return the ``pack`` parameter of a rotary table; an empty dict for the default."""
    return unless_default("pack", pack, "pair")


def one_axis_angles(
    positions: Float64s | Int64s,
    omega: Float64s,
    channels: Mapping[str, Channels],
    scale: float = 1.0,
) -> AngleModel:
    """Return the angle model of rows with one position each.

    Args:
        positions: the position of each row, (S,).
        omega: the frequencies in radians per position, (K,).
        channels: array name → whether each channel is a sine or a cosine, and of which frequency.
        scale: the factor of all sines and cosines.
    """
    coordinates = positions.astype(np.float64)[:, np.newaxis]
    return AngleModel(coordinates, (0,) * len(omega), omega, channels, scale)


def nearest_fits(
    residuals: Sequence[float], parameters: Sequence[Mapping[str, ParameterValue]], rounding: float
) -> list[int]:
    """Return the indices of the best fits: the simplest good fit, or else up to 3 near ones.

    The good fit with the fewest digits comes first; a second one follows if its residual is less
    than half as large.

    Args:
        residuals: for each fit, the largest difference between its table and the array.
        parameters: the request parameters of each fit.
        rounding: the rounding error of the array's dtype at 1.
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
    """Return the total count of significant digits of values and list elements; others count 1."""
    return sum(
        _digits(value)
        if isinstance(value, tuple)
        else significant_digits(value)
        if isinstance(value, int | float)
        else 1
        for value in values
    )
