"""Which frequencies each axis of an axial rotary table has, by the parameters of a request."""

from collections.abc import Sequence

from service.routes.axial_parameters import AxialParameters
from service.routes.parameters import impossible
from service.routes.rope_parameters import check_frequencies
from service.tables.axial import Convention, dealt
from service.tables.bands import Ones, Periods, PixelBands
from service.tables.frequencies import FrequencyRule, Geometric
from service.tables.rotary_rule import Given


def frequency_rules(
    parameters: AxialParameters, convention: Convention, axes: int
) -> Sequence[FrequencyRule]:
    """Give the frequencies of each axis, in the order of the channels."""
    head_dim = parameters.channels
    theta = parameters.rope_theta or convention.rope_theta
    if convention.placing == "dealt":
        for name in ("axes_dim", "inv_freq"):
            value = getattr(parameters, name)
            if value is not None:
                rule = f"{name} does not go with convention={parameters.convention}"
                raise impossible(name, value, rule)
        if head_dim < 2 * axes:
            rule = f"head_dim must be at least {2 * axes}, a pair for each axis"
            raise impossible("head_dim", head_dim, rule)
        return dealt(theta, head_dim, axes)
    widths = _widths(parameters, convention, axes)
    if parameters.inv_freq is not None:
        return [_given(parameters.inv_freq, width) for width in widths]
    return [_series(parameters, convention, theta, width) for width in widths]


def _widths(parameters: AxialParameters, convention: Convention, axes: int) -> tuple[int, ...]:
    head_dim, widths = parameters.channels, parameters.axes_dim
    if widths is None:
        widths = convention.widths(head_dim, axes)
        is_whole = convention.share == "thirds" or sum(widths) == head_dim
        if not is_whole or any(width < 2 or width % 2 for width in widths):
            rule = f"head_dim {head_dim} does not divide into channels of {axes} axes in pairs"
            raise impossible("head_dim", head_dim, f"{rule} as {parameters.convention} has them")
        return widths
    is_even = all(width >= 2 and width % 2 == 0 for width in widths)
    if len(widths) != axes or not is_even or sum(widths) != head_dim:
        rule = f"axes_dim must be {axes} even numbers from 2 on with a sum of head_dim, {head_dim}"
        raise impossible("axes_dim", widths, rule)
    if convention.placing == "alternating" and len(set(widths)) > 1:
        rule = f"the axes of convention={parameters.convention} alternate: as many channels each"
        raise impossible("axes_dim", widths, rule)
    return widths


def _given(inv_freq: tuple[float, ...], width: int) -> FrequencyRule:
    if len(inv_freq) != width // 2:
        rule = f"inv_freq must have {width // 2} numbers, one for each pair of an axis"
        raise impossible("inv_freq", len(inv_freq), f"{rule}, and has {len(inv_freq)}")
    check_frequencies(inv_freq)
    return Given(inv_freq)


def _series(
    parameters: AxialParameters, convention: Convention, theta: float, width: int
) -> FrequencyRule:
    """Give the frequencies of one axis, per coordinate."""
    count = width // 2
    if convention.series == "geometric":
        return Geometric(theta, width, count)
    if convention.series == "ones":
        return Ones(count)
    if convention.series == "pixels":
        is_linear = parameters.linear_bands
        chosen = convention.linear_bands if is_linear is None else is_linear
        return PixelBands(parameters.max_freq or convention.max_freq, count, chosen)
    shortest, longest = parameters.min_period, parameters.max_period
    if shortest is None and longest is None:
        return Periods(1.0, theta, count, count)
    rule = "min_period and max_period go together, in place of rope_theta"
    if shortest is None or longest is None:
        raise impossible("min_period" if shortest is None else "max_period", None, rule)
    if parameters.rope_theta is not None:
        raise impossible("rope_theta", parameters.rope_theta, rule)
    return Periods(shortest, longest, count - 1, count)
