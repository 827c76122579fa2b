"""Every example of a problem in openapi.json is what the server says, but for numbers and tags."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pydantic import SecretStr

from service.app import create_app
from service.delivery import problems
from service.encodings.absolute.sinusoidal import SinusoidalEncoding
from service.settings import default_settings
from tests.client import client_of
from tests.contract.test_overload import served
from tests.openapi import inlined
from tests.serving.connections import NPY, PLAIN, connected, until

JSON_TYPE, TEXT = ({"Content-Type": each} for each in ("application/json", "text/plain"))
POST = "POST /rope/apply HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SLOW = "/encoding.npy.sha256?seq_len=2000000&d_model=512"


def problems_of_requests() -> Iterator[Any]:
    """Yield the problems of requests that the application refuses."""
    settings = {"max_request_seconds": 1}
    with client_of(create_app(default_settings().model_copy(update=settings))) as client:
        refused = [
            client.get("/encoding?seq_len=4&d_model=4&dmodel=512"),
            client.get("/encoding.npy?seq_len=4&d_model=4&dtype=bfloat16"),
            client.get("/encodings?seq_len=4&d_model=4"),
            client.get("/encoding?seq_len=4&d_model=4", accept="text/markdown"),
            client.get(NPY, if_match=f'"{"0" * 32}"'),
            client.get(NPY, range="bytes=192-"),
            client.get("/encoding.json?seq_len=1048576&d_model=512"),
            client.get(SLOW),
            client.post("/rope/apply", json={"start": 1}),
            client.post("/rope/apply", content=b"1", headers=TEXT),
            client.post("/rope/config", json=[]),
            client.post("/rope/config", json={"model_type": "lama"}),
            client.post("/model/diff", content=b"1", headers=TEXT),
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SinusoidalEncoding, "revision_of_bytes", 2)
            refused.append(client.get(f"{NPY}&revision=1"))
        client.app.state.delivery.is_draining = True
        refused.append(client.get("/readyz"))
        yield from (answer.json() for answer in refused)


def problems_of_limits() -> Iterator[Any]:
    """Yield the problems of requests beyond limits that are low here."""
    limits = {"max_body_bytes": 1, "max_json_body_bytes": 1}
    with client_of(create_app(default_settings().model_copy(update=limits))) as client:
        headers = {"Content-Type": "application/x-npy"}
        yield client.post("/rope/apply", content=b"12", headers=headers).json()
        yield client.post("/model/diff", content=b"12", headers=JSON_TYPE).json()
    locked = {"api_keys": SecretStr("correct-horse-battery")}
    with client_of(create_app(default_settings().model_copy(update=locked))) as client:
        yield client.get(NPY).json()
    with served(100) as (client, *_):
        yield client.get(SLOW).json()


async def problems_of_connections() -> list[Any]:
    """Return the problems of bytes that are no request, or not one within the limits."""
    sent = [
        "GARBAGE\r\n\r\n",
        PLAIN.replace("HTTP/1.1", "HTTP/2.0"),
        f"GET /?{'x' * 2000} HTTP/1.1\r\nHost: x\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\nX-Long: {'x' * 4000}\r\n\r\n",
        f"{POST}Content-Length: 100\r\n\r\n{{",
    ]
    answered = []
    for request in sent:
        async with connected(max_head_bytes=2048, max_url_bytes=1024) as connection:
            connection.writer.write(request.encode())
            protocol = await connection.protocol()
            if request == sent[-1]:
                await until(lambda: protocol.cycle is not None)  # noqa: B023 - awaited at once.
                protocol.check(asyncio.get_running_loop().time() + 131)
            answered.append(orjson.loads((await connection.answer())[2]))
    return answered


def masked(problem: dict[str, Any]) -> tuple[str, str]:
    """Return the type and the detail of a problem, with one number for all numbers and tags."""
    return problem["type"], re.sub(r'"[0-9a-f]{32}"|\d+', "0", problem["detail"])


def test_every_example_of_a_problem_is_what_the_server_says() -> None:
    with client_of(create_app(default_settings())) as client:
        document = client.get("/openapi.json").json()
    responses = inlined(document["components"]["responses"], document)
    contents = [each.get("content", {}).get(problems.MEDIA_TYPE) for each in responses.values()]
    examples = [each for content in contents if content for each in content["examples"].values()]
    shown = [example["value"] for example in examples]
    said = [
        problems.problem_of(problems.FAILURE),
        *problems_of_requests(),
        *problems_of_limits(),
        *asyncio.run(problems_of_connections()),
    ]

    assert len(shown) > 20
    assert {*map(masked, shown)} - {*map(masked, said)} == set()
