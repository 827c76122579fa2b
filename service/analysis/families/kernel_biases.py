"""Propose ``/relative/kerple`` and ``/relative/sandwich``: kernels of the distance, head by head.

Biases are 0 at distance 0 and decrease with the length |key - query|. KERPLE biases are logarithms
and powers of the length, fitted to each head. Sandwich biases are sums of squared sines: those of
lengths 1 and 2 give the number of frequencies, those of other lengths confirm the base.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cache
from itertools import islice
from math import exp, log, log1p

import numpy as np

from service.analysis.array import IdentifyInput, Proposal, single_finite_array
from service.analysis.families.bias_strips import (
    CHECKED_ROWS,
    Strip,
    alike,
    query_key_parameters,
    strip_of,
    strips,
)
from service.analysis.families.requests import USUAL_BASE, table_proposal, unless_default
from service.analysis.families.series import solve_falling, spread_indices
from service.analysis.families.slope_biases import slope_rules
from service.analysis.precision import error_share
from service.analysis.round_numbers import round_number, round_numbers
from service.numerics.phase import Float64s
from service.numerics.tables import ParameterValue

# The most and the fewest sampled lengths; their distance grows with the length.
_MAX_LENGTHS = 64
_LEAST_LENGTHS = 3
_MAX_HEADS = 256
# Cheap pre-check: this many elements rule out most other arrays.
_FIRST = 1024


@dataclass(frozen=True, eq=False)
class LengthBiases:
    """The bias of each sampled length |key - query|, for each head.

    Attributes:
        lengths: increasing lengths from 1 on, (n,).
        sizes: the negated biases, (heads, n).
        parameters: the request parameters of queries and keys, and ``causal``.
    """

    lengths: Float64s
    sizes: Float64s
    parameters: dict[str, ParameterValue]


def length_biases(values: Float64s, share: float) -> Iterator[LengthBiases]:
    """Yield an array read as biases that depend on |key - query| alone, for each possible reading.

    Args:
        values: biases, 0 at distance 0: a vector (n,), a matrix (Q, K) or heads (H, Q, K).
        share: the relative error of an element.
    """
    if (values.reshape(-1)[:_FIRST] > 0).any():
        return
    if values.ndim == 1:
        for strip in strips(values):
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


def _of_rows(block: Float64s, share: float) -> Iterator[LengthBiases]:
    """Yield biases of queries with gaps: a query is at its row's first 0.

    The biases are read from the row with the most keys before its query.
    """
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
    for biases in _of_strip(Strip(block[:, last], 1, len(keys)), share):
        causal = {"causal": False} if "causal" in biases.parameters else {}
        positions = query_key_parameters(queries.astype(np.int64), keys)
        yield replace(biases, parameters={**positions, **causal})


def _of_strip(strip: Strip, share: float) -> Iterator[LengthBiases]:
    zeros = np.flatnonzero((strip.values == 0).all(axis=0))
    if (strip.values > 0).any() or not len(zeros):
        return
    zero = int(zeros[0])
    longer, ahead = -strip.values[:, :zero][:, ::-1], -strip.values[:, zero + 1 :]
    parameters = query_key_parameters(*strip.positions(zero))
    if ahead.any():
        common = min(longer.shape[1], ahead.shape[1])
        if not alike(longer[:, :common], ahead[:, :common], share):
            return
        parameters["causal"] = False
        longer = max(longer, ahead, key=lambda sizes: sizes.shape[1])
    most = longer.shape[1]
    if most < _LEAST_LENGTHS or not (longer > 0).all():
        return
    # Lengths are spaced geometrically by a factor of about 1.1, so that no small length is missing.
    lengths = np.unique(np.geomspace(1, most, _MAX_LENGTHS).round().astype(np.int64))
    sizes = longer[:, lengths - 1].astype(np.float64)
    yield LengthBiases(lengths.astype(np.float64), sizes, parameters)


# Logarithms and powers of lengths.

# The range of a in ln(1 + a·m). Below it, the logarithm is a·m within float32, and above it is
# ln a + ln m: the ratios of biases do not show a.
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
        """Return the largest relative error of the measured sizes at these lengths.

        Errors of logarithms are divided by 1 + 1/(inner·m^exponent): so much precision is lost when
        1 is added to a small number.
        """
        errors = np.abs(self.at(lengths) / sizes - 1)
        if self.inner:
            errors /= 1 + 1 / (self.inner * lengths**self.exponent)
        return float(errors.max())


def inner_factor(lengths: Float64s, sizes: Float64s) -> float | None:
    """Return the factor a for which sizes are proportional to ln(1 + a·m), or None.

    The ratio of the last to the first size gives a: it decreases from the ratio of the lengths, at
    a = 0, to 1 as a increases. Return None if a is out of range.
    """
    first, last = float(lengths[0]), float(lengths[-1])

    def ratio_of(factor: float) -> float:
        return log1p(factor * last) / log1p(factor * first)

    return _solve(ratio_of, float(sizes[-1] / sizes[0]), _LEAST_INNER, _LARGEST_INNER)


def _solve(
    falling: Callable[[float], float], value: float, least: float, largest: float
) -> float | None:
    """Return x from least to largest with falling(x) = value; None if there is none."""

    def of_logarithm(logarithm: float) -> float:
        return falling(exp(logarithm))

    if not falling(largest) < value < falling(least):
        return None
    return exp(solve_falling(of_logarithm, value, log(least), log(largest), _HALVINGS))


def fit_logarithm(lengths: Float64s, sizes: Float64s) -> LengthKernel | None:
    """Return the kernel outer·ln(1 + inner·m) that fits best; None if inner is out of range."""
    inner = inner_factor(lengths, sizes)
    if inner is None:
        return None
    outer = float(np.mean(sizes / np.log1p(inner * lengths)))
    return _refined(LengthKernel(outer, inner, 1.0), lengths, sizes, has_exponent=False)


def fit_power(lengths: Float64s, sizes: Float64s) -> LengthKernel:
    """Return the kernel outer·m^exponent that fits best: ln(size) is linear in ln(m)."""
    exponent, offset = np.polyfit(np.log(lengths), np.log(sizes), 1)
    return LengthKernel(float(np.exp(offset)), 0.0, float(exponent))


def fit_logarithm_of_power(lengths: Float64s, sizes: Float64s) -> LengthKernel:
    """Return the kernel outer·ln(1 + inner·m^exponent) that fits best, from three starts."""
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
    """Return the kernel that minimises the squared relative misfits.

    Levenberg-Marquardt over the logarithms of outer, inner and, if has_exponent, exponent.
    """
    numbers = np.log([start.outer, start.inner, start.exponent])
    free = 3 if has_exponent else 2
    best, damping = start, _DAMPING
    residual, slopes = _residual(start, lengths, sizes)
    for _ in range(_ROUNDS):
        slopes = slopes[:, :free]
        normal = slopes.T @ slopes
        step = np.linalg.lstsq(normal + damping * np.diag(np.diag(normal)), slopes.T @ residual)[0]
        moved = numbers.copy()
        moved[:free] -= np.clip(step, -1.0, 1.0)
        tried = LengthKernel(*np.exp(moved).tolist())
        moved_residual, moved_slopes = _residual(tried, lengths, sizes)
        if np.sum(moved_residual**2) < np.sum(residual**2):
            best, numbers, damping = tried, moved, damping / 10
            residual, slopes = moved_residual, moved_slopes
        else:
            damping *= 10
        if float(np.abs(step).max()) < 2.0**-50:
            break
    return best


def _residual(fit: LengthKernel, lengths: Float64s, sizes: Float64s) -> tuple[Float64s, Float64s]:
    """Return the relative misfits, (n,), and their derivatives by ln(outer, inner, exponent)."""
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
# Fitted kernel parameters have larger relative errors than biases, by this factor and up to this.
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
    """Propose ``/relative/kerple``: logarithms or powers of |key - query|, fitted to each head."""
    values = single_finite_array(request, (1, 2, 3))
    if values is not None:
        yield from islice(_kerples(values, request), _MAX_KERPLES)


def _kerples(values: Float64s, request: IdentifyInput) -> Iterator[Proposal]:
    share = error_share(request.sample)
    for biases in length_biases(values, share):
        count = len(biases.sizes)
        if count > _MAX_KERPLE_HEADS:
            continue
        for convention, kernels in _fits(biases, share):
            support = (
                f"biases are 0 at distance 0, and -{_FORMULAS[convention]} at the distance m",
                f"{count} heads, each with its own kernel parameters",
            )
            for numbers in _kernel_parameters(convention, kernels, biases, share):
                parameters = {**numbers, **biases.parameters}
                yield table_proposal(request, "relative/kerple", parameters, support)


def _fits(biases: LengthBiases, share: float) -> Iterator[tuple[str, Kernels]]:
    """Yield each convention that fits all heads, with their kernels."""

    def fit_limited_power(lengths: Float64s, sizes: Float64s) -> LengthKernel:
        # The largest exponent is 2: reduce an exponent that exceeds it within the error.
        head = fit_power(lengths, sizes)
        is_past = _MAX_POWER < head.exponent <= _MAX_POWER * (1 + share)
        return replace(head, exponent=_MAX_POWER) if is_past else head

    powers = _fit_heads(fit_limited_power, biases, share)
    if powers is not None:
        # A power of 1 is a slope: ALiBi's biases.
        is_slope = all(abs(head.exponent - 1) <= share for head in powers)
        if not is_slope and all(head.exponent <= _MAX_POWER for head in powers):
            yield "power", powers
        return
    logarithms = _fit_heads(fit_logarithm, biases, share)
    if logarithms is not None:
        yield "log", logarithms
        yield "nemo", logarithms
    elif len(biases.lengths) > _FEWEST_OF_THREE:
        both = _fit_heads(fit_logarithm_of_power, biases, share)
        if both is not None:
            yield "nemo", both


def _fit_heads(
    fit: Callable[[Float64s, Float64s], LengthKernel | None], biases: LengthBiases, share: float
) -> Kernels | None:
    """Return the fitted kernels of all heads; None if the error of a head is too large."""
    heads: list[LengthKernel] = []
    for sizes in biases.sizes:
        head = fit(biases.lengths, sizes)
        if head is None or not head.error(biases.lengths, sizes) <= share:
            return None
        heads.append(head)
    return tuple(heads)


def _kernel_parameters(
    convention: str, kernels: Kernels, biases: LengthBiases, share: float
) -> Iterator[dict[str, ParameterValue]]:
    """Yield the kernel parameters: default ones, round ones if they fit, then the measured ones."""
    name = unless_default("convention", convention, "log")
    if convention == "nemo" and _are_untrained(kernels, share):
        yield {**name, "num_heads": len(kernels)}
    error = min(_LOOSENESS * share, _LOOSEST)
    plain = tuple(
        LengthKernel(*(round_number(number, error) for number in astuple(head))) for head in kernels
    )
    is_right = all(
        head.error(biases.lengths, sizes) <= share
        for head, sizes in zip(plain, biases.sizes, strict=True)
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
# Sums in a narrow dtype give a base to about three digits, enough to distinguish usual bases.
_BASE_ERROR = 2.0**-10
# With an unusual base, only these values of head_dim are tried.
_HEAD_DIMS = (16, 32, 64, 80, 96, 128, 256)
_LEAST_BASE, _LARGEST_BASE = 2.0, 1e9
# A float32 sum of n terms has an error of up to n times this.
_LOST = 2.0**-23


@dataclass(frozen=True, eq=False)
class _SineSums:
    """Measured biases that are proportional to sums of squared sines.

    Attributes:
        lengths: increasing lengths |key - query|, 1 and 2 first, (n,).
        sizes: the negated biases of the first head, (n,).
        unit: the factor from sizes to sums; None if unknown.
        share: the relative error of a size.
    """

    lengths: Float64s
    sizes: Float64s
    unit: float | None
    share: float

    def agree(self, count: int, base: float) -> bool:
        """Return whether the sizes match sums over ``count`` frequencies with a given base."""
        sums = _sums(count, base, self.lengths)
        scale = self.unit or sums[0] / self.sizes[0]
        error = 4 * self.share * sums + _LOST * count
        return bool((np.abs(sums - self.sizes * scale) <= error).all())


def propose_sandwich(request: IdentifyInput) -> Iterator[Proposal]:
    """Propose ``/relative/sandwich``: sums of squared sines, divided by the head's number."""
    values = single_finite_array(request, (1, 2, 3))
    if values is None:
        return
    share = error_share(request.sample)
    support = (
        "biases are 0 at distance 0, and sums of squared sines beyond",
        "head h has the biases of head 1, divided by h",
    )
    for biases in length_biases(values, max(share, _LOST * _MAX_FREQUENCIES)):
        for numbers in islice(_sandwich_parameters(biases, share), _MAX_SANDWICHES):
            parameters = {**numbers, **biases.parameters}
            yield table_proposal(request, "relative/sandwich", parameters, support)


def _sandwich_parameters(biases: LengthBiases, share: float) -> Iterator[dict[str, ParameterValue]]:
    count = len(biases.sizes)
    ratios = biases.sizes[0, -1] / biases.sizes[:, -1]
    if not np.allclose(ratios, np.arange(1, count + 1), rtol=4 * share + _LOST, atol=0):
        return
    some = slice(_MAX_SANDWICH_LENGTHS)
    unit = 4 / count if count > 1 else None
    measured = _SineSums(biases.lengths[some], biases.sizes[0, some], unit, share)
    for head_dim, base in _sandwich_bases(measured):
        heads: dict[str, ParameterValue] | None = {"num_heads": count}
        if count == 1:
            sums = _sums(head_dim // 2, base, measured.lengths)
            heads = _head_parameters(float(4 * measured.sizes[-1] / sums[-1]), 4 * share)
        if heads is not None:
            yield {**heads, "head_dim": head_dim, **unless_default("base", base, USUAL_BASE)}


def _head_parameters(part: float, share: float) -> dict[str, ParameterValue] | None:
    """Return ``num_heads`` H and ``head`` h - 1, the smallest with H/h = part, or None."""
    for number in range(1, _MAX_SANDWICH_HEADS + 1):
        heads = round(part * number)
        if number <= heads <= _MAX_SANDWICH_HEADS and abs(heads - part * number) <= share * heads:
            return {"num_heads": heads, "head": number - 1}
    return None


def _sandwich_bases(measured: _SineSums) -> Iterator[tuple[int, float]]:
    """Yield each (head_dim, base) that matches the measured sums, the usual base first."""
    sums = _first_sums()
    scale = measured.unit or sums[0] / measured.sizes[0]
    lost = _LOST * np.arange(1, _MAX_FREQUENCIES + 1)
    errors = np.abs(sums - measured.sizes[:2, np.newaxis] * scale)
    is_near = (errors <= 4 * measured.share * sums + lost).all(axis=0)
    counts: list[int] = (np.flatnonzero(is_near) + 1).tolist()
    usual = [count for count in counts if measured.agree(count, USUAL_BASE)]
    # The simplest count of frequencies has the fewest binary ones.
    usual.sort(key=lambda count: (count.bit_count(), count))
    yield from ((2 * count, USUAL_BASE) for count in usual[:_MAX_USUAL])
    for head_dim in _HEAD_DIMS:
        count = head_dim // 2
        base = _sandwich_base(count, measured)
        for plain in round_numbers(base or 0.0, _BASE_ERROR, 1):
            # True if this base and width give the first frequencies of a usual table.
            is_usual = any(
                abs(log(plain) / log(USUAL_BASE) * own / count - 1) < _BASE_ERROR for own in usual
            )
            if measured.agree(count, plain) and not is_usual:
                yield head_dim, plain


@cache
def _first_sums() -> Float64s:
    """Return the sums of lengths 1 and 2 with the usual base, for 1 … N frequencies, (2, N)."""
    counts = range(1, _MAX_FREQUENCIES + 1)
    return np.array([_sums(count, USUAL_BASE, np.array([1.0, 2.0])) for count in counts]).T


def _sandwich_base(count: int, measured: _SineSums) -> float | None:
    """Return the base for which ``count`` frequencies give the measured sums of lengths 1 and 2.

    As the base increases, the sum of length 1 decreases, also relative to the sum of length 2.
    """

    def falling(base: float) -> float:
        sums = _sums(count, base, measured.lengths[:2])
        return float(sums[0] if measured.unit else -sums[1] / sums[0])

    first, second = measured.sizes[:2]
    value = float(first * measured.unit if measured.unit else -second / first)
    return _solve(falling, value, _LEAST_BASE, _LARGEST_BASE)


def _sums(count: int, base: float, lengths: Float64s) -> Float64s:
    halves = base ** (-np.arange(1, count + 1) / count) / 2
    sums: Float64s = (np.sin(np.outer(lengths, halves)) ** 2).sum(axis=1)
    return sums
