"""Finished answers, found by the request alone: what was answered once never meets the framework.

An entry holds headers and the tag of a body, not the body: that is in the cache of bodies, where
all spellings of a table share it. An entry whose body has been forgotten finds nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from service.delivery.cache import BodyCache
from service.delivery.conditional import matches_none
from service.delivery.headers import list_header
from service.lru import ByteBoundedLRU

Spelling: TypeAlias = tuple[str, bytes, str | None]
RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

_OVERHEAD_BYTES = 1024


@dataclass(frozen=True)
class Finished:
    """All that an answer is, but for its body.

    Attributes:
        tag: the entity tag, under which the body is cached.
        get, head, not_modified: the headers of the answer to GET, to HEAD, and to a client that
            has the body.
    """

    tag: str
    get: RawHeaders
    head: RawHeaders
    not_modified: RawHeaders


class FinishedAnswers:
    """Keep finished answers by the spelling of their request, up to a number of bytes."""

    def __init__(self, capacity_bytes: int) -> None:
        self._answers: ByteBoundedLRU[Spelling, Finished] = ByteBoundedLRU(capacity_bytes)

    def find(self, spelling: Spelling) -> Finished | None:
        """Return the answer of a spelling, if there is one."""
        return self._answers.get(spelling)

    def keep(
        self,
        spelling: Spelling,
        tag: str,
        headers: Mapping[str, str],
        body_headers: Mapping[str, str],
        length_bytes: int,
    ) -> None:
        """Keep an answer.

        Args:
            spelling: the request it answers.
            tag: the entity tag of its body.
            headers: those of every status.
            body_headers: those that describe the body, with the length only where it is known
                before the body is made.
            length_bytes: the length of the body.
        """
        described = {**headers, **body_headers}
        measured = {**described, "Content-Length": str(length_bytes)}
        finished = Finished(tag, _raw(measured), _raw(described), _raw(headers))
        size_bytes = 3 * sum(len(name) + len(value) for name, value in finished.get)
        path, query, accept = spelling
        size_bytes += len(path) + len(query) + len(accept or "") + _OVERHEAD_BYTES
        self._answers.put(spelling, finished, size_bytes)


def spelling_of(scope: Scope) -> Spelling:
    """Give what an answer depends on: path, raw query, and Accept where no extension decides."""
    path: str = scope["path"]
    accept = None if "." in path else list_header(scope, b"accept")
    return path, scope["query_string"], accept


@dataclass(frozen=True)
class WarmAnswers:
    """Answer what has been answered before; pass any other request on."""

    app: ASGIApp
    answers: FinishedAnswers
    cache: BodyCache

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a finished answer, if there is one."""
        finished = self._find(scope)
        body = None if finished is None else self.cache.find(finished.tag)
        if finished is None or body is None:
            await self.app(scope, receive, send)
            return
        status, headers = HTTPStatus.OK, finished.get
        tags = list_header(scope, b"if-none-match")
        if not matches_none(tags, finished.tag):
            status, headers, body = HTTPStatus.NOT_MODIFIED, finished.not_modified, b""
        elif scope["method"] == "HEAD":
            headers, body = finished.head, b""
        await send({"type": "http.response.start", "status": int(status), "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _find(self, scope: Scope) -> Finished | None:
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"}:
            return None
        return self.answers.find(spelling_of(scope))


def _raw(headers: Mapping[str, str]) -> RawHeaders:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
