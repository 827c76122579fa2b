"""The grammar of values, compared with a plain expansion and with JSON numbers."""

import json
import re
from collections.abc import Callable
from itertools import chain
from math import isfinite
from typing import Any

from service import grammar
from service.numerics.phase import MAX_POSITION
from service.numerics.positions import MIN_REAL_POSITION, Positions, RealPositions
from tests.fuzz.harness import Harness, Source, held_to

_READER_BYTES, _TIMES = 2**18, 512
_MOST_EXPANDED = 20_000
_INTEGER = re.compile(r"-?[0123456789]{1,40}\Z")
_READERS: tuple[Callable[[Any], Any], ...] = (
    grammar.integer,
    grammar.real,
    grammar.boolean,
    grammar.reals,
    grammar.integers,
    grammar.positions,
    grammar.real_positions,
)


def check(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    if text.startswith(("[", "{")):
        return _check_value(text)
    limit_bytes = _READER_BYTES + _TIMES * len(text)
    _check_numbers(text, limit_bytes)
    expected = _ranges(text)
    read = _read(grammar.positions, text, limit_bytes)
    _check_real(text, read, limit_bytes)
    assert (read is None) == (expected is None)
    if read is None or expected is None:
        return False
    _check_expanded(read, expected)
    return True


def _check_value(text: str) -> bool:
    """Check that typed values are read, or refused by ValueError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    read = [_read(reader, value, _READER_BYTES + _TIMES * len(text)) for reader in _READERS]
    if not isinstance(read[5], Positions) or not all(type(item) is int for item in value):
        return read[5] is not None
    assert read[5] == grammar.positions(",".join(map(str, value)))
    assert read[5].at(0, len(value)).tolist() == value
    return True


def _read(reader: Callable[[Any], Any], value: Any, limit_bytes: int) -> Any:
    """Return a value that is read, or None after a short ValueError."""
    try:
        with held_to(limit_bytes):
            return reader(value)
    except ValueError as error:
        message = str(error)
    assert 0 < len(message) < 500
    return None


def _check_numbers(text: str, limit_bytes: int) -> None:
    items = text.split(",")
    numbers = [_json_number(item) for item in items]
    plain = [number for number in numbers if number is not None]
    reals = _read(grammar.reals, text, limit_bytes)
    assert (reals is None) == (len(plain) < len(items))
    assert reals is None or [repr(real) for real in reals] == [repr(real) for real in plain]
    integers = _read(grammar.integers, text, limit_bytes)
    assert (integers is None) == (not all(_is_integer(item) for item in items))
    assert integers is None or list(integers) == [int(item) for item in items]
    assert _read(grammar.real, text, limit_bytes) == _json_number(text)
    assert _read(grammar.boolean, text, limit_bytes) == {"true": True, "false": False}.get(text)


def _is_integer(item: str) -> bool:
    return _INTEGER.match(item) is not None and len(item) <= 40


def _json_number(text: str) -> float | None:
    """Return a JSON number in the range of binary64, with zero positive."""
    if len(text) > 800 or not text or text[-1] not in "0123456789" or text[0] not in "-0123456789":
        return None
    try:
        value = json.loads(text, parse_int=float)
    except ValueError:
        return None
    return float(value) + 0.0 if isfinite(value) else None


def _ranges(text: str) -> list[range] | None:
    """Return each item as a range; None if one is malformed."""
    ranges: list[range] = []
    for item in text.split(","):
        parts = item.split(":")
        if len(parts) > 3 or not all(_is_integer(part) for part in parts):
            return None
        numbers = [int(part) for part in parts]
        if len(numbers) == 1:
            numbers.append(numbers[0] + 1)
        if numbers[2:] == [0]:
            return None
        ranges.append(range(*numbers))
        if not ranges[-1] or max(abs(ranges[-1][0]), abs(ranges[-1][-1])) > MAX_POSITION:
            return None
    return ranges if sum(map(_count, ranges)) < 2**63 else None


def _count(each: range) -> int:
    return (each[-1] - each[0]) // each.step + 1


def _check_expanded(read: Positions, ranges: list[range]) -> None:
    count = sum(map(_count, ranges))
    assert read.count == count
    assert grammar.positions(str(read)) == read
    assert read.at(0, 1).tolist() == [ranges[0][0]]
    assert read.at(count - 1, count).tolist() == [ranges[-1][-1]]
    assert read.least == min(min(each[0], each[-1]) for each in ranges)
    assert read.most == max(max(each[0], each[-1]) for each in ranges)
    if count > _MOST_EXPANDED:
        return
    expanded = list(chain.from_iterable(ranges))
    assert read.at(0, count).tolist() == expanded
    assert (
        read.at(count // 3, count - count // 4).tolist()
        == expanded[count // 3 : count - count // 4]
    )
    assert grammar.positions(expanded) == read
    assert read.is_contiguous == (expanded == list(range(expanded[0], expanded[0] + count)))


def _check_real(text: str, whole: Positions | None, limit_bytes: int) -> None:
    read = _read(grammar.real_positions, text, limit_bytes)
    if not any(letter in text for letter in ".eE"):
        assert read == whole
        return
    numbers = [_json_number(item) for item in text.split(",")]
    plain = [number for number in numbers if number is not None]
    in_range = all(x == 0 or MIN_REAL_POSITION <= abs(x) <= MAX_POSITION for x in plain)
    assert (read is not None) == (len(plain) == len(numbers) and in_range)
    if read is None:
        return
    assert isinstance(read, RealPositions) != all(number.is_integer() for number in plain)
    assert read.at(0, read.count).tolist() == plain


_NUMBERS = (
    "0",
    "1",
    "2",
    "5",
    "-3",
    "7",
    "20",
    "-0",
    "007",
    "1000",
    str(2**62),
    str(-(2**62)),
    str(2**62 + 1),
    str(2**63),
    "9" * 41,
    "0.5",
    "1e3",
    "1e-31",
    "1.0",
    "",
    " 1",
    "+1",
    "1_0",
    "\u0665",
    "true",
)


def build(source: Source) -> bytes:
    """Build a nearly valid list of numbers and ranges."""
    items = [
        ":".join(_number(source) for _ in range(source.pick((1, 1, 2, 3, 4))))
        for _ in range(source.integer(1, 6))
    ]
    if source.happens(8):
        quoted = [item if source.happens(2) else json.dumps(item) for item in items]
        return f"[{','.join(quoted)}]".encode()
    return ",".join(items).encode()


def _number(source: Source) -> str:
    if source.happens(16):
        return source.pick(_NUMBERS)
    return str(source.integer(-20, 20)) if source.happens(2) else source.pick(_NUMBERS[:9])


_SEEDS = (
    b"0,5,9:20:2",
    b"10:0:-3,1:2",
    b"3,3,3,4,5,6",
    b"0:4611686018427387905",
    b"-4611686018427387904:4611686018427387905:9223372036854775808",
    b"0.5,1e3,-2.25",
    b"1.0,2.0",
    b"[1, 2, 3, -5]",
    b'["0:3", 5, true, null, 0.5]',
    b"1:2:0",
    b"+1,2",
    b"9" * 50,
    b"1e" + b"9" * 30,
    b"0." + b"1" * 900,
)

HARNESS = Harness(check, build, _SEEDS, (b":", b",", b"-", b"4611686018427387904", b"0.5", b"e-"))
