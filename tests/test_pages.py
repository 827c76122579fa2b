"""Plain curl commands of the pages; tests/system runs all their commands."""

import re

import pytest

from tests.client import Client
from tests.consoles import PAGES, ROOT, Step, steps_of
from tests.curl import sent

# No pipe, no file, only a body to print.
_PLAIN = re.compile(r"curl -s (-H '[^']*' )?(-d '[^']*' )?'?http://[^|@]*")
PLAIN = [step for page in PAGES for step in steps_of(ROOT / page) if _PLAIN.fullmatch(step.command)]


def test_pages_have_at_least_twenty_plain_curl_commands() -> None:
    assert len(PLAIN) >= 20


@pytest.mark.parametrize("step", PLAIN, ids=lambda step: step.command[:80])
def test_plain_command_prints_the_documented_output(step: Step, client: Client) -> None:
    assert sent(step.command, client).text.rstrip("\n") == step.output.rstrip("\n")
