"""``/encoding/grid``: sin-cos tables of images and videos, by the conventions of who makes them."""

from collections.abc import Iterator
from math import prod
from typing import Any

from service.delivery.resource import Resource
from service.errors import Fault, InvalidParameters
from service.grammar import spelled
from service.routes.encoding_grid_parameters import GridParameters
from service.routes.parameters import impossible
from service.tables.document import Document
from service.tables.dtypes import REAL_DTYPES
from service.tables.grid_conventions import (
    AXES,
    CONVENTIONS,
    Convention,
    channels_of,
    convention_for,
    sincos_grid,
)
from service.tables.grid_layouts import Grid
from service.tables.limits import MAX_AXES_CHANNELS, MAX_FACTOR, MAX_LENGTH

_OWN = frozenset(
    name for known in CONVENTIONS.values() for convention in known for name in convention.takes
)


def _grid(parameters: GridParameters) -> Document:
    lengths = _lengths(parameters)
    convention = _convention(parameters, len(lengths))
    _check_taken(parameters, convention)
    values = _values(parameters, convention, len(lengths))
    grid = Grid(lengths, _channels(parameters, convention, Grid(lengths, 0, values)), values)
    _check_channels(grid, convention)
    channels_first = parameters.channels_first
    return sincos_grid(
        grid,
        convention,
        name=parameters.convention,
        channels_first=convention.channels_first if channels_first is None else channels_first,
        dtype=REAL_DTYPES[parameters.dtype],
    )


def _lengths(parameters: GridParameters) -> dict[str, int]:
    given = {axis: getattr(parameters, axis) for axis in AXES}
    if parameters.depth is not None and parameters.height is None:
        raise impossible("height", None, "height is required beside depth")
    lengths = {axis: length for axis, length in given.items() if length is not None}
    if prod(lengths.values()) > MAX_LENGTH:
        rule = "height, width and depth must make at most 2^62 tokens"
        raise impossible("height", parameters.height, rule)
    return lengths


def _convention(parameters: GridParameters, axes: int) -> Convention:
    convention = convention_for(parameters.convention, axes)
    if convention is None:
        counts = sorted(n for known in CONVENTIONS[parameters.convention] for n in known.axes)
        rule = (
            f"convention={parameters.convention} has {' or '.join(map(str, counts))} axes, not "
            f"{axes}: width is the first, height the second, depth the third"
        )
        name = "height" if axes < counts[0] else AXES[-axes]
        raise impossible(name, getattr(parameters, name), rule)
    return convention


def _check_taken(parameters: GridParameters, convention: Convention) -> None:
    """Refuse what means nothing in a convention, and ask for what it cannot do without."""
    faults = [
        *_unused(parameters, convention),
        *(
            Fault(name, None, f"{name} is required by convention={parameters.convention}")
            for name in convention.required
            if getattr(parameters, name) is None
        ),
    ]
    if faults:
        raise InvalidParameters(*faults)
    if parameters.scale is not None and not parameters.normalize:
        raise impossible("scale", parameters.scale, "scale goes with normalize=true")
    if "extra_tokens" in convention.takes:
        _check_extra_tokens(parameters)


def _unused(parameters: GridParameters, convention: Convention) -> Iterator[Fault]:
    axes = sum(getattr(parameters, axis) is not None for axis in AXES)
    for name in sorted(_OWN - convention.takes):
        value: Any = getattr(parameters, name)
        if value is not None:
            rule = f"{name} does not go with convention={parameters.convention}"
            of_others = any(name in known.takes for known in CONVENTIONS[parameters.convention])
            yield Fault(name, spelled(value), f"{rule} of {axes} axes" if of_others else rule)


def _check_extra_tokens(parameters: GridParameters) -> None:
    """Refuse half of what diffusers adds rows for, since it then adds none."""
    if bool(parameters.cls_token) != (parameters.extra_tokens is not None):
        rule = "adds rows of zeros only for cls_token=true together with extra_tokens"
        name = "cls_token" if parameters.cls_token else "extra_tokens"
        value = getattr(parameters, name)
        raise impossible(name, value, f"convention={parameters.convention} {rule}")


def _values(parameters: GridParameters, convention: Convention, axes: int) -> dict[str, Any]:
    """Give the parameters of a convention's own, with what they are unless given."""
    values: dict[str, Any] = dict(convention.defaults)
    for name in sorted(convention.takes):
        given = getattr(parameters, name)
        if given is not None:
            values[name] = given
    if "max_resolution" in values:
        values["max_resolution"] = _resolutions(values["max_resolution"], axes)
    if "base_size" in values:
        values["base_size"] = _size(values["base_size"])
    return values


def _resolutions(given: tuple[int, ...], axes: int) -> tuple[int, ...]:
    if len(given) not in {1, axes} or not all(1 <= each <= MAX_FACTOR for each in given):
        rule = f"max_resolution must be one number, or {axes}, one for each axis, from 1 to 10^9"
        raise impossible("max_resolution", given, rule)
    return given * (axes // len(given))


def _size(given: float) -> float:
    """Give a length that is a whole number of patches as an integer, which is how it is said."""
    return int(given) if given == int(given) else given


def _channels(parameters: GridParameters, convention: Convention, grid: Grid) -> int:
    given = parameters.d_model
    if not convention.gives_channels:
        if given is None:
            raise impossible("d_model", None, "d_model is required")
        return given
    channels = channels_of(grid, convention)
    if channels > MAX_AXES_CHANNELS:
        rule = f"num_bands makes {channels} channels, and there may be {MAX_AXES_CHANNELS}"
        raise impossible("num_bands", parameters.num_bands, rule)
    if given not in {None, channels}:
        rule = f"d_model is {channels} here, as num_bands makes it: leave it out"
        raise impossible("d_model", given, rule)
    return channels


def _check_channels(grid: Grid, convention: Convention) -> None:
    if grid.d_model % convention.multiple_of:
        rule = f"d_model must be a multiple of {convention.multiple_of} here"
        raise impossible("d_model", grid.d_model, rule)
    if convention.is_spread and grid.d_model // (2 * grid.axes) == 1:
        rule = (
            f"d_model {grid.d_model} leaves one frequency for each axis, where the library divides "
            "by zero: exponents are k/(n - 1)"
        )
        raise impossible("d_model", grid.d_model, rule)


GRID = Resource(
    path="/encoding/grid",
    operation="EncodingGrid",
    summary="The sin-cos table of an image or a video, by the convention of a library",
    parameters=GridParameters,
    document=_grid,
    example="convention=mae&height=2&width=3&d_model=8",
)
