"""``Range``, compared with a letter-by-letter reading."""

from service.delivery.responses import Span, requested_span
from service.errors import RangeNotSatisfiable
from tests.fuzz.harness import Harness, Source, held_to

_READER_BYTES, _TIMES = 2**16, 16
# Longer than any body: larger numbers are not compared.
_BEYOND_BYTES = 2**63
_LENGTHS_BYTES = (1, 2, 100, 2**31, 2**63 - 1)


def check(data: bytes) -> bool:
    text = data.decode("latin-1")
    taken = [_check_body(text, length_bytes) for length_bytes in _LENGTHS_BYTES]
    return any(taken)


def _check_body(text: str, length_bytes: int) -> bool:
    bounds = _bounds(text.strip())
    try:
        with held_to(_READER_BYTES + _TIMES * len(text)):
            span = requested_span(text, length_bytes)
    except RangeNotSatisfiable as error:
        reported_bytes = error.length_bytes
        assert reported_bytes == length_bytes
        assert bounds is not None
        assert not _bytes_of(bounds, length_bytes)
        assert _is_ordered(bounds) or _is_beyond(bounds)
        return True
    if span is None:
        assert bounds is None or not _is_ordered(bounds) or _is_beyond(bounds)
        return False
    assert bounds is not None
    expected = _bytes_of(bounds, length_bytes)
    assert expected
    assert span == Span(expected[0], expected[-1] + 1)
    assert span.within(1) == Span(expected[0], expected[0] + 1)
    assert span.content_range(length_bytes) == f"bytes {expected[0]}-{expected[-1]}/{length_bytes}"
    return True


def _bounds(text: str) -> tuple[int | None, int | None] | None:
    """Parse ``bytes=first-last``; None if it is not a single range."""
    unit, is_there, rest = text.partition("=")
    first, dash, last = rest.strip(" \t").partition("-")
    if unit.lower() != "bytes" or not is_there or not dash or not (first or last):
        return None
    if not all(letter in "0123456789" for letter in first + last):
        return None
    lower, upper = (_number(digits) if digits else None for digits in (first, last))
    return lower, upper


def _is_ordered(bounds: tuple[int | None, int | None]) -> bool:
    first, last = bounds
    return first is None or last is None or first <= last


def _is_beyond(bounds: tuple[int | None, int | None]) -> bool:
    return max(bound or 0 for bound in bounds) >= _BEYOND_BYTES


def _number(digits: str) -> int:
    number = 0
    for digit in digits:
        number = min(10 * number + ord(digit) - ord("0"), 10**40)
    return number


def _bytes_of(bounds: tuple[int | None, int | None], length_bytes: int) -> range:
    first, last = bounds
    if first is None:
        return range(max(0, length_bytes - (last or 0)), length_bytes)
    return range(first, length_bytes if last is None else min(last + 1, length_bytes))


_DIGITS = ("0", "1", "99", "100", "", "00001", str(2**31), str(2**63 - 1), str(2**63), "9" * 30)
_UNITS = ("bytes", "BYTES", "Bytes", "bytes ", "rows", "")


def build(source: Source) -> bytes:
    """Build a nearly valid header."""
    unit = source.pick(_UNITS) if source.happens(8) else "bytes"
    ranges = [
        source.pick(_DIGITS)
        + (source.pick(("-", "--", "", " - ")) if source.happens(8) else "-")
        + source.pick(_DIGITS)
        for _ in range(2 if source.happens(8) else 1)
    ]
    padding = source.pick(("", "", " ", "\t", "\xa0"))
    return f"{unit}={padding}{','.join(ranges)}{padding}".encode("latin-1")


_SEEDS = (
    b"bytes=0-0",
    b"bytes=10-",
    b"bytes=-1",
    b"bytes=99-1000",
    b"bytes=0-1,5-6",
    b"bytes=5-4",
    b"bytes=" + b"9" * 3000 + b"-",
    b"bytes=9999999999999999999-99999999999999999999",
)

HARNESS = Harness(check, build, _SEEDS, (b"bytes=", b"9223372036854775807", b"-", b","))
