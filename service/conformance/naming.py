"""Naming mistakes: what makes the wrong numbers of an implementation.

An answer is held to the numbers of every mistake that its question can show, with the tolerance of
those numbers: an implementation with a mistake computes in float32 as well. Of several names, that
one is given which fits most failing cases of the file, goes with the cases that pass, fits most
cases of the run, and is made most often.

About cases whose numbers no maker has, ``/diagnose`` is asked. A small case may coincide with
settings that nobody has set. So a name stands only if the other cases of the file do not contradict
it: those that fail have the same name, with compatible values, and those that pass do not show it.
Several mistakes at once are never taken from one case.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import numpy as np

from service.analysis.explanation.catalogue import CATALOGUE
from service.conformance import suite
from service.conformance.expected import expectation
from service.conformance.judging import AnswerArrays, InvalidAnswer, Judgement, stored, unpacked
from service.conformance.mistakes.makers import MAKERS
from service.conformance.mistakes.rotary.narrow_types import iterated
from service.conformance.mistakes.wrong import LEAST_TIMES, Wrong
from service.conformance.named import (
    ITERATED,
    UNEXPLAINED,
    Named,
    Settings,
    are_denied,
    fits,
    is_denied,
    told_of,
    with_settings,
)
from service.conformance.questions import NOT_MADE, Question
from service.conformance.recorded_cases import RecordedCase
from service.delivery.parameters import read_parameters
from service.encodings.rotary.angles import PACKS
from service.errors import PosrefError, counted
from service.formats.format import Input, check_shape
from service.grammar import to_query
from service.numerics.dtypes import FLOAT64, INT64, REAL_DTYPES, Elements
from service.numerics.tables import StoredTable
from service.routes.diagnose import DiagnoseParameters, diagnose_arrays
from service.settings import default_settings

_OTHER_PACK = "layout-swapped"
# Iterated frequencies are emulated, and their products rounded once: of what an implementation that
# computes each frequency may cost, this share is left.
_EMULATED = 0.3
_OF_COST = 0.8
# Each takes a good part of a second.
_MOST_DIAGNOSED = 5
# The setting that a mistake is about, where a diagnosis does not name it.
_KEYS = {"wrong-base": "rope_theta"}
# A diagnosis from few numbers may give a setting as the middle of an interval.
_INTERVAL = frozenset({"interval", "low", "high"})
_MOST_APART = 0.01
_NOT_MADE_OF_IT = "No mistake that the suite makes has these numbers"


def names_of(
    judgements: Sequence[Judgement], *, diagnoses: bool, undiagnosed: Collection[str] = ()
) -> dict[str, Named]:
    """Return the name of each failing case by its id.

    Args:
        judgements: of all cases of a run.
        diagnoses: whether ``/diagnose`` is asked about cases that no numbers name: of each file a
            few, as long as what it finds goes together.
        undiagnosed: the ids of cases about which it is never asked.
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
        file_diagnoses = _FileDiagnoses(search.passing[file])
        for each in unnamed:
            if diagnoses and each.case.id not in undiagnosed:
                file_diagnoses.add(each)
            else:
                rule = f"{_NOT_MADE_OF_IT}; /diagnose was not asked."
                named[each.case.id] = _unexplained(rule)
        named |= file_diagnoses.names()
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
                    made += ((number, each) for each in wrongs if each.is_seen(case.expected))
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
    if not case.question.is_table:
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
    if not judgement.has_shape or (cost := judgement.worst_share) >= LEAST_TIMES:
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


def _unexplained(
    rule: str = "No mistake that is known explains these numbers.", findings: tuple[str, ...] = ()
) -> Named:
    """Return that nothing explains a case, and why."""
    return Named(UNEXPLAINED, rule, findings=findings)


@dataclass(frozen=True, eq=False)
class _Diagnosis:
    """The mistakes that a diagnosis finds in a case.

    Attributes:
        named: its name.
        forms: the names of all mistakes at once, each with those of its values.
        settings: the settings that are others, with the value in use and the right one.
        is_one: whether one mistake alone explains the case, and nothing else does.
    """

    named: Named
    forms: tuple[Any, ...] = ()
    settings: Settings = field(default_factory=dict)
    is_one: bool = True


class _FileDiagnoses:
    """The diagnoses of a file, until one contradicts another or finds nothing."""

    def __init__(self, passing: Sequence[Judgement]) -> None:
        """Begin with the cases of the file that pass."""
        self._passing = passing
        self._found: dict[str, _Diagnosis] = {}
        self._others: dict[str, Named] = {}
        self._waiting: list[str] = []
        self._asked = 0
        self._is_consistent = True

    def add(self, judgement: Judgement) -> None:
        """Explain a case by what explains others, or else by a diagnosis."""
        name = judgement.case.id
        if (same := self._as_before(judgement)) is not None:
            self._found[name] = same
        elif self._asked >= _MOST_DIAGNOSED or not self._is_consistent:
            self._waiting.append(name)
        else:
            self._ask(judgement)

    def _ask(self, judgement: Judgement) -> None:
        name, found = judgement.case.id, None
        # No question of another suite, and no answer, may end a run that is judged.
        with suppress(*NOT_MADE):
            found = _diagnosed(judgement)
        if found is None:
            self._others[name] = _unexplained(f"{_NOT_MADE_OF_IT}; /diagnose takes no such answer.")
            return
        self._asked += 1
        if not found.forms:
            self._others[name] = found.named
            self._is_consistent = False
            return
        self._found[name] = found
        forms = {each.forms for each in self._found.values()}
        self._is_consistent = len(forms) == 1 and bool([*self._rules()])

    def _rules(self) -> Iterator[bool]:
        """Yield the rules by which settings follow from the right ones: one value, or a ratio."""
        several = [each.settings for each in self._found.values()]
        if any(each.keys() != several[0].keys() for each in several):
            return
        for is_ratio in (False, True):
            if all(
                _are_near(*(have / want if is_ratio else have for have, want in (one, other)))
                for settings in several
                for one, other in zip(several[0].values(), settings.values(), strict=True)
            ):
                yield is_ratio

    def _wrong(self, question: Question) -> Iterator[Wrong]:
        """Yield the answers to a question with the settings of the cases before."""
        if not (self._found and self._is_consistent and self._settings):
            return
        for is_ratio in self._rules():
            with suppress(*NOT_MADE):
                moved = with_settings(question, self._settings, is_ratio=is_ratio)
                yield Wrong(expectation(moved), moved.request)

    @property
    def _settings(self) -> Settings:
        return next(iter(self._found.values())).settings

    def _as_before(self, judgement: Judgement) -> _Diagnosis | None:
        """Return the diagnosis of a case that has the same mistake as those before."""
        case = judgement.case
        for wrong in self._wrong(case.question):
            if wrong.is_seen(case.expected) and fits(wrong, judgement.answer):
                before = next(iter(self._found.values()))
                told = told_of(before.named.name, [wrong], case.question)
                named = replace(before.named, **told, findings=(), request=wrong.request)
                return replace(before, named=named)
        return None

    @property
    def _do_stand(self) -> bool:
        if not (self._found and self._is_consistent):
            return False
        return len(self._found) > 1 or next(iter(self._found.values())).is_one

    @property
    def _is_denied(self) -> bool:
        """True if cases that pass show that no setting is another."""
        settings, passing = self._settings, self._passing
        return bool(settings) and all(
            are_denied(settings, passing, is_ratio=each) for each in self._rules()
        )

    def names(self) -> dict[str, Named]:
        """Return the names of the cases."""
        asked = f"/diagnose was asked about {counted(self._asked, 'case')} of this file"
        rule = f"{_NOT_MADE_OF_IT}; {asked}, and not about this one."
        named = {**self._others, **{name: _unexplained(rule) for name in self._waiting}}
        if self._do_stand and not self._is_denied:
            return named | {name: each.named for name, each in self._found.items()}
        for name, each in self._found.items():
            why = "other cases of this file contradict it"
            if self._is_consistent and not self._do_stand:
                why = "one case is too few to tell"
            told = f"What would explain this case alone is not named: {why}."
            named[name] = _unexplained(told, each.named.findings)
        return named


def _are_near(one: float, other: float) -> bool:
    return abs(one - other) <= _MOST_APART * abs(other)


def _diagnosed(judgement: Judgement) -> _Diagnosis | None:
    """Return what ``/diagnose`` finds; None if it refuses."""
    asked = _asked_of(judgement)
    if asked is None:
        return None
    url, tables = asked
    try:
        for name, table in tables.items():
            check_shape(name, table.shape)
        parameters = read_parameters(DiagnoseParameters, {"to": url})
        report = diagnose_arrays(parameters, Input(tables), default_settings())
    except PosrefError:
        return None
    findings = tuple(each.sentence for each in report.findings or ())
    if report.verdict != "diagnosed":
        return _Diagnosis(_unexplained(findings=findings))
    names = [each.name for each in report.mistakes]
    values = [each.model_extra or {} for each in report.mistakes]
    about = suite.about(names[0])
    named = Named(
        names[0],
        report.sentence,
        about["effect"],
        tuple(about["threads"]),
        "diagnosis",
        tuple(names[1:]),
        values=values[0],
        findings=findings,
    )
    forms, settings = [], {}
    for name, given in zip(names, values, strict=True):
        forms.append((name, *sorted({*given} - _INTERVAL)))
        key = given.get("key", _KEYS.get(name))
        is_number = all(type(given.get(each)) in {int, float} for each in ("have", "want"))
        if key and is_number and given["want"]:
            settings[key] = given["have"], given["want"]
    is_one = len(names) == 1 and names[0] != "another-table" and not report.alternatives
    return _Diagnosis(named, tuple(sorted(forms)), dict(sorted(settings.items())), is_one)


def _asked_of(judgement: Judgement) -> tuple[str, dict[str, StoredTable]] | None:
    """Return the URL of what is expected, and the arrays of an answer; None if there is no URL."""
    question, answer = judgement.case.question, judgement.answer
    if not all(np.isfinite(each).all() for each in answer.arrays.values()):
        return None
    is_index = judgement.case.expected.angle is None
    tables = {
        name: _sent(each, answer.dtype, is_index=is_index) for name, each in answer.arrays.items()
    }
    if question.kind == "rotate":
        query = {**question.parameters, "positions": question.positions}
        given = {name: to_query(each) for name, each in query.items() if each is not None}
        x = stored(np.array(question.x), FLOAT64.name)
        url = f"{question.resource}?{urlencode(given, safe=',:')}"
        return url, {"x": x, "rotated": tables["rotated"]}
    if question.request.method != "GET":
        return None
    return question.request.url, tables if len(tables) > 1 else {"x": next(iter(tables.values()))}


def _sent(array: Elements, dtype: str, *, is_index: bool) -> StoredTable:
    """Return an array as a client sends it; indices are integers, however they are written."""
    if array.dtype.kind in "iub" or (is_index and (array == np.round(array)).all()):
        return StoredTable(array.astype(np.int64), INT64)
    return stored(array, dtype if dtype in REAL_DTYPES else FLOAT64.name)
