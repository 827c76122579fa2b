"""The ways in which a document can be sent."""

import gzip

import numpy as np
import pytest

from service.delivery.ranges import Span
from service.delivery.representation import represent
from service.delivery.respond import MAX_BUILD_WORK
from service.delivery.wanted import Wanted
from service.delivery.workers import SHORT_WORK
from service.errors import InvalidParameters, NotAcceptable
from service.tables.document import Document
from service.tables.dtypes import FLOAT64
from service.tables.table import StoredTable

DOCUMENT = Document("encoding", {}, {"encoding": StoredTable(np.ones((4, 8)), FLOAT64)})
WAYS = [
    Wanted("npy"),
    Wanted("json"),
    Wanted("json", accept_encoding="gzip"),
    Wanted("npy", is_digest=True),
    Wanted("json", is_digest=True),
    Wanted("png"),
    Wanted("png", is_digest=True),
]


def test_every_way_has_a_tag_of_its_own() -> None:
    tags = {represent(DOCUMENT, wanted).tag for wanted in WAYS}

    assert len(tags) == len(WAYS)
    weak = {represent(DOCUMENT, wanted).tag for wanted in (WAYS[2], *WAYS[5:])}
    assert {tag for tag in tags if tag.startswith("W/")} == weak


def test_a_file_compressed_is_the_same_file() -> None:
    plain, packed = represent(DOCUMENT, WAYS[1]), represent(DOCUMENT, WAYS[2])

    assert packed.plain().tag == plain.tag
    assert packed.file_name == plain.file_name
    assert gzip.decompress(b"".join(packed.body.blocks())) == b"".join(plain.body.blocks())


def test_a_digest_is_of_the_uncompressed_file() -> None:
    both = represent(DOCUMENT, Wanted("json", is_digest=True, accept_encoding="gzip"))

    assert (both.coding, both.tag) == (None, represent(DOCUMENT, WAYS[4]).tag)
    assert both.described() == {"Content-Type": "text/plain; charset=utf-8"}
    assert both.file_name.endswith(".json.sha256")


def test_a_part_costs_its_share_and_text_more_than_bytes() -> None:
    npy, text = represent(DOCUMENT, Wanted("bin")), represent(DOCUMENT, Wanted("json"))

    assert (npy.cost(), npy.cost(Span(0, 64)), npy.cost(Span(0, 1))) == (32, 8, 1)
    assert text.cost() > npy.cost()


def test_a_picture_costs_more_than_its_table_and_can_still_be_kept() -> None:
    picture = represent(DOCUMENT, Wanted("png", accept_encoding="gzip"))

    assert SHORT_WORK < picture.cost() < MAX_BUILD_WORK
    assert picture.coding is None
    assert picture.length_bytes is None


def test_a_picture_and_what_it_is_digested_of_are_one_body() -> None:
    picture, digest = represent(DOCUMENT, WAYS[5]), represent(DOCUMENT, WAYS[6])

    assert digest.plain().tag == picture.tag
    assert digest.file_name == f"{picture.file_name}.sha256"
    assert picture.file_name == f"encoding_4x8_{picture.tag[3:11]}.png"


def test_a_coding_that_is_excluded_is_not_sent() -> None:
    with pytest.raises(NotAcceptable, match="allow identity or gzip"):
        represent(DOCUMENT, Wanted("json", accept_encoding="*;q=0"))


def test_a_revision_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="revision must be 1"):
        represent(DOCUMENT, Wanted("npy", revision=7))
