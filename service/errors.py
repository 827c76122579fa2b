"""The exceptions of settings and requests, and words of their sentences, independent of HTTP."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

MAX_FAULTS = 10
"""The number of faults that an error names; it counts the others."""


class InvalidSettings(Exception):
    """An environment variable that cannot be used; the message names it."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a request.

    Attributes:
        where: the name of a parameter, or a JSON pointer into the body (empty for all of it), or
            None if neither applies.
        value: the invalid value, shortened, or None.
        detail: the rule that it breaks and the nearest valid value, if there is one.
        in_body: whether ``where`` is a pointer.
        suggestion: the name or the value that is likely meant, or None.
        url: the request with the suggestion, if that repairs it; None for others.
    """

    where: str | None
    value: str | None
    detail: str
    in_body: bool = False
    suggestion: str | None = None
    url: str | None = None


class PosrefError(Exception):
    """Base of every error that a client causes or can retry.

    Attributes:
        url: the URL that the faults are about, if it is not that of the request.
    """

    def __init__(self, detail: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.faults = tuple(faults)
        self.url: str | None = None


class InvalidRequest(PosrefError):
    """A well-formed request that cannot be answered."""


class InvalidParameters(InvalidRequest):
    """Parameters that are unknown, repeated, malformed, out of range or impossible together.

    Args:
        faults: what is wrong with them.
        others: how many faults there are beside these.
    """

    def __init__(self, *faults: Fault, others: int = 0) -> None:
        super().__init__(_summary(faults, others), faults[:MAX_FAULTS])


class InvalidBody(InvalidRequest):
    """A body that its media type does not allow, or with invalid content."""

    def __init__(
        self,
        detail: str,
        where: str = "",
        value: str | None = None,
        suggestion: str | None = None,
        faults: Sequence[Fault] = (),
    ) -> None:
        own = Fault(where, value, detail, in_body=True, suggestion=suggestion)
        super().__init__(detail, faults or [own])

    @classmethod
    def at(cls, *faults: Fault) -> "InvalidBody":
        """Make the error of a body with several faults."""
        return cls(_summary(faults), faults=faults[:MAX_FAULTS])


class ModelNotKnown(InvalidBody):
    """A model whose positional encodings are not known, and cannot be read from its config."""


class UnsupportedByFormat(InvalidRequest):
    """A table that the requested format cannot hold."""


class TooLarge(PosrefError):
    """Something beyond a limit of this server."""


class BodyTooLarge(TooLarge):
    """A request body beyond the limit."""


class AnswerTooLarge(TooLarge):
    """A response beyond the limit."""


class RequestTooLarge(TooLarge):
    """A request that needs more time or memory than one request can have."""


class NotFound(PosrefError):
    """A resource, or a format of it, that does not exist."""


class NotAcceptable(PosrefError):
    """An Accept header that allows none of the formats."""


class UnsupportedMediaType(PosrefError):
    """A request body in a format that is not supported."""


class RevisionRetired(PosrefError):
    """A revision of a table that is no longer served."""


class PreconditionFailed(PosrefError):
    """A precondition, such as If-Match, that names another representation."""


class RangeNotSatisfiable(PosrefError):
    """A range that starts after the end of the body."""

    def __init__(self, length_bytes: int) -> None:
        super().__init__(
            f"Range starts after the end of the body, which has {length_bytes} bytes, "
            f"0 to {length_bytes - 1}"
        )
        self.length_bytes = length_bytes


class Unauthorized(PosrefError):
    """A request without a valid API key."""


class Unavailable(PosrefError):
    """A request that may succeed after ``retry_seconds``."""

    def __init__(self, detail: str, retry_seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_seconds = retry_seconds


class Overloaded(Unavailable):
    """More load than this server accepts."""


REASONS = ("waiting", "wait_time", "connections", "bodies", "memory")
"""The reasons to refuse a valid request, as in the metric posref_refused."""

_MAX_RETRY_SECONDS = 3600


class Refusals:
    """The refused requests of a process, counted by reason."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(REASONS, 0)

    def count(self, reason: str) -> None:
        self.counts[reason] += 1

    def overloaded(self, reason: str, detail: str, seconds: float = 0.0) -> Overloaded:
        """Count a refusal, and return its error.

        Args:
            reason: one of REASONS.
            detail: the limit that was reached, and the name of its setting.
            seconds: the estimated time until the request can be answered, for Retry-After.
        """
        self.count(reason)
        return Overloaded(detail, max(1, ceil(min(seconds, _MAX_RETRY_SECONDS))))


class NotReady(Unavailable):
    """A process that is shutting down."""


class RequestNotParsed(PosrefError):
    """Bytes that could not be parsed as an HTTP request."""


class MalformedRequest(RequestNotParsed):
    """Bytes that are not an HTTP request."""


class HeadersTooLarge(RequestNotParsed):
    """A request line and headers beyond the limit."""


class URLTooLong(RequestNotParsed):
    """A URL beyond the limit."""


class VersionNotSupported(RequestNotParsed):
    """A request in a version of HTTP other than 1.0 and 1.1."""


class RequestTimeout(RequestNotParsed):
    """A request that arrives too slowly."""


def _summary(faults: Sequence[Fault], others: int = 0) -> str:
    details = "; ".join(fault.detail for fault in faults[:MAX_FAULTS])
    others += max(0, len(faults) - MAX_FAULTS)
    return details + (f"; and {others} more" if others else "")


def shortened(value: object, limit: int = 80) -> str:
    """Format a value for an error, cut to a readable length."""
    if isinstance(value, list | tuple):
        # Each item takes at least one character: later ones would be cut off anyway.
        value = value[: limit + 1]
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
    except RecursionError:
        return "…"
    return text if len(text) <= limit else f"{text[:limit]}…"


_PLURALS = {"batch": "batches", "query": "queries", "frequency": "frequencies"}


def plural(noun: str) -> str:
    """Return the plural of a noun, such as the name of an axis."""
    return _PLURALS.get(noun, f"{noun}s")


def counted(count: int, noun: str) -> str:
    """Return a number of things in words."""
    return f"{count} {noun if count == 1 else plural(noun)}"
