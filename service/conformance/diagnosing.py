"""Names by ``/diagnose``, for the failing cases of a file whose numbers no maker has.

A small case may coincide with settings that nobody has set. So a name stands only if the other
cases of the file do not contradict it: those that fail have the same name, with compatible values,
and those that pass do not show it. Several mistakes at once are never taken from one case.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import numpy as np

from service.conformance import suite
from service.conformance.expected import expectation
from service.conformance.judging import Judgement, stored
from service.conformance.mistakes.wrong import Wrong
from service.conformance.named import (
    NOT_MADE,
    UNEXPLAINED,
    Named,
    Settings,
    are_denied,
    fits,
    is_seen,
    told_of,
    with_settings,
)
from service.conformance.questions import Question
from service.delivery.parameters import read_parameters
from service.errors import PosrefError
from service.formats.format import Input, check_shape
from service.grammar import to_query
from service.numerics.dtypes import FLOAT64, INT64, REAL_DTYPES, Elements
from service.numerics.tables import StoredTable
from service.routes.diagnose import DiagnoseParameters, diagnose_arrays
from service.settings import default_settings

# Each takes a good part of a second.
MOST_DIAGNOSED = 5
_NONE = "No mistake that is known explains these numbers."
_NOT_MADE_OF_IT = "No mistake that the suite makes has these numbers"
_KEYS = {"wrong-base": "rope_theta"}
# A diagnosis from few numbers may give a setting as the middle of an interval.
_INTERVAL = frozenset({"interval", "low", "high"})
_MOST_APART = 0.01


@dataclass(frozen=True, eq=False)
class _Diagnosis:
    """What explains a case.

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


def unexplained(rule: str = _NONE, findings: tuple[str, ...] = ()) -> Named:
    """Return that nothing explains a case, and why."""
    return Named(UNEXPLAINED, rule, findings=findings)


def not_diagnosed() -> Named:
    """Return that nothing explains a case, about which ``/diagnose`` is not asked."""
    return unexplained(f"{_NOT_MADE_OF_IT}; /diagnose was not asked.")


def names_by_diagnosis(
    failing: Sequence[Judgement], passing: Sequence[Judgement]
) -> dict[str, Named]:
    """Return the names of cases of a file that numbers do not name, by the id of the case.

    Args:
        failing: the cases.
        passing: those of the file that pass.
    """
    search = _OfFile(passing)
    for each in failing:
        search.add(each)
    return search.names()


class _OfFile:
    """The diagnoses of a file. It is asked until one contradicts another, or finds nothing."""

    def __init__(self, passing: Sequence[Judgement]) -> None:
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
        elif self._asked >= MOST_DIAGNOSED or not self._is_consistent:
            self._waiting.append(name)
        else:
            self._ask(judgement)

    def _ask(self, judgement: Judgement) -> None:
        name, found = judgement.case.id, None
        # No question of another suite, and no answer, may end a run that is judged.
        with suppress(*NOT_MADE):
            found = _diagnosed(judgement)
        if found is None:
            self._others[name] = unexplained(f"{_NOT_MADE_OF_IT}; /diagnose takes no such answer.")
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
            if is_seen(wrong, case.expected) and fits(wrong, judgement.answer):
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
        count = f"{self._asked} case{'' if self._asked == 1 else 's'} of this file"
        rule = f"{_NOT_MADE_OF_IT}; /diagnose was asked about {count}, and not about this one."
        named = {**self._others, **{name: unexplained(rule) for name in self._waiting}}
        if self._do_stand and not self._is_denied:
            return named | {name: each.named for name, each in self._found.items()}
        for name, each in self._found.items():
            why = "other cases of this file contradict it"
            if self._is_consistent and not self._do_stand:
                why = "one case is too few to tell"
            told = f"What would explain this case alone is not named: {why}."
            named[name] = unexplained(told, each.named.findings)
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
        return _Diagnosis(unexplained(findings=findings))
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
        if key and all(type(given[each]) in {int, float} for each in ("have", "want")):
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
