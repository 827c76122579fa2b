"""Ranges of tables: the same bytes from a warm cache, a cold one and without one."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.__main__ import find_body
from service.app import create_app
from service.formats.format import BLOCK_BYTES
from service.settings import Settings, default_settings
from tests.client import Client, client_of

SPECS = st.one_of(
    st.builds(
        "/encoding.{}?seq_len={}&d_model={}&start={}&dtype={}".format,
        st.sampled_from(["npy", "bin", "safetensors"]),
        st.integers(1, 40),
        st.integers(1, 9),
        st.integers(-(2**60), 2**60),
        st.sampled_from(["float32", "float64", "float16"]),
    ),
    st.builds(
        "/rope.{}?head_dim={}&seq_len={}&pack={}&dtype={}".format,
        st.sampled_from(["bin", "safetensors"]),
        st.integers(1, 5).map(lambda pairs: 2 * pairs),
        st.integers(1, 30),
        st.sampled_from(["pair", "flat", "concat"]),
        st.sampled_from(["float32", "bfloat16"]),
    ),
    st.builds(
        "/rope.safetensors?head_dim=4&seq_len={}&pack={}".format,
        st.integers(1, 30),
        st.sampled_from(["half", "compact", "interleaved"]),
    ),
    st.builds(
        "/relative.{}?d_model={}&offsets={}:{}".format,
        st.sampled_from(["npy", "bin"]),
        st.integers(1, 3).map(lambda pairs: 2 * pairs),
        st.integers(-9, 0),
        st.integers(1, 9),
    ),
)
HUGE = [
    f"/encoding.{extension}?seq_len={2**53}&d_model={width}&start={-(2**52)}"
    for extension, width in (("npy", 2), ("bin", 3), ("safetensors", 5))
]


@pytest.fixture(scope="module")
def streaming() -> Iterator[Client]:
    """Run an application without a cache."""
    with client_of(create_app(Settings(cache_entry_bytes=0))) as client:
        yield client


def test_range_of_a_table_with_a_setup_of_several_turns(streaming: Client) -> None:
    url = "/encoding.bin?d_model=16000&seq_len=30000&base=1234"
    answer = streaming.get(url, range="bytes=1000-200000")
    assert answer.status_code == 206
    assert answer.content == b"".join(find_body(url).blocks(1000, 200001))


@pytest.mark.full
@given(url=SPECS, data=st.data())
def test_ranges_of_any_partition_join_to_the_whole(
    client: Client, streaming: Client, url: str, data: st.DataObject
) -> None:
    length_bytes = int(client.head(url).headers["Content-Length"])
    inner = st.integers(1, max(1, length_bytes - 1))
    cuts = sorted({0, length_bytes, *data.draw(st.lists(inner, max_size=6))} - {length_bytes + 1})
    ranges = [
        {"range": f"bytes={start}-{stop - 1}"} for start, stop in pairwise(cuts) if stop > start
    ]

    cold = [streaming.get(url, **part) for part in ranges]
    parts = [client.get(url, **part) for part in ranges]
    whole = client.get(url)
    warm = [client.get(url, **part) for part in ranges]

    assert {answer.status_code for answer in [*cold, *parts, *warm]} == {206}
    assert len(whole.content) == length_bytes
    for answers in (cold, parts, warm):
        assert b"".join(answer.content for answer in answers) == whole.content
        assert {answer.headers["ETag"] for answer in answers} == {whole.headers["ETag"]}


@pytest.mark.full
@pytest.mark.parametrize("url", HUGE)
@given(start=st.integers(2**40, 2**55), data=st.data())
def test_adjacent_ranges_far_into_a_table_join(
    client: Client, url: str, start: int, data: st.DataObject
) -> None:
    length = data.draw(st.integers(2, 4000))
    middle = data.draw(st.integers(1, length - 1))

    def part(first: int, count: int) -> bytes:
        answer = client.get(url, range=f"bytes={first}-{first + count - 1}")
        assert answer.status_code == 206
        assert int(answer.headers["Content-Length"]) == count
        return answer.content

    assert part(start, length) == part(start, middle) + part(start + middle, length - middle)


@pytest.mark.parametrize("edge", [BLOCK_BYTES, 2**40, 2**40 + 128, 2**50])
@pytest.mark.parametrize("url", HUGE)
def test_ranges_across_block_edges_join(
    client: Client, streaming: Client, url: str, edge: int
) -> None:
    around = {"range": f"bytes={edge - 9}-{edge + 8}"}
    sides = [{"range": f"bytes={edge - 9}-{edge - 1}"}, {"range": f"bytes={edge}-{edge + 8}"}]

    whole = client.get(url, **around)

    assert (whole.status_code, len(whole.content)) == (206, 18)
    for other in (client, streaming):
        assert b"".join(other.get(url, **side).content for side in sides) == whole.content


def test_suffix_range_of_a_table_of_exabytes_is_its_last_row(client: Client) -> None:
    url = HUGE[0]
    length_bytes = int(client.head(url).headers["Content-Length"])

    suffix = client.get(url, range="bytes=-8")
    named = client.get(url, range=f"bytes={length_bytes - 8}-")
    last_row = client.get(f"/encoding.bin?positions={2**52 - 1}&d_model=2")

    assert (
        suffix.headers["Content-Range"]
        == f"bytes {length_bytes - 8}-{length_bytes - 1}/{length_bytes}"
    )
    assert suffix.content == named.content == last_row.content


def test_if_range_needs_the_current_strong_entity_tag(client: Client) -> None:
    url = "/encoding.npy?seq_len=9&d_model=8"
    whole = client.get(url)
    tag = whole.headers["ETag"]

    resumed = client.get(url, range="bytes=100-", if_range=tag)
    others = [
        client.get(url, range="bytes=100-", if_range=value)
        for value in ('"other"', f"W/{tag}", "Sat, 21 Nov 2026 00:00:00 GMT")
    ]

    assert (resumed.status_code, resumed.content) == (206, whole.content[100:])
    for other in others:
        assert (other.status_code, other.content) == (200, whole.content)


def test_preconditions_are_evaluated_before_ranges(client: Client) -> None:
    url = "/encoding.npy?seq_len=9&d_model=8"
    tag = client.get(url).headers["ETag"]

    known = client.get(url, range="bytes=0-1", if_none_match=tag)
    past = client.get(url, range="bytes=9999-", if_none_match=tag)
    lost = client.get(url, range="bytes=9999-", if_match='"other"')

    assert [answer.status_code for answer in (known, past, lost)] == [304, 304, 412]


@pytest.mark.parametrize("settings", [default_settings(), Settings(cache_entry_bytes=0)])
def test_416_has_the_length_of_the_body(settings: Settings) -> None:
    with client_of(create_app(settings)) as fresh:
        for _ in range(2):
            answer = fresh.get("/encoding.npy?seq_len=4&d_model=4", range="bytes=192-")
            fresh.get("/encoding.npy?seq_len=4&d_model=4")

            assert answer.status_code == 416
            assert answer.headers["Content-Range"] == "bytes */192"
            assert answer.json()["type"] == "urn:posref:problem:range-not-satisfiable"


@pytest.mark.parametrize("value", ["bytes=0-1,4-5", "bytes=9-1", "lines=1-2"])
def test_multiple_and_malformed_ranges_are_ignored(client: Client, value: str) -> None:
    url = "/encoding.npy?seq_len=4&d_model=4"

    for _ in range(2):
        answer = client.get(url, range=value)

        assert (answer.status_code, len(answer.content)) == (200, 192)


def test_head_ignores_ranges(client: Client) -> None:
    answer = client.request(
        "HEAD", "/encoding.npy?seq_len=4&d_model=4", headers={"Range": "bytes=0-1"}
    )

    assert (answer.status_code, answer.headers["Content-Length"]) == (200, "192")
    assert answer.headers["Accept-Ranges"] == "bytes"


@pytest.mark.full
@pytest.mark.parametrize("entry_bytes", [0, 10_000])
def test_max_response_bytes_shortens_ranges_and_refuses_whole_tables(entry_bytes: int) -> None:
    settings = Settings(max_response_bytes=100, cache_entry_bytes=entry_bytes)
    url = "/encoding.npy?seq_len=4&d_model=4"
    with client_of(create_app(settings)) as limited:
        for _ in range(2):
            part = limited.get(url, range="bytes=50-")
            rest = limited.get(url, range="bytes=150-")
            whole = limited.get(url)
            several = limited.get(url, range="bytes=0-1,3-4")

            assert part.headers["Content-Range"] == "bytes 50-149/192"
            assert (len(part.content), len(rest.content)) == (100, 42)
            assert whole.status_code == several.status_code == 413
            assert "with the header Range: bytes=0-99" in whole.json()["detail"]
