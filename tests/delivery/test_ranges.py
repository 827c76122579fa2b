"""Which bytes a Range header means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.delivery.ranges import Span, requested_span
from service.errors import RangeNotSatisfiable


@pytest.mark.parametrize(
    ("value", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-99", 0, 100),
        ("bytes=10-19", 10, 20),
        ("bytes=10-", 10, 100),
        ("bytes=0-", 0, 100),
        ("bytes=99-99", 99, 100),
        ("bytes=99-1000", 99, 100),
        ("bytes=50-99999999999999999999999999", 50, 100),
        ("bytes=-1", 99, 100),
        ("bytes=-100", 0, 100),
        ("bytes=-1000", 0, 100),
        ("bytes=-" + "9" * 5000, 0, 100),
        ("bytes=00000000000000000000000000005-6", 5, 7),
        ("BYTES=1-2", 1, 3),
        (" bytes= 1-2 ", 1, 3),
    ],
)
def test_a_single_range_is_found(value: str, start: int, stop: int) -> None:
    assert requested_span(value, 100) == Span(start, stop)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=5-4",
        "bytes=a-b",
        "bytes=1-2x",
        "bytes=1 - 2",
        "bytes=+1-2",
        "bytes=1.0-2",
        "bytes=٣-٤",
        "rows=1-2",
        "bytes=0-1,5-6",
        "bytes=0-1,",
        "bytes=1-2-3",
        "bytes =1-2",
    ],
)
def test_whatever_is_no_single_range_is_answered_whole(value: str | None) -> None:
    assert requested_span(value, 100) is None


@pytest.mark.parametrize("value", ["bytes=100-", "bytes=100-200", "bytes=-0", f"bytes={10**30}-"])
def test_bytes_past_the_end_are_refused_with_the_length(value: str) -> None:
    with pytest.raises(RangeNotSatisfiable, match="the body has 100, numbered 0 to 99") as raised:
        requested_span(value, 100)

    assert raised.value.length_bytes == 100


@given(st.integers(1, 2**63 - 1), st.data())
def test_any_bytes_of_any_body_can_be_asked_for(length_bytes: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, length_bytes - 1))
    stop = data.draw(st.integers(start + 1, length_bytes))

    assert requested_span(f"bytes={start}-{stop - 1}", length_bytes) == Span(start, stop)
    assert requested_span(f"bytes={start}-", length_bytes) == Span(start, length_bytes)
    assert requested_span(f"bytes=-{length_bytes - start}", length_bytes) == Span(
        start, length_bytes
    )


def test_a_span_is_cut_to_a_limit_and_says_where_it_is() -> None:
    span = Span(10, 20)

    assert (span.length_bytes, span.within(4), span.within(99)) == (10, Span(10, 14), span)
    assert span.content_range(50) == "bytes 10-19/50"
