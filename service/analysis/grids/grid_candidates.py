"""Which conventions have the channels of a grid's table as an array may have them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from service.analysis.grids.grid_fits import Values, band_count
from service.analysis.sample import Sample
from service.tables.angle import Float64s
from service.tables.dtypes import DType, rounding_bound
from service.tables.grid_conventions import AXES, Convention, convention_for
from service.tables.grid_layouts import Grid, Layout

_EARLY_ROWS = 64
_SWITCHES = ("reverse_coord", "interleave_sin_cos", "concat_pos", "sine_only")


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows that may be those of a grid.

    Attributes:
        rows: (S, C), the rows of zeros left out.
        shape: of the tokens as they were sent, axes of 1 left out.
        zero_rows: how many rows of zeros came first.
        channels_first: whether the channels were the first axis.
        dtype: the type of the elements.
    """

    rows: Float64s
    shape: tuple[int, ...]
    zero_rows: int
    channels_first: bool
    dtype: DType

    @property
    def rounding(self) -> float:
        """Half a unit in the last place at 1."""
        return rounding_bound(self.dtype, 1.0)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A convention that has the channels of an array.

    Attributes:
        convention: what it makes.
        name: its name.
        lengths: tokens along each axis, in the order of the axes.
        values: those of its parameters that say where channels are.
    """

    convention: Convention
    name: str
    lengths: Mapping[str, int]
    values: Values

    def layout(self, d_model: int, values: Values) -> Layout:
        """Lay the table out, with values beside the defaults."""
        every: dict[str, Any] = {**self.convention.defaults, **self.values, **values}
        if "max_resolution" in self.convention.takes:
            every.setdefault("max_resolution", (2,))
            listed = every["max_resolution"]
            each = listed if isinstance(listed, tuple) else (listed,)
            every["max_resolution"] = each * (len(self.lengths) // len(each))
        return self.convention.layout(Grid(self.lengths, d_model, every))


def orientations(sample: Sample) -> Iterator[TokenRows]:
    """Read an array with its channels last, and with its channels first."""
    values, rounding = sample.reals(), rounding_bound(sample.element_dtype, 1.0)
    shape = values.shape
    if max(values.max(), -values.min()) > 1 + 8 * rounding:
        return
    for channels_first in (False, True):
        channels = shape[0] if channels_first else shape[-1]
        rows = values.reshape(channels, -1).T if channels_first else values.reshape(-1, channels)
        tokens = shape[1:] if channels_first else shape[:-1]
        zero_rows = _zero_rows(rows)
        if channels >= 2 and zero_rows < len(rows):
            yield TokenRows(
                rows[zero_rows:], tokens, zero_rows, channels_first, sample.element_dtype
            )


def _zero_rows(rows: Float64s) -> int:
    """Count the rows of zeros that come first; most tables have few."""
    for some in (rows[:_EARLY_ROWS], rows):
        is_filled = some.any(axis=1)
        if is_filled.any():
            return int(np.argmax(is_filled))
    return len(rows)


def candidates(
    name: str, along: tuple[int, ...], rows: TokenRows
) -> Iterator[tuple[Candidate, Layout]]:
    """Lay out what a convention makes of tokens, in every way that it has."""
    convention = convention_for(name, len(along))
    width = rows.rows.shape[1]
    if convention is None or width % convention.multiple_of:
        return
    if convention.is_spread and width // (2 * len(along)) < 2:
        return
    own: Values = _zeros(convention, rows.zero_rows)
    if rows.zero_rows and not own:
        return
    switches = [switch for switch in _SWITCHES if switch in convention.takes]
    for chosen in product((False, True), repeat=len(switches)):
        values: Values = {**own, **dict(zip(switches, chosen, strict=True))}
        if convention.gives_channels:
            count = band_count(
                width,
                len(along),
                concat_pos=bool(values["concat_pos"]),
                sine_only=bool(values.get("sine_only", False)),
            )
            if count is None:
                continue
            values["num_bands"] = count
        yield from _laid_out(Candidate(convention, name, {}, values), along, rows)


def _zeros(convention: Convention, zero_rows: int) -> Values:
    """Say how a convention is asked for so many rows of zeros; nothing where it has none."""
    if not zero_rows or "cls_token" not in convention.takes:
        return {}
    if "extra_tokens" in convention.takes:
        return {"cls_token": True, "extra_tokens": zero_rows}
    return {"cls_token": True} if zero_rows == 1 else {}


def _laid_out(
    candidate: Candidate, along: tuple[int, ...], rows: TokenRows
) -> Iterator[tuple[Candidate, Layout]]:
    """Name the lengths of axes in the order in which the convention has its tokens run."""
    width, names = rows.rows.shape[1], AXES[-len(along) :]
    trial = Candidate(
        candidate.convention, candidate.name, dict.fromkeys(names, 1), candidate.values
    )
    by_name = dict(zip(trial.layout(width, {}).along, along, strict=True))
    lengths = {name: by_name[name] for name in names}
    named = Candidate(candidate.convention, candidate.name, lengths, candidate.values)
    layout = named.layout(width, {})
    flat = layout.zero_rows + prod(along[layout.leading :])
    shape = (*along[: layout.leading], *((flat,) if layout.leading < len(along) else ()))
    if tuple(length for length in shape if length > 1) == rows.shape:
        yield named, layout
