"""``posref conformance``: write the suite, and run it against an implementation."""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import orjson

from service.conformance import suite
from service.conformance.files.all_files import FILES
from service.conformance.implementations import Conduct, Implementation, ImplementationFailed
from service.conformance.judging import InvalidAnswer, Judgement, read_answer, stored
from service.conformance.named import UNEXPLAINED, Named
from service.conformance.naming import names_of
from service.conformance.recorded_cases import RecordedCase, cases_in, texts_of, version_of
from service.conformance.release import INDEX, Release
from service.conformance.run_report import (
    PASSED,
    REFUSED,
    UNLISTED,
    Outcome,
    RunReport,
    plain,
)
from service.conformance.tolerance import UNIT_ROUNDOFF
from service.errors import PosrefError, counted
from service.numerics.dtypes import Elements, to_float64

# What the digits that a type needs cost, in its roundings.
_DIGITS = 1 / 8
# Of the folder in which files are written before they appear.
_NEW = ".new-"


def write(options: argparse.Namespace) -> int:
    """Write the files of the suite to a folder, each whole; return the exit code.

    Raises:
        OSError: the folder cannot be written, or has other files.
    """
    drawn = options.full
    texts = {f"{each.stem}.json": suite.text_of(each, drawn, options.seed) for each in FILES}
    release = Release.of(texts)
    index = orjson.dumps(release.index(is_served=not drawn), option=orjson.OPT_INDENT_2) + b"\n"
    bodies = {**release.files, INDEX: index}
    _replace_all(options.folder, bodies)
    sizes = {
        "file": len(bodies),
        "case": len([*cases_in(texts)]),
        "byte": sum(map(len, bodies.values())),
    }
    several = ", ".join(counted(count, noun) for noun, count in sizes.items())
    print(f"{options.folder}: suite {release.version}, {several}")
    return PASSED


def _replace_all(folder: Path, bodies: Mapping[str, bytes]) -> None:
    """Write files to a folder; each appears whole, once all of them are on the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    # A folder cannot be replaced by a file; that of a write that was killed is in nobody's way.
    others = [
        f"{each.name}/" if each.is_dir() else each.name
        for each in sorted(folder.iterdir())
        if (each.is_dir() or each.name not in bodies) and not each.name.startswith(_NEW)
    ]
    if others:
        raise FileExistsError(f"{folder} has other files: {', '.join(others[:5])}")
    # Within the folder, which may be a file system of its own.
    with TemporaryDirectory(prefix=_NEW, dir=folder) as place:
        for name, body in bodies.items():
            (Path(place) / name).write_bytes(body)
        for name in bodies:
            os.replace(Path(place) / name, folder / name)  # noqa: PTH105 - as the others.


def run(options: argparse.Namespace) -> int:
    """Ask an implementation the cases of the suite, and print the report; return the exit code.

    It is that of the report, or REFUSED.

    Raises:
        OSError: the suite cannot be read, or a report cannot be written.
    """
    try:
        texts = texts_of(options.suite)
        every = [*cases_in(texts)]
    except PosrefError as error:
        print(error.detail, file=sys.stderr)
        return REFUSED
    patterns = options.only or ["*"]
    for pattern in patterns:
        if not any(each.matches(pattern) for each in every):
            rule = f"no case is named {pattern}" if options.only else "the suite has no cases"
            print(rule, file=sys.stderr)
            return REFUSED
    cases = [each for each in every if any(map(each.matches, patterns))]
    # Before the run, which may take minutes.
    for path in filter(None, (options.json, options.junit)):
        is_writable = os.access(path if path.exists() else path.parent, os.W_OK)
        if path.is_dir() or not (path.parent.is_dir() and is_writable):
            print(f"{path}: no report can be written to this file", file=sys.stderr)
            return REFUSED
    version, part = version_of(options.suite, texts)
    if len(cases) < len(every):
        part = ", ".join(filter(None, [part, f"{len(cases)} of {len(every)} cases"]))
    report = _report(options, version, part, cases)
    try:
        # First: nobody may read the text.
        for path, body in ((options.json, report.json_bytes), (options.junit, report.junit)):
            if path is not None:
                path.write_bytes(body())
    finally:
        # Python has none where the shell closed it.
        if sys.stdout is not None:
            sys.stdout.buffer.write(report.text().encode())
            sys.stdout.flush()
    return report.exit_code


def _report(
    options: argparse.Namespace, version: str, part: str, cases: Sequence[RecordedCase]
) -> RunReport:
    """Return the report about an implementation that is started, asked, and ended."""
    outcomes, failure, conduct = list[Outcome](), None, Conduct()
    start = time.monotonic()
    try:
        with Implementation(options.program, options.timeout) as implementation:
            conduct = implementation.conduct
            implementation.greet(version)
            for case in cases:
                start = time.monotonic()
                outcomes.append(_outcome(implementation, case))
            implementation.leave()
    except ImplementationFailed as error:
        failure = plain(str(error))
        rest = cases[len(outcomes) :]
        if conduct.hello:
            seconds = time.monotonic() - start
            outcomes.append(Outcome(rest[0], "errs", failure, seconds=seconds))
            rest = rest[1:]
        outcomes.extend(Outcome(case, "not_asked") for case in rest)
    return RunReport(version, part, outcomes, _names(options, outcomes), conduct, failure)


def _names(options: argparse.Namespace, outcomes: Sequence[Outcome]) -> Mapping[str, Named]:
    """Return the name of each failing case by its id."""
    judgements = [each.judgement for each in outcomes if each.judgement is not None]
    # Of numbers that pass in another type, a diagnosis would look for a mistake in vain.
    mislabelled = {each.case.id for each in outcomes if each.passes_as is not None}
    try:
        return names_of(judgements, diagnoses=not options.no_diagnosis, undiagnosed=mislabelled)
    except Exception as error:  # noqa: BLE001 - no case of somebody else may lose a run.
        rule = f"The search for a name failed: {plain(repr(error))}."
        failing = [each.case.id for each in judgements if not each.has_passed]
        return dict.fromkeys(failing, Named(UNEXPLAINED, rule))


def _outcome(implementation: Implementation, case: RecordedCase) -> Outcome:
    """Ask a case; return what became of it, or raise ImplementationFailed."""
    question = case.question
    if not implementation.offers(question.kind, question.resource, question.parameters):
        return Outcome(case, "unsupported", UNLISTED)
    start = time.monotonic()
    message = implementation.ask(case.message)
    outcome = partial(Outcome, case, seconds=time.monotonic() - start)
    match message["type"]:
        case "answer":
            try:
                judgement = Judgement(case, read_answer(message, case))
            except InvalidAnswer as error:
                return outcome("errs", plain(str(error)))
            if judgement.has_passed:
                return outcome("passes", judgement=judgement)
            return outcome("fails", judgement=judgement, passes_as=_narrower_type(judgement))
        case "unsupported":
            return outcome("unsupported", plain(message.get("reason")))
        case other:
            return outcome(
                "errs", plain(message.get("message") or f"its answer has the type {other}")
            )


def _narrower_type(judgement: Judgement) -> str | None:
    """Return the type in which an answer passes that fails in its own; None if there is none.

    Types narrower than float32 hide mistakes: numbers must look like theirs, with some digits.
    """
    answer = judgement.answer
    if answer.dtype not in UNIT_ROUNDOFF or not judgement.has_shape:
        return None
    for dtype in [*UNIT_ROUNDOFF][[*UNIT_ROUNDOFF].index(answer.dtype) + 1 :]:
        if Judgement(judgement.case, replace(answer, dtype=dtype)).has_passed and (
            dtype == "float32" or all(_are_of(dtype, each) for each in answer.sent.values())
        ):
            return dtype
    return None


def _are_of(dtype: str, array: Elements) -> bool:
    """Return whether numbers are of a type, but for what few digits in a text may cost."""
    held = stored(array, dtype)
    apart = np.abs(to_float64(held.elements, held.dtype) - array)
    return bool((apart <= _DIGITS * UNIT_ROUNDOFF[dtype] * np.abs(array)).all())
