"""Bodies built once and kept within bounds.

Compressed bodies and digests.
"""

import asyncio
import gzip
from base64 import b64encode
from hashlib import sha256

import pytest

from service.delivery.cache import BodyCache
from service.delivery.representation import DerivedBody, _portions, checksum_line, gzipped
from service.delivery.responses import CachedBody
from service.formats.raw import BinaryBody

BUILT = CachedBody.of([b"bo", memoryview(b"dy")])


class Builder:
    """Count builds that are begun and stopped; each waits until it may end."""

    def __init__(self) -> None:
        self.begun = self.stopped = 0
        self.may_end = asyncio.Event()

    async def build(self) -> CachedBody:
        self.begun += 1
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        return BUILT


async def run_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_blocks_are_put_together_and_digested() -> None:
    digest = b64encode(sha256(b"body").digest()).decode()

    assert CachedBody(b"body", f"sha-256=:{digest}:") == BUILT


def test_however_many_ask_at_once_one_build_answers_all() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10_000), Builder()
        waiting = [asyncio.ensure_future(cache.get("key", builder.build)) for _ in range(200)]
        await asyncio.sleep(0)
        builder.may_end.set()

        assert {BUILT} == set(await asyncio.gather(*waiting))
        assert 1 == builder.begun == cache.builds
        assert (cache.hits, cache.misses) == (0, 200)

    asyncio.run(scenario())


def test_what_was_built_is_found() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10_000), Builder()
        builder.may_end.set()
        await cache.get("key", builder.build)
        await cache.get("key", builder.build)

        assert (cache.builds, cache.hits, cache.misses) == (1, 1, 1)
        assert cache.bodies.get("key") is BUILT
        assert cache.bodies.get("other") is None
        assert (cache.hits, cache.misses) == (1, 1)
        assert len("key") + len("body") < cache.bodies.size_bytes <= 10_000

    asyncio.run(scenario())


def test_build_is_cancelled_with_the_last_request_that_waits_for_it() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10_000), Builder()
        first, second = (asyncio.ensure_future(cache.get("key", builder.build)) for _ in range(2))
        await run_loop()
        first.cancel()
        await run_loop()
        assert (builder.begun, builder.stopped) == (1, 0)

        second.cancel()
        await run_loop()
        assert (builder.begun, builder.stopped) == (1, 1)

    asyncio.run(scenario())


@pytest.mark.parametrize("later", [0, 1, 5])
def test_request_after_a_cancellation_starts_a_new_build(later: int) -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10_000), Builder()
        first = asyncio.ensure_future(cache.get("key", builder.build))
        await run_loop()
        first.cancel()
        for _ in range(later):
            await asyncio.sleep(0)
        second = asyncio.ensure_future(cache.get("key", builder.build))
        await run_loop()
        builder.may_end.set()

        assert await second is BUILT
        assert (builder.begun, builder.stopped, cache.builds) == (2, 1, 2)

    asyncio.run(scenario())


def test_a_build_that_fails_is_tried_again_by_the_next() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10_000), Builder()
        builder.may_end.set()

        async def fail() -> CachedBody:
            raise ArithmeticError

        for waiting in [cache.get("key", fail), cache.get("key", fail)]:
            with pytest.raises(ArithmeticError):
                await waiting
        assert await cache.get("key", builder.build) is BUILT
        assert (cache.builds, sum(cache.build_durations.row[:-1])) == (3, 1)

    asyncio.run(scenario())


def test_a_body_that_is_forgotten_for_another_is_counted() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(600), Builder()
        builder.may_end.set()
        await cache.get("one", builder.build)
        await cache.get("two", builder.build)

        assert (cache.bodies.evictions, cache.bodies.capacity_bytes) == (1, 600)
        assert cache.bodies.get("one") is None

    asyncio.run(scenario())


def test_a_body_larger_than_the_cache_is_built_each_time() -> None:
    async def scenario() -> None:
        cache, builder = BodyCache(10), Builder()
        builder.may_end.set()
        await cache.get("key", builder.build)
        await cache.get("key", builder.build)

        assert (builder.begun, cache.bodies.size_bytes) == (2, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("missing_bytes", [0, 1])
def test_what_is_said_to_have_room_is_kept_and_nothing_else(missing_bytes: int) -> None:
    async def scenario() -> None:
        roomy, builder = BodyCache(10_000), Builder()
        builder.may_end.set()
        await roomy.get("key", builder.build)
        cache = BodyCache(roomy.bodies.size_bytes - missing_bytes)

        await cache.get("key", builder.build)

        is_kept = cache.find("key") is not None
        assert is_kept == cache.has_room_for("key", len(BUILT.body)) == (missing_bytes == 0)

    asyncio.run(scenario())


BLOCKS = [b"0.5403023,", b"0.99995,"] * 1000


def test_compressed_blocks_are_one_gzip_member_of_them_all() -> None:
    packed = b"".join(gzipped(BLOCKS))

    assert gzip.decompress(packed) == b"".join(BLOCKS)
    assert len(packed) < 500


def test_a_compressed_body_holds_no_time() -> None:
    assert b"".join(gzipped(BLOCKS))[4:8] == bytes(4)


def test_compressed_bytes_do_not_show_their_blocks() -> None:
    assert b"".join(gzipped(BLOCKS)) == b"".join(gzipped([b"".join(BLOCKS)]))


def test_a_packer_is_given_the_same_portions_whatever_the_blocks() -> None:
    whole = bytes(range(256)) * 1000
    cuts = ([whole], [whole[:1], whole[1:]], [whole[i : i + 7000] for i in range(0, 256000, 7000)])

    portions = [[bytes(portion) for portion in _portions(blocks)] for blocks in cuts]

    assert portions[0] == portions[1] == portions[2]
    assert b"".join(portions[0]) == whole
    assert [len(portion) for portion in portions[0]] == [65536, 65536, 65536, 59392]


def test_a_checksum_is_made_block_by_block() -> None:
    *waits, line = checksum_line([b"a", b"b"], "ab.bin")

    assert waits == [b"", b""]
    assert line == f"{sha256(b'ab').hexdigest()}  ab.bin\n".encode()


def test_a_digest_is_spelled_as_a_structured_field() -> None:
    # RFC 9530, appendix B.1: the digest of {"hello": "world"} and a line feed.
    expected = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"

    assert CachedBody.of([b'{"hello": "world"}\n']).repr_digest == expected


def test_a_derived_body_is_only_made_whole() -> None:
    body = DerivedBody(BinaryBody((b"abc",)), gzipped)

    assert gzip.decompress(b"".join(body.blocks())) == b"abc"
    assert (body.length_bytes, body.limit_bytes) == (None, 3)
    with pytest.raises(ValueError, match="has no parts"):
        next(body.blocks(1))
