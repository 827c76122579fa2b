"""Bodies built once and kept within bounds."""

import asyncio

import pytest

from service.delivery.cache import BodyCache


class Builder:
    """Count builds; each waits until it is let go."""

    def __init__(self) -> None:
        self.count = 0
        self.gate = asyncio.Event()

    async def build(self) -> bytes:
        self.count += 1
        await self.gate.wait()
        return b"body"


def test_however_many_ask_at_once_one_build_answers_all() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10_000), Builder()
        waiting = [asyncio.ensure_future(cache.get("key", builder.build)) for _ in range(200)]
        await asyncio.sleep(0)
        builder.gate.set()

        assert {b"body"} == set(await asyncio.gather(*waiting))
        assert 1 == builder.count == cache.builds

    asyncio.run(scenario())


def test_what_was_built_is_found() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10_000), Builder()
        builder.gate.set()
        await cache.get("key", builder.build)
        await cache.get("key", builder.build)

        assert (cache.builds, cache.hits) == (1, 1)
        assert len("key") + len("body") < cache.size_bytes <= 10_000

    asyncio.run(scenario())


def test_a_client_that_leaves_takes_no_build_from_the_others() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10_000), Builder()
        first = asyncio.ensure_future(cache.get("key", builder.build))
        second = asyncio.ensure_future(cache.get("key", builder.build))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        builder.gate.set()

        assert await second == b"body"
        assert builder.count == 1

    asyncio.run(scenario())


def test_a_build_that_fails_is_tried_again_by_the_next() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10_000), Builder()
        builder.gate.set()

        async def fail() -> bytes:
            raise ArithmeticError

        for waiting in [cache.get("key", fail), cache.get("key", fail)]:
            with pytest.raises(ArithmeticError):
                await waiting
        assert await cache.get("key", builder.build) == b"body"

    asyncio.run(scenario())


def test_a_body_larger_than_the_cache_is_built_each_time() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10), Builder()
        builder.gate.set()
        await cache.get("key", builder.build)
        await cache.get("key", builder.build)

        assert (builder.count, cache.size_bytes) == (2, 0)

    asyncio.run(scenario())
