"""Parts of proposals that several families share: request parameters, and their digits."""

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest
from service.analysis.precision import dtype_parameters
from service.analysis.round_numbers import significant_digits
from service.grammar import to_query
from service.numerics.phase import Float64s, Int64s
from service.numerics.positions import Positions
from service.numerics.tables import ParameterValue

USUAL_BASE = 10000.0
_FRACTION = re.compile(r"\d+\.\d+")
_MAX_NEAREST = 3

# A residual up to _GOOD is explained by float32 arithmetic. Parameters with a larger residual, up
# to _NEAR, are proposed as well: verification decides.
_GOOD, _NEAR = 2.0**-20, 2.0**-10


def table_proposal(
    request: IdentifyInput,
    resource: str,
    parameters: Mapping[str, ParameterValue],
    support: tuple[str, ...],
    *,
    is_transposed: bool = False,
) -> Proposal:
    """Return a proposal for a table, with the dtype of the submitted array."""
    every = {**parameters, **dtype_parameters(request.sample)}
    return Proposal(TableRequest(resource, every), support, is_transposed)


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


# The most positions that a request lists.
_MAX_LISTED = 4096
_LARGEST = 2.0**53


def listed_positions(values: Float64s) -> dict[str, ParameterValue] | None:
    """Return the shortest request parameters for positions; None if unknown, too many or large."""
    if np.isnan(values).any() or np.abs(values).max() >= _LARGEST:
        return None
    if (values != np.round(values)).any():
        numbers = listed_numbers(values)
        return None if numbers is None else {"positions": numbers}
    parameters = position_parameters(values.astype(np.int64))
    if str(parameters.get("positions")).count(",") >= _MAX_LISTED:
        return None
    # Sorted by name: seq_len comes before start.
    return dict(sorted(parameters.items()))


def listed_numbers(values: Float64s) -> str | None:
    """Return numbers as comma-separated text; None if they are too many for a URL."""
    if len(values) > _MAX_LISTED:
        return None
    return to_query(tuple((values + 0.0).tolist()))


def digits_of(request: TableRequest) -> int:
    """Return the total count of digits of the distinct real parameters and list values.

    The usual base is left out, because it is a default of some resources only.
    """
    values = request.parameters.values()
    listed = {
        number
        for value in values
        if isinstance(value, tuple | str)
        for number in real_values(value)
    }
    single = [value for value in values if isinstance(value, float) and value != USUAL_BASE]
    return sum(map(decimal_digits, (*listed, *single)))


def real_values(numbers: tuple[object, ...] | str) -> Iterable[float]:
    """Return the floats of a tuple, or the decimal fractions in a string of positions."""
    if isinstance(numbers, str):
        return map(float, _FRACTION.findall(numbers))
    return (number for number in numbers if isinstance(number, float))


def decimal_digits(number: float) -> int:
    """Return the number of significant decimal digits of a float, or of a float16 if it is one."""
    size = abs(number)
    with np.errstate(over="ignore"):
        half = np.float16(size)
    text = str(half) if float(half) == size else repr(size)
    return len(text.partition("e")[0].replace(".", "").strip("0"))
