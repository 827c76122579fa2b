"""Run exactness tests against mutants of the code."""

from collections.abc import Iterable
from typing import Any


def check_examples(promise: Any, *examples: Iterable[Any]) -> None:
    """Run an exactness test on given examples, without hypothesis shrinking a failing one."""
    for example in examples:
        promise.hypothesis.inner_test(*example)
