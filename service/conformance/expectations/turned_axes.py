"""Expectations of axial tables and rotations: coordinates along axes have roundings of their own.

The angle of a coordinate q and a frequency ω is within u·ω·(|q|·c + d): c counts the roundings of
the frequency, of the product, and of a coordinate that is a product or a quotient; d is the error
of a coordinate that is a difference, and so has an error where it is nearly 0, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from service.conformance.expectations.turned_tables import Pairs, pairs, rotated
from service.conformance.questions import Numbers, Question, arrays_of
from service.conformance.tolerance import MOST_ANGLE, UNIT, Expectation, Expected, Keys, rounded_up
from service.encodings.rotary.axial_conventions import CONVENTIONS, Places, Series
from service.numerics.phase import Float64s


def axial_expectation(question: Question) -> Expectation:
    """Return cosines and sines of an axial table, (S, r/2) each; raises PosrefError."""
    keys = question.parameters
    found = arrays_of(question.request)
    angles = np.abs(
        arrays_of(replace(question.changed(pack="angle"), kind="array").request)["rope"]
    )
    frequencies = _frequencies(question)
    omega = frequencies["inv_freq"].astype(np.float64)
    convention = CONVENTIONS[keys["convention"]]
    counted = np.where((omega == 1) | (omega == 0), 0.0, _SERIES[convention.series](omega, keys))
    coordinates = np.divide(angles, omega, out=np.zeros(angles.shape), where=omega > 0)
    multiplied, moved = _PLACES[convention.places]
    more = sum(each for name, each in multiplied.items() if name in keys)
    if moved is None:
        moved = 4 * float(coordinates.max())
    allowed = UNIT * (angles * (counted + more) + omega * moved)
    return Expectation(
        {"cos": found["cos"], "sin": found["sin"]},
        rounded_up(np.minimum(allowed, MOST_ANGLE)),
        details={"inv_freq": omega, "axis": frequencies["axis"]},
    )


def _frequencies(question: Question) -> Mapping[str, Numbers]:
    """Return the frequency and the axis of each pair; raises PosrefError."""
    asked, given = question.of("/rope/axial/frequencies"), question.parameters
    if len(CONVENTIONS[given["convention"]].axes) > 1:
        listed = sum(name.startswith("positions_") for name in given)
        asked = asked.changed(num_axes=len(given.get("grid", ())) or listed)
    return arrays_of(asked.request)


def _span(omega: Float64s) -> Float64s:
    """Return 3·e·ln b of each frequency: a power of the base, after a first one."""
    first = omega[0]
    return np.asarray(3 * np.abs(np.log(np.where(omega > 0, omega, first) / first)))


def _periods(omega: Float64s, keys: Keys) -> Float64s:
    """2π/period: a power, its product with the shortest period, the quotient, and the angle."""
    ends = np.log(omega.max() / omega.min()) if "min_period" in keys else 0.0
    return np.asarray(_span(omega) + 7 + 2 * ends)


def _pixels(omega: Float64s, keys: Keys) -> Float64s:
    """π times a number of an even series, or times a power of one: 2 more at the series' end."""
    is_linear = keys.get("linear_bands", CONVENTIONS[keys["convention"]].linear_bands)
    if is_linear:
        return np.asarray(3 * omega.max() / omega + 3)
    return _rising(omega, keys)


def _rising(omega: Float64s, _: Keys) -> Float64s:
    turning = omega[omega > 0]
    return np.asarray(_span(omega) + 2 * np.log(turning.max() / turning.min()) + 6)


_SERIES: Mapping[Series, Callable[[Float64s, Keys], Float64s]] = {
    "geometric": lambda omega, keys: _span(omega) + 4 + 4 * ("ntk_scale" in keys),
    "periods": _periods,
    "pixels": _pixels,
    "ones": lambda omega, _: np.zeros(omega.shape),
    "rising": _rising,
}


# Of coordinates: the roundings of parameters that multiply or divide them, and the error of a
# difference; None where they are an even series from start to stop, relative to its end.
_PLACES: Mapping[Places, tuple[Mapping[str, int], float | None]] = {
    "counted": (
        {"grid_offset": 1, "grid_step": 1, "reference_grid": 2, "interpolation_scale": 1},
        0.0,
    ),
    "timed": ({"grid_offset": 1, "grid_step": 1, "fps": 2}, 0.0),
    "halves": ({"grid_offset": 1}, 0.0),
    "floored": ({}, 0.0),
    "spread": ({"interpolation_scale": 1}, None),
    "pixels": ({}, 4.0),
    "centred": ({}, 4.0),
    "fractions": ({}, 6.0),
}


def axial_rotation_expectation(question: Question) -> Expectation:
    """Return x, rotated along axes, of the shape of x; raises PosrefError."""
    is_given = "axes_dim" in question.parameters
    defaults = {} if is_given else {"head_dim": np.shape(question.x)[-1]}
    table = axial_expectation(question.changed("axes").of("/rope/axial", "table", **defaults))
    assert table.details is not None
    read = _pairs_of(question.parameters["layout"], table.details["axis"])
    return rotated(question, table, read, read)


def _pairs_of(layout: str, axis: Float64s) -> Pairs:
    """Return the channels of all pairs; half_by_axis has the halves of each axis side by side."""
    if layout != "half_by_axis":
        return pairs(layout, 2 * len(axis))
    places = np.arange(len(axis))
    first, count = (
        np.array([function(places[axis == each]) for each in axis]) for function in (np.min, len)
    )
    return first + places, first + places + count


EXPECTED: Mapping[str, Expected] = {
    "/rope/axial": axial_expectation,
    "/rope/axial/apply": axial_rotation_expectation,
}
