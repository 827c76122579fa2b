"""Naming mistakes: what makes the wrong numbers of an implementation.

An answer is held to the numbers of every mistake that its question can show, with the tolerance of
those numbers: an implementation with a mistake computes in float32 as well. Of several names, that
one is given which fits most failing cases of the file, goes with the cases that pass, fits most
cases of the run, and is made most often.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import numpy as np

from service.analysis.explanation.catalogue import CATALOGUE
from service.conformance import suite
from service.conformance.judging import (
    AnswerArrays,
    InvalidAnswer,
    Judgement,
    distances,
    stored,
    unpacked,
)
from service.conformance.mistakes.makers import MAKERS
from service.conformance.mistakes.rotary.narrow_types import iterated
from service.conformance.mistakes.wrong import Wrong
from service.conformance.questions import Request
from service.conformance.recorded_cases import RecordedCase
from service.conformance.tolerance import UNIT_ROUNDOFF, Expectation
from service.delivery.parameters import read_parameters
from service.encodings.rotary.angles import PACKS
from service.errors import PosrefError
from service.formats.format import Input, check_shape
from service.grammar import to_query
from service.numerics.dtypes import FLOAT64, INT64, REAL_DTYPES, Elements
from service.numerics.tables import StoredTable
from service.routes.diagnose import DiagnoseParameters, diagnose_arrays
from service.settings import default_settings

ITERATED, UNEXPLAINED = "iterated-frequencies", "unexplained"
_OTHER_PACK = "layout-swapped"
# Iterated frequencies are emulated, and their products rounded once: of what an implementation that
# computes each frequency may cost, this share is left.
_EMULATED = 0.3
_OF_COST = 0.8
_MOST_DIAGNOSED = 5
# Makers know the questions of the suite: a case of another one may lack what a mistake needs.
_NOT_MADE = (PosrefError, ArithmeticError, AssertionError, LookupError, ValueError)


@dataclass(frozen=True)
class Named:
    """The name of what makes an answer wrong.

    Attributes:
        name: in the catalogue, ITERATED or UNEXPLAINED.
        sentence: what it is.
        effect: what goes wrong for users; "" if the suite does not know.
        threads: where it happened.
        by: ``numbers`` of the mistake, ``arithmetic``, ``diagnosis``; "" if nothing explains it.
        others: further names that fit as well.
        request: the request that a posref server answers with the wrong numbers.
        values: what a diagnosis says of the mistake, as the base that was used.
        findings: what else a diagnosis says of the numbers.
    """

    name: str
    sentence: str
    effect: str = ""
    threads: tuple[str, ...] = ()
    by: str = ""
    others: tuple[str, ...] = ()
    request: Request | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[str, ...] = ()


_UNEXPLAINED = Named(UNEXPLAINED, "No mistake that is known explains these numbers.")


def names_of(
    judgements: Sequence[Judgement], *, diagnoses: bool, undiagnosed: Collection[str] = ()
) -> dict[str, Named]:
    """Return the name of each failing case by its id.

    Args:
        judgements: of all cases of a run.
        diagnoses: whether ``/diagnose`` is asked about cases that no numbers name: of each file a
            few, as long as it names them, since it takes a good part of a second.
        undiagnosed: the ids of cases about which it is never asked.
    """
    search = _NameSearch(judgements)
    named = {}
    for failing in search.failing.values():
        asked = _MOST_DIAGNOSED if diagnoses else 0
        for each in failing:
            # No question of another suite, and no answer, may end a run that is judged.
            found = None
            with suppress(*_NOT_MADE):
                found = search.best(each) or _other_pack(each) or _iterated(each)
            if found is None and asked and each.case.id not in undiagnosed:
                with suppress(*_NOT_MADE):
                    found = _diagnosed(each)
                asked = asked - 1 if found and found.by else 0
            named[each.case.id] = found or _UNEXPLAINED
    return named


class _NameSearch:
    """The names that fit the failing cases of a run.

    Attributes:
        failing: the failing cases by file.
    """

    def __init__(self, judgements: Iterable[Judgement]) -> None:
        self.failing: defaultdict[str, list[Judgement]] = defaultdict(list)
        self._passing: defaultdict[str, list[Judgement]] = defaultdict(list)
        self._wrongs: dict[tuple[str, str], list[Wrong]] = {}
        self._names: dict[str, list[str]] = {}
        self._in_file: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for each in judgements:
            if each.has_passed:
                self._passing[each.case.file].append(each)
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
        misses = {name: self._misses(name, file) for name in tied} if len(tied) > 1 else {}
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
        others = tuple(name for name in fitting if name != first)
        threads = tuple(about["threads"])
        made = self._made(first, judgement.case)
        request = next((each.request for each in made if _fits(each, judgement.answer)), None)
        return Named(first, about["mistake"], about["effect"], threads, "numbers", others, request)

    def _fitting(self, judgement: Judgement, names: Iterable[str]) -> list[str]:
        return [
            name
            for name in names
            if any(_fits(each, judgement.answer) for each in self._made(name, judgement.case))
        ]

    def _made(self, name: str, case: RecordedCase) -> list[Wrong]:
        """Return the wrong numbers of a mistake."""
        key = name, case.id
        if key not in self._wrongs:
            made = list[Wrong]()
            for maker in MAKERS.get(name, ()):
                with suppress(*_NOT_MADE), np.errstate(all="ignore"):
                    wrongs = maker(case.question, case.expected)
                    made += (each for each in wrongs if _is_seen(each, case.expected))
            self._wrongs[key] = made
        return self._wrongs[key]

    def _misses(self, name: str, file: str) -> int:
        """Return how many passing cases of a file an implementation with the mistake fails."""
        return sum(
            bool(made) and not any(_fits(each, judgement.answer) for each in made)
            for judgement in self._passing[file]
            for made in [self._made(name, judgement.case)]
        )


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


def _is_seen(wrong: Wrong, right: Expectation) -> bool:
    """Return whether a case shows wrong numbers by far, so that they are no rounding."""
    is_other = wrong.expectation.shape != right.shape
    return is_other or bool(right.distances(wrong.expectation.arrays).max() >= suite.LEAST_TIMES)


def _fits(wrong: Wrong, answer: AnswerArrays) -> bool:
    expected = wrong.expectation
    is_one = expected.shape == answer.shape and expected.arrays.keys() == answer.copies.keys()
    if not is_one or (distances(expected, answer) > 1).any():
        return False
    return wrong.decimals is None or _are_rounded(wrong.decimals, answer)


def _are_rounded(decimals: int, answer: AnswerArrays) -> bool:
    """Return whether all numbers have so few decimals, before they were rounded to their type."""
    unit = UNIT_ROUNDOFF.get(answer.dtype, 0.0)
    numbers = np.stack([*answer.copies.values()])
    apart = np.abs(numbers - np.round(numbers, decimals))
    return bool((apart <= unit * np.abs(numbers)).all())


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
        if _fits(replace(made, expectation=replace(wrong, angle=_EMULATED * wrong.angle)), answer):
            rule = "the right convention; its iterated frequencies cost"
            return Named(ITERATED, f"{rule} {cost:.2g} times what is allowed.", by="arithmetic")
    return None


def _diagnosed(judgement: Judgement) -> Named | None:
    """Return what ``/diagnose`` finds; None if it finds nothing, or refuses."""
    question, answer = judgement.case.question, judgement.answer
    request, dtype = question.request, answer.dtype
    if question.kind == "rotate":
        query = {**question.parameters, "positions": question.positions}
        given = {name: to_query(each) for name, each in query.items() if each is not None}
        url = f"{question.resource}?{urlencode(given, safe=',:')}"
    elif request.method == "GET":
        url = request.url
    else:
        return None
    if not all(np.isfinite(each).all() for each in answer.arrays.values()):
        return None
    is_index = judgement.case.expected.angle is None
    tables = {name: _sent(each, dtype, is_index=is_index) for name, each in answer.arrays.items()}
    if question.kind == "rotate":
        tables = {"x": stored(np.array(question.x), FLOAT64.name), "rotated": tables["rotated"]}
    elif len(tables) == 1:
        tables = {"x": next(iter(tables.values()))}
    try:
        for name, table in tables.items():
            check_shape(name, table.shape)
        parameters = read_parameters(DiagnoseParameters, {"to": url})
        report = diagnose_arrays(parameters, Input(tables), default_settings())
    except PosrefError:
        return None
    findings = tuple(each.sentence for each in report.findings or ())
    if report.verdict == "none" and findings:
        return replace(_UNEXPLAINED, findings=findings)
    if report.verdict != "diagnosed":
        return None
    first, *others = report.mistakes
    about, names = suite.about(first.name), tuple(each.name for each in others)
    return Named(
        first.name,
        report.sentence,
        about["effect"],
        tuple(about["threads"]),
        "diagnosis",
        names,
        values=first.model_extra or {},
        findings=findings,
    )


def _sent(array: Elements, dtype: str, *, is_index: bool) -> StoredTable:
    """Return an array as a client sends it; indices are integers, however they are written."""
    if array.dtype.kind in "iub" or (is_index and (array == np.round(array)).all()):
        return StoredTable(array.astype(np.int64), INT64)
    return stored(array, dtype if dtype in REAL_DTYPES else FLOAT64.name)
