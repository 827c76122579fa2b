"""Middleware: CORS, internal errors, disconnects, and API keys."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from service.delivery.middleware import Authorized, CorsMiddleware, ErrorMiddleware, private
from tests.client import Client

KEYS = (b"correct-horse-battery", b"staple-0123456789")


@pytest.mark.parametrize("url", ["/encoding?seq_len=1&d_model=2", "/encoding?seq_len=1", "/nope"])
@pytest.mark.parametrize("headers", [{}, {"Origin": "https://example.org"}])
def test_any_origin_may_read_and_embed_every_answer(
    client: Client, url: str, headers: dict[str, str]
) -> None:
    answer = client.get(url, **headers)

    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers
    assert "ETag" in answer.headers["Access-Control-Expose-Headers"]
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert "Origin" not in answer.headers.get("Vary", "")


def test_preflight_is_answered(client: Client) -> None:
    answer = client.request(
        "OPTIONS",
        "/rope/apply",
        headers={
            "Origin": "https://example.org",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        },
    )

    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, HEAD, POST"
    assert answer.headers["Access-Control-Allow-Headers"] == "content-type"


def test_options_that_is_no_preflight_is_refused(client: Client) -> None:
    assert client.request("OPTIONS", "/rope/apply").status_code == 405


@pytest.mark.parametrize(
    "middleware", [CorsMiddleware, ErrorMiddleware, lambda app: Authorized(app, KEYS)]
)
def test_other_protocols_pass(middleware: Callable[[ASGIApp], ASGIApp]) -> None:
    scopes: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope["type"])

    asyncio.run(middleware(app)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert scopes == ["lifespan"]


def test_exception_after_the_headers_reaches_the_server() -> None:
    messages: list[str] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        raise ArithmeticError

    async def send(message: Any) -> None:
        messages.append(message["type"])

    with pytest.raises(ArithmeticError):
        asyncio.run(ErrorMiddleware(app)({"type": "http"}, None, send))  # type: ignore[arg-type]

    assert messages == ["http.response.start"]


def test_disconnect_during_the_request_is_no_error() -> None:
    messages: list[Any] = []

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise ClientDisconnect

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(ErrorMiddleware(app)({"type": "http"}, None, send))  # type: ignore[arg-type]

    assert not messages


class Exchanged:
    """The response to a request through the middleware, and whether the application got it."""

    def __init__(self, headers: Sequence[tuple[bytes, bytes]], **scope: Any) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.is_passed = False
        plain = {"type": "http", "method": "GET", "path": "/rope", "query_string": b""}
        layer = Authorized(self._app, KEYS)
        asyncio.run(layer({**plain, "headers": headers, **scope}, self._receive, self._send))

    async def _app(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.is_passed = True
        headers = [(b"Cache-Control", b"public, max-age=60")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"secret"})

    async def _receive(self) -> Any:
        pytest.fail("a body was read")

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.headers |= dict(message.get("headers", ()))
        self.body += message.get("body", b"")


def request_with(credentials: bytes, **scope: Any) -> Exchanged:
    return Exchanged([(b"authorization", credentials)], **scope)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER", b"Bearer  "])
def test_each_key_is_accepted_with_any_case_of_the_scheme(scheme: bytes, key: bytes) -> None:
    response = request_with(scheme + b" " + key)

    assert (response.status, response.body) == (200, b"secret")
    assert response.headers[b"cache-control"] == b"private, max-age=60"


WRONG = [
    b"",
    b"Bearer",
    b"Bearer ",
    b"Basic " + KEYS[0],
    b"Bearer " + KEYS[0][:-1],
    b"Bearer " + KEYS[0] + b"x",
    b"Bearer " + KEYS[0].upper(),
    b"Bearer " + b",".join(KEYS),
    b"Bearer \xff\xfe",
    b"Bearer " + b"a" * 100_000,
]


@pytest.mark.parametrize("credentials", WRONG)
def test_wrong_key_is_refused_before_the_body_is_read(credentials: bytes) -> None:
    response = request_with(credentials)

    assert (response.status, response.is_passed) == (401, False)
    assert response.headers[b"www-authenticate"] == b'Bearer realm="posref", error="invalid_token"'
    assert response.headers[b"cache-control"] == b"no-store"


def test_refusals_of_all_wrong_keys_are_equal() -> None:
    assert len({request_with(credentials).body for credentials in WRONG}) == 1


def test_missing_key_is_challenged_without_an_error() -> None:
    response = Exchanged([])

    assert (response.status, response.is_passed) == (401, False)
    assert response.headers[b"www-authenticate"] == b'Bearer realm="posref"'


def test_two_authorization_headers_are_refused() -> None:
    right = (b"authorization", b"Bearer " + KEYS[0])

    assert Exchanged([right, right]).status == 401
    assert Exchanged([right, (b"authorization", b"Bearer no")]).status == 401


@pytest.mark.parametrize("name", [b"access_token", b"api_key", b"key", b"API_KEY", b"token"])
def test_key_in_the_query_is_refused_and_not_repeated(name: bytes) -> None:
    response = Exchanged([], query_string=b"d_model=2&" + name + b"=" + KEYS[0])

    assert (response.status, response.is_passed) == (401, False)
    assert b"never in the query" in response.body
    assert KEYS[0] not in response.body


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/livez"),
        ("OPTIONS", "/readyz"),
        ("GET", "/livez/"),
        ("GET", "//livez"),
        ("GET", "/LIVEZ"),
        ("GET", "/metrics"),
        ("GET", "/livez/../rope"),
    ],
)
def test_paths_and_methods_like_a_probe_need_a_key(method: str, path: str) -> None:
    assert Exchanged([], path=path, method=method).status == 401


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], b"private"),
        ([b"public, max-age=86400"], b"private, max-age=86400"),
        ([b"public, max-age=1, immutable"], b"private, max-age=1, immutable"),
        ([b"private, max-age=1"], b"private, max-age=1"),
        ([b"max-age=1", b"PUBLIC"], b"private, max-age=1"),
        ([b"no-store"], b"no-store"),
    ],
)
def test_responses_are_private(lines: list[bytes], expected: bytes) -> None:
    headers = private([(b"etag", b'"a"'), *((b"cache-control", line) for line in lines)])

    assert headers == [(b"etag", b'"a"'), (b"cache-control", expected)]
