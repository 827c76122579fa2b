"""The report of a run: as text, as JSON, and as JUnit XML.

``docs/conformance.md`` has the members of the JSON.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, get_args
from xml.etree import ElementTree as ET

import orjson

from service.conformance import implementations
from service.conformance.implementations import PROTOCOL, Conduct, ending_of
from service.conformance.judging import Judgement
from service.conformance.named import UNEXPLAINED, Named
from service.conformance.recorded_cases import RecordedCase
from service.errors import counted, shortened

Status: TypeAlias = Literal["passes", "fails", "errs", "unsupported", "not_asked"]

PASSED, FAILED, REFUSED, BROKEN = range(4)
UNLISTED = "not listed in hello"
# Of one case, and of several.
_TEXTS: Mapping[Status, tuple[str, str]] = {
    "passes": ("passes", "pass"),
    "fails": ("fails", "fail"),
    "errs": ("error", "errors"),
    "unsupported": ("is not supported", "are not supported"),
    "not_asked": ("was not asked", "were not asked"),
}
_MOST_REASONS = 5
# Characters of what an implementation says.
_MOST_SAID = 300
# A terminal would obey most of these, and XML cannot have them.
_UNPRINTABLE = re.compile("[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INDENT = " " * 6


def plain(said: object) -> str:
    """Return what an implementation says in one short line that can be printed; "" of None."""
    text = "" if said is None else shortened(said, _MOST_SAID)
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", " ".join(text.split()))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a case.

    Attributes:
        case: the case.
        status: what became of it.
        reason: why it errs, or is not supported or not asked.
        judgement: of its answer.
        passes_as: the narrower type in which an answer passes that fails in its own.
        seconds: how long the answer took.
    """

    case: RecordedCase
    status: Status
    reason: str = ""
    judgement: Judgement | None = None
    passes_as: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class RunReport:
    """The outcomes of a run.

    Attributes:
        version: of the suite.
        part: what the cases are of that version; "" if they are all of it.
        outcomes: one for each case.
        names: those of the mistakes of failing cases, by the id of the case.
        conduct: that of the command.
        failure: how the command failed; None if it did not.
    """

    version: str
    part: str
    outcomes: Sequence[Outcome]
    names: Mapping[str, Named] = field(default_factory=dict)
    conduct: Conduct = field(default_factory=Conduct)
    failure: str | None = None

    @property
    def counts(self) -> dict[Status, int]:
        """The number of cases by status."""
        found = Counter(each.status for each in self.outcomes)
        return {status: found[status] for status in get_args(Status)}

    @property
    def exit_code(self) -> int:
        """0: all that is supported passes; 1: a case fails or errs; 2: none; 3: it failed."""
        counts = self.counts
        if self.failure is not None:
            return BROKEN
        if counts["fails"] or counts["errs"] or self.conduct.unasked:
            return FAILED
        return PASSED if counts["passes"] else REFUSED

    @property
    def _suite(self) -> str:
        return f"{self.version}, {self.part}" if self.part else self.version

    @property
    def _unasked(self) -> str:
        rule = "came that nothing had asked for: answers may be those to other questions"
        return f"{counted(count, 'message')} {rule}" if (count := self.conduct.unasked) else ""

    def text(self) -> str:
        """Return the report as text: a line for each file, and some for each case that fails."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        hello = self.conduct.hello
        named = " ".join(plain(hello.get(name)) for name in ("name", "version")).strip()
        yield f"{named or 'unnamed implementation'}, suite {self._suite}"
        files: dict[str, list[Outcome]] = {}
        for each in self.outcomes:
            files.setdefault(each.case.file, []).append(each)
        told = set[str]()
        unlisted = [
            name
            for name, outcomes in files.items()
            if all(each.reason == UNLISTED for each in outcomes)
        ]
        for name, outcomes in files.items():
            if name not in unlisted:
                yield from self._lines_of(name, outcomes, told)
        if unlisted:
            yield f"{'-':<6}{UNLISTED}: {', '.join(unlisted)}"
        counts = [
            f"{count} {_TEXTS[name][count != 1]}" for name, count in self.counts.items() if count
        ]
        yield ", ".join(counts) or "no case was asked"
        if count := self.conduct.passed_over:
            lines = f"{counted(count, 'line')} of its standard output"
            first = plain(self.conduct.first_passed_over)
            yield f"not a message, and passed over: {lines}, the first: {first}"
        if self._unasked:
            yield self._unasked
        if self.conduct.was_ended:
            seconds = f"{implementations.LEAVE_SECONDS:g} seconds"
            yield f"it did not leave within {seconds} of bye, and was ended"
        if self.conduct.code:
            yield f"after bye, {ending_of(self.conduct.code)}"
        if self.failure is not None:
            yield f"FAILED: {self.failure}"

    def _lines_of(self, file: str, outcomes: Sequence[Outcome], told: set[str]) -> Iterator[str]:
        """Yield the lines of a file; a mistake that was told of before is only named."""
        by_status: dict[Status, list[Outcome]] = {status: [] for status in get_args(Status)}
        for each in outcomes:
            by_status[each.status].append(each)
        passing = [each.judgement for each in by_status["passes"] if each.judgement]
        bad = [*by_status["fails"], *by_status["errs"]]
        asked = len(passing) + len(bad)
        parts = [f"{len(passing)} of {asked}"] if asked else []
        if passing:
            worst = max(each.worst_share for each in passing)
            grades = Counter(each.grade for each in passing)
            parts.append(f"at most {worst:.2g} of what is allowed")
            parts.append(", ".join(f"{count} {grade}" for grade, count in grades.items()))
        if untold := sum(each.untold for each in passing):
            parts.append(f"{counted(untold, 'number')} may have any phase, which is not judged")
        parts += [
            f"{len(rest)} {_TEXTS[status][len(rest) != 1]}{_reasons(rest)}"
            for status, rest in by_status.items()
            if rest and status in {"unsupported", "not_asked"}
        ]
        mark = "FAIL" if bad else "pass" if passing else "-"
        yield f"{mark:<6}{file:<24}{'; '.join(parts)}"
        for each in bad:
            first, *others = self._about(each)
            yield f"{'FAIL' if each.status == 'fails' else 'ERROR':<6}{each.case.id:<24}{first}"
            for line in others:
                label = line.partition(":")[0]
                if line not in told or label != "effect":
                    yield f"{_INDENT}{label if line in told else line}"
            told.update(others)

    def _about(self, outcome: Outcome) -> Iterator[str]:
        """Yield what is wrong in a case, and which mistake it looks like."""
        if outcome.judgement is None:
            yield outcome.reason
            return
        yield outcome.judgement.summary
        if (dtype := outcome.passes_as) is not None:
            yield f"dtype: in {dtype} the answer passes; if its numbers are of that type, say so."
        named = self.names.get(outcome.case.id)
        if named and (named.findings or named.name != UNEXPLAINED or dtype is None):
            found = f"Found: {'; '.join(named.findings)}." if named.findings else ""
            yield " ".join(filter(None, [f"{named.name}: {named.sentence}", found]))
            if named.effect:
                yield " ".join([f"effect: {named.effect}", *named.threads])
            if named.request is not None and named.request.body is None:
                yield f"a server gives the same wrong numbers: {named.request.url}"

    def json_bytes(self) -> bytes:
        """Return the report as JSON."""
        content = {
            "suite": self.version,
            "part": self.part,
            "protocol": PROTOCOL,
            "implementation": {
                name: plain(self.conduct.hello.get(name))
                for name in ("name", "version", "language")
            },
            "exit_code": self.exit_code,
            "failure": self.failure,
            "passed_over": self.conduct.passed_over,
            "unasked": self.conduct.unasked,
            "was_ended": self.conduct.was_ended,
            "code": self.conduct.code,
            "summary": self.counts,
            "cases": [self._content(each) for each in self.outcomes],
        }
        return orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n"

    def _content(self, outcome: Outcome) -> dict[str, Any]:
        content: dict[str, Any] = {
            "id": outcome.case.id,
            "file": outcome.case.file,
            "status": outcome.status,
            "reason": outcome.reason,
            "seconds": round(outcome.seconds, 3),
        }
        judgement = outcome.judgement
        if judgement is None:
            return content
        content["dtype"] = judgement.answer.dtype
        if not judgement.has_shape:
            content["reason"] = judgement.summary
        else:
            content |= {
                "share": judgement.worst_share,
                "untold": judgement.untold,
                "numbers": judgement.wrong.size,
            }
            if judgement.has_passed:
                content["grade"] = judgement.grade
            else:
                content["wrong"] = int(judgement.wrong.sum())
                content["places"] = judgement.places
                content["first"] = asdict(judgement.first_wrong)
                content["passes_as"] = outcome.passes_as
        if named := self.names.get(outcome.case.id):
            content["mistake"] = asdict(named)
        return content

    def junit(self) -> bytes:
        """Return the report as JUnit XML: a file is a class, a case a test."""
        seconds = f"{sum(each.seconds for each in self.outcomes):.3f}"
        suite = ET.Element("testsuite", name=f"posref conformance {self._suite}", time=seconds)
        for each in self.outcomes:
            test = ET.SubElement(
                suite,
                "testcase",
                classname=each.case.file,
                name=each.case.id,
                time=f"{each.seconds:.3f}",
            )
            if each.status in {"unsupported", "not_asked"}:
                ET.SubElement(test, "skipped", message=each.reason)
            elif each.status != "passes":
                tag = "failure" if each.status == "fails" else "error"
                lines = [*self._about(each)]
                named = self.names.get(each.case.id)
                message = f"{named.name}: {named.sentence}" if named else lines[0]
                told = ET.SubElement(test, tag, message=message, type=named.name if named else tag)
                told.text = "\n".join(lines)
        for name, tag, rule in (
            ("command", "error", self.failure),
            ("messages", "failure", self._unasked),
        ):
            if rule:
                test = ET.SubElement(suite, "testcase", classname="posref", name=name)
                ET.SubElement(test, tag, message=rule).text = rule
        for name, tag in (
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            suite.set(name, str(len(suite.findall(f".//{tag}"))))
        root = ET.Element("testsuites")
        root.append(suite)
        ET.indent(root)
        body: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
        return body + b"\n"


def _reasons(outcomes: Sequence[Outcome]) -> str:
    """Return the reasons of cases in parentheses, of several how often each is given."""
    given = Counter(each.reason for each in outcomes if each.reason)
    are_several = len(given) > 1
    texts = [f"{count} × {each}" if are_several else each for each, count in given.most_common()]
    shown = [*texts[:_MOST_REASONS], *(["…"] if len(texts) > _MOST_REASONS else [])]
    return f" ({'; '.join(shown)})" if shown else ""
