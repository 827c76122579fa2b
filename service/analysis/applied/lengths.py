"""Applications that treat rows beyond some length otherwise than those before."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from service.analysis.applied.evidence import Application, Evidence
from service.analysis.mistakes.catalogue import Mistake, Wording

_BEYOND = Wording(
    "From row {have} on rows are {beyond}.",
    "Make cosines and sines for all {want} rows.",
)


def length_mistakes(application: Application, evidence: Evidence) -> Iterator[Application]:
    """Make each mistake that starts at the first row that an application does not explain."""
    rows, spin = evidence.target.rows, application.spin
    length = _explained_rows(application, evidence)
    if not 1 < length < rows:
        return
    every = np.arange(rows)
    for beyond in ("unrotated", "zero"):
        changed = replace(spin, beyond=(length, beyond))
        yield application.having("length", _mistake(length, rows, beyond), spin=changed)
    if spin.rows is None and isinstance(spin.ahead, float):
        for beyond, source in (
            (f"turned as row {length - 1}, the last before", np.minimum(every, length - 1)),
            ("turned as if counting started anew", every % length),
        ):
            changed = replace(spin, rows=source)
            yield application.having("length", _mistake(length, rows, beyond), spin=changed)


def _mistake(length: int, rows: int, beyond: str) -> Mistake:
    return Mistake("truncated", {"have": length, "want": rows, "beyond": beyond}, _BEYOND)


def _explained_rows(application: Application, evidence: Evidence) -> int:
    """Count the rows before the first that is not explained, in one head."""
    for rows in evidence.chunks():
        is_off = evidence.share_within(application, slice(0, 1), rows) < 1
        if is_off.any():
            return int(rows[np.argmax(is_off)])
    return evidence.target.rows
