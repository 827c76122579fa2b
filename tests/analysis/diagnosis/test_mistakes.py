"""The catalogue: every entry speaks, and only of what it knows.

Every mistake that can be named has a meaning.
"""

import re
from pathlib import Path
from string import Formatter

import pytest

import service.analysis
from service.analysis.diagnosis.mistakes import CATALOGUE, MEANINGS, Diagnosis, Mistake, Wording


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_mistake_says_what_it_is_and_what_to_do(name: str) -> None:
    wording = CATALOGUE[name]
    texts = wording.sentence + wording.correction
    values = {key: 2.0 for _, key, _, _ in Formatter().parse(texts) if key}

    mistake = Mistake(name, values)

    assert mistake.sentence.endswith(".")
    assert mistake.correction.endswith(".")
    assert "{" not in mistake.sentence + mistake.correction


def test_numbers_are_short_in_sentences_and_exact_beside_them() -> None:
    mistake = Mistake("wrong-base", {"have": 10000.0, "want": 500000.123456789})

    assert "10000," in mistake.sentence
    assert "500000" in mistake.sentence
    assert mistake.values["want"] == 500000.123456789


def test_a_mistake_may_bring_its_own_words() -> None:
    mistake = Mistake("another", {"count": 3}, Wording("There are {count}.", "Take {count}."))

    assert (mistake.sentence, mistake.correction) == ("There are 3.", "Take 3.")


def test_none_explains_nothing() -> None:
    assert Diagnosis("equal").is_explained
    assert Diagnosis("diagnosed").is_explained
    assert not Diagnosis("none").is_explained


ANALYSIS = Path(service.analysis.__file__).parent


def test_every_mistake_of_the_catalogue_has_a_meaning() -> None:
    assert set(CATALOGUE) <= set(MEANINGS)


def test_every_name_that_is_given_has_a_meaning_and_every_meaning_is_of_one() -> None:
    text = "".join(
        path.read_text() for path in ANALYSIS.rglob("*.py") if path.name != "meanings.py"
    )
    given = set(re.findall(r'Mistake\(\s*"([a-z-]+)"', text))

    assert given <= set(MEANINGS)
    assert all(f'"{name}"' in text for name in MEANINGS)


def test_a_meaning_is_one_sentence_without_numbers_to_fill_in() -> None:
    for meaning in MEANINGS.values():
        assert meaning.endswith(".")
        assert meaning.count(". ") == 0
        assert "{" not in meaning
