"""Clients that leave: what nobody waits for is made no more, and what others wait for is."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from service.delivery.cache import BodyCache, Built
from service.delivery.leaving import Askers, unless_gone

BUILT = Built.of([b"body"])


class Connection:
    """What a server tells an application of its client."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})

    def leave(self) -> None:
        self.messages.put_nowait({"type": "http.disconnect"})


def test_a_client_that_stays_gets_its_answer() -> None:
    async def scenario() -> None:
        async def answering() -> str:
            await asyncio.sleep(0)
            return "answer"

        assert await unless_gone(Connection().messages.get, answering()) == "answer"

    asyncio.run(scenario())


def test_a_failure_reaches_the_client_that_stays() -> None:
    async def scenario() -> None:
        async def failing() -> None:
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            await unless_gone(Connection().messages.get, failing())

    asyncio.run(scenario())


@pytest.mark.parametrize("fails", [True, False])
def test_what_is_made_for_a_client_that_has_left_is_stopped(fails: bool) -> None:
    stopped: list[bool] = []

    async def answering() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(True)
            if fails:
                raise ArithmeticError from None
            raise

    async def scenario() -> None:
        connection = Connection()
        waiting = asyncio.ensure_future(unless_gone(connection.messages.get, answering()))
        await asyncio.sleep(0)
        connection.leave()

        with pytest.raises(ClientDisconnect):
            async with asyncio.timeout(5):
                await waiting

    asyncio.run(scenario())
    assert stopped == [True]


class Builder:
    """Count builds that are begun and stopped; each waits until it is let go."""

    def __init__(self) -> None:
        self.begun = self.stopped = 0
        self.go = asyncio.Event()

    async def build(self) -> Built:
        self.begun += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        return BUILT


Ask = Callable[[], Awaitable[Built]]


def asked_of(cache: BodyCache, builder: Builder) -> Ask:
    askers = Askers()

    async def ask() -> Built:
        return await askers.wait(
            "key", lambda: cache.get("key", lambda: askers.make("key", builder.build))
        )

    return ask


async def turns_of_the_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_whoever_leaves_last_stops_what_was_made_for_all() -> None:
    async def scenario() -> None:
        builder = Builder()
        ask = asked_of(BodyCache(10_000), builder)
        first, second = asyncio.ensure_future(ask()), asyncio.ensure_future(ask())
        await turns_of_the_loop()
        first.cancel()
        await turns_of_the_loop()
        assert (builder.begun, builder.stopped) == (1, 0)

        second.cancel()
        await turns_of_the_loop()
        assert (builder.begun, builder.stopped) == (1, 1)

    asyncio.run(scenario())


def test_whoever_comes_while_it_is_stopped_has_it_made_anew() -> None:
    async def scenario() -> None:
        builder = Builder()
        ask = asked_of(BodyCache(10_000), builder)
        first = asyncio.ensure_future(ask())
        await turns_of_the_loop()
        first.cancel()
        second = asyncio.ensure_future(ask())
        await turns_of_the_loop()
        builder.go.set()

        assert await second is BUILT
        assert (builder.begun, builder.stopped) == (2, 1)

    asyncio.run(scenario())


def test_what_was_made_is_not_stopped() -> None:
    async def scenario() -> None:
        builder, cache = Builder(), BodyCache(10_000)
        ask = asked_of(cache, builder)
        builder.go.set()

        assert await ask() is BUILT
        assert await ask() is BUILT
        assert (builder.begun, builder.stopped, cache.hits) == (1, 0, 1)

    asyncio.run(scenario())


def test_who_comes_in_the_moment_in_which_a_build_has_been_stopped_begins_another() -> None:
    async def scenario() -> None:
        askers, cache = Askers(), BodyCache(10_000)
        tries = 0

        async def build() -> Built:
            await asyncio.Event().wait()
            return BUILT

        def get() -> Awaitable[Built]:
            nonlocal tries
            tries += 1
            # Without letting the event loop turn it would be tried for ever.
            assert tries < 10
            return cache.get("key", lambda: askers.make("key", build))

        first = asyncio.create_task(askers.wait("key", get))
        for _ in range(5):
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        second = asyncio.create_task(askers.wait("key", get))
        for _ in range(5):
            await asyncio.sleep(0)
        second.cancel()
        (_, ended) = await asyncio.gather(first, second, return_exceptions=True)

        assert isinstance(ended, asyncio.CancelledError)
        assert cache.builds == 2

    asyncio.run(scenario())
