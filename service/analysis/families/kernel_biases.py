"""Propose ``/relative/kerple`` and ``/relative/sandwich``: kernels of the distance, head by head.

Biases are 0 at distance 0 and fall with the length of the distance. KERPLE's are logarithms and
powers of lengths, whose numbers are fitted to each head. Sandwich's are sums of squared sines:
those of lengths 1 and 2 give the number of frequencies, the others verify the base.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from math import exp, log

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, single_finite_array
from service.analysis.families.bias_strips import (
    CHECKED_ROWS,
    Strip,
    alike,
    line_strips,
    query_key_parameters,
    strip_of,
)
from service.analysis.families.requests import table_proposal, unless_default
from service.analysis.families.slope_biases import slope_rules
from service.analysis.measure import USUAL_BASE, solve_falling, spread_indices
from service.analysis.precision import error_share
from service.analysis.round_numbers import round_number, round_numbers
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

# Lengths that are looked at: near ones and ever farther ones.
_MAX_LENGTHS = 64
_LEAST_LENGTHS = 3
_MAX_HEADS = 256
# So many numbers tell most other arrays apart, at no cost.
_FIRST = 1024


@dataclass(frozen=True, eq=False)
class KernelSides:
    """The biases of lengths, for each head.

    Attributes:
        lengths: some of 1, 2, …, (n,).
        sizes: how far biases are below 0, (heads, n).
        parameters: queries and keys, and whether those after the query have none.
    """

    lengths: Float64s
    sizes: Float64s
    parameters: dict[str, ParameterValue]


def sides(values: Float64s, share: float) -> Iterator[KernelSides]:
    """Read a vector (n,), a matrix (Q, K) or heads (H, Q, K) as biases of lengths.

    Args:
        values: biases, 0 at distance 0.
        share: by how much of their size numbers may be off.
    """
    if (values.reshape(-1)[:_FIRST] > 0).any():
        return
    if values.ndim == 1:
        for strip in line_strips(values):
            yield from _of_strip(strip, share)
        return
    # A matrix is of queries of one head, or of heads of one query.
    blocks = [values] if values.ndim == 3 else [values[np.newaxis], values[:, np.newaxis]]
    for block in blocks:
        if len(block) > _MAX_HEADS:
            continue
        whole = strip_of(block, share)
        if whole is not None:
            yield from _of_strip(whole, share)
        elif (block <= 0).all():
            yield from _of_rows(block, share)


def _of_rows(block: Float64s, share: float) -> Iterator[KernelSides]:
    """Read rows of queries anywhere, each where its first 0 is, by that with the most before it."""
    is_zero = (block == 0).all(axis=0)
    if not is_zero.any(axis=1).all():
        return
    queries, keys = is_zero.argmax(axis=1), np.arange(block.shape[2])
    last = int(queries.argmax())
    most = block[:, last, : queries[last]]
    for row in spread_indices(len(queries), CHECKED_ROWS):
        own = block[:, row, : queries[row]]
        if not alike(own, most[:, most.shape[1] - own.shape[1] :], share):
            return
    for side in _of_strip(Strip(block[:, last], 1, len(keys)), share):
        causal = {"causal": False} if "causal" in side.parameters else {}
        places = query_key_parameters(queries.astype(np.int64), keys)
        yield replace(side, parameters={**places, **causal})


def _of_strip(strip: Strip, share: float) -> Iterator[KernelSides]:
    zeros = np.flatnonzero((strip.values == 0).all(axis=0))
    if (strip.values > 0).any() or not len(zeros):
        return
    zero = int(zeros[0])
    behind, ahead = -strip.values[:, :zero][:, ::-1], -strip.values[:, zero + 1 :]
    parameters = query_key_parameters(*strip.places(zero))
    longer = behind
    if ahead.any():
        common = min(behind.shape[1], ahead.shape[1])
        if not alike(behind[:, :common], ahead[:, :common], share):
            return
        parameters["causal"] = False
        longer = max(behind, ahead, key=lambda side: side.shape[1])
    most = longer.shape[1]
    if most < _LEAST_LENGTHS or not (longer > 0).all():
        return
    # Powers of about 1.1 from 1 on: near lengths are all there.
    lengths = np.unique(np.geomspace(1, most, _MAX_LENGTHS).round().astype(np.int64))
    sizes = longer[:, lengths - 1].astype(np.float64)
    yield KernelSides(lengths.astype(np.float64), sizes, parameters)


# Logarithms and powers of lengths.

# Below, ln(1 + a·m) is a·m to float32, and above it is ln a + ln m: a cannot be told from ratios.
_LEAST_INNER, _LARGEST_INNER = 1e-7, 1e7
_HALVINGS = 60
_ROUNDS = 40
_DAMPING = 1e-3


@dataclass(frozen=True)
class LengthKernel:
    """outer·ln(1 + inner·m^exponent) of lengths m, or outer·m^exponent where inner is 0."""

    outer: float
    inner: float
    exponent: float

    def at(self, lengths: Float64s) -> Float64s:
        raised = lengths**self.exponent
        grown = np.log1p(self.inner * raised) if self.inner else raised
        return np.asarray(self.outer * grown, dtype=np.float64)

    def error(self, lengths: Float64s, sizes: Float64s) -> float:
        """Return how far sizes are from it at most, as a share of what they may be.

        That is a share of them, and as much more as an engine loses that adds 1 to a small number
        and takes the logarithm of the sum: 1/(inner·m^exponent) times the same share.
        """
        off = np.abs(self.at(lengths) / sizes - 1)
        if self.inner:
            off /= 1 + 1 / (self.inner * lengths**self.exponent)
        return float(off.max())


def inner_factor(lengths: Float64s, sizes: Float64s) -> float | None:
    """Find a of sizes that are proportional to ln(1 + a·m), by the first length and the last.

    Their ratio falls from that of the lengths, at a = 0, to 1, as a grows.
    """
    first, last = float(lengths[0]), float(lengths[-1])

    def ratio_of(exponent: float) -> float:
        factor = np.exp(exponent)
        return float(np.log1p(factor * last) / np.log1p(factor * first))

    ratio = float(sizes[-1] / sizes[0])
    low, high = log(_LEAST_INNER), log(_LARGEST_INNER)
    if not ratio_of(high) < ratio < ratio_of(low):
        return None
    return float(np.exp(solve_falling(ratio_of, ratio, low, high, _HALVINGS)))


def fit_logarithm(lengths: Float64s, sizes: Float64s) -> LengthKernel | None:
    """Fit outer·ln(1 + inner·m); None where sizes are not proportional to such a logarithm."""
    inner = inner_factor(lengths, sizes)
    if inner is None:
        return None
    outer = float(np.mean(sizes / np.log1p(inner * lengths)))
    return _refined(LengthKernel(outer, inner, 1.0), lengths, sizes, has_exponent=False)


def fit_power(lengths: Float64s, sizes: Float64s) -> LengthKernel:
    """Fit outer·m^exponent, a straight line in logarithms of both."""
    exponent, offset = np.polyfit(np.log(lengths), np.log(sizes), 1)
    return LengthKernel(float(np.exp(offset)), 0.0, float(exponent))


def fit_logarithm_of_power(lengths: Float64s, sizes: Float64s) -> LengthKernel:
    """Fit all three numbers, from a few exponents to begin with."""
    fits = []
    for exponent in (0.5, 1.0, 1.5):
        raised = lengths**exponent
        inner = inner_factor(raised, sizes) or 1.0
        outer = float(np.mean(sizes / np.log1p(inner * raised)))
        start = LengthKernel(outer, inner, exponent)
        fits.append(_refined(start, lengths, sizes, has_exponent=True))
    return min(fits, key=lambda fit: fit.error(lengths, sizes))


def _refined(
    start: LengthKernel, lengths: Float64s, sizes: Float64s, *, has_exponent: bool
) -> LengthKernel:
    """Minimise the relative misfit over the logarithms of the numbers (Levenberg-Marquardt)."""
    numbers = np.log([start.outer, start.inner, start.exponent])
    free = 3 if has_exponent else 2
    best, error, damping = start, _misfit(start, lengths, sizes), _DAMPING
    for _ in range(_ROUNDS):
        residual, slopes = _residual(best, lengths, sizes)
        slopes = slopes[:, :free]
        normal = slopes.T @ slopes
        step = np.linalg.lstsq(normal + damping * np.diag(np.diag(normal)), slopes.T @ residual)[0]
        moved = numbers.copy()
        moved[:free] -= np.clip(step, -1.0, 1.0)
        tried = LengthKernel(*np.exp(moved).tolist())
        misfit = _misfit(tried, lengths, sizes)
        if misfit < error:
            best, error, numbers, damping = tried, misfit, moved, damping / 10
        else:
            damping *= 10
        if float(np.abs(step).max()) < 2.0**-50:
            break
    return best


def _misfit(fit: LengthKernel, lengths: Float64s, sizes: Float64s) -> float:
    return float(np.sum((fit.at(lengths) / sizes - 1) ** 2))


def _residual(fit: LengthKernel, lengths: Float64s, sizes: Float64s) -> tuple[Float64s, Float64s]:
    """Return the relative misfits, and their derivatives by the logarithm of each number."""
    share = fit.at(lengths) / sizes
    grown = fit.inner * lengths**fit.exponent
    by_inner = fit.outer * grown / (1 + grown) / sizes
    by_exponent = by_inner * fit.exponent * np.log(lengths)
    return share - 1, np.stack([share, by_inner, by_exponent], axis=1)


# KERPLE.

_MAX_KERPLES = 6
_FEWEST_OF_THREE = 3
_MAX_KERPLE_HEADS = 128
_MAX_POWER = 2.0
# Fitted numbers are known less well than the biases are.
_LOOSENESS = 2.0**12
_LOOSEST = 2.0**-5

Kernels = tuple[LengthKernel, ...]

_NAMES: Mapping[str, Mapping[str, str]] = {
    "log": {"a": "inner", "p": "outer"},
    "power": {"a": "outer", "p": "exponent"},
    "nemo": {"a": "inner", "b": "outer", "p": "exponent"},
}
_FORMULAS = {"log": "p·ln(1 + a·m)", "power": "a·m^p", "nemo": "b·ln(1 + a·m^p)"}


def propose_kerple(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose kernels of lengths for each head."""
    values = single_finite_array(request, (1, 2, 3))
    if values is not None:
        yield from islice(_kerples(values, request), _MAX_KERPLES)


def _kerples(values: Float64s, request: IdentifyInput) -> Iterator[Proposal]:
    share = error_share(request.sample)
    for side in sides(values, share):
        count = len(side.sizes)
        if count > _MAX_KERPLE_HEADS:
            continue
        for convention, kernels in _fits(side, share):
            support = (
                f"biases are 0 at distance 0, and -{_FORMULAS[convention]} at the distance m",
                f"{count} heads, each by its own numbers",
            )
            for numbers in _kernel_parameters(convention, kernels, side, share):
                parameters = {**numbers, **side.parameters}
                yield table_proposal(request, "relative/kerple", parameters, support)


def _fits(side: KernelSides, share: float) -> Iterator[tuple[str, Kernels]]:
    """Yield conventions with the kernels of all heads."""

    def fit_limited_power(lengths: Float64s, sizes: Float64s) -> LengthKernel:
        # An exponent that is 2 but for its error is 2, the largest there is.
        head = fit_power(lengths, sizes)
        is_past = _MAX_POWER < head.exponent <= _MAX_POWER * (1 + share)
        return replace(head, exponent=_MAX_POWER) if is_past else head

    powers = _fit_heads(fit_limited_power, side, share)
    if powers is not None:
        # A power of 1 is a slope: ALiBi's biases.
        is_slope = all(abs(head.exponent - 1) <= share for head in powers)
        if not is_slope and all(head.exponent <= _MAX_POWER for head in powers):
            yield "power", powers
        return
    logarithms = _fit_heads(fit_logarithm, side, share)
    if logarithms is not None:
        yield "log", logarithms
        yield "nemo", logarithms
    elif len(side.lengths) > _FEWEST_OF_THREE:
        both = _fit_heads(fit_logarithm_of_power, side, share)
        if both is not None:
            yield "nemo", both


def _fit_heads(
    fit: Callable[[Float64s, Float64s], LengthKernel | None], side: KernelSides, share: float
) -> Kernels | None:
    """Fit every head; None where the fit of one is too far off."""
    heads: list[LengthKernel] = []
    for sizes in side.sizes:
        head = fit(side.lengths, sizes)
        if head is None or not head.error(side.lengths, sizes) <= share:
            return None
        heads.append(head)
    return tuple(heads)


def _kernel_parameters(
    convention: str, kernels: Kernels, side: KernelSides, share: float
) -> Iterator[dict[str, ParameterValue]]:
    """Yield the numbers as plain as they may be, and as they were measured."""
    name = unless_default("convention", convention, "log")
    if convention == "nemo" and _are_untrained(kernels, share):
        yield {**name, "num_heads": len(kernels)}
    error = min(_LOOSENESS * share, _LOOSEST)
    plain = tuple(
        LengthKernel(
            round_number(head.outer, error),
            round_number(head.inner, error),
            round_number(head.exponent, error),
        )
        for head in kernels
    )
    is_right = all(
        head.error(side.lengths, sizes) <= share
        for head, sizes in zip(plain, side.sizes, strict=True)
    )
    for heads in (plain, kernels) if is_right else (kernels,):
        yield name | {
            parameter: tuple(getattr(head, attribute) for head in heads)
            for parameter, attribute in _NAMES[convention].items()
        }


def _are_untrained(kernels: Kernels, share: float) -> bool:
    error = _LOOSENESS * share
    if any(abs(head.inner - 1) > error or abs(head.exponent - 1) > error for head in kernels):
        return False
    outer = np.array([head.outer for head in kernels])
    rules = slope_rules(outer, error, is_absolute=True)
    return any(rule.convention == "original" and rule.bias_max == 8 for rule in rules)


# Sandwich.

_MAX_SANDWICHES = 4
_MAX_USUAL = 3
_MAX_FREQUENCIES = 512
_MAX_SANDWICH_LENGTHS = 16
_MAX_SANDWICH_HEADS = 64
_BASE_HALVINGS = 50
# Sums of narrow types give a base to three digits or so, which tells apart those that are used.
_BASE_ERROR = 2.0**-10
# With another base, only these usual numbers of channels are tried.
_HEAD_DIMS = (16, 32, 64, 80, 96, 128, 256)
_LEAST_BASE, _LARGEST_BASE = 2.0, 1e9
# A sum of n numbers in float32 loses up to n of these.
_LOST = 2.0**-23


@dataclass(frozen=True, eq=False)
class _SineSums:
    """Measured sums of squared sines.

    Attributes:
        lengths: some distances, 1 and 2 first.
        sizes: how far the first head is below 0 there.
        unit: the factor that makes sums of sizes; None where they are only proportional.
        share: by how much of their size they may be off.
    """

    lengths: Float64s
    sizes: Float64s
    unit: float | None
    share: float

    def agree(self, count: int, base: float) -> bool:
        sums = _sums(count, base, self.lengths)
        scale = self.unit or sums[0] / self.sizes[0]
        error = 4 * self.share * sums + _LOST * count
        return bool((np.abs(sums - self.sizes * scale) <= error).all())


def propose_sandwich(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose similarities of sinusoids, divided by the number of the head."""
    sample, values = request.sample, single_finite_array(request, (1, 2, 3))
    if values is None:
        return
    share = error_share(sample)
    support = (
        "biases are 0 at distance 0, and sums of squared sines beyond",
        "head h has 1/h of the biases of the first",
    )
    for side in sides(values, max(share, _LOST * _MAX_FREQUENCIES)):
        for numbers in islice(_sandwich_parameters(side, share), _MAX_SANDWICHES):
            parameters = {**numbers, **side.parameters}
            yield table_proposal(request, "relative/sandwich", parameters, support)


def _sandwich_parameters(side: KernelSides, share: float) -> Iterator[dict[str, ParameterValue]]:
    count = len(side.sizes)
    if count > 1:
        ratios = side.sizes[0, -1] / side.sizes[:, -1]
        if not np.allclose(ratios, np.arange(1, count + 1), rtol=4 * share + _LOST, atol=0):
            return
    some = slice(_MAX_SANDWICH_LENGTHS)
    unit = 4 / count if count > 1 else None
    measured = _SineSums(side.lengths[some], side.sizes[0, some], unit, share)
    for head_dim, base in _sandwich_bases(measured):
        heads: dict[str, ParameterValue] | None = {"num_heads": count}
        if count == 1:
            sums = _sums(head_dim // 2, base, measured.lengths)
            heads = _head_parameters(float(4 * measured.sizes[-1] / sums[-1]), 4 * share)
        if heads is not None:
            yield {**heads, "head_dim": head_dim, **unless_default("base", base, USUAL_BASE)}


def _head_parameters(part: float, share: float) -> dict[str, ParameterValue] | None:
    """Return the fewest heads H, and which of them h it is, of a head that has H/h of the sums."""
    for number in range(1, _MAX_SANDWICH_HEADS + 1):
        heads = round(part * number)
        if number <= heads <= _MAX_SANDWICH_HEADS and abs(heads - part * number) <= share * heads:
            return {"num_heads": heads, "head": number - 1}
    return None


def _sandwich_bases(measured: _SineSums) -> Iterator[tuple[int, float]]:
    """Yield head_dim and base of these sums; another base only where the usual one goes on."""
    first, second = _first_sums()
    scale = measured.unit or first / measured.sizes[0]
    lost = _LOST * np.arange(1, _MAX_FREQUENCIES + 1)
    is_near = np.ones(_MAX_FREQUENCIES, dtype=np.bool_)
    for sums, size in ((first, measured.sizes[0]), (second, measured.sizes[1])):
        is_near &= np.abs(sums - size * scale) <= 4 * measured.share * sums + lost
    counts: list[int] = (np.flatnonzero(is_near) + 1).tolist()
    usual = [count for count in counts if measured.agree(count, USUAL_BASE)]
    # Few binary digits are the plainest number of frequencies.
    usual.sort(key=lambda count: (count.bit_count(), count))
    yield from ((2 * count, USUAL_BASE) for count in usual[:_MAX_USUAL])
    for head_dim in _HEAD_DIMS:
        count = head_dim // 2
        base = _sandwich_base(count, measured)
        for plain in round_numbers(base or 0.0, _BASE_ERROR, 1):
            # Frequencies of the base that are those of the usual one, as far as they go.
            is_usual = any(
                abs(log(plain) / log(USUAL_BASE) * own / count - 1) < _BASE_ERROR for own in usual
            )
            if measured.agree(count, plain) and not is_usual:
                yield head_dim, plain


@cache
def _first_sums() -> tuple[Float64s, Float64s]:
    """Return the sums of lengths 1 and 2 for every number of frequencies of the usual base."""
    counts = range(1, _MAX_FREQUENCIES + 1)
    sums = np.array([_sums(count, USUAL_BASE, np.array([1.0, 2.0])) for count in counts])
    return sums[:, 0], sums[:, 1]


def _sandwich_base(count: int, measured: _SineSums) -> float | None:
    """Find the base: sums at distance 1 fall as it grows, and so does their growth."""
    first, second = measured.sizes[:2]

    def size_of(exponent: float) -> float:
        sums = _sums(count, exp(exponent), measured.lengths[:2])
        return float(sums[0] if measured.unit else -sums[1] / sums[0])

    value = float(first * measured.unit if measured.unit else -second / first)
    low, high = log(_LEAST_BASE), log(_LARGEST_BASE)
    if not size_of(high) < value < size_of(low):
        return None
    return exp(solve_falling(size_of, value, low, high, _BASE_HALVINGS))


def _sums(count: int, base: float, lengths: Float64s) -> Float64s:
    halves = base ** (-np.arange(1, count + 1) / count) / 2
    sums: Float64s = (np.sin(np.outer(lengths, halves)) ** 2).sum(axis=1)
    return sums
