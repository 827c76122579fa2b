"""What an array is: hypotheses that hold, ranked, or the nearest table and where it is left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from service.analysis.call import Tables
from service.analysis.identifying.arithmetic import FLOAT64
from service.analysis.identifying.families import FAMILIES
from service.analysis.identifying.ranking import are_alike, exactness, is_rival, ranked
from service.analysis.identifying.search import Search
from service.analysis.identifying.verification import Verdict, verdict_of
from service.analysis.identifying.views import narrowed, without_copies
from service.analysis.question import Family, Question

Outcome: TypeAlias = Literal["identified", "ambiguous", "none"]

# A table of which less agrees is no nearer than any other.
_LEAST_AGREEING = 0.05


@dataclass(frozen=True)
class Identified:
    """What an array was found to be.

    Attributes:
        outcome: ``identified``; ``ambiguous`` if tables that go on differently give these numbers;
            or ``none``.
        hypotheses: what holds, the best first.
        nearest: where nothing does: the table that agrees with most of the array.
        notes: what else is to be said, in sentences.
    """

    outcome: Outcome
    hypotheses: tuple[Verdict, ...] = ()
    nearest: Verdict | None = None
    notes: tuple[str, ...] = ()


def identify(
    question: Question, tables: Tables, families: Sequence[Family] = FAMILIES
) -> Identified:
    """Say what an array is.

    Args:
        question: the array, and what is known of it.
        tables: finds what a call names.
        families: what proposes tables that it may be.
    """
    if all(_is_constant(sample.values) for sample in question.arrays.values()):
        return Identified("none", notes=("every number is the same: that may be anything",))
    search = Search(question, tables, families)
    found = search.found(question)
    narrow = narrowed(question) if not _is_sure(found) else None
    if narrow is not None:
        found = [*found, *search.found(narrow)]
    if not found and not search.is_near:
        found = search.found_reversed(question) or search.found_in_parts(question)
    if found:
        return _outcome(ranked(found), tables)
    single = without_copies(question)
    if single is not None:
        alone = identify(single[0], tables, families)
        copies = question.sample.shape[single[1]]
        note = f"axis {single[1]} holds {copies} copies of one array, which is what is looked at"
        return replace(alone, notes=(*alone.notes, note))
    return Identified("none", nearest=_nearest(search), notes=_notes(question))


def _is_constant(values: np.ndarray) -> bool:
    return bool((values == values.flat[0]).all())


def _is_sure(verdicts: Sequence[Verdict]) -> bool:
    """Tell whether something explains an array by no less than float64."""
    return any(exactness(verdict) <= FLOAT64.rank for verdict in verdicts)


def _outcome(hypotheses: tuple[Verdict, ...], tables: Tables) -> Identified:
    first = hypotheses[0]
    others = [verdict for verdict in hypotheses[1:] if is_rival(first, verdict)]
    if not others:
        return Identified("identified", hypotheses)
    count = 1 + len(others)
    if all(are_alike(first.proposal.call, other.proposal.call, tables) for other in others):
        note = f"{count} names of one table: every number of it is the same under each"
        return Identified("identified", hypotheses, notes=(note,))
    note = f"{count} tables give these numbers, and would go on differently"
    return Identified("ambiguous", hypotheses, notes=(note,))


def _nearest(search: Search) -> Verdict | None:
    looked = max(search.near, key=lambda each: each.agreeing, default=None)
    if looked is None or looked.agreeing < _LEAST_AGREEING:
        return None
    return verdict_of(looked)


def _notes(question: Question) -> tuple[str, ...]:
    """Name the first number that is none."""
    for sample in question.arrays.values():
        if not sample.is_finite:
            at = np.argwhere(~np.isfinite(sample.values))[0]
            place = ", ".join(str(int(part)) for part in at)
            return (f"not every number is finite: the first is at {place}, axes of 1 left out",)
    return ()
