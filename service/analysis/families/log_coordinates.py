"""Propose ``/relative/fire``, ``/relative/swin-v2`` and ``/relative/dynamic``: scaled distances.

FIRE's coordinates are logarithms of lengths, divided by a logarithm of the query's: a row gives c,
and what rows are divided by gives the threshold and the queries. The coordinates of Swin V2 and of
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
from service.analysis.measure import spread_indices
from service.analysis.precision import error_share
from service.analysis.round_numbers import round_numbers
from service.numerics.phase import Float64s, Int64s
from service.numerics.tables import ParameterValue

_C, _THRESHOLD, _EPS = 0.1, 512.0, 1e-6
_MAX_PROPOSALS = 8
_LEAST_KEYS = 4
_FIRE_ROWS = 16
_LARGEST_LOGARITHM = 40.0
# Fitted numbers are known less well than the coordinates are.
_LOOSENESS = 2.0**10
_LOOSEST = 2.0**-4


@dataclass(frozen=True, eq=False)
class _FireRows:
    """Some rows of queries that follow one another.

    Attributes:
        zero: the column of the key that is where the first of all queries is, or would be.
        rows: their numbers, (R,).
        lengths: how far each key is from the query, (R, K).
        values: (R, K).
    """

    zero: int
    rows: Int64s
    lengths: Float64s
    values: Float64s

    def divisors(self, c: float) -> Float64s:
        """Return what each row is divided by, from its farthest key."""
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
        """Return how far coordinates are from it at most, as a share of them."""
        queries = np.maximum(self.threshold, (self.start + rows.rows).astype(np.float64))
        divisors = np.log1p(self.c * queries) + _EPS
        expected = np.log1p(self.c * rows.lengths) / divisors[:, np.newaxis]
        return float(np.max(np.abs(rows.values - expected) / np.maximum(expected, _EPS)))


def propose_fire(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose coordinates of queries and keys."""
    sample, values = request.sample, single_finite_array(request, (1, 2))
    if values is None:
        return
    values = np.atleast_2d(values)
    rows = _fire_rows(values)
    if rows is None:
        return
    for fit in islice(_fire_fits(rows, error_share(sample)), _MAX_PROPOSALS):
        queries = fit.start + np.arange(len(values))
        keys = fit.start - rows.zero + np.arange(values.shape[1])
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
    """Choose some rows, if every 0 in them is one column after that of the row before."""
    rows = spread_indices(len(values), _FIRE_ROWS)
    some = values[rows]
    if values.shape[1] < _LEAST_KEYS or some.min() < 0:
        return None
    row, column = np.nonzero(some == 0)
    places = column - rows[row]
    if not len(places) or (places != places[0]).any():
        return None
    zero = int(places[0])
    lengths = np.abs(np.arange(values.shape[1]) - (zero + rows)[:, np.newaxis])
    return _FireRows(zero, rows, lengths.astype(np.float64), some)


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
    """Yield a default near what was measured, plain numbers, and what was measured."""
    if abs(default - measured) <= error * measured:
        yield default
    yield from (number for number in round_numbers(measured, error) if number != default)
    yield measured


def _measured_fire(rows: _FireRows, c: float, error: float) -> _FireFit | None:
    """Find the threshold, the least that rows are divided by, and queries by those past it."""
    divisors = rows.divisors(c)
    if not (divisors < _LARGEST_LOGARITHM).all():
        return None
    reach = np.expm1(divisors - _EPS) / c
    if (reach <= reach.min() * (1 + error)).all():
        return _FireFit(c, max(0.0, float(reach[0])), max(rows.zero, 0))
    start = round(float(reach[-1])) - int(rows.rows[-1])
    # Where all queries are past the threshold, it may be anywhere before the first.
    is_before = reach[0] > start + 0.5
    return _FireFit(c, float(reach[0]) if is_before else float(max(start, 0)), start)


# Swin V2: sign(Δ)·log2(1 + 8·|Δ|/(W − 1))/log2(8), arXiv:2111.09883.
_NORM = 8.0
_LEAST_LENGTH = 3


def propose_dynamic(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the distances of a sequence, or their logarithms."""
    sample, values = request.sample, single_finite_array(request, (1,))
    share = error_share(sample)
    if values is None or len(values) < _LEAST_LENGTH or len(values) % 2 == 0:
        return
    count = len(values) // 2 + 1
    distances = np.arange(1 - count, count, dtype=np.float64)
    for is_log, expected in ((False, distances), (True, _logarithms(distances))):
        if alike(values, expected, share):
            parameters = {
                "seq_len": count,
                **unless_default("log_distance", is_log, default=False),
            }
            formula = "sign(d)·ln(1 + |d|)" if is_log else "d"
            support = f"numbers are {formula} for d from {1 - count} to {count - 1}"
            yield table_proposal(request, "relative/dynamic", parameters, (support,))


def propose_swin_v2(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose the coordinates of a window, both of them or one alone."""
    sample, values = request.sample, single_finite_array(request, (2, 3))
    if values is None:
        return
    for axis, height, width in _window_lines(values):
        window = _window((height, width), error_share(sample))
        if window is None:
            continue
        alone: dict[str, ParameterValue] = {} if axis is None else {"axis": axis}
        support = "coordinates are sign(d)·ln(1 + |d|)"
        if "mode" not in window:
            by = window.get("pretrained_window_size", window["window_size"])
            formula = "sign(d)·log2(1 + |8d/(W - 1)|)/log2 8"
            support = f"coordinates are {formula} for windows W of {by}"
        yield table_proposal(request, "relative/swin-v2", {**window, **alone}, (support,))


def _window_lines(values: Float64s) -> Iterator[tuple[str | None, Float64s, Float64s]]:
    """Read one line of each coordinate, if it does not depend on the other one."""
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
    """Find the window, and what distances are normalised by, of the lines down and across."""
    distances = [np.arange(-(len(line) // 2), len(line) // 2 + 1.0) for line in lines]
    sides = [len(line) // 2 + 1 for line in lines]
    window: dict[str, ParameterValue] = {"window_size": tuple(sides)}
    filled = [line.any() for line in lines]
    if not any(filled):
        return None
    if all(
        alike(line, _logarithms(own), share)
        for line, own, is_filled in zip(lines, distances, filled, strict=True)
        if is_filled
    ):
        return {**window, "mode": "cr"}
    trained = []
    for line, own, side, is_filled in zip(lines, distances, sides, filled, strict=True):
        normalizer = _normalizer(line) if is_filled else max(side, 2)
        if is_filled and not alike(line, _normalised(own, normalizer), 2 * share):
            return None
        trained.append(normalizer)
    return window if trained == sides else {**window, "pretrained_window_size": tuple(trained)}


def _normalizer(line: Float64s) -> int:
    """Return the W whose coordinate of the farthest distance is the last."""
    distance = len(line) // 2
    quotient = _NORM ** min(float(line[-1]), 16.0) - 1
    return max(2, round(1 + _NORM * distance / quotient)) if quotient > 0 else 2


def _logarithms(distances: Float64s) -> Float64s:
    return np.asarray(np.sign(distances) * np.log1p(np.abs(distances)))


def _normalised(distances: Float64s, window: int) -> Float64s:
    logarithms = np.log1p(_NORM * np.abs(distances) / (window - 1)) / np.log(_NORM)
    return np.asarray(np.sign(distances) * logarithms)
