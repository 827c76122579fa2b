"""Console blocks of documents: commands after ``$``, and their output."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]
"""The pages whose commands are run; those of the page of encodings are run as it is written."""
PAGES.remove("docs/encodings.md")


@dataclass(frozen=True)
class Step:
    """One command and its output."""

    command: str
    output: str


def steps_of(document: Path) -> list[Step]:
    """List the commands of a document with their documented output."""
    blocks = re.findall(r"```console\n(.*?)```", document.read_text(), re.DOTALL)
    steps: list[Step] = []
    for block in blocks:
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            steps.append(Step(command, output))
    return steps


def files_of(document: Path) -> dict[str, str]:
    """Return the files shown by a document: blocks that begin with a comment of their name."""
    blocks = re.findall(r"```\w+\n# (\S+\.\w+)\n(.*?)```", document.read_text(), re.DOTALL)
    return dict(blocks)
