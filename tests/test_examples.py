"""The programs of examples/ are short, and their README lists them as they are."""

import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
README = (EXAMPLES / "README.md").read_text()
PROGRAMS = sorted(EXAMPLES.glob("[rR]ope.*"))
OF_PROMPT = sorted(EXAMPLES.glob("positions.*"))
LANGUAGES, OF_PROMPT_LANGUAGES = 11, 3

_COMMENTS = ("//", "#", "/**", "<!--", '"""')
_IMPORTS = ("import", "from", "use", "using", "require", "package")


def is_code(line: str) -> bool:
    """Return whether a line is more than a comment, an import or a bracket."""
    text = line.strip()
    words = re.findall(r"\w+", text)
    return bool(words) and not text.startswith(_COMMENTS) and words[0] not in _IMPORTS


def test_there_is_a_program_for_each_language() -> None:
    assert len(PROGRAMS) == LANGUAGES
    assert len(OF_PROMPT) == OF_PROMPT_LANGUAGES


@pytest.mark.parametrize("program", [*PROGRAMS, *OF_PROMPT], ids=lambda program: program.name)
def test_program_has_thirty_to_sixty_lines_of_code(program: Path) -> None:
    lines = program.read_text().splitlines()

    assert 30 <= sum(map(is_code, lines)) <= 60
    assert len(lines) < 95
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("program", [*PROGRAMS, *OF_PROMPT], ids=lambda program: program.name)
def test_readme_has_the_command_of_the_program(program: Path) -> None:
    command = re.search(r"Run, beside (?:config|prompt)\.json: (.*)", program.read_text())

    assert command
    assert f"| [{program.name}]({program.name}) | `{command[1]}`" in README
