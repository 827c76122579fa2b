"""Layers around the application."""

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True)
class CrossOriginResources:
    """Let pages of any origin embed every answer."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with one header more in its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = (b"cross-origin-resource-policy", b"cross-origin")
                message["headers"] = [*message.get("headers", ()), policy]
            await send(message)

        await self.app(scope, receive, send_with_policy)
