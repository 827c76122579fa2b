"""Honest implementations pass every rotary case: in float32, float16 and bfloat16."""

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from service.conformance.expected import expectation
from service.conformance.files.all_files import FILES
from service.conformance.files.vector_file import VectorFile
from service.conformance.questions import Question
from service.conformance.tolerance import UNIT, Expectation
from tests.conformance.honest_rotary import FORMULAS, NARROW, WAYS, Honest, iterated
from tests.conformance.rotary_cases import CASES, right

_FAR = (0, 1, 2, 257, 2049, 4095, 4097, 131071, 2**24 - 1, 2**24 + 1)
_BASES = (10000.0, 100000.0, 500000.0, 1000042.0, 1e7)
_WIDTHS = (32, 64, 80, 96, 128, 256)
_DTYPES = ("float32", "float16", "bfloat16")
_BLENDS = ("llama3", "yarn", "longrope")
_DRAWN: list[tuple[VectorFile, int]] = [
    (file, seed)
    for file in FILES
    if file.drawn is not None and file.name.startswith("rope/")
    for seed in range(6)
]


def worst_share(question: Question, expected: Expectation) -> tuple[float, str]:
    """Return the largest share of what is allowed that one of them takes, and which."""
    shares = []
    for (name, way), formula, dtype in product(WAYS.items(), FORMULAS, _DTYPES):
        rule = question.as_table.parameters.get("rope_type")
        if formula and rule not in _BLENDS:
            continue
        answer = Honest(way, formula, dtype).answer(question)
        share = float(expected.distances(answer, dtype).max())
        shares.append((share, f"{name}, {formula}, {dtype}"))
    return max(shares)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.id for case in CASES])
def test_honest_implementations_pass_every_case(number: int) -> None:
    share, whose = worst_share(CASES[number].question, right(number))

    assert share <= 1, whose


@pytest.mark.parametrize(("base", "width"), [*product(_BASES, _WIDTHS)])
def test_honest_implementations_pass_at_other_bases_and_widths(base: float, width: int) -> None:
    question = Question("table", "/rope", {"head_dim": width, "rope_theta": base}, _FAR)
    share, whose = worst_share(question, expectation(question))

    assert share <= 1, whose


@pytest.mark.parametrize(("file", "seed"), _DRAWN, ids=lambda each: getattr(each, "name", each))
def test_honest_implementations_pass_drawn_cases(file: object, seed: int) -> None:
    _, question = file.drawn(Random(seed))  # type: ignore[attr-defined]
    share, whose = worst_share(question, expectation(question))

    assert share <= 1, whose


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.id for case in CASES])
def test_a_relative_error_of_one_frequency_is_seen(number: int) -> None:
    """What docs/conformance.md promises of tables of /rope, but for those of xPos."""
    question, expected = CASES[number].question.as_table, right(number)
    if question.resource != "/rope" or "xpos" in question.parameters or not question.positions:
        return
    assert expected.angle is not None
    assert expected.details is not None
    omega, factor = np.array(expected.details["inv_freq"]), expected.factor
    rows = np.array(question.positions, dtype=np.float64)[:, None]
    angles = np.abs(rows * omega)
    is_known = (angles > 0) & (expected.angle < 1)
    units = np.divide(expected.angle, factor * angles * UNIT, where=is_known, out=0 * angles)
    for k in np.flatnonzero(omega):
        wrong = omega.copy()
        wrong[k] *= 1 + 1.5 * (units[:, k].max() + (2 if factor == 1 else 4)) * UNIT
        answer = {"cos": factor * np.cos(rows * wrong), "sin": factor * np.sin(rows * wrong)}
        assert expected.distances(answer).max() > 1, k


def test_powers_of_a_rounded_step_fail_at_128_channels_and_base_10000() -> None:
    def powers(base: float, width: int) -> Any:
        return np.power(
            np.power(np.float32(base), np.float32(-2 / width)),
            np.arange(width // 2, dtype=np.float32),
        )

    question = next(case.question for case in CASES if case.id == "rope/default/6")
    share = expectation(question).distances(Honest(powers).answer(question))

    assert np.max(share) > 1


def test_a_factor_that_multiplies_in_a_narrow_type_is_more_than_one_rounding() -> None:
    question = next(case.question for case in CASES if case.id == "rope/yarn/1")
    expected = expectation(question)
    narrow = NARROW["bfloat16"]
    factor = narrow(expected.factor)
    answer = {
        name: ((numbers / expected.factor).astype(narrow) * factor).astype(np.float64)
        for name, numbers in expected.arrays.items()
    }

    assert expected.distances(answer, "bfloat16").max() > 1


def test_iterated_frequencies_fail_at_128_channels_and_base_10000() -> None:
    question = Question(
        "table", "/rope", {"head_dim": 128, "rope_theta": 10000.0}, (1, 257, 131071)
    )
    share = expectation(question).distances(Honest(iterated).answer(question))

    assert np.max(share) > 1


@pytest.mark.parametrize("base", _BASES)
def test_float64_powers_pass_as_float64(base: float) -> None:
    width, rows = 64, np.array(_FAR, dtype=np.float64)[:, None]
    question = Question("table", "/rope", {"head_dim": width, "rope_theta": base}, _FAR)
    exponents = np.arange(0, width, 2) / width
    for omega in (base**-exponents, np.exp(-np.log(base) * exponents)):
        answer = {"cos": np.cos(rows * omega), "sin": np.sin(rows * omega)}
        assert expectation(question).distances(answer, "float64").max() <= 1


def test_float32_frequencies_fail_as_float64() -> None:
    question = Question("table", "/rope", {"head_dim": 64, "rope_theta": 10000.0}, _FAR)
    answer = Honest(WAYS["power"]).answer(question)

    assert expectation(question).distances(answer, "float64").max() > 1
