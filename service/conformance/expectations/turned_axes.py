"""Expectations of axial tables and rotations: coordinates along axes have roundings of their own.

The angle of a coordinate q and a frequency ω is within u·ω·(|q|·c + d): c counts the roundings of
the frequency, of the product, and of a coordinate that is a product or a quotient; d is the error
of a coordinate that is a difference, and so has an error where it is nearly 0, too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from service.conformance.expectations.turned_tables import Pairs, pairs, rotated
from service.conformance.questions import Question, arrays_of
from service.conformance.tolerance import MOST_ANGLE, UNIT, Expectation, Expected, rounded_up
from service.encodings.rotary.axial_conventions import CONVENTIONS, Places, Series
from service.numerics.phase import Float64s
from service.routes import ENDPOINTS

Keys = Mapping[str, Any]


def axial_expectation(question: Question) -> Expectation:
    """Return cosines and sines of an axial table, (S, r/2) each; raises PosrefError."""
    found = arrays_of(question.request)
    angles = np.abs(
        arrays_of(
            Question("array", question.resource, {**question.parameters, "pack": "angle"}).request
        )["rope"]
    )
    frequencies = _frequencies(question)
    omega = frequencies["inv_freq"].astype(np.float64)
    recipe = CONVENTIONS[question.parameters["convention"]]
    counted = _SERIES[recipe.series](omega, question.parameters)
    coordinates = np.divide(angles, omega, out=np.zeros(angles.shape), where=omega > 0)
    more, moved = _PLACES[recipe.places](question.parameters, coordinates)
    is_exact = (omega == 1) | (omega == 0)
    allowed = UNIT * (angles * (np.where(is_exact, 0.0, counted) + more) + omega * moved)
    return Expectation(
        {"cos": found["cos"], "sin": found["sin"]},
        rounded_up(np.minimum(allowed, MOST_ANGLE)),
        details={"inv_freq": omega, "axis": frequencies["axis"]},
    )


def _frequencies(question: Question) -> Mapping[str, Any]:
    """Return the frequency and the axis of each pair; raises PosrefError."""
    names = ENDPOINTS["/rope/axial/frequencies"].parameters.model_fields
    kept = {name: each for name, each in question.parameters.items() if name in names}
    axes = len(question.parameters.get("grid", ())) or sum(
        name.startswith("positions_") for name in question.parameters
    )
    if len(CONVENTIONS[kept["convention"]].axes) > 1:
        kept["num_axes"] = axes
    return arrays_of(Question("array", "/rope/axial/frequencies", kept).request)


def _span(omega: Float64s) -> Float64s:
    """Return 3·e·ln b of each frequency: a power of the base, after a first one."""
    first = omega[0]
    spans: Float64s = 3 * np.abs(np.log(np.where(omega > 0, omega, first) / first))
    return spans


def _geometric(omega: Float64s, keys: Keys) -> Float64s:
    return _span(omega) + 4 + 4 * ("ntk_scale" in keys)


def _periods(omega: Float64s, keys: Keys) -> Float64s:
    """2π/period: a power, its product with the shortest period, the quotient, and the angle."""
    ends = np.log(omega.max() / omega.min()) if "min_period" in keys else 0.0
    counted: Float64s = _span(omega) + 7 + 2 * ends
    return counted


def _pixels(omega: Float64s, keys: Keys) -> Float64s:
    """π times a number of an even series, or times a power of one: 2 more at the series' end."""
    is_linear = keys.get("linear_bands", CONVENTIONS[keys["convention"]].linear_bands)
    if is_linear:
        counted: Float64s = 3 * omega.max() / omega + 3
        return counted
    return _rising(omega, keys)


def _rising(omega: Float64s, _: Keys) -> Float64s:
    turning = omega[omega > 0]
    counted: Float64s = _span(omega) + 2 * np.log(turning.max() / turning.min()) + 6
    return counted


_SERIES: Mapping[Series, Callable[[Float64s, Keys], Float64s]] = {
    "geometric": _geometric,
    "periods": _periods,
    "pixels": _pixels,
    "ones": lambda omega, _: np.zeros(omega.shape),
    "rising": _rising,
}


def _scaled(names: Mapping[str, int]) -> Callable[[Keys, Float64s], tuple[float, float]]:
    """Return the roundings of coordinates that are multiplied, by the parameters that do it."""
    return lambda keys, _: (float(sum(each for name, each in names.items() if name in keys)), 0.0)


def _spread(keys: Keys, coordinates: Float64s) -> tuple[float, float]:
    """An even series from start to stop, then divided: an error of the size of its end."""
    return float("interpolation_scale" in keys), 4 * float(coordinates.max())


_PLACES: Mapping[Places, Callable[[Keys, Float64s], tuple[float, float]]] = {
    "counted": _scaled(
        {"grid_offset": 1, "grid_step": 1, "reference_grid": 2, "interpolation_scale": 1}
    ),
    "timed": _scaled({"grid_offset": 1, "grid_step": 1, "fps": 2}),
    "halves": _scaled({"grid_offset": 1}),
    "floored": _scaled({}),
    "spread": _spread,
    "pixels": lambda _, __: (0.0, 4.0),
    "centred": lambda _, __: (0.0, 4.0),
    "fractions": lambda _, __: (0.0, 6.0),
}


def axial_rotation_expectation(question: Question) -> Expectation:
    """Return x, rotated along axes, of the shape of x; raises PosrefError."""
    names = ENDPOINTS["/rope/axial"].parameters.model_fields
    kept = {
        name: each for name, each in question.parameters.items() if name in names and name != "axes"
    }
    if "axes_dim" not in kept:
        kept.setdefault("head_dim", np.shape(question.x)[-1])
    table = axial_expectation(Question("table", "/rope/axial", kept))
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
