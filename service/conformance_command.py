"""``posref conformance``: write the suite, and run it against an implementation."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from service.conformance import suite
from service.conformance.files.all_files import FILES
from service.conformance.implementations import Implementation, ImplementationFailed
from service.conformance.judging import InvalidAnswer, Judgement, read_answer
from service.conformance.naming import names_of
from service.conformance.recorded_cases import RecordedCase, cases_in, texts_of
from service.conformance.release import INDEX, Release
from service.conformance.run_report import UNLISTED, Outcome, RunReport, plain
from service.errors import PosrefError

OK, REFUSED = 0, 2


def write(options: argparse.Namespace) -> int:
    """Write the files of the suite to a folder, each whole; return the exit code.

    Raises:
        OSError: the folder cannot be written, or has other files.
    """
    drawn = options.full
    texts = {f"{each.stem}.json": suite.text_of(each, drawn, options.seed) for each in FILES}
    release = Release.of(texts)
    index = orjson.dumps(release.index(), option=orjson.OPT_INDENT_2) + b"\n"
    bodies = {**release.files, INDEX: index}
    _replace_all(options.folder, bodies)
    cases = sum(1 for _ in cases_in(texts))
    several = f"{len(bodies)} files, {cases} cases, {sum(map(len, bodies.values()))} bytes"
    print(f"{options.folder}: suite {release.version}, {several}")
    return OK


def _replace_all(folder: Path, bodies: Mapping[str, bytes]) -> None:
    """Write files to a folder; each appears whole, once all of them are on the disk."""
    others = {each.name for each in folder.iterdir()} - bodies.keys() if folder.exists() else ()
    if others:
        raise FileExistsError(f"{folder} has other files: {', '.join(sorted(others)[:5])}")
    folder.mkdir(parents=True, exist_ok=True)
    # Within the folder, which may be a file system of its own.
    with TemporaryDirectory(prefix=".new-", dir=folder) as place:
        for name, body in bodies.items():
            (Path(place) / name).write_bytes(body)
        for name in bodies:
            os.replace(Path(place) / name, folder / name)  # noqa: PTH105 - as the others.


def run(options: argparse.Namespace) -> int:
    """Ask an implementation the cases of the suite, and print the report; return the exit code.

    0: all that it supports passes, and something does; 1: a case fails, or its answer cannot be
    judged; 2: it supports nothing, or the suite is refused; 3: the command does not start, ends
    early, or is silent.

    Raises:
        OSError: the suite cannot be read, or a report cannot be written.
    """
    try:
        texts = texts_of(options.suite)
        cases = [each for each in cases_in(texts) if not options.only or each.matches(options.only)]
    except PosrefError as error:
        print(error.detail, file=sys.stderr)
        return REFUSED
    if not cases:
        print(f"no case is named {options.only or 'in the suite'}", file=sys.stderr)
        return REFUSED
    report = _report(options, Release.of(texts).version, cases)
    sys.stdout.buffer.write(report.text().encode())
    sys.stdout.flush()
    for path, body in ((options.json, report.json_bytes), (options.junit, report.junit)):
        if path is not None:
            path.write_bytes(body())
    return report.exit_code


def _report(options: argparse.Namespace, version: str, cases: Sequence[RecordedCase]) -> RunReport:
    """Return the report about an implementation that is started, asked, and ended."""
    outcomes, failure, implementation = list[Outcome](), None, None
    try:
        with Implementation(options.program, version, options.timeout) as implementation:
            outcomes.extend(_outcome(implementation, case) for case in cases)
            implementation.leave()
    except ImplementationFailed as error:
        failure = plain(error)
        rest = cases[len(outcomes) :]
        if implementation is not None:
            outcomes.append(Outcome(rest[0], "errs", failure))
            rest = rest[1:]
        outcomes.extend(Outcome(case, "not_asked") for case in rest)
    judgements = [each.judgement for each in outcomes if each.judgement is not None]
    names = names_of(judgements, diagnoses=not options.no_diagnosis)
    if implementation is None:
        return RunReport(version, {}, outcomes, names, failure)
    return RunReport(
        version,
        implementation.hello,
        outcomes,
        names,
        failure,
        implementation.passed_over,
        implementation.first_passed_over,
        implementation.unasked,
        implementation.code,
    )


def _outcome(implementation: Implementation, case: RecordedCase) -> Outcome:
    """Ask a case; return what became of it, or raise ImplementationFailed."""
    question = case.question
    if not implementation.offers(question.kind, question.resource, question.parameters):
        return Outcome(case, "unsupported", UNLISTED)
    message = implementation.ask(case.message)
    match message["type"]:
        case "answer":
            try:
                judgement = Judgement(case, read_answer(message, case))
            except InvalidAnswer as error:
                return Outcome(case, "errs", plain(error))
            return Outcome(case, "passes" if judgement.has_passed else "fails", "", judgement)
        case "unsupported":
            return Outcome(case, "unsupported", plain(message.get("reason", "")))
        case "error":
            return Outcome(case, "errs", plain(message.get("message", "")))
        case other:
            return Outcome(case, "errs", f"its answer has the type {plain(other)}")
