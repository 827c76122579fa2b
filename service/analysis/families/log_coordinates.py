"""Propose ``/relative/fire``, ``/relative/swin-v2`` and ``/relative/dynamic``: scaled distances.

FIRE's coordinates are logarithms of lengths, divided by a logarithm of the query's: a row gives c,
and the divisors of rows give the threshold and the queries. The coordinates of Swin V2 and of
dynamic position biases are distances or their logarithms, whose ends give their window.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, single_finite_array
from service.analysis.families.bias_strips import absolute_parameters, alike
from service.analysis.families.kernel_biases import fit_logarithm
from service.analysis.families.requests import table_proposal, unless_default
from service.analysis.families.series import spread_indices
from service.analysis.precision import error_share
from service.analysis.round_numbers import round_numbers
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import ParameterValue

_C, _THRESHOLD, _EPS = 0.1, 512.0, 1e-6
_MAX_PROPOSALS = 8
_LEAST_KEYS = 4
_FIRE_ROWS = 16
_LARGEST_LOGARITHM = 40.0
# The errors of fitted numbers are larger than those of coordinates.
_LOOSENESS = 2.0**10
_LOOSEST = 2.0**-4


@dataclass(frozen=True, eq=False)
class _FireRows:
    """Some rows of contiguous queries.

    Attributes:
        zero: the column of the key at the first query of the array, possibly outside.
        rows: their numbers, (R,).
        lengths: the distance of each key from the query, (R, K).
        values: (R, K).
    """

    zero: int
    rows: Int64s
    lengths: Float64s
    values: Float64s

    def divisors(self, c: float) -> Float64s:
        """Return the divisor of each row, from its farthest key."""
        farthest = (np.arange(len(self.rows)), self.lengths.argmax(axis=1))
        divisors: Float64s = np.log1p(c * self.lengths[farthest]) / self.values[farthest]
        return divisors


@dataclass(frozen=True)
class _FireFit:
    """c, the threshold, and the position of the first query."""

    c: float
    threshold: float
    start: int

    def error(self, rows: _FireRows) -> float:
        """Return the largest relative error of a coordinate."""
        queries = np.maximum(self.threshold, (self.start + rows.rows).astype(np.float64))
        divisors = np.log1p(self.c * queries) + _EPS
        expected = np.log1p(self.c * rows.lengths) / divisors[:, np.newaxis]
        return float(np.max(np.abs(rows.values - expected) / np.maximum(expected, _EPS)))


def propose_fire(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose coordinates of queries and keys."""
    values = single_finite_array(request, (1, 2))
    rows = None if values is None else _fire_rows(np.atleast_2d(values))
    if values is None or rows is None:
        return
    count, width = np.atleast_2d(values).shape
    for fit in islice(_fire_fits(rows, error_share(request.sample)), _MAX_PROPOSALS):
        queries, keys = fit.start + np.arange(count), fit.start - rows.zero + np.arange(width)
        parameters = {
            **unless_default("c", fit.c, _C),
            **unless_default("threshold", fit.threshold, _THRESHOLD),
            **absolute_parameters(queries, keys),
        }
        support = (
            f"a row grows as ln(1 + {fit.c:.6g}·m) with the distance m",
            f"rows are divided as with a threshold of {fit.threshold:.6g}",
        )
        yield table_proposal(request, "relative/fire", parameters, support)


def _fire_rows(values: Float64s) -> _FireRows | None:
    """Choose some rows, if each row has its 0 one column after the row before."""
    rows = spread_indices(len(values), _FIRE_ROWS)
    some = values[rows]
    if values.shape[1] < _LEAST_KEYS or some.min() < 0:
        return None
    row, column = np.nonzero(some == 0)
    zeros = column - rows[row]
    if not len(zeros) or (zeros != zeros[0]).any():
        return None
    lengths = np.abs(np.arange(values.shape[1]) - (zeros[0] + rows)[:, np.newaxis])
    return _FireRows(int(zeros[0]), rows, lengths.astype(np.float64), some)


def _fire_fits(rows: _FireRows, share: float) -> Iterator[_FireFit]:
    widest = int(rows.lengths.max(axis=1).argmax())
    order = np.argsort(rows.lengths[widest], kind="stable")
    order = order[rows.lengths[widest][order] > 0]
    lengths, sizes = rows.lengths[widest][order], rows.values[widest][order]
    kernel = fit_logarithm(lengths, sizes) if (sizes > 0).all() else None
    if kernel is None:
        return
    error = min(_LOOSENESS * share, _LOOSEST)
    for c in _candidates(kernel.inner, _C, error):
        measured = _measured_fire(rows, c, error)
        if measured is None:
            continue
        for threshold in _candidates(measured.threshold, _THRESHOLD, error):
            fit = replace(measured, threshold=threshold)
            if fit.error(rows) <= share:
                yield fit


def _candidates(measured: float, default: float, error: float) -> Iterator[float]:
    """Yield a default near the measured number, round numbers, and the measured number."""
    if abs(default - measured) <= error * measured:
        yield default
    yield from (number for number in round_numbers(measured, error) if number != default)
    yield measured


def _measured_fire(rows: _FireRows, c: float, error: float) -> _FireFit | None:
    """Find the threshold from the least divisor, and the queries from those beyond it."""
    divisors = rows.divisors(c)
    if not (divisors < _LARGEST_LOGARITHM).all():
        return None
    reach = np.expm1(divisors - _EPS) / c
    if (reach <= reach.min() * (1 + error)).all():
        return _FireFit(c, max(0.0, float(reach[0])), max(rows.zero, 0))
    start = round(float(reach[-1])) - int(rows.rows[-1])
    # Where all queries are beyond the threshold, it may be anywhere before the first.
    is_before = reach[0] > start + 0.5
    return _FireFit(c, float(reach[0]) if is_before else float(max(start, 0)), start)


# Swin V2: sign(Δ)·log2(1 + 8·|Δ|/(W − 1))/log2(8), arXiv:2111.09883.
_NORM = 8.0
_LEAST_LENGTH = 3


def propose_dynamic(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the distances of a sequence, or their logarithms."""
    values = single_finite_array(request, (1,))
    if values is None or len(values) < _LEAST_LENGTH or len(values) % 2 == 0:
        return
    distances = _distances(values)
    length = len(values) // 2
    for is_log, expected in ((False, distances), (True, _logarithms(distances))):
        if alike(values, expected, error_share(request.sample)):
            parameters = {
                "seq_len": length + 1,
                **unless_default("log_distance", is_log, default=False),
            }
            formula = "sign(d)·ln(1 + |d|)" if is_log else "d"
            support = f"numbers are {formula} for d from {-length} to {length}"
            yield table_proposal(request, "relative/dynamic", parameters, (support,))


def propose_swin_v2(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the coordinates of a window, both or a single one."""
    values = single_finite_array(request, (2, 3))
    if values is None:
        return
    for axis, height, width in _window_lines(values):
        window = _window((height, width), error_share(request.sample))
        if window is None:
            continue
        single: dict[str, ParameterValue] = {} if axis is None else {"axis": axis}
        support = "coordinates are sign(d)·ln(1 + |d|)"
        if "mode" not in window:
            by = window.get("pretrained_window_size", window["window_size"])
            formula = "sign(d)·log2(1 + |8d/(W - 1)|)/log2 8"
            support = f"coordinates are {formula} for windows W of {by}"
        yield table_proposal(request, "relative/swin-v2", {**window, **single}, (support,))


def _window_lines(values: Float64s) -> Iterator[tuple[str | None, Float64s, Float64s]]:
    """Yield the axis of a single coordinate, and the coordinates down and across, if independent.

    The coordinate that is missing is 0.
    """
    if not all(length % 2 for length in values.shape[:2]):
        return
    if values.ndim == 3 and values.shape[2] == 2:
        down, across = values[:, :1, 0], values[:1, :, 1]
        if (values[:, :, 0] == down).all() and (values[:, :, 1] == across).all():
            yield None, down[:, 0], across[0]
    elif values.ndim == 2:
        if (values == values[:, :1]).all():
            yield "y", values[:, 0], np.zeros(values.shape[1])
        if (values == values[:1]).all():
            yield "x", np.zeros(values.shape[0]), values[0]


def _window(lines: tuple[Float64s, Float64s], share: float) -> dict[str, ParameterValue] | None:
    """Return the parameters of the window of the coordinates down and across."""
    size = tuple(len(line) // 2 + 1 for line in lines)
    window: dict[str, ParameterValue] = {"window_size": size}
    filled = [line for line in lines if line.any()]
    if not filled:
        return None
    if all(alike(line, _logarithms(_distances(line)), share) for line in filled):
        return {**window, "mode": "cr"}
    trained = tuple(
        _normalizer(line) if line.any() else max(length, 2)
        for line, length in zip(lines, size, strict=True)
    )
    for line, normalizer in zip(lines, trained, strict=True):
        expected = _normalised(_distances(line), normalizer)
        if line.any() and not alike(line, expected, 2 * share):
            return None
    return window if trained == size else {**window, "pretrained_window_size": trained}


def _distances(line: Float64s) -> Float64s:
    """Return the distances of an odd number of coordinates, which are in the middle 0."""
    return np.arange(len(line), dtype=np.float64) - len(line) // 2


def _normalizer(line: Float64s) -> int:
    """Return the window W whose farthest distance has the last coordinate."""
    distance = len(line) // 2
    quotient = _NORM ** min(float(line[-1]), 16.0) - 1
    return max(2, round(1 + _NORM * distance / quotient)) if quotient > 0 else 2


def _logarithms(distances: Float64s) -> Float64s:
    return np.asarray(np.sign(distances) * np.log1p(np.abs(distances)))


def _normalised(distances: Float64s, window: int) -> Float64s:
    logarithms = np.log1p(_NORM * np.abs(distances) / (window - 1)) / np.log(_NORM)
    return np.asarray(np.sign(distances) * logarithms)
