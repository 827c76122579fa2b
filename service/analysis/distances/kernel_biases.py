"""KERPLE's biases: logarithms and powers of lengths, head by head."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

import numpy as np

from service.analysis.call import Call
from service.analysis.distances.growth import Grown, logarithm, logarithm_of_power, power
from service.analysis.distances.kernel_sides import Sides, sides
from service.analysis.distances.slopes import slope_rules
from service.analysis.lone_arrays import lone_finite
from service.analysis.plain import plain_numbers
from service.analysis.question import Proposal, Question
from service.analysis.real_types import dtype_parameters, share_of
from service.tables.angle import Float64s
from service.tables.document import ParameterValue

Fitting: TypeAlias = Callable[[Float64s, Float64s], Grown | None]
"""Makes a kernel of lengths and of what they are worth."""

_MOST = 6
_FEWEST_OF_THREE = 3
_MOST_HEADS = 128
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


def kerple(question: Question) -> Iterator[Proposal]:
    """Propose kernels of lengths for each head."""
    values = lone_finite(question, (1, 2, 3))
    if values is not None:
        yield from islice(_of_sides(values, question), _MOST)


def _of_sides(values: Float64s, question: Question) -> Iterator[Proposal]:
    share = share_of(question.sample)
    for of in sides(values, share):
        if len(of.sizes) > _MOST_HEADS:
            continue
        for fit in _fits(of, share):
            more = {**of.parameters, **dtype_parameters(question.sample)}
            for named in _named(fit, of, share):
                call = Call("relative/kerple", {**named, **more})
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
    return next(plain_numbers(number, min(_LOOSENESS * share, _LOOSEST), 1), number)


def _said(fit: _Fit) -> str:
    formula = {"log": "p·ln(1 + a·m)", "power": "a·m^p", "nemo": "b·ln(1 + a·m^p)"}[fit.convention]
    return f"biases are 0 at distance 0, and -{formula} at the distance m"
