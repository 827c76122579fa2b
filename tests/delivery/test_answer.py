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


def test_a_body_of_bytes_gets_its_length() -> None:
    start, body = sent(Answer(200, {"ETag": '"a"'}, b"abc"))

    assert start["headers"] == [(b"etag", b'"a"'), (b"content-length", b"3")]
    assert body["body"] == b"abc"


def test_no_body_gets_no_length_of_its_own() -> None:
    start, body = sent(Answer(304, {"ETag": '"a"'}))

    assert start["headers"] == [(b"etag", b'"a"')]
    assert body["body"] == b""


def test_blocks_are_sent_in_order_and_ended() -> None:
    _, *bodies = sent(Answer(200, {}, numbers([], 3)))

    assert [message["body"] for message in bodies] == [b"\0", b"\1", b"\2", b""]
    assert [message.get("more_body", False) for message in bodies] == [True, True, True, False]


def test_head_sends_no_body_and_makes_no_block() -> None:
    made: list[int] = []

    _, body = sent(Answer(200, {}, numbers(made, 3)), method="HEAD")

    assert (body["body"], made) == (b"", [])


def test_a_client_that_leaves_stops_the_work() -> None:
    made: list[int] = []

    sent(Answer(200, {}, numbers(made, 200)), receive=gone)

    assert len(made) < 5
