"""Run exactness tests against mutants of the code."""

from collections.abc import Iterable
from typing import Any


def held(promise: Any, *examples: Iterable[Any]) -> None:
    """Hold an exactness test to examples of its own: what fails is not made smaller first."""
    for example in examples:
        promise.hypothesis.inner_test(*example)
