"""Kernels: biases that are 0 at distance 0 and fall with the distance, as lengths and sizes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.distances.query_keys import query_key_parameters
from service.analysis.distances.strips import Strip, alike, line_strips, strip_of
from service.tables.angle import Float64s
from service.tables.document import ParameterValue

# Lengths that are looked at: near ones and ever farther ones.
_MOST_LENGTHS = 64
_LEAST_LENGTHS = 3
_MOST_HEADS = 256
_HELD_ROWS = 8
# So many numbers tell most other arrays apart, at no cost.
_FIRST = 1024


@dataclass(frozen=True, eq=False)
class Sides:
    """What lengths are worth to heads.

    Attributes:
        lengths: some of 1, 2, …, (n,).
        sizes: how far biases are below 0, (heads, n).
        parameters: queries and keys, and whether those after the query have none.
    """

    lengths: Float64s
    sizes: Float64s
    parameters: dict[str, ParameterValue]


def sides(values: Float64s, share: float) -> Iterator[Sides]:
    """Read a vector (n,), a matrix (Q, K) or heads (H, Q, K) as lengths, if distances decide.

    Args:
        values: biases, 0 at distance 0.
        share: by how much of their size numbers may be off.
    """
    if (values.reshape(-1)[:_FIRST] > 0).any():
        return
    for block in _blocks(values):
        strip = strip_of(block, share)
        if strip is not None:
            yield from _of_strip(strip, share)
        elif (block <= 0).all():
            yield from _of_rows(block, share)
    if values.ndim == 1:
        for strip in line_strips(values):
            yield from _of_strip(strip, share)


def _blocks(values: Float64s) -> Iterator[Float64s]:
    """Read a matrix as queries of one head, and as heads of one query."""
    if values.ndim == 1:
        return
    blocks = [values] if values.ndim == 3 else [values[np.newaxis], values[:, np.newaxis]]
    yield from (block for block in blocks if len(block) <= _MOST_HEADS)


def _of_rows(block: Float64s, share: float) -> Iterator[Sides]:
    """Read rows of queries anywhere, each where its first 0 is, by that with the most before it."""
    is_zero = (block == 0).all(axis=0)
    if not is_zero.any(axis=1).all():
        return
    queries, keys = is_zero.argmax(axis=1), np.arange(block.shape[2])
    last = int(queries.argmax())
    most = block[:, last, : queries[last]]
    for row in np.unique(np.linspace(0, len(queries) - 1, _HELD_ROWS, dtype=np.int64)):
        own = block[:, row, : queries[row]]
        if not alike(own, most[:, most.shape[1] - own.shape[1] :], share):
            return
    for found in _of_strip(Strip(block[:, last], 1, len(keys)), share):
        is_whole = {"causal": False} if "causal" in found.parameters else {}
        places = query_key_parameters(queries.astype(np.int64), keys)
        yield replace(found, parameters={**places, **is_whole})


def _of_strip(strip: Strip, share: float) -> Iterator[Sides]:
    if (strip.values > 0).any():
        return
    zeros = np.flatnonzero((strip.values == 0).all(axis=0))
    if not len(zeros):
        return
    zero = int(zeros[0])
    behind, ahead = -strip.values[:, :zero][:, ::-1], -strip.values[:, zero + 1 :]
    parameters: dict[str, ParameterValue] = query_key_parameters(*strip.places(zero))
    if ahead.any():
        common = min(behind.shape[1], ahead.shape[1])
        if not alike(behind[:, :common], ahead[:, :common], share):
            return
        parameters["causal"] = False
    longer = max(behind, ahead if ahead.any() else behind, key=lambda side: side.shape[1])
    if longer.shape[1] < _LEAST_LENGTHS or not (longer > 0).all():
        return
    most = longer.shape[1]
    # Powers of about 1.1 from 1 on: near lengths are all there.
    lengths = np.unique(np.geomspace(1, most, _MOST_LENGTHS).round().astype(np.int64))
    yield Sides(lengths.astype(np.float64), longer[:, lengths - 1].astype(np.float64), parameters)
