"""Memory of a server that streams a long table."""

from collections.abc import Iterator

import pytest

from tests.system import debian
from tests.system.processes import run
from tests.system.servers import GIB, MIB, Server, running

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
