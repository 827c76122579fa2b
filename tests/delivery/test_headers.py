"""The headers that describe a document."""

import numpy as np
import pytest

from service.delivery.headers import (
    EXPOSED_HEADERS,
    array_headers,
    cache_control,
    file_name,
    list_header,
    place_headers,
    raw,
    vary_header,
)
from service.formats import FORMATS
from service.tables.document import Document
from service.tables.dtypes import BFLOAT16, FLOAT32
from service.tables.table import StoredTable

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
