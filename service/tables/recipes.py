"""Conventions filled in: from what was asked for to frequencies and channels."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from service.tables.angle import exact_context
from service.tables.bands import PixelBands
from service.tables.channels import Channels, Component
from service.tables.conventions import CONVENTIONS, Convention
from service.tables.document import ParameterValue
from service.tables.frequencies import FrequencyRule, Geometric, Spaced
from service.tables.recipe import Recipe, SpreadRecipe

_DEFAULTS: Mapping[str, float] = MappingProxyType(
    {
        "base": 10000.0,
        "max_timescale": 10000.0,
        "min_timescale": 1.0,
        "max_freq": 1.0,
        "min_freq": 1e-4,
    }
)


@dataclass(frozen=True)
class Ends:
    """The two numbers that the frequencies of a convention lie between.

    Attributes:
        least_name, greatest_name: the parameters that they are.
        least, greatest: the numbers, the second of which may be the smaller one.
        is_of_frequencies: whether they are those, not timescales (of which a base is one).
    """

    least_name: str
    greatest_name: str
    least: float
    greatest: float
    is_of_frequencies: bool

    @property
    def frequencies(self) -> tuple[float, float]:
        """Give the slowest frequency there may be, and the fastest."""
        first, last = self.least, self.greatest
        if not self.is_of_frequencies:
            last = self.least / self.greatest * self.least
        return min(first, last), max(first, last)


def ends(convention: Convention, given: Mapping[str, Any]) -> Ends:
    """Say what the frequencies of a convention lie between."""
    names = "min_timescale", "max_timescale" if "max_timescale" in given else "base"
    if convention.has_bounds:
        names = "min_freq", "max_freq"
    least, greatest = (given.get(name, _DEFAULTS[name]) for name in names)
    return Ends(*names, least, greatest, convention.has_bounds)


def recipe(name: str, d_model: int, given: Mapping[str, Any]) -> Recipe:
    """Fill a convention in.

    Args:
        name: one of CONVENTIONS.
        d_model: channels, as the library calls them; the table may have one more or less.
        given: parameters that were given, none that the convention does not have.
    """
    convention = CONVENTIONS[name]
    if convention.spacing == "bands":
        return _spread(name, d_model, given)
    rule, of_frequencies = _frequencies(convention, d_model, given)
    layout = given.get("layout", convention.layout)
    flip = next((flag for flag in ("cos_first", "flip_sin_to_cos") if flag in convention.takes), "")
    is_flipped = given.get(flip, False)
    scale = given.get("scale", _scale(convention, d_model))
    padding_idx = given.get("padding_idx", convention.padding_idx)
    first = padding_idx + 1 if convention.offset is None else convention.offset
    rows = {"offset": given.get("offset", first), "padding_idx": padding_idx}
    optional = {flip: is_flipped, "scale": scale, **rows}
    return Recipe(
        rule,
        Channels(
            ("cos", "sin") if is_flipped else ("sin", "cos"),
            interleaved=layout == "interleaved",
            width=convention.width(d_model),
            zeros=convention.zeros(d_model),
        ),
        {"convention": name, "d_model": d_model, **of_frequencies},
        {"layout": layout, **{key: optional[key] for key in convention.takes if key in optional}},
        scale,
        **rows,
    )


def _scale(convention: Convention, d_model: int) -> float:
    """Give what the encoding is multiplied by: the float64 nearest to it."""
    if convention.scale is None:
        return 1.0
    context = exact_context()
    return float(context.sqrt(context.divide(Decimal(convention.scale), Decimal(d_model))))


def _frequencies(
    convention: Convention, d_model: int, given: Mapping[str, Any]
) -> tuple[FrequencyRule, dict[str, ParameterValue]]:
    """Give the frequencies, and the parameters that fix them."""
    count, dim = max(convention.count(d_model), 1), max(convention.span(d_model), 1)
    between = ends(convention, given)
    least, greatest = between.least, between.greatest
    if convention.has_bounds:
        turns = given.get("full_turns", False)
        rule = Spaced(greatest, least, greatest, dim, count, turns)
        return rule, {"min_freq": least, "max_freq": greatest, "full_turns": turns}
    if least == 1:
        return Geometric(greatest, dim, count), {"base": greatest}
    rule = Spaced(least, least, greatest, dim, count)
    return rule, {"min_timescale": least, "max_timescale": greatest}


def bands(d_model: int, *, concat_pos: bool, sine_only: bool) -> int:
    """Count the bands of so many channels of Perceiver; 0 where no number of them fits."""
    count, rest = divmod(d_model - concat_pos, 1 if sine_only else 2)
    return 0 if rest else count


def _spread(name: str, d_model: int, given: Mapping[str, Any]) -> SpreadRecipe:
    has_coordinates, is_sine = given.get("concat_pos", True), given.get("sine_only", False)
    count = bands(d_model, concat_pos=has_coordinates, sine_only=is_sine)
    components: tuple[Component, ...] = ("sin",) if is_sine else ("sin", "cos")
    return SpreadRecipe(
        PixelBands(given["max_resolution"], count, is_linear=True),
        Channels(components, interleaved=False, width=count * len(components)),
        {
            "convention": name,
            "d_model": d_model,
            "max_resolution": given["max_resolution"],
            "concat_pos": has_coordinates,
            "sine_only": is_sine,
        },
        {"layout": "concatenated"},
        has_coordinates=has_coordinates,
    )
