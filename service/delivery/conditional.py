"""Ranges, entity tags and preconditions (RFC 9110, §14, §8.8.3 and §13)."""

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
from service.numerics.tables import Document, ParameterValue

_SINGLE = re.compile(r"bytes=[ \t]*([0-9]*)-([0-9]*)[ \t]*", re.ASCII | re.IGNORECASE)

# Past every byte that a body can have; longer digit strings are not parsed.
_BEYOND_BYTES = 10**19
_MAX_DIGITS = 19


@dataclass(frozen=True)
class Span:
    """The bytes from start to stop of a body, one at least."""

    start: int
    stop: int

    @property
    def length_bytes(self) -> int:
        """The number of bytes."""
        return self.stop - self.start

    def within(self, limit_bytes: int) -> "Span":
        """Return the first bytes of the range, as many as a limit allows."""
        return Span(self.start, min(self.stop, self.start + limit_bytes))

    def content_range(self, length_bytes: int) -> str:
        """Return the value of Content-Range for a body of a length."""
        return f"bytes {self.start}-{self.stop - 1}/{length_bytes}"


def requested_span(value: str | None, length_bytes: int) -> Span | None:
    """Return the range that a Range header requests, None for the whole body.

    The whole body answers a header that is missing or malformed, has another unit or several
    ranges: a recipient may always ignore the header.

    Args:
        value: the header, or None.
        length_bytes: length of the whole body, at least 1.

    Raises:
        RangeNotSatisfiable: the range begins past the end.
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
    """Return a number of bytes; a number past any body becomes _BEYOND_BYTES."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= _MAX_DIGITS else _BEYOND_BYTES


_ENTITY_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def entity_tag(document: Document, form: Format, variant: str = "") -> str:
    """Return the entity tag of a document in a format, without computing its bytes.

    It is strong: parameters, format, revision and the version of the encoder fix the bytes. The
    tag of a picture is weak: another machine may draw different bytes.

    Args:
        document: the document.
        form: the format.
        variant: the name of a transformation of the bytes, such as ``sha256``; empty for none.
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
    """Return the text of ``json.dumps``, long lists part by part."""
    if not any(isinstance(value, tuple) for value in parameters.values()):
        return json.dumps(dict(parameters))
    each = (f"{json.dumps(name)}: {parameter_text(value)}" for name, value in parameters.items())
    return f"{{{', '.join(each)}}}"


def weak(tag: str) -> str:
    """Return the weak form of an entity tag: equivalent bodies, not necessarily the same bytes."""
    return f"W/{tag}"


def matches_any(if_match: str | None, tag: str) -> bool:
    """Return whether a strong tag of If-Match is this one, or the header is absent or ``*``."""
    if if_match is None or if_match.strip() == "*":
        return True
    return any(not is_weak and match == tag for is_weak, match in _ENTITY_TAG.findall(if_match))


def matches_none(if_none_match: str | None, tag: str) -> bool:
    """Return whether no tag of If-None-Match is this one; tags are compared weakly."""
    if if_none_match is None:
        return True
    if if_none_match.strip() == "*":
        return False
    opaque = tag.removeprefix("W/")
    return all(match != opaque for _, match in _ENTITY_TAG.findall(if_none_match))


@dataclass(frozen=True)
class Preconditions:
    """The conditional headers and the range of a request.

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
    def of(cls, scope: Scope) -> "Preconditions":
        names = (b"if-match", b"if-none-match", b"if-range", b"range")
        return cls(scope["method"], *(list_header(scope, name) for name in names))

    def is_known(self, tag: str) -> bool:
        """Return whether the client has the tag already; raises PreconditionFailed."""
        if not matches_any(self.if_match, tag):
            raise PreconditionFailed(
                f"If-Match does not name the current tag: {shortened(self.if_match)}, "
                f"the current one is {tag}"
            )
        return not matches_none(self.if_none_match, tag)

    def span(self, tag: str, length_bytes: int) -> Span | None:
        """Return the requested range, None for the whole body.

        A client whose If-Range is another tag, or a date, gets the whole body.
        """
        if self.method != "GET" or self.if_range not in {None, tag}:
            return None
        return requested_span(self.range, length_bytes)
