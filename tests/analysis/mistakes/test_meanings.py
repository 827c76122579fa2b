"""Every mistake that can be named has a meaning."""

import re
from pathlib import Path

import service.analysis
from service.analysis.mistakes.catalogue import CATALOGUE
from service.analysis.mistakes.meanings import MEANINGS

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
