"""Middleware: CORS, internal errors, and API keys."""

import asyncio
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.delivery.clients import CLIENT
from service.delivery.negotiation import OPEN_HEADERS, RawHeaders, raw
from service.delivery.problems import FAILURE, refusal
from service.delivery.responses import Answer
from service.errors import Unauthorized

_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class CorsMiddleware:
    """Adds CORS headers: pages of any origin may read and embed responses, without credentials.

    The headers do not depend on Origin, so a shared cache can serve every client.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_open(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *OPEN_HEADERS]
            await send(message)

        preflight = _preflight(scope)
        await (preflight or self.app)(scope, receive, send_open)


@dataclass(frozen=True)
class ErrorMiddleware:
    """Answers an unexpected exception with a problem response.

    The exception is raised again: the server logs it, and aborts a response that has begun. A
    client that disconnects while it sends a body is not an error, nor is a request that is
    cancelled because the server ends.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = scope["type"] != "http"

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        except (ClientDisconnect, asyncio.CancelledError):
            return
        except Exception:
            if not has_begun:
                await refusal(FAILURE)(scope, receive, send)
            raise


def _preflight(scope: Scope) -> Answer | None:
    """Return the response to a CORS preflight, None for any other request."""
    if scope["method"] != "OPTIONS":
        return None
    headers = Headers(scope=scope)
    if "access-control-request-method" not in headers:
        return None
    allowed = {
        "Access-Control-Allow-Methods": "GET, HEAD, POST",
        "Access-Control-Allow-Headers": headers.get("access-control-request-headers", "*"),
        "Access-Control-Max-Age": str(_DAY_SECONDS),
        "Vary": "Access-Control-Request-Headers",
    }
    return Answer(HTTPStatus.NO_CONTENT, raw(allowed))


PROBES = frozenset({"/livez", "/readyz"})
"""Probe paths, which need no API key."""

ASSETS = "/explorer/"
"""The path of the files that pages load, which need no API key either."""

_CHALLENGE = 'Bearer realm="posref"'
_REFUSED_CHALLENGE = f'{_CHALLENGE}, error="invalid_token"'
_WHERE = "send one in the header Authorization: Bearer KEY"
_NAMES_IN_QUERIES = frozenset({b"access_token", b"api_key", b"apikey", b"key", b"token"})


class Authorized:
    """Refuses requests without a valid API key, before any other work.

    Every response gets ``Cache-Control: private``, because a shared cache does not check keys.
    """

    def __init__(self, app: ASGIApp, keys: Iterable[bytes]) -> None:
        self._app = app
        self._digests = [sha256(key).digest() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_private(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = private(message.get("headers", ()))
            await send(message)

        refused = None if _is_open(scope) else self._refusal(scope)
        await (refused or self._app)(scope, receive, send_private)

    def _refusal(self, scope: Scope) -> Answer | None:
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(sent) == 1 and self._is_right(sent[0]):
            return None
        detail = f"The server needs an API key, and the request has no valid one: {_WHERE}"
        if _has_key_in_query(scope["query_string"]):
            detail += "; never in the query, which logs and histories keep"
        challenge = {"WWW-Authenticate": _REFUSED_CHALLENGE if sent else _CHALLENGE}
        return refusal(Unauthorized(detail), challenge)

    def _is_right(self, credentials: bytes) -> bool:
        """Return whether credentials hold a valid key; the time does not depend on the keys.

        The digest of a valid key is the name of the client.
        """
        scheme, _, key = credentials.partition(b" ")
        sent, is_known = sha256(key.strip(b" ")).digest(), False
        for known in self._digests:
            is_known |= hmac.compare_digest(known, sent)
        if not is_known or scheme.lower() != b"bearer":
            return False
        CLIENT.set(sent.hex())
        return True


def private(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Return the headers with Cache-Control changed to private; no-store is kept."""
    others: RawHeaders = []
    directives: list[bytes] = []
    for name, value in headers:
        if name.lower() == b"cache-control":
            directives += filter(None, map(bytes.strip, value.split(b",")))
        else:
            others.append((name, value))
    kept = [each for each in directives if each.lower() not in {b"public", b"private"}]
    if b"no-store" not in kept:
        kept.insert(0, b"private")
    return [*others, (b"cache-control", b", ".join(kept))]


def _is_open(scope: Scope) -> bool:
    is_known = scope["path"] in PROBES or scope["path"].startswith(ASSETS)
    return is_known and scope["method"] in {"GET", "HEAD"}


def _has_key_in_query(query: bytes) -> bool:
    return any(part.partition(b"=")[0].lower() in _NAMES_IN_QUERIES for part in query.split(b"&"))
