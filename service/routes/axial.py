"""``/rope/axial``: rotary tables of images and videos, by the conventions of who makes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from service.delivery.resource import Resource
from service.errors import Fault, InvalidParameters
from service.grammar import spelled
from service.routes.axial_parameters import AXES, AxialParameters
from service.routes.axial_series import frequency_rules
from service.routes.axis_positions import check_grid
from service.routes.parameters import impossible
from service.routes.rope_turns import check_rounding
from service.tables.axes import RowPositions
from service.tables.axial import (
    CONVENTIONS,
    AxialTurns,
    Convention,
    WithClassToken,
    placed,
)
from service.tables.bands import Measured
from service.tables.coordinates import Coordinates, centred, counted, pixels, spread
from service.tables.document import Document
from service.tables.grid import GridAxis
from service.tables.limits import MAX_FACTOR, MIN_SCALE, MIN_UNIT

# Which parameters go with which places of tokens, and which series of frequencies.
_OF_PLACES = {
    "counted": ("grid_offset", "reference_grid"),
    "spread": ("grid_start", "grid_stop"),
    "pixels": ("grid_offset",),
    "centred": ("grid_offset", "normalize_coords"),
}
_OF_SERIES = {
    "geometric": ("rope_theta",),
    "periods": ("rope_theta", "min_period", "max_period"),
    "pixels": ("max_freq", "linear_bands"),
    "ones": (),
}


@dataclass(frozen=True)
class _Along:
    """The positions of tokens along an axis, and the coordinate that position 1 stands for."""

    positions: RowPositions
    unit: Fraction


def _axial(parameters: AxialParameters) -> Document:
    convention = CONVENTIONS[parameters.convention]
    check_rounding(parameters.angle, parameters.channels)
    _refuse_others(parameters, convention)
    along, rows = _from_grid(parameters, convention) if parameters.grid else _given(parameters)
    _check_axes(parameters, convention, len(along))
    if parameters.angle == "float32" and any(a.unit != 1 for a in along):
        rule = "angle=float32 is for whole coordinates: engines round others before they multiply"
        raise impossible("angle", parameters.angle, rule)
    if parameters.class_token is not None:
        is_first = {"first": True, "last": False}[parameters.class_token]
        along = [_Along(WithClassToken(a.positions, rows, is_first), a.unit) for a in along]
        rows += 1
    if convention.is_reversed != (parameters.grid_indexing == "xy"):
        # As meshgrid's indexing="xy" has it, which leaves a third axis where it is.
        along = [*along[1::-1], *along[2:]]
    rules = frequency_rules(parameters, convention, len(along))
    measured = [Measured(rule, a.unit) for rule, a in zip(rules, along, strict=True)]
    axes = placed(measured, [a.positions for a in along], convention.placing)
    turns = AxialTurns(axes, rows, parameters.canonical(), parameters.angle)
    return parameters.packed("rope-axial", turns)


def _refuse_others(parameters: AxialParameters, convention: Convention) -> None:
    """Refuse what means nothing in a convention, or beside positions."""
    of_series = _OF_SERIES[convention.series]
    taken = {*_OF_PLACES[convention.places], *of_series}
    known = {name for names in (*_OF_PLACES.values(), *_OF_SERIES.values()) for name in names}
    whose = dict.fromkeys(known - taken, f"convention={parameters.convention}")
    if parameters.inv_freq is not None:
        whose |= dict.fromkeys(of_series, "inv_freq")
    if parameters.grid is not None:
        whose |= {f"positions_{axis}": "grid" for axis in AXES[1:]}
    else:
        whose |= dict.fromkeys(
            (*_OF_PLACES[convention.places], "grid_indexing", "spatial_merge_size"), "positions"
        )
    faults = [
        Fault(name, spelled(value), f"{name} does not go with {other}")
        for name, other in whose.items()
        if (value := getattr(parameters, name)) is not None
    ]
    if faults:
        raise InvalidParameters(*faults)


def _check_axes(parameters: AxialParameters, convention: Convention, axes: int) -> None:
    if axes not in convention.axes:
        counts = " or ".join(map(str, sorted(convention.axes)))
        rule = f"convention={parameters.convention} has {counts} axes, not {axes}"
        name = "grid" if parameters.grid else "positions_w"
        raise impossible(name, getattr(parameters, name), rule)


def _given(parameters: AxialParameters) -> tuple[list[_Along], int]:
    """Give the positions along each axis as they were listed."""
    given = parameters.positions_by_axis(every=False)
    if not given:
        raise impossible("grid", None, "grid is required, unless positions are given")
    if CONVENTIONS[parameters.convention].places != "counted":
        rule = f"positions do not go with convention={parameters.convention}: give a grid"
        raise impossible("positions_w", given["w"], rule)
    scales = _each(parameters, "interpolation_scale", len(given), [1.0] * len(given))
    along = [_Along(each, 1 / scale) for each, scale in zip(given.values(), scales, strict=True)]
    return along, given["w"].count


def _from_grid(parameters: AxialParameters, convention: Convention) -> tuple[list[_Along], int]:
    """Give the positions of the tokens of a grid."""
    grid = parameters.grid or ()
    check_grid(grid)
    scales = _each(parameters, "interpolation_scale", len(grid), [1.0] * len(grid))
    along = []
    for axis, coordinates in enumerate(_coordinates(parameters, convention, grid)):
        unit = coordinates.unit
        if not coordinates.is_countable or unit < MIN_UNIT:
            raise _uncountable(parameters, convention)
        first, step = int(coordinates.first / unit), int(coordinates.step / unit)
        positions = GridAxis(first, step, grid[axis], prod(grid[axis + 1 :]))
        along.append(_Along(_in_blocks(parameters, positions, axis, grid), unit / scales[axis]))
    if convention.repeats_frames and len(grid) == 3:
        along = along[1:]
    return along, prod(grid)


def _in_blocks(
    parameters: AxialParameters, positions: GridAxis, axis: int, grid: Sequence[int]
) -> RowPositions:
    """Give the positions along an axis of tokens in the order that is asked for."""
    size, columns = parameters.spatial_merge_size, len(grid) - 1
    if size is None or axis < columns - 1:
        return positions
    if columns == 0 or positions.length % size:
        rule = f"spatial_merge_size must divide the last two of grid, {spelled(grid)}"
        raise impossible("spatial_merge_size", size, rule)
    return positions.in_blocks(size, grid[-1], is_column=axis == columns)


def _uncountable(parameters: AxialParameters, convention: Convention) -> InvalidParameters:
    """Make the error of what places tokens where no integer can count."""
    names = _OF_PLACES[convention.places]
    given = [name for name in names if getattr(parameters, name) is not None] or ["grid"]
    rule = "leads to coordinates with too many digits: give shorter numbers"
    return InvalidParameters(
        *(Fault(name, spelled(getattr(parameters, name)), f"{name} {rule}") for name in given)
    )


def _coordinates(
    parameters: AxialParameters, convention: Convention, grid: Sequence[int]
) -> list[Coordinates]:
    axes = len(grid)
    if convention.places == "spread":
        starts = _each(parameters, "grid_start", axes, [0.0] * axes)
        stops = _each(parameters, "grid_stop", axes, grid)
        return [spread(*each) for each in zip(grid, starts, stops, strict=True)]
    offsets = _each(parameters, "grid_offset", axes, [convention.offset] * axes)
    if convention.places == "pixels":
        return [pixels(*each) for each in zip(grid, offsets, strict=True)]
    if convention.places == "centred":
        sides = {"max": [max(grid)] * axes, "min": [min(grid)] * axes}
        chosen = sides.get(parameters.normalize_coords or "separate", grid)
        return [centred(*each) for each in zip(grid, offsets, chosen, strict=True)]
    if parameters.reference_grid is None:
        return [counted(*each) for each in zip(grid, offsets, strict=True)]
    references = _each(parameters, "reference_grid", axes, ())
    return [counted(*each) for each in zip(grid, offsets, references, strict=True)]


def _each(
    parameters: AxialParameters, name: str, axes: int, default: Sequence[float]
) -> list[Fraction]:
    """Give a number for every axis, in the order of the grid."""
    numbers = getattr(parameters, name)
    if numbers is not None and len(numbers) not in {1, axes}:
        rule = f"{name} must be one number, or {axes}, one for each axis"
        raise impossible(name, numbers, rule)
    if numbers is not None and name in {"interpolation_scale", "reference_grid"}:
        _check_positive(name, numbers)
    listed = default if numbers is None else numbers * (axes // len(numbers))
    return [Fraction(number) for number in listed]


def _check_positive(name: str, numbers: Sequence[float]) -> None:
    if not all(MIN_SCALE <= number <= MAX_FACTOR for number in numbers):
        rule = f"{name} must be numbers from {MIN_SCALE:g} to {MAX_FACTOR:g}"
        raise impossible(name, numbers, rule)


AXIAL = Resource(
    path="/rope/axial",
    operation="RopeAxial",
    summary="The rotary table of an image or a video, by the convention of a library or a model",
    parameters=AxialParameters,
    document=_axial,
    example="convention=qwen2_vl&head_dim=8&grid=2,3",
)
