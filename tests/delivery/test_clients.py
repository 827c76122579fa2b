"""Who the client is: its key, its address, or the address that a trusted proxy reports."""

import asyncio
from hashlib import sha256
from ipaddress import ip_network
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from service.app import create_app
from service.delivery.clients import CLIENT, UNKNOWN, ClientAddresses
from service.settings import default_settings

PROXIES = (ip_network("10.0.0.0/8"), ip_network("192.0.2.1/32"), ip_network("fd00::/8"))
KEY = "correct-horse-battery"


def scope_of(peer: str | None, *forwarded: str) -> dict[str, Any]:
    """Return a scope with the address of a connection and headers X-Forwarded-For."""
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    client = None if peer is None else (peer, 40_000)
    return {"client": client, "headers": [(b"host", b"x"), *headers]}


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", UNKNOWN),
        ("", UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_client_is_the_address_of_the_connection_or_its_network(
    peer: str | None, name: str
) -> None:
    addresses = ClientAddresses(PROXIES)

    assert addresses.name_of(scope_of(peer)) == name
    # The header of others than trusted proxies is ignored.
    assert addresses.name_of(scope_of(peer, "198.51.100.7")) == name


@pytest.mark.parametrize(
    ("forwarded", "name"),
    [
        (["198.51.100.7"], "198.51.100.7"),
        (["1.1.1.1, 198.51.100.7"], "198.51.100.7"),
        (["1.1.1.1", "198.51.100.7"], "198.51.100.7"),
        (["198.51.100.7,10.9.9.9 ,  192.0.2.1"], "198.51.100.7"),
        (["junk, 198.51.100.7, fd00::5"], "198.51.100.7"),
        (["2001:db8::5, ::ffff:10.0.0.5"], "2001:db8::/64"),
        (["10.0.0.5"], "10.0.0.5"),
        (["10.0.0.5, 10.0.0.6"], "10.0.0.5"),
    ],
)
@pytest.mark.parametrize("peer", ["10.1.2.3", "192.0.2.1", "::ffff:10.1.2.3"])
def test_client_of_a_trusted_proxy_is_the_last_address_that_is_not_trusted(
    peer: str, forwarded: list[str], name: str
) -> None:
    assert ClientAddresses(PROXIES).name_of(scope_of(peer, *forwarded)) == name


@pytest.mark.parametrize(
    "forwarded",
    [
        "",
        ",",
        "unknown",
        "198.51.100.7:1234",
        "[2001:db8::5]",
        "198.51.100.007",
        "198.51.100.7 1.1.1.1",
        "198.51.100.7,",
        "198.51.100.7, junk, 10.0.0.5",
        "9" * 100_000,
        "," * 100_000,
        "\x00\xff\u20ac",
    ],
)
def test_trusted_proxy_is_the_client_where_its_header_is_no_address(forwarded: str) -> None:
    assert ClientAddresses(PROXIES).name_of(scope_of("10.1.2.3", forwarded)) == "10.1.2.3"


def test_without_trusted_proxies_the_header_is_ignored() -> None:
    assert ClientAddresses(()).name_of(scope_of("10.1.2.3", "198.51.100.7")) == "10.1.2.3"


def app_that_names_its_client(**settings: Any) -> FastAPI:
    app = create_app(default_settings().model_copy(update=settings))

    async def name(_: Request) -> PlainTextResponse:
        return PlainTextResponse(CLIENT.get())

    app.router.add_route("/client", name)
    return app


def names_seen_by(app: FastAPI, *headers: dict[str, str]) -> list[tuple[int, str]]:
    """Return status and body of the answers to requests with these headers."""

    async def ask() -> list[tuple[int, str]]:
        transport = httpx.ASGITransport(app, client=("10.1.2.3", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            answers = [await client.get("/client", headers=each) for each in headers]
        return [(answer.status_code, answer.text) for answer in answers]

    return asyncio.run(ask())


def test_work_of_a_request_knows_the_client_from_the_settings() -> None:
    forwarded = {"X-Forwarded-For": "198.51.100.7"}
    trusting = app_that_names_its_client(trusted_proxies="10.0.0.0/8")

    assert names_seen_by(trusting, forwarded, {}) == [(200, "198.51.100.7"), (200, "10.1.2.3")]
    assert names_seen_by(app_that_names_its_client(), forwarded) == [(200, "10.1.2.3")]
    assert CLIENT.get() == UNKNOWN


def test_client_with_a_key_is_the_digest_of_the_key_wherever_it_comes_from() -> None:
    keys, digest = SecretStr(f"{KEY},{KEY}-2"), sha256(KEY.encode()).hexdigest()
    app = app_that_names_its_client(api_keys=keys, trusted_proxies="10.0.0.0/8")
    key = {"Authorization": f"Bearer {KEY}"}

    named = names_seen_by(app, key, {**key, "X-Forwarded-For": "198.51.100.7"})

    assert named == [(200, digest)] * 2


def test_forwarded_address_replaces_no_key() -> None:
    app = app_that_names_its_client(api_keys=SecretStr(KEY), trusted_proxies="10.0.0.0/8")

    ((status, _),) = names_seen_by(app, {"X-Forwarded-For": "10.0.0.5"})

    assert status == 401
