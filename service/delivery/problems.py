"""Problem documents (RFC 9457): the status code, type and title of each error.

Also the headers of HTML pages, with the content security policy of each page.
"""

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from service import errors
from service.delivery.negotiation import HTML_MEDIA_TYPE, raw, unknown_path
from service.delivery.responses import Answer

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True)
class ProblemType:
    """A problem type: the last part of its URI, its status code and its title."""

    name: str
    status: int
    title: str

    @property
    def uri(self) -> str:
        """The URI in the problem member ``type``; it never changes."""
        return f"urn:posref:problem:{self.name}"


class MethodNotAllowed(errors.PosrefError):
    """The error for a method that no route of the path accepts."""

    def __init__(self, method: str, allowed: str) -> None:
        super().__init__(f"{method} is not possible here; these methods are: {allowed}")
        self.allowed = allowed


TYPES: Mapping[type[errors.PosrefError], ProblemType] = MappingProxyType(
    {
        MethodNotAllowed: ProblemType("method-not-allowed", 405, "Method not allowed"),
        errors.InvalidParameters: ProblemType("invalid-parameters", 422, "Invalid parameters"),
        errors.InvalidBody: ProblemType("invalid-body", 422, "Invalid body"),
        errors.ModelNotKnown: ProblemType("model-not-known", 422, "Model not known"),
        errors.UnsupportedByFormat: ProblemType(
            "unsupported-by-format", 422, "Not possible in this format"
        ),
        errors.NotFound: ProblemType("not-found", 404, "Not found"),
        errors.NotAcceptable: ProblemType("not-acceptable", 406, "Not acceptable"),
        errors.RevisionRetired: ProblemType("revision-retired", 410, "Revision retired"),
        errors.PreconditionFailed: ProblemType("precondition-failed", 412, "Precondition failed"),
        errors.BodyTooLarge: ProblemType("body-too-large", 413, "Body too large"),
        errors.AnswerTooLarge: ProblemType("answer-too-large", 413, "Answer too large"),
        errors.RequestTooLarge: ProblemType("request-too-large", 413, "Request too large"),
        errors.UnsupportedMediaType: ProblemType(
            "unsupported-media-type", 415, "Unsupported media type"
        ),
        errors.RangeNotSatisfiable: ProblemType(
            "range-not-satisfiable", 416, "Range not satisfiable"
        ),
        errors.Unauthorized: ProblemType("unauthorized", 401, "Unauthorized"),
        errors.Overloaded: ProblemType("overloaded", 503, "Overloaded"),
        errors.NotReady: ProblemType("not-ready", 503, "Not ready"),
        errors.MalformedRequest: ProblemType("malformed-request", 400, "Malformed request"),
        errors.HeadersTooLarge: ProblemType("headers-too-large", 431, "Headers too large"),
        errors.URLTooLong: ProblemType("url-too-long", 414, "URL too long"),
        errors.RequestTimeout: ProblemType("request-timeout", 408, "Request timeout"),
        errors.VersionNotSupported: ProblemType(
            "version-not-supported", 505, "HTTP version not supported"
        ),
        errors.PosrefError: ProblemType("internal-error", 500, "Internal error"),
    }
)
"""The problem type of each error class; PosrefError itself is an internal error."""

FAILURE = errors.PosrefError("The server failed; the request may be sent again. Its log says more.")

_NO_THREAD = "can't start new thread"
"""The message of the RuntimeError of a thread that the system refuses."""


def problem_of(error: errors.PosrefError) -> dict[str, object]:
    """Return the problem document of an error; its member ``errors`` lists the faults."""
    problem = TYPES[type(error)]
    return {
        "type": problem.uri,
        "title": problem.title,
        "status": problem.status,
        "detail": error.detail,
        "errors": [_fault_document(fault) for fault in error.faults],
    }


def _fault_document(fault: errors.Fault) -> dict[str, str | None]:
    place = {"pointer" if fault.in_body else "parameter": fault.where}
    said = {"detail": fault.detail, "suggestion": fault.suggestion, "url": fault.url}
    every = {**place, "value": fault.value, **said}
    return {name: text for name, text in every.items() if text is not None or name == "value"}


def _headers(error: errors.PosrefError) -> dict[str, str]:
    if isinstance(error, errors.RangeNotSatisfiable):
        return {"Content-Range": f"bytes */{error.length_bytes}"}
    if isinstance(error, errors.Unavailable):
        return {"Retry-After": str(error.retry_seconds)}
    if isinstance(error, MethodNotAllowed):
        return {"Allow": error.allowed}
    return {}


def refusal(error: errors.PosrefError, headers: Mapping[str, str] | None = None) -> Answer:
    """Return the problem response for an error; it is never cached.

    Args:
        error: the error.
        headers: further headers of the response.
    """
    fixed = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"}
    every = {**fixed, **_headers(error), **(headers or {})}
    return Answer(TYPES[type(error)].status, raw(every), orjson.dumps(problem_of(error)))


def add_problem_handlers(
    app: Starlette,
    named: Callable[[], Awaitable[Mapping[str, str]]],
    repaired: Callable[[Request, errors.PosrefError], Awaitable[Sequence[errors.Fault]]],
) -> None:
    """Make the app answer every error with a problem document.

    Args:
        app: the application.
        named: returns the path and query of each convention by its name, for hints; raises
            Overloaded where it cannot import them now.
        repaired: returns the faults of a GET with the URLs that repair it; raises Overloaded.
    """
    names: dict[str, str] = {}

    async def refuse(request: Request, error: Exception) -> Answer:
        assert isinstance(error, errors.PosrefError)
        if request.method in {"GET", "HEAD"} and any(each.suggestion for each in error.faults):
            # Without URLs the problem is poorer.
            with suppress(errors.Overloaded):
                error.faults = tuple(await repaired(request, error))
        return refusal(error)

    async def refuse_thread(_: Request, error: Exception) -> Answer:
        if str(error) != _NO_THREAD:
            raise error
        return refusal(errors.Overloaded("the server has reached its limit of processes"))

    async def refuse_route(request: Request, error: Exception) -> Answer:
        assert isinstance(error, HTTPException)
        if error.status_code == TYPES[MethodNotAllowed].status:
            allowed = _allowed_methods(request) or (error.headers or {}).get("Allow", "")
            return refusal(MethodNotAllowed(request.method, allowed))
        known = {route.path for route in request.app.routes if isinstance(route, Route)}
        plain = [path for path in known if "{" not in path]
        if not names:
            # Without them a hint is poorer.
            with suppress(errors.Overloaded):
                names.update(await named())
        return await refuse(request, unknown_path(request.scope["path"], plain, lambda: names))

    app.add_exception_handler(errors.PosrefError, refuse)
    app.add_exception_handler(RuntimeError, refuse_thread)
    app.add_exception_handler(HTTPException, refuse_route)


def _allowed_methods(request: Request) -> str:
    """Return the methods of all routes of the path; Starlette would list only one route's."""
    methods = {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.path_regex.match(request.scope["path"])
        for method in route.methods or ()
    }
    return ", ".join(sorted(methods))


_INLINE = {
    kind: re.compile(rf"<{kind}>(.*?)</{kind}>", re.DOTALL | re.IGNORECASE)
    for kind in ("script", "style")
}


def html_headers(policy: str, cache_control: str) -> dict[str, str]:
    """Return the headers of an HTML page with this Content-Security-Policy."""
    return {
        "Content-Type": f"{HTML_MEDIA_TYPE}; charset=utf-8",
        "Cache-Control": cache_control,
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
    }


def content_policy(page: str) -> str:
    """Return the Content-Security-Policy of a page.

    It allows resources of the same server, and the page's inline scripts and styles by hash; it
    forbids forms, ``<base>`` and embedding in frames.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_allowed(_INLINE['script'].findall(page))}",
            f"style-src {_allowed(_INLINE['style'].findall(page))}",
            "img-src 'self' data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def _allowed(inline: Iterable[str]) -> str:
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in inline)
    return " ".join(["'self'", *(f"'sha256-{digest}'" for digest in digests)])
