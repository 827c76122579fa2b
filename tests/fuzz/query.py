"""Queries, compared with a byte-by-byte reading."""

from service.delivery.parameters import parse_query
from service.errors import InvalidParameters
from tests.fuzz.harness import Harness, Source, held_to

_READER_BYTES, _TIMES = 2**16, 512
_HEXADECIMAL = b"0123456789abcdefABCDEF"


def check(query: bytes) -> bool:
    expected = _pairs(query)
    try:
        with held_to(_READER_BYTES + _TIMES * len(query)):
            values = parse_query(query)
    except InvalidParameters as error:
        details = [fault.detail for fault in error.faults]
        assert expected is None
        assert details
        assert max(map(len, details)) < 500
        return False
    assert expected is not None
    assert list(values.items()) == expected
    return True


def _pairs(query: bytes) -> list[tuple[str, str]] | None:
    """Return names and values; None if a name is empty or repeated, or the text is not UTF-8."""
    pairs: list[tuple[str, str]] = []
    for field in query.split(b"&"):
        if not field:
            continue
        cut = field.index(b"=") if b"=" in field else len(field)
        name, value = _text(field[:cut]), _text(field[cut + 1 :])
        if not name or value is None or name in [known for known, _ in pairs]:
            return None
        pairs.append((name, value))
    return pairs


def _text(raw: bytes) -> str | None:
    plain = bytearray()
    place = 0
    while place < len(raw):
        letter = raw[place : place + 1]
        place += 1
        if letter == b"%":
            digits = raw[place : place + 2]
            if len(digits) < 2 or any(digit not in _HEXADECIMAL for digit in digits):
                return None
            letter = bytes((int(digits, 16),))
            place += 2
        elif letter == b"+":
            letter = b" "
        plain += letter
    try:
        return plain.decode("utf-8")
    except UnicodeDecodeError:
        return None


_PARTS = (
    b"seq_len",
    b"5",
    b"positions",
    b"0,5,9:20:2",
    b"%2C",
    b"%c3%a9",
    b"+",
    b"%20",
    b"\xc3\xa9",
    b"",
    b"%",
    b"%2",
    b"%zz",
    b"%ff",
    b"\xff",
    b"=",
    b"&",
)


def build(source: Source) -> bytes:
    """Build a query of nearly valid parts."""
    fields = []
    for _ in range(source.integer(1, 4)):
        name, value = (_part(source) + (_part(source) if source.happens(4) else b"") for _ in "ab")
        fields.append(name + (b"=" if not source.happens(8) else b"") + value)
    return b"&".join(fields)


def _part(source: Source) -> bytes:
    return source.pick(_PARTS) if source.happens(8) else source.pick(_PARTS[:9])


_SEEDS = (
    b"seq_len=50&d_model=512",
    b"positions=0,5,9:20:2&base=1e4",
    b"a=1&a=2",
    b"%61=1&b=%2",
    b"a+b=c%20d&&=1",
    b"\xff=1",
)

HARNESS = Harness(check, build, _SEEDS, (b"&", b"=", b"%2C", b"%C3%A9", b"seq_len"))
