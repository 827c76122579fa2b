"""Finished answers: the same as the first, without the framework, within bounds."""

from collections.abc import Iterator

import httpx
import pytest

from service.app import create_app
from service.delivery.cache import request_key
from service.settings import Settings, default_settings
from tests.client import Client, client_of

URLS = [
    "/encoding.npy?seq_len=5&d_model=6",
    "/encoding.json?seq_len=5&d_model=6&revision=1",
    "/encoding?seq_len=5&d_model=6",
    "/rope.safetensors?head_dim=4&seq_len=3&pack=half",
]


@pytest.fixture
def fresh() -> Iterator[Client]:
    with client_of(create_app(default_settings())) as client:
        yield client


def shut(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every request that meets a resource fail."""

    def fail(*_: object) -> None:
        raise ArithmeticError

    monkeypatch.setattr("service.delivery.handler.parse_query", fail)
    assert client.get("/encoding?seq_len=9&d_model=9").status_code == 500


def told(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """Give what an answer is, but for the name of its request."""
    headers = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    return answer.status_code, answer.content, headers


@pytest.mark.parametrize(
    ("raw_path", "query", "target"),
    [(b"/x.npy", b"a=1", b"/x.npy?a=1"), (b"/x.npy", b"", b"/x.npy"), (None, b"a", b"/x.npy?a")],
)
def test_a_spelling_is_the_target_and_what_is_accepted(
    raw_path: bytes | None, query: bytes, target: bytes
) -> None:
    headers = [(b"accept", b"a/b"), (b"host", b"x"), (b"accept", b"c/d")]
    scope = {"path": "/x.npy", "raw_path": raw_path, "query_string": query, "headers": headers}

    assert request_key(scope) == (target, b"a/b, c/d", None)


@pytest.mark.parametrize("url", URLS)
def test_a_warm_answer_is_the_first_one_again_and_meets_no_route(
    fresh: Client, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    get, head = fresh.get(url), fresh.head(url)
    seen = fresh.get(url, if_none_match=get.headers["ETag"])
    with client_of(create_app(default_settings())) as cold:
        assert told(cold.head(url)) == told(head)
        assert told(cold.get(url, if_none_match=get.headers["ETag"])) == told(seen)
    shut(fresh, monkeypatch)

    assert told(fresh.get(url)) == told(get)
    assert told(fresh.get(url, if_none_match='"other"')) == told(get)
    assert (head.status_code, head.content) == (200, b"")
    assert (seen.status_code, seen.content) == (304, b"")


def test_accept_decides_where_no_extension_does(
    fresh: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_answer = fresh.get("/encoding?seq_len=2&d_model=2", accept="application/json")
    npy_answer = fresh.get("/encoding?seq_len=2&d_model=2", accept="application/x-npy")
    shut(fresh, monkeypatch)

    for answer, accept in ((json_answer, "application/json"), (npy_answer, "application/x-npy")):
        again = fresh.get("/encoding?seq_len=2&d_model=2", accept=accept)
        assert told(again) == told(answer)
    assert json_answer.content != npy_answer.content


@pytest.mark.full
@pytest.mark.parametrize(
    "url", ["/encoding?seq_len=2", "/nope", "/livez", "/encoding.npy?seq_len=2&d_model=2"]
)
def test_only_tables_that_were_got_are_kept(fresh: Client, url: str) -> None:
    fresh.request("POST", url, json={})
    fresh.head(url)
    answer = fresh.get(url)

    kept = len(fresh.app.state.delivery.answers._responses)
    assert kept == (answer.status_code == 200 and url.startswith("/encoding"))


def test_an_answer_whose_body_is_forgotten_is_made_anew() -> None:
    with client_of(create_app(Settings(cache_bytes=20_000))) as small:
        first = small.get("/encoding.npy?seq_len=64&d_model=64&dtype=float16")
        small.get("/encoding.npy?seq_len=64&d_model=65&dtype=float16")
        small.get("/encoding.npy?seq_len=64&d_model=66&dtype=float16")
        again = small.get("/encoding.npy?seq_len=64&d_model=64&dtype=float16")

        assert told(again) == told(first)
        assert small.app.state.delivery.cache.builds == 4


@pytest.mark.full
def test_spellings_are_counted_and_bounded() -> None:
    settings = Settings(cache_bytes=16 * 50_000)
    with client_of(create_app(settings)) as small:
        kept = small.app.state.delivery.answers._responses
        for number in range(1, 100):
            small.get("/encoding.npy?seq_len=1&d_model=2", accept=f"a/b{number}, */*")

        assert kept.size_bytes <= kept.capacity_bytes == 50_000
        assert 5 < len(kept) < 30


@pytest.mark.full
def test_what_is_refused_is_refused_warm_as_it_was_cold(fresh: Client) -> None:
    url = "/encoding.npy?seq_len=5&d_model=6"
    refused = [{"range": "bytes=9999-"}, {"if_match": '"x"'}]
    cold = [told(fresh.get(url, **headers)) for headers in refused]
    fresh.get(url)

    warm = [told(fresh.get(url, **headers)) for headers in refused]

    assert warm == cold
    assert [status for status, _, _ in warm] == [416, 412]
