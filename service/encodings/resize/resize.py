"""The weights of resized tables, and learned tables that are sent, resized."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import gcd, isqrt, prod
from typing import Any, ClassVar, Literal

import numpy as np

from service.encodings.family import (
    ComposedFamily,
    InputArray,
    TableFamily,
    about,
    impossible,
    optional,
)
from service.encodings.meaning import NamedVariant
from service.encodings.resize.axis_weights import AxisWeights
from service.encodings.resize.resizing import (
    CONVENTIONS,
    DEFAULTS,
    MAX_NEW,
    ResizedAxes,
    ResizeParameters,
)
from service.errors import InvalidBody
from service.grammar import Boolean, Integer, to_query
from service.numerics.dtypes import (
    FLOAT64,
    INT32,
    DType,
    Elements,
    decimal_view,
    largest_finite,
    to_float64,
)
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import (
    ELEMENT_SECONDS,
    Document,
    FormulaTable,
    ParameterValue,
    StoredTable,
    Table,
    row_steps,
)

_MAX_EXACT = 2048
_TAP_SECONDS = 4 * ELEMENT_SECONDS
_SUM_SECONDS, _ROW_SECONDS = 3e-9, 3e-7
_GROUPS = ("gather", "dense")


class Resize(TableFamily, ResizeParameters, path="/resize"):
    """Weights that interpolate a table: the index and the weight of each tap of every new place.

    Formula: new = Σ weight·old[index] along each axis. Place i of m lies at x = (i + ½)·n/m − ½ of
        n old ones, or i·(n − 1)/(m − 1) with align_corners. The taps ⌊x⌋ and ⌊x⌋ + 1 of bilinear
        (linear) weigh 1 − |tap − x|, four of bicubic k(tap − x) with Keys' kernel, a = −¾; those
        outside repeat the border. With antialias, s = max(n/m, 1) stretches the kernel, a is −½,
        taps outside are left out, and the weights are divided by their sum.
    Source: torch 2.13.0 ``interpolate``; DINO's factor (size + 0.1)/old_size; timm 1.0.31
        ``resample_abs_pos_embed``, ``resize_rel_pos_bias_table`` (without SciPy), ``…_simple``,
        ``…_levit``; transformers 5.23.0 ViT (vit), SigLIP2, Qwen3-VL, GLM-4V, Muse Glimmer, SAM
        ``get_rel_pos``, BEiT.
    Bound: exact rationals, rounded once; those of part=gather are products of two of them. Nearest
        places and the rows of sam_rel_pos are found in float32, as libraries do. timm_rel_pos has
        knots in float64, which timm rounds to float32.
    Trap: bicubic with antialias differs from bicubic even where a table grows; DINO's 0.1 moves
        every place.
    """

    operation: ClassVar[str] = "Resize"
    example: ClassVar[str] = "old_size=2&size=3&mode=bilinear&part=height_weight"

    part: (
        Literal[
            "gather", "dense", "index", "weight", "height", "height_index", "height_weight",
            "width", "width_index", "width_weight", "length", "length_index", "length_weight",
        ]
        | None
    ) = optional(
        "gather: the taps of each new row in the flat table; dense: a matrix of each axis; or one "
        "array.",
        "gather",
    )  # fmt: skip
    exact: Boolean = about(
        "Whether JSON has numerators and denominators, as text.", example=True, default=False
    )

    @classmethod
    def variants(cls) -> Iterator[NamedVariant]:
        for name, own in CONVENTIONS.items():
            takes = [] if own.options else ["mode", "scale_factor", *DEFAULTS, "a"]
            takes += [] if own.merge is None else ["spatial_merge_size"]
            example = cls.example if name == "torch" else "old_size=14&size=16"
            yield NamedVariant.of(name, example, takes, models=own.models)

    def chosen_part(self) -> str | None:
        return None if self.part in _GROUPS else self.part

    def as_matrix(self) -> Mapping[str, ParameterValue]:
        return {"exact": False} if self.exact else {}

    def document(self) -> Document:
        resizing = self.resizing()
        sparse: dict[str, Table] = {}
        for name, axis in resizing.axes.items():
            sparse |= {f"{name}_{kind}": table for kind, table in _sparse(axis).items()}
        dense: dict[str, Table] = {name: _dense(axis) for name, axis in resizing.axes.items()}
        groups = {"": sparse, "gather": _gathered(resizing), "dense": dense}
        group = next((each for each, own in groups.items() if self.part in {each, *own}), "")
        axes: tuple[str, ...] = ("place", "old place" if group == "dense" else "tap")
        if group == "gather" and resizing.pairs:
            axes = ("query", "key", "tap")
        parameters = {**resizing.parameters, **({"part": group} if group else {})}
        details: dict[str, object] = {}
        if self.exact:
            count = sum(each.new * each.taps for each in resizing.axes.values())
            if count > _MAX_EXACT:
                rule = f"exact has up to {_MAX_EXACT} weights, and these are {count}"
                raise impossible("exact", self.exact, rule)
            parameters["exact"] = True
            details["exact"] = {name: _exact(axis) for name, axis in resizing.axes.items()}
        return self.describe(
            groups[group],
            parameters,
            axes=axes,
            has_parts=True,
            warnings=tuple(resizing.warnings),
            details=details,
        )


def _exact(axis: AxisWeights) -> dict[str, list[Any]]:
    """Return the numerators of each place, and their common denominator, as text."""
    numerators, denominators = [], []
    for own, denominator in axis.rationals():
        common = gcd(denominator, *own.values())
        rest = [0] * (axis.taps - len(own))
        numerators.append([str(each // common) for each in (*own.values(), *rest)])
        denominators.append(str(denominator // common))
    return {"numerator": numerators, "denominator": denominators}


def _sparse(axis: AxisWeights) -> dict[str, Table]:
    """Return the index and the weight of each tap of every new place, (new, taps)."""

    def part(name: str, rows: range, columns: range) -> Elements:
        taps: Elements = getattr(axis.get(), name)
        return taps[rows.start : rows.stop, columns.start : columns.stop]

    return {
        name: FormulaTable((axis.new, axis.taps), dtype, axis.taps, partial(part, name), setup=axis)
        for name, dtype in (("index", INT32), ("weight", FLOAT64))
    }


def _dense(axis: AxisWeights) -> Table:
    """Return the weight of every old place in every new one, (new, old)."""

    def evaluate(rows: range, columns: range) -> Float64s:
        numbers, taps = np.zeros((len(rows), axis.old)), axis.get()
        for index, weight in zip(taps.index.T, taps.weight.T, strict=True):
            numbers[range(len(rows)), index[rows]] += weight[rows]
        return numbers[:, columns.start : columns.stop]

    shape = (axis.new, axis.old)
    return FormulaTable(shape, FLOAT64, axis.old, evaluate, _TAP_SECONDS, setup=axis)


def _gathered(resizing: ResizedAxes) -> dict[str, Table]:
    """Return the index in the flat table and the weight of each tap of every new row."""
    height, width = resizing.height, resizing.width

    def part(name: str, rows: range, columns: range) -> Elements:
        y, x = resizing.places(np.arange(rows.start, rows.stop))
        down, right = np.divmod(np.arange(columns.start, columns.stop), width.taps)
        first: Elements = getattr(height.get(), name)[y[:, np.newaxis], down]
        second: Elements = getattr(width.get(), name)[x[:, np.newaxis], right]
        return first * width.old + second if name == "index" else first * second

    taps = height.taps * width.taps
    shape = (*(resizing.pairs or (resizing.count,)), taps)
    return {
        name: FormulaTable(
            shape, dtype, taps, partial(part, name), _TAP_SECONDS, setup=resizing.setup
        )
        for name, dtype in (("index", INT32), ("weight", FLOAT64))
    }


class ResizeApply(ComposedFamily, ResizeParameters, path="/resize/apply"):
    """A learned table, resized: (height, width, channel), or one row for each place.

    Formula: Σ weight·x[index] along the height, then along the width, with the indices and weights
        of ``/resize``; rows of class tokens are copied.
    Source: see ``/resize``.
    Bound: computed in float64 and rounded once to the type of x; before that rounding the error is
        at most (t + 3)·2^-53·Σ|weight|·max|x|, where a new row has t taps on both axes together.
    Trap: a table of rows is read as a square grid unless old_size says otherwise.
    """

    operation: ClassVar[str] = "ResizeApply"
    example: ClassVar[str] = "mode=linear&size=3"
    inputs: ClassVar[tuple[InputArray, ...]] = (
        InputArray(
            "x",
            "the learned table, (height, width, channels) or (rows, channels)",
            ranks=(2, 3, 4),
            example=[[0.5, -1.0], [0.25, -2.0]],
        ),
    )

    num_prefix_tokens: Integer | None = optional(
        "Rows before the grid, kept; those of the convention unless given.", 1, ge=0, le=MAX_NEW
    )
    num_extra_tokens: Integer | None = optional(
        "Rows behind distances, kept; 3 with beit_rel_pos, else 0, unless given.",
        3,
        ge=0,
        le=MAX_NEW,
    )
    max_length: Integer | None = optional(
        "Number of rows with siglip2: it fills up with the first.", 64, ge=1, le=MAX_NEW**2
    )

    def document(self, arrays: Mapping[str, StoredTable]) -> Document:
        x = arrays["x"]
        own, inner = CONVENTIONS[self.convention], x.shape
        has_grid = not self.is_linear and own.extra is None
        is_row = self.old_size == inner[:2] and self.num_prefix_tokens is None
        if len(inner) > 3 and self.old_size is None:
            rule = f"x has the shape {list(x.shape)}, and channels are the last axis: send old_size"
            raise InvalidBody(rule, "/x")
        if len(inner) > 2 and inner[0] == 1 and not is_row:
            inner = inner[1:]
            has_tokens = self.num_prefix_tokens or own.prefix
            if has_grid and len(inner) == 2 and self.old_size is None and not has_tokens:
                rule = f"x has the shape {list(x.shape)}, which has two readings: send old_size"
                raise InvalidBody(rule, "/x")
        is_grid, channels = len(inner) > 2, inner[-1]
        if len(inner) > 3 or (is_grid and not has_grid):
            rule = f"x has the shape {list(x.shape)}: send rows and channels, or (unless rows are "
            raise InvalidBody(f"{rule}of one axis, or distances) height, width and channels", "/x")
        prefix, extra = self._kept(is_grid=is_grid)
        resizing = self.resizing(self._old_size(inner[:-1], inner[0] - prefix - extra))
        parameters, count = dict(resizing.parameters), resizing.count
        shape: tuple[int, ...] = (prefix + count + extra,)
        axes: tuple[str, ...] = ("position",)
        if resizing.pairs or (is_grid and resizing.merge == 1):
            shape, axes = resizing.shape, (*resizing.axes,)
        if resizing.pairs:
            axes = ("query", "key")
        if not is_grid:
            parameters |= {"num_prefix_tokens": prefix, "num_extra_tokens": extra}
        if self.max_length is not None:
            if self.convention != "siglip2" or prefix or self.max_length < count:
                rule = f"max_length goes with siglip2 without prefix, and is at least {count} here"
                raise impossible("max_length", self.max_length, rule)
            shape, parameters["max_length"] = (self.max_length,), self.max_length
        rows = ResizedRows(resizing, x.elements.reshape(inner), x.dtype, prefix, extra)
        leading = x.shape[: len(x.shape) - len(inner)]
        table = ResizedTable(
            (*leading, *shape, channels),
            x.dtype,
            channels,
            rows.numbers,
            element_seconds=rows.element_seconds,
            setup=resizing.setup,
            sent=x,
            largest_sum=resizing.height.largest_sum * resizing.width.largest_sum * _ROUNDED,
        )
        return self.describe(
            {"x": table},
            parameters,
            axes=(*(["batch"] if leading else []), *axes, "channel"),
            states_axes=True,
            warnings=tuple(resizing.warnings),
        )

    def _kept(self, *, is_grid: bool) -> tuple[int, int]:
        """Return how many rows before and behind the others are kept; raises InvalidParameters."""
        own, prefix = CONVENTIONS[self.convention], self.num_prefix_tokens
        if prefix and (is_grid or own.merge is None):
            rule = "num_prefix_tokens goes with rows of patches"
            raise impossible("num_prefix_tokens", prefix, rule)
        if self.num_extra_tokens and own.extra is None:
            rule = "num_extra_tokens goes with distances: timm_rel_pos, beit_rel_pos"
            raise impossible("num_extra_tokens", self.num_extra_tokens, rule)
        if prefix is None:
            prefix = 0 if is_grid else own.prefix
        extra = self.num_extra_tokens
        return prefix, (own.extra or 0) if extra is None else extra

    def _old_size(self, sides: tuple[int, ...], rows: int) -> tuple[int, ...]:
        """Return the old size of a grid or of rows; raises InvalidBody if they do not fit."""
        is_window = CONVENTIONS[self.convention].extra is not None
        if self.is_linear or len(sides) > 1:
            found = (rows,) if self.is_linear else sides
        elif self.old_size is not None:
            found = self.old_size * (2 // len(self.old_size))
        else:
            side = isqrt(max(rows, 0))
            found = ((side + 1) // 2 if is_window else side,) * 2
        old = self.old_size
        lengths = [2 * each - 1 if is_window else each for each in found]
        if prod(lengths) != (prod(sides) if len(sides) > 1 else rows) or (
            old is not None and old * (len(found) // len(old)) != found
        ):
            sent = " by ".join(map(str, sides if len(sides) > 1 else (rows,)))
            rule = f"old_size={to_query(old)} has others" if old else "send old_size"
            hint = "" if len(sides) > 1 else " (and num_prefix_tokens, if tokens precede the grid)"
            raise InvalidBody(f"x has {sent} rows to resize: {rule}{hint}", "/x")
        return found


# More than the rounding of sums adds to them.
_ROUNDED = 1 + 2.0**-20


@dataclass(frozen=True, eq=False, kw_only=True)
class ResizedTable(FormulaTable):
    """A table that is sent, resized.

    Attributes:
        sent: the table.
        largest_sum: what the sizes of the weights of a number add up to at most.
    """

    sent: StoredTable
    largest_sum: float

    @property
    def is_finite(self) -> bool:
        """True if the sent numbers are so far below infinity that no sum reaches it."""
        numbers = decimal_view(self.sent.elements, self.sent.dtype)
        most = np.maximum(-numbers.min(), numbers.max()).astype(np.float64)
        return bool(most <= largest_finite(self.dtype) / self.largest_sum)


@dataclass(frozen=True, eq=False)
class ResizedRows:
    """The rows of a resized table.

    Attributes:
        elements: the old ones, (row, channel) or (height, width, channel).
        dtype: their type.
        prefix, extra: how many rows before and behind the others are kept.
    """

    resizing: ResizedAxes
    elements: Elements
    dtype: DType
    prefix: int
    extra: int

    @property
    def element_seconds(self) -> float:
        """The processor seconds of a number."""
        height, width = self.resizing.height, self.resizing.width
        taps = height.taps * width.old / width.new + width.taps
        channels: int = self.elements.shape[-1]
        return taps * _SUM_SECONDS + _ROW_SECONDS / channels

    def numbers(self, rows: range, columns: range) -> Float64s:
        """Return some columns of rows."""
        some, count = slice(columns.start, columns.stop), self.resizing.count
        numbers = np.arange(rows.start, rows.stop)
        places, total = numbers - self.prefix, self.prefix + count + self.extra
        if not self.extra:
            # Rows beyond the last repeat the first.
            places[places >= count] = 0
        is_new = (places >= 0) & (places < count)
        result = np.empty((len(rows), len(columns)))
        if not is_new.all():
            sources = np.where(places < 0, numbers, numbers - total + len(self.elements))
            result[~is_new] = to_float64(self.elements[sources[~is_new], some], self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            result[is_new] = self._sums(*self.resizing.places(places[is_new]), some)
        # The bits of a computed NaN depend on the processor.
        result[np.isnan(result)] = np.nan
        return result

    def _sums(self, y: Int64s, x: Int64s, columns: slice) -> Float64s:
        """Return the sums of places, along the height of the old columns that they need first."""
        height, width = self.resizing.height, self.resizing.width
        down, right = height.get(), width.get()
        last = None if self.elements.ndim > 2 else len(self.elements) - self.extra
        shape = (height.old, width.old, self.elements.shape[-1])
        grid = self.elements[self.prefix : last].reshape(shape)[..., columns]
        lines, line_of = np.unique(y, return_inverse=True)
        used, place_of = np.unique(right.index[x], return_inverse=True)
        place_of, weights = place_of.reshape(-1, width.taps), right.weight[x]
        result = np.zeros((len(y), grid.shape[-1]))
        for step in row_steps(len(lines), len(used) * grid.shape[-1]):
            sums = np.zeros((len(lines[step]), len(used), grid.shape[-1]))
            for tap in range(height.taps):
                index, weight = down.index[lines[step], tap], down.weight[lines[step], tap]
                some = to_float64(grid[index[:, np.newaxis], used], self.dtype)
                sums += some * weight[:, np.newaxis, np.newaxis]
            mine = np.flatnonzero((line_of >= step.start) & (line_of < step.stop))
            for tap in range(width.taps):
                some = sums[line_of[mine] - step.start, place_of[mine, tap]]
                result[mine] += some * weights[mine, tap, np.newaxis]
        return result
