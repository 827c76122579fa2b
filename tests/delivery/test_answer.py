"""Answers with a body, with blocks, and with none."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from service.delivery.answer import Answer


async def connected() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def gone() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def sent(answer: Answer, method: str = "GET", receive: Any = connected) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(message)
        await asyncio.sleep(0)

    asyncio.run(answer({"type": "http", "method": method}, receive, send))
    return messages


async def numbers(made: list[int], count: int) -> AsyncGenerator[bytes, None]:
    for number in range(count):
        made.append(number)
        yield bytes([number])
        await asyncio.sleep(0)


def test_a_body_of_bytes_gets_its_length() -> None:
    start, body = sent(Answer(200, [(b"etag", b'"a"')], b"abc"))

    assert start["headers"] == [(b"etag", b'"a"'), (b"content-length", b"3")]
    assert body["body"] == b"abc"


def test_no_body_gets_no_length_of_its_own() -> None:
    start, body = sent(Answer(304, [(b"etag", b'"a"')]))

    assert start["headers"] == [(b"etag", b'"a"')]
    assert body["body"] == b""


def test_blocks_are_sent_in_order_and_ended() -> None:
    _, *bodies = sent(Answer(200, [], numbers([], 3)))

    assert b"".join(message["body"] for message in bodies) == b"\0\1\2"
    assert [message.get("more_body", False) for message in bodies] == [True] * 6 + [False]


def test_no_block_is_made_before_the_one_before_it_is_taken() -> None:
    made: list[int] = []
    taken: list[int] = []

    # A server's send waits until what it was given before is taken.
    async def send(_: Any) -> None:
        taken.append(len(made))
        await asyncio.sleep(0)

    asyncio.run(
        Answer(200, [], numbers(made, 3))({"type": "http", "method": "GET"}, connected, send)
    )

    assert taken == [0, 1, 1, 2, 2, 3, 3, 3]


def test_head_sends_no_body_and_makes_no_block() -> None:
    made: list[int] = []

    _, body = sent(Answer(200, [], numbers(made, 3)), method="HEAD")

    assert (body["body"], made) == (b"", [])


def test_a_client_that_leaves_stops_the_work() -> None:
    made: list[int] = []

    sent(Answer(200, [], numbers(made, 200)), receive=gone)

    assert len(made) < 5


def test_blocks_may_be_counted_before_they_are_sent() -> None:
    made: list[int] = []

    start, *bodies = sent(Answer(200, [], numbers(made, 3), numbers(made, 3)))

    assert start["headers"] == [(b"content-length", b"3")]
    assert b"".join(message["body"] for message in bodies) == b"\0\1\2"
    assert made == [0, 1, 2, 0, 1, 2]


def test_nothing_is_counted_for_a_client_that_has_gone() -> None:
    counted: list[int] = []

    assert sent(Answer(200, [], numbers([], 99), numbers(counted, 99)), receive=gone) == []
    assert len(counted) < 5
