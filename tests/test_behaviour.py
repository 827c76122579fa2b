"""Every promise of docs/behaviour.md is one sentence with existing tests."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/behaviour.md").read_text()
NAMED = re.compile(r"`(tests/[^`]+)::(test_[^`]+)`")
PROMISES = [" ".join(part.split()) for part in re.split(r"^- ", PAGE, flags=re.MULTILINE)[1:]]


def words_of(promise: str) -> str:
    return promise.partition(" (`tests/")[0]


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


@pytest.mark.full
@pytest.mark.parametrize("promise", PROMISES, ids=words_of)
def test_every_promise_names_existing_tests(promise: str) -> None:
    named = NAMED.findall(promise)

    assert named
    for file, test in named:
        assert test in names_in(file), f"{file}::{test}"


@pytest.mark.parametrize("promise", PROMISES, ids=words_of)
def test_every_promise_is_one_sentence(promise: str) -> None:
    sentence = words_of(promise)

    assert sentence.endswith(".")
    assert ". " not in sentence


def test_every_section_has_promises() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, flags=re.MULTILINE)

    assert len(headings) == len(set(headings))
    assert len(PROMISES) > 2 * len(headings)
