"""The texts of mistakes: complete sentences, which say the values and no other numbers."""

import re
from collections.abc import Iterator
from math import floor, log10
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

import service
from service.analysis.explanation.catalogue import CATALOGUE, Mistake, mistake
from tests.analysis.round_trips import TRIPS

SERVICE = Path(service.__file__).parent
# Numbers that are part of a text: of formulas, of a first row, of types.
PLAIN = {"0", "2", "9", "10", "17"}
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*[a-z])")


def texts(each: Mistake) -> tuple[str, str]:
    return each.sentence, each.correction


def placeholders(key: str) -> set[str]:
    known = CATALOGUE[key]
    text = known.sentence + known.correction
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def filled(key: str, value: Any) -> Mistake:
    name, _, variant = key.partition("/")
    return mistake(name, None, dict.fromkeys(placeholders(key), value), variant=variant)


def numbers_of(value: Any) -> Iterator[float]:
    """Yield the numbers in a value, those in texts included."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, str):
        yield from (
            float(each) for each in NUMBER.findall(value.replace(":", " ").replace(",", " "))
        )
    elif isinstance(value, list | tuple):
        for each in value:
            yield from numbers_of(each)


@pytest.mark.parametrize("key", CATALOGUE)
def test_sentence_and_correction_are_complete_sentences_with_all_values(key: str) -> None:
    for text in texts(filled(key, 2.0)):
        assert text.endswith(".")
        assert text[0].isupper() or text[0].isdigit()
        assert "{" not in text
        assert "  " not in text


@pytest.mark.parametrize("key", CATALOGUE)
def test_a_mistake_costs_bits_and_its_variants_cost_no_less_than_half(key: str) -> None:
    assert 1 <= CATALOGUE[key].bits <= 24
    assert mistake(key.partition("/")[0]).bits == CATALOGUE[key.partition("/")[0]].bits


@pytest.mark.parametrize("key", CATALOGUE)
def test_a_text_has_no_numbers_of_its_own_but_plain_ones(key: str) -> None:
    known = CATALOGUE[key]

    assert set(NUMBER.findall(f"{known.sentence} {known.correction}")) <= PLAIN


@pytest.mark.parametrize("name", TRIPS)
def test_every_value_of_a_text_is_known_in_a_round_trip(name: str) -> None:
    for each in TRIPS[name].found.mistakes:
        key = f"{each.name}/{each.variant}" if each.variant else each.name

        assert placeholders(key) <= each.values.keys()
        assert all("{" not in text for text in texts(each))


@pytest.mark.parametrize("name", TRIPS)
def test_no_sentence_says_a_number_that_the_values_lack(name: str) -> None:
    for each in TRIPS[name].found.mistakes:
        known = [number for value in each.values.values() for number in numbers_of(value)]
        for text in texts(each):
            for said in numbers_of(text):
                near = [number for number in known if abs(number - said) <= 1e-5 * abs(number)]
                assert near or f"{said:g}" in PLAIN, text


@pytest.mark.parametrize("name", [name for name in TRIPS if "wrong-base" in TRIPS[name].named])
def test_a_base_has_no_more_digits_than_its_interval(name: str) -> None:
    (found,) = TRIPS[name].found.mistakes
    low, high = found.values.get("interval", (0.0, 0.0))
    have = found.values["have"]

    assert low == high or low <= have <= high
    digits = len(f"{have:.12g}".rstrip("0").replace(".", ""))
    unit = 10.0 ** (floor(log10(have)) - digits + 1)
    assert unit >= high - low or digits == 1


@pytest.mark.parametrize("name", TRIPS)
def test_what_a_mistake_says_is_of_types_that_json_has(name: str) -> None:
    def check(value: Any) -> None:
        if isinstance(value, list | tuple):
            for each in value:
                check(each)
        elif isinstance(value, dict):
            for key, each in value.items():
                assert isinstance(key, str)
                check(each)
        else:
            assert isinstance(value, str | bool | int | float)

    for each in TRIPS[name].found.mistakes:
        check(dict(each.values))


def test_numbers_are_short_in_sentences_and_exact_in_values() -> None:
    found = mistake("wrong-base", None, {"have": 10000.0, "want": 500000.123456789})

    assert found.sentence == "The base is 10000; it should be 500000."
    assert found.values["want"] == 500000.123456789


def test_numbers_that_differ_are_printed_with_the_digits_that_differ() -> None:
    near = mistake("wrong-base", None, {"have": 500000.4, "want": 500000.0})
    far = mistake("wrong-base", None, {"have": 1e6 / 3, "want": 10000.0})

    assert near.sentence == "The base is 500000.4; it should be 500000."
    assert far.sentence == "The base is 333333; it should be 10000."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (3, "3"),
        (0.25, "0.25"),
        (1e20, "1e+20"),
        (-0.5, "-0.5"),
        ([1, 2.0, "h"], "1, 2, h"),
        (float("inf"), "inf"),
    ],
)
def test_a_value_is_printed_as_people_write_it(value: Any, text: str) -> None:
    found = mistake("wrong-parameter", None, {"key": "factor", "have": value, "want": "x"})

    assert found.sentence == f"factor is {text}; it should be x."


@pytest.mark.parametrize("variant", ["", "rotation"])
def test_a_wrong_order_is_corrected_in_the_table_or_in_the_model(variant: str) -> None:
    orders = dict.fromkeys(("have", "want", "have_pairs", "want_pairs"), "half")

    assert mistake("layout-swapped", None, orders, variant=variant).correction.endswith(
        "; not both."
    )


def test_the_catalogue_has_the_mistakes_that_the_code_names_and_no_others() -> None:
    code = "".join(
        path.read_text() for path in SERVICE.rglob("*.py") if path.name != "catalogue.py"
    )
    named = set(re.findall(r'mistake\(\s*"([a-z0-9-]+)"', code))

    assert named <= set(CATALOGUE)
    for key in CATALOGUE:
        name, _, variant = key.partition("/")
        is_narrow = name.startswith("narrow-")
        assert f'"{name}"' in code or is_narrow
        assert not variant or f'"{variant}"' in code
