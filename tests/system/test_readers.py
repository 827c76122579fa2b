"""Tables of terabytes, read in parts over HTTP by fsspec."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import fsspec
import numpy as np
import pytest
from fsspec.implementations.http import HTTPFileSystem
from numpy.lib import format as npy

from tests.system.servers import KIB, Server, posref_get

pytestmark = pytest.mark.system

WIDTH = 512
TABLE = f"/encoding.npy?seq_len={2**31}&d_model={WIDTH}"
TABLE_BYTES = 128 + 2**31 * WIDTH * 4
ROPE = f"/rope.safetensors?seq_len={2**34}&head_dim=128&pack=half&dtype=bfloat16"
FIRST, ROWS = 1_234_567_891, 64
AHEAD_BYTES = 64 * KIB


@pytest.fixture(scope="module")
def remote() -> Iterator[HTTPFileSystem]:
    """Yield an fsspec file system whose connection is closed afterwards."""
    system = fsspec.filesystem("http", skip_instance_cache=True)
    yield system
    HTTPFileSystem.close_session(system.loop, system._session)


@contextmanager
def opened(remote: HTTPFileSystem, url: str) -> Iterator[BinaryIO]:
    with remote.open(url, block_size=AHEAD_BYTES, cache_type="readahead") as file:
        yield file


def sent(server: Server) -> int:
    return server.count("posref_answer_body_bytes_total", path="/encoding.{extension}")


def test_numpy_memmap_reads_rows_of_a_table_of_four_tebibytes(
    server: Server, remote: HTTPFileSystem, tmp_path: Path
) -> None:
    with opened(remote, server.url(TABLE)) as file:
        assert npy.read_magic(file) == (1, 0)
        shape, is_fortran, dtype = npy.read_array_header_1_0(file)
        assert (shape, is_fortran, dtype) == ((2**31, WIDTH), False, np.dtype("<f4"))

        row_bytes = WIDTH * dtype.itemsize
        file.seek(file.tell() + FIRST * row_bytes)
        rows = np.frombuffer(file.read(ROWS * row_bytes), dtype).reshape(ROWS, WIDTH)

    same = f"/encoding.npy?start={FIRST}&seq_len={ROWS}&d_model={WIDTH}"
    np.testing.assert_array_equal(rows, np.load(posref_get(same, tmp_path / "rows.npy")))


def test_only_the_blocks_read_are_sent(server: Server, remote: HTTPFileSystem) -> None:
    before = sent(server)

    with opened(remote, server.url(TABLE)) as file:
        assert file.seek(0, 2) == TABLE_BYTES
        for place in (-1_000_003, -5):
            file.seek(place, 2)
            assert len(file.read(1000)) == min(1000, -place)

    assert 1005 <= sent(server) - before <= 2 * AHEAD_BYTES


def test_safetensors_header_locates_its_tensor(
    server: Server, remote: HTTPFileSystem, tmp_path: Path
) -> None:
    def rows(file: BinaryIO, first: int) -> bytes:
        header_bytes = int.from_bytes(file.read(8), "little")
        sine = json.loads(file.read(header_bytes))["sin"]
        assert sine["dtype"] == "BF16"
        file.seek(8 + header_bytes + sine["data_offsets"][0] + first * 128 * 2)
        return file.read(ROWS * 128 * 2)

    with opened(remote, server.url(ROPE)) as huge:
        read = rows(huge, FIRST)

    same = ROPE.replace(f"seq_len={2**34}", f"start={FIRST}&seq_len={ROWS}")
    with posref_get(same, tmp_path / "rows.safetensors").open("rb") as small:
        assert read == rows(small, 0)
