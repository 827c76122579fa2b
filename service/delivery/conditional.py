"""Ranges of bytes, as pure functions (RFC 9110, §14).

Entity tags, and what requests ask about them, as pure functions (RFC 9110, §8.8.3 and §13).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from starlette.types import Scope

from service.delivery.negotiation import list_header
from service.errors import PreconditionFailed, RangeNotSatisfiable, shortened
from service.formats.format import Format
from service.formats.json_text import parameter_text
from service.numerics.document import Document, ParameterValue

_SINGLE = re.compile(r"bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.ASCII | re.IGNORECASE)

# Beyond every byte there can be, and every number that is read digit by digit.
_BEYOND_BYTES = 10**19
_MAX_DIGITS = 19


@dataclass(frozen=True)
class Span:
    """The bytes from start to stop of a body, one at least."""

    start: int
    stop: int

    @property
    def length_bytes(self) -> int:
        """How many they are."""
        return self.stop - self.start

    def within(self, limit_bytes: int) -> "Span":
        """Give as many of them, from the first on, as a limit allows."""
        return Span(self.start, min(self.stop, self.start + limit_bytes))

    def content_range(self, length_bytes: int) -> str:
        """Say where they are in a body of a length."""
        return f"bytes {self.start}-{self.stop - 1}/{length_bytes}"


def requested_span(value: str | None, length_bytes: int) -> Span | None:
    """Find the bytes that a Range header asks for; None where the whole body answers it.

    The whole body answers no header, one that is malformed or of another unit, and several ranges
    at once: a recipient may always ignore the header.

    Args:
        value: the header, or None.
        length_bytes: length of the whole body, at least 1.

    Raises:
        RangeNotSatisfiable: none of the bytes asked for exist.
    """
    match = None if value is None else _SINGLE.fullmatch(value.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        start, stop = max(0, length_bytes - _number(match[2])), length_bytes
    else:
        start = _number(match[1])
        last = _number(match[2]) if match[2] else length_bytes - 1
        if match[2] and last < start:
            return None
        stop = min(last + 1, length_bytes)
    if start >= length_bytes:
        raise RangeNotSatisfiable(length_bytes)
    return Span(start, stop)


def _number(digits: str) -> int:
    """Read digits; what is past any body is as good as its end."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= _MAX_DIGITS else _BEYOND_BYTES


_ENTITY_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def entity_tag(document: Document, form: Format, variant: str = "") -> str:
    """Name the bytes of a document in a format, without making one of them.

    It is strong: spec, format and revision fix the bytes, and so does the encoder's version
    where the format has one. That of a drawing is weak: another machine may draw it another way.

    Args:
        document: what is written.
        form: how.
        variant: what is made of those bytes, as in ``sha256``, or nothing.
    """
    arrays = [[name, table.shape, table.dtype.name] for name, table in document.arrays.items()]
    described = ", ".join(
        [
            json.dumps([document.kind, document.revision])[1:-1],
            _dumped(document.parameters),
            json.dumps([arrays, form.extension, form.version, *([variant] if variant else ())])[1:],
        ]
    )
    tag = f'"{sha256(f"[{described}".encode()).hexdigest()[:32]}"'
    return weak(tag) if form.is_drawn else tag


def _dumped(parameters: Mapping[str, ParameterValue]) -> str:
    """Spell parameters as ``json.dumps`` does, long lists by parts."""
    if not any(isinstance(value, tuple) for value in parameters.values()):
        return json.dumps(dict(parameters))
    each = (f"{json.dumps(name)}: {parameter_text(value)}" for name, value in parameters.items())
    return f"{{{', '.join(each)}}}"


def weak(tag: str) -> str:
    """Make a tag of bytes that mean the same everywhere, but need not be the same."""
    return f"W/{tag}"


def matches_any(if_match: str | None, tag: str) -> bool:
    """Tell whether these are the bytes to go on with: a strong tag of If-Match is this one."""
    if if_match is None or if_match.strip() == "*":
        return True
    return any(not is_weak and match == tag for is_weak, match in _ENTITY_TAG.findall(if_match))


def matches_none(if_none_match: str | None, tag: str) -> bool:
    """Tell whether the client has not got these bytes: no tag of If-None-Match is this one."""
    if if_none_match is None:
        return True
    if if_none_match.strip() == "*":
        return False
    opaque = tag.removeprefix("W/")
    return all(match != opaque for _, match in _ENTITY_TAG.findall(if_none_match))


@dataclass(frozen=True)
class Preconditions:
    """What a request says about bytes: those it has, those it goes on with, those it wants.

    Attributes:
        method: GET or HEAD.
        if_match, if_none_match, if_range, range: the headers of that name, or None.
    """

    method: str
    if_match: str | None = None
    if_none_match: str | None = None
    if_range: str | None = None
    range: str | None = None

    @classmethod
    def by(cls, scope: Scope) -> "Preconditions":
        """Read a request."""
        names = (b"if-match", b"if-none-match", b"if-range", b"range")
        return cls(scope["method"], *(list_header(scope, name) for name in names))

    def is_known(self, tag: str) -> bool:
        """Tell whether the client has the bytes of a tag; raises PreconditionFailed."""
        if not matches_any(self.if_match, tag):
            raise PreconditionFailed(
                f"If-Match names other bytes than there are now: {shortened(self.if_match)}, "
                f"and this is {tag}"
            )
        return not matches_none(self.if_none_match, tag)

    def span(self, tag: str, length_bytes: int) -> Span | None:
        """Find the part that is wanted of the bytes of a tag; None for all of them.

        A client that holds a part of other bytes, or knows them by a date, gets the whole.
        """
        if self.method != "GET" or self.if_range not in {None, tag}:
            return None
        return requested_span(self.range, length_bytes)
