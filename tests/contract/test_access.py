"""Where keys are set: nothing for those without one, and the same answers for those with one."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.routing import Route

from service.app import create_app
from service.delivery.middleware import PROBES
from service.delivery.respond import Delivery
from service.routes import RESOURCES
from service.settings import default_settings
from tests.client import Client, client_of

KEY = "correct-horse-battery"
RIGHT = {"Authorization": f"Bearer {KEY}"}
ASSET = "/docs/assets/swagger-ui.css"
KEPT = "/encoding.npy?seq_len=7&d_model=6"

OPEN = create_app(default_settings())
PATHS = sorted(
    {route.path for route in OPEN.routes if isinstance(route, Route)} | {ASSET, "/nowhere"}
)
EXAMPLES = {known.path: known.example for known in RESOURCES}
REQUESTS = [
    (method, path.replace("{extension}", "npy"))
    for path, method in product(PATHS, ["GET", "HEAD", "POST"])
]


@pytest.fixture(scope="module")
def shut() -> Iterator[Client]:
    settings = default_settings().model_copy(update={"api_keys": SecretStr(f"{KEY},{'x' * 16}")})
    with client_of(create_app(settings)) as client:
        yield client


@pytest.fixture
def asked(shut: Client) -> Iterator[list[dict[str, Any]]]:
    """Note the scopes of what reaches an application that asks for keys."""
    scopes: list[dict[str, Any]] = []
    app: Any = shut.app

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await app(scope, receive, send)

    transport = httpx.ASGITransport(noting)
    before = shut._http
    shut._http = httpx.AsyncClient(transport=transport, base_url="http://posref.test")
    yield scopes
    shut.run(shut._http.aclose())
    shut._http = before


def delivery_of(client: Client) -> Delivery:
    app: FastAPI = client.app
    delivery: Delivery = app.state.delivery
    return delivery


def unnamed(answer: httpx.Response) -> dict[str, str]:
    """Give the headers of an answer but for the name of its request."""
    return {name: value for name, value in answer.headers.items() if name != "x-request-id"}


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_no_route_is_met_without_a_key(
    shut: Client, asked: list[dict[str, Any]], method: str, path: str
) -> None:
    before = delivery_of(shut).cache.builds

    answer = shut.request(method, f"{path}?seq_len=2&d_model=2", content=b"x" * 1000)

    if path in PROBES and method != "POST":
        assert answer.status_code == 422
        return
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="posref"'
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    if method != "HEAD":
        assert answer.json()["type"] == "urn:posref:problem:unauthorized"
    assert "route" not in asked[0]
    assert delivery_of(shut).cache.builds == before


def test_a_route_is_met_with_a_key(shut: Client, asked: list[dict[str, Any]]) -> None:
    assert shut.request("GET", "/rope?head_dim=4&seq_len=2", headers=RIGHT).status_code == 200
    assert "route" in asked[0]


@pytest.mark.parametrize(
    ("method", "path"), [case for case in REQUESTS if "metrics" not in case[1]]
)
def test_a_key_gives_what_there_is_without_keys_but_private(
    shut: Client, client: Client, method: str, path: str
) -> None:
    url = f"{path}?{EXAMPLES.get(path.removesuffix('.npy'), '')}".removesuffix("?")
    given, plain = shut.request(method, url, headers=RIGHT), client.request(method, url)

    assert given.status_code == plain.status_code
    assert given.content == plain.content
    told, expected = unnamed(given), unnamed(plain)
    control = told.pop("cache-control")
    assert control == expected.pop("cache-control", "").replace("public", "private") or (
        path == ASSET and control == "private"
    )
    assert told == expected


def test_a_kept_answer_is_for_those_with_a_key_and_private_again(shut: Client) -> None:
    first, second = (shut.request("GET", KEPT, headers=RIGHT) for _ in range(2))

    assert first.content == second.content
    assert unnamed(first) == unnamed(second)
    assert first.headers["Cache-Control"] == "private, max-age=86400"
    for headers in ({}, {"If-None-Match": first.headers["ETag"]}, {"Range": "bytes=0-3"}):
        assert shut.request("GET", KEPT, headers=headers).status_code == 401
        assert shut.request("HEAD", KEPT, headers=headers).content == b""


@pytest.mark.parametrize(
    ("headers", "status"), [({"If-None-Match": "*"}, 304), ({"Range": "bytes=0-3"}, 206)]
)
def test_parts_and_conditions_are_private_too(
    shut: Client, headers: dict[str, str], status: int
) -> None:
    for _ in range(2):
        answer = shut.request("GET", KEPT, headers=RIGHT | headers)

        assert answer.status_code == status
        assert answer.headers["Cache-Control"] == "private, max-age=86400"


@pytest.mark.parametrize("path", sorted(PROBES))
def test_probes_answer_without_a_key(shut: Client, path: str) -> None:
    assert shut.get(path).status_code == 200
    assert shut.head(path).status_code == 200


def test_a_page_may_ask_whether_it_may_send_a_key(shut: Client) -> None:
    answer = shut.request(
        "OPTIONS",
        "/rope/apply",
        headers={
            "Origin": "https://example.org",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        },
    )

    assert answer.status_code == 204
    assert answer.headers["Access-Control-Allow-Headers"] == "authorization"


def test_options_that_ask_nothing_need_a_key(shut: Client) -> None:
    assert shut.request("OPTIONS", "/rope/apply").status_code == 401


def test_refusals_are_counted(shut: Client) -> None:
    def refused() -> float:
        lines = shut.request("GET", "/metrics", headers=RIGHT).text.splitlines()
        counts = [line for line in lines if line.startswith("posref_answers_total")]
        return sum(float(line.split()[-1]) for line in counts if 'status="401"' in line)

    before = refused()
    shut.get("/rope")

    assert refused() == before + 1


def test_a_key_in_the_query_is_not_repeated(shut: Client) -> None:
    answer = shut.get(f"/rope?head_dim=4&seq_len=2&api_key={KEY}")

    assert answer.status_code == 401
    assert KEY not in answer.text
    assert "never in the query" in answer.json()["detail"]


def test_without_keys_none_is_asked_for(client: Client) -> None:
    assert client.get("/rope?head_dim=4&seq_len=2").status_code == 200
    answer = client.get("/rope.npy?head_dim=4&seq_len=2&pack=flat", authorization="Bearer any")
    assert answer.headers["Cache-Control"] == "public, max-age=86400"
