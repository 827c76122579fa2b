"""What can be wrong with a request, without a word of HTTP.

Our exception hierarchy:

* PosrefError
  + InvalidRequest
    - InvalidParameters
    - InvalidBody
    - UnsupportedByFormat
  + TooLarge
    - BodyTooLarge
    - AnswerTooLarge
  + NotFound
  + NotAcceptable
  + UnsupportedMediaType
  + RevisionRetired
  + PreconditionFailed
  + RangeNotSatisfiable
  + Unauthorized
  + Unavailable
    - Overloaded
    - NotReady
  + RequestNotParsed
    - MalformedRequest
    - HeadersTooLarge
    - URLTooLong
    - RequestTimeout
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

MAX_FAULTS = 10
"""How many faults an error names; it counts the others."""


@dataclass(frozen=True)
class Fault:
    """Point at one thing that is wrong.

    Attributes:
        where: a parameter's name, or a JSON pointer into the body (empty for all of it), or None
            where neither applies.
        value: what was sent there, shortened, or None.
        detail: the rule that it breaks and, where there is one, the nearest right spelling.
        in_body: whether where is a pointer.
    """

    where: str | None
    value: str | None
    detail: str
    in_body: bool = False


class PosrefError(Exception):
    """Base of every error whose cause a client can remove."""

    def __init__(self, detail: str, faults: Sequence[Fault] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.faults = tuple(faults)


class InvalidRequest(PosrefError):
    """A request that was understood and cannot be answered."""


class InvalidParameters(InvalidRequest):
    """Parameters that are unknown, repeated, malformed, out of range or impossible together."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(_said(faults), faults[:MAX_FAULTS])


class InvalidBody(InvalidRequest):
    """A body that is not what its media type says, or holds what cannot be worked on."""

    def __init__(
        self, detail: str, where: str = "", value: str | None = None, faults: Sequence[Fault] = ()
    ) -> None:
        super().__init__(detail, faults or [Fault(where, value, detail, in_body=True)])

    @classmethod
    def at(cls, *faults: Fault) -> "InvalidBody":
        """Make the error of a body that is wrong in several places."""
        return cls(_said(faults), faults=faults[:MAX_FAULTS])


class UnsupportedByFormat(InvalidRequest):
    """A table that the format asked for cannot hold."""


class TooLarge(PosrefError):
    """Something past a limit of this server."""


class BodyTooLarge(TooLarge):
    """A request body past the limit."""


class AnswerTooLarge(TooLarge):
    """An answer past the limit."""


class NotFound(PosrefError):
    """A resource, or a format of it, that does not exist."""


class NotAcceptable(PosrefError):
    """An Accept header that none of the formats satisfies."""


class UnsupportedMediaType(PosrefError):
    """A body in a format that is not read here."""


class RevisionRetired(PosrefError):
    """A revision of a table that used to be served."""


class PreconditionFailed(PosrefError):
    """Bytes other than those that the client wants to go on with."""


class RangeNotSatisfiable(PosrefError):
    """A range that starts where a body has ended.

    Attributes:
        length_bytes: the length of the body.
    """

    def __init__(self, length_bytes: int) -> None:
        super().__init__(
            f"Range asks for bytes that are not there: the body has {length_bytes}, "
            f"numbered 0 to {length_bytes - 1}"
        )
        self.length_bytes = length_bytes


class Unauthorized(PosrefError):
    """A request that bears none of the keys asked for."""


class Unavailable(PosrefError):
    """What would be answered at another time.

    Attributes:
        retry_seconds: when to ask again.
    """

    def __init__(self, detail: str, retry_seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_seconds = retry_seconds


class Overloaded(Unavailable):
    """More at once than this server takes on."""


class NotReady(Unavailable):
    """A process that is about to end."""


class RequestNotParsed(PosrefError):
    """A request that did not come as far as being one."""


class MalformedRequest(RequestNotParsed):
    """Bytes that are no request."""


class HeadersTooLarge(RequestNotParsed):
    """A head past the limit."""


class URLTooLong(RequestNotParsed):
    """A URL past the limit."""


class RequestTimeout(RequestNotParsed):
    """A request that comes too slowly."""


def _said(faults: Sequence[Fault]) -> str:
    named = "; ".join(fault.detail for fault in faults[:MAX_FAULTS])
    others = f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
    return named + others


def shortened(value: object, limit: int = 80) -> str:
    """Spell a value for an error, cut to a readable length."""
    if isinstance(value, list | tuple):
        # Each item takes a letter at least: those after them are cut off.
        value = value[: limit + 1]
    try:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
    except RecursionError:
        return "…"
    return text if len(text) <= limit else f"{text[:limit]}…"
