"""Ranges of bytes, as pure functions (RFC 9110, §14)."""

import re
from dataclasses import dataclass

from service.errors import RangeNotSatisfiable

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
