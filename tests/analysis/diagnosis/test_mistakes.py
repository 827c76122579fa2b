"""The catalogue of known mistakes: every entry has a sentence and a correction."""

import re
from pathlib import Path
from string import Formatter

import pytest

import service.analysis
from service.analysis.diagnosis.mistakes import CATALOGUE, Mistake

ANALYSIS = Path(service.analysis.__file__).parents[1]


@pytest.mark.parametrize("key", CATALOGUE)
def test_sentence_and_correction_are_complete_sentences_with_all_values_filled_in(key: str) -> None:
    texts = "".join(CATALOGUE[key])
    name, _, variant = key.partition("/")
    mistake = Mistake(
        name, {value: 2.0 for _, value, _, _ in Formatter().parse(texts) if value}, variant
    )

    for text in (mistake.sentence, mistake.correction):
        assert text.endswith(".")
        assert text[0].isupper() or text[0].isdigit()
        assert "{" not in text


def test_numbers_are_short_in_sentences_and_exact_in_values() -> None:
    mistake = Mistake("wrong-base", {"have": 10000.0, "want": 500000.123456789})

    assert mistake.sentence.startswith("The base is 10000 but should be 500000;")
    assert mistake.values["want"] == 500000.123456789


@pytest.mark.parametrize(("rows", "position"), [(1, "s + 1:"), (-3, "s - 3:"), (0.5, "s + 0.5:")])
def test_an_offset_is_added_or_subtracted(rows: float, position: str) -> None:
    assert f"position {position}" in Mistake("position-offset", {"rows": rows}).sentence


@pytest.mark.parametrize("variant", [None, "rotation"])
def test_a_wrong_order_is_corrected_in_the_table_or_in_the_model(variant: str | None) -> None:
    orders = dict.fromkeys(("have", "want", "have_pairs", "want_pairs"), "half")

    assert Mistake("layout-swapped", orders, variant).correction.endswith("; never both.")


def test_numbers_that_differ_are_printed_with_the_digits_that_differ() -> None:
    near = Mistake("wrong-base", {"have": 500000.4, "want": 500000.0})
    far = Mistake("wrong-base", {"have": 1e6 / 3, "want": 10000.0})

    assert near.sentence.startswith("The base is 500000.4 but should be 500000;")
    assert far.sentence.startswith("The base is 333333 but should be 10000;")


def test_catalogue_has_all_mistakes_that_the_code_names_and_no_others() -> None:
    code = "".join(
        path.read_text() for path in ANALYSIS.rglob("*.py") if path.name != "mistakes.py"
    )
    named = set(re.findall(r'Mistake\(\s*"([a-z-]+)"', code))

    assert named <= set(CATALOGUE)
    assert all(f'"{part}"' in code for key in CATALOGUE for part in key.split("/"))
