"""Plain curl commands of the README; tests/system runs all its commands."""

import re
from pathlib import Path

import pytest

from tests.client import Client
from tests.consoles import Step, steps_of
from tests.curl import sent

README = Path(__file__).parents[1] / "README.md"

# No pipe, no file, only a body to print.
_PLAIN = re.compile(r"curl -s (-H '[^']*' )?(-d '[^']*' )?'?http://[^|@]*")
PLAIN = [step for step in steps_of(README) if _PLAIN.fullmatch(step.command)]


def test_readme_has_at_least_fifteen_plain_curl_commands() -> None:
    assert len(PLAIN) >= 15


@pytest.mark.parametrize("step", PLAIN, ids=lambda step: step.command[:80])
def test_plain_command_prints_the_output_of_the_readme(step: Step, client: Client) -> None:
    assert sent(step.command, client).text.rstrip("\n") == step.output.rstrip("\n")
