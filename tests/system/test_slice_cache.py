"""nginx with a slice cache in front of tables that are larger than its disk."""

from collections.abc import Iterator
from hashlib import sha256

import httpx
import pytest

from tests.system import nginx
from tests.system.nginx import Edge
from tests.system.processes import wait_until
from tests.system.servers import MIB, Server

pytestmark = pytest.mark.system

CACHE_BYTES = 32 * MIB
HUGE = f"/encoding.npy?seq_len={2**30}&d_model=512&revision=1"
HUGE_BYTES = 128 + 2**30 * 512 * 4
LARGE = "/encoding.npy?seq_len=50000&d_model=512&revision=1"
LARGE_BYTES = 128 + 50_000 * 512 * 4

# Inside a slice, across two, one byte on each side, across three; far on; the end.
PARTS = {
    "the header": (0, 127),
    "inside a slice": (5 * MIB + 17, 5 * MIB + 40_000),
    "over an edge": (2**40 + 7 * MIB - 1000, 2**40 + 7 * MIB + 1000),
    "a byte on each side of an edge": (2**40 + 11 * MIB - 1, 2**40 + 11 * MIB),
    "three slices": (2**40 + 20 * MIB - 3, 2**40 + 21 * MIB + 3),
    "a whole slice": (2**39, 2**39 + MIB - 1),
    "the last bytes": (HUGE_BYTES - 130, HUGE_BYTES - 1),
    "past the end": (HUGE_BYTES - 10, HUGE_BYTES + 10),
}


@pytest.fixture(scope="module")
def edge(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    folder = tmp_path_factory.mktemp("edge")
    with nginx.before([server], folder, max_size=f"{CACHE_BYTES // MIB}m") as edge:
        yield edge


def upstream_requests(server: Server) -> int:
    """Return the number of table answers of posref."""
    return server.count("posref_answers_total", path="/encoding.{extension}")


def digest_of(url: str) -> tuple[int, str]:
    digest, length = sha256(), 0
    with httpx.stream("GET", url, timeout=60, trust_env=False) as answer:
        for block in answer.iter_raw():
            digest.update(block)
            length += len(block)
    return length, digest.hexdigest()


def assert_same(through: httpx.Response, direct: httpx.Response) -> None:
    assert (through.status_code, through.content) == (direct.status_code, direct.content)
    for name in ("Content-Range", "Content-Length", "Content-Type", "ETag", "Cache-Control"):
        assert through.headers.get(name) == direct.headers.get(name)


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_range_is_cached_with_the_bytes_of_posref(
    server: Server, edge: Edge, part: tuple[int, int]
) -> None:
    spelled = f"bytes={part[0]}-{part[1]}"
    direct = server.get(HUGE, Range=spelled)
    assert direct.status_code == httpx.codes.PARTIAL_CONTENT

    assert_same(edge.get(HUGE, Range=spelled), direct)
    before = upstream_requests(server)
    again = edge.get(HUGE, Range=spelled)

    assert_same(again, direct)
    assert again.headers["X-Cache"] == "HIT"
    assert upstream_requests(server) == before


def test_other_range_of_a_cached_slice_is_a_hit(server: Server, edge: Edge) -> None:
    first = 2**38
    edge.get(HUGE, Range=f"bytes={first + 5}-{first + 9}")
    before = upstream_requests(server)

    inside = edge.get(HUGE, Range=f"bytes={first + 77_777}-{first + 99_999}")

    assert inside.headers["X-Cache"] == "HIT"
    assert upstream_requests(server) == before
    assert inside.content == server.range(HUGE, first + 77_777, first + 99_999)


@pytest.mark.parametrize("spelled", ["bytes=-1", "bytes=-1500000", f"bytes={HUGE_BYTES - 3}-"])
def test_suffix_range_passes_the_slice_cache(server: Server, edge: Edge, spelled: str) -> None:
    assert_same(edge.get(HUGE, Range=spelled), server.get(HUGE, Range=spelled))


def test_if_range_with_the_current_tag_gets_the_range(server: Server, edge: Edge) -> None:
    tag = server.request("HEAD", HUGE).headers["ETag"]
    asks = {"Range": f"bytes={2**40}-{2**40 + 9}", "If-Range": tag}

    through = edge.get(HUGE, **asks)

    assert_same(through, server.get(HUGE, **asks))
    assert through.status_code == httpx.codes.PARTIAL_CONTENT


def test_if_range_with_another_tag_gets_the_whole(server: Server, edge: Edge) -> None:
    asks = {"Range": "bytes=5-9", "If-Range": '"of-other-bytes"'}
    small = "/encoding.npy?seq_len=2000&d_model=512"

    through = edge.get(small, **asks)

    assert_same(through, server.get(small))
    assert through.status_code == httpx.codes.OK


def test_if_none_match_with_the_current_tag_gets_304(server: Server, edge: Edge) -> None:
    tag = server.request("HEAD", LARGE).headers["ETag"]

    assert edge.get(LARGE, If_None_Match=tag).status_code == httpx.codes.NOT_MODIFIED


def test_head_describes_the_whole_table(server: Server, edge: Edge) -> None:
    assert_same(edge.head(HUGE), server.request("HEAD", HUGE))


def test_range_past_the_end_is_refused(server: Server, edge: Edge) -> None:
    past_end = f"bytes={HUGE_BYTES}-"

    assert server.get(HUGE, Range=past_end).status_code == 416
    assert edge.get(HUGE, Range=past_end).status_code == 416


def test_table_larger_than_the_slice_cache_passes_whole(server: Server, edge: Edge) -> None:
    through = digest_of(edge.url(LARGE))

    assert through == digest_of(server.url(LARGE))
    assert through[0] == LARGE_BYTES > 2 * CACHE_BYTES


def test_slice_cache_stays_within_its_bound(edge: Edge) -> None:
    for block in range(0, 3 * CACHE_BYTES, 8 * MIB):
        edge.get(HUGE, Range=f"bytes={2**37 + block}-{2**37 + block + 8 * MIB - 1}")

    assert edge.kept_bytes() > 0
    wait_until(
        "the cache is within its bound", lambda: edge.kept_bytes() <= CACHE_BYTES, seconds=120
    )
