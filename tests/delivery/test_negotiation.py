"""Negotiation: the format and the coding of an answer, and what a request says about them."""

import numpy as np
import pytest
from starlette.requests import Request

from service.delivery import negotiation
from service.delivery.negotiation import (
    RepresentationRequest,
    choose_coding,
    choose_format,
    list_header,
    possible_formats,
    read_extension,
)
from service.errors import NotAcceptable, NotFound, UnsupportedByFormat
from service.formats import FORMATS
from service.numerics.dtypes import BFLOAT16, COMPLEX64, FLOAT32
from service.numerics.tables import Document, StoredTable

PLAIN = Document("encoding", {}, {"encoding": StoredTable(np.zeros((1, 1), "<f4"), FLOAT32)})
NARROW = Document("encoding", {}, {"encoding": StoredTable(np.zeros((1, 1), "<u2"), BFLOAT16)})
COMPLEX = Document("rope", {}, {"rope": StoredTable(np.zeros((1, 1), "<c8"), COMPLEX64)})


def chosen(document: Document, extension: str | None, accept: str | None) -> str:
    return choose_format(document, extension, accept, FORMATS["json"]).extension


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
        (None, "text/html,application/xml;q=0.9,image/avif,image/png,*/*;q=0.8", "json"),
        (None, "text/html;q=0.9, image/png, */*;q=0.8", "png"),
        (None, "text/html, image/png", "png"),
        (None, "text/html, image/png, application/json;q=0.001", "json"),
    ],
)
def test_extension_chooses_the_format_and_otherwise_accept(
    extension: str | None, accept: str | None, expected: str
) -> None:
    assert chosen(PLAIN, extension, accept) == expected


def test_accept_that_allows_no_format_is_refused_with_the_formats() -> None:
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
def test_format_that_cannot_hold_the_table_is_refused_with_those_that_can(
    document: Document, extension: str | None, accept: str | None, rule: str
) -> None:
    with pytest.raises(UnsupportedByFormat, match=rule):
        chosen(document, extension, accept)


def test_default_format_is_one_that_can_hold_the_table() -> None:
    assert chosen(COMPLEX, None, None) == "npy"
    assert [form.extension for form in possible_formats(COMPLEX)] == ["npy", "bin"]


@pytest.mark.parametrize(
    ("accept_encoding", "coding"),
    [
        (None, None),
        ("GZip", "gzip"),
        ("gzip;q=0", None),
        ("gzip;q=0.5, identity;q=0.6", None),
        ("gzip;q=0.5, identity;q=0.5", "gzip"),
        ("*", None),
        ("identity;q=0, *", "gzip"),
    ],
)
def test_coding_is_chosen_by_quality(accept_encoding: str | None, coding: str | None) -> None:
    assert choose_coding(accept_encoding, ("gzip",)) == coding


@pytest.mark.parametrize(
    "accept_encoding",
    ["identity;q=0", "*;q=0", "br, identity;q=0.000", "identity;q=0, gzip;q=0, *"],
)
@pytest.mark.parametrize("codings", [(), ("gzip",)])
def test_excluding_identity_and_every_coding_is_refused(
    accept_encoding: str, codings: tuple[str, ...]
) -> None:
    with pytest.raises(NotAcceptable, match="allow identity"):
        choose_coding(accept_encoding, codings)


def test_body_that_cannot_be_compressed_has_no_coding() -> None:
    assert choose_coding("gzip", ()) is None
    with pytest.raises(NotAcceptable):
        choose_coding("gzip, identity;q=0", ())


def test_extension_may_name_a_digest() -> None:
    assert read_extension(None) == (None, False)
    assert read_extension("npy") == ("npy", False)
    assert read_extension("npy.sha256") == ("npy", True)
    for text in ("sha256", "npy.sha256.sha256", "npy.md5", ""):
        with pytest.raises(NotFound, match="There is no format"):
            read_extension(text)


@pytest.mark.parametrize(("text", "near"), [("NPY", "npy"), ("numpy", "npy"), ("jsn", "json")])
def test_unknown_format_is_refused_with_the_nearest(text: str, near: str) -> None:
    with pytest.raises(NotFound, match=f"did you mean {near}?"):
        read_extension(text)


def test_extension_and_headers_of_a_request_are_read() -> None:
    headers = [(b"accept", b"a/b"), (b"host", b"x"), (b"accept", b"c/d")]
    scope = {
        "type": "http",
        "http_version": "1.0",
        "path_params": {"extension": "npy.sha256"},
        "headers": [*headers, (b"accept-encoding", b"gzip")],
    }

    assert RepresentationRequest.of(Request(scope)) == RepresentationRequest(
        "npy", is_digest=True, accept="a/b, c/d", accept_encoding="gzip", takes_chunks=False
    )
    assert list_header(scope, b"range") is None


def test_request_without_headers_has_the_defaults() -> None:
    scope = {"type": "http", "http_version": "1.1", "path_params": {}, "headers": []}

    assert RepresentationRequest.of(Request(scope)) == RepresentationRequest()


def test_header_is_parsed_once_for_all_formats() -> None:
    accept = ", ".join(f"text/x{number};q=0.5" for number in range(900)) + ", text/csv"
    before = negotiation._ranges.cache_info().misses

    assert chosen(PLAIN, None, accept) == "csv"
    assert negotiation._ranges.cache_info().misses == before + 1
