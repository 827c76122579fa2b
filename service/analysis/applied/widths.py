"""Rotations of more or fewer channels than should turn, or of others."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.applied.spin import Target
from service.analysis.mistakes.catalogue import Mistake, Wording
from service.analysis.progression import bases, geometric
from service.tables.angle import Float64s

_WIDTH = Wording(
    "{have} channels turn, and {want} should; frequencies are {frequencies}{rest}.",
    "Set rotary_dim to {want}.",
)
_OFFSET = Wording(
    "Channels turn from channel {have} of the head on, and should from channel {want}.",
    "Rotate the part of the head that starts at channel {want}.",
)
_OWN = "those of that width"
_FIRST = "the first of those wanted"


def width_mistakes(application: Application, evidence: Evidence) -> Iterator[Application]:
    """Make each mistake in which channels turn, as far as those that do not turn allow it.

    Frequencies of another width are b^(-2k/width) where those wanted are such a series; or the
    first of those wanted, where fewer turn.
    """
    wiring, target = application.wiring, evidence.target
    is_kept, is_zero = evidence.untouched
    for width, offset in _parts(application, is_kept | is_zero):
        outside = np.ones(wiring.head_dim, dtype=bool)
        outside[offset : offset + width] = False
        if not (is_kept | is_zero)[outside].all():
            continue
        is_rest_zero = bool(outside.any() and is_zero[outside].all() and not is_kept[outside].all())
        changed = replace(wiring, width=width, offset=offset, is_rest_zero=is_rest_zero)
        if width == wiring.width:
            mistake = Mistake("rotary-offset", {"have": offset, "want": wiring.offset}, _OFFSET)
            yield application.having("offset", mistake, wiring=changed)
            continue
        for frequencies, omega in _frequencies(target, wiring.width, width):
            values = {
                "have": width,
                "want": wiring.width,
                "offset": offset,
                "frequencies": frequencies,
                "rest": "; the rest is zero" if is_rest_zero else "",
            }
            spin = replace(application.spin, omega=omega)
            mistake = Mistake("partial-width", values, _WIDTH)
            yield application.having("width", mistake, wiring=changed, spin=spin)


def _parts(application: Application, is_still: np.ndarray) -> list[tuple[int, int]]:
    """List parts of the head that may turn: usual ones, and what is seen to move."""
    wiring = application.wiring
    head_dim, moving = wiring.head_dim, np.flatnonzero(~is_still)
    widths = {head_dim, head_dim // 2, head_dim // 4, 3 * head_dim // 4, wiring.width}
    widths |= {2 * wiring.width, wiring.width // 2}
    first, last = (int(moving[0]), int(moving[-1])) if len(moving) else (0, -1)
    widths |= {last + 1 - first, last + 1 - wiring.offset, last + 2 - first}
    # In the layout half the last pairs of both halves may be too slow to be seen.
    widths |= {2 * (len(moving) // 2), 2 * ((len(moving) + 1) // 2)}
    parts = []
    for width in sorted(width for width in widths if width >= 2 and width % 2 == 0):
        for offset in dict.fromkeys((wiring.offset, 0, first, head_dim - width)):
            is_wanted = (width, offset) == (wiring.width, wiring.offset)
            if 0 <= offset <= head_dim - width and not is_wanted:
                parts.append((width, offset))
    return parts


def _frequencies(target: Target, wanted: int, width: int) -> Iterator[tuple[str, Float64s]]:
    if target.omega is None:
        return
    if width < wanted:
        yield _FIRST, target.omega[: width // 2]
    series = geometric(target.omega, target.omega_error + 2.0**-50)
    if series is None:
        return
    for base in bases(series, wanted)[:1]:
        first = series.first if abs(series.first - 1) > 1e-9 else 1.0
        yield _OWN, first * base ** (-2 * np.arange(width // 2) / width)
