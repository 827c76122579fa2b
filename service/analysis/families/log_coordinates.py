"""FIRE's coordinates: c from a row, the threshold and the queries from what rows are divided by.

Distances and their logarithms: what Swin V2 and dynamic position biases take in.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest, single_finite_array
from service.analysis.families.bias_strips import alike, positions_parameters
from service.analysis.families.kernel_biases import logarithm
from service.analysis.precision import dtype_parameters, error_share
from service.analysis.round_numbers import round_numbers
from service.numerics.document import ParameterValue
from service.numerics.phase import Float64s, Int64s

_C, _THRESHOLD, _EPS = 0.1, 512.0, 1e-6
_MOST = 8
_LEAST_KEYS = 4
_HELD_ROWS = 16
_LARGEST_LOGARITHM = 40.0
# Numbers that were fitted are known less well than the coordinates are.
_LOOSENESS = 2.0**10
_LOOSEST = 2.0**-4


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows, each of a query one further than the one before it.

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
        """Give what each row is divided by, from its farthest key."""
        farthest = (np.arange(len(self.rows)), self.lengths.argmax(axis=1))
        divisors: Float64s = np.log1p(c * self.lengths[farthest]) / self.values[farthest]
        return divisors


@dataclass(frozen=True)
class _Fit:
    """c, the threshold, and the position of the first query."""

    c: float
    threshold: float
    start: int

    def error(self, of: _Rows) -> float:
        """Give how far coordinates are from it at most, as a share of them."""
        queries = np.maximum(self.threshold, (self.start + of.rows).astype(np.float64))
        divisors = np.log1p(self.c * queries) + _EPS
        expected = np.log1p(self.c * of.lengths) / divisors[:, np.newaxis]
        return float(np.max(np.abs(of.values - expected) / np.maximum(expected, _EPS)))


def fire(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose coordinates of queries and keys."""
    sample, found = question.sample, single_finite_array(question, (1, 2))
    if found is None:
        return
    values = np.atleast_2d(found)
    of, share = _rows(values), error_share(sample)
    if of is None:
        return
    for fit in islice(_fits(of, share), _MOST):
        queries = fit.start + np.arange(len(values))
        keys = fit.start - of.zero + np.arange(values.shape[1])
        places = positions_parameters(queries, keys)
        parameters = {**_parameters(fit), **places, **dtype_parameters(sample)}
        said = (
            f"a row grows as ln(1 + {fit.c:.6g}·m) with the distance m",
            f"rows are divided as with a threshold of {fit.threshold:.6g}",
        )
        yield Proposal(TableRequest("relative/fire", parameters), said)


def _parameters(fit: _Fit) -> dict[str, ParameterValue]:
    parameters: dict[str, ParameterValue] = {}
    if fit.c != _C:
        parameters["c"] = fit.c
    if fit.threshold != _THRESHOLD:
        parameters["threshold"] = fit.threshold
    return parameters


def _rows(values: Float64s) -> _Rows | None:
    """Choose some rows, if every one that has a 0 has it where the one before it has, and one on.

    Rows are taken for queries that follow one another.
    """
    rows = np.unique(np.linspace(0, len(values) - 1, _HELD_ROWS, dtype=np.int64))
    some = values[rows]
    if values.shape[1] < _LEAST_KEYS or some.min() < 0:
        return None
    row, column = np.nonzero(some == 0)
    places = column - rows[row]
    if not len(places) or (places != places[0]).any():
        return None
    zero = int(places[0])
    lengths = np.abs(np.arange(values.shape[1]) - (zero + rows)[:, np.newaxis])
    return _Rows(zero, rows, lengths.astype(np.float64), some)


def _fits(of: _Rows, share: float) -> Iterator[_Fit]:
    widest = int(of.lengths.max(axis=1).argmax())
    order = np.argsort(of.lengths[widest], kind="stable")
    order = order[of.lengths[widest][order] > 0]
    if not (of.values[widest][order] > 0).all():
        return
    measured = logarithm(of.lengths[widest][order], of.values[widest][order])
    if measured is None:
        return
    error = min(_LOOSENESS * share, _LOOSEST)
    for c in _candidates(measured.inner, _C, error):
        fit = _fit(of, c, error)
        if fit is None:
            continue
        for threshold in _candidates(fit.threshold, _THRESHOLD, error):
            plain = replace(fit, threshold=threshold)
            if plain.error(of) <= share:
                yield plain


def _candidates(measured: float, default: float, error: float) -> Iterator[float]:
    """Give a default near what was measured, plain numbers, and what was measured."""
    if abs(default - measured) <= error * measured:
        yield default
    yield from (number for number in round_numbers(measured, error) if number != default)
    yield measured


def _fit(of: _Rows, c: float, error: float) -> _Fit | None:
    """Find the threshold, the least that rows are divided by, and queries by those past it."""
    divisors = of.divisors(c)
    if not (divisors < _LARGEST_LOGARITHM).all():
        return None
    reach = np.expm1(divisors - _EPS) / c
    least = max(of.zero, 0)
    if (reach <= reach.min() * (1 + error)).all():
        return _Fit(c, max(0.0, float(reach[0])), least)
    start = round(float(reach[-1])) - int(of.rows[-1])
    # Where all queries are past the threshold, it may be anywhere before the first.
    is_before = reach[0] > start + 0.5
    return _Fit(c, float(reach[0]) if is_before else float(max(start, 0)), start)


# Swin V2: sign(Δ)·log2(1 + 8·|Δ|/(W − 1))/log2(8), arXiv:2111.09883.
_NORM = 8.0
_LEAST_LENGTH = 3


def dynamic(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose the distances of a sequence, or their logarithms."""
    sample, values = question.sample, single_finite_array(question, (1,))
    share = error_share(sample)
    if values is None or len(values) < _LEAST_LENGTH or len(values) % 2 == 0:
        return
    count = len(values) // 2 + 1
    distances = np.arange(1 - count, count, dtype=np.float64)
    for is_log, expected in ((False, distances), (True, _logarithms(distances))):
        if alike(values, expected, share):
            more: dict[str, ParameterValue] = {"log_distance": True} if is_log else {}
            parameters = {"seq_len": count, **more, **dtype_parameters(sample)}
            said = "sign(d)·ln(1 + |d|)" if is_log else "d"
            support = f"numbers are {said} for d from {1 - count} to {count - 1}"
            yield Proposal(TableRequest("relative/dynamic", parameters), (support,))


def swin_v2(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose the coordinates of a window, both of them or one alone."""
    sample, values = question.sample, single_finite_array(question, (2, 3))
    share = error_share(sample)
    if values is None:
        return
    for axis, height, width in _axes(values):
        found = _window((height, width), share)
        if found is not None:
            alone: dict[str, ParameterValue] = {} if axis is None else {"axis": axis}
            parameters = {**found, **alone, **dtype_parameters(sample)}
            yield Proposal(TableRequest("relative/swin-v2", parameters), (_said(parameters),))


def _said(parameters: dict[str, ParameterValue]) -> str:
    if parameters.get("mode") == "cr":
        return "coordinates are sign(d)·ln(1 + |d|)"
    by = parameters.get("pretrained_window_size", parameters["window_size"])
    return f"coordinates are sign(d)·log2(1 + |8d/(W - 1)|)/log2 8 for windows W of {by}"


def _axes(values: Float64s) -> Iterator[tuple[str | None, Float64s, Float64s]]:
    """Read one line of each coordinate, where the other one does not matter to it."""
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
    pairs = [pair for pair in zip(lines, distances, strict=True) if pair[0].any()]
    if not pairs:
        return None
    if all(alike(line, _logarithms(own), share) for line, own in pairs):
        return {**window, "mode": "cr"}
    trained = []
    for line, own, side in zip(lines, distances, sides, strict=True):
        normalizer = _normalizer(line) if line.any() else max(side, 2)
        if line.any() and not alike(line, _scaled(own, normalizer), 2 * share):
            return None
        trained.append(normalizer)
    return window if trained == sides else {**window, "pretrained_window_size": tuple(trained)}


def _normalizer(line: Float64s) -> int:
    """Give the W whose coordinate of the farthest distance is the last."""
    distance = len(line) // 2
    quotient = _NORM ** min(float(line[-1]), 16.0) - 1
    return max(2, round(1 + _NORM * distance / quotient)) if quotient > 0 else 2


def _logarithms(distances: Float64s) -> Float64s:
    return np.asarray(np.sign(distances) * np.log1p(np.abs(distances)))


def _scaled(distances: Float64s, window: int) -> Float64s:
    scaled = np.log1p(_NORM * np.abs(distances) / (window - 1)) / np.log(_NORM)
    return np.asarray(np.sign(distances) * scaled)
