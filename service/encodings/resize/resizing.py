"""The options of libraries' functions that resize learned tables, and a resize by them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from service.encodings.family import (
    Integers,
    Parameters,
    Reals,
    about,
    impossible,
    optional,
    refuse_excluded,
)
from service.encodings.resize.axis_weights import AxisWeights
from service.grammar import Boolean, Integer, Real, to_query
from service.numerics.phase import Int64s
from service.numerics.setups import Setups
from service.numerics.tables import Caution, ParameterValue

MAX_OLD, MAX_NEW = 1024, 4096

ConventionName: TypeAlias = Literal[
    "torch", "vit", "dino", "timm", "siglip2", "qwen3_vl", "glm4v", "muse", "sam_rel_pos",
    "timm_rel_pos", "timm_rel_pos_simple", "timm_rel_pos_levit", "beit_rel_pos",
]  # fmt: skip
_KERNELS = ("linear", "bilinear", "bicubic")
DEFAULTS = {"align_corners": False, "antialias": False, "padding": "border"}


@dataclass(frozen=True)
class ResizeOptions:
    """The options that a library's function sets.

    Attributes:
        options: its mode, and the options that are not the defaults.
        merge: the default of spatial_merge_size; None if rows are no patches.
        prefix: the default of num_prefix_tokens.
        extra: the default of num_extra_tokens, where the sizes are those of windows.
        square: the sizes that have to be square.
        models: names of models that resize so.
    """

    options: Mapping[str, Any]
    merge: int | None = 1
    prefix: int = 0
    extra: int | None = None
    square: tuple[str, ...] = ()
    models: str = ""


_BICUBIC, _ANTIALIASED = {"mode": "bicubic"}, {"mode": "bicubic", "antialias": True}
CONVENTIONS: Mapping[ConventionName, ResizeOptions] = MappingProxyType(
    {
        "torch": ResizeOptions({}, models="siglip gemma3"),
        "vit": ResizeOptions(_BICUBIC, prefix=1, models="clip dinov2 vit_mae llava internvl"),
        "dino": ResizeOptions(_BICUBIC, prefix=1, square=("old_size",)),
        "timm": ResizeOptions(_ANTIALIASED, prefix=1),
        "siglip2": ResizeOptions({"mode": "bilinear", "antialias": True}),
        "qwen3_vl": ResizeOptions({"mode": "bilinear", "align_corners": True}, merge=2),
        "glm4v": ResizeOptions(_BICUBIC, merge=2),
        "muse": ResizeOptions({"mode": "bilinear", "padding": "zeros"}),
        "sam_rel_pos": ResizeOptions({"mode": "linear"}, merge=None),
        "timm_rel_pos": ResizeOptions({"mode": "geometric"}, merge=None, extra=0),
        "timm_rel_pos_simple": ResizeOptions(_BICUBIC, merge=None, extra=0, square=("old_size",)),
        "timm_rel_pos_levit": ResizeOptions(
            _ANTIALIASED, merge=None, extra=0, square=("old_size", "size")
        ),
        "beit_rel_pos": ResizeOptions({"mode": "bilinear"}, merge=None, extra=3),
    }
)


@dataclass(frozen=True)
class ResizedAxes:
    """A resize of one or two axes.

    Attributes:
        axes: their weights, by name.
        pairs: the numbers of queries and keys, if each pair has a row.
        merge: the side of the blocks by which patches are listed.
        parameters: every option, as the answer states it.
    """

    axes: Mapping[str, AxisWeights]
    pairs: tuple[int, int] | None
    merge: int
    parameters: Mapping[str, ParameterValue]

    @cached_property
    def height(self) -> AxisWeights:
        return next(iter(self.axes.values()))

    @cached_property
    def width(self) -> AxisWeights:
        """The weights of the second axis; without one, those of an axis with one place."""
        return [*self.axes.values(), AxisWeights(1, 1, "nearest")][1]

    @property
    def setup(self) -> Setups:
        return Setups((self.height, self.width))

    @property
    def shape(self) -> tuple[int, ...]:
        """The new lengths of the axes, or the numbers of queries and keys."""
        return self.pairs or tuple(each.new for each in self.axes.values())

    @property
    def count(self) -> int:
        """The number of new rows."""
        return prod(self.shape)

    def places(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Return the new place of each row on the two axes."""
        if self.pairs is not None:
            # In float32, as the libraries: quotients that are no integers round to other rows.
            queries, keys = self.pairs
            query, key = np.divmod(rows, keys)
            wider, higher = max(keys / queries, 1.0), max(queries / keys, 1.0)
            distance = query.astype(np.float32) * np.float32(wider)
            distance -= key.astype(np.float32) * np.float32(higher)
            distance += np.float32((keys - 1) * higher)
            return distance.astype(np.int64), np.zeros_like(rows)
        block, inside = np.divmod(rows, self.merge**2)
        block_y, block_x = np.divmod(block, self.width.new // self.merge)
        y, x = np.divmod(inside, self.merge)
        return block_y * self.merge + y, block_x * self.merge + x

    @property
    def warnings(self) -> Iterator[Caution]:
        """The differences of libraries from the formula."""
        if self.height.mode in {*_KERNELS, "geometric"}:
            # Places are off by 1.5·old·2^-23: a step, a product, a difference. The sizes of the
            # changes of weights add up to 3 times that (cubic; the sizes of weights to 11/8) or 2,
            # along both axes. Rounded kernels, quotients and sums add less than 82 or 16 units.
            # The knots of a geometric axis reach as far as its new places.
            reach = max(
                max(each.old, each.new * (each.mode == "geometric")) for each in self.axes.values()
            )
            places = 13 * reach + 82 if self.height.mode == "bicubic" else 6 * reach + 16
            rule = f"are within {places}·2^-23 times the table's largest number"
            yield Caution("library-rounding", f"libraries compute in float32, and {rule}")
        if self.pairs is not None and max(self.pairs) % min(self.pairs):
            rule = "rows are found in float32, as by libraries: some differ from the formula by one"
            yield Caution("library-rows", rule)
        if self.height.antialias and self.width.new == 1 < self.height.new:
            rule = "torch 2.13.0 on a CPU repeats the first row where an antialiased width is 1"
            yield Caution("library-defect", rule)
        if self.parameters["convention"] == "beit_rel_pos" and self.height.old != self.width.old:
            rule = (
                "transformers 5.23.0 takes the width of a window for its height before it resizes"
            )
            yield Caution("library-defect", rule)


_LIKE_VIT = ("dinov2", "clip", "siglip", "deit", "pixio", "blip", "blip_2", "internvl", "kimi_k25")
_BY_MODE = "no convention has its name: send mode and what /model has in resized"


class ResizeParameters(Parameters):
    """The options of a resize."""

    hints: ClassVar = {
        "interpolation": "its name here is mode",
        "new_size": "its name here is size",
        "new_window_size": "its name here is size",
        "old_window_size": "its name here is old_size",
    }
    value_hints: ClassVar = {
        "convention": {
            **dict.fromkeys(_LIKE_VIT, "vit"),
            **dict.fromkeys(("dinov2_with_registers", "rf_detr", "deepseek_ocr2"), "timm"),
            **dict.fromkeys(("paddleocr_vl", "dpt", "radio", "hunyuan_vl"), _BY_MODE),
            **dict.fromkeys(("yolos", "timesformer", "vilt"), _BY_MODE),
            "dinov3": "DINOv3 has no learned table: see /rope/axial?convention=dinov3",
            **dict.fromkeys(("sam", "vitdet", "seggpt", "got_ocr2"), "sam_rel_pos"),
            **dict.fromkeys(("beit", "data2vec"), "beit_rel_pos"),
            "swin": "timm_rel_pos",
        }
    }

    size: Integers | None = optional(
        "New height and width (a window's, for its distances), length (linear), or numbers of "
        "queries and keys (sam_rel_pos).",
        "3,5",
        min_length=1,
        max_length=2,
    )
    old_size: Integers | None = optional(
        "Height and width, or length, of the learned table.", "2,4", min_length=1, max_length=2
    )
    scale_factor: Reals | None = optional(
        "In place of size: old sizes times it, rounded down; its inverse is the step.",
        "1.5",
        min_length=1,
        max_length=2,
    )
    convention: ConventionName = about(
        "The library's function; torch leaves options open.", "vit", default="torch"
    )
    mode: Literal["nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic"] | None = (
        optional("The mode of torch's interpolate.", "bicubic")
    )
    align_corners: Boolean | None = optional(
        "Whether corners stay corners; false unless given.", example=True
    )
    antialias: Boolean | None = optional(
        "Whether kernels widen where the table shrinks; false unless given.", example=True
    )
    padding: Literal["border", "zeros"] | None = optional(
        "What lies outside; border unless given.", "zeros"
    )
    a: Real | None = optional(
        "The parameter of bicubic kernels; -0.75, or -0.5 with antialias, unless given.",
        -0.5,
        ge=-1,
        le=0,
    )
    spatial_merge_size: Integer | None = optional(
        "Side of the blocks that list patches; the convention's unless given.", 2, ge=1, le=MAX_NEW
    )

    @property
    def is_linear(self) -> bool:
        """True if one axis is resized."""
        options = CONVENTIONS[self.convention].options
        return bool(options.get("mode", self.mode) == "linear")

    def resizing(self, found: tuple[int, ...] | None = None) -> ResizedAxes:
        """Return the resize; raises InvalidParameters.

        Args:
            found: the old size of a table that is sent.
        """
        own, options = CONVENTIONS[self.convention], self._options()
        names = ("length",) if self.is_linear else ("height", "width")
        has_pairs = self.convention == "sam_rel_pos"
        old = _sides("old_size", found or self.old_size, len(names))
        size, factors = self._new_size(old, 2 if has_pairs else len(names))
        for name, sides in (("old_size", old), ("size", size)):
            if name in own.square and sides[0] != sides[-1]:
                raise impossible(name, sides, f"convention={self.convention} has a square {name}")
        new = (2 * max(size) - 1,) if has_pairs else size
        lengths = {"old_size": old, "size" if self.scale_factor is None else "scale_factor": new}
        if own.extra is not None:
            lengths = {name: _distances(sides) for name, sides in lengths.items()}
        for (name, sides), most in zip(lengths.items(), (MAX_OLD, MAX_NEW), strict=True):
            if not all(1 <= each <= most for each in sides):
                rule = f"{name} gives axes of {to_query(sides)} places, and from 1 to {most} are "
                raise impossible(name, getattr(self, name, None), f"{rule}possible")
        merge = self._merge(own.merge if len(names) == 2 else None, size)
        is_same = options["mode"] == "geometric" and size == old
        axes = [
            AxisWeights(
                before, after, scale_factor=factor, **({"mode": "nearest"} if is_same else options)
            )
            for before, after, factor in zip(*lengths.values(), factors, strict=True)
        ]
        parameters: dict[str, Any] = {"convention": self.convention, "old_size": old, "size": size}
        if factors[0] is not None:
            parameters["scale_factor"] = factors
        parameters |= options
        if merge is not None:
            parameters["spatial_merge_size"] = merge
        pairs = (size[0], size[1]) if has_pairs else None
        return ResizedAxes(dict(zip(names, axes, strict=True)), pairs, merge or 1, parameters)

    def _options(self) -> dict[str, Any]:
        """Return the options that go with the mode; raises InvalidParameters."""
        is_open, options = self.convention == "torch", dict(CONVENTIONS[self.convention].options)
        if is_open and self.mode is None:
            raise impossible("mode", None, "mode is required with convention=torch")
        mode = options.setdefault("mode", self.mode)
        names = [*(DEFAULTS if mode in _KERNELS else {}), *(["a"] if mode == "bicubic" else [])]
        for name in names:
            given = getattr(self, name) if is_open else None
            options[name] = given if given is not None else options.get(name, DEFAULTS.get(name))
        if mode == "bicubic" and options["a"] is None:
            options["a"] = -0.5 if options["antialias"] else -0.75
        if options.get("antialias"):
            del options["padding"]
        for name, default in {**DEFAULTS, "mode": None, "a": None}.items():
            given, own = getattr(self, name), options.get(name, default)
            if given not in {None, own} or (given and name == "antialias" and mode == "linear"):
                rule = f"mode={mode}" if is_open else f"convention={self.convention}"
                rule += " and antialias" if is_open and name == "padding" else ""
                raise impossible(name, given, f"{name}={to_query(given)} does not go with {rule}")
        return options

    def _new_size(
        self, old: tuple[int, ...], count: int
    ) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
        """Return the new size, and the scale factor of each axis."""
        if self.scale_factor is None:
            size = _sides("size", self.size, count)
            if self.convention == "dino" and size != old and min(old) > 0:
                return size, tuple((new + 0.1) / each for new, each in zip(size, old, strict=True))
            return size, (None,) * len(old)
        refuse_excluded(self, {"size": "scale_factor"})
        factors = _sides("scale_factor", self.scale_factor, count)
        if self.convention != "torch" or min(factors) <= 0:
            rule = "scale_factor is positive, and goes with convention=torch"
            raise impossible("scale_factor", self.scale_factor, rule)
        # A product in float64, as torch computes it.
        products = (each * factor for each, factor in zip(old, factors, strict=True))
        return tuple(int(min(each, 2.0**53)) for each in products), factors

    def _merge(self, default: int | None, size: tuple[int, ...]) -> int | None:
        """Return the side of blocks of patches; None where rows are no patches."""
        merge = self.spatial_merge_size or default
        if default is None and merge is not None:
            rule = "spatial_merge_size goes with grids of patches"
            raise impossible("spatial_merge_size", merge, rule)
        if any(each % (merge or 1) for each in size):
            name = "size" if self.scale_factor is None else "scale_factor"
            rule = f"the new size must be a multiple of spatial_merge_size={merge}"
            raise impossible(name, getattr(self, name), rule)
        return merge


Number = TypeVar("Number", int, float)


def _sides(name: str, value: tuple[Number, ...] | None, count: int) -> tuple[Number, ...]:
    """Return a number for each axis; one number is that of both."""
    if value is None:
        raise impossible(name, None, f"{name} is required")
    if len(value) not in {1, count}:
        raise impossible(name, value, f"{name} must be {'1 number' if count == 1 else '2 numbers'}")
    return value * (count // len(value))


def _distances(window: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 * each - 1 for each in window)
