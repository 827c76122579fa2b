"""Mistakes in the order of a grid: channels of axes that are exchanged, tokens along other axes.

What each channel holds, and along which axis tokens run, is known from the layout of the table; a
permutation of its numbers is then what such code computes, also in a square grid.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations
from math import prod

import numpy as np

from service.analysis.array import TableRequest
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.numeric_tables import Alternative, Numbers
from service.delivery.parameters import read_parameters
from service.encodings.grid.grid_encoding import GridEncoding
from service.encodings.grid.sincos import Layout, lanes
from service.grammar import integers
from service.numerics.phasors import Indices

_GRID = "encoding/grid"


def grid_lengths(request: TableRequest) -> tuple[int, int] | None:
    """Return the lengths of a 2-D grid whose cells are the rows, the fastest last; else None."""
    parameters = request.parameters
    if request.resource == _GRID:
        along = _encoding(request).layout.along
        first, *others = (each.tokens.length for each in along.values())
        return (first, others[0]) if len(others) == 1 else None
    if {"height", "width"} <= set(parameters) and "depth" not in parameters:
        return int(str(parameters["height"])), int(str(parameters["width"]))
    lengths = integers(parameters["grid"]) if "grid" in parameters else ()
    return (lengths[0], lengths[1]) if len(lengths) == 2 else None


def exchanged(request: TableRequest, want: Numbers) -> Iterator[Alternative]:
    """Yield the numbers of a grid of sines and cosines whose channels or tokens are exchanged."""
    if request.resource != _GRID:
        return
    encoding = _encoding(request)
    layout, width = encoding.layout, encoding.grid.d_model
    is_first = encoding.has_channels_first
    orders = [(wrong, order, 1) for wrong, order in _of_channels(layout, width)]
    if not layout.leading and not is_first:
        orders += [(wrong, order, 0) for wrong, order in _of_tokens(layout)]
    for wrong, order, axis in orders:
        arrays = {}
        for name, sample in want.arrays.items():
            values = np.moveaxis(sample.values, 0, -1) if is_first else sample.values
            table = values.reshape(-1, width).take(order, axis=axis).reshape(values.shape)
            moved = np.moveaxis(table, -1, 0) if is_first else table
            arrays[name] = replace(sample, values=moved)
        yield wrong, None, replace(want, arrays=arrays)


def _encoding(request: TableRequest) -> GridEncoding:
    return read_parameters(GridEncoding, request.parameters)


def _of_channels(layout: Layout, width: int) -> Iterator[tuple[Mistake, Indices]]:
    """Yield orders of channels: those of two axes exchanged, and cosines with sines."""
    held: dict[tuple[str, str, int], int] = {
        (lane.axis, lane.content, number): channel
        for lane in lanes(layout.blocks, width)
        for number, channel in enumerate(lane.channels)
    }
    renamed: list[tuple[Mistake, dict[str, str]]] = [
        (
            mistake("axes-swapped", None, {"first": one, "second": other}, variant="channels"),
            {one: other, other: one},
        )
        for one, other in combinations(layout.along, 2)
    ]
    renamed.append((mistake("halves-swapped"), {"sin": "cos", "cos": "sin"}))
    for wrong, names in renamed:
        order = np.arange(width)
        for (axis, content, number), channel in held.items():
            other = names.get(axis, axis), names.get(content, content), number
            order[channel] = held.get(other, -1)
        if (order >= 0).all():
            yield wrong, order


def _of_tokens(layout: Layout) -> Iterator[tuple[Mistake, Indices]]:
    """Yield orders of rows whose tokens run along the axes in another order."""
    names = list(layout.along)
    lengths = [layout.along[name].tokens.length for name in names]
    numbers = np.arange(prod(lengths)).reshape(lengths)
    zeros = np.arange(layout.zero_rows)
    for axes in list(permutations(range(len(names))))[1:]:
        run = [names[axis] for axis in axes]
        values = {"have": ", then ".join(run[::-1]), "want": ", then ".join(names[::-1])}
        moved = numbers.transpose(axes).reshape(-1) + layout.zero_rows
        wrong = mistake("axes-swapped", None, values, variant="tokens")
        yield wrong, np.concatenate([zeros, moved])
