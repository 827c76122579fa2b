"""Layers around the application."""

from dataclasses import dataclass
from http import HTTPStatus

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.delivery.answer import Answer
from service.delivery.headers import OPEN_HEADERS, raw
from service.delivery.problems import failure_answer

_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class OpenToEveryOrigin:
    """Let pages of any origin read and embed every answer, without credentials.

    The headers are the same on every answer, asked for by a page or not: what a shared cache
    keeps is good for both, and nothing varies by Origin.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight; pass any other request on and open its answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *OPEN_HEADERS]
            await send(message)

        preflight = _preflight(scope)
        await (preflight or self.app)(scope, receive, send_opened)


@dataclass(frozen=True)
class FailuresAsProblems:
    """Answer a failure of our own with a problem, inside the layers that complete every answer.

    The failure goes on to the server, which logs it, or breaks off an answer that had begun. A
    client that leaves while it sends is no failure.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        begun = scope["type"] != "http"

        async def send_noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, send_noted)
        except ClientDisconnect:
            return
        except Exception:
            if not begun:
                await failure_answer()(scope, receive, send)
            raise


def _preflight(scope: Scope) -> Answer | None:
    """Allow what a page asks whether it may send; None for a request that is no preflight."""
    if scope["method"] != "OPTIONS":
        return None
    headers = Headers(scope=scope)
    if "access-control-request-method" not in headers:
        return None
    allowed = {
        "Access-Control-Allow-Methods": "GET, HEAD, POST",
        "Access-Control-Allow-Headers": headers.get("access-control-request-headers", "*"),
        "Access-Control-Max-Age": str(_DAY_SECONDS),
        "Vary": "Access-Control-Request-Headers",
    }
    return Answer(HTTPStatus.NO_CONTENT, raw(allowed))
