"""Representations of a document: tags, headers, transformations of bytes, costs and refusals."""

import gzip
import json
import zlib
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from service.delivery.dispatch import MAX_BUILD_SECONDS
from service.delivery.negotiation import EXPOSED_HEADERS, RepresentationRequest
from service.delivery.representation import (
    DerivedBody,
    array_headers,
    cache_control,
    checksum_line,
    entity_tag,
    file_name,
    gzipped,
    place_headers,
    represent,
)
from service.delivery.schedule import SHORT_SECONDS
from service.errors import InvalidParameters
from service.formats import FORMATS
from service.formats.format import BinaryBody
from service.formats.json_text import JSON
from service.numerics.dtypes import BFLOAT16, FLOAT32, FLOAT64
from service.numerics.tables import Document, StoredTable
from service.settings import default_settings

DOCUMENT = Document("encoding", {"base": 1.0}, {"encoding": StoredTable(np.zeros((2, 2)), FLOAT64)})
NPY = FORMATS["npy"]
TAG = entity_tag(DOCUMENT, NPY)
LIMITS = default_settings()


def test_tag_is_strong_and_stays_the_same() -> None:
    assert TAG == '"9bea89223e0df83fd52bc688c208a367"'


@pytest.mark.parametrize(
    "other",
    [
        replace(DOCUMENT, kind="relative"),
        replace(DOCUMENT, revision=2),
        replace(DOCUMENT, parameters={"base": 2.0}),
        replace(DOCUMENT, arrays={"x": DOCUMENT.arrays["encoding"]}),
        replace(DOCUMENT, arrays={"encoding": StoredTable(np.zeros((2, 2), "<f4"), FLOAT32)}),
        replace(DOCUMENT, arrays={"encoding": StoredTable(np.zeros((4, 1)), FLOAT64)}),
    ],
)
def test_everything_that_changes_the_bytes_changes_the_tag(other: Document) -> None:
    assert entity_tag(other, NPY) != TAG


def test_version_of_the_encoder_changes_the_tag() -> None:
    assert entity_tag(DOCUMENT, JSON) != entity_tag(DOCUMENT, replace(JSON, version="orjson 0"))


def test_tag_with_a_long_list_is_the_hash_of_its_json() -> None:
    listed = replace(DOCUMENT, parameters={"positions": (0.5, 1.0) * 5000, "base": 1.0, "é": True})

    described = [
        *("encoding", DOCUMENT.revision, dict(listed.parameters)),
        *([["encoding", [2, 2], "float64"]], "npy", "", "sha256"),
    ]
    expected = sha256(json.dumps(described).encode()).hexdigest()[:32]
    assert entity_tag(listed, NPY, "sha256") == f'"{expected}"'


def test_headers_have_shape_type_axes_and_revision() -> None:
    assert array_headers(replace(DOCUMENT, axes=("position", "channel"))) == {
        "Array-Axes": "position, channel",
        "Array-Shape": "2, 2",
        "Array-Dtype": "float64",
        "Table-Revision": "1",
    }
    assert set(array_headers(DOCUMENT)) < set(EXPOSED_HEADERS.split(", "))


def test_headers_have_no_shape_and_type_where_arrays_differ() -> None:
    other = StoredTable(np.zeros((1, 512), "<u2"), BFLOAT16)
    document = Document("rope", {}, {"q": DOCUMENT.arrays["encoding"], "k": other})

    assert array_headers(document) == {"Table-Revision": "1"}


@pytest.mark.parametrize(
    ("extension", "revision", "expected"),
    [
        ("npy", None, "public, max-age=86400"),
        ("npy", 1, "public, max-age=31536000, immutable"),
        (None, None, "private, max-age=86400"),
        (None, 1, "private, max-age=31536000, immutable"),
    ],
)
def test_urls_with_a_revision_are_immutable_and_negotiated_answers_private(
    extension: str | None, revision: int | None, expected: str
) -> None:
    assert cache_control(extension, revision) == expected


def test_long_query_is_not_repeated() -> None:
    assert place_headers("/encoding", b"a" * 513, DOCUMENT, NPY, None, settings=LIMITS) == {}
    headers = place_headers("/encoding", b"a" * 512, DOCUMENT, NPY, None, settings=LIMITS)
    assert set(headers) == {"Content-Location", "Link"}


def test_query_is_quoted_in_headers() -> None:
    query = b'a=>;"\xc3\xa4 b&c=%3E'

    headers = place_headers("/encoding", query, DOCUMENT, NPY, None, settings=LIMITS)

    assert headers["Content-Location"] == "/encoding.npy?a=%3E%3B%22%C3%A4%20b&c=%3E"


def test_file_name_has_shape_and_tag() -> None:
    assert file_name(DOCUMENT, NPY, '"1f3a9c2e77"') == "encoding_2x2_1f3a9c2e.npy"


REQUESTS = [
    RepresentationRequest("npy"),
    RepresentationRequest("json"),
    RepresentationRequest("json", accept_encoding="gzip"),
    RepresentationRequest("npy", is_digest=True),
    RepresentationRequest("json", is_digest=True),
    RepresentationRequest("png"),
    RepresentationRequest("png", is_digest=True),
]


def test_every_representation_has_its_own_tag() -> None:
    tags = [represent(DOCUMENT, request).tag for request in REQUESTS]

    assert len(set(tags)) == len(REQUESTS)
    is_weak = [tag.startswith("W/") for tag in tags]
    assert is_weak == [False, False, True, False, False, True, True]


def test_compressed_file_has_the_name_of_the_plain_one() -> None:
    plain, packed = represent(DOCUMENT, REQUESTS[1]), represent(DOCUMENT, REQUESTS[2])

    assert packed.plain().tag == plain.tag
    assert packed.file_name == plain.file_name
    assert gzip.decompress(b"".join(packed.body.blocks())) == b"".join(plain.body.blocks())


def test_digest_is_of_the_uncompressed_file() -> None:
    request = RepresentationRequest("json", is_digest=True, accept_encoding="gzip")
    digest = represent(DOCUMENT, request)

    assert (digest.coding, digest.tag) == (None, represent(DOCUMENT, REQUESTS[4]).tag)
    assert digest.content_headers() == {"Content-Type": "text/plain; charset=utf-8"}
    assert digest.file_name.endswith(".json.sha256")


def test_range_costs_its_share_and_text_more_than_binary() -> None:
    document = replace(DOCUMENT, arrays={"x": StoredTable(np.ones((4, 8)), FLOAT64)})
    binary, text = (
        represent(document, RepresentationRequest(extension)) for extension in ("bin", "json")
    )

    assert binary.seconds(64) == binary.seconds() / 4
    assert text.seconds() > binary.seconds()


def test_picture_is_long_work_and_can_still_be_cached() -> None:
    picture = represent(DOCUMENT, RepresentationRequest("png", accept_encoding="gzip"))

    assert SHORT_SECONDS < picture.seconds() < MAX_BUILD_SECONDS
    assert (picture.coding, picture.length_bytes) == (None, None)


def test_digest_of_a_picture_is_made_from_the_cached_picture() -> None:
    picture, digest = represent(DOCUMENT, REQUESTS[5]), represent(DOCUMENT, REQUESTS[6])

    assert digest.plain().tag == picture.tag
    assert digest.file_name == f"{picture.file_name}.sha256"
    assert picture.file_name == f"encoding_2x2_{picture.tag[3:11]}.png"


def test_unknown_revision_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="revision must be 1"):
        represent(DOCUMENT, RepresentationRequest("npy", revision=7))


BLOCKS = [b"0.5403023,", b"0.99995,"] * 1000


def test_compressed_blocks_are_one_gzip_member_without_a_time() -> None:
    packed = b"".join(gzipped(BLOCKS))

    assert gzip.decompress(packed) == b"".join(BLOCKS)
    assert len(packed) < 500
    assert packed[4:8] == bytes(4)


class Packer:
    """A compressor that outputs what it is given, after the length of each portion."""

    def compress(self, portion: memoryview) -> bytes:
        return b"<%d>" % len(portion) + portion

    def flush(self) -> bytes:
        return b"."


def test_compressed_bytes_do_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert b"".join(gzipped(BLOCKS)) == b"".join(gzipped([b"".join(BLOCKS)]))
    whole = bytes(range(256)) * 1000
    cuts = ([whole], [whole[:1], whole[1:]], [whole[i : i + 7000] for i in range(0, 256000, 7000)])

    monkeypatch.setattr(zlib, "compressobj", lambda *_: Packer())
    portions = [whole[start : start + 65536] for start in range(0, len(whole), 65536)]
    expected = [b"<%d>" % len(portion) + portion for portion in portions]

    for blocks in cuts:
        assert b"".join(gzipped(blocks)) == b"".join([*expected, b"."])


def test_checksum_is_computed_block_by_block() -> None:
    *before, line = checksum_line([b"a", b"b"], "ab.bin")

    assert before == [b"", b""]
    assert line == f"{sha256(b'ab').hexdigest()}  ab.bin\n".encode()


def test_derived_body_has_the_limit_of_its_source() -> None:
    body = DerivedBody(BinaryBody((b"abc",)), gzipped)

    assert (body.length_bytes, body.limit_bytes) == (None, 3)
