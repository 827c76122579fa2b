"""Preconditions and ranges of requests; responses with bytes, blocks, or no body."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from service.delivery.budget import Budget
from service.delivery.responses import (
    Answer,
    CachedBody,
    Preconditions,
    requested_span,
)
from service.delivery.streams import STREAM, BodyStream
from service.errors import PreconditionFailed, RangeNotSatisfiable
from service.formats.format import WholeBody

Result = TypeVar("Result")

TAG = '"9bea89223e0df83fd52bc688c208a367"'


def test_conditional_headers_on_several_lines_are_joined() -> None:
    headers = [
        (b"if-match", b'"a"'),
        (b"if-match", b'"b"'),
        (b"if-none-match", b'"c"'),
        (b"if-range", b'"d"'),
        (b"range", b"bytes=0-1"),
    ]

    preconditions = Preconditions.of({"method": "GET", "headers": headers})

    assert preconditions == Preconditions("GET", '"a", "b"', '"c"', '"d"', "bytes=0-1")


def test_if_match_is_evaluated_before_if_none_match() -> None:
    with pytest.raises(PreconditionFailed, match="If-Match does not name"):
        Preconditions("GET", if_match='"x"', if_none_match=TAG).is_known(TAG)


@pytest.mark.parametrize("value", ["bytes=100-", "bytes=100-200", "bytes=-0", f"bytes={10**30}-"])
def test_a_range_past_the_end_is_refused_with_the_length(value: str) -> None:
    with pytest.raises(RangeNotSatisfiable, match="which has 100 bytes, 0 to 99") as raised:
        requested_span(value, 100)

    assert raised.value.length_bytes == 100


def test_digest_is_a_structured_field() -> None:
    # RFC 9530, appendix B.1: the digest of {"hello": "world"} and a line feed.
    grant = Budget(1000).grant("results", 100)
    cached = CachedBody.of([b'{"hello": ', memoryview(b'"world"}'), b"\n"], grant)

    assert cached.body == b'{"hello": "world"}\n'
    assert cached.repr_digest == "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"


async def stay_connected() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def disconnect() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def sent(
    answer: Answer, method: str = "GET", receive: Any = stay_connected
) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(message)
        await asyncio.sleep(0)

    asyncio.run(answer({"type": "http", "method": method}, receive, send))
    return messages


@dataclass(frozen=True)
class _Numbers(WholeBody):
    """A body of one byte a block, which records what is computed."""

    computed: list[int]
    count: int
    limit_bytes = 256

    def parts(self) -> Iterator[bytes]:
        for number in range(self.count):
            self.computed.append(number)
            yield bytes([number])


def numbers(computed: list[int], count: int) -> BodyStream:
    """Return a stream that computes one byte in each turn."""

    async def turn(work: Callable[[], Result]) -> Result:
        await asyncio.sleep(0)
        return work()

    return BodyStream(_Numbers(computed, count), turn, Budget(2**30))


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.delivery.schedule.TURN_SECONDS", 0)


def test_bytes_have_content_length() -> None:
    start, body = sent(Answer(200, [(b"etag", b'"a"')], b"abc"))

    assert start["headers"] == [(b"etag", b'"a"'), (b"content-length", b"3")]
    assert body["body"] == b"abc"


def test_response_without_body_has_no_added_length() -> None:
    start, body = sent(Answer(304, [(b"etag", b'"a"')]))

    assert start["headers"] == [(b"etag", b'"a"')]
    assert body["body"] == b""


def test_blocks_are_sent_in_order_with_an_end() -> None:
    _, *bodies = sent(Answer(200, [], numbers([], 3)))

    assert b"".join(message["body"] for message in bodies) == b"\0\1\2"
    assert [message.get("more_body", False) for message in bodies] == [True] * 6 + [False]


def test_block_is_computed_after_the_previous_one_is_sent() -> None:
    computed: list[int] = []
    computed_before: list[int] = []

    async def send(_: Any) -> None:
        computed_before.append(len(computed))
        await asyncio.sleep(0)

    asyncio.run(
        Answer(200, [], numbers(computed, 3))(
            {"type": "http", "method": "GET"}, stay_connected, send
        )
    )

    assert computed_before == [0, 1, 1, 2, 2, 3, 3, 3]


def test_a_server_that_takes_streams_gets_one() -> None:
    stream, messages = numbers([], 3), []

    async def send(message: Any) -> None:
        messages.append(message)
        await asyncio.sleep(0)

    scope = {"type": "http", "method": "GET", "extensions": {STREAM: {}}}
    asyncio.run(Answer(200, [], stream)(scope, stay_connected, send))

    assert messages[1:] == [{"type": STREAM, "stream": stream}]


def test_head_computes_no_block() -> None:
    computed: list[int] = []

    _, body = sent(Answer(200, [], numbers(computed, 3)), method="HEAD")

    assert (body["body"], computed) == (b"", [])


def test_disconnect_ends_the_stream() -> None:
    computed: list[int] = []

    sent(Answer(200, [], numbers(computed, 200)), receive=disconnect)

    assert len(computed) < 5
