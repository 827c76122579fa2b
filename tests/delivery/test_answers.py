"""Answers: limits, bodies from the cache and from workers, revisions, readiness."""

from urllib.parse import urlencode

import pytest

from service.app import create_app
from service.delivery import dispatch, streams
from service.delivery.streams import MAX_UNREAD_BYTES
from service.encodings.relative.sandwich import Sandwich
from service.formats import FORMATS
from service.formats.png import PngBody
from service.settings import Settings, default_settings
from tests.client import Client, client_of
from tests.exchange import Exchange

TABLE = "/encoding.npy?seq_len=4&d_model=4"


@pytest.mark.parametrize(
    "query",
    [
        f"seq_len={2**60}&d_model=512&start={-(2**60)}",
        # The numbers take 2^63 - 2 bytes, and the header of npy is beside them.
        f"seq_len={2**62 - 1}&d_model=1&start={-(2**62)}&dtype=float16",
    ],
)
def test_body_past_2_to_63_bytes_is_refused(client: Client, query: str) -> None:
    answer = client.get(f"/encoding.npy?{query}")

    assert answer.status_code == 422
    assert "2^63 - 1" in answer.json()["detail"]


def test_head_of_a_huge_table_computes_nothing(client: Client) -> None:
    builds = client.app.state.delivery.cache.builds

    answer = client.head(f"/encoding.npy?seq_len={2**53}&d_model=2&dtype=float64")

    assert answer.headers["Content-Length"] == str(128 + 2**53 * 2 * 8)
    assert answer.headers["Array-Shape"] == f"{2**53}, 2"
    assert client.app.state.delivery.cache.builds == builds


def test_a_drawing_that_is_evicted_while_it_is_sent_is_not_drawn_on_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Children have imported it already.
    monkeypatch.delattr(PngBody, "parts")
    url = "/encoding.png?seq_len=512&d_model=512"
    with client_of(create_app(default_settings())) as client:
        bodies = client.app.state.delivery.cache.bodies
        monkeypatch.setattr(bodies, "get", lambda _: None)

        answer = client.get(url)

    assert answer.status_code == 200
    assert len(answer.content) > MAX_UNREAD_BYTES


@pytest.mark.full
@pytest.mark.parametrize("extension", ["npy", "json", "safetensors", "bin"])
def test_streamed_body_equals_the_cached_one(client: Client, extension: str) -> None:
    url = f"/encoding.{extension}?seq_len=300&d_model=64"
    with client_of(create_app(Settings(cache_entry_bytes=0))) as streaming:
        streamed = streaming.get(url)
        assert streaming.app.state.delivery.cache.builds == 0

    assert streamed.content == client.get(url).content


def test_answers_to_posts_are_streamed() -> None:
    body = {"x": [[1.0, 2.0]] * 100}
    with client_of(create_app(Settings(cache_entry_bytes=0))) as streaming:
        json_answer = streaming.post("/rope/apply", json=body)
        npy_answer = streaming.post("/rope/apply.npy", json=body)

    assert json_answer.json()["shape"] == [100, 2]
    assert int(npy_answer.headers["Content-Length"]) == len(npy_answer.content) == 128 + 1600


@pytest.mark.full
@pytest.mark.parametrize("piece_count", [0, 1, 3, 2**20])
@pytest.mark.parametrize("extension", ["npy", "csv", "json"])
def test_long_cached_body_is_sent_in_pieces(
    client: Client, monkeypatch: pytest.MonkeyPatch, extension: str, piece_count: int
) -> None:
    url = f"/encoding.{extension}?seq_len=30&d_model=16"
    whole = client.get(url)
    monkeypatch.setattr(dispatch, "MAX_HELD_BYTES", 100)
    monkeypatch.setattr(streams, "BLOCK_BYTES", 64)
    with client_of(create_app(Settings())) as other:
        for _ in range(2):
            evict_after(piece_count, monkeypatch)
            pieces = other.get(url)
            evict_after(piece_count, monkeypatch)
            part = other.get(url, range="bytes=5-1004")
            evict_after(piece_count, monkeypatch)
            packed = other.get(url, accept_encoding="gzip")

            for answer in (pieces, whole):
                answer.headers.pop("X-Request-Id", None)
            assert dict(pieces.headers) == dict(whole.headers)
            assert pieces.content == packed.content == whole.content
            if extension == "npy":
                assert part.content == whole.content[5:1005]
                assert part.headers["Repr-Digest"] == whole.headers["Repr-Digest"]
        assert not len(other.app.state.delivery.response_cache._responses)
        assert other.app.state.delivery.cache.builds == (1 if extension == "npy" else 2)


_FIND = dispatch.Delivery._found_body


def evict_after(piece_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a cached body be evicted after a number of pieces."""
    left = iter(range(piece_count))

    def find(delivery: dispatch.Delivery, tag: str) -> bytes | None:
        return None if next(left, None) is None else _FIND(delivery, tag)

    monkeypatch.setattr(dispatch.Delivery, "_found_body", find)


@pytest.mark.full
@pytest.mark.parametrize("extension", FORMATS)
def test_body_larger_than_the_cache_is_computed_once(client: Client, extension: str) -> None:
    url = f"/encoding.{extension}?seq_len=300&d_model=64"
    with client_of(create_app(Settings(cache_bytes=0))) as forgetful:
        answer = forgetful.get(url)

        assert answer.content == client.get(url).content
        assert "Repr-Digest" not in answer.headers
        assert forgetful.app.state.delivery.cache.builds == 0


def test_uncached_text_for_a_client_without_chunks_has_its_length(client: Client) -> None:
    url = "/encoding.csv?seq_len=300&d_model=64"
    with client_of(create_app(Settings(cache_bytes=0))) as forgetful:
        exchange = Exchange(forgetful.app, "GET", url)
        exchange.scope["http_version"] = "1.0"
        forgetful.run(exchange.run())
        granted = forgetful.app.state.delivery.budget.granted()

    assert exchange.body == client.get(url).content
    assert int(exchange.headers["content-length"]) == len(exchange.body) > MAX_UNREAD_BYTES
    assert granted["streams"] == 0


def test_concurrent_requests_draw_one_picture() -> None:
    url = "/encoding.png?seq_len=4&d_model=4"
    spellings = [url, url, f"{url}&base=1e4", url.replace("?", ".sha256?"), f"{url}&revision=1"]
    with client_of(create_app(default_settings())) as fresh:
        cache = fresh.app.state.delivery.cache
        heads = [fresh.head(each) for each in spellings]
        assert not cache.builds
        answers = fresh.get_all(spellings) + fresh.get_all(spellings)
        # The picture and its digest.
        assert cache.builds == 2

    assert {head.status_code for head in heads} == {200}
    assert len({answer.content for answer in answers}) == 2
    assert answers[0].content.startswith(b"\x89PNG")


@pytest.mark.full
def test_post_for_a_picture_draws_it(client: Client) -> None:
    posted = client.post("/encoding.png", json={"seq_len": 4, "d_model": 4})
    rotated = client.post("/rope/apply.png", json={"x": [[1.0, 2.0], [3.0, 4.0]]})

    assert posted.content == client.get("/encoding.png?seq_len=4&d_model=4").content
    assert rotated.content.startswith(b"\x89PNG")


@pytest.mark.full
def test_length_of_a_digest_is_known_in_advance() -> None:
    with client_of(create_app(Settings(cache_entry_bytes=0))) as streaming:
        answer = streaming.get("/encoding.npy.sha256?seq_len=3000&d_model=512")

    assert int(answer.headers["Content-Length"]) == len(answer.content)
    assert "Accept-Ranges" not in answer.headers


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
            assert ": request" in answer.json()["detail"]
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
    assert answer.json()["detail"].endswith(": request a smaller table")


def test_posted_text_past_its_limit_names_where_to_post_the_same() -> None:
    with client_of(create_app(Settings(max_text_bytes=10))) as limited:
        answer = limited.post("/encoding?seq_len=4", json={"d_model": 4})
        detail = answer.json()["detail"]
        url = detail.partition(": POST the same to ")[2].removesuffix(
            ", or request a smaller table"
        )
        posted = limited.post(url, json={"d_model": 4})

    assert (answer.status_code, url) == (413, "/encoding.npy?seq_len=4")
    assert posted.headers["Array-Shape"] == "4, 4"


def test_limit_is_checked_before_preconditions() -> None:
    url = "/encoding.json?seq_len=100&d_model=4"
    with client_of(create_app(Settings(max_text_bytes=1000))) as limited:
        answers = [
            limited.get(url),
            limited.get(url, if_none_match="*"),
            limited.get(url, if_match='"x"'),
            limited.head(url),
        ]

    assert [answer.status_code for answer in answers] == [413] * 4


def test_posted_text_has_vary(client: Client) -> None:
    by_extension = client.post("/encoding.json", json={"seq_len": 2, "d_model": 4})
    by_accept = client.post("/encoding", json={"seq_len": 2, "d_model": 4})

    assert by_extension.headers["Vary"] == "Accept-Encoding"
    assert by_accept.headers["Vary"] == "Accept, Accept-Encoding"
    digest = client.post("/encoding.json.sha256", json={"seq_len": 2, "d_model": 4})
    assert "Vary" not in digest.headers


@pytest.mark.parametrize(
    ("revision", "status"), [("1", 200), ("2", 422), ("0", 422), ("-1", 422), ("x", 422)]
)
def test_only_the_current_revision_is_served(client: Client, revision: str, status: int) -> None:
    answer = client.get(f"{TABLE}&revision={revision}")

    assert answer.status_code == status


def test_retired_revision_is_gone(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandwich, "revision_of_bytes", 2)
    query = {"num_heads": 1, "head_dim": 2, "query_len": 2, "revision": 1}

    answers = [
        client.get(f"/relative/sandwich.npy?{urlencode(query)}"),
        client.post("/relative/sandwich", json=query),
    ]

    for answer in answers:
        assert answer.status_code == 410
        assert answer.json()["type"] == "urn:posref:problem:revision-retired"


def test_answers_to_posts_are_no_store(client: Client) -> None:
    answer = client.post("/encoding.npy", json={"seq_len": 4, "d_model": 4})

    assert answer.headers["Cache-Control"] == "no-store"
    assert "ETag" not in answer.headers
    assert answer.content == client.get(TABLE).content


def test_draining_process_is_not_ready_and_answers_requests(fresh_client: Client) -> None:
    assert fresh_client.get("/readyz").status_code == 200
    fresh_client.app.state.delivery.is_draining = True

    answer = fresh_client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:posref:problem:not-ready"
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Cache-Control"] == "no-store"
    assert fresh_client.get("/livez").status_code == 200
    assert fresh_client.get("/encoding?seq_len=1&d_model=2").status_code == 200
