"""Indices: Shaw's clipped distances, Swin's relative positions, permutations of rotary weights."""

from collections.abc import Iterator

import numpy as np

from service.analysis.call import Call
from service.analysis.distances.distance_indices import Found, propose_rules
from service.analysis.distances.strips import Strip
from service.analysis.lone_arrays import lone_integers
from service.analysis.question import Proposal, Question
from service.tables.angle import Int64s
from service.tables.buckets import Clipped
from service.tables.document import ParameterValue
from service.tables.permutation import HeadOrder
from service.tables.windows import Window

# Of fewer tokens, a wrong one is too many.
_FEWEST_TOKENS = 4


def shaw(question: Question) -> Iterator[Proposal]:
    """Propose matrices of clipped distances."""
    return propose_rules(question, "relative/shaw", _shaw_rules)


def _shaw_rules(strip: Strip) -> Iterator[Found]:
    numbers = strip.values[0].astype(np.int64)
    repeats = np.flatnonzero(np.diff(numbers) == 0)
    is_line = min(strip.queries, strip.keys) == 1
    if not np.isin(np.diff(numbers), (0, 1)).all() or numbers[-1] < 2:
        return
    if is_line and not len(repeats):
        return
    # Where both ends are clipped the middle is 0; otherwise queries and keys begin or end together.
    middle = np.flatnonzero(2 * numbers == numbers[-1]).tolist()
    together = [strip.queries - 1, strip.keys - 1]
    is_clipped = len(repeats) > 1 and repeats[0] == 0 and repeats[-1] == len(numbers) - 2
    places = [*middle, *together] if is_clipped else [*together, *middle]
    for zero in dict.fromkeys(places):
        if 0 <= zero < len(numbers) and numbers[zero] > 0:
            clipped = int(numbers[zero])
            said = f"numbers rise with key - query by one, and are {clipped} at distance 0"
            yield Found(Clipped(clipped), {"max_relative_position": clipped}, zero, (said,))


def swin(question: Question) -> Iterator[Proposal]:
    """Propose the relative positions of the tokens of a window, a row of which may be wrong."""
    numbers = lone_integers(question, (2,))
    if numbers is None or numbers.shape[0] != numbers.shape[1]:
        return
    for has_token in (False, True):
        inner = numbers[has_token:, has_token:]
        # From the last token back, numbers fall as they rise from the first on: one of both ends
        # is right if one row is wrong.
        for height, width in dict.fromkeys((*_sides(inner), *_sides(-inner[::-1, ::-1]))):
            window = Window(height, width, has_token)
            if _is_of_window(numbers, window):
                yield _swin_proposal(window)


def _is_of_window(numbers: Int64s, window: Window) -> bool:
    """Tell by some rows whether all rows but one may be those of a window."""
    tokens = window.tokens
    every, some = range(tokens), {0, 1, window.width, window.width + 1, tokens // 2, tokens - 1}
    rows = [row for row in sorted(some) if row < tokens]
    right = [
        np.array_equal(window.numbers(range(row, row + 1), every)[0], numbers[row]) for row in rows
    ]
    return sum(right) >= (len(rows) if tokens < _FEWEST_TOKENS else len(rows) - 1)


def _sides(numbers: Int64s) -> Iterator[tuple[int, int]]:
    """Give the sides of windows: a row of it ends where numbers rise by more than one."""
    tokens = len(numbers)
    rising = numbers[:, 0] - numbers[0, 0]
    jumps = np.flatnonzero(rising != np.arange(tokens))
    if tokens < 2:
        return
    if len(jumps):
        width = int(jumps[0])
        if tokens % width == 0:
            yield tokens // width, width
        return
    yield 1, tokens
    yield tokens, 1


def _swin_proposal(window: Window) -> Proposal:
    parameters: dict[str, ParameterValue] = {"window_size": (window.height, window.width)}
    if window.class_token:
        parameters["class_token"] = True
    said = (
        f"by one along {window.width} tokens, by {2 * window.width - 1} from row to row",
        f"the number of a token and itself is the middle of {window.between_tokens}",
    )
    return Proposal(Call("relative/swin", parameters), said)


def permutations(question: Question) -> Iterator[Proposal]:
    """Propose the order of weights in the other rotary layout."""
    order = lone_integers(question, (1,))
    if order is None or len(order) < 4:
        return
    if not np.array_equal(np.sort(order), np.arange(len(order))):
        return
    head_dim = _period(order)
    moved = np.flatnonzero(order[:head_dim] != np.arange(head_dim))
    if not len(moved):
        return
    # The first channel that turns stays where it is, and so does the last.
    offset, rotary_dim = int(moved[0]) - 1, int(moved[-1] - moved[0]) + 3
    if offset < 0 or offset + rotary_dim > head_dim or rotary_dim % 2:
        return
    for layout, output in (("interleaved", "half"), ("half", "interleaved")):
        rule = HeadOrder(head_dim, rotary_dim, offset, layout, output)
        if np.array_equal(rule.sources(np.arange(head_dim)), order[:head_dim]):
            yield _permutation_proposal(rule, len(order) // head_dim)


def _period(order: Int64s) -> int:
    """Give after how many channels the next head does the same."""
    for period in range(4, len(order) // 2 + 1):
        if len(order) % period == 0:
            heads = order.reshape(-1, period) - np.arange(0, len(order), period)[:, np.newaxis]
            if (heads == heads[0]).all():
                return period
    return len(order)


def _permutation_proposal(rule: HeadOrder, heads: int) -> Proposal:
    parameters: dict[str, ParameterValue] = {"head_dim": rule.head_dim}
    if rule.rotary_dim < rule.head_dim - rule.rotary_offset:
        parameters["rotary_dim"] = rule.rotary_dim
    if rule.rotary_offset:
        parameters["rotary_offset"] = rule.rotary_offset
    if rule.layout != "interleaved":
        parameters["layout"] = rule.layout
    if heads > 1:
        parameters["num_attention_heads"] = heads
    said = (
        f"the same order within each of {heads} heads of {rule.head_dim} channels",
        f"{rule.rotary_dim} channels go from {rule.layout} to {rule.output_layout}",
    )
    return Proposal(Call("rope/permutation", parameters), said)
