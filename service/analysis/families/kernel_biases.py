"""Kernels: biases that are 0 at distance 0 and fall with the distance, as lengths and sizes.

Logarithms and powers that grow with a length: their numbers from a few lengths.

KERPLE's biases: logarithms and powers of lengths, head by head.

Sandwich's biases: how many frequencies there are, from distance 1, and how heads share them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from math import exp, log
from typing import TypeAlias

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, TableRequest, single_finite_array
from service.analysis.families.bias_strips import (
    Strip,
    alike,
    line_strips,
    query_key_parameters,
    strip_of,
)
from service.analysis.families.slope_biases import slope_rules
from service.analysis.precision import dtype_parameters, error_share
from service.analysis.round_numbers import round_numbers
from service.numerics.document import ParameterValue
from service.numerics.phase import Float64s

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


# Below, ln(1 + a·m) is a·m to float32, and above it is ln a + ln m: a cannot be told from ratios.
_LEAST, _MOST = 1e-7, 1e7
_HALVINGS = 60
_ROUNDS = 40
_DAMPING = 1e-3


@dataclass(frozen=True)
class Grown:
    """outer·ln(1 + inner·m^exponent) of lengths m, or outer·m^exponent where inner is 0."""

    outer: float
    inner: float
    exponent: float

    def at(self, lengths: Float64s) -> Float64s:
        """Evaluate lengths."""
        raised = lengths**self.exponent
        grown = np.log1p(self.inner * raised) if self.inner else raised
        return np.asarray(self.outer * grown, dtype=np.float64)

    def error(self, lengths: Float64s, sizes: Float64s) -> float:
        """Give how far sizes are from it at most, as a share of what they may be.

        That is a share of them, and as much more as an engine loses that adds 1 to a small number
        and takes the logarithm of the sum: 1/(inner·m^exponent) times the same share.
        """
        off = np.abs(self.at(lengths) / sizes - 1)
        if self.inner:
            off /= 1 + 1 / (self.inner * lengths**self.exponent)
        return float(off.max())


def inner_factor(lengths: Float64s, sizes: Float64s) -> float | None:
    """Find a of sizes that are as ln(1 + a·m) to each other, by the first length and the last.

    Their ratio falls from that of the lengths, at a = 0, to 1, as a grows; it is halved between.
    """
    first, last = float(lengths[0]), float(lengths[-1])
    ratio = float(sizes[-1] / sizes[0])
    low, high = log(_LEAST), log(_MOST)

    def ratio_of(exponent: float) -> float:
        factor = np.exp(exponent)
        return float(np.log1p(factor * last) / np.log1p(factor * first))

    if not ratio_of(high) < ratio < ratio_of(low):
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if ratio_of(middle) > ratio:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


def logarithm(lengths: Float64s, sizes: Float64s) -> Grown | None:
    """Fit a logarithm of lengths."""
    inner = inner_factor(lengths, sizes)
    if inner is None:
        return None
    outer = float(np.mean(sizes / np.log1p(inner * lengths)))
    return _refined(Grown(outer, inner, 1.0), lengths, sizes, has_exponent=False)


def power(lengths: Float64s, sizes: Float64s) -> Grown:
    """Fit a power of lengths, which is a straight line of logarithms."""
    exponent, offset = np.polyfit(np.log(lengths), np.log(sizes), 1)
    return Grown(float(np.exp(offset)), 0.0, float(exponent))


def logarithm_of_power(lengths: Float64s, sizes: Float64s) -> Grown:
    """Fit a logarithm of a power of lengths, from a few exponents to begin with."""
    fits = []
    for exponent in (0.5, 1.0, 1.5):
        raised = lengths**exponent
        inner = inner_factor(raised, sizes) or 1.0
        outer = float(np.mean(sizes / np.log1p(inner * raised)))
        begun = Grown(outer, inner, exponent)
        fits.append(_refined(begun, lengths, sizes, has_exponent=True))
    return min(fits, key=lambda fit: fit.error(lengths, sizes))


def _refined(begun: Grown, lengths: Float64s, sizes: Float64s, *, has_exponent: bool) -> Grown:
    """Bring the shares that sizes are off down (Levenberg and Marquardt), numbers by logarithms."""
    numbers = np.log([begun.outer, begun.inner, begun.exponent])
    kept = 3 if has_exponent else 2
    best, error, damping = begun, _misfit(begun, lengths, sizes), _DAMPING
    for _ in range(_ROUNDS):
        residual, slopes = _residual(best, lengths, sizes)
        slopes = slopes[:, :kept]
        normal = slopes.T @ slopes
        step = np.linalg.lstsq(normal + damping * np.diag(np.diag(normal)), slopes.T @ residual)[0]
        moved = numbers.copy()
        moved[:kept] -= np.clip(step, -1.0, 1.0)
        tried = Grown(*np.exp(moved).tolist())
        found = _misfit(tried, lengths, sizes)
        if found < error:
            best, error, numbers, damping = tried, found, moved, damping / 10
        else:
            damping *= 10
        if float(np.abs(step).max()) < 2.0**-50:
            break
    return best


def _misfit(fit: Grown, lengths: Float64s, sizes: Float64s) -> float:
    return float(np.sum((fit.at(lengths) / sizes - 1) ** 2))


def _residual(fit: Grown, lengths: Float64s, sizes: Float64s) -> tuple[Float64s, Float64s]:
    """Give shares that sizes are off, and how they change with the logarithm of each number."""
    share = fit.at(lengths) / sizes
    grown = fit.inner * lengths**fit.exponent
    by_inner = fit.outer * grown / (1 + grown) / sizes
    by_exponent = by_inner * fit.exponent * np.log(lengths)
    return share - 1, np.stack([share, by_inner, by_exponent], axis=1)


Fitting: TypeAlias = Callable[[Float64s, Float64s], Grown | None]
"""Makes a kernel of lengths and of what they are worth."""

_MAX_BIASES = 6
_FEWEST_OF_THREE = 3
_MAX_KERPLE_HEADS = 128
_MOST_POWER = 2.0
# Numbers that were fitted are known less well than the biases are.
_LOOSENESS = 2.0**12
_LOOSEST = 2.0**-5


@dataclass(frozen=True, eq=False)
class _Fit:
    """A kernel, with the numbers of each head by the resource's names for them."""

    convention: str
    heads: tuple[Grown, ...]

    def parameters(self) -> dict[str, ParameterValue]:
        """Spell it."""
        names = _NAMES[self.convention]
        spelled: dict[str, ParameterValue] = (
            {} if self.convention == "log" else {"convention": self.convention}
        )
        for name, attribute in names.items():
            spelled[name] = tuple(getattr(head, attribute) for head in self.heads)
        return spelled


_NAMES: Mapping[str, Mapping[str, str]] = {
    "log": {"a": "inner", "p": "outer"},
    "power": {"a": "outer", "p": "exponent"},
    "nemo": {"a": "inner", "b": "outer", "p": "exponent"},
}


def kerple(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose kernels of lengths for each head."""
    values = single_finite_array(question, (1, 2, 3))
    if values is not None:
        yield from islice(_of_sides(values, question), _MAX_BIASES)


def _of_sides(values: Float64s, question: IdentifyInput) -> Iterator[Proposal]:
    share = error_share(question.sample)
    for of in sides(values, share):
        if len(of.sizes) > _MAX_KERPLE_HEADS:
            continue
        for fit in _fits(of, share):
            more = {**of.parameters, **dtype_parameters(question.sample)}
            for named in _named(fit, of, share):
                call = TableRequest("relative/kerple", {**named, **more})
                each = f"{len(of.sizes)} heads, each by its own numbers"
                yield Proposal(call, (_said(fit), each))


def _fits(of: Sides, share: float) -> Iterator[_Fit]:
    as_power = _every(lambda *side: _within_powers(power(*side), share), of, share)
    if as_power is not None:
        # A power of 1 is a slope: ALiBi's biases.
        is_slope = all(abs(head.exponent - 1) <= share for head in as_power)
        if not is_slope and all(head.exponent <= _MOST_POWER for head in as_power):
            yield _Fit("power", as_power)
        return
    as_logarithm = _every(logarithm, of, share)
    if as_logarithm is not None:
        yield _Fit("log", as_logarithm)
        yield _Fit("nemo", as_logarithm)
    elif len(of.lengths) > _FEWEST_OF_THREE:
        as_both = _every(logarithm_of_power, of, share)
        if as_both is not None:
            yield _Fit("nemo", as_both)


def _every(fit: Fitting, of: Sides, share: float) -> tuple[Grown, ...] | None:
    """Fit every head, unless one of them is not as the fit has it."""
    heads: list[Grown] = []
    for sizes in of.sizes:
        head = fit(of.lengths, sizes)
        if head is None or not head.error(of.lengths, sizes) <= share:
            return None
        heads.append(head)
    return tuple(heads)


def _within_powers(head: Grown, share: float) -> Grown:
    """Take an exponent that is 2 but for its error for 2, the largest there is."""
    is_past = _MOST_POWER < head.exponent <= _MOST_POWER * (1 + share)
    return replace(head, exponent=_MOST_POWER) if is_past else head


def _is_right(heads: tuple[Grown, ...], of: Sides, share: float) -> bool:
    return all(
        head.error(of.lengths, sizes) <= share for head, sizes in zip(heads, of.sizes, strict=True)
    )


def _named(fit: _Fit, of: Sides, share: float) -> Iterator[dict[str, ParameterValue]]:
    """Give the numbers as plain as they may be, and as they were measured."""
    if fit.convention == "nemo" and _is_untrained(fit, share):
        yield {"convention": "nemo", "num_heads": len(fit.heads)}
    plain = tuple(_plain(head, share) for head in fit.heads)
    if _is_right(plain, of, share):
        yield _Fit(fit.convention, plain).parameters()
    yield fit.parameters()


def _is_untrained(fit: _Fit, share: float) -> bool:
    error = _LOOSENESS * share
    if any(abs(head.inner - 1) > error or abs(head.exponent - 1) > error for head in fit.heads):
        return False
    outer = np.array([head.outer for head in fit.heads])
    rules = slope_rules(outer, error, is_absolute=True)
    return any(rule.convention == "original" and rule.bias_max == 8 for rule in rules)


def _plain(head: Grown, share: float) -> Grown:
    numbers = (head.outer, head.inner, head.exponent)
    return Grown(*(_plain_number(number, share) for number in numbers))


def _plain_number(number: float, share: float) -> float:
    return next(round_numbers(number, min(_LOOSENESS * share, _LOOSEST), 1), number)


def _said(fit: _Fit) -> str:
    formula = {"log": "p·ln(1 + a·m)", "power": "a·m^p", "nemo": "b·ln(1 + a·m^p)"}[fit.convention]
    return f"biases are 0 at distance 0, and -{formula} at the distance m"


_BASE = 10000.0
_MAX_SANDWICH_BIASES = 4
_MOST_USUAL = 3
_MOST_FREQUENCIES = 512
_MAX_SANDWICH_LENGTHS = 16
_MAX_SANDWICH_HEADS = 64
_SANDWICH_HALVINGS = 50
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


def sandwich(question: IdentifyInput) -> Iterator[Proposal]:
    """Propose similarities of sinusoids, divided by the number of the head."""
    sample, values = question.sample, single_finite_array(question, (1, 2, 3))
    if values is None:
        return
    share = error_share(sample)
    for of in sides(values, max(share, _LOST * _MOST_FREQUENCIES)):
        for named in islice(_sandwich_of_sides(of, share), _MAX_SANDWICH_BIASES):
            parameters = {**named, **of.parameters, **dtype_parameters(sample)}
            said = (
                "biases are 0 at distance 0, and sums of squared sines beyond",
                "head h has 1/h of the biases of the first",
            )
            yield Proposal(TableRequest("relative/sandwich", parameters), said)


def _sandwich_of_sides(of: Sides, share: float) -> Iterator[dict[str, ParameterValue]]:
    heads = len(of.sizes)
    if heads > 1:
        ratios = of.sizes[0, -1] / of.sizes[:, -1]
        if not np.allclose(ratios, np.arange(1, heads + 1), rtol=4 * share + _LOST, atol=0):
            return
    some = slice(_MAX_SANDWICH_LENGTHS)
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
    for number in range(1, _MAX_SANDWICH_HEADS + 1):
        heads = round(part * number)
        if number <= heads <= _MAX_SANDWICH_HEADS and abs(heads - part * number) <= share * heads:
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
        for plain in round_numbers(base or 0.0, _BASE_ERROR, 1):
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
    for _ in range(_SANDWICH_HALVINGS):
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
