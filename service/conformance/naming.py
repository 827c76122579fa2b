"""Naming mistakes: what makes the wrong numbers of an implementation.

An answer is held to the numbers of every mistake that its question can show, with the tolerance of
those numbers: an implementation with a mistake computes in float32 as well. Of several names, that
one is given which fits most failing cases of the file, goes with the cases that pass, fits most
cases of the run, and is made most often.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from service.analysis.explanation.catalogue import CATALOGUE
from service.conformance import suite
from service.conformance.diagnosing import names_by_diagnosis, not_diagnosed
from service.conformance.judging import AnswerArrays, InvalidAnswer, Judgement, unpacked
from service.conformance.mistakes.makers import MAKERS
from service.conformance.mistakes.rotary.narrow_types import iterated
from service.conformance.mistakes.wrong import Wrong
from service.conformance.named import (
    ITERATED,
    NOT_MADE,
    Named,
    fits,
    is_denied,
    is_seen,
    told_of,
)
from service.conformance.recorded_cases import RecordedCase
from service.encodings.rotary.angles import PACKS

_OTHER_PACK = "layout-swapped"
# Iterated frequencies are emulated, and their products rounded once: of what an implementation that
# computes each frequency may cost, this share is left.
_EMULATED = 0.3
_OF_COST = 0.8


def names_of(judgements: Sequence[Judgement], *, diagnoses: bool) -> dict[str, Named]:
    """Return the name of each failing case by its id.

    Args:
        judgements: of all cases of a run.
        diagnoses: whether ``/diagnose`` is asked about cases that no numbers name: of each file a
            few, as long as what it finds goes together.
    """
    search = _NameSearch(judgements)
    named = dict[str, Named]()
    for file, failing in search.failing.items():
        unnamed = []
        for each in failing:
            # No question of another suite, and no answer, may end a run that is judged.
            with suppress(*NOT_MADE):
                if found := search.best(each) or _other_pack(each) or _iterated(each):
                    named[each.case.id] = found
                    continue
            unnamed.append(each)
        if diagnoses:
            named |= names_by_diagnosis(unnamed, search.passing[file])
        else:
            named |= {each.case.id: not_diagnosed() for each in unnamed}
    return named


class _NameSearch:
    """The names that fit the failing cases of a run.

    Attributes:
        failing: the failing cases by file.
        passing: the others.
    """

    def __init__(self, judgements: Iterable[Judgement]) -> None:
        self.failing: defaultdict[str, list[Judgement]] = defaultdict(list)
        self.passing: defaultdict[str, list[Judgement]] = defaultdict(list)
        self._wrongs: dict[tuple[str, str], list[tuple[int, Wrong]]] = {}
        self._names: dict[str, list[str]] = {}
        self._in_file: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for each in judgements:
            if each.has_passed:
                self.passing[each.case.file].append(each)
            else:
                self.failing[each.case.file].append(_finite(each))
        for file, failing in self.failing.items():
            for each in failing:
                # Names that fit a case before are tried first, and the others where none does.
                known = [*self._in_file[file]]
                others = (name for name in MAKERS if name not in self._in_file[file])
                fitting = self._fitting(each, known) or self._fitting(each, others)
                self._names[each.case.id] = fitting
                self._in_file[file].update(fitting)
        self._in_run = sum(self._in_file.values(), Counter[str]())

    def best(self, judgement: Judgement) -> Named | None:
        """Return the name of a failing case; None if none fits."""
        fitting, file = self._names[judgement.case.id], judgement.case.file
        if not fitting:
            return None
        counts = self._in_file[file]
        most = max(counts[name] for name in fitting)
        tied = [name for name in fitting if counts[name] == most]
        misses = {name: self._misses(name, judgement) for name in tied} if len(tied) > 1 else {}
        first = min(
            fitting,
            key=lambda name: (
                -counts[name],
                misses.get(name, 0),
                -self._in_run[name],
                CATALOGUE[name].bits,
            ),
        )
        about = suite.about(first)
        made = [each for _, each in self._made_of(first, judgement)]
        question, detail = judgement.case.question, self._detail(first, made, file)
        told = told_of(first, made, question, detail=detail)
        if is_denied(told["values"], self.passing[file]):
            told = told_of(first, [], question, detail=detail)
        return Named(
            first,
            effect=about["effect"],
            threads=tuple(about["threads"]),
            by="numbers",
            others=tuple(name for name in fitting if name != first),
            request=made[0].request,
            **told,
        )

    def _fitting(self, judgement: Judgement, names: Iterable[str]) -> list[str]:
        return [name for name in names if self._made_of(name, judgement)]

    def _made_of(self, name: str, judgement: Judgement) -> list[tuple[int, Wrong]]:
        """Return the wrong numbers of a mistake that an answer has, each with its maker."""
        made = self._made(name, judgement.case)
        return [(maker, each) for maker, each in made if fits(each, judgement.answer)]

    def _made(self, name: str, case: RecordedCase) -> list[tuple[int, Wrong]]:
        """Return the wrong numbers of a mistake, each with the number of its maker."""
        key = name, case.id
        if key not in self._wrongs:
            made = list[tuple[int, Wrong]]()
            for number, maker in enumerate(MAKERS.get(name, ())):
                with suppress(*NOT_MADE), np.errstate(all="ignore"):
                    wrongs = maker(case.question, case.expected)
                    made += ((number, each) for each in wrongs if is_seen(each, case.expected))
            self._wrongs[key] = made
        return self._wrongs[key]

    def _misses(self, name: str, judgement: Judgement) -> int:
        """Return how many passing cases of a file an implementation with the mistake fails.

        The mistake is what one maker makes of the case.
        """
        counts = Counter[int]()
        for number in {maker for maker, _ in self._made_of(name, judgement)}:
            counts[number] = 0
            for each in self.passing[judgement.case.file]:
                made = [wrong for maker, wrong in self._made(name, each.case) if maker == number]
                counts[number] += bool(made) and not any(fits(one, each.answer) for one in made)
        return min(counts.values())

    def _detail(self, name: str, made: Sequence[Wrong], file: str) -> str:
        """Return what the makers of wrong numbers say, if all cases that show it have them."""
        details = {each.detail for each in made}
        for each in self.failing[file]:
            shown = {wrong.detail for _, wrong in self._made(name, each.case)}
            details -= shown - {wrong.detail for _, wrong in self._made_of(name, each)}
        return details.pop() if len(details) == 1 else ""


def _finite(judgement: Judgement) -> Judgement:
    """Return the judgement of the rows that are finite, if these are wrong as well.

    Where a narrow type overflows, rows are not numbers. The others show the mistake.
    """
    case, answer = judgement.case, judgement.answer
    question, expected = case.question, case.expected
    positions, shape = question.positions, expected.shape
    if positions is None or not judgement.has_shape or shape[-2] != len(positions):
        return judgement
    finite = np.isfinite(np.stack([*answer.copies.values()])).all(axis=-1)
    rows = np.flatnonzero(finite.reshape(-1, len(positions)).all(axis=0))
    if len(rows) in {0, len(positions)}:
        return judgement

    def part(array: Any) -> Any:
        return array[..., rows, :] if np.ndim(array) > 1 else array

    some = replace(
        case,
        question=replace(
            question,
            positions=tuple(positions[row] for row in rows),
            x=None if question.x is None else part(np.array(question.x)).tolist(),
        ),
        expected=replace(
            expected,
            arrays={name: part(each) for name, each in expected.arrays.items()},
            angle=part(expected.angle),
            scale=part(expected.scale),
        ),
    )
    copies = {name: part(each) for name, each in answer.copies.items()}
    found = Judgement(some, AnswerArrays(answer.dtype, answer.sent, copies))
    return judgement if found.has_passed else found


def _other_pack(judgement: Judgement) -> Named | None:
    """Return that the answer is right in another packing than it says, if it is."""
    case, answer = judgement.case, judgement.answer
    if case.question.kind not in {"table", "model"}:
        return None
    for pack in PACKS:
        try:
            copies = unpacked(pack, answer.sent, case)
        except InvalidAnswer:
            continue
        if Judgement(case, AnswerArrays(answer.dtype, answer.sent, copies)).has_passed:
            rule = f"The numbers are right if the packing of the answer is {pack}: say so in pack."
            effect = suite.about(_OTHER_PACK)["effect"]
            return Named(_OTHER_PACK, rule, effect, by="numbers")
    return None


def _iterated(judgement: Judgement) -> Named | None:
    """Return that frequencies are multiplied on and on, where these numbers are the answer."""
    case, answer = judgement.case, judgement.answer
    if not judgement.has_shape or (cost := judgement.worst_share) >= suite.LEAST_TIMES:
        return None
    for made in iterated(case.question, case.expected):
        wrong = made.expectation
        assert wrong.angle is not None
        # What iterated frequencies cost by themselves is what the answer costs.
        own = case.expected.distances(wrong.arrays, answer.dtype).max(initial=0.0)
        if own < _OF_COST * cost:
            continue
        if fits(replace(made, expectation=replace(wrong, angle=_EMULATED * wrong.angle)), answer):
            rule = "the right convention; its iterated frequencies cost"
            return Named(ITERATED, f"{rule} {cost:.2g} times what is allowed.", by="arithmetic")
    return None
