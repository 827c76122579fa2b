"""``Accept`` and ``Accept-Encoding``, compared with a second implementation of RFC 9110, §12.5."""

from fractions import Fraction

from service.delivery.negotiation import choose_coding, media_quality, ranked_formats
from service.errors import NotAcceptable
from service.formats import FORMATS
from tests.fuzz.harness import Harness, Source, held_to

_READER_BYTES, _TIMES = 2**16, 256
_CODINGS = ("zstd", "br", "gzip")
_IDENTITY = "identity"


def check(data: bytes) -> bool:
    text = data.decode("latin-1")
    with held_to(_READER_BYTES + _TIMES * len(text)):
        best = next(iter(ranked_formats(text, list(FORMATS.values()))), None)
    qualities = {form.extension: media_quality(text, form.media_type) for form in FORMATS.values()}
    assert all(0.0 <= quality <= 1.0 for quality in qualities.values())
    assert (best is None) == (max(qualities.values()) == 0)
    assert best is None or best.is_drawn or qualities[best.extension] == _most(qualities)
    weights = _parse_weights(text)
    if weights is None:
        _check_coding(text, None)
        return False
    for form in FORMATS.values():
        expected = _quality(weights, form.media_type) if text.strip() else 1
        assert qualities[form.extension] == float(expected), form.media_type
    _check_coding(text, weights)
    return True


def _most(qualities: dict[str, float]) -> float:
    return max(quality for name, quality in qualities.items() if not FORMATS[name].is_drawn)


def _quality(weights: dict[str, Fraction], media_type: str) -> Fraction:
    """Return the quality of the most specific range that matches."""
    family, _, _ = media_type.partition("/")
    matching = [weights[known] for known in ("*/*", f"{family}/*", media_type) if known in weights]
    return matching[-1] if matching else Fraction(0)


def _check_coding(text: str, weights: dict[str, Fraction] | None) -> None:
    try:
        chosen = choose_coding(text, _CODINGS)
    except NotAcceptable:
        assert weights is None or not any(
            _is_allowed(weights, each) for each in (*_CODINGS, _IDENTITY)
        )
        return
    assert chosen is None or chosen in _CODINGS
    if weights is None:
        return
    assert _is_allowed(weights, chosen or _IDENTITY)
    if chosen is not None and _named(weights, chosen) is not None:
        assert _named(weights, chosen) == max(_named(weights, each) or 0 for each in _CODINGS)
        assert (_named(weights, chosen) or 0) >= weights.get(_IDENTITY, 0)


def _named(weights: dict[str, Fraction], coding: str) -> Fraction | None:
    spellings = [name for name in weights if name.removeprefix("x-") == coding and name != "x-br"]
    return weights[spellings[-1]] if spellings and spellings[-1] != "x-zstd" else None


def _is_allowed(weights: dict[str, Fraction], coding: str) -> bool:
    """Return whether a coding is allowed by name, by * or, for identity, by default."""
    named = _named(weights, coding)
    if named is not None:
        return named > 0
    return weights.get("*", Fraction(int(coding == _IDENTITY))) > 0


def _parse_weights(text: str) -> dict[str, Fraction] | None:
    """Parse ranges and their weights, the last of each; None if the grammar has no such list.

    A weight that is malformed leaves its range out. Quoted parameters are not read here.
    """
    if any(letter not in _LETTERS for letter in text):
        return None
    ranges: dict[str, Fraction] = {}
    for item in text.split(","):
        name, *parameters = (part.strip(" \t").lower() for part in item.split(";"))
        weights = [part for part in parameters if part[:2] == "q="]
        if not name and not parameters:
            continue
        if len(weights) > 1:
            return None
        weight = _weight(weights[0][2:]) if weights else Fraction(1)
        if weight is not None:
            # The last of equal ranges counts.
            ranges.pop(name, None)
            ranges[name] = weight
    return ranges


_LETTERS = " \t!#$%&'*+-./0123456789;=,^_`|~" + "".join(
    chr(code) + chr(code).upper() for code in range(ord("a"), ord("z") + 1)
)


def _weight(text: str) -> Fraction | None:
    """Parse ``0`` or ``1`` with up to three decimals."""
    whole, point, decimals = text.partition(".")
    if whole not in {"0", "1"} or len(decimals) > 3 or (decimals and not point):
        return None
    if not all(letter in "0123456789" for letter in decimals):
        return None
    weight = Fraction(int(whole)) + Fraction(int(decimals.ljust(3, "0")), 1000)
    return weight if weight <= 1 else None


_RANGES = (
    *(form.media_type for form in FORMATS.values()),
    "*/*",
    "application/*",
    "text/*",
    "image/*",
    "text/html",
    "*",
    *_CODINGS,
    "x-gzip",
    _IDENTITY,
    "",
)
_WEIGHTS = (
    "1",
    "0",
    "0.5",
    "0.001",
    "0.999",
    "1.000",
    "0.",
    "1.001",
    "0.0001",
    "nan",
    "",
    "-0",
    "2",
)


def build(source: Source) -> bytes:
    """Build a nearly valid list of ranges with weights."""
    items = []
    for _ in range(source.integer(1, 5)):
        item = source.pick(_RANGES)
        if source.happens(4):
            item += source.pick((";version=2", "; charset=utf-8", ";", ';a="b,c;q=0"'))
        if source.happens(2):
            item += source.pick((";q=", "; q=", " ;Q=", ";q =")) + source.pick(_WEIGHTS)
        items.append(item.upper() if source.happens(16) else item)
    return source.pick((", ", ",", " ,\t", ",,")).join(items).encode("latin-1")


_SEEDS = (
    b"*/*",
    b"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    b"application/x-npy;q=0.5, application/*;q=0.9",
    b"image/png;q=0.8, */*;q=0.8",
    b"gzip, deflate, br, zstd",
    b"gzip;q=1.0, identity; q=0.5, *;q=0",
    b"identity;q=0, x-gzip;q=0.3",
    b"application/x-npy;q=nan",
    b'application/json;a="b,c";q=0.5',
    b";;,,",
)

HARNESS = Harness(
    check, build, _SEEDS, (b"application/", b"*/*", b";q=", b"0.5", b"identity", b"gzip")
)
