"""Problem documents (RFC 9457): the only module with the status codes of failures.

Also the headers of HTML pages, with the content security policy of each page.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from service import errors
from service.delivery.negotiation import RawHeaders, raw
from service.delivery.parameters import nearest
from service.delivery.responses import Answer

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True)
class ProblemType:
    """A type of problem.

    Attributes:
        name: the last part of its URI.
        status: the status code.
        title: the title of every occurrence.
    """

    name: str
    status: int
    title: str

    @property
    def uri(self) -> str:
        """The value of ``type``: stable, and the same on every server."""
        return f"urn:posref:problem:{self.name}"


INVALID_PARAMETERS = ProblemType("invalid-parameters", 422, "Invalid parameters")
INVALID_BODY = ProblemType("invalid-body", 422, "Invalid body")
UNSUPPORTED_BY_FORMAT = ProblemType("unsupported-by-format", 422, "Not possible in this format")
NOT_FOUND = ProblemType("not-found", 404, "Not found")
METHOD_NOT_ALLOWED = ProblemType("method-not-allowed", 405, "Method not allowed")
NOT_ACCEPTABLE = ProblemType("not-acceptable", 406, "Not acceptable")
REVISION_RETIRED = ProblemType("revision-retired", 410, "Revision retired")
BODY_TOO_LARGE = ProblemType("body-too-large", 413, "Body too large")
PRECONDITION_FAILED = ProblemType("precondition-failed", 412, "Precondition failed")
ANSWER_TOO_LARGE = ProblemType("answer-too-large", 413, "Answer too large")
UNSUPPORTED_MEDIA_TYPE = ProblemType("unsupported-media-type", 415, "Unsupported media type")
RANGE_NOT_SATISFIABLE = ProblemType("range-not-satisfiable", 416, "Range not satisfiable")
MALFORMED_REQUEST = ProblemType("malformed-request", 400, "Malformed request")
UNAUTHORIZED = ProblemType("unauthorized", 401, "Unauthorized")
REQUEST_TIMEOUT = ProblemType("request-timeout", 408, "Request timeout")
URL_TOO_LONG = ProblemType("url-too-long", 414, "URL too long")
HEADERS_TOO_LARGE = ProblemType("headers-too-large", 431, "Headers too large")
OVERLOADED = ProblemType("overloaded", 503, "Overloaded")
NOT_READY = ProblemType("not-ready", 503, "Not ready")
INTERNAL_ERROR = ProblemType("internal-error", 500, "Internal error")

_OF_ERROR: Mapping[type[errors.PosrefError], ProblemType] = MappingProxyType(
    {
        errors.InvalidParameters: INVALID_PARAMETERS,
        errors.InvalidBody: INVALID_BODY,
        errors.UnsupportedByFormat: UNSUPPORTED_BY_FORMAT,
        errors.NotFound: NOT_FOUND,
        errors.NotAcceptable: NOT_ACCEPTABLE,
        errors.RevisionRetired: REVISION_RETIRED,
        errors.PreconditionFailed: PRECONDITION_FAILED,
        errors.BodyTooLarge: BODY_TOO_LARGE,
        errors.AnswerTooLarge: ANSWER_TOO_LARGE,
        errors.UnsupportedMediaType: UNSUPPORTED_MEDIA_TYPE,
        errors.RangeNotSatisfiable: RANGE_NOT_SATISFIABLE,
        errors.Unauthorized: UNAUTHORIZED,
        errors.Overloaded: OVERLOADED,
        errors.NotReady: NOT_READY,
        errors.MalformedRequest: MALFORMED_REQUEST,
        errors.HeadersTooLarge: HEADERS_TOO_LARGE,
        errors.URLTooLong: URL_TOO_LONG,
        errors.RequestTimeout: REQUEST_TIMEOUT,
    }
)
FAILURE = errors.PosrefError("The server failed; the request may be sent again. Its log says more.")
PROBLEM_TYPES = (METHOD_NOT_ALLOWED, *_OF_ERROR.values(), INTERNAL_ERROR)


def problem_document(problem: ProblemType, error: errors.PosrefError) -> dict[str, object]:
    """Return the members of a problem document, with ``errors`` for the faults."""
    return {
        "type": problem.uri,
        "title": problem.title,
        "status": problem.status,
        "detail": error.detail,
        "errors": [_fault_document(fault) for fault in error.faults],
    }


def _fault_document(fault: errors.Fault) -> dict[str, str | None]:
    described = {"value": fault.value, "detail": fault.detail}
    if fault.where is None:
        return described
    return {"pointer" if fault.in_body else "parameter": fault.where, **described}


def problem_of(error: errors.PosrefError) -> dict[str, object]:
    """Return the problem document of an error."""
    return problem_document(_OF_ERROR[type(error)], error)


def problem_answer(
    problem: ProblemType, error: errors.PosrefError, headers: Mapping[str, str] | None = None
) -> Answer:
    """Return a response with a problem; it is never cached."""
    body = orjson.dumps(problem_document(problem, error))
    fixed = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"}
    return Answer(problem.status, raw({**fixed, **(headers or {})}), body)


def _headers(error: errors.PosrefError) -> dict[str, str]:
    if isinstance(error, errors.RangeNotSatisfiable):
        return {"Content-Range": f"bytes */{error.length_bytes}"}
    if isinstance(error, errors.Unauthorized):
        return {"WWW-Authenticate": 'Bearer realm="posref"'}
    if isinstance(error, errors.Unavailable):
        return {"Retry-After": str(error.retry_seconds)}
    return {}


def refusal(error: errors.PosrefError) -> Answer:
    """Return the response to an error."""
    return problem_answer(_OF_ERROR[type(error)], error, _headers(error))


def failure_answer() -> Answer:
    """Return the response to an internal error; the log has the details."""
    return problem_answer(INTERNAL_ERROR, FAILURE)


def add_problem_handlers(app: FastAPI, named: Mapping[str, str]) -> None:
    """Answer every error of an application with a problem document.

    Args:
        app: the application.
        named: the URLs of conventions, for requests that take their names for paths.
    """

    async def ours(_: Request, error: Exception) -> Answer:
        assert isinstance(error, errors.PosrefError)
        return refusal(error)

    async def framework(request: Request, error: Exception) -> Answer:
        assert isinstance(error, HTTPException)
        if error.status_code == METHOD_NOT_ALLOWED.status:
            return _method_not_allowed(request, error)
        return _not_found(request, named)

    app.add_exception_handler(errors.PosrefError, ours)
    app.add_exception_handler(HTTPException, framework)


def _method_not_allowed(request: Request, error: HTTPException) -> Answer:
    allowed = _allowed_methods(request) or (error.headers or {}).get("Allow", "")
    detail = f"{request.method} is not possible here; these methods are: {allowed}"
    return problem_answer(METHOD_NOT_ALLOWED, errors.PosrefError(detail), {"Allow": allowed})


def _allowed_methods(request: Request) -> str:
    """Return the methods of every route of a path; Starlette names those of one route."""
    methods = {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.path_regex.match(request.scope["path"])
        for method in route.methods or ()
    }
    return ", ".join(sorted(methods))


def _not_found(request: Request, named: Mapping[str, str]) -> Answer:
    known = {route.path for route in request.app.routes if isinstance(route, Route)}
    plain = [path for path in known if "{" not in path]
    return problem_answer(NOT_FOUND, unknown_path(request.scope["path"], plain, named))


def unknown_path(
    path: str, known: Iterable[str], named: Mapping[str, str] | None = None
) -> errors.NotFound:
    """Return the error of an unknown path.

    Args:
        path: the path of the request.
        known: the known paths.
        named: the URLs of conventions.
    """
    name = path.rpartition("/")[2].partition(".")[0]
    paths = list(known)
    same = [each for each in paths if name and each.endswith(f"/{name}")]
    meant = same[0] if len(same) == 1 else (named or {}).get(name)
    near = meant or nearest(path, paths)
    hint = f"did you mean {near}?" if near else "/ lists what is here"
    return errors.NotFound(f"There is no {errors.shortened(path)}; {hint}")


HTML_MEDIA_TYPE = "text/html"

_INLINE = {
    kind: re.compile(rf"<{kind}>(.*?)</{kind}>", re.DOTALL | re.IGNORECASE)
    for kind in ("script", "style")
}


def html_headers(page: str, cache_control: str, vary: str = "") -> RawHeaders:
    """Return the headers of an HTML page.

    Args:
        page: the page.
        cache_control: the value of Cache-Control.
        vary: the value of Vary, or nothing.
    """
    headers = {
        "Content-Type": f"{HTML_MEDIA_TYPE}; charset=utf-8",
        "Cache-Control": cache_control,
        "Content-Security-Policy": content_policy(page),
        "Referrer-Policy": "no-referrer",
    }
    return raw(headers | ({"Vary": vary} if vary else {}))


def content_policy(page: str) -> str:
    """Return the policy of a page: its own server, and its inline scripts and styles by hash.

    Frames, forms and base addresses are forbidden.
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
