"""Rotary tables of which there are only the cosines, or only the sines."""

from collections.abc import Iterator

import numpy as np

from service.analysis.question import Question
from service.analysis.rotary.layouts import Packed, component_channels, pick, rows_of
from service.analysis.rotary.located import Located
from service.analysis.rotary.positions import positions_of
from service.analysis.rotary.rules import find_rules
from service.analysis.rotary.rules_measured import Measured, frequencies
from service.analysis.waves import EARLY_ROWS
from service.tables.angle import Float64s
from service.tables.channels import Component

# Two numbers are fitted to each channel: fewer rows say little of whether it is a wave at all.
_FEWEST_ROWS = 8
_COMPONENTS: tuple[Component, ...] = ("cos", "sin")


def components_located(question: Question, unit: float) -> Iterator[tuple[Packed, Located]]:
    """Find the rule, and the position of the first row, of cosines or of sines alone.

    Rows must follow each other: x(p + L) + x(p − L) = 2·cos(L·ω)·x(p) says how fast each channel
    turns, and by least squares its phase follows.
    """
    values = question.sample.values
    if question.is_pair or question.sample.is_complex or values.ndim != 2:
        return
    every = rows_of(question.sample)
    rows = every[:EARLY_ROWS]
    if len(rows) < _FEWEST_ROWS or (question.positions is not None and not _is_close(question)):
        return
    for pack, channels in component_channels(rows, unit):
        wave = pick(rows, channels)
        omega, error = _frequencies(wave, unit)
        turns, crookedness = _fitted(wave, omega)
        clear = omega * len(wave) > 1
        if not clear.any() or (crookedness[clear] > 0.2).any():
            continue
        scale = float(np.median(np.abs(turns[clear])))
        scale = 1.0 if abs(scale - 1) < 64 * unit else scale
        measured = Measured(omega, error, scale, 64 * unit)
        for found in find_rules(measured):
            if "inv_freq" in found.parameters or "freq_factors" in found.parameters:
                continue
            exact = frequencies(found.rule)
            off = float(crookedness[clear].max()) * 4 + 64 * unit
            for name in _COMPONENTS:
                phases = np.angle(turns if name == "cos" else turns * 1j)
                for start in next(positions_of(phases[clear], exact[clear], off))[:1]:
                    named = next(
                        each for kind, each in component_channels(rows, unit, name) if kind == pack
                    )
                    packed = Packed(
                        pack, {name: named}, turns[np.newaxis], len(every), f"the {name} alone"
                    )
                    yield packed, Located(found, exact, np.arange(len(every)) + start)


def _is_close(question: Question) -> bool:
    return question.positions is not None and bool((np.diff(question.positions) == 1).all())


def _frequencies(wave: Float64s, unit: float) -> tuple[Float64s, Float64s]:
    """Estimate frequencies from lags ever longer, each telling which turn the next one is in."""
    omega = np.zeros(wave.shape[1])
    error = np.full(wave.shape[1], np.pi)
    lag = 1
    size = np.sqrt((wave**2).sum(axis=0)) + 1e-300
    while 2 * lag < len(wave):
        middle = wave[lag:-lag]
        power = np.maximum((middle**2).sum(axis=0), 1e-300)
        cosine = (middle * (wave[2 * lag :] + wave[: -2 * lag])).sum(axis=0) / (2 * power)
        turned = np.arccos(np.clip(cosine, -1, 1))
        off = 4 * unit * size / np.sqrt(power)
        sine = np.maximum(np.sqrt(np.maximum(1 - cosine**2, 0)), np.sqrt(off))
        doubt = off / sine / lag
        guesses = _turns_like(turned, omega * lag) / lag if lag > 1 else turned
        is_better = (doubt < error) & ((error * lag < 0.5) | (lag == 1))
        omega = np.where(is_better, guesses, omega)
        error = np.where(is_better, doubt, error)
        lag *= 2
    return omega, error


def _turns_like(turned: Float64s, near: Float64s) -> Float64s:
    """Give the angle with a cosine, that angle known only up to its sign and whole turns."""
    whole = 2 * np.pi * np.round((near - turned) / (2 * np.pi))
    other = 2 * np.pi * np.round((near + turned) / (2 * np.pi))
    first, second = whole + turned, other - turned
    nearer: Float64s = np.where(np.abs(first - near) <= np.abs(second - near), first, second)
    return nearer


def _fitted(wave: Float64s, omega: Float64s) -> tuple[np.ndarray, Float64s]:
    """Fit a·cos(ω·row) − b·sin(ω·row) to each channel: a + i·b, and how far it is off at most."""
    places = np.arange(len(wave), dtype=np.float64)[:, np.newaxis]
    cos, sin = np.cos(places * omega), -np.sin(places * omega)
    cc, ss, cs = (cos * cos).sum(axis=0), (sin * sin).sum(axis=0), (cos * sin).sum(axis=0)
    cx, sx = (cos * wave).sum(axis=0), (sin * wave).sum(axis=0)
    determinant = np.maximum(cc * ss - cs**2, 1e-300)
    real, imaginary = (ss * cx - cs * sx) / determinant, (cc * sx - cs * cx) / determinant
    off = np.abs(wave - real * cos - imaginary * sin).max(axis=0)
    return real + 1j * imaginary, off
