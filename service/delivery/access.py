"""Keys: who may ask, and what no cache between may give to those who may not."""

import hmac
from collections.abc import Iterable
from hashlib import sha256

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.delivery.answer import Answer
from service.delivery.headers import RawHeaders
from service.delivery.problems import UNAUTHORIZED, problem_answer
from service.errors import Unauthorized

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
