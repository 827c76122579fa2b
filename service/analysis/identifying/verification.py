"""Whether an array is the table that is proposed, in whatever arithmetic, and if not, where not."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from service.analysis.call import Tables
from service.analysis.identifying.arithmetic import FLOAT32_STEPS, Arithmetic, plainest
from service.analysis.identifying.verification_claims import Claim, agrees
from service.analysis.identifying.verification_glance import Glance, glance
from service.analysis.identifying.verification_rows import INTEGERS
from service.analysis.question import Proposal, Question
from service.analysis.sample import spacing
from service.tables.angle import Float64s
from service.tables.document import Document
from service.tables.dtypes import DType
from service.tables.table import steps

# So few numbers are wrong, where nearly all are those of exacter arithmetic.
_FEW = 1e-4

# Smaller than any number of any type, and no zero.
_LEAST_SIZE = 5e-324

Position: TypeAlias = float | tuple[float, ...] | None


@dataclass(frozen=True)
class Departure:
    """Where an array is no longer what the best arithmetic makes of a table.

    Attributes:
        array: its name.
        index: where, in the array as it was sent.
        row: the row of the table.
        position: of that row, where it has one.
        channel: where along the last axis of the table.
        yours, expected: the number there, and that of the table.
        allowed: how far the best arithmetic lets it be from what it makes.
    """

    array: str
    index: tuple[int, ...]
    row: int
    position: Position
    channel: int
    yours: float
    expected: float
    allowed: float

    @property
    def error(self) -> float:
        """How far the number is from that of the table."""
        return abs(self.yours - self.expected)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What became of a proposal.

    Attributes:
        proposal: what was proposed.
        document: the table.
        arithmetic: what explains every number, the most exact first; none where nothing does.
        max_absolute: how far numbers are from those of the table at most.
        max_ulp: the same in steps of the array's type at the larger of both; None for integers.
        index: where they are farthest, in the array as it was sent.
        position: of that row, where it has one.
        agreeing: the share of numbers that the best arithmetic explains.
        leaves_at: the first that it does not.
    """

    proposal: Proposal
    document: Document
    arithmetic: tuple[Arithmetic, ...]
    max_absolute: float
    max_ulp: float | None
    index: tuple[int, ...]
    position: Position
    agreeing: float
    leaves_at: Departure | None

    @property
    def holds(self) -> bool:
        """Tell whether the array is this table."""
        return bool(self.arithmetic)


def verify(question: Question, proposal: Proposal, tables: Tables) -> Verdict | None:
    """Hold an array to the table proposed; None where there is no such table of that shape."""
    looked = glance(question, proposal, tables)
    return None if looked is None else verdict_of(looked)


@dataclass(eq=False)
class _Standing:
    """How far a claim has come: the numbers that it explains, and the first that it does not."""

    claim: Claim
    explained: int = 0
    failed: tuple[str, int, int] | None = None


def verdict_of(looked: Glance) -> Verdict:
    """Go through all rows, some at a time, and see which claims are left."""
    standings = [_Standing(claim) for claim in looked.claims]
    farthest: tuple[float, str, int, int] = (0.0, next(iter(looked.arrays)), 0, 0)
    max_ulp, total = 0.0, 0
    for rows, have, exact in _blocks(looked):
        for name in have:
            total += have[name].size
            dtype = looked.arrays[name].sample.element_dtype
            error, ulps = _errors(have[name], exact[name], dtype)
            at = np.unravel_index(int(np.argmax(error)), error.shape)
            if error[at] > farthest[0]:
                farthest = (float(error[at]), name, int(rows[at[0]]), int(at[1]))
            max_ulp = max(max_ulp, ulps)
        for standing in standings:
            _advance(standing, rows, have, exact)
    kept = _borne_out(standings, total)
    best = max(
        standings, key=lambda each: (each in kept or each.failed is not None, each.explained)
    )
    size, name, row, channel = farthest
    is_integer = looked.arrays[name].sample.dtype in INTEGERS
    return Verdict(
        looked.proposal,
        looked.document,
        plainest(tuple(standing.claim.arithmetic for standing in kept)),
        size,
        None if is_integer else max_ulp,
        looked.arrays[name].index(row, channel),
        _position(looked, row),
        best.explained / total,
        None if kept else _departure(looked, best),
    )


def _borne_out(standings: list[_Standing], total: int) -> list[_Standing]:
    """List the claims that explain every number.

    Float32 in steps does not, where a tighter claim explains all but a few in ten thousand: steps
    that engines take in another way move every large angle, not one.
    """
    kept = [standing for standing in standings if standing.failed is None]
    tight = [each for each in standings if each.claim.arithmetic.rank < FLOAT32_STEPS.rank]
    nearly = max((each.explained for each in tight), default=0)
    if nearly < total and nearly >= total * (1 - _FEW):
        return []
    return kept


def _blocks(
    looked: Glance,
) -> Iterator[tuple[np.ndarray, Mapping[str, Float64s], Mapping[str, Float64s]]]:
    """Give rows of the arrays and of the tables, some at a time."""
    width = max(array.values.shape[1] for array in looked.arrays.values())
    for step in steps(looked.row_count, width):
        rows = np.arange(step.start, step.stop)
        have = {name: array.values[step] for name, array in looked.arrays.items()}
        yield rows, have, {name: table.read(rows) for name, table in looked.tables.items()}


def _errors(have: Float64s, exact: Float64s, dtype: DType) -> tuple[Float64s, float]:
    """Give how far numbers are from those of a table, and how many steps of a type at most."""
    with np.errstate(invalid="ignore"):
        error = np.where(have == exact, 0.0, np.abs(have - exact))
    error = np.nan_to_num(error, nan=np.inf, posinf=np.inf)
    if dtype in INTEGERS:
        return error, 0.0
    larger = np.maximum(np.abs(exact), np.abs(have))
    larger = np.where(np.isfinite(larger), larger, 1.0)
    share = error / np.maximum(larger, _LEAST_SIZE)
    # A step is half as large as another in numbers of one size at least: the others are fewer.
    most = share >= share.max() / 2
    return error, float((error[most] / spacing(larger[most], dtype)).max())


def _advance(
    standing: _Standing,
    rows: np.ndarray,
    have: Mapping[str, Float64s],
    exact: Mapping[str, Float64s],
) -> None:
    for name in have:
        good = agrees(standing.claim, name, rows, have[name], exact[name])
        standing.explained += int(np.count_nonzero(good))
        if standing.failed is None and not good.all():
            row, channel = np.unravel_index(int(np.argmin(good)), good.shape)
            standing.failed = (name, int(rows[row]), int(channel))


def _departure(looked: Glance, standing: _Standing) -> Departure | None:
    if standing.failed is None:
        return None
    name, row, channel = standing.failed
    rows = np.array([row])
    array = looked.arrays[name]
    exact = looked.tables[name].read(rows)
    _, allowed = standing.claim.predict(name, rows, exact)
    return Departure(
        name,
        array.index(row, channel),
        row,
        _position(looked, row),
        channel,
        float(array.values[row, channel]),
        float(exact[0, channel]),
        float(allowed[0, channel]),
    )


def _position(looked: Glance, row: int) -> Position:
    turning = looked.proposal.turning
    if turning is None or len(turning.coordinates) != looked.row_count:
        return None
    place = [float(part) for part in turning.coordinates[row]]
    return place[0] if len(place) == 1 else tuple(place)
