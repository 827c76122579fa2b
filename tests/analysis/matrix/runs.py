"""Runs cases in this process: each is drawn, posted and judged, and printed if it is not good."""

import re
from collections.abc import Iterator

from service.app import create_app
from service.settings import default_settings
from tests.analysis.matrix.cases import Case, draw_case
from tests.analysis.matrix.judge import GOOD, Judgement, judge
from tests.analysis.matrix.sources import check_source
from tests.client import Client, client_of


def say(*lines: str) -> None:
    """Print lines, and do not keep them until the end."""
    print(*lines, sep="\n", flush=True)  # noqa: T201 - the command line prints.


def cases(seed: int, indices: range, only: str, *, simple: bool) -> Iterator[Case]:
    """Return the cases whose name or label has the expression."""
    for index in indices:
        case = draw_case(seed, index)
        if case is not None and (re.search(only, case.name) or re.search(only, case.label)):
            yield case.simplified() if simple else case


def judgement(client: Client, case: Case, *, check: bool) -> Judgement:
    """Return the judgement of a case; if asked, of one whose right table is the URL's."""
    if check:
        reason = check_source(client, case)
        if reason:
            return Judgement(case, "generator", reason)
    return judge(client, case)


def judged(
    seed: int, indices: range, only: str, *, check: bool, simple: bool, every: bool
) -> list[tuple[str, str, str, str]]:
    """Return name, label, class and reason of each case."""
    results = []
    with client_of(create_app(default_settings())) as client:
        for case in cases(seed, indices, only, simple=simple):
            result = judgement(client, case, check=check)
            results.append((case.name, case.label, result.verdict, result.why))
            if every or result.verdict not in GOOD:
                say(f"{result.verdict:12} {case.name} {case.to[:160]} | {result.why}")
    return results
