"""schemathesis with all its checks on openapi.json."""

import json
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.openapi import inlined
from tests.system.processes import run
from tests.system.servers import KIB, ROOT, Server, running

pytestmark = pytest.mark.system

SCHEMATHESIS = Path(sysconfig.get_path("scripts")) / "schemathesis"
CONFIGURATION = ROOT / "tests/system/schemathesis.toml"
DOCUMENT = ROOT / "openapi.json"
EXAMPLES_OF_AN_OPERATION = 5

# Tables may be described without bound; computed ones are bounded.
SHORT = {"max_response_bytes": 64 * KIB, "max_text_bytes": 64 * KIB, "max_digest_bytes": 64 * KIB}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(**SHORT) as started:
        yield started


def asked(server: Server, document: Path, *words: str) -> str:
    """Run schemathesis on a document, and fail if any check fails."""
    options = ["--checks=all", "--no-color", f"--url={server.url('')}", *words]
    command = [f"--config-file={CONFIGURATION}", "run", str(document), *options]
    return run(SCHEMATHESIS, *command, environment={"PYTHONPATH": str(ROOT)})


def test_every_operation_answers_as_documented(server: Server) -> None:
    told = asked(server, DOCUMENT, f"--max-examples={EXAMPLES_OF_AN_OPERATION}")

    operations = re.search(r"Selected: (\d+)/(\d+)\n\s+Tested: (\d+)", told)
    requests = re.search(r"(\d+) generated, (\d+) passed", told)
    assert operations is not None
    assert len(set(operations.groups())) == 1
    assert requests is not None
    assert requests[1] == requests[2]
    assert int(requests[1]) > 10_000
    assert server.process.poll() is None


def spoiled_document() -> dict[str, Any]:
    """Misdescribe two operations, one way for each check."""
    document = json.loads(DOCUMENT.read_text())
    chosen = ("/relative/dynamic", "/relative/conformer")
    paths = {path: inlined(document["paths"][path], document) for path in chosen}
    spoiled, without_type = (methods["get"] for methods in paths.values())
    del without_type["responses"]["200"]["content"]["application/json"]
    answer = spoiled["responses"]["200"]
    answer["headers"]["Array-Colour"] = {"required": True, "schema": {"type": "string"}}
    answer["content"]["application/json"]["schema"] = {"type": "object", "required": ["colour"]}
    del spoiled["responses"]["422"]
    bounds = next(p["schema"] for p in spoiled["parameters"] if p["name"] == "seq_len")
    bounds.update(minimum=-9, maximum=9)
    return {**document, "paths": paths}


def test_undocumented_answer_is_detected(server: Server, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(spoiled_document()))

    with pytest.raises(pytest.fail.Exception) as failure:
        asked(server, document, "--phases=examples,coverage")

    found = set(re.findall(r"ST\d+ (.+): \d+\n", str(failure.value)))
    assert found == {
        "Undocumented status code",
        "Undocumented Content-Type",
        "Missing required response headers",
        "Response violates schema",
        "Schema-valid request rejected",
        "Schema-violating request accepted",
    }
