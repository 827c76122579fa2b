"""The headers that describe a document.

Which format an answer comes in.

What a request says about its answer.
"""

import numpy as np
import pytest
from starlette.requests import Request

from service.delivery.negotiation import (
    EXPOSED_HEADERS,
    RepresentationRequest,
    choose_coding,
    choose_format,
    list_header,
    media_quality,
    possible_formats,
    raw,
    read_extension,
)
from service.delivery.representation import (
    array_headers,
    cache_control,
    file_name,
    place_headers,
    vary_header,
)
from service.errors import NotAcceptable, NotFound, UnsupportedByFormat
from service.formats import FORMATS
from service.numerics.dtypes import BFLOAT16, COMPLEX64, FLOAT32
from service.numerics.tables import Document, StoredTable

TABLE = StoredTable(np.zeros((50, 512), "<f4"), FLOAT32)
DOCUMENT = Document("encoding", {}, {"encoding": TABLE})
NPY = FORMATS["npy"]


def test_shape_type_and_revision_are_said() -> None:
    assert array_headers(DOCUMENT) == {
        "Array-Shape": "50, 512",
        "Array-Dtype": "float32",
        "Table-Revision": "1",
    }


def test_axes_are_named_in_their_order() -> None:
    document = Document("encoding", {}, {"encoding": TABLE}, axes=("position", "channel"))

    assert array_headers(document)["Array-Axes"] == "position, channel"
    assert "Array-Axes" in EXPOSED_HEADERS


def test_arrays_that_differ_are_said_in_the_body_only() -> None:
    other = StoredTable(np.zeros((1, 512), "<u2"), BFLOAT16)

    assert array_headers(Document("rope", {}, {"q": TABLE, "k": other})) == {"Table-Revision": "1"}


@pytest.mark.parametrize(
    ("extension", "revision", "expected"),
    [
        ("npy", None, "public, max-age=86400"),
        ("npy", 1, "public, max-age=31536000, immutable"),
        (None, None, "private, max-age=86400"),
        (None, 1, "private, max-age=31536000, immutable"),
    ],
)
def test_a_named_revision_is_immutable_and_negotiated_answers_are_private(
    extension: str | None, revision: int | None, expected: str
) -> None:
    assert expected == cache_control(extension, revision)


def test_a_negotiated_answer_says_where_it_is_itself() -> None:
    headers = place_headers("/encoding", b"a=1", DOCUMENT, NPY, None)

    assert headers["Content-Location"] == "/encoding.npy?a=1"
    assert vary_header(NPY, None) == {"Vary": "Accept, Accept-Encoding"}


def test_an_answer_by_extension_is_where_it_is_and_varies_by_nothing() -> None:
    assert {"Link"} == set(place_headers("/encoding.npy", b"a=1", DOCUMENT, NPY, "npy"))
    assert vary_header(NPY, "npy") == {}


@pytest.mark.parametrize("extension", ["json", "csv"])
def test_text_varies_by_its_coding(extension: str) -> None:
    assert vary_header(FORMATS[extension], extension) == {"Vary": "Accept-Encoding"}


def test_the_other_possible_formats_are_linked() -> None:
    narrow = Document("rope", {}, {"rope": StoredTable(np.zeros((1, 2), "<u2"), BFLOAT16)})

    link = place_headers("/rope.bin", b"a=1", narrow, FORMATS["bin"], "bin")["Link"]

    assert link == (
        '</rope.json?a=1>; rel="alternate"; type="application/json", '
        '</rope.safetensors?a=1>; rel="alternate"; type="application/vnd.safetensors", '
        '</rope.csv?a=1>; rel="alternate"; type="text/csv", '
        '</rope.png?a=1>; rel="alternate"; type="image/png"'
    )


def test_a_long_query_is_not_repeated() -> None:
    assert place_headers("/encoding", b"a" * 513, DOCUMENT, NPY, None) == {}
    assert set(place_headers("/encoding", b"a" * 512, DOCUMENT, NPY, None)) == {
        "Content-Location",
        "Link",
    }


def test_a_query_cannot_break_out_of_a_header() -> None:
    query = b'a=>;"\xc3\xa4 b&c=%3E'

    location = place_headers("/encoding", query, DOCUMENT, NPY, None)["Content-Location"]

    assert location == "/encoding.npy?a=%3E%3B%22%C3%A4%20b&c=%3E"


def test_different_tables_are_saved_under_different_names() -> None:
    assert file_name(DOCUMENT, NPY, '"1f3a9c2e77"') == "encoding_50x512_1f3a9c2e.npy"


def test_a_list_on_several_lines_is_one() -> None:
    scope = {"headers": [(b"accept", b"a/b"), (b"host", b"x"), (b"accept", b"c/d")]}

    assert list_header(scope, b"accept") == "a/b, c/d"
    assert list_header(scope, b"range") is None


def test_names_are_lower_case_on_the_wire() -> None:
    assert raw({"ETag": '"a"'}) == [(b"etag", b'"a"')]


PLAIN = Document("encoding", {}, {"encoding": StoredTable(np.zeros((1, 1), "<f4"), FLOAT32)})
NARROW = Document("encoding", {}, {"encoding": StoredTable(np.zeros((1, 1), "<u2"), BFLOAT16)})
COMPLEX = Document("rope", {}, {"rope": StoredTable(np.zeros((1, 1), "<c8"), COMPLEX64)})


def chosen(document: Document, extension: str | None, accept: str | None) -> str:
    return choose_format(document, extension, accept, FORMATS["json"]).extension


@pytest.mark.parametrize(
    ("accept", "quality"),
    [
        (None, 1.0),
        ("", 1.0),
        ("*/*", 1.0),
        ("application/*;q=0.3", 0.3),
        ("application/x-npy;q=0.5, */*;q=0.9", 0.5),
        ("application/x-npy ; q=0.5", 0.5),
        ("APPLICATION/X-NPY", 1.0),
        ("application/x-npy;q=0", 0.0),
        ("text/html", 0.0),
        ("application/x-npy;q=2", 0.0),
        ("application/x-npy;q=-1", 0.0),
        ("application/x-npy;q=0.1234", 0.0),
        ("application/x-npy;q=nan", 0.0),
        ("application/x-npy;q=1.", 1.0),
        ("application/x-npy;version=2", 1.0),
        ("application/x-npy; charset=utf-8; q=0.5", 0.5),
        ("application/x-npy;q=1.5", 0.0),
        ("application/x-npy;q=1.000", 1.0),
        (";;,,", 0.0),
    ],
)
def test_qualities_are_those_of_the_most_specific_range(accept: str | None, quality: float) -> None:
    assert quality == media_quality(accept, "application/x-npy")


@pytest.mark.parametrize(
    ("extension", "accept", "expected"),
    [
        ("npy", "application/json", "npy"),
        (None, None, "json"),
        (None, "*/*", "json"),
        (None, "application/x-npy", "npy"),
        (None, "application/json;q=0.5, application/x-npy;q=0.6", "npy"),
        (None, "application/*;q=0.5, application/vnd.safetensors", "safetensors"),
        (None, "application/octet-stream, application/json;q=0", "bin"),
        (None, "text/html,application/xhtml+xml,*/*;q=0.8", "json"),
        (None, "image/png", "png"),
        (None, "image/avif,image/webp,image/*,*/*;q=0.8", "png"),
        (None, "image/png;q=0.5, */*;q=0.4", "png"),
        (None, "image/png, */*", "json"),
        (None, "image/png;q=0.8, */*;q=0.8", "json"),
        (None, "image/png;q=0.8, application/json;q=0.9", "json"),
        (None, "text/html,application/xml;q=0.9,image/avif,image/png,*/*;q=0.8", "json"),
        (None, "text/html,image/apng,image/*,*/*;q=0.1", "json"),
        (None, "text/html;q=0.9, image/png, */*;q=0.8", "png"),
        (None, "text/html, image/png", "png"),
        (None, "text/html, image/png, application/json;q=0.001", "json"),
    ],
)
def test_the_extension_decides_and_then_accept(
    extension: str | None, accept: str | None, expected: str
) -> None:
    assert expected == chosen(PLAIN, extension, accept)


def test_what_no_format_satisfies_is_not_acceptable_and_says_what_exists() -> None:
    with pytest.raises(NotAcceptable, match=r"application/json, application/x-npy"):
        chosen(PLAIN, None, "text/html")


@pytest.mark.parametrize(
    ("document", "extension", "accept", "rule"),
    [
        (
            NARROW,
            "npy",
            None,
            "NumPy has no bfloat16; these formats can: json, safetensors, bin, csv, png",
        ),
        (NARROW, None, "application/x-npy", "NumPy has no bfloat16"),
        (COMPLEX, "json", None, "JSON has no complex numbers; these formats can: npy, bin"),
    ],
)
def test_a_format_that_cannot_hold_the_table_says_which_can(
    document: Document, extension: str | None, accept: str | None, rule: str
) -> None:
    with pytest.raises(UnsupportedByFormat, match=rule):
        chosen(document, extension, accept)


def test_without_a_wish_a_format_that_can_hold_the_table_is_chosen() -> None:
    assert chosen(COMPLEX, None, None) == "npy"
    assert [form.extension for form in possible_formats(COMPLEX)] == ["npy", "bin"]


@pytest.mark.parametrize(
    ("accept_encoding", "coding"),
    [
        (None, None),
        ("", None),
        ("identity", None),
        ("gzip", "gzip"),
        ("GZip", "gzip"),
        ("x-gzip", "gzip"),
        ("gzip, deflate, br", "gzip"),
        ("gzip;q=0", None),
        ("gzip;q=0.0, identity", None),
        ("gzip;q=0.001", "gzip"),
        ("gzip;q=0.5, identity;q=0.6", None),
        ("gzip;q=0.5, identity;q=0.5", "gzip"),
        ("gzip;q=1.0, identity; q=0.5, *;q=0", "gzip"),
        ("br, zstd", None),
        ("*", None),
        ("*;q=0.1, br", None),
        ("gzip, *;q=0", "gzip"),
        ("identity, *;q=0", None),
        ("identity;q=0, gzip", "gzip"),
        ("identity;q=0, *", "gzip"),
        ("gzip;q=high", None),
        ("xgzip", None),
    ],
)
def test_a_coding_is_chosen_by_quality(accept_encoding: str | None, coding: str | None) -> None:
    assert choose_coding(accept_encoding, ("gzip",)) == coding


@pytest.mark.parametrize(
    "accept_encoding",
    ["identity;q=0", "*;q=0", "br, identity;q=0.000", "identity;q=0, gzip;q=0, *"],
)
@pytest.mark.parametrize("codings", [(), ("gzip",)])
def test_a_body_that_is_excluded_every_way_is_not_acceptable(
    accept_encoding: str, codings: tuple[str, ...]
) -> None:
    with pytest.raises(NotAcceptable, match="allow identity"):
        choose_coding(accept_encoding, codings)


def test_what_cannot_be_compressed_is_sent_as_it_is() -> None:
    assert choose_coding("gzip", ()) is None
    with pytest.raises(NotAcceptable):
        choose_coding("gzip, identity;q=0", ())


def test_an_extension_may_ask_for_a_digest() -> None:
    assert read_extension(None) == (None, False)
    assert read_extension("npy") == ("npy", False)
    assert read_extension("npy.sha256") == ("npy", True)
    for text in ("sha256", "npy.sha256.sha256", "npy.md5", ""):
        with pytest.raises(NotFound, match="There is no format"):
            read_extension(text)


@pytest.mark.parametrize(("said", "meant"), [("NPY", "npy"), ("numpy", "npy"), ("jsn", "json")])
def test_a_format_that_there_is_not_has_a_nearest(said: str, meant: str) -> None:
    with pytest.raises(NotFound, match=f"did you mean {meant}?"):
        read_extension(said)


def test_extension_and_headers_are_read() -> None:
    scope = {
        "type": "http",
        "http_version": "1.0",
        "path_params": {"extension": "npy.sha256"},
        "headers": [(b"accept", b"a/b"), (b"accept-encoding", b"gzip")],
    }

    wanted = RepresentationRequest.of(Request(scope))

    assert (wanted.extension, wanted.is_digest) == ("npy", True)
    assert (wanted.accept, wanted.accept_encoding) == ("a/b", "gzip")
    assert not wanted.takes_chunks


def test_nothing_said_is_nothing_wanted() -> None:
    scope = {"type": "http", "http_version": "1.1", "path_params": {}, "headers": []}

    assert RepresentationRequest.of(Request(scope)) == RepresentationRequest()
