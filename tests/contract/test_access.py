"""With POSREF_API_KEYS: nothing without a key, and the same answers with one, but private."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from service.app import create_app
from service.delivery.middleware import ASSETS, PROBES
from service.settings import default_settings
from tests.client import Client, client_of
from tests.contract.kinds import ASSET, KINDS, paths

KEY = "correct-horse-battery"
WITH_KEY = {"Authorization": f"Bearer {KEY}"}
CACHED = "/encoding.npy?seq_len=7&d_model=6"
PRIVATE = "private, max-age=86400"


@pytest.fixture(scope="module")
def locked() -> Iterator[Client]:
    settings = default_settings().model_copy(update={"api_keys": SecretStr(f"{KEY},{'x' * 16}")})
    with client_of(create_app(settings)) as client:
        yield client


@pytest.fixture
def scopes(locked: Client) -> Iterator[list[dict[str, Any]]]:
    """Record the ASGI scope of each request."""
    recorded: list[dict[str, Any]] = []
    app: Any = locked.app

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        recorded.append(scope)
        await app(scope, receive, send)

    http = locked._http
    transport = httpx.ASGITransport(recording)
    locked._http = httpx.AsyncClient(transport=transport, base_url="http://posref.test")
    yield recorded
    locked.run(locked._http.aclose())
    locked._http = http


def headers_of(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name != "x-request-id"}


def test_every_route_but_probes_refuses_requests_without_a_key(
    locked: Client, scopes: list[dict[str, Any]]
) -> None:
    cache = locked.app.state.delivery.cache
    builds = cache.builds

    for path, method in product(paths(), ["GET", "HEAD", "POST"]):
        answer = locked.request(method, f"{path}?seq_len=2&d_model=2", content=b"x" * 1000)

        if (path in PROBES or path.startswith(ASSETS)) and method != "POST":
            assert answer.status_code == 422
            continue
        assert answer.status_code == 401, (method, path)
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="posref"'
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        if method != "HEAD":
            assert answer.json()["type"] == "urn:posref:problem:unauthorized"
        assert "route" not in scopes[-1]
    assert cache.builds == builds


def test_a_key_opens_a_route(locked: Client, scopes: list[dict[str, Any]]) -> None:
    url = "/rope?head_dim=4&seq_len=2"
    assert locked.request("GET", url, headers=WITH_KEY).status_code == 200
    assert "route" in scopes[0]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("url", KINDS.values(), ids=KINDS)
def test_answers_with_a_key_are_those_without_keys_but_private(
    locked: Client, client: Client, method: str, url: str
) -> None:
    answer, public = locked.request(method, url, headers=WITH_KEY), client.request(method, url)

    assert answer.status_code == public.status_code
    assert answer.content == public.content
    headers, expected = headers_of(answer), headers_of(public)
    control = headers.pop("cache-control")
    assert control == expected.pop("cache-control", "").replace("public", "private") or (
        url == ASSET and control == "private"
    )
    assert headers == expected


def test_cached_answers_need_a_key_too(locked: Client) -> None:
    first, second = (locked.request("GET", CACHED, headers=WITH_KEY) for _ in range(2))

    assert first.content == second.content
    assert headers_of(first) == headers_of(second)
    assert first.headers["Cache-Control"] == PRIVATE
    for headers in ({}, {"If-None-Match": first.headers["ETag"]}, {"Range": "bytes=0-3"}):
        assert locked.request("GET", CACHED, headers=headers).status_code == 401
        assert locked.request("HEAD", CACHED, headers=headers).content == b""


@pytest.mark.parametrize(
    ("headers", "status"), [({"If-None-Match": "*"}, 304), ({"Range": "bytes=0-3"}, 206)]
)
def test_304_and_206_are_private(locked: Client, headers: dict[str, str], status: int) -> None:
    for _ in range(2):
        answer = locked.request("GET", CACHED, headers=WITH_KEY | headers)

        assert answer.status_code == status
        assert answer.headers["Cache-Control"] == PRIVATE


@pytest.mark.parametrize("path", sorted(PROBES))
def test_probes_need_no_key(locked: Client, path: str) -> None:
    assert locked.get(path).status_code == 200
    assert locked.head(path).status_code == 200


def test_preflight_needs_no_key_and_allows_the_authorization_header(locked: Client) -> None:
    answer = locked.request(
        "OPTIONS",
        "/rope/apply",
        headers={
            "Origin": "https://example.org",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        },
    )

    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Headers"] == "authorization"


def test_options_that_is_no_preflight_needs_a_key(locked: Client) -> None:
    assert locked.request("OPTIONS", "/rope/apply").status_code == 401


def test_refusals_are_counted(locked: Client) -> None:
    def refused() -> float:
        lines = locked.request("GET", "/metrics", headers=WITH_KEY).text.splitlines()
        counts = [line for line in lines if line.startswith("posref_answers_total")]
        return sum(float(line.split()[-1]) for line in counts if 'status="401"' in line)

    before = refused()
    locked.get("/rope")

    assert refused() == before + 1


def test_without_configured_keys_authorization_is_ignored(client: Client) -> None:
    assert client.get("/rope?head_dim=4&seq_len=2").status_code == 200
    answer = client.get("/rope.npy?head_dim=4&seq_len=2&pack=flat", authorization="Bearer any")
    assert answer.headers["Cache-Control"] == "public, max-age=86400"
