"""Layers around the application.

Keys: who may ask, and what no cache between may give to those who may not.
"""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.delivery.negotiation import OPEN_HEADERS, RawHeaders, raw
from service.delivery.problems import UNAUTHORIZED, failure_answer, problem_answer
from service.delivery.responses import Answer
from service.errors import Unauthorized

_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class CorsMiddleware:
    """Let pages of any origin read and embed every answer, without credentials.

    The headers are the same on every answer, asked for by a page or not: what a shared cache
    keeps is good for both, and nothing varies by Origin.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight; pass any other request on and open its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *OPEN_HEADERS]
            await send(message)

        preflight = _preflight(scope)
        await (preflight or self.app)(scope, receive, send_opened)


@dataclass(frozen=True)
class ErrorMiddleware:
    """Answer a failure of our own with a problem, inside the layers that complete every answer.

    The failure goes on to the server, which logs it, or breaks off an answer that had begun. A
    client that leaves while it sends is no failure.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        begun = scope["type"] != "http"

        async def send_noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, send_noted)
        except ClientDisconnect:
            return
        except Exception:
            if not begun:
                await failure_answer()(scope, receive, send)
            raise


def _preflight(scope: Scope) -> Answer | None:
    """Allow what a page asks whether it may send; None for a request that is no preflight."""
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
"""Paths that answer without a key: those who start and stop servers have none."""

_CHALLENGE = 'Bearer realm="posref"'
_REFUSED_CHALLENGE = f'{_CHALLENGE}, error="invalid_token"'
_WHERE = "send one in the header Authorization: Bearer KEY"
_NAMES_IN_QUERIES = frozenset({b"access_token", b"api_key", b"apikey", b"key", b"token"})


class Authorized:
    """Pass on what bears one of the keys; nothing else is read, looked up or worked on.

    Every answer is private: a shared cache would hand a public one to those without a key.

    Args:
        app: what is behind.
        keys: those that are taken.
    """

    def __init__(self, app: ASGIApp, keys: Iterable[bytes]) -> None:
        self._app = app
        self._digests = [sha256(key).digest() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it on and keep its answer out of shared caches."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_private(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = private(message.get("headers", ()))
            await send(message)

        refused = None if _is_probe(scope) else self._refusal(scope)
        await (refused or self._app)(scope, receive, send_private)

    def _refusal(self, scope: Scope) -> Answer | None:
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(sent) == 1 and self._is_right(sent[0]):
            return None
        detail = f"This server asks for a key, and this request bears none that it takes: {_WHERE}"
        if _has_key_in_query(scope["query_string"]):
            detail += "; never in the query, which logs and histories keep"
        challenge = {"WWW-Authenticate": _REFUSED_CHALLENGE if sent else _CHALLENGE}
        return problem_answer(UNAUTHORIZED, Unauthorized(detail), challenge)

    def _is_right(self, credentials: bytes) -> bool:
        """Compare with every key, in a time that tells neither of their lengths nor letters."""
        scheme, _, key = credentials.partition(b" ")
        sent, is_known = sha256(key.strip(b" ")).digest(), False
        for known in self._digests:
            is_known |= hmac.compare_digest(known, sent)
        return is_known and scheme.lower() == b"bearer"


def private(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Say in place of ``public``, or of nothing, that only who asked may keep an answer."""
    told = list(headers)
    lines = [value for name, value in told if name.lower() == b"cache-control"]
    words = [word.strip() for line in lines for word in line.split(b",") if word.strip()]
    kept = [word for word in words if word.lower() not in {b"public", b"private"}]
    if b"no-store" not in kept:
        kept.insert(0, b"private")
    others = [(name, value) for name, value in told if name.lower() != b"cache-control"]
    return [*others, (b"cache-control", b", ".join(kept))]


def _is_probe(scope: Scope) -> bool:
    return scope["path"] in PROBES and scope["method"] in {"GET", "HEAD"}


def _has_key_in_query(query: bytes) -> bool:
    return any(part.partition(b"=")[0].lower() in _NAMES_IN_QUERIES for part in query.split(b"&"))
