"""Names of mistakes: what is said of an answer, and which settings differ from the right ones."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import numpy as np

from service.conformance import suite
from service.conformance.expected import expectation
from service.conformance.judging import AnswerArrays, Judgement
from service.conformance.mistakes.wrong import Wrong
from service.conformance.questions import NOT_MADE, Question, Request
from service.conformance.tolerance import UNIT_ROUNDOFF
from service.grammar import to_query

Settings: TypeAlias = Mapping[str, tuple[Any, Any]]
"""The value of each setting that is in use, and the right one."""

ITERATED, UNEXPLAINED = "iterated-frequencies", "unexplained"
# A mistake of a formula is no setting: the request only has the same numbers.
_FORMULA = "formula"
_MOST_SETTINGS, _MOST_LISTED, _LONGEST, _SHORT = 6, 4, 40, 12


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
        values: what is known of the mistake, as the base that was used.
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


def fits(wrong: Wrong, answer: AnswerArrays) -> bool:
    """Return whether an answer has these wrong numbers."""
    expected = wrong.expectation
    is_one = expected.shape == answer.shape and expected.arrays.keys() == answer.copies.keys()
    if not is_one or (expected.distances(answer.copies, answer.dtype) > 1).any():
        return False
    return wrong.decimals is None or _are_rounded(wrong.decimals, answer)


def _are_rounded(decimals: int, answer: AnswerArrays) -> bool:
    """Return whether all numbers have so few decimals, before they were rounded to their type."""
    unit = UNIT_ROUNDOFF.get(answer.dtype, 0.0)
    numbers = np.stack([*answer.copies.values()])
    apart = np.abs(numbers - np.round(numbers, decimals))
    return bool((apart <= unit * np.abs(numbers)).all())


def with_settings(question: Question, settings: Settings, *, is_ratio: bool) -> Question:
    """Return a question with other settings: the values of another case, or the same quotients."""
    asked = question.as_table
    changed = {}
    for key, (have, want) in settings.items():
        own = asked.parameters.get(key, want)
        changed[key] = own * have / want if is_ratio else have
    return asked.changed(**changed)


def is_denied(values: Mapping[str, Any], passing: Sequence[Judgement]) -> bool:
    """Return whether cases that pass show that a setting has no other value.

    Args:
        values: the ``key``, what it is (``have``), and what it should be (``want``).
        passing: the cases.
    """
    try:
        settings = {values["key"]: (float(values["have"]), float(values["want"]))}
    except (LookupError, TypeError, ValueError):
        return False
    return all(are_denied(settings, passing, is_ratio=each) for each in (False, True))


def are_denied(settings: Settings, passing: Sequence[Judgement], *, is_ratio: bool) -> bool:
    """Return whether cases that pass show that settings have no other values."""
    for each in passing:
        with suppress(*NOT_MADE):
            moved = with_settings(each.case.question, settings, is_ratio=is_ratio)
            wrong = Wrong(expectation(moved))
            if wrong.is_seen(each.case.expected) and not fits(wrong, each.answer):
                return True
    return False


def _settings_apart(have: Request, want: Request) -> dict[str, tuple[str | None, str | None]]:
    """Return the parameters in which two requests differ, with both values; None of one without.

    It is empty where the difference is no setting: frequencies that are given, or long lists.
    """
    one, other = _given(have), _given(want)
    names = [name for name in {**other, **one} if one.get(name) != other.get(name)]
    if "positions" in names and "start" in names:
        # Rows are then listed that began somewhere.
        names.remove("start")
    apart = {name: _elements_apart(one.get(name), other.get(name)) for name in names}
    texts = [text for pair in apart.values() for text in pair if text is not None]
    is_long = len(apart) > _MOST_SETTINGS or any(len(each) > _LONGEST for each in texts)
    return {} if is_long or "inv_freq" in apart else apart


def _elements_apart(have: str | None, want: str | None) -> tuple[str | None, str | None]:
    """Return two values, of long lists of one length their first elements that differ."""
    one, other = (each.split(",") if each else [] for each in (have, want))
    if len(one) != len(other) or max(len(have or ""), len(want or "")) < _SHORT:
        return have, want
    apart = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    rest = ["…"] if len(apart) > _MOST_LISTED else []
    some = [*zip(*apart[:_MOST_LISTED], strict=True)]
    return ",".join([*some[0], *rest]), ",".join([*some[1], *rest])


def _given(request: Request) -> dict[str, str]:
    if request.body is None:
        return dict(parse_qsl(request.url.partition("?")[2]))
    return {name: to_query(each) for name, each in request.body.items() if name != "x"}


def _in_words(settings: Mapping[str, tuple[str | None, str | None]]) -> str:
    """Return which settings are others, as ``rope_theta=10000 for 500000``."""
    missing = {name: want for name, (have, want) in settings.items() if have is None}
    texts = [
        f"{name}={have}" + ("" if want is None else f" for {want}")
        for name, (have, want) in settings.items()
        if name not in missing
    ]
    # The other keys are those of the rule.
    named = ["rope_type"] if "rope_type" in missing else [*missing]
    if without := ", ".join(f"{name}={missing[name]}" for name in named):
        texts.append(f"without {without}")
    return ", ".join(texts)


def told_of(
    name: str, wrongs: Sequence[Wrong], question: Question, *, detail: str = ""
) -> dict[str, Any]:
    """Return the sentence of a mistake, and the settings and values that its numbers have.

    Args:
        name: the mistake.
        wrongs: the wrong answers that fit. If several settings do, none is told.
        question: the question.
        detail: what else is known of the mistake.
    """
    about = suite.about(name)
    sentence, is_setting = about["mistake"], about["type"] != _FORMULA
    apart = [
        _settings_apart(each.request, question.request) if each.request and is_setting else {}
        for each in wrongs
    ]
    settings = apart[0] if apart and all(each == apart[0] for each in apart) else {}
    values: dict[str, Any] = {}
    if len(settings) == 1:
        ((key, (have, want)),) = settings.items()
        values = {"key": key, "have": have, "want": want}
    told = "; ".join(filter(None, [detail, _in_words(settings)]))
    return {
        "sentence": f"{sentence.removesuffix('.')}: {told}." if told else sentence,
        "values": values,
    }
