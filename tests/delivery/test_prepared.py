"""Answers but for their body."""

import pytest

from service.delivery.cache import Built
from service.delivery.conditional import Asked
from service.delivery.prepared import Prepared
from service.delivery.ranges import Span
from service.errors import PreconditionFailed, RangeNotSatisfiable

ALWAYS, DESCRIBED = (b"etag", b'"a"'), (b"content-type", b"x/y")
BINARY = Prepared('"a"', [ALWAYS], [DESCRIBED], 6)
TEXT = Prepared('"a"', [ALWAYS], [DESCRIBED], None)
BUILT = Built(b"abcdef", "sha-256=:x:")
DIGEST = (b"repr-digest", b"sha-256=:x:")


def test_what_the_client_has_is_answered_without_a_body_or_a_word_on_it() -> None:
    answer = BINARY.bare(Asked("GET", if_none_match='"a"'))

    assert answer is not None
    assert (answer.status_code, answer.raw_headers, answer.payload) == (304, [ALWAYS], None)


def test_a_head_has_the_length_that_is_known() -> None:
    binary, text = BINARY.bare(Asked("HEAD")), TEXT.bare(Asked("HEAD"))

    assert binary is not None
    assert text is not None
    assert binary.raw_headers == [ALWAYS, DESCRIBED, (b"content-length", b"6")]
    assert text.raw_headers == [ALWAYS, DESCRIBED]


def test_a_get_takes_a_body() -> None:
    assert BINARY.bare(Asked("GET")) is None
    with pytest.raises(PreconditionFailed):
        BINARY.bare(Asked("GET", if_match='"b"'))


def test_only_a_body_of_known_length_has_parts() -> None:
    asked = Asked("GET", range="bytes=2-3")

    assert (BINARY.span(asked), TEXT.span(asked)) == (Span(2, 4), None)
    with pytest.raises(RangeNotSatisfiable):
        BINARY.span(Asked("GET", range="bytes=6-"))


def test_a_body_that_is_there_has_its_digest_and_so_has_a_part_of_it() -> None:
    whole, part = BINARY.built(None, BUILT), BINARY.built(Span(2, 4), BUILT)

    assert (whole.status_code, whole.payload) == (200, b"abcdef")
    assert whole.raw_headers == [ALWAYS, DESCRIBED, DIGEST, (b"content-length", b"6")]
    assert (part.status_code, part.payload) == (206, b"cd")
    assert part.raw_headers == [
        ALWAYS,
        DESCRIBED,
        DIGEST,
        (b"content-range", b"bytes 2-3/6"),
        (b"content-length", b"2"),
    ]


def test_a_body_for_one_answer_has_the_same_headers_but_its_digest() -> None:
    whole, part = BINARY.made(None, b"abcdef"), BINARY.made(Span(2, 4), b"cd")

    assert whole.raw_headers == [ALWAYS, DESCRIBED, (b"content-length", b"6")]
    assert part.status_code == 206
    assert part.raw_headers[2:] == [(b"content-range", b"bytes 2-3/6"), (b"content-length", b"2")]
