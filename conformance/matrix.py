"""The matrix of ``docs/conformance.md``: what each implementation passes, and what failures are."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "conformance.md"
DEFECTS = HERE / "defects"
"""Programs of a few lines. Each prints the number of a library, and the exact one."""

START = "<!-- make adapters writes from here -->"
END = "<!-- to here -->"
_LEAST = 1e-3
_NONE = "–"
_BAD = {"fails", "errs"}


@dataclass(frozen=True)
class Failure:
    """What the failure of some cases is.

    Attributes:
        of: the name that the implementation says in its hello.
        cases: the ids of the cases.
        what: a sentence, or a few.
        program: the name of the program in DEFECTS that shows it; "" if it is no defect.
    """

    of: str
    cases: tuple[str, ...]
    what: str
    program: str = ""


def failures() -> list[Failure]:
    """Return what ``failures.toml`` says."""
    listed = tomllib.loads((HERE / "failures.toml").read_text("utf-8"))["failures"]
    return [Failure(**{**each, "cases": tuple(each["cases"])}) for each in listed]


def page(text: str, written: str) -> str:
    """Return the text of the page with another section between its two markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{written}\n{END}{after}"


def section(libraries: Sequence[Any], engines: Sequence[Any], printed: Mapping[str, str]) -> str:
    """Return the section of the matrix.

    Args:
        libraries: the reports of implementations that are libraries.
        engines: the reports of the others.
        printed: what the program of each defect prints, by its name.

    Raises:
        ValueError: if a failure is not explained, or a program shows no defect.
    """
    libraries = _merged(libraries)
    reports = [*libraries, *engines]
    answered = {case["file"] for it in reports for case in it["cases"] if _is_asked(case)}
    others = sorted({case["file"] for case in reports[0]["cases"]} - answered)
    parts = [
        _ABOVE.format(suite=reports[0]["suite"], count=len(reports[0]["cases"])),
        _table(libraries),
        "The same of programs without a library:",
        _table(engines),
        *([f"No adapter answers {', '.join(others)}."] if others else []),
        "### What each failure is",
        _failed(reports),
        *_defects(reports, printed),
    ]
    return "".join(f"{each}\n\n" for each in parts).rstrip("\n") + "\n"


_ABOVE = """Suite {suite}, {count} cases. A cell has the number of cases that pass, and ✗ with
the number of those that fail. A dash stands where the implementation does not offer the rule, or
its [adapter](../conformance/README.md) does not ask it."""


def _merged(reports: Sequence[Any]) -> list[Any]:
    """Return one report of each implementation: several adapters may ask it different cases."""
    merged = dict[str, Any]()
    for report in reports:
        first = merged.setdefault(_name(report), report)
        pairs = zip(first["cases"], report["cases"], strict=True)
        cases = [max(pair, key=_rank) for pair in pairs]
        merged[_name(report)] = {**report, "cases": cases}
    return [*merged.values()]


def _name(report: Any) -> str:
    said = report["implementation"]
    return f"{said['name']} {said['version']}"


def _is_asked(case: Any) -> bool:
    return case["status"] == "passes" or case["status"] in _BAD


def _rank(case: Any) -> int:
    return 2 if case["status"] in _BAD else int(_is_asked(case))


def _rows(rows: Sequence[Sequence[str]]) -> str:
    head, *others = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *others])


def _table(reports: Sequence[Any]) -> str:
    """Return the table of files and implementations, without files that none is asked."""
    rows = [["file (cases)", *map(_name, reports)]]
    for file in dict.fromkeys(case["file"] for case in reports[0]["cases"]):
        asked = [[case for case in it["cases"] if case["file"] == file] for it in reports]
        cells = [_cell(cases) for cases in asked]
        if {*cells} != {_NONE}:
            rows.append([f"{file} ({len(asked[0])})", *cells])
    return _rows(rows)


def _cell(cases: Sequence[Any]) -> str:
    """Return how many cases pass and how many do not, for one file and one implementation."""
    passed = sum(case["status"] == "passes" for case in cases)
    failed = sum(case["status"] in _BAD for case in cases)
    parts = [str(passed)] * (passed > 0) + [f"✗ {failed}"] * (failed > 0)
    return ", ".join(parts) or _NONE


def _failed(reports: Sequence[Any]) -> str:
    """Return the table of failing cases: where, and what it looks like, and what it is."""
    whats = {(each.of, case): each for each in failures() for case in each.cases}
    rows = [["implementation", "case", "from position", "the report names", "what it is"]]
    for report in reports:
        for case in (each for each in report["cases"] if each["status"] in _BAD):
            what = whats.get((report["implementation"]["name"], case["id"]))
            if what is None:
                message = f"failures.toml does not say why {_name(report)} fails {case['id']}"
                raise ValueError(message)
            kind = "A defect, shown below. " if what.program else ""
            name = case["mistake"]["name"] if "mistake" in case else case["reason"]
            rows.append([_name(report), case["id"], _position(case), name, kind + what.what])
    return _rows(rows)


def _position(case: Any) -> str:
    if "first" not in case:
        return "another shape" if case["status"] == "fails" else _NONE
    position = case["first"]["position"]
    return _NONE if position is None else str(position)


def _defects(reports: Sequence[Any], printed: Mapping[str, str]) -> Iterator[str]:
    """Yield the program of each defect, and what it prints."""
    names = {it["implementation"]["name"]: _name(it) for it in reports}
    yield "### The defects, shown by the libraries alone"
    yield "Each program prints the number of the library, and the exact one."
    for each in failures():
        if each.program:
            _check(each.program, printed[each.program])
            program = (DEFECTS / f"{each.program}.py").read_text("utf-8")
            yield f"{names[each.of]}: {each.what} ({', '.join(each.cases)})"
            yield f"```python\n{program}```"
            yield f"```text\n{printed[each.program]}```"


def _check(name: str, text: str) -> None:
    """Raise ValueError unless two numbers were printed that are not the same."""
    got, want = map(float, text.split())
    if abs(got - want) <= _LEAST * abs(want):
        message = f"{name}: the library has the exact number, {want}"
        raise ValueError(message)
