"""The load's clients detect wrong answers."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.load.answers import Answer, check
from benchmarks.load.client import Client
from benchmarks.load.plan import HOST
from benchmarks.load.requests import APPLY, COLD, KINDS, RANGE, WARM, LoadRequest, Mix, Part, get
from benchmarks.load.tally import Tally, merged
from service.__main__ import find_body

SMALL = "/encoding.npy?seq_len=4&d_model=4"
BODY = b"".join(find_body(SMALL).blocks())
WANTED = LoadRequest(WARM, get(SMALL), body=BODY)
RIGHT = Answer(200, {}, len(BODY), BODY)
PROBLEM = {b"content-type": b"application/problem+json", b"retry-after": b"1"}
OVERLOADED = json.dumps({"type": "urn:posref:problem:overloaded"}).encode()
REFUSAL = Answer(503, PROBLEM, len(OVERLOADED), OVERLOADED)


def checked(request: LoadRequest, answer: Answer) -> Tally:
    tally = Tally()
    check(request, answer, tally)
    return tally


def test_correct_answer_and_overload_refusal_are_no_failure() -> None:
    assert checked(WANTED, RIGHT).compared[WARM] == 1
    assert checked(WANTED, REFUSAL).refused == 1
    assert not checked(WANTED, RIGHT).trouble + checked(WANTED, REFUSAL).trouble


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (replace(RIGHT, status=500), "status 500"),
        (replace(RIGHT, status=206), "status 206"),
        (replace(RIGHT, body=BODY[:-1] + b"!"), "wrong bytes"),
        (replace(RIGHT, body=BODY[:-1]), "wrong bytes"),
        (replace(REFUSAL, body=b"{}"), "503 that is not deliberate"),
        (replace(REFUSAL, headers={b"retry-after": b"1"}), "503 that is not deliberate"),
        (replace(REFUSAL, headers={**PROBLEM, b"retry-after": b"soon"}), "503 without Retry-After"),
    ],
)
def test_wrong_answer_is_a_failure(answer: Answer, what: str) -> None:
    assert checked(WANTED, answer).trouble == {(WARM, what): 1}


def test_answer_of_another_length_is_a_failure() -> None:
    request = LoadRequest(COLD, get(SMALL), length_bytes=len(BODY) + 1)

    assert checked(request, RIGHT).trouble == {(COLD, "wrong length"): 1}


@pytest.mark.parametrize(("part", "trouble"), [(Part(SMALL), 0), (Part(SMALL, 1), 1)])
def test_samples_are_compared_with_freshly_computed_bytes(part: Part, trouble: int) -> None:
    tally = checked(LoadRequest(COLD, get(SMALL), sampled=part), RIGHT)

    tally.check_samples()

    assert tally.compared[COLD] == 1
    assert sum(tally.trouble.values()) == trouble


def test_mix_depends_on_its_seed_and_has_every_kind() -> None:
    known = [WANTED, LoadRequest(APPLY, b"x", body=b"y")]
    requests = [[mix.next() for _ in range(200)] for mix in (Mix(known, 1), Mix(known, 1))]

    assert requests[0] == requests[1]
    assert {each.kind for each in requests[0]} == set(KINDS)
    cold = [each.data for each in requests[0] if each.kind in {COLD, RANGE}]
    assert len(set(cold)) == len(cold)


def test_tallies_of_processes_are_added() -> None:
    whole = merged([checked(WANTED, RIGHT), checked(WANTED, REFUSAL)])

    assert whole.statuses == {(WARM, 200): 1, (WARM, 503): 1}
    assert whole.body_bytes == {WARM: len(BODY)}


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(1000):
        if is_so():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it never is")


async def first_trouble(*replies: bytes | None, think_seconds: float = 0.0) -> tuple[str, str]:
    """Return the tally of a client whose server replies so, or resets, and closes."""
    left = [*replies, b""]
    serving = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            await reader.readuntil(b"\r\n\r\n")
            reply = left.pop(0) if left else b""
            if reply is None:
                writer.transport.abort()
            else:
                writer.write(reply)
        except asyncio.IncompleteReadError:
            # After a failure the client reconnects, and may leave before a request.
            assert tally.trouble
        finally:
            writer.close()

    tally = Tally()
    async with await asyncio.start_server(serve, HOST, 0) as server:
        port: int = server.sockets[0].getsockname()[1]
        client = Client(port, Mix([WANTED], 1), tally, think_seconds)
        client._mix.next = lambda: WANTED  # type: ignore[method-assign]
        client.connect()
        await until(lambda: bool(tally.trouble))
        client.leave()
        await until(lambda: client.is_gone)
        await asyncio.gather(*filter(None, serving))
    return next(iter(tally.trouble))


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        (b"", "EOFError"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 192\r\n\r\nx", "short answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "wrong bytes"),
        (b"no answer\r\n\r\n", "malformed answer"),
    ],
)
def test_malformed_or_truncated_answer_is_a_failure(reply: bytes, what: str) -> None:
    assert asyncio.run(first_trouble(reply)) == (WARM, what)


def test_connection_reset_is_a_failure() -> None:
    kind, what = asyncio.run(first_trouble(None))

    assert kind == WARM
    assert what in {"EOFError", "ConnectionResetError"}


def test_close_of_an_idle_connection_is_a_failure() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY

    found = asyncio.run(first_trouble(whole, think_seconds=60.0))

    assert found == ("connection", "closed between answers")


def test_announced_close_is_no_failure() -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)

    assert asyncio.run(first_trouble(closing + BODY, closing + BODY, b"")) == (WARM, "EOFError")


def test_refused_connection_is_a_failure() -> None:
    async def ask() -> Tally:
        tally = Tally()
        client = Client(1, Mix([WANTED], 1), tally, 0.0)
        client.connect()
        await until(lambda: bool(tally.trouble))
        client.leave()
        return tally

    assert asyncio.run(ask()).trouble == {("connection", "ConnectionRefusedError"): 1}
