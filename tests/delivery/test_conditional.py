"""Entity tags and conditions on them.

Which bytes a Range header means.
"""

import json
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.delivery.representation import entity_tag, weak
from service.delivery.responses import (
    Preconditions,
    Span,
    matches_any,
    matches_none,
    requested_span,
)
from service.errors import PreconditionFailed, RangeNotSatisfiable
from service.formats import FORMATS
from service.formats.json_text import JSON
from service.numerics.dtypes import FLOAT32, FLOAT64
from service.numerics.tables import Document, StoredTable

DOCUMENT = Document("encoding", {"base": 1.0}, {"encoding": StoredTable(np.zeros((2, 2)), FLOAT64)})
TAG = entity_tag(DOCUMENT, FORMATS["npy"])


def test_a_tag_is_strong_and_quoted() -> None:
    assert TAG.startswith('"')
    assert TAG.endswith('"')
    assert len(TAG) == 34


def test_a_tag_is_the_same_tomorrow() -> None:
    assert TAG == '"9bea89223e0df83fd52bc688c208a367"'


@pytest.mark.parametrize(
    "other",
    [
        replace(DOCUMENT, kind="relative"),
        replace(DOCUMENT, parameters={"base": 2.0}),
        replace(DOCUMENT, arrays={"x": DOCUMENT.arrays["encoding"]}),
        replace(DOCUMENT, arrays={"encoding": StoredTable(np.zeros((2, 2), "<f4"), FLOAT32)}),
        replace(DOCUMENT, arrays={"encoding": StoredTable(np.zeros((4, 1)), FLOAT64)}),
    ],
)
def test_whatever_changes_the_bytes_changes_the_tag(other: Document) -> None:
    assert entity_tag(other, FORMATS["npy"]) != TAG


def test_format_encoder_and_revision_change_the_tag() -> None:
    json_tag = entity_tag(DOCUMENT, JSON)
    other_encoder = entity_tag(DOCUMENT, replace(JSON, version="orjson 0"))
    other_revision = entity_tag(replace(DOCUMENT, revision=2), FORMATS["npy"])

    tags = {TAG, json_tag, other_encoder, other_revision}

    assert len(tags) == 4


def test_what_another_machine_may_draw_another_way_has_a_weak_tag() -> None:
    tags = [entity_tag(DOCUMENT, FORMATS["png"], *variant) for variant in ((), ("sha256",))]

    assert all(tag.startswith('W/"') for tag in tags)
    assert len(set(tags)) == 2


def test_what_is_made_of_the_bytes_has_a_tag_of_its_own() -> None:
    digest = entity_tag(DOCUMENT, FORMATS["npy"], "sha256")

    assert len({TAG, digest, weak(TAG)}) == 3
    assert weak(TAG) == f"W/{TAG}"


@pytest.mark.parametrize(
    ("if_none_match", "matches"),
    [
        (None, False),
        ("*", True),
        (" * ", True),
        (TAG, True),
        (f"W/{TAG}", True),
        (f'"other", {TAG}', True),
        (f'W/"a,b" , W/{TAG}', True),
        ('"other"', False),
        (TAG.strip('"'), False),
        ("", False),
    ],
)
def test_lists_stars_and_weak_tags_are_compared(if_none_match: str | None, matches: bool) -> None:
    assert matches is not matches_none(if_none_match, TAG)


def test_a_weak_tag_matches_weakly() -> None:
    assert not matches_none(TAG, weak(TAG))
    assert not matches_none(weak(TAG), weak(TAG))


@pytest.mark.parametrize(
    ("if_match", "matches"),
    [
        (None, True),
        ("*", True),
        (TAG, True),
        (f'"other", {TAG}', True),
        (f"W/{TAG}", False),
        ('"other"', False),
        ("", False),
    ],
)
def test_only_a_strong_tag_is_gone_on_with(if_match: str | None, matches: bool) -> None:
    assert matches is matches_any(if_match, TAG)
    assert not matches_any(weak(TAG), weak(TAG))


def test_a_request_is_read() -> None:
    headers = [
        (b"if-match", b'"a"'),
        (b"if-match", b'"b"'),
        (b"if-none-match", b'"c"'),
        (b"if-range", b'"d"'),
        (b"range", b"bytes=0-1"),
    ]

    asked = Preconditions.of({"method": "GET", "headers": headers})

    assert asked == Preconditions("GET", '"a", "b"', '"c"', '"d"', "bytes=0-1")


def test_going_on_with_other_bytes_fails_before_anything_else() -> None:
    with pytest.raises(PreconditionFailed, match="If-Match does not name"):
        Preconditions("GET", if_match='"x"', if_none_match=TAG).is_known(TAG)


@pytest.mark.parametrize(
    ("asked", "span"),
    [
        (Preconditions("GET", range="bytes=1-2"), Span(1, 3)),
        (Preconditions("GET", range="bytes=1-2", if_range=TAG), Span(1, 3)),
        (Preconditions("GET", range="bytes=1-2", if_range=f"W/{TAG}"), None),
        (Preconditions("GET", range="bytes=1-2", if_range="Sat, 21 Nov 2026 00:00:00 GMT"), None),
        (Preconditions("HEAD", range="bytes=1-2"), None),
        (Preconditions("GET"), None),
    ],
)
def test_a_part_is_for_who_holds_the_rest(asked: Preconditions, span: Span | None) -> None:
    assert asked.span(TAG, 10) == span


def test_the_tag_of_a_list_is_that_of_its_json() -> None:
    listed = replace(DOCUMENT, parameters={"positions": (0.5, 1.0) * 5000, "base": 1.0, "é": True})

    described = [
        *("encoding", DOCUMENT.revision, dict(listed.parameters)),
        *([["encoding", [2, 2], "float64"]], "npy", "", "sha256"),
    ]
    expected = sha256(json.dumps(described).encode()).hexdigest()[:32]
    assert entity_tag(listed, FORMATS["npy"], "sha256") == f'"{expected}"'


@pytest.mark.parametrize(
    ("value", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=0-99", 0, 100),
        ("bytes=10-19", 10, 20),
        ("bytes=10-", 10, 100),
        ("bytes=0-", 0, 100),
        ("bytes=99-99", 99, 100),
        ("bytes=99-1000", 99, 100),
        ("bytes=50-99999999999999999999999999", 50, 100),
        ("bytes=-1", 99, 100),
        ("bytes=-100", 0, 100),
        ("bytes=-1000", 0, 100),
        ("bytes=-" + "9" * 5000, 0, 100),
        ("bytes=00000000000000000000000000005-6", 5, 7),
        ("BYTES=1-2", 1, 3),
        (" bytes= 1-2 ", 1, 3),
    ],
)
def test_a_single_range_is_found(value: str, start: int, stop: int) -> None:
    assert requested_span(value, 100) == Span(start, stop)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "bytes",
        "bytes=",
        "bytes=-",
        "bytes=5-4",
        "bytes=a-b",
        "bytes=1-2x",
        "bytes=1 - 2",
        "bytes=+1-2",
        "bytes=1.0-2",
        "bytes=٣-٤",
        "rows=1-2",
        "bytes=0-1,5-6",
        "bytes=0-1,",
        "bytes=1-2-3",
        "bytes =1-2",
    ],
)
def test_whatever_is_no_single_range_is_answered_whole(value: str | None) -> None:
    assert requested_span(value, 100) is None


@pytest.mark.parametrize("value", ["bytes=100-", "bytes=100-200", "bytes=-0", f"bytes={10**30}-"])
def test_bytes_past_the_end_are_refused_with_the_length(value: str) -> None:
    with pytest.raises(RangeNotSatisfiable, match="which has 100 bytes, 0 to 99") as raised:
        requested_span(value, 100)

    assert raised.value.length_bytes == 100


@given(st.integers(1, 2**63 - 1), st.data())
def test_any_bytes_of_any_body_can_be_asked_for(length_bytes: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, length_bytes - 1))
    stop = data.draw(st.integers(start + 1, length_bytes))

    assert requested_span(f"bytes={start}-{stop - 1}", length_bytes) == Span(start, stop)
    assert requested_span(f"bytes={start}-", length_bytes) == Span(start, length_bytes)
    assert requested_span(f"bytes=-{length_bytes - start}", length_bytes) == Span(
        start, length_bytes
    )


def test_a_span_is_cut_to_a_limit_and_says_where_it_is() -> None:
    span = Span(10, 20)

    assert (span.length_bytes, span.within(4), span.within(99)) == (10, Span(10, 14), span)
    assert span.content_range(50) == "bytes 10-19/50"
