"""Warnings: stable codes, documented with an example each."""

import json
import re
from pathlib import Path

import pytest

from service.configs.resolve import resolve
from service.configs.warnings import MEANINGS, ConfigWarning

DOCUMENT = (Path(__file__).parents[2] / "docs/configs.md").read_text()
EXAMPLES = re.findall(r"### `([a-z0-9-]+)`\n\n(.+?)\.\n\n```json\n(.+?)\n```", DOCUMENT, re.DOTALL)


def test_every_code_is_documented_with_its_meaning() -> None:
    documented = {code: meaning for code, meaning, _ in EXAMPLES}

    assert [code for code, _, _ in EXAMPLES] == sorted(MEANINGS)
    for code, meaning in MEANINGS.items():
        # A key keeps its spelling at the beginning of a sentence.
        assert documented[code] in {meaning, meaning[0].upper() + meaning[1:]}


@pytest.mark.parametrize(("code", "example"), [(code, text) for code, _, text in EXAMPLES])
def test_every_example_has_its_warning(code: str, example: str) -> None:
    asked = 16384 if code == "context-length-unused" else None
    warnings = resolve(json.loads(example), asked).warnings

    assert code in [warning.code for warning in warnings]
    assert all(warning.detail and warning.pointer.startswith("/") for warning in warnings)


def test_a_code_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a code"):
        ConfigWarning("no-such-code", "", "/")
