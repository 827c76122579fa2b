"""Cases as vector files have them: what is asked, and the numbers and tolerances that judge."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from service.conformance.questions import Question
from service.conformance.release import FORMAT, INDEX, SCHEMA, SUITE, SUMS, Release
from service.conformance.tolerance import Expectation
from service.errors import InvalidBody, counted

# What a table says beside its cosines and sines.
_DETAILS = ("inv_freq", "attention_factor")


@dataclass(frozen=True, eq=False)
class RecordedCase:
    """A case of a vector file.

    Attributes:
        id: as in ``rope/llama3/4``.
        file: the name of its file, as in ``rope/llama3``.
        comment: what it is about.
        question: what is asked.
        expected: the numbers and the tolerances of the file.
    """

    id: str
    file: str
    comment: str
    question: Question
    expected: Expectation

    @classmethod
    def of(cls, file: str, content: Mapping[str, Any]) -> "RecordedCase":
        """Return a case from its JSON object; raises LookupError, TypeError or ValueError."""
        positions = content.get("positions")
        question = Question(
            content["kind"],
            content["resource"],
            content["parameters"],
            None if positions is None else tuple(positions),
            content.get("x"),
        )
        expected = _expectation(content, question)
        case = cls(content["id"], file, content["comment"], question, expected)
        case._check()
        return case

    def _check(self) -> None:
        """Raise ValueError or TypeError if the numbers cannot judge an answer."""
        question, expected = self.question, self.expected
        for text in (self.file, self.id, question.kind, question.resource, *expected.arrays):
            if not (isinstance(text, str) and text.isprintable()):
                raise ValueError(f"{text!r} is no text that can be printed")
        if not isinstance(question.parameters, dict):
            raise TypeError(f"{self.id}: parameters is no object")
        if len(expected.arrays) != (2 if question.is_table else 1):
            raise ValueError(f"{self.id}: expected has {len(expected.arrays)} arrays")
        self._check_numbers()
        positions, shape = question.positions, expected.shape
        if positions is None:
            return
        if not all(type(each) is int for each in positions):
            raise TypeError(f"{self.id}: positions are no integers")
        if len(shape) < 2 or (question.is_table and len(positions) != shape[0]):
            raise ValueError(f"{self.id}: {len(positions)} positions for the shape {shape}")

    def _check_numbers(self) -> None:
        """Raise ValueError if expected numbers, or tolerances, are none or have other shapes."""
        expected = self.expected
        numbers = {**expected.arrays}
        if expected.angle is not None:
            numbers |= {"angle": expected.angle, "scale": np.asarray(expected.scale)}
        for name, each in numbers.items():
            if each.dtype.kind not in "if" or not np.isfinite(each).all():
                raise ValueError(f"{self.id}: {name} has something else than numbers")
            if each.shape != expected.shape and not (name == "scale" and not each.shape):
                raise ValueError(f"{self.id}: {name} has the shape {each.shape}")
            if name in {"angle", "scale"} and (each < 0).any():
                raise ValueError(f"{self.id}: {name} is negative")

    @property
    def message(self) -> dict[str, Any]:
        """The message that asks an implementation."""
        question = self.question
        message = {
            "type": "case",
            "id": self.id,
            "kind": question.kind,
            "resource": question.resource,
            "parameters": question.parameters,
            "positions": question.positions,
            "x": question.x,
            "shape": None if question.is_table else self.expected.shape,
        }
        return {name: each for name, each in message.items() if each is not None}

    def matches(self, pattern: str) -> bool:
        """Return whether a pattern of the shell matches the id, or the name of the file."""
        return any(fnmatchcase(name, pattern) for name in (self.id, self.file))


def _expectation(content: Mapping[str, Any], question: Question) -> Expectation:
    found = {name: np.array(each) for name, each in content["expected"].items()}
    names = [*found]
    if question.is_table:
        names = ["cos", "sin"]
    elif len(found) > 1:
        shape = tuple(content["shape"])
        names = [each for each in found if each not in _DETAILS and found[each].shape == shape]
    arrays = {name: found.pop(name) for name in names}
    tolerance = content["tolerance"]
    if "exact" in tolerance:
        return Expectation(arrays, details=found)
    listed = tolerance["scale"]
    is_listed = isinstance(listed, list)
    return Expectation(
        arrays,
        np.array(tolerance["angle"], dtype=np.float64),
        np.array(listed, dtype=np.float64) if is_listed else float(listed),
        float(found.get("attention_factor", 1.0)),
        found,
        # What consists of products and sums has a scale for each number.
        is_rotation=is_listed and not question.is_table,
    )


def texts_of(place: Path | None) -> dict[str, str]:
    """Return the text of each vector file by its name: of a file, of a folder, or of the package.

    Raises:
        OSError: the file or the folder cannot be read.
        InvalidBody: a file is no text.
    """
    if place is None:
        listed = Release.packaged().listed
        return {name: body.decode() for name, body in listed.items() if name != SCHEMA}
    names = sorted(place.glob("*.json")) if place.is_dir() else [place]
    for each in names:
        # A pipe would be waited for.
        if each.exists() and not each.is_file():
            raise InvalidBody(f"{each}: is no file")
    try:
        texts = {each.name: each.read_text("utf-8") for each in names}
    except UnicodeDecodeError as error:
        raise InvalidBody(f"{place}: a file is no text: {error}") from error
    return {name: text for name, text in texts.items() if name not in {INDEX, SCHEMA}}


def version_of(place: Path | None, texts: Mapping[str, str]) -> tuple[str, str]:
    """Return the version of vector files, and what they are of it: "" if they are all of it.

    The version is that of the checksums in their folder, else that of the package; raises OSError.
    """
    beside = place and (place if place.is_dir() else place.parent) / SUMS
    sums = beside.read_bytes() if beside and beside.is_file() else Release.packaged().sums
    own = Release.of({name: text for name, text in texts.items() if SUITE in text}).sums
    # The schema is that of the package, whatever the version is.
    known, found = (
        {each for each in lines.splitlines() if not each.endswith(SCHEMA.encode())}
        for lines in (sums, own)
    )
    part = f"{len(found)} of {len(known)} files" if len(found) < len(known) else ""
    if others := len(found - known):
        part = f"changed: {others} of {len(found)} files are not of this version"
    if others == len(found):
        part = f"{counted(others, 'file')} of your own"
    return sha256(sums).hexdigest()[:12], part


def cases_in(texts: Mapping[str, str]) -> Iterator[RecordedCase]:
    """Yield the cases of vector files; raises InvalidBody, with the name of the file."""
    files = dict[str, str]()
    for name, text in texts.items():
        try:
            content = orjson.loads(text)
            if content.get("suite") != SUITE:
                continue
            if content["format"] != FORMAT:
                raise InvalidBody(f"{name}: has the format {content['format']}, not {FORMAT}")
            for each in content["cases"]:
                case = RecordedCase.of(content["name"], each)
                if other := files.get(case.id):
                    raise InvalidBody(f"{name}: the id {case.id} is that of a case of {other}")
                files[case.id] = name
                yield case
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise InvalidBody(f"{name}: is no vector file: {error!r}") from error
