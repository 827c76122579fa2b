"""Downloads with curl: interrupted and resumed, verified, and in ranges."""

import subprocess
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path

import pytest

from tests.system import debian
from tests.system.processes import run, wait_until
from tests.system.servers import MIB, Server, posref_get, running

pytestmark = pytest.mark.system

TABLE = "/encoding.npy?seq_len=100000&d_model=512"
TABLE_BYTES = 128 + 100_000 * 512 * 4
HUGE = f"/encoding.npy?seq_len={2**40}&d_model=512"
HUGE_BYTES = 128 + 2**40 * 512 * 4
CURL = ("curl", "--disable", "--silent", "--show-error", "--fail", "--noproxy", "*")

# Unaligned, across a block and a row, at the limits of 32-bit counts, and at the end.
PARTS = [
    (2**40, 2**40 + 99_999),
    (2**40 + 3, 2**40 + 3),
    (2**40 + 128 + MIB - 5, 2**40 + 128 + MIB + 4),
    (2**41 + 2**31 - 7, 2**41 + 2**31 + 2048 * 600),
    (2**50 + 127, 2**50 + 129 + 2 * MIB),
    (HUGE_BYTES - 5001, HUGE_BYTES - 1),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    debian.install(["curl"])
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def begun(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Interrupt a download in the middle, named by Content-Disposition."""
    folder = tmp_path_factory.mktemp("resumed")
    slowly = (*CURL, "--limit-rate", "16M", "--remote-name", "--remote-header-name")
    with subprocess.Popen([*slowly, server.url(TABLE)], cwd=folder) as curl:
        try:
            wait_until("some megabytes have come", lambda: held_bytes(folder) > 4 * MIB)
        finally:
            curl.kill()
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def resumed(server: Server, begun: Path) -> Path:
    """Resume the download, and fetch its digest."""
    held = begun.stat().st_size
    assert 0 < held < TABLE_BYTES
    sent = sent_in_parts(server)

    run(*CURL, "--continue-at", "-", "--output", begun, server.url(TABLE))
    assert sent_in_parts(server) - sent == TABLE_BYTES - held

    digest = server.url(TABLE.replace(".npy", ".npy.sha256"))
    run(*CURL, "--output", begun.with_suffix(".npy.sha256"), digest)
    return begun


def held_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def sent_in_parts(server: Server) -> int:
    return server.count("posref_answer_body_bytes_total", status="206")


def test_resumed_download_equals_the_file_of_posref_get(resumed: Path, tmp_path: Path) -> None:
    written = posref_get(TABLE, tmp_path / "table.npy")

    with resumed.open("rb") as fetched, written.open("rb") as made:
        assert resumed.stat().st_size == TABLE_BYTES
        assert file_digest(fetched, "sha256").digest() == file_digest(made, "sha256").digest()


def test_sha256sum_verifies_the_downloaded_file(resumed: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", f"{resumed.name}.sha256"],
        cwd=resumed.parent,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, f"{resumed.name}: OK\n")


def test_ranges_beyond_a_tebibyte_are_equal_in_every_process(server: Server) -> None:
    expected = [server.range(HUGE, *part) for part in PARTS]
    assert [len(part) for part in expected] == [last - first + 1 for first, last in PARTS]

    with running() as cold, running() as warm:
        for rows in (3, 50_000):
            warm.get(f"/encoding.npy?start=-7&seq_len={rows}&d_model=512")
        backwards = [warm.range(HUGE, *part) for part in reversed(PARTS)]

        assert [cold.range(HUGE, *part) for part in PARTS] == expected
        assert backwards[::-1] == expected
        assert [warm.range(HUGE, *part) for part in PARTS] == expected


def test_head_of_a_table_of_2_to_the_53_rows_computes_nothing(server: Server) -> None:
    before = server.cpu_seconds()

    head = run(*CURL, "--head", server.url(f"/encoding.npy?seq_len={2**53}&d_model=64"))

    described = head.lower().splitlines()
    assert described[0] == "http/1.1 200 ok"
    assert {f"content-length: {2**61 + 128}", "accept-ranges: bytes"} <= set(described)
    assert server.cpu_seconds() - before < 1
