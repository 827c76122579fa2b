"""Compression: of text formats only, by q-values, built once, with entity tags of its own."""

import gzip

import httpx
import orjson
import pytest

from service.app import create_app
from service.settings import Settings
from tests.client import Client, client_of

JSON = "/encoding.json?seq_len=40&d_model=16"
CSV = "/encoding.csv?seq_len=40&d_model=16"
NPY = "/encoding.npy?seq_len=40&d_model=16"
OPENAPI = "/openapi.json"


def raw_body(client: Client, url: str, **headers: str) -> tuple[httpx.Response, bytes]:
    """Return an answer and its bytes before decompression."""

    async def sent() -> tuple[httpx.Response, bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with client._http.stream("GET", url, headers=named) as answer:
            return answer, b"".join([chunk async for chunk in answer.aiter_raw()])

    return client.run(sent())


@pytest.mark.parametrize("url", [JSON, CSV])
@pytest.mark.parametrize("entry_bytes", [0, 2**24])
def test_text_formats_are_gzipped_on_request(url: str, entry_bytes: int) -> None:
    with client_of(create_app(Settings(cache_entry_bytes=entry_bytes))) as client:
        plain, plain_body = raw_body(client, url)
        for _ in range(2):
            answer, body = raw_body(client, url, accept_encoding="gzip, deflate, br")

            assert gzip.decompress(body) == plain_body
            assert len(body) < len(plain_body)
            assert answer.headers["Content-Encoding"] == "gzip"
            assert answer.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
            assert answer.headers["ETag"].startswith('W/"')
            assert answer.headers["ETag"] != f"W/{plain.headers['ETag']}"
            name = answer.headers["Content-Disposition"]
            assert name == plain.headers["Content-Disposition"]
        assert "Content-Encoding" not in plain.headers


def test_openapi_document_is_compact_and_gzipped_on_request(client: Client) -> None:
    plain, plain_body = raw_body(client, OPENAPI)
    packed, packed_body = raw_body(client, OPENAPI, accept_encoding="gzip, deflate, br")

    assert gzip.decompress(packed_body) == plain_body
    assert len(packed_body) < len(plain_body) / 4
    assert plain_body == orjson.dumps(orjson.loads(plain_body))
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    assert packed.headers["ETag"].startswith('W/"')
    assert plain.headers["ETag"].startswith('"')
    assert client.get(OPENAPI, if_match='"other"').status_code == 412


def test_binary_formats_are_never_compressed(fresh_client: Client) -> None:
    for _ in range(2):
        answer, body = raw_body(fresh_client, NPY, accept_encoding="gzip")

        assert "Content-Encoding" not in answer.headers
        assert "Vary" not in answer.headers
        assert len(body) == 128 + 40 * 16 * 4


def test_gzipped_and_plain_bodies_are_built_once_each(fresh_client: Client) -> None:
    for _ in range(3):
        raw_body(fresh_client, JSON, accept_encoding="gzip")
        raw_body(fresh_client, JSON, accept_encoding="gzip;q=0.5")
        raw_body(fresh_client, JSON)

    assert fresh_client.app.state.delivery.cache.builds == 2


@pytest.mark.parametrize("url", [JSON, OPENAPI])
def test_gzipped_and_plain_bodies_have_entity_tags_of_their_own(
    fresh_client: Client, url: str
) -> None:
    packed, _ = raw_body(fresh_client, url, accept_encoding="gzip")
    plain, _ = raw_body(fresh_client, url)

    def status(tag: str, coding: str) -> int:
        answer, _ = raw_body(fresh_client, url, accept_encoding=coding, if_none_match=tag)
        return answer.status_code

    assert status(packed.headers["ETag"], "gzip") == 304
    assert status(plain.headers["ETag"], "identity") == 304
    assert status(plain.headers["ETag"], "gzip") == 200
    assert status(packed.headers["ETag"], "identity") == 200


@pytest.mark.parametrize("excluded", ["identity;q=0", "*;q=0", "br, *;q=0", "gzip;q=0, *;q=0"])
@pytest.mark.parametrize("url", [JSON, NPY, OPENAPI])
def test_406_if_accept_encoding_excludes_every_coding(
    fresh_client: Client, url: str, excluded: str
) -> None:
    fresh_client.get(url)

    answer = fresh_client.get(url, accept_encoding=excluded)

    assert answer.status_code == 406
    assert "identity" in answer.json()["detail"]


@pytest.mark.parametrize("url", [JSON, OPENAPI])
def test_head_has_the_content_encoding_of_get(fresh_client: Client, url: str) -> None:
    head = fresh_client.request("HEAD", url, headers={"Accept-Encoding": "gzip"})
    get, _ = raw_body(fresh_client, url, accept_encoding="gzip")

    assert head.headers["ETag"] == get.headers["ETag"]
    assert head.headers["Content-Encoding"] == "gzip"
    assert fresh_client.app.state.delivery.cache.builds == (2 if url == JSON else 0)


def test_answers_to_posted_parameters_are_gzipped_too(fresh_client: Client) -> None:
    content = {"seq_len": 40, "d_model": 16}

    plain = fresh_client.post("/encoding", json=content)
    packed = fresh_client.post("/encoding", json=content, headers={"Accept-Encoding": "gzip"})

    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.content == plain.content
    assert "Content-Encoding" not in plain.headers
