"""What may have been rounded to what while angles were computed: emulations to hold rows to."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from service.analysis.identifying.arithmetic import (
    EMULATION_LOSS,
    FLOAT32_FREQUENCY_LOSS,
    FLOAT32_SINE_LOSS,
    FLOAT32_STEPS,
    REPEATED,
    Arithmetic,
    narrow_angles,
    narrow_frequencies,
    narrow_positions,
    narrow_throughout,
)
from service.analysis.identifying.arithmetic import FLOAT32 as IN_FLOAT32
from service.analysis.identifying.arithmetic import FLOAT64 as IN_FLOAT64
from service.analysis.identifying.emulation import Emulation, Repeated, rounded
from service.analysis.identifying.emulation_fit import fitted_frequencies, misfit_by_frequency
from service.analysis.question import Turning
from service.analysis.sample import spacing
from service.tables.angle import Float64s
from service.tables.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType

NARROW = (BFLOAT16, FLOAT16)

_ROUNDING = 2.0**-24
# An offset, a division, a factor and the product: four roundings.
_FEW_STEPS = 4 * _ROUNDING
# In coarse numbers a float32 frequency cannot be measured to the ulp: it may be any there is.
_UNMEASURED = FLOAT32_FREQUENCY_LOSS
# A room is no statement where another table may fall into it. Angles to 4096 have less than 2^-10
# in a few steps; what really is made in steps farther out cannot be told from what is not.
_MOST_ROOM = 2.0**-10
# Narrow numbers are too coarse to measure frequencies in: angles to 15887, those of 8192 positions
# and more, have a room of 2^-5, a 32nd of what the next position adds to an angle of frequency 1.
_MOST_UNMEASURED = 2.0**-5
_RATIO_ULPS = range(-4, 5)
_SAME_RATIO = 2.0**-40


def exact_emulation(turning: Turning) -> Emulation:
    """Compute in float64."""
    loss = EMULATION_LOSS
    return Emulation(IN_FLOAT64, turning, turning.omega, share=loss, floor=loss)


def loosest_float32(turning: Turning) -> Emulation:
    """Bound what any float32 arithmetic makes, whatever frequencies it is that it has."""
    share = FLOAT32_FREQUENCY_LOSS + _step_losses(turning)
    loosest = _float32(FLOAT32_STEPS, turning, turning.omega, share=share)
    return replace(loosest, place_loss=_place_loss(turning))


def float32_emulations(
    turning: Turning, rows: np.ndarray, have: Mapping[str, Float64s], dtype: DType
) -> Iterator[Emulation]:
    """Compute in float32, with the frequencies that rows show to have been used."""
    if dtype in NARROW:
        omega = turning.omega
        loose = (
            _float32(IN_FLOAT32, turning, omega, share=_UNMEASURED + _ROUNDING),
            _float32(FLOAT32_STEPS, turning, omega, share=_UNMEASURED + _step_losses(turning)),
        )
        yield from (each for each in loose if _says_much(each, dtype))
        return
    omega = fitted_frequencies(turning, rows, have)
    if dtype is FLOAT64:
        # Numbers of float32 that lie in float64 are taken for float32; others have exact sines.
        floor = EMULATION_LOSS
        yield Emulation(IN_FLOAT32, turning, omega, FLOAT32, FLOAT32, floor=floor)
        return
    yield _float32(IN_FLOAT32, turning, omega)
    yield from _repeated(turning, rows, have)
    steps = _float32(FLOAT32_STEPS, turning, omega, share=_FEW_STEPS)
    steps = replace(steps, place_loss=_place_loss(turning))
    if _says_much(steps, dtype):
        yield steps


def narrow_emulations(
    turning: Turning,
    rows: np.ndarray,
    have: Mapping[str, Float64s],
    dtype: DType,
    narrow: DType,
) -> Iterator[Emulation]:
    """Round to a narrow type before float32, or in place of it, as far as that changes anything."""
    places, omega = rounded(turning.coordinates, narrow), rounded(turning.omega, narrow)
    if dtype is FLOAT64:
        return
    if not (np.isfinite(places).all() and np.isfinite(omega).all()):
        return
    if (places != turning.coordinates).any():
        arithmetic = narrow_positions(narrow.name)
        if dtype in NARROW:
            share = _UNMEASURED + _ROUNDING
            unmeasured = _float32(arithmetic, turning, turning.omega, narrow, share)
            if _says_much(unmeasured, dtype):
                yield unmeasured
        else:
            fitted = fitted_frequencies(turning, rows, have, narrow)
            yield _float32(arithmetic, turning, fitted, narrow, _ROUNDING)
    if (omega != turning.omega).any():
        yield _float32(narrow_frequencies(narrow.name), turning, omega, share=_ROUNDING)
    floor = FLOAT32_SINE_LOSS
    arithmetic = narrow_angles(narrow.name)
    yield Emulation(arithmetic, turning, turning.omega, angles_in=narrow, floor=floor)
    if dtype is narrow:
        # Other sines than rounded ones would give room to whatever is as near to them.
        sines = float(spacing(np.ones(1), narrow)[0])
        arithmetic = narrow_throughout(narrow.name)
        yield Emulation(arithmetic, turning, omega, narrow, narrow, narrow, floor=sines)


def _says_much(emulation: Emulation, dtype: DType) -> bool:
    """Tell whether an emulation leaves the angles so little room that its claim says something."""
    places = np.abs(emulation.turning.coordinates).max(axis=0, initial=0.0)
    omega = np.abs(emulation.omega)
    room = emulation.share * places[list(emulation.turning.axis)] * omega
    room = room + emulation.place_loss * omega
    most = _MOST_UNMEASURED if dtype in NARROW else _MOST_ROOM
    return bool(room.max(initial=0.0) <= most)


def _step_losses(turning: Turning) -> Float64s:
    """Bound what repeated multiplication does to the angle of each frequency, as a share."""
    losses: Float64s = np.arange(2, 2 + len(turning.omega)).astype(np.float64) * _ROUNDING
    return losses


def _place_loss(turning: Turning) -> float:
    """Bound what float32 does to coordinates between two ends: a rounding of the farther end."""
    places = turning.coordinates
    is_counted = bool((places == np.round(places)).all())
    return 0.0 if is_counted else float(np.abs(places).max()) * _ROUNDING


def _float32(
    arithmetic: Arithmetic,
    turning: Turning,
    omega: Float64s,
    positions_in: DType = FLOAT32,
    share: Float64s | float = 0.0,
) -> Emulation:
    """Compute in float32; where an angle has room, its own rounding is part of that."""
    angles_in = None if np.any(share) else FLOAT32
    floor = FLOAT32_SINE_LOSS
    return Emulation(arithmetic, turning, omega, positions_in, angles_in, share=share, floor=floor)


def _repeated(
    turning: Turning, rows: np.ndarray, have: Mapping[str, Float64s]
) -> Iterator[Emulation]:
    """Multiply again and again by the ratio that rows show, if there is one of all frequencies."""
    omega = turning.omega
    if turning.coordinates.shape[1] != 1 or len(omega) < 2 or not (omega > 0).all():
        return
    ratios = omega[1:] / omega[:-1]
    if np.abs(ratios / ratios[0] - 1).max() > _SAME_RATIO:
        return
    near = np.float32(ratios[0])
    candidates = [
        Repeated(
            REPEATED,
            turning,
            omega,
            floor=FLOAT32_SINE_LOSS,
            ratio=float(near + np.float32(ulps) * np.spacing(near)),
        )
        for ulps in _RATIO_ULPS
    ]
    yield min(
        candidates,
        key=lambda each: float(misfit_by_frequency(turning, each.angles(rows), have).sum()),
    )
