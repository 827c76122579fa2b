"""``If-Match``, ``If-None-Match`` and ``If-Range``, compared with a reading of RFC 9110, §8.8.3."""

from service.delivery.responses import Preconditions, matches_any, matches_none
from service.errors import PreconditionFailed, RangeNotSatisfiable
from tests.fuzz.harness import Harness, Source, held_to

_READER_BYTES, _TIMES = 2**16, 128
_TAGS = ('"0123abcd"', 'W/"0123abcd"', '""')
_LENGTH_BYTES = 100


def check(data: bytes) -> bool:
    text = data.decode("latin-1")
    tags = _listed(text)
    for tag in _TAGS:
        with held_to(_READER_BYTES + _TIMES * len(text)):
            is_any, is_none = matches_any(text, tag), matches_none(text, tag)
        assert not (is_any and tag not in text and text.strip() != "*")
        assert is_none or tag.removeprefix("W/") in text or text.strip() == "*"
        if tags is not None:
            opaque = {known.removeprefix("W/") for known in tags}
            assert is_any == (tags == ["*"] or (tag in tags and not tag.startswith("W/")))
            assert is_none != (tags == ["*"] or tag.removeprefix("W/") in opaque)
        _check_preconditions(text, tag, is_any=is_any, is_none=is_none)
    return tags is not None


def _check_preconditions(text: str, tag: str, *, is_any: bool, is_none: bool) -> None:
    preconditions = Preconditions(
        "GET", if_match=text, if_none_match=text, if_range=text, range="bytes=1-2"
    )
    try:
        assert preconditions.is_known(tag) != is_none
        assert is_any
    except PreconditionFailed:
        assert not is_any
    try:
        span = preconditions.span(tag, _LENGTH_BYTES)
    except RangeNotSatisfiable as error:
        raise AssertionError("the second byte is there") from error
    assert (span is not None) == (text == tag)


def _listed(text: str) -> list[str] | None:
    """Parse a list of entity tags letter by letter; None if it is malformed."""
    if text.strip() == "*":
        return ["*"]
    tags: list[str] = []
    place = 0
    while place < len(text):
        rest = text[place:]
        place += len(rest) - len(rest.lstrip(" \t,"))
        if place == len(text):
            break
        start = place
        place += 2 * text.startswith("W/", place)
        end = text.find('"', place + 1) if text.startswith('"', place) else -1
        if end < 0 or not all(_is_inside(letter) for letter in text[place + 1 : end]):
            return None
        place = end + 1
        tags.append(text[start:place])
        if text[place:].lstrip(" \t")[:1] not in {"", ","}:
            return None
    return tags


def _is_inside(letter: str) -> bool:
    return letter == "!" or "#" <= letter <= "~" or letter >= "\x80"


_PARTS = (*_TAGS, '"other"', '"a,b"', '"W/"', "*", '"', "W/", "w/", '"\xe9"', "x", '"a b"')


def build(source: Source) -> bytes:
    """Build a nearly valid list of entity tags."""
    parts = [
        source.pick(_PARTS[:6] if not source.happens(8) else _PARTS)
        for _ in range(source.integer(1, 4))
    ]
    return source.pick((", ", ",", " , ", " ", ",,")).join(parts).encode("latin-1")


_SEEDS = (
    b'"0123abcd"',
    b'W/"0123abcd"',
    b'"other", "0123abcd"',
    b'"a,b",W/"0123abcd" , ""',
    b"*",
    b'"0123abcd',
    b'"" "0123abcd"',
)

HARNESS = Harness(check, build, _SEEDS, (b'"0123abcd"', b"W/", b'"', b", ", b"*"))
