"""Memory of a server that streams a long table, and of one with the least memory."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from annotated_types import Ge

from service.delivery.budget import FLOOR_BYTES
from service.settings import Settings
from tests.system import debian
from tests.system.faults import children_of
from tests.system.processes import run, wait_until
from tests.system.servers import GIB, KIB, MIB, Server, running

pytestmark = pytest.mark.system

GROWTH_BYTES = 64 * MIB
CURL = ("curl", "--disable", "--silent", "--show-error", "--fail", "--noproxy", "*")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    debian.install(["curl"])
    with running() as server:
        download(server, 64 * MIB)
        yield server


def download(server: Server, table_bytes: int) -> None:
    """Read a table and discard it."""
    url = server.url(f"/encoding.npy?seq_len={table_bytes // 2048}&d_model=512")
    written = run(*CURL, "--output", "/dev/null", "--write-out", "%{size_download}", url)
    assert int(written) == 128 + table_bytes


def test_streaming_gibibytes_takes_constant_memory(server: Server) -> None:
    before = server.memory_bytes("VmRSS")
    server.forget_peak()

    download(server, 2 * GIB)

    assert server.memory_bytes("VmHWM") - before <= GROWTH_BYTES


def processes_of(pid: int) -> set[int]:
    """Return a process with all its descendants."""
    return {pid}.union(*map(processes_of, children_of(pid)))


def held_bytes(pids: set[int]) -> int:
    """Return the memory of processes without files, with what they share counted once."""
    parts = "".join(Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids)
    sizes = re.findall(r"^Pss_Anon:\s*(\d+) kB", parts, re.MULTILINE)
    assert len(sizes) == len(pids)
    return sum(int(size) * KIB for size in sizes)


def test_server_with_the_least_memory_serves_tables_and_small_examinations() -> None:
    (least_bytes,) = [
        rule.ge for rule in Settings.model_fields["memory_bytes"].metadata if isinstance(rule, Ge)
    ]
    table = io.BytesIO()
    np.save(table, np.ones((50, 512), np.float32))
    headers = {"Content-Type": "application/x-npy"}
    with running(memory_bytes=str(least_bytes)) as server:
        drawing = "/encoding.png?seq_len=50&d_model=512"
        for target in (drawing, drawing.replace("png", "npy"), "/rope.json?head_dim=64&seq_len=64"):
            assert server.get(target).is_success
        for examination in ("/compare", "/diagnose", "/identify"):
            to = {} if examination == "/identify" else {"to": "/encoding?seq_len=50&d_model=512"}
            url = server.url(examination)
            answer = httpx.post(
                url, params=to, content=table.getvalue(), headers=headers, trust_env=False
            )
            assert answer.is_success, answer.text

        # The server, its resource tracker, the forkserver, and two spares.
        wait_until("two spares wait", lambda: len(processes_of(server.process.pid)) == 5)
        granted_bytes = server.count("posref_memory_granted_bytes")
        rest_bytes = held_bytes(processes_of(server.process.pid)) - granted_bytes
        assert FLOOR_BYTES / 2 < rest_bytes < FLOOR_BYTES
