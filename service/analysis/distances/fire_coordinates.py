"""FIRE's coordinates: c from a row, the threshold and the queries from what rows are divided by."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from service.analysis.call import Call
from service.analysis.distances.growth import logarithm
from service.analysis.distances.query_keys import positions_parameters
from service.analysis.lone_arrays import lone_finite
from service.analysis.plain import plain_numbers
from service.analysis.question import Proposal, Question
from service.analysis.real_types import dtype_parameters, share_of
from service.tables.angle import Float64s, Int64s
from service.tables.document import ParameterValue

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


def fire(question: Question) -> Iterator[Proposal]:
    """Propose coordinates of queries and keys."""
    sample, found = question.sample, lone_finite(question, (1, 2))
    if found is None:
        return
    values = np.atleast_2d(found)
    of, share = _rows(values), share_of(sample)
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
        yield Proposal(Call("relative/fire", parameters), said)


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
    yield from (number for number in plain_numbers(measured, error) if number != default)
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
