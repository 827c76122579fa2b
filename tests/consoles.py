"""Console blocks of documents: commands after ``$``, and what they print."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Step:
    """One command and its output."""

    command: str
    output: str


def steps_of(document: Path) -> list[Step]:
    """List the commands of a document in order, with the output that it prints for each."""
    blocks = re.findall(r"```console\n(.*?)```", document.read_text(), re.DOTALL)
    steps: list[Step] = []
    for block in blocks:
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            steps.append(Step(command, output))
    return steps


def files_of(document: Path) -> dict[str, str]:
    """Find the files that a document shows: blocks whose first line is a comment of their name."""
    blocks = re.findall(r"```\w+\n# (\S+\.\w+)\n(.*?)```", document.read_text(), re.DOTALL)
    return dict(blocks)
