"""Memory of the edge while it sends long answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system import nginx
from tests.system.connection import connected, spelled
from tests.system.faults import children_of, memory_bytes
from tests.system.servers import MIB, Server, running

pytestmark = pytest.mark.system

HUGE = f"/encoding.npy?seq_len={2**28}&d_model=512&revision=1"
LONG = "/encoding.npy?seq_len=400000&d_model=512&revision=1"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        (HUGE, ()),
        (LONG, ()),
        (HUGE, ("Range: bytes=5-",)),
        (HUGE, ("Range: bytes=5000000000-5400000000",)),
    ],
    ids=["huge", "long", "the rest", "a long part"],
)
def test_long_answers_take_no_memory_of_the_edge(
    server: Server, tmp_path: Path, target: str, headers: tuple[str, ...]
) -> None:
    with nginx.before([server], tmp_path, max_size="65m") as edge:
        processes = children_of(edge.process.pid)
        with connected(edge.port) as connection:
            connection.send(spelled(target, *headers))
            connection.head()
            before = memory_bytes(processes)
            assert connection.received(300 * MIB) == 300 * MIB

            assert memory_bytes(processes) - before <= 16 * MIB
