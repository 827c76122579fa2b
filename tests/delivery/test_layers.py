"""Layers around the application."""

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from service.delivery.layers import FailuresAsProblems, OpenToEveryOrigin
from tests.client import Client


@pytest.mark.parametrize("url", ["/encoding?seq_len=1&d_model=2", "/encoding?seq_len=1", "/nope"])
@pytest.mark.parametrize("headers", [{}, {"Origin": "https://example.org"}])
def test_pages_of_any_origin_may_read_and_embed_every_answer(
    client: Client, url: str, headers: dict[str, str]
) -> None:
    answer = client.get(url, **headers)

    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers
    assert "ETag" in answer.headers["Access-Control-Expose-Headers"]
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert "Origin" not in answer.headers.get("Vary", "")


def test_what_a_client_already_has_is_as_open(client: Client) -> None:
    url = "/encoding.npy?seq_len=1&d_model=2"

    again = client.get(url, if_none_match=client.get(url).headers["ETag"])

    assert again.status_code == 304
    assert again.headers["Access-Control-Allow-Origin"] == "*"


def test_a_preflight_is_answered(client: Client) -> None:
    answer = client.request(
        "OPTIONS",
        "/rope/apply",
        headers={
            "Origin": "https://example.org",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type",
        },
    )

    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, HEAD, POST"
    assert answer.headers["Access-Control-Allow-Headers"] == "content-type"


def test_options_without_a_question_is_a_problem(client: Client) -> None:
    assert client.request("OPTIONS", "/rope/apply").status_code == 405


def test_what_is_no_request_passes_untouched() -> None:
    scopes: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope["type"])

    asyncio.run(OpenToEveryOrigin(app)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert scopes == ["lifespan"]


def test_an_answer_that_had_begun_is_broken_off() -> None:
    messages: list[str] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        raise ArithmeticError

    async def send(message: Any) -> None:
        messages.append(message["type"])

    with pytest.raises(ArithmeticError):
        asyncio.run(FailuresAsProblems(app)({"type": "http"}, None, send))  # type: ignore[arg-type]

    assert messages == ["http.response.start"]


def test_a_client_that_leaves_while_it_sends_is_no_failure() -> None:
    messages: list[Any] = []

    async def app(_scope: Any, _receive: Any, _send: Any) -> None:
        raise ClientDisconnect

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(FailuresAsProblems(app)({"type": "http"}, None, send))  # type: ignore[arg-type]

    assert not messages
