"""``/rope`` with mrope_section: a series of frequencies, each turning with one of three positions.

The slowest pairs have not gone round once: from how their angles compare the base follows, and from
the base the positions, to a whole number as faster pairs that turn with the same ones refine them.
"""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from service.analysis.call import Call
from service.analysis.grids.axial_packs import Packed, packed
from service.analysis.grids.section_groups import ARITHMETIC, grouped
from service.analysis.grids.section_orders import Order, orders
from service.analysis.plain import plain_numbers
from service.analysis.question import Proposal, Question, Turning
from service.analysis.rotary.located import rules_of_first_rows
from service.analysis.rotary.rules_measured import USUAL_BASES, Found, frequencies
from service.tables.angle import Float64s, Int64s
from service.tables.document import ParameterValue
from service.tables.dtypes import FLOAT32
from service.tables.grid import Tokens
from service.tables.mrope import AXES
from service.tables.positions import Positions
from service.tables.rope_rules import Default

_USUAL_THETA = 10000.0
_LEAST_FREQUENCIES = 3
_MOST_ROWS = 4096
_MOST = 6

# Between two pairs of one axis lies one frequency, or three where the axes take turns.
_GAPS = (1, 3)
_SLOW_PAIRS = 12

# A text before the first image says the rule, if it is as long as this or shorter.
_TEXT_ROWS = 16


def propose(question: Question) -> Iterator[Proposal]:
    """Propose the tables of M-RoPE that an array, or two, may be."""
    yield from islice(_proposals(question), _MOST)


def _proposals(question: Question) -> Iterator[Proposal]:
    for table in packed(question):
        rows, count = table.components[0].shape
        if count < _LEAST_FREQUENCIES or not 2 <= rows <= _MOST_ROWS or _is_sequence(table):
            continue
        for rule in islice(_rules(table), _MOST):
            omega = frequencies(rule.rule)
            if not (omega > 0).all():
                continue
            groups = grouped(np.angle(table.turns), omega, (table.rounding, table.least))
            if groups is None or len(groups) == 1 or not all(each.is_counted for each in groups):
                continue
            for order in orders([each.places for each in groups], count):
                yield _proposal(table, rule, omega, order, [each.whole for each in groups])


def _rules(table: Packed) -> Iterator[Found]:
    """Find rules: those without scaling by the slowest pairs, others by the rows of a text."""
    count = table.count
    slow = table.some(list(range(max(count - _SLOW_PAIRS - max(_GAPS), 0), count)))
    if table.scale == 1.0:
        for theta in _bases(np.angle(slow), count, table):
            said = (f"the angles of the slowest pairs are as {theta:g}^(-k/{count})",)
            named = {} if theta == _USUAL_THETA else {"rope_theta": theta}
            yield Found(Default(2 * count, theta), named, said)
    for found in rules_of_first_rows(table.turns[:_TEXT_ROWS], table.rounding):
        if not found.parameters.keys() <= {"rope_theta"}:
            yield found


def _is_sequence(table: Packed) -> bool:
    """Tell whether rows follow each other evenly, as those of one sequence of positions do.

    The last three pairs turn along all three axes where these take turns; where each has a block of
    pairs, these are the first, one in the middle and the last.
    """
    count = table.count
    some = table.some(sorted({0, count // 2, *range(count - _LEAST_FREQUENCIES, count)}))
    ahead = some[1:] * some[:-1].conj()
    # Two roundings of each of two rows move such a product by twice as much as one row.
    loose = 8 * table.rounding + ARITHMETIC * len(some)
    return bool((np.abs(ahead - ahead[0]) <= loose).all())


def _bases(angles: Float64s, count: int, table: Packed) -> list[float]:
    """Measure the base by pairs of slow frequencies, the last of all, that are proportional."""
    rounding, least = table.rounding, 4 * table.least + 2.0**-40
    last = angles.shape[1] - 1
    for k in range(last, max(last - _SLOW_PAIRS, 0), -1):
        slow = angles[:, k]
        if np.abs(slow).max() < 2.0**-40:
            continue
        for gap in _GAPS:
            if k - gap < 0:
                continue
            fast = np.unwrap(angles[:, k - gap])
            ratio = float(slow @ fast) / float(slow @ slow)
            noise = (2 * rounding + ARITHMETIC) * (np.abs(fast) + ratio * np.abs(slow))
            if ratio > 1 and (np.abs(fast - ratio * slow) <= 4 * noise + (1 + ratio) * least).all():
                # A least square over rows of relative errors: as heavy as the largest angles.
                error = 4 * (2 * rounding + ARITHMETIC) * count / gap
                power = np.log(ratio) * count / gap
                if power < 100:
                    return _plain_bases(float(np.exp(power)), error)
    return []


def _plain_bases(measured: float, error: float) -> list[float]:
    """Give bases near a measured one: those of published models first."""
    usual = [base for base in USUAL_BASES if abs(base - measured) <= error * measured]
    return list(dict.fromkeys([*usual, *plain_numbers(measured, error, 3)]))


def _proposal(
    table: Packed, rule: Found, omega: Float64s, order: Order, positions: list[Int64s]
) -> Proposal:
    along = {axis: positions[group] for axis, group in zip(AXES, order.groups, strict=True)}
    parameters: dict[str, ParameterValue] = {
        "head_dim": 2 * len(omega),
        **rule.parameters,
        "mrope_section": order.section,
    }
    if order.interleaved:
        parameters["mrope_interleaved"] = True
    parameters |= _spelled(along)
    if table.pack != "pair":
        parameters["pack"] = table.pack
    if table.dtype is not FLOAT32:
        parameters["dtype"] = table.dtype.name
    shares = ", ".join(map(str, order.section))
    support = (
        *rule.says,
        f"{shares} of {len(omega)} frequencies turn with three sequences of whole positions",
    )
    channels = table.channels()
    turning = None
    if channels:
        coordinates = np.stack([along[axis] for axis in AXES], axis=1).astype(np.float64)
        axis_of = tuple(AXES.index(axis) for axis in order.axis_of)
        turning = Turning(coordinates, axis_of, omega, channels, rule.rule.scale)
    return Proposal(Call("rope", parameters), support, turning)


def _spelled(along: dict[str, Int64s]) -> dict[str, ParameterValue]:
    """Say the positions along three axes, as a grid where they are those of one."""
    lengths = tuple(int(along[axis].max()) + 1 for axis in AXES)
    rows = len(along["t"])
    if min(lengths) > 0 and np.prod(lengths, dtype=float) == rows:
        grid = Tokens.of_grid(lengths, AXES)
        if all((grid.axes[axis].at(0, rows) == along[axis]).all() for axis in AXES):
            return {"grid": lengths}
    listed = {axis: Positions.of_runs(along[axis].tolist()) for axis in AXES}
    return {f"positions_{axis}": str(positions) for axis, positions in listed.items()}
