"""The caches: bodies are built once and bounded; cached responses equal the first ones."""

import asyncio

import httpx
import pytest

from service.app import create_app
from service.delivery.budget import Budget, Grant
from service.delivery.cache import BodyCache, entry_bytes, request_key
from service.delivery.responses import CachedBody
from service.errors import Overloaded
from service.settings import MIB, Settings, default_settings
from tests.client import Client, client_of

LIMIT = 64 * MIB


def cache_of(capacity_bytes: int) -> BodyCache:
    return BodyCache(capacity_bytes, Budget(LIMIT))


class Builder:
    """Count builds that are begun and stopped; each waits until it may end."""

    def __init__(self) -> None:
        self.begun = self.stopped = 0
        self.may_end = asyncio.Event()

    async def build(self, grant: Grant) -> CachedBody:
        self.begun += 1
        grant.resize(1000)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        return CachedBody.of([b"bo", memoryview(b"dy")], grant)


async def run_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_concurrent_requests_share_one_build() -> None:
    async def scenario() -> None:
        cache, builder = cache_of(10_000), Builder()
        waiting = [asyncio.ensure_future(cache.get("key", builder.build)) for _ in range(200)]
        await asyncio.sleep(0)
        builder.may_end.set()

        assert set(await asyncio.gather(*waiting)) == {cache.bodies.get("key")}
        assert 1 == builder.begun == cache.builds
        assert (cache.hits, cache.misses) == (0, 200)

    asyncio.run(scenario())


def test_built_body_is_cached() -> None:
    async def scenario() -> None:
        cache, builder = cache_of(10_000), Builder()
        builder.may_end.set()
        built = await cache.get("key", builder.build)
        await cache.get("key", builder.build)

        assert (cache.builds, cache.hits, cache.misses) == (1, 1, 1)
        assert cache.bodies.get("key") is built
        assert built.body == b"body"
        assert cache.bodies.get("other") is None
        assert (cache.hits, cache.misses) == (1, 1)
        assert len("key") + len("body") < cache.bodies.size_bytes <= 10_000

    asyncio.run(scenario())


def test_build_is_cancelled_with_the_last_request_that_waits_for_it() -> None:
    async def scenario() -> None:
        cache, builder = cache_of(10_000), Builder()
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
        cache, builder = cache_of(10_000), Builder()
        first = asyncio.ensure_future(cache.get("key", builder.build))
        await run_loop()
        first.cancel()
        for _ in range(later):
            await asyncio.sleep(0)
        second = asyncio.ensure_future(cache.get("key", builder.build))
        await run_loop()
        builder.may_end.set()

        assert (await second).body == b"body"
        assert (builder.begun, builder.stopped, cache.builds) == (2, 1, 2)

    asyncio.run(scenario())


def test_failed_build_is_repeated_by_the_next_request() -> None:
    async def scenario() -> None:
        cache, builder = cache_of(10_000), Builder()
        builder.may_end.set()

        async def fail(_: Grant) -> CachedBody:
            raise ArithmeticError

        for waiting in [cache.get("key", fail), cache.get("key", fail)]:
            with pytest.raises(ArithmeticError):
                await waiting
        assert (await cache.get("key", builder.build)).body == b"body"
        assert (cache.builds, sum(cache.build_durations.row[:-1])) == (3, 1)

    asyncio.run(scenario())


def test_evictions_are_counted() -> None:
    async def scenario() -> None:
        cache, builder = cache_of(600), Builder()
        builder.may_end.set()
        await cache.get("one", builder.build)
        await cache.get("two", builder.build)

        assert (cache.bodies.evictions, cache.bodies.capacity_bytes) == (1, 600)
        assert cache.bodies.get("one") is None

    asyncio.run(scenario())


def test_body_larger_than_the_cache_is_built_each_time() -> None:
    async def scenario() -> None:
        cache, builder = cache_of(10), Builder()
        builder.may_end.set()
        await cache.get("key", builder.build)
        await cache.get("key", builder.build)

        assert (builder.begun, cache.bodies.size_bytes) == (2, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("missing_bytes", [0, 1])
def test_body_is_kept_if_has_room_for_says_so(missing_bytes: int) -> None:
    async def scenario() -> None:
        roomy, builder = cache_of(10_000), Builder()
        builder.may_end.set()
        await roomy.get("key", builder.build)
        cache = cache_of(roomy.bodies.size_bytes - missing_bytes)

        await cache.get("key", builder.build)

        is_kept = cache.find("key") is not None
        assert is_kept == cache.has_room_for("key", len(b"body")) == (missing_bytes == 0)

    asyncio.run(scenario())


def granted_to(budget: Budget, *kinds: str) -> list[int]:
    return [budget.granted()[kind] for kind in kinds]


def test_entries_are_granted_as_results_while_built_and_then_as_cache() -> None:
    async def scenario() -> None:
        budget, builder = Budget(LIMIT), Builder()
        cache = BodyCache(10_000, budget)
        getting = asyncio.ensure_future(cache.get("key", builder.build))
        await run_loop()
        assert granted_to(budget, "results", "cache") == [1000, 0]

        builder.may_end.set()
        await getting
        assert granted_to(budget, "results", "cache") == [0, cache.bodies.size_bytes]
        assert cache.bodies.size_bytes == entry_bytes("key", len(b"body")) < 1000

    asyncio.run(scenario())


def test_failed_and_cancelled_builds_give_their_grants_back() -> None:
    async def scenario() -> None:
        budget, builder = Budget(LIMIT), Builder()
        cache = BodyCache(10_000, budget)

        async def fail(grant: Grant) -> CachedBody:
            grant.resize(500)
            raise ArithmeticError

        with pytest.raises(ArithmeticError) as failed:
            await cache.get("key", fail)
        getting = asyncio.ensure_future(cache.get("key", builder.build))
        await run_loop()
        getting.cancel()
        await run_loop()

        # The traceback still refers to the grants.
        assert failed.traceback
        assert (builder.stopped, budget.granted_bytes) == (1, 0)

    asyncio.run(scenario())


@pytest.mark.parametrize("capacity_bytes", [10, 600, 10_000])
def test_body_that_is_not_cached_is_granted_while_anything_refers_to_it(
    capacity_bytes: int,
) -> None:
    async def scenario() -> None:
        budget, builder = Budget(LIMIT), Builder()
        cache = BodyCache(capacity_bytes, budget)
        builder.may_end.set()
        sent = memoryview((await cache.get("key", builder.build)).body)[1:]
        await cache.get("other", builder.build)
        await run_loop()
        budget.shrink_cache(capacity_bytes)

        assert granted_to(budget, "results", "cache") == [entry_bytes("key", len(b"body")), 0]
        assert bytes(sent) == b"ody"
        del sent
        assert budget.granted_bytes == 0

    asyncio.run(scenario())


def test_cache_gives_way_to_other_uses_of_the_memory() -> None:
    async def scenario() -> None:
        budget = Budget(LIMIT)
        cache = BodyCache(budget.most_cache_bytes, budget)

        async def build(grant: Grant) -> CachedBody:
            grant.resize(3 * MIB)
            return CachedBody.of([bytes(2 * MIB)], grant)

        for number in range(20):
            await cache.get(f"key{number}", build)
        assert granted_to(budget, "results", "cache") == [0, cache.bodies.size_bytes]
        body = budget.grant("bodies", 40 * MIB)

        assert granted_to(budget, "cache") == [cache.bodies.size_bytes]
        assert 0 < cache.bodies.size_bytes <= 8 * MIB
        with pytest.raises(Overloaded, match="POSREF_MEMORY_BYTES"):
            await asyncio.gather(*[cache.get(f"new{number}", build) for number in range(5)])
        body.release()
        assert len((await cache.get("new", build)).body) == 2 * MIB

    asyncio.run(scenario())


def test_cache_takes_at_most_half_of_the_memory() -> None:
    settings = default_settings().model_copy(update={"memory_bytes": 312 * MIB})
    delivery = create_app(settings).state.delivery

    assert delivery.cache.bodies.capacity_bytes == 52.5 * MIB
    assert granted_to(delivery.budget, "cache") == [3.5 * MIB]


URLS = [
    "/encoding.npy?seq_len=5&d_model=6",
    "/encoding.json?seq_len=5&d_model=6&revision=1",
    "/encoding?seq_len=5&d_model=6",
    "/rope.safetensors?head_dim=4&seq_len=3&pack=half",
]


def break_routes(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every request that reaches a route fail."""

    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr("service.delivery.plans.parse_query", fail)
    assert client.get("/encoding?seq_len=9&d_model=9").status_code == 500


def content_of(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers, without the id of the request."""
    headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    return answer.status_code, answer.content, headers


@pytest.mark.parametrize(
    ("raw_path", "query", "target"),
    [(b"/x.npy", b"a=1", b"/x.npy?a=1"), (b"/x.npy", b"", b"/x.npy"), (None, b"a", b"/x.npy?a")],
)
def test_key_is_the_target_and_the_accept_headers(
    raw_path: bytes | None, query: bytes, target: bytes
) -> None:
    headers = [(b"accept", b"a/b"), (b"host", b"x"), (b"accept", b"c/d")]
    scope = {"path": "/x.npy", "raw_path": raw_path, "query_string": query, "headers": headers}

    assert request_key(scope) == (target, b"a/b, c/d", None)


@pytest.mark.parametrize("url", URLS)
def test_cached_response_equals_the_first_and_reaches_no_route(
    fresh_client: Client, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    get, head = fresh_client.get(url), fresh_client.head(url)
    seen = fresh_client.get(url, if_none_match=get.headers["ETag"])
    with client_of(create_app(default_settings())) as cold:
        assert content_of(cold.head(url)) == content_of(head)
        assert content_of(cold.get(url, if_none_match=get.headers["ETag"])) == content_of(seen)
    break_routes(fresh_client, monkeypatch)

    assert content_of(fresh_client.get(url)) == content_of(get)
    assert content_of(fresh_client.get(url, if_none_match='"other"')) == content_of(get)
    assert (head.status_code, head.content) == (200, b"")
    assert (seen.status_code, seen.content) == (304, b"")


def test_cached_responses_differ_by_accept(
    fresh_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_answer = fresh_client.get("/encoding?seq_len=2&d_model=2", accept="application/json")
    npy_answer = fresh_client.get("/encoding?seq_len=2&d_model=2", accept="application/x-npy")
    break_routes(fresh_client, monkeypatch)

    for answer, accept in ((json_answer, "application/json"), (npy_answer, "application/x-npy")):
        again = fresh_client.get("/encoding?seq_len=2&d_model=2", accept=accept)
        assert content_of(again) == content_of(answer)
    assert json_answer.content != npy_answer.content


@pytest.mark.full
@pytest.mark.parametrize(
    "url", ["/encoding?seq_len=2", "/nope", "/livez", "/encoding.npy?seq_len=2&d_model=2"]
)
def test_only_successful_gets_of_tables_are_cached(fresh_client: Client, url: str) -> None:
    fresh_client.request("POST", url, json={})
    fresh_client.head(url)
    answer = fresh_client.get(url)

    kept = len(fresh_client.app.state.delivery.response_cache._responses)
    assert kept == (answer.status_code == 200 and url.startswith("/encoding"))


def test_response_with_an_evicted_body_is_computed_again() -> None:
    with client_of(create_app(Settings(cache_bytes=20_000))) as small:
        first = small.get("/encoding.npy?seq_len=64&d_model=64&dtype=float16")
        small.get("/encoding.npy?seq_len=64&d_model=65&dtype=float16")
        small.get("/encoding.npy?seq_len=64&d_model=66&dtype=float16")
        again = small.get("/encoding.npy?seq_len=64&d_model=64&dtype=float16")

        assert content_of(again) == content_of(first)
        assert small.app.state.delivery.cache.builds == 4


@pytest.mark.full
def test_memory_of_cached_responses_is_bounded() -> None:
    settings = Settings(cache_bytes=16 * 50_000)
    with client_of(create_app(settings)) as small:
        responses = small.app.state.delivery.response_cache
        kept = responses._responses
        for number in range(1, 100):
            small.get("/encoding.npy?seq_len=1&d_model=2", accept=f"a/b{number}, */*")

        assert kept.size_bytes <= kept.capacity_bytes
        assert kept.capacity_bytes + responses._received.capacity_bytes == 50_000
        assert 5 < len(kept) < 30


@pytest.mark.full
def test_refusals_of_cached_and_uncached_tables_are_the_same(fresh_client: Client) -> None:
    url = "/encoding.npy?seq_len=5&d_model=6"
    refused = [{"range": "bytes=9999-"}, {"if_match": '"x"'}]
    cold = [content_of(fresh_client.get(url, **headers)) for headers in refused]
    fresh_client.get(url)

    warm = [content_of(fresh_client.get(url, **headers)) for headers in refused]

    assert warm == cold
    assert [status for status, _, _ in warm] == [416, 412]
