"""What is known to go wrong with the positions of an application, and with narrow types."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from service.analysis.applied.evidence import Application
from service.analysis.applied.spin import Target, rounded
from service.analysis.mistakes.catalogue import Mistake, Wording
from service.tables.dtypes import BFLOAT16, FLOAT16

_EXACT = {BFLOAT16: 256, FLOAT16: 2048}
_TABLES = Wording(
    "Cosines and sines were rounded to {dtype} before they were multiplied with.",
    "Keep cosines and sines in float32 until the rotation is done.",
)
_STUCK = Wording(
    "Every row was turned as position {position}: position ids do not advance.",
    "Give each row its own position.",
)


def position_mistakes(application: Application, target: Target) -> Iterator[Application]:
    """Make each mistake that counts positions otherwise in a known way."""
    spin, rows = application.spin, target.rows
    if rows > 1:
        reverse = replace(spin, rows=np.arange(rows)[::-1])
        yield application.having("rows", Mistake("positions-reversed"), spin=reverse)
        for row in (0, rows - 1):
            values = {"position": float(target.positions[row])}
            stuck = replace(spin, rows=np.full(rows, row))
            yield application.having("rows", Mistake("positions-stuck", values, _STUCK), spin=stuck)
    if target.omega is None:
        return
    for dtype in (BFLOAT16, FLOAT16):
        ahead = rounded(target.positions, dtype) - target.positions
        if np.isfinite(ahead).all() and ahead.any():
            narrow = replace(spin, ahead=ahead)
            mistake = Mistake("narrow-positions", {"dtype": dtype.name, "exact": _EXACT[dtype]})
            yield application.having("positions", mistake, spin=narrow)


def narrow_mistakes(application: Application, target: Target) -> Iterator[Application]:
    """Make each mistake that keeps frequencies, or cosines and sines, in a narrow type."""
    spin = application.spin
    omega = spin.frequencies(target)
    for dtype in (BFLOAT16, FLOAT16):
        if omega is not None:
            narrow = replace(spin, omega=rounded(omega, dtype))
            mistake = Mistake("narrow-frequencies", {"dtype": dtype.name})
            yield application.having("narrow-frequencies", mistake, spin=narrow)
        mistake = Mistake("narrow-tables", {"dtype": dtype.name}, _TABLES)
        yield application.having("tables", mistake, spin=replace(spin, dtype=dtype))


def stuck_at(application: Application, target: Target, position: float) -> Application:
    """Make the mistake of turning every row as one position."""
    mistake = Mistake("positions-stuck", {"position": position}, _STUCK)
    # From the nearest row there is: angles are as exact as the positions between are few.
    row = int(np.argmin(np.abs(target.positions - position)))
    source = np.full(target.rows, row)
    ahead = position - float(target.positions[row])
    spin = replace(application.spin, rows=source, ahead=ahead)
    return application.having("rows", mistake, spin=spin)
