"""The suite: its cases with their flags, and the text of each vector file.

Files are text of JSON with one row of numbers a line, in a fixed order, without time or host:
two writes are equal to the last byte.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

import numpy as np
import orjson

from service.analysis.explanation.catalogue import CATALOGUE
from service.conformance.expected import expectation
from service.conformance.files.all_files import FILES
from service.conformance.files.vector_file import VectorFile
from service.conformance.mistakes.makers import MAKERS
from service.conformance.mistakes.wrong import Wrong
from service.conformance.questions import Question, Request
from service.conformance.release import FORMAT, SUITE
from service.conformance.tolerance import UNIT_ROUNDOFF, Expectation

# Where the tolerance is next to nothing, the number of times says no more.
MOST_TIMES = 1e9
# Lists of numbers are written on one line, as objects are if they are short.
_WIDTH = 100


@dataclass(frozen=True, eq=False)
class Flag:
    """A mistake that a case catches.

    Attributes:
        name: in the catalogue.
        times: how far the wrong numbers are at most, in tolerances; None if their shape is wrong.
        first: the first listed position where they are out of tolerance, where rows are positions.
        request: the request that a posref server answers with the wrong numbers, if there is one.
    """

    name: str
    times: float | None
    first: int | None = None
    request: Request | None = None

    def content(self, x: Any = None) -> dict[str, Any]:
        """Return the flag as a JSON object, without the array x of its case in a body."""
        content: dict[str, Any] = {"name": self.name}
        if self.first is not None:
            content["from"] = self.first
        content |= {"shape": True} if self.times is None else {"times": self.times}
        if self.request is not None:
            body = self.request.body or {}
            # Written again, it would be half of a file.
            is_of_case = x is not None and body.get("x") == x
            content["request"] = self.request.content(*(["x"] if is_of_case else []))
        return content


@dataclass(frozen=True, eq=False)
class Case:
    """A case of the suite."""

    id: str
    comment: str
    question: Question
    expected: Expectation
    flags: tuple[Flag, ...]

    def content(self) -> dict[str, Any]:
        """Return the case as a JSON object."""
        question, expected = self.question, self.expected
        content: dict[str, Any] = {
            "id": self.id,
            "kind": question.kind,
            "comment": self.comment,
            "flags": [flag.content(question.x) for flag in self.flags],
            "resource": question.resource,
            "parameters": dict(question.parameters),
        }
        if question.positions is not None:
            content["positions"] = list(question.positions)
        if question.x is not None:
            content["x"] = question.x
        if not question.is_table:
            content["shape"] = list(expected.shape)
        arrays = {name: each.tolist() for name, each in expected.arrays.items()}
        details = {
            name: np.asarray(each).tolist() for name, each in (expected.details or {}).items()
        }
        if expected.factor != 1:
            # The tolerance depends on it.
            details.setdefault("attention_factor", expected.factor)
        content["expected"] = {**details, **arrays}
        content["tolerance"] = (
            {"exact": True}
            if expected.angle is None
            else {"angle": expected.angle.tolist(), "scale": np.asarray(expected.scale).tolist()}
        )
        content["request"] = question.request.content()
        return content


def flags_of(question: Question, right: Expectation) -> Iterator[Flag]:
    """Yield the mistakes that a case catches: each is made, and seen by far."""
    for name in dict.fromkeys(each.partition("/")[0] for each in CATALOGUE):
        for maker in MAKERS.get(name, ()):
            wrongs = (_flag(name, question, right, each) for each in maker(question, right))
            flag = next((each for each in wrongs if each is not None), None)
            if flag is not None:
                yield flag
                break


def _flag(name: str, question: Question, right: Expectation, wrong: Wrong) -> Flag | None:
    """Return the flag of wrong numbers; None if they are not seen by far."""
    if not wrong.is_seen(right):
        return None
    if wrong.expectation.shape != right.shape:
        return Flag(name, None, None, wrong.request)
    first, positions = None, question.positions
    if positions is not None:
        apart = right.distances(wrong.expectation.arrays)
        rows = (apart > 1).any(axis=(0, -1)).reshape(-1, len(positions)).any(axis=0)
        first = positions[int(rows.argmax())]
    times = float(f"{min(wrong.times(right), MOST_TIMES):.1e}")
    return Flag(name, times, first, wrong.request)


def cases_of(file: VectorFile, drawn: int = 0, seed: int = 0) -> Iterator[Case]:
    """Yield the cases of a file: its core, and as many more as are drawn from a seed."""
    random = Random(f"{seed}:{file.name}")  # noqa: S311 - cases, not secrets.
    asked = [*file.core(), *(file.drawn(random) for _ in range(drawn) if file.drawn)]
    for number, (comment, question) in enumerate(asked, 1):
        right = expectation(question)
        flags = tuple(flags_of(question, right))
        yield Case(f"{file.name}/{number}", comment, question, right, flags)


def text_of(file: VectorFile, drawn: int = 0, seed: int = 0) -> str:
    """Return the text of a vector file."""
    return text_of_cases(file.name, [*cases_of(file, drawn, seed)])


def text_of_cases(name: str, cases: Sequence[Case]) -> str:
    """Return the text of a vector file that has these cases."""
    document = cases[0].question.request.document()
    names = dict.fromkeys(flag.name for case in cases for flag in case.flags)
    content = {
        "$schema": "schema.json",
        "suite": SUITE,
        "format": FORMAT,
        "name": name,
        "revision": {"kind": document.kind, "table": document.revision},
        "unit_roundoff": dict(UNIT_ROUNDOFF),
        "flags": {name: about(name) for name in names},
        "cases": [*_contents(cases)],
    }
    return "".join(_lines(content, "")) + "\n"


def _contents(cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Yield the cases of a file; the request of a flag is in the first case that has the flag."""
    seen: set[str] = set()
    for case in cases:
        content = case.content()
        for flag in content["flags"]:
            if flag["name"] in seen:
                flag.pop("request", None)
        seen |= {flag["name"] for flag in content["flags"] if "request" in flag}
        yield content


@cache
def _known() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads((files("service.conformance") / "flags.toml").read_text("utf-8"))


def about(name: str) -> Mapping[str, Any]:
    """Return what a file says of a flag: its type, the mistake, its effect, and threads."""
    return _known()[name]


def _lines(value: Any, indent: str) -> Iterator[str]:
    """Yield the text of a JSON value: one key a line, one row of numbers a line."""
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    is_list, is_object = isinstance(value, list), isinstance(value, dict)
    is_row = is_list and not any(isinstance(each, list | dict) for each in value)
    # A flag is one line, whatever its request.
    is_flag = is_object and ("times" in value or value.get("shape") is True)
    is_short = is_flag or (is_object and len(text) < _WIDTH)
    if is_row or is_short or not (is_list or is_object):
        yield text
        return
    start, end = "{}" if is_object else "[]"
    yield start
    for number, each in enumerate(value):
        name = f"{orjson.dumps(each).decode()}: " if is_object else ""
        yield f"{',' if number else ''}\n{indent} {name}"
        yield from _lines(value[each] if is_object else each, f"{indent} ")
    yield f"\n{indent}{end}"


def core() -> dict[str, str]:
    """Return the text of each file of the core, by the name of the file."""
    return {f"{file.stem}.json": text_of(file) for file in FILES}
