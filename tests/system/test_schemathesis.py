"""The whole API, asked at random by what openapi.json says of it: every check of schemathesis."""

import json
import re
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.processes import run
from tests.system.servers import KIB, ROOT, Server, running

pytestmark = pytest.mark.system

SCHEMATHESIS = Path(sysconfig.get_path("scripts")) / "schemathesis"
CONFIGURATION = ROOT / "tests/system/schemathesis.toml"
DOCUMENT = ROOT / "openapi.json"
EXAMPLES_OF_AN_OPERATION = 5

# What may be asked for is endless; what is worked out is not.
SHORT = {
    "max_response_bytes": 64 * KIB,
    "max_text_bytes": 64 * KIB,
    "max_digest_bytes": 64 * KIB,
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(**SHORT) as started:
        yield started


def asked(server: Server, document: Path, *words: str) -> str:
    """Ask what a document describes; the test fails unless every check of every answer holds."""
    options = ["--checks=all", "--no-color", f"--url={server.url('')}", *words]
    command = [f"--config-file={CONFIGURATION}", "run", str(document), *options]
    return run(SCHEMATHESIS, *command, environment={"PYTHONPATH": str(ROOT)})


def test_every_operation_answers_as_it_is_documented_to(server: Server) -> None:
    told = asked(server, DOCUMENT, f"--max-examples={EXAMPLES_OF_AN_OPERATION}")

    operations = re.search(r"Selected: (\d+)/(\d+)\n\s+Tested: (\d+)", told)
    requests = re.search(r"(\d+) generated, (\d+) passed", told)
    assert operations is not None
    assert len(set(operations.groups())) == 1
    assert requests is not None
    assert requests[1] == requests[2]
    assert int(requests[1]) > 10_000
    assert server.process.poll() is None


def forget_a_status(operation: dict[str, Any]) -> None:
    del operation["responses"]["422"]


def forget_a_type(operation: dict[str, Any]) -> None:
    del operation["responses"]["200"]["content"]["application/json"]


def promise_a_header(operation: dict[str, Any]) -> None:
    missing = {"required": True, "schema": {"type": "string"}}
    operation["responses"]["200"]["headers"]["Array-Colour"] = missing


def promise_a_member(operation: dict[str, Any]) -> None:
    content = operation["responses"]["200"]["content"]["application/json"]
    content["schema"] = {"type": "object", "required": ["colour"]}


def allow_too_much(operation: dict[str, Any]) -> None:
    length(operation)["minimum"] = -9


def allow_too_little(operation: dict[str, Any]) -> None:
    length(operation)["maximum"] = 9


def length(operation: dict[str, Any]) -> Any:
    return next(p["schema"] for p in operation["parameters"] if p["name"] == "seq_len")


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (forget_a_status, "Undocumented status code"),
        (forget_a_type, "Undocumented Content-Type"),
        (promise_a_header, "Missing required response headers"),
        (promise_a_member, "Response violates schema"),
        (allow_too_much, "Schema-valid request rejected"),
        (allow_too_little, "Schema-violating request accepted"),
    ],
)
def test_an_answer_that_is_not_as_documented_is_found(
    server: Server, tmp_path: Path, spoil: Callable[[dict[str, Any]], None], found: str
) -> None:
    document = json.loads(DOCUMENT.read_text())
    path = {"/relative/dynamic": document["paths"]["/relative/dynamic"]}
    spoil(path["/relative/dynamic"]["get"])
    spoiled = tmp_path / "openapi.json"
    spoiled.write_text(json.dumps({**document, "paths": path}))

    with pytest.raises(pytest.fail.Exception, match=found):
        asked(server, spoiled, "--phases=examples,coverage")
