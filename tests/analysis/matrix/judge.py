"""Posts a case to /diagnose, and judges the answer by names, values, places and numbers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np

from tests.analysis.matrix.cases import Case
from tests.analysis.matrix.claims import agrees, claimed_tables, rebuilt, table_of
from tests.analysis.matrix.faults import Place
from tests.analysis.matrix.floats import safetensors_bytes
from tests.analysis.matrix.rules import numbers_in
from tests.client import Client

GOOD = ("named", "equal-ok", "none-ok", "equivalent")
BAD = ("WRONG", "error")
CLASSES = (*GOOD, "place-missed", "missed", "refused", "generator", *BAD)

_OFF = 0.002
_VALUE_FIELDS = ("have", "base", "offset", "factor", "value", "decimals", "rows", "from")


@dataclass(frozen=True)
class Judgement:
    """The class of an answer, and why.

    ``place-missed`` is a right ``none`` that does not say where; ``generator`` a case whose right
    table is not the one that its URL names.
    """

    case: Case
    verdict: str
    why: str = ""


def post(client: Client, case: Case) -> tuple[int, Any]:
    answer = client.post(
        f"/diagnose?to={quote(case.to, safe='')}",
        content=safetensors_bytes(case.arrays),
        headers={"Content-Type": "application/vnd.safetensors"},
    )
    try:
        return answer.status_code, answer.json()
    except ValueError:
        return answer.status_code, answer.text


def judge(client: Client, case: Case) -> Judgement:
    """Return the class of the service's answer to a case."""
    status, answer = post(client, case)
    if status != 200:
        detail = answer.get("detail", "") if isinstance(answer, dict) else str(answer)
        return Judgement(case, "error" if status >= 500 else "refused", f"{status} {detail}"[:200])
    return _of_answer(client, case, answer)


def _of_answer(client: Client, case: Case, answer: Mapping[str, Any]) -> Judgement:
    mistakes = answer.get("mistakes") or []
    names = frozenset(str(mistake.get("name")) for mistake in mistakes)
    if "truncated" in case.expected and _says_rows(case, answer):
        names |= {"truncated"}
    verdict = answer.get("verdict")
    if case.group == "empty-rows":
        return _of_empty_rows(case, answer, names)
    if verdict == "equal":
        return _of_equal(case, names)
    if verdict == "none":
        return _of_none(case, answer)
    if case.place is not None:
        return _of_fault(client, case, answer, mistakes)
    if not case.expected:
        return Judgement(case, "WRONG", f"a right table: {said(answer)}")
    return _of_diagnosed(client, case, answer, names)


def _says_rows(case: Case, answer: Mapping[str, Any]) -> bool:
    """Return whether the answer says how many rows of the table it has compared."""
    checked = answer.get("checked") or {}
    if case.recipe is None or case.right_recipe is None:
        return False
    stated = (checked.get("rows"), checked.get("of"))
    return stated == (case.recipe.rows, case.right_recipe.rows)


def _of_equal(case: Case, names: frozenset[str]) -> Judgement:
    if case.place is None and not case.expected:
        return Judgement(case, "equal-ok")
    if names == case.expected:
        return Judgement(case, "equivalent", "equal, of fewer rows than the URL has")
    if not case.is_visible:
        return Judgement(case, "equivalent", "equal, within the engine's arithmetic")
    return Judgement(case, "WRONG", f"equal; differs by {_difference(case)}")


def _difference(case: Case) -> str:
    """Return by how much the numbers of a case differ from the right ones."""
    shapes = [{name: array.shape for name, array in one.items()} for one in (case.made, case.right)]
    if shapes[0] != shapes[1]:
        return "shape"
    largest = max(
        float(np.nanmax(np.abs(case.made[name] - case.right[name]))) for name in case.made
    )
    return f"{largest:.3g}"


def _of_none(case: Case, answer: Mapping[str, Any]) -> Judgement:
    if case.place is not None:
        if not case.place.kind or _is_placed(case, answer):
            return Judgement(case, "none-ok")
        return Judgement(case, "place-missed", said(answer))
    if not case.expected:
        return Judgement(case, "WRONG", f"none for a right table: {said(answer)}")
    return Judgement(case, "missed", said(answer))


def _of_empty_rows(case: Case, answer: Mapping[str, Any], names: frozenset[str]) -> Judgement:
    """Accept an answer that finds nothing wrong with the rows that have numbers."""
    if answer.get("verdict") == "equal":
        return Judgement(case, "equal-ok")
    if names and names <= {"truncated", "longer", "empty-rows"}:
        return Judgement(case, "named")
    if answer.get("verdict") == "none":
        return Judgement(case, "none-ok" if _is_placed(case, answer) else "place-missed")
    return Judgement(case, "WRONG", said(answer))


def _of_fault(
    client: Client, case: Case, answer: Mapping[str, Any], mistakes: list[Mapping[str, Any]]
) -> Judgement:
    if not case.is_visible:
        return Judgement(case, "equivalent", said(answer))
    if _is_claim_true(client, case, answer, mistakes):
        return Judgement(case, "equivalent", said(answer))
    return Judgement(case, "WRONG", f"a partial fault: {said(answer)}")


def _of_diagnosed(
    client: Client, case: Case, answer: Mapping[str, Any], names: frozenset[str]
) -> Judgement:
    mistakes = answer["mistakes"]
    is_named = names == case.expected
    if is_named and _are_values_right(case, mistakes):
        if _is_yours_wrong(client, case, answer):
            return Judgement(case, "WRONG", f"yours is another table: {said(answer)}")
        return Judgement(case, "named")
    if _is_claim_true(client, case, answer, mistakes):
        return Judgement(case, "equivalent", said(answer))
    if is_named:
        return Judgement(case, "WRONG", f"value, not {dict(case.values)}: {said(answer)}")
    is_said_otherwise = names in case.also and _are_values_right(case, mistakes)
    if is_said_otherwise or _names_precision_elsewhere(case, answer, names):
        return Judgement(case, "equivalent", said(answer))
    return Judgement(case, "WRONG", said(answer))


def _is_yours_wrong(client: Client, case: Case, answer: Mapping[str, Any]) -> bool:
    """Return whether the URL that the answer calls yours has another table."""
    yours = (answer.get("yours") or {}).get("url")
    if not yours or not case.is_in_url or len(case.expected) != 1 or case.recipe is None:
        return False
    claimed = table_of(client, yours, case.recipe.rows)
    return claimed is not None and case.vectors is None and not agrees(case, claimed)


def _names_precision_elsewhere(
    case: Case, answer: Mapping[str, Any], names: frozenset[str]
) -> bool:
    """Return whether only a narrow type of a pair is not a mistake, but the arithmetic has it."""
    missing = case.expected - names
    is_precision = {name.startswith("narrow-") for name in missing} == {True}
    if not is_precision or names - case.expected or not names or case.recipe is None:
        return False
    return case.recipe.narrow_kind in json.dumps(answer.get("arithmetic"))


def _is_claim_true(
    client: Client, case: Case, answer: Mapping[str, Any], mistakes: list[Mapping[str, Any]]
) -> bool:
    """Return whether the claimed table, by its URL or its mistakes, has the case's numbers."""
    names = frozenset(str(mistake.get("name")) for mistake in mistakes)
    urls = [(answer.get("yours") or {}).get("url"), *(one.get("have") for one in mistakes)]
    for url in urls:
        if not isinstance(url, str) or not url.startswith("/"):
            continue
        if any(agrees(case, claimed) for claimed in claimed_tables(client, case, url, names)):
            return True
    return rebuilt(case, mistakes)


def _are_values_right(case: Case, mistakes: list[Mapping[str, Any]]) -> bool:
    """Return whether every number that the answer states for a mistake is one of the case's."""
    for mistake in mistakes:
        name = str(mistake.get("name"))
        right = case.values.get(name)
        stated = {key: mistake[key] for key in _VALUE_FIELDS if key in mistake}
        numbers = numbers_in(stated)
        if right is None or not numbers:
            continue
        if name in {"position-offset", "cache-offset", "padding-counted"}:
            wanted = numbers_in(mistake.get("want"))
            numbers += [have - want for have in numbers for want in wanted]
        interval = numbers_in(mistake.get("interval"))
        if len(interval) == 2 and any(min(interval) <= value <= max(interval) for value in right):
            continue
        if not any(abs(n - value) <= _OFF * abs(value) for n in numbers for value in right):
            return False
    return True


def _is_placed(case: Case, answer: Mapping[str, Any]) -> bool:
    """Return whether a finding, or where the arrays leave the table, is the place of the fault."""
    place = case.place
    assert place is not None
    for finding in answer.get("findings") or []:
        stated = {round(number) for number in numbers_in(finding)}
        is_of_kind = place.kind in {finding.get("name"), "batch"}
        if is_of_kind and any(wanted <= stated for wanted in _wanted(place)):
            return True
        if is_of_kind and _ranges(finding) & set(place.numbers.values()):
            return True
    leaves = answer.get("leaves_at") or {}
    rows = {leaves.get("position"), *(leaves.get("index") or [])}
    is_known = place.kind == "element" or (place.kind == "rows" and "every" not in place.numbers)
    return is_known and any(wanted <= rows for wanted in _wanted(place))


def _wanted(place: Place) -> list[set[int]]:
    """Return the sets of numbers any of which says the place."""
    if place.kind != "element":
        return [set(place.numbers.values())]
    return [{place.numbers["row"], place.numbers[name]} for name in ("channel", "lane")]


def _ranges(finding: Mapping[str, Any]) -> set[int]:
    """Return the starts of ranges, such as 5:20:2, in a finding's strings."""
    starts: set[int] = set()
    for value in finding.values():
        if isinstance(value, str):
            starts |= {int(part) for part in value.replace("-", ":").split(":") if part.isdigit()}
    return starts


def said(answer: Mapping[str, Any]) -> str:
    """Return what an answer says, on one line."""
    parts = [str(answer.get("verdict"))]
    for mistake in answer.get("mistakes") or []:
        numbers = {key: mistake[key] for key in ("have", "want", "interval") if key in mistake}
        parts.append(f"{mistake.get('name')}{numbers or ''}")
    if answer.get("findings"):
        parts.append(f"findings={answer['findings']}")
    if answer.get("leaves_at"):
        parts.append(f"leaves_at={answer['leaves_at']}")
    if answer.get("yours"):
        parts.append(f"yours={answer['yours'].get('url')}")
    return " ".join(parts)[:400]
