"""Names of mistakes: what is said of an answer, and which settings differ from the right ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from service.conformance import suite
from service.conformance.judging import AnswerArrays, distances
from service.conformance.mistakes.wrong import Wrong
from service.conformance.questions import Request
from service.conformance.tolerance import UNIT_ROUNDOFF, Expectation
from service.errors import PosrefError
from service.grammar import to_query

ITERATED, UNEXPLAINED = "iterated-frequencies", "unexplained"
# Makers know the questions of the suite: a case of another one may lack what a mistake needs.
NOT_MADE = (PosrefError, ArithmeticError, AssertionError, LookupError, ValueError)
# Longer values, such as lists of rows, are no settings that a sentence could have.
_MOST_SETTINGS, _LONGEST = 6, 40


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


def is_seen(wrong: Wrong, right: Expectation) -> bool:
    """Return whether a case shows wrong numbers by far, so that they are no rounding."""
    is_other = wrong.expectation.shape != right.shape
    return is_other or bool(right.distances(wrong.expectation.arrays).max() >= suite.LEAST_TIMES)


def fits(wrong: Wrong, answer: AnswerArrays) -> bool:
    """Return whether an answer has these wrong numbers."""
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


def settings_apart(have: Request, want: Request) -> dict[str, tuple[str | None, str | None]]:
    """Return the parameters in which two requests differ, with both values; None of one without.

    It is empty where the difference is no setting: frequencies that are given, or long lists.
    """
    one, other = _given(have), _given(want)
    names = [name for name in {**other, **one} if one.get(name) != other.get(name)]
    apart = {name: (one.get(name), other.get(name)) for name in names}
    texts = [text for pair in apart.values() for text in pair if text is not None]
    is_long = len(apart) > _MOST_SETTINGS or any(len(each) > _LONGEST for each in texts)
    return {} if is_long or "inv_freq" in apart else apart


def _given(request: Request) -> dict[str, str]:
    if request.body is None:
        return dict(parse_qsl(request.url.partition("?")[2]))
    return {name: to_query(each) for name, each in request.body.items() if name != "x"}


def _in_words(apart: Mapping[str, tuple[str | None, str | None]]) -> str:
    """Return which parameters are others, as ``rope_theta=10000 for 500000``."""
    texts = []
    for name, (have, want) in apart.items():
        if have is None:
            texts.append(f"{name}={want} is missing")
        else:
            texts.append(f"{name}={have}" + ("" if want is None else f" for {want}"))
    return ", ".join(texts)


def about_settings(name: str, apart: Mapping[str, tuple[str | None, str | None]]) -> dict[str, Any]:
    """Return the sentence of a mistake with the settings that are others, and their values."""
    sentence = suite.about(name)["mistake"]
    if not apart:
        return {"sentence": sentence, "values": {}}
    values: dict[str, Any] = {}
    if len(apart) == 1:
        ((key, (have, want)),) = apart.items()
        values = {"key": key, "have": have, "want": want}
    return {"sentence": f"{sentence.removesuffix('.')}: {_in_words(apart)}.", "values": values}
