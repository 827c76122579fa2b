"""Layers around the application.

Keys, and what is said to caches while they are asked for.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from service.delivery.middleware import Authorized, CorsMiddleware, ErrorMiddleware, private
from tests.client import Client


@pytest.mark.parametrize("url", ["/encoding?seq_len=1&d_model=2", "/encoding?seq_len=1", "/nope"])
@pytest.mark.parametrize("headers", [{}, {"Origin": "https://example.org"}])
def test_pages_of_any_origin_may_read_and_embed_every_answer(
    client: Client, url: str, headers: dict[str, str]
) -> None:
    answer = client.get(url, **headers)

    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers
    assert "ETag" in answer.headers["Access-Control-Expose-Headers"]
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert "Origin" not in answer.headers.get("Vary", "")


def test_what_a_client_already_has_is_as_open(client: Client) -> None:
    url = "/encoding.npy?seq_len=1&d_model=2"

    again = client.get(url, if_none_match=client.get(url).headers["ETag"])

    assert again.status_code == 304
    assert again.headers["Access-Control-Allow-Origin"] == "*"


def test_a_preflight_is_answered(client: Client) -> None:
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


def test_options_without_a_question_is_a_problem(client: Client) -> None:
    assert client.request("OPTIONS", "/rope/apply").status_code == 405


def test_what_is_no_request_passes_untouched() -> None:
    scopes: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope["type"])

    asyncio.run(CorsMiddleware(app)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert scopes == ["lifespan"]


def test_an_answer_that_had_begun_is_broken_off() -> None:
    messages: list[str] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        raise ArithmeticError

    async def send(message: Any) -> None:
        messages.append(message["type"])

    with pytest.raises(ArithmeticError):
        asyncio.run(ErrorMiddleware(app)({"type": "http"}, None, send))  # type: ignore[arg-type]

    assert messages == ["http.response.start"]


def test_a_client_that_leaves_while_it_sends_is_no_failure() -> None:
    messages: list[Any] = []

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise ClientDisconnect

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(ErrorMiddleware(app)({"type": "http"}, None, send))  # type: ignore[arg-type]

    assert not messages


KEYS = (b"correct-horse-battery", b"staple-0123456789")


class Asked:
    """What came back of a request that was sent through the layer, and whether it went on."""

    def __init__(self, headers: Sequence[tuple[bytes, bytes]], **scope: Any) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.went_on = False
        plain = {"type": "http", "method": "GET", "path": "/rope", "query_string": b""}
        layer = Authorized(self._app, KEYS)
        asyncio.run(layer({**plain, "headers": headers, **scope}, self._receive, self._send))

    async def _app(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.went_on = True
        headers = [(b"Cache-Control", b"public, max-age=60")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"secret"})

    async def _receive(self) -> Any:
        pytest.fail("a body was read")

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.headers |= dict(message.get("headers", ()))
        self.body += message.get("body", b"")


def bearing(credentials: bytes, **scope: Any) -> Asked:
    return Asked([(b"authorization", credentials)], **scope)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("scheme", [b"Bearer", b"bearer", b"BEARER", b"Bearer  "])
def test_each_key_opens_whatever_the_case_of_the_scheme(scheme: bytes, key: bytes) -> None:
    asked = bearing(scheme + b" " + key)

    assert (asked.status, asked.body) == (200, b"secret")
    assert asked.headers[b"cache-control"] == b"private, max-age=60"


WRONG = [
    b"",
    b"Bearer",
    b"Bearer ",
    KEYS[0],
    b"Basic " + KEYS[0],
    b"Bearer" + KEYS[0],
    b"Bearer " + KEYS[0][:-1],
    b"Bearer " + KEYS[0] + b"x",
    b"Bearer " + KEYS[0].upper(),
    b"Bearer " + b",".join(KEYS),
    b"Bearer " + b" ".join(KEYS),
    b"Bearer \xff\xfe",
    b"Bearer " + b"a" * 100_000,
]


@pytest.mark.parametrize("credentials", WRONG)
def test_what_is_not_a_key_is_refused_before_anything_is_read(credentials: bytes) -> None:
    asked = bearing(credentials)

    assert (asked.status, asked.went_on) == (401, False)
    assert asked.headers[b"www-authenticate"] == b'Bearer realm="posref", error="invalid_token"'
    assert asked.headers[b"cache-control"] == b"no-store"


def test_a_refusal_does_not_say_which_part_was_wrong() -> None:
    assert len({bearing(credentials).body for credentials in WRONG}) == 1


def test_nothing_sent_is_challenged_without_a_fault() -> None:
    asked = Asked([])

    assert (asked.status, asked.went_on) == (401, False)
    assert asked.headers[b"www-authenticate"] == b'Bearer realm="posref"'


def test_a_key_beside_another_is_none() -> None:
    right = (b"authorization", b"Bearer " + KEYS[0])

    assert Asked([right, right]).status == 401
    assert Asked([right, (b"authorization", b"Bearer no")]).status == 401


@pytest.mark.parametrize("name", [b"access_token", b"api_key", b"key", b"API_KEY", b"token"])
def test_a_key_in_the_query_opens_nothing_and_is_not_repeated(name: bytes) -> None:
    asked = Asked([], query_string=b"d_model=2&" + name + b"=" + KEYS[0])

    assert (asked.status, asked.went_on) == (401, False)
    assert b"never in the query" in asked.body
    assert KEYS[0] not in asked.body


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_probes_need_no_key(path: str, method: str) -> None:
    assert Asked([], path=path, method=method).went_on


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
def test_what_is_like_a_probe_needs_one(method: str, path: str) -> None:
    assert Asked([], path=path, method=method).status == 401


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([], b"private"),
        ([b"public, max-age=86400"], b"private, max-age=86400"),
        ([b"public, max-age=1, immutable"], b"private, max-age=1, immutable"),
        ([b"private, max-age=1"], b"private, max-age=1"),
        ([b"max-age=1", b"PUBLIC"], b"private, max-age=1"),
        ([b"no-store"], b"no-store"),
    ],
)
def test_no_answer_is_public(told: list[bytes], expected: bytes) -> None:
    headers = private([(b"etag", b'"a"'), *((b"cache-control", line) for line in told)])

    assert headers == [(b"etag", b'"a"'), (b"cache-control", expected)]


def test_access_what_is_no_request_passes_untouched() -> None:
    scopes: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope["type"])

    asyncio.run(Authorized(app, KEYS)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert scopes == ["lifespan"]
