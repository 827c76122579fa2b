"""Sandwich's biases: how many frequencies there are, from distance 1, and how heads share them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import exp, log

import numpy as np

from service.analysis.call import Call
from service.analysis.distances.kernel_sides import Sides, sides
from service.analysis.lone_arrays import lone_finite
from service.analysis.plain import plain_numbers
from service.analysis.question import Proposal, Question
from service.analysis.real_types import dtype_parameters, share_of
from service.tables.angle import Float64s
from service.tables.document import ParameterValue

_BASE = 10000.0
_MOST = 4
_MOST_USUAL = 3
_MOST_FREQUENCIES = 512
_MOST_LENGTHS = 16
_MOST_HEADS = 64
_HALVINGS = 50
# Sums of narrow types say a base to three digits or so, which tells apart those that are used.
_BASE_ERROR = 2.0**-10
# With another base, of so many channels of a head.
_HEAD_DIMS = (16, 32, 64, 80, 96, 128, 256)
_LARGEST_BASE = 1e9
# The sum that libraries take in float32 loses what the number of frequencies has more than it.
_LOST = 2.0**-23


@dataclass(frozen=True, eq=False)
class _Wanted:
    """What sums are looked for.

    Attributes:
        lengths: some distances, 1 and 2 first.
        sizes: how far the first head is below 0 there.
        unit: what makes sums of these; None where they are only known to be proportional.
        share: by how much of their size they may be off.
    """

    lengths: Float64s
    sizes: Float64s
    unit: float | None
    share: float

    def are(self, count: int, base: float) -> bool:
        """Tell whether sums of so many sines are these."""
        sums = _sums(count, base, self.lengths)
        scale = self.unit or sums[0] / self.sizes[0]
        error = 4 * self.share * sums + _LOST * count
        return bool((np.abs(sums - self.sizes * scale) <= error).all())


def sandwich(question: Question) -> Iterator[Proposal]:
    """Propose similarities of sinusoids, divided by the number of the head."""
    sample, values = question.sample, lone_finite(question, (1, 2, 3))
    if values is None:
        return
    share = share_of(sample)
    for of in sides(values, max(share, _LOST * _MOST_FREQUENCIES)):
        for named in islice(_of_sides(of, share), _MOST):
            parameters = {**named, **of.parameters, **dtype_parameters(sample)}
            said = (
                "biases are 0 at distance 0, and sums of squared sines beyond",
                "head h has 1/h of the biases of the first",
            )
            yield Proposal(Call("relative/sandwich", parameters), said)


def _of_sides(of: Sides, share: float) -> Iterator[dict[str, ParameterValue]]:
    heads = len(of.sizes)
    if heads > 1:
        ratios = of.sizes[0, -1] / of.sizes[:, -1]
        if not np.allclose(ratios, np.arange(1, heads + 1), rtol=4 * share + _LOST, atol=0):
            return
    some = slice(_MOST_LENGTHS)
    wanted = _Wanted(of.lengths[some], of.sizes[0, some], 4 / heads if heads > 1 else None, share)
    for head_dim, base in _found(wanted):
        more: dict[str, ParameterValue] = {} if base == _BASE else {"base": base}
        if heads > 1:
            yield {"num_heads": heads, "head_dim": head_dim, **more}
            continue
        part = 4 * wanted.sizes[-1] / _sums(head_dim // 2, base, wanted.lengths)[-1]
        number = _number_of_head(float(part), 4 * share)
        if number is not None:
            num_heads, head = number
            yield {"num_heads": num_heads, "head": head, "head_dim": head_dim, **more}


def _number_of_head(part: float, share: float) -> tuple[int, int] | None:
    """Give the fewest heads, and which of them it is, of a head that has H/h of the sums."""
    for number in range(1, _MOST_HEADS + 1):
        heads = round(part * number)
        if number <= heads <= _MOST_HEADS and abs(heads - part * number) <= share * heads:
            return heads, number - 1
    return None


def _found(of: _Wanted) -> Iterator[tuple[int, float]]:
    """Give head_dim and base whose sums are those wanted; another base only where it has to be."""
    first, second = _first_sums()
    scale = of.unit or first / of.sizes[0]
    lost = _LOST * np.arange(1, _MOST_FREQUENCIES + 1)
    is_near = np.abs(first - of.sizes[0] * scale) <= 4 * of.share * first + lost
    is_near &= np.abs(second - of.sizes[1] * scale) <= 4 * of.share * second + lost
    counts: list[int] = (np.flatnonzero(is_near) + 1).tolist()
    usual = sorted((count for count in counts if of.are(count, _BASE)), key=_oddity)
    yield from ((2 * count, _BASE) for count in usual[:_MOST_USUAL])
    for head_dim in _HEAD_DIMS:
        base = _base(head_dim // 2, of)
        for plain in plain_numbers(base or 0.0, _BASE_ERROR, 1):
            count = head_dim // 2
            if of.are(count, plain) and not any(_go_on(own, count, plain) for own in usual):
                yield head_dim, plain


def _go_on(usual: int, count: int, base: float) -> bool:
    """Tell whether frequencies of a base are those of the usual one as far as those go, or less."""
    return abs(log(base) / log(_BASE) * usual / count - 1) < _BASE_ERROR


def _oddity(count: int) -> tuple[int, int]:
    """Order numbers of frequencies by how odd a choice they are."""
    return count.bit_count(), count


@cache
def _first_sums() -> tuple[Float64s, Float64s]:
    """Give the sums of lengths 1 and 2 for every number of frequencies of the usual base."""
    counts = range(1, _MOST_FREQUENCIES + 1)
    sums = np.array([_sums(count, _BASE, np.array([1.0, 2.0])) for count in counts])
    return sums[:, 0], sums[:, 1]


def _base(count: int, of: _Wanted) -> float | None:
    """Find the base by halving: sums at distance 1 fall as it grows, and so does their growth."""

    def size_of(exponent: float) -> float:
        sums = _sums(count, exp(exponent), of.lengths[:2])
        return float(sums[0] if of.unit else -sums[1] / sums[0])

    wanted = float(of.sizes[0] * of.unit if of.unit else -of.sizes[1] / of.sizes[0])
    low, high = log(2.0), log(_LARGEST_BASE)
    if not size_of(high) < wanted < size_of(low):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if size_of(middle) > wanted:
            low = middle
        else:
            high = middle
    return exp((low + high) / 2)


def _sums(count: int, base: float, lengths: Float64s) -> Float64s:
    halves = base ** (-np.arange(1, count + 1) / count) / 2
    sums: Float64s = (np.sin(np.outer(lengths, halves)) ** 2).sum(axis=1)
    return sums
