"""The ways in which a document can be sent.

Answers but for their body.

Answers with a body, with blocks, and with none.

Limits on answers, before any work.
"""

import asyncio
import gzip
from collections.abc import AsyncGenerator
from typing import Any

import numpy as np
import pytest

from service.app import create_app
from service.delivery.handler import MAX_BUILD_WORK
from service.delivery.negotiation import RepresentationRequest
from service.delivery.representation import represent
from service.delivery.responses import Answer, CachedBody, Preconditions, ResponseHead, Span
from service.delivery.workers import SHORT_WORK
from service.errors import InvalidParameters, NotAcceptable, PreconditionFailed, RangeNotSatisfiable
from service.numerics.dtypes import FLOAT64
from service.numerics.tables import Document, StoredTable
from service.settings import Settings
from tests.client import Client, client_of

DOCUMENT = Document("encoding", {}, {"encoding": StoredTable(np.ones((4, 8)), FLOAT64)})
WAYS = [
    RepresentationRequest("npy"),
    RepresentationRequest("json"),
    RepresentationRequest("json", accept_encoding="gzip"),
    RepresentationRequest("npy", is_digest=True),
    RepresentationRequest("json", is_digest=True),
    RepresentationRequest("png"),
    RepresentationRequest("png", is_digest=True),
]


def test_every_representation_has_its_own_tag() -> None:
    tags = {represent(DOCUMENT, wanted).tag for wanted in WAYS}

    assert len(tags) == len(WAYS)
    weak = {represent(DOCUMENT, wanted).tag for wanted in (WAYS[2], *WAYS[5:])}
    assert {tag for tag in tags if tag.startswith("W/")} == weak


def test_compressed_file_has_the_name_of_the_plain_one() -> None:
    plain, packed = represent(DOCUMENT, WAYS[1]), represent(DOCUMENT, WAYS[2])

    assert packed.plain().tag == plain.tag
    assert packed.file_name == plain.file_name
    assert gzip.decompress(b"".join(packed.body.blocks())) == b"".join(plain.body.blocks())


def test_a_digest_is_of_the_uncompressed_file() -> None:
    both = represent(
        DOCUMENT, RepresentationRequest("json", is_digest=True, accept_encoding="gzip")
    )

    assert (both.coding, both.tag) == (None, represent(DOCUMENT, WAYS[4]).tag)
    assert both.content_headers() == {"Content-Type": "text/plain; charset=utf-8"}
    assert both.file_name.endswith(".json.sha256")


def test_range_costs_its_share_and_text_more_than_binary() -> None:
    npy, text = (
        represent(DOCUMENT, RepresentationRequest("bin")),
        represent(DOCUMENT, RepresentationRequest("json")),
    )

    assert (npy.cost(), npy.cost(64), npy.cost(1)) == (32, 8, 1)
    assert text.cost() > npy.cost()


def test_a_picture_costs_more_than_its_table_and_can_still_be_kept() -> None:
    picture = represent(DOCUMENT, RepresentationRequest("png", accept_encoding="gzip"))

    assert SHORT_WORK < picture.cost() < MAX_BUILD_WORK
    assert picture.coding is None
    assert picture.length_bytes is None


def test_a_picture_and_what_it_is_digested_of_are_one_body() -> None:
    picture, digest = represent(DOCUMENT, WAYS[5]), represent(DOCUMENT, WAYS[6])

    assert digest.plain().tag == picture.tag
    assert digest.file_name == f"{picture.file_name}.sha256"
    assert picture.file_name == f"encoding_4x8_{picture.tag[3:11]}.png"


def test_excluded_coding_is_not_chosen() -> None:
    with pytest.raises(NotAcceptable, match="allow identity or gzip"):
        represent(DOCUMENT, RepresentationRequest("json", accept_encoding="*;q=0"))


def test_unknown_revision_is_refused() -> None:
    with pytest.raises(InvalidParameters, match="revision must be 1"):
        represent(DOCUMENT, RepresentationRequest("npy", revision=7))


ALWAYS, DESCRIBED = (b"etag", b'"a"'), (b"content-type", b"x/y")
BINARY = ResponseHead('"a"', [ALWAYS], [DESCRIBED], 6)
TEXT = ResponseHead('"a"', [ALWAYS], [DESCRIBED], None)
BUILT = CachedBody(b"abcdef", "sha-256=:x:")
DIGEST = (b"repr-digest", b"sha-256=:x:")


def test_not_modified_has_no_body_and_no_content_headers() -> None:
    answer = BINARY.without_body(Preconditions("GET", if_none_match='"a"'))

    assert answer is not None
    assert (answer.status_code, answer.raw_headers, answer.payload) == (304, [ALWAYS], None)


def test_head_has_a_known_length() -> None:
    binary, text = (
        BINARY.without_body(Preconditions("HEAD")),
        TEXT.without_body(Preconditions("HEAD")),
    )

    assert binary is not None
    assert text is not None
    assert binary.raw_headers == [ALWAYS, DESCRIBED, (b"content-length", b"6")]
    assert text.raw_headers == [ALWAYS, DESCRIBED]


def test_get_needs_a_body() -> None:
    assert BINARY.without_body(Preconditions("GET")) is None
    with pytest.raises(PreconditionFailed):
        BINARY.without_body(Preconditions("GET", if_match='"b"'))


def test_only_bodies_of_known_length_have_ranges() -> None:
    asked = Preconditions("GET", range="bytes=2-3")

    assert (BINARY.span(asked), TEXT.span(asked)) == (Span(2, 4), None)
    with pytest.raises(RangeNotSatisfiable):
        BINARY.span(Preconditions("GET", range="bytes=6-"))


def test_cached_body_and_its_ranges_have_a_digest() -> None:
    whole, part = BINARY.cached(None, BUILT), BINARY.cached(Span(2, 4), BUILT)

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


def test_uncached_body_has_the_same_headers_without_a_digest() -> None:
    whole, part = BINARY.streamed(None, b"abcdef"), BINARY.streamed(Span(2, 4), b"cd")

    assert whole.raw_headers == [ALWAYS, DESCRIBED, (b"content-length", b"6")]
    assert part.status_code == 206
    assert part.raw_headers[2:] == [(b"content-range", b"bytes 2-3/6"), (b"content-length", b"2")]


async def connected() -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def gone() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def sent(answer: Answer, method: str = "GET", receive: Any = connected) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(message)
        await asyncio.sleep(0)

    asyncio.run(answer({"type": "http", "method": method}, receive, send))
    return messages


async def numbers(made: list[int], count: int) -> AsyncGenerator[bytes, None]:
    for number in range(count):
        made.append(number)
        yield bytes([number])
        await asyncio.sleep(0)


def test_bytes_have_content_length() -> None:
    start, body = sent(Answer(200, [(b"etag", b'"a"')], b"abc"))

    assert start["headers"] == [(b"etag", b'"a"'), (b"content-length", b"3")]
    assert body["body"] == b"abc"


def test_response_without_body_has_no_added_length() -> None:
    start, body = sent(Answer(304, [(b"etag", b'"a"')]))

    assert start["headers"] == [(b"etag", b'"a"')]
    assert body["body"] == b""


def test_blocks_are_sent_in_order_with_an_end() -> None:
    _, *bodies = sent(Answer(200, [], numbers([], 3)))

    assert b"".join(message["body"] for message in bodies) == b"\0\1\2"
    assert [message.get("more_body", False) for message in bodies] == [True] * 6 + [False]


def test_block_is_computed_after_the_previous_one_is_sent() -> None:
    made: list[int] = []
    taken: list[int] = []

    # A server's send waits until what it was given before is taken.
    async def send(_: Any) -> None:
        taken.append(len(made))
        await asyncio.sleep(0)

    asyncio.run(
        Answer(200, [], numbers(made, 3))({"type": "http", "method": "GET"}, connected, send)
    )

    assert taken == [0, 1, 1, 2, 2, 3, 3, 3]


def test_head_computes_no_block() -> None:
    made: list[int] = []

    _, body = sent(Answer(200, [], numbers(made, 3)), method="HEAD")

    assert (body["body"], made) == (b"", [])


def test_disconnect_ends_the_stream() -> None:
    made: list[int] = []

    sent(Answer(200, [], numbers(made, 200)), receive=gone)

    assert len(made) < 5


def test_blocks_are_counted_for_content_length() -> None:
    made: list[int] = []

    start, *bodies = sent(Answer(200, [], numbers(made, 3), numbers(made, 3)))

    assert start["headers"] == [(b"content-length", b"3")]
    assert b"".join(message["body"] for message in bodies) == b"\0\1\2"
    assert made == [0, 1, 2, 0, 1, 2]


def test_disconnect_ends_the_count() -> None:
    counted: list[int] = []

    assert sent(Answer(200, [], numbers([], 99), numbers(counted, 99)), receive=gone) == []
    assert len(counted) < 5


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "url", "name"),
    [
        (Settings(max_text_bytes=1000), "/encoding.json?seq_len=100&d_model=4", "MAX_TEXT_BYTES"),
        (Settings(max_text_bytes=1000), "/encoding.csv?seq_len=100&d_model=4", "MAX_TEXT_BYTES"),
        (Settings(max_response_bytes=191), "/encoding.npy?seq_len=4&d_model=4", "MAX_RESPONSE_"),
        (
            Settings(max_digest_bytes=191),
            "/encoding.npy.sha256?seq_len=4&d_model=4",
            "MAX_DIGEST_BYTES",
        ),
    ],
)
def test_answer_past_a_limit_names_the_setting_and_an_alternative(
    settings: Settings, url: str, name: str
) -> None:
    with client_of(create_app(settings)) as limited:
        answers = [limited.get(url), limited.get(url, accept_encoding="gzip")]
        assert limited.app.state.delivery.cache.builds == 0
        small = limited.get(url.replace("seq_len=100", "seq_len=2").replace("=4", "=1"))

        for answer in answers:
            assert answer.status_code == 413
            assert f"POSREF_{name}" in answer.json()["detail"]
            assert ": ask for" in answer.json()["detail"]
        assert small.status_code == 200


@pytest.mark.full
def test_head_describes_a_body_past_its_limit_if_it_has_ranges() -> None:
    with client_of(create_app(Settings(max_response_bytes=191))) as limited:
        binary = limited.head("/encoding.npy?seq_len=4&d_model=4")

    assert (binary.status_code, binary.headers["Content-Length"]) == (200, "192")


def test_text_of_any_size_is_refused_at_once(client: Client) -> None:
    for extension in ("json", "csv"):
        answer = client.get(f"/encoding.{extension}?seq_len={2**60}&d_model=1")

        assert answer.status_code == 413


def test_posted_answer_past_its_limit_offers_no_ranges() -> None:
    with client_of(create_app(Settings(max_response_bytes=191))) as limited:
        answer = limited.post("/encoding.npy", json={"seq_len": 4, "d_model": 4})

    assert answer.status_code == 413
    assert answer.json()["detail"].endswith(": ask for less of it")
