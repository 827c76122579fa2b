"""The exception tree."""

import inspect
import re

from service import errors


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"[*+-] (\w+)\n", (errors.__doc__ or "") + "\n")
    defined = [
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.PosrefError)
    ]

    assert sorted(drawn) == sorted(defined)


def test_one_fault_is_said_in_the_detail_and_several_are_counted() -> None:
    fault = errors.Fault("a", "1", "a must be 2")

    assert "a must be 2" in errors.InvalidParameters(fault).detail
    assert errors.InvalidParameters(fault, fault).detail.startswith("2 parameters")


def test_values_are_shortened() -> None:
    assert errors.shortened("a" * 100) == "a" * 80 + "…"
    assert errors.shortened([1]) == "[1]"
