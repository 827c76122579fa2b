"""Numbers with a mistake that only one family has: exchanged parts of grids, slopes of other heads.

``explain_numbers`` tries them beside the tables of other settings.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations
from math import prod

import numpy as np

from service.analysis.array import TableRequest
from service.analysis.explanation.catalogue import Mistake, mistake
from service.analysis.explanation.numeric_tables import Alternative, Numbers
from service.encodings.grid.sincos import Layout, lanes
from service.encodings.relative.alibi import SlopeRule
from service.numerics.phasors import Indices

_TABLES = frozenset({"relative/alibi", "relative/alibi/slopes"})
# The heads and the largest exponents of models with such slopes.
_HEADS, _BIAS_MAX = (8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 71, 80, 96, 112, 128), (4, 16)
# Fewer slopes are those of many rules.
_FEWEST = 3
# The slopes of two rules are the same if float64 rounded them.
_SAME = 1e-14


def exchanged(
    layout: Layout, width: int, want: Numbers, *, channels_first: bool
) -> Iterator[Alternative]:
    """Yield the numbers of a grid whose channels or tokens are exchanged.

    What each channel holds, and along which axis tokens run, is known from the layout of the table.

    Args:
        layout: the layout.
        width: the number of channels.
        want: the expected numbers.
        channels_first: whether the first axis is that of the channels.
    """
    orders = [(wrong, order, 1) for wrong, order in _of_channels(layout, width)]
    if not layout.leading and not channels_first:
        orders += [(wrong, order, 0) for wrong, order in _of_tokens(layout)]
    for wrong, order, axis in orders:
        arrays = {}
        for name, sample in want.arrays.items():
            values = np.moveaxis(sample.values, 0, -1) if channels_first else sample.values
            table = values.reshape(-1, width).take(order, axis=axis).reshape(values.shape)
            moved = np.moveaxis(table, -1, 0) if channels_first else table
            arrays[name] = replace(sample, values=moved)
        yield wrong, None, replace(want, arrays=arrays)


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


def other_slopes(
    request: TableRequest, want: Numbers, sent: tuple[int, ...]
) -> Iterator[Alternative]:
    """Yield the numbers of ALiBi for fewer heads, for the first of more, or of another exponent.

    Where the first slopes of more heads are those of another exponent, that follows them.

    Args:
        request: the expected request.
        want: its numbers.
        sent: the shape of the array.
    """
    given = request.parameters
    heads = int(str(given.get("num_heads", 0)))
    if request.resource not in _TABLES or "head" in given or want.shape[0] != heads:
        return
    count = sent[0] if len(sent) == len(want.shape) else 1
    if not _FEWEST <= count <= heads:
        return
    convention, bias_max = str(given.get("convention", "original")), given.get("alibi_bias_max", 8)
    rule = SlopeRule(convention, heads, float(str(bias_max)))
    for have in _HEADS:
        other = replace(rule, count=have)
        if min(have, heads) != count or _are_same(rule, other):
            continue
        values, numbers = (
            {"key": "num_heads", "have": have, "want": heads},
            _with(rule, other, want),
        )
        if have < heads:
            wrong = mistake("wrong-parameter", None, values)
            yield wrong, request.with_parameters(num_heads=have), numbers
            continue
        yield mistake("wrong-heads", None, values), None, numbers
        rival = replace(rule, bias_max=rule.bias_max * heads / have)
        if _are_same(rival, other):
            yield _of_exponent(request, rule, rival, want)
    # Of fewer heads, another exponent is another step from head to head.
    for exponent in _BIAS_MAX if count == heads else ():
        if exponent != rule.bias_max:
            yield _of_exponent(request, rule, replace(rule, bias_max=exponent), want)


def _of_exponent(
    request: TableRequest, want: SlopeRule, have: SlopeRule, numbers: Numbers
) -> Alternative:
    values = {"key": "alibi_bias_max", "have": have.bias_max, "want": want.bias_max}
    other = request.with_parameters(alibi_bias_max=f"{have.bias_max:.17g}")
    return mistake("wrong-parameter", None, values), other, _with(want, have, numbers)


def _are_same(one: SlopeRule, other: SlopeRule) -> bool:
    heads = range(min(one.count, other.count))
    first, second = (each.of_heads(heads).high for each in (one, other))
    return bool((np.abs(first - second) <= _SAME * first).all())


def _with(want: SlopeRule, have: SlopeRule, numbers: Numbers) -> Numbers:
    """Return numbers with other slopes, for as many heads as both rules have."""
    count = min(want.count, have.count)
    high, expected = (each.of_heads(range(count)).high for each in (have, want))
    arrays = {
        name: replace(each, values=(each.values[:count].T * (high / expected)).T)
        for name, each in numbers.arrays.items()
    }
    return replace(numbers, arrays=arrays)
