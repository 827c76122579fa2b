"""Axial rotary tables for the tokens of an image or a video; each axis has its own channels.

Each frequency is multiplied by the coordinate along one axis. ``axial_conventions`` defines the
channels, frequencies and coordinates of each axis for each library and model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from service.encodings.family import Integers, Reals, about, impossible, optional, refuse_excluded
from service.encodings.grid.grids import (
    Coordinates,
    GridAxis,
    WithOtherRows,
    centred,
    counted,
    fitted,
    floored,
    fractions,
    halves,
    pixels,
    spread,
)
from service.encodings.meaning import Meaning, NamedVariant
from service.encodings.position_parameters import SentPositions, check_rank
from service.encodings.rotary.angles import AXES, PACKS, AxesAngles, PackedTable, RotaryAngles
from service.encodings.rotary.axial_conventions import CONVENTIONS, COUNTED, PARAMETERS_OF_PLACES
from service.encodings.rotary.frequencies_by_axis import MAX_AXES, OF_BLOCKS, AxialSeries
from service.encodings.rotary.rope import AxisParameters, check_grid, check_rounding
from service.encodings.rotary.rules import GivenFrequencies
from service.errors import Fault, InvalidBody, InvalidParameters
from service.grammar import Integer, Real, to_query
from service.numerics.axes import AngleRounding, Axis
from service.numerics.limits import MAX_FACTOR, MIN_FACTOR, MIN_SCALE, MIN_UNIT
from service.numerics.phase import MAX_POSITION, Int64s, ScaledFrequencies
from service.numerics.positions import PositionArray, RowPositions
from service.numerics.tables import ParameterValue

_POSITIONS = tuple(f"positions_{axis}" for axis in AXES)
_FOUR_AXES = (*AXES, "l")
_CANONICAL = (
    *("axes_dim", "grid", *_POSITIONS, "spatial_merge_size", "grid_indexing"),
    *("rope_theta", "inv_freq", "min_period", "max_period", "max_freq", "linear_bands"),
    *("grid_offset", "grid_step", "fps", "reference_grid", "grid_start", "grid_stop"),
    *("interpolation_scale", "ntk_scale"),
    *("normalize_coords", "class_token"),
)


AxisPositions: TypeAlias = tuple[RowPositions, Fraction, Fraction]
"""The positions of tokens along an axis, what is added to each, and the coordinate of 1."""


def _per_axis(description: str, example: str) -> Any:
    text = f"{description} One number for every axis, or one for all."
    return optional(text, example, max_length=MAX_AXES)


class AxialAngles(AxisParameters, AxialSeries):
    """The coordinates of tokens along each axis, and the angles by the convention."""

    not_in_queries: ClassVar[frozenset[str]] = frozenset({"positions"})

    grid: Integers | None = optional(
        "Number of tokens along each axis, as height,width or time,height,width; tokens are "
        "numbered along the last axis first. Required unless positions are given.",
        "4,6",
        max_length=MAX_AXES,
    )
    spatial_merge_size: Integer | None = optional(
        "Number of rows and columns of the blocks in which tokens are numbered, as in vision "
        "models that merge patches (Qwen-VL: 2); row by row unless given.",
        2,
        ge=1,
        le=64,
    )
    grid_offset: Reals | None = _per_axis(
        "The number added to coordinates. llama4 and efficientloftr need it with positions alone: "
        "1, or 0 if they count from 1.",
        "0.5",
    )
    grid_step: Reals | None = _per_axis(
        "The distance of neighbouring tokens; 1 unless given.", "8,32,32"
    )
    fps: Real | None = optional(
        "Frames per second: the coordinate of time, the first axis, is divided by it.",
        25,
        ge=MIN_FACTOR,
        le=MAX_FACTOR,
    )
    reference_grid: Reals | None = _per_axis(
        "The grid that coordinates are scaled to; in conventions with grid_start the rows and "
        "columns that the grid is fitted into, in place of grid_start and grid_stop. ltx needs it "
        "with positions alone: 1 for shares, 20,2048,2048 for seconds and pixels.",
        "16,16",
    )
    grid_start: Reals | None = _per_axis("The first coordinate; 0 unless given.", "0,0")
    grid_stop: Reals | None = _per_axis(
        "The exclusive end of coordinates; the number of tokens unless given.", "30,45"
    )
    interpolation_scale: Reals | None = _per_axis("Divisor of coordinates.", "1,2,2")
    normalize_coords: Literal["separate", "max", "min"] | None = optional(
        "Which side of the grid has the coordinates -1 to 1: each side (separate), the longer side "
        "(max) or the shorter side (min); separate unless given.",
        "max",
    )
    class_token: Literal["first", "last"] | None = optional(
        "Adds a token at position 0 of every axis, before (first) or after (last) the others.",
        "last",
    )
    positions: SentPositions | None = optional(
        "In a body: the coordinates of tokens as an array (axes, S) or (axes, B, S), in the order "
        "of grid, in place of it; beside it the numbers of its cells from 0, for any convention.",
        "0,1",
    )
    angle: AngleRounding = about(
        "exact: exact angles; float32: frequencies and angles rounded to float32, as engines do.",
        "float32",
        default="exact",
    )

    def angle_parameters(self) -> dict[str, ParameterValue]:
        """Return the parameters that determine the angles, with the convention's defaults."""
        grid, offset, reference = self.grid or (), self.recipe.offset, self.recipe.reference
        defaults: dict[str, ParameterValue] = {}
        axes, sent = len(grid), {}
        if self.positions is not None:
            axes, sent = self.positions.shape[0], self.positions.parameters()
        if grid and offset:
            defaults["grid_offset"] = (float(offset),)
        if axes and reference:
            defaults["reference_grid"] = tuple(map(float, reference[:axes]))
        return self.canonical_values(_CANONICAL, defaults) | sent

    def angles(self) -> RotaryAngles:
        """Return the angles of all tokens; raises InvalidParameters."""
        check_rounding(self.angle, self.head_channels)
        self._refuse_others()
        ways = {"grid": self._from_grid, "positions": self._from_array}
        given = (read for name, read in ways.items() if getattr(self, name) is not None)
        along, tokens = next(given, self._from_lists)()
        if len(along) not in self.recipe.axes:
            name = "grid" if self.grid else "positions_w"
            rule = self.recipe.refused_axes(self.convention, len(along))
            raise impossible(name, getattr(self, name), rule)
        if self.angle == "float32" and any(unit != 1 or shift for _, shift, unit in along):
            rule = (
                "angle=float32 requires integer coordinates: engines round fractional ones to "
                "float32 first"
            )
            raise impossible("angle", self.angle, rule)
        if self.class_token is not None:
            before = int(self.class_token == "first")  # noqa: S105
            along = [
                (WithOtherRows(each, prod(tokens), before), shift, unit)
                for each, shift, unit in along
            ]
            tokens = (prod(tokens) + 1,)
        along = [along[axis] for axis in self.order_of_axes(len(along))]
        rules = self.frequency_rules(len(along))
        axes = tuple(
            Axis(ScaledFrequencies(rule, unit), positions, columns, shift)
            for rule, (positions, shift, unit), columns in zip(
                rules, along, self.columns(rules), strict=True
            )
        )
        if padding := self.padding(rules):
            resting = GivenFrequencies((0.0,) * padding)
            axes = Axis(resting, along[0][0], tuple(range(padding))), *axes
        return AxesAngles(axes, tokens, self.angle_parameters(), self.angle)

    def _refuse_others(self) -> None:
        """Raise InvalidParameters for parameters that convention, grid or inv_freq exclude."""
        own = PARAMETERS_OF_PLACES[self.recipe.places]
        others = (name for names in PARAMETERS_OF_PLACES.values() for name in names)
        excluded = {name: f"convention={self.convention}" for name in others if name not in own}
        excluded |= self.excluded_of_series()
        if self.grid is not None:
            excluded |= dict.fromkeys(_POSITIONS, "grid")
        else:
            excluded |= dict.fromkeys((*own, "spatial_merge_size"), "positions")
            if self.positions is None:
                excluded["grid_indexing"] = "positions"
            elif needed := self._needed_with_positions():
                del excluded[needed[0]]
        if self.positions is not None:
            beside = ("class_token", "spatial_merge_size", *_POSITIONS)
            excluded |= dict.fromkeys(beside, "positions")
        refuse_excluded(self, excluded)

    def _from_lists(self) -> tuple[list[AxisPositions], tuple[int, ...]]:
        """Return the listed positions and the unit of each axis, and the number of tokens."""
        given = self.positions_by_axis()
        if not given:
            raise impossible("grid", None, "grid is required, unless positions are given")
        if self.recipe.places not in COUNTED:
            rule = f"positions_w does not go with convention={self.convention}: give a grid"
            raise impossible("positions_w", self.positions_w, rule)
        return self._in_units(list(given.values())), given["w"].shape

    def _array(self, axes: int) -> PositionArray:
        """Return the sent positions; raises PosrefError unless they are along so many axes."""
        positions = self.positions
        if not isinstance(positions, PositionArray):
            rule = "positions is an array in a body: list positions_t, positions_h and positions_w"
            raise impossible("positions", positions, rule)
        names = _FOUR_AXES if axes == MAX_AXES else AXES[-axes:]
        if self.grid is None and self.grid_indexing == "xy" and axes > 1:
            names = (names[1], names[0], *names[2:])
        check_rank(positions, names)
        return positions

    def _from_array(self) -> tuple[list[AxisPositions], tuple[int, ...]]:
        """Return the sent coordinates and the unit of each axis, and the lengths of other axes."""
        if self.recipe.places not in COUNTED | {"fractions"}:
            rule = f"grid is required with convention={self.convention}: positions are its cells"
            raise impossible("grid", None, rule)
        counts = (len(self.axes_dim),) if self.axes_dim else self.recipe.axes
        sent = getattr(self.positions, "shape", (0,))[0]
        axes = sent if sent in counts else counts[0]
        positions = self._array(axes)
        along = self._in_units(positions.along())
        name, rule = self._needed_with_positions() or ("positions", "")
        if getattr(self, name) is None and not self.recipe.has_midpoints:
            raise impossible(name, None, f"{name} is required with positions: {rule}")
        if name == "reference_grid":
            axes = len(along)
            references = self._each_axis(name, axes, (self.recipe.reference * axes)[:axes])
            along = [
                (each, -full / 2, unit / full)
                for (each, _, unit), full in zip(along, references, strict=True)
            ]
        elif name == "grid_offset":
            along = self._moved(along)
        return along, positions.shape[1:]

    def _needed_with_positions(self) -> tuple[str, str] | None:
        """Return the parameter without which sent positions are unclear, and its rule."""
        if self.recipe.places == "fractions":
            of_ltx = "1 for shares, as /positions has them by ltx"
            return (
                "reference_grid",
                f"{of_ltx}, 20,2048,2048 for seconds and pixels (ltx_condition)",
            )
        if self.recipe.offset:
            from_one = f"{self.recipe.offset} for those that count from 0, as /positions has them"
            return "grid_offset", f"{from_one}, or 0 for coordinates"
        return None

    def _moved(self, along: Sequence[AxisPositions]) -> list[AxisPositions]:
        """Return sent positions plus grid_offset."""
        offsets = self._each_axis("grid_offset", len(along), ())
        moved: list[AxisPositions] = []
        for (sent, shift, unit), offset in zip(along, offsets, strict=True):
            positions = sent
            if offset and isinstance(positions, PositionArray):
                are_whole = positions.is_whole and offset.denominator == 1
                if not are_whole or positions.farthest + abs(offset) > MAX_POSITION:
                    rule = "grid_offset and positions must be integers, with sums within ±2^62"
                    raise impossible("grid_offset", self.grid_offset, rule)
                positions = positions.moved(int(offset))
            moved.append((positions, shift, unit))
        return moved

    def _in_units(self, along: Sequence[RowPositions]) -> list[AxisPositions]:
        """Return positions with the unit of each axis."""
        scales = self._each_axis("interpolation_scale", len(along), [1.0] * len(along))
        pairs = zip(along, scales, strict=True)
        return [(positions, Fraction(0), 1 / scale) for positions, scale in pairs]

    def _from_grid(self) -> tuple[list[AxisPositions], tuple[int, ...]]:
        """Return the positions and the unit of each axis, and the number or axes of the tokens.

        Tokens are all cells of the grid, or those that are sent.
        """
        grid = self.grid or ()
        check_grid(grid)
        scales = self._each_axis("interpolation_scale", len(grid), [1.0] * len(grid))
        cells = None if self.positions is None else self._cells(grid)
        along = []
        for axis, coordinates in enumerate(self._coordinates(grid)):
            unit = coordinates.unit
            if not coordinates.is_countable or unit < MIN_UNIT:
                raise self._too_many_digits()
            positions: RowPositions
            if cells is not None:
                positions = PositionArray(coordinates.positions(1).of(cells[axis]))
            else:
                positions = coordinates.positions(prod(grid[axis + 1 :]))
                positions = self._in_blocks(positions, axis, grid)
            along.append((positions, Fraction(0), unit / scales[axis]))
        if self.recipe.repeats_frames and len(grid) == 3:
            along = along[1:]
        return along, (prod(grid),) if cells is None else cells.shape[1:]

    def _cells(self, grid: Sequence[int]) -> Int64s:
        """Return the numbers of the cells of a grid that are sent, with its axes first."""
        cells: Int64s = self._array(len(grid)).numbers
        ends = np.array(grid).reshape(-1, *(1,) * (cells.ndim - 1))
        are_wrong = (cells < 0) | (cells >= ends) | (cells != np.trunc(cells))
        if are_wrong.any():
            index = np.unravel_index(are_wrong.argmax(), cells.shape)
            rule = f"positions beside grid are its cells: integers from 0 to {grid[index[0]] - 1}"
            place = "".join(f"/{number}" for number in index)
            raise InvalidBody(rule, f"/positions{place}", to_query(cells[index].item()))
        return cells

    def _in_blocks(self, positions: RowPositions, axis: int, grid: Sequence[int]) -> RowPositions:
        """Return the positions along an axis in token order: row by row, or in merged blocks."""
        size, columns = self.spatial_merge_size, len(grid) - 1
        if size is None or axis < columns - 1:
            return positions
        if not isinstance(positions, GridAxis):
            rule = f"spatial_merge_size does not go with convention={self.convention}"
            raise impossible("spatial_merge_size", size, rule)
        if columns == 0 or positions.length % size:
            rule = f"spatial_merge_size must divide the last two of grid, {to_query(grid)}"
            raise impossible("spatial_merge_size", size, rule)
        return positions.in_blocks(size, grid[-1], is_column=axis == columns)

    def _too_many_digits(self) -> InvalidParameters:
        """Return the error for coordinates without a common unit that is large enough."""
        names = PARAMETERS_OF_PLACES[self.recipe.places]
        given = [name for name in names if getattr(self, name) is not None] or ["grid"]
        rule = "leads to coordinates with too many digits: give shorter numbers"
        return InvalidParameters(
            *(Fault(name, to_query(getattr(self, name)), f"{name} {rule}") for name in given)
        )

    def _coordinates(self, grid: Sequence[int]) -> list[Coordinates]:
        axes, places = len(grid), self.recipe.places
        if places == "spread":
            starts = self._each_axis("grid_start", axes, [0.0] * axes)
            stops = self._each_axis("grid_stop", axes, grid)
            if self.reference_grid is not None:
                starts[-2:], stops[-2:] = self._fitted(grid, self.reference_grid)
            return [spread(*each) for each in zip(grid, starts, stops, strict=True)]
        offsets = self._each_axis("grid_offset", axes, [self.recipe.offset] * axes)
        if places == "pixels":
            return [pixels(*each) for each in zip(grid, offsets, strict=True)]
        if places == "centred":
            sides = {"max": [max(grid)] * axes, "min": [min(grid)] * axes}
            chosen = sides.get(self.normalize_coords or "separate", grid)
            return [centred(*each) for each in zip(grid, offsets, chosen, strict=True)]
        if places == "halves":
            across = [halves(*each) for each in zip(grid, offsets, strict=True)]
            return [counted(grid[0], offsets[0]), *across[1:]]
        return self._scaled(grid, offsets)

    def _scaled(self, grid: Sequence[int], offsets: list[Fraction]) -> list[Coordinates]:
        """Return the coordinates of conventions with grid_step, fps or reference_grid."""
        axes, places = len(grid), self.recipe.places
        references = self._each_axis("reference_grid", axes, (self.recipe.reference * axes)[:axes])
        if places == "floored":
            if any(each.denominator != 1 for each in references):
                rule = f"reference_grid must be whole numbers with convention={self.convention}"
                raise impossible("reference_grid", self.reference_grid, rule)
            return [floored(n, int(each)) for n, each in zip(grid, references, strict=True)]
        steps = self._each_axis("grid_step", axes, [1.0] * axes)
        if self.fps is not None:
            seconds = self.recipe.base_fps / Fraction(self.fps)
            steps[0], offsets[0] = steps[0] * seconds, offsets[0] * seconds
        if places == "fractions":
            middle = self.recipe.has_midpoints
            every = zip(grid, steps, offsets, references, strict=True)
            return [fractions(*each, has_midpoints=middle) for each in every]
        if not references:
            return [Coordinates(*each) for each in zip(offsets, steps, grid, strict=True)]
        if self.grid_step is not None:
            rule = "grid_step does not go with reference_grid"
            raise impossible("grid_step", self.grid_step, rule)
        return [counted(*each) for each in zip(grid, offsets, references, strict=True)]

    def _fitted(
        self, grid: Sequence[int], reference: Sequence[float]
    ) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        """Return starts and stops of the rows and columns of a grid fitted into another."""
        excluded = dict.fromkeys(("grid_start", "grid_stop"), "reference_grid")
        refuse_excluded(self, excluded)
        is_whole = all(1 <= each <= MAX_FACTOR and each == int(each) for each in reference)
        if len(reference) != 2 or len(grid) < 2 or not is_whole:
            rule = f"reference_grid must be rows,columns with convention={self.convention}"
            raise impossible("reference_grid", reference, rule)
        across, down = int(reference[1]), int(reference[0])
        ends = fitted(grid[-2], grid[-1], (down, across))
        starts, stops = zip(*ends, strict=True)
        return tuple(map(Fraction, starts)), tuple(map(Fraction, stops))

    def _each_axis(self, name: str, axes: int, default: Sequence[float]) -> list[Fraction]:
        """Return the value of parameter ``name`` for each axis, in the order of the grid."""
        numbers = getattr(self, name)
        if numbers is not None and len(numbers) not in {1, axes}:
            rule = f"{name} must be one number, or {axes}, one for each axis"
            raise impossible(name, numbers, rule)
        if numbers is None:
            return list(map(Fraction, default))
        is_scale = name in {"interpolation_scale", "reference_grid", "grid_step"}
        if is_scale and not all(MIN_SCALE <= number <= MAX_FACTOR for number in numbers):
            rule = f"{name} must be numbers from {MIN_SCALE:g} to {MAX_FACTOR:g}"
            raise impossible(name, numbers, rule)
        return [Fraction(number) for number in numbers * (axes // len(numbers))]


class Axial(PackedTable, AxialAngles, path="/rope/axial"):
    """Axial rotary tables, by the conventions of libraries and models.

    The channels are divided among the axes of a grid, height and width, or time, height and width;
    in the formulas of conventions w is the number of channels of an axis. Tokens are numbered row
    by row, or with spatial_merge_size=2 in the blocks of 2 by 2 that Qwen-VL merges. grid_offset is
    added to coordinates, and grid_indexing=xy swaps the first two axes in the channels. inv_freq
    replaces the frequencies of every axis (DINOv3 weights contain rounded periods). positions_t,
    positions_h and positions_w replace grid for conventions whose coordinates are integer
    positions; they are coordinates, the first of which is 1 in llama4 and efficientloftr. pack and
    part have the meaning that they have for ``/rope``. angle=float32 requires integer coordinates;
    fractional coordinates are exact.

    Formula: cos(c·ω) and sin(c·ω) for the coordinate c of a token on the axis of each frequency.
    Source: the library version in the description of each convention.
    Bound: every cosine and sine is within 4·2^-53 of the formula, rounded once to its element type.
    Trap: libraries differ in the order of axes, in coordinates and in frequencies: choose the
        convention of the library that runs the model.
    """

    operation: ClassVar[str] = "RopeAxial"
    summary: ClassVar[str] = (
        "The rotary table of an image or a video, by the convention of a library or a model"
    )
    example: ClassVar[str] = "convention=qwen2_vl&head_dim=8&grid=2,3"
    revision_of_bytes: ClassVar[int] = 2

    @classmethod
    def variants(cls) -> Iterator[NamedVariant]:
        for name, known in CONVENTIONS.items():
            takes = {*known.takes, *(_POSITIONS if known.places in COUNTED else ())}
            takes |= set() if known.places in {"floored", "fractions"} else {"spatial_merge_size"}
            blocks = {*OF_BLOCKS}
            takes = takes - blocks if known.placing == "strided" else takes | blocks - {"ntk_scale"}
            docs = {"formula": known.formula, "source": known.source}
            sizes, models = known.published, known.models
            yield NamedVariant.of(name, known.example, takes, sizes, models, **docs)

    def rotary_angles(self) -> RotaryAngles:
        return self.angles()

    def meaning(self) -> Meaning:
        is_by_rows = not (self.class_token or self.spatial_merge_size)
        # The pairs that do not rotate have an axis of their own.
        rules = [axis.rule for axis in self.angles().along()]
        count = sum(not isinstance(rule, GivenFrequencies) for rule in rules)
        return replace(
            super().meaning(),
            frequencies="/rope/axial/frequencies",
            of_frequencies={"num_axes": count},
            turns_by="coordinate",
            grid=self.grid or () if is_by_rows else (),
        )

    def packing(self) -> str:
        pack = super().packing()
        is_sent = self.grid is None and self.positions is not None
        if pack == "angle" and is_sent and self.recipe.places == "fractions":
            rule = f"pack=angle does not go with positions and convention={self.convention}"
            raise impossible("pack", pack, rule)
        if not self.recipe.halves_axes or PACKS[pack].layout != "half":
            return pack
        if pack != "half":
            rule = f"pack={self.pack} does not go with convention={self.convention}: pack=half does"
            raise impossible("pack", self.pack, rule)
        return "half_by_axis"
