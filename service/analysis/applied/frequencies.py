"""Frequencies that were used in place of those wanted: another base, another factor or rule."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from service.analysis.applied.evidence import Application
from service.analysis.applied.spin import Target
from service.analysis.mistakes.catalogue import Mistake, Wording
from service.analysis.plain import plain_numbers
from service.analysis.progression import bases, geometric
from service.tables.angle import Float64s

_UNSCALED = Wording(
    "The frequencies are those of base {have} alone: what should scale them was not applied.",
    "Apply the scaling rule of the config to the base {have}.",
)
_RULE = Wording(
    "The frequencies are others than wanted, pair {pair} first: {have} radians per position for "
    "{want}.",
    "Compute the frequencies by the rule that is wanted, with all its keys.",
)
_LINEAR = Wording(
    "Every frequency is {ratio} of what it should be: positions are scaled by {ratio}.",
    "Look for a factor of positions that is missing, or applied twice.",
)
# Angles of fewer rows than these lie on too many lines.
_ENOUGH_ROWS = 4


@dataclass(frozen=True, eq=False)
class Measured:
    """Frequencies that were measured.

    Attributes:
        omega: radians per position, (K,).
        error: how far each may be off.
        width: channels that turn.
        rows: how many rows they were measured on.
    """

    omega: Float64s
    error: Float64s
    width: int
    rows: int


def frequency_mistakes(
    application: Application, target: Target, measured: Measured
) -> Iterator[Application]:
    """Make each mistake in the frequencies that has a name and fits what was measured."""
    wanted = application.spin.frequencies(target)
    if wanted is not None and len(wanted) == len(measured.omega):
        if (np.abs(measured.omega - wanted) <= measured.error).all():
            return
        yield from _ratios(application, wanted, measured)
    yield from _bases(application, wanted, measured)


def other_frequencies(
    application: Application, target: Target, measured: Measured
) -> Iterator[Application]:
    """Take the frequencies that were measured, which have no other name, as they are."""
    wanted = application.spin.frequencies(target)
    # A frequency below 0 is a rotation the other way.
    if measured.rows >= _ENOUGH_ROWS and (measured.omega >= -measured.error).all():
        yield _others(application, wanted, measured)


def _ratios(
    application: Application, wanted: Float64s, measured: Measured
) -> Iterator[Application]:
    weights = 1 / measured.error**2
    ratio = float((weights * wanted * measured.omega).sum() / (weights * wanted**2).sum())
    error = 4 / float(np.sqrt((weights * wanted**2).sum()))
    if not (ratio > 0 and abs(ratio - 1) > error):
        return
    plain = [*plain_numbers(ratio, error, most=2)]
    plain += [1 / inverse for inverse in plain_numbers(1 / ratio, error, most=2)]
    for number in plain:
        mistake = Mistake("linear-factor", {"ratio": number}, _LINEAR)
        spin = replace(application.spin, omega=wanted * number)
        yield application.having("linear", mistake, spin=spin)


def _bases(
    application: Application, wanted: Float64s | None, measured: Measured
) -> Iterator[Application]:
    if len(measured.omega) < 2:
        return
    # A series that was held in bfloat16 besides is one by 2^-8 of each only.
    series = geometric(measured.omega, measured.error) or geometric(
        measured.omega, measured.error + 2.0**-8 * np.abs(measured.omega)
    )
    if series is None or not series.ratio < 1:
        return
    meant = None if wanted is None else geometric(wanted, np.full(len(wanted), 1e-12))
    want = None if meant is None else next(iter(bases(meant, measured.width)), None)
    is_plain = want is not None and meant is not None and abs(meant.first - 1) < 1e-9
    for base in bases(series, measured.width):
        if base == want and is_plain:
            continue
        omega = base ** (-2 * np.arange(len(measured.omega)) / measured.width)
        mistake = Mistake("wrong-base", {"have": base, "want": want})
        if not is_plain:
            mistake = Mistake("config-key-ignored", {"have": base}, _UNSCALED)
        spin = replace(application.spin, omega=omega)
        yield application.having("base", mistake, spin=spin)


def _others(application: Application, wanted: Float64s | None, measured: Measured) -> Application:
    values: dict[str, float | int | str] = {
        "pair": 0,
        "have": float(measured.omega[0]),
        "want": "?",
    }
    if wanted is not None and len(wanted) == len(measured.omega):
        off = np.abs(measured.omega - wanted) > measured.error
        pair = int(np.argmax(off))
        values = {"pair": pair, "have": float(measured.omega[pair]), "want": float(wanted[pair])}
    mistake = Mistake("wrong-rule", values, _RULE)
    spin = replace(application.spin, omega=measured.omega)
    return application.having("frequencies", mistake, spin=spin)
