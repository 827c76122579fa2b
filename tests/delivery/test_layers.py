"""Layers around the application."""

import asyncio
from typing import Any

from service.delivery.layers import CrossOriginResources


def test_every_answer_may_be_embedded_by_any_origin() -> None:
    messages: list[Any] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(CrossOriginResources(app)({"type": "http"}, None, send))  # type: ignore[arg-type]

    policy = (b"cross-origin-resource-policy", b"cross-origin")
    assert [(b"a", b"b"), policy] == messages[0]["headers"]


def test_what_is_no_request_passes_untouched() -> None:
    scopes: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        scopes.append(scope["type"])

    asyncio.run(CrossOriginResources(app)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]

    assert scopes == ["lifespan"]
